"""Trust-region Newton method for the rows of a factor V under ``low_i <= ||v_i||^2 <= high_i``.

Rows at a bound that q pushes against move on their sphere, the others freely; a step that leaves the bounds is taken
back along the row. A Hessian product costs what a gradient does.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from nareg.design._dual import Certificate, certify
from nareg.design._local import Progress
from nareg.design._support_quadratic import Point, SupportQuadratic

#: Of one search, all ranks and tolerances together.
MAX_STEPS = 500
MAX_CG = 300
#: Steps for which a preconditioner serves.
KEPT_STEPS = 4


class RowNewton:
    """Trust-region Newton method for the rows of V, with the radius in the norm of the preconditioner."""

    def __init__(self, quadratic: SupportQuadratic, low: np.ndarray, high: np.ndarray, progress: Progress | None) -> None:
        self.q = quadratic
        self.low, self.high = np.sqrt(low), np.sqrt(high)
        self.free = quadratic.enters & (self.high > self.low)
        self.moves = quadratic.enters
        self.reward = np.zeros(low.size)
        self.progress = progress
        self.steps = self.products = 0
        self.point: Point
        self.radius = np.inf
        self.floor = 0.0
        self.prepared: tuple[int, ...] = ()
        self.fresh_until = 0

    def begin(self, V: np.ndarray) -> None:
        """Start from V, made feasible."""
        self._take(self._clamped(V))
        # a value a billionth of the first one is zero: nothing is measured against less
        self.floor = max(self.floor, 1e-9 * self.point.square, 1e-300)

    def set_reward(self, reward: np.ndarray) -> None:
        """Minimise ``q - sum_i reward_i ||v_i||^2`` from here on."""
        self.reward = reward
        self._take(self.point.V, self.point)

    @property
    def scale(self) -> float:
        """Size of the value's part that S decides."""
        return max(self.point.square, self.floor)

    def _take(self, V: np.ndarray, point: Point | None = None) -> None:
        self.point = self.q.at(V) if point is None else point
        self.YV = self.q.apply(self.point.Y, V)
        self.merit = self._merit(self.point)
        self.length = np.linalg.norm(V, axis=1)
        square = np.maximum(self.length**2, 1e-300)
        pull = np.einsum("ik,ik->i", self.YV, V) / square - self.reward
        self.active = ((self.length <= self.low * (1 + 1e-10)) & (pull > 0)) | (
            (self.length >= self.high * (1 - 1e-10)) & (pull < 0)
        )
        self.lam = np.where(self.active, pull, 0.0)
        self.gradient = self._tangent(2 * (self.YV - self.reward[:, None] * V))

    def _merit(self, point: Point) -> float:
        return point.value - float(self.reward @ np.einsum("ik,ik->i", point.V, point.V))

    def _tangent(self, D: np.ndarray) -> np.ndarray:
        """Without the part along a row that is held at its bound; zero for rows with no say."""
        V = self.point.V
        along = np.where(self.active, np.einsum("ik,ik->i", D, V) / np.maximum(self.length**2, 1e-300), 0.0)
        return (D - along[:, None] * V) * self.moves[:, None]

    def _clamped(self, V: np.ndarray, active: np.ndarray | None = None) -> np.ndarray:
        """Every row's length taken into its bounds; that of a row held at a bound does not change."""
        length = np.linalg.norm(V, axis=1)
        V = V.copy()
        V[length == 0, 0] = 1.0
        kept = np.clip(length, self.low, self.high)
        if active is not None:
            kept = np.where(active, self.length, kept)
        return V * (kept / np.where(length == 0, 1.0, length))[:, None]

    def gradient_norm(self) -> float:
        """Projected gradient times row length, over the value."""
        return float(np.linalg.norm(self.gradient * self.length[:, None]) / self.scale)

    def run(self, tol: float) -> None:
        """Newton steps until the projected gradient is small or no step lowers the value."""
        first = self.gradient_norm()
        while self.steps < MAX_STEPS:
            norm = self.gradient_norm()
            if self.progress is not None:
                self.progress(self.steps, self.point.value, norm)
            if norm <= tol or not self._step(min(0.1, np.sqrt(norm / max(first, 1e-300)))):
                return

    def _step(self, forcing: float) -> bool:
        """One step; False if none lowers the value."""
        D, bounded = self._direction(forcing)
        slope = float(np.sum(self.gradient * D))
        length = np.sqrt(float(np.sum(D * self._metric(D))))
        t = 1.0
        while t > 1e-10:
            V = self._clamped(self.point.V + t * D, self.active)
            point = self.q.at(V)
            if self._merit(point) <= self.merit + 1e-4 * t * slope:
                break
            t /= 4
        else:
            return False
        self.steps += 1
        if t < 1:
            self.radius = 2 * t * length
        elif bounded:
            self.radius *= 3
        before = self.merit
        self._take(V, point)
        return before - self.merit > 1e-15 * self.scale

    def _direction(self, forcing: float) -> tuple[np.ndarray, bool]:
        """Steihaug's truncated conjugate gradients; whether the radius or negative curvature ended them."""
        self._prepare()
        D = np.zeros_like(self.gradient)
        R = -self.gradient
        Z = self._precondition(R)
        P = Z
        rz = first = float(np.sum(R * Z))
        if not np.isfinite(self.radius):
            self.radius = 10 * np.sqrt(float(np.sum(self.point.V * self._metric(self.point.V))))
        for _ in range(MAX_CG):
            HP = self._hessian(P)
            curvature = float(np.sum(P * HP))
            if curvature <= 1e-14 * float(np.sum(P * self._metric(P))):
                return D + self._to_boundary(D, P) * P, True
            alpha = rz / curvature
            following = D + alpha * P
            if np.sqrt(float(np.sum(following * self._metric(following)))) >= self.radius:
                return D + self._to_boundary(D, P) * P, True
            D = following
            R = R - alpha * HP
            Z = self._precondition(R)
            rz, previous = float(np.sum(R * Z)), rz
            if rz <= forcing**2 * first:
                break
            P = Z + (rz / previous) * P
        return D, False

    def _to_boundary(self, D: np.ndarray, P: np.ndarray) -> float:
        a, b = float(np.sum(P * self._metric(P))), float(np.sum(D * self._metric(P)))
        c = float(np.sum(D * self._metric(D))) - self.radius**2
        return (-b + np.sqrt(max(b * b - a * c, 0.0))) / max(a, 1e-300)

    def _hessian(self, D: np.ndarray) -> np.ndarray:
        """Hessian of the Lagrangian along D: ``2 (Y'[D] V + Y D - (lam + eps) D)``."""
        self.products += 1
        HD = self.q.apply(self.q.image(self.point.V, D), self.point.V) + self.q.apply(self.point.Y, D)
        return self._tangent(2 * (HD - (self.lam + self.reward)[:, None] * D))

    def _prepare(self) -> None:
        """Blocks of the preconditioner: curvature in one row, and the diagonal of Z."""
        if self.prepared == self.point.V.shape and self.steps < self.fresh_until:
            return
        self.prepared, self.fresh_until = self.point.V.shape, self.steps + KEPT_STEPS
        blocks = self.q.row_curvature(self.point.V)
        k = blocks.shape[1]
        trace = np.einsum("ijj->i", blocks)
        diagonal = np.maximum(self.q.grouped(self.point.Y).diagonal() - self.lam, 0.0)
        ridge = diagonal + 1e-3 * trace / k + 1e-12 * trace.max(initial=0.0) + 1e-300
        self.blocks = 2 * (blocks + ridge[:, None, None] * np.eye(k))
        self.inverse = np.linalg.inv(self.blocks)

    def _metric(self, D: np.ndarray) -> np.ndarray:
        return np.einsum("ikl,il->ik", self.blocks, D)

    def _precondition(self, R: np.ndarray) -> np.ndarray:
        return self._tangent(np.einsum("ikl,il->ik", self.inverse, R))

    def compress(self) -> None:
        """Columns that carry nothing are dropped: at a singular V the method would crawl."""
        U, s, _ = np.linalg.svd(self.point.V, full_matrices=False)
        keep = s > 1e-2 * s[0]
        if not keep.all():
            self.begin(U[:, keep] * s[keep])

    def certificate(self, size: np.ndarray, margin: float, small: float, mesh_like: bool) -> Certificate:
        """The dual bound of the program without the reward, for the rows that have a say."""
        rows = np.flatnonzero(self.moves)
        Y = sp.csr_array(self.q.grouped(self.point.Y)[rows][:, rows])
        point = replace(self.point, V=self.point.V[rows])
        pull = self.lam + self.reward
        found = certify(
            Y, point, pull[rows], self.low[rows] ** 2, self.high[rows] ** 2, size[rows],
            margin=margin,
            small=small,
            mesh_like=mesh_like,
        )  # fmt: skip
        if found.directions is None:
            return found
        directions = np.zeros((self.low.size, found.directions.shape[1]))
        directions[rows] = found.directions
        return replace(found, directions=directions)

    def escape(self, directions: np.ndarray) -> bool:
        """New columns along directions in which Z is negative; False if none lowers the value."""
        V = self.point.V
        before = self.merit
        t = 1.0
        while t > 1e-6:
            point = self.q.at(self._clamped(np.hstack([V, t * directions]), self.active))
            if self._merit(point) < before:
                self._take(point.V, point)
                self.radius = np.inf
                return True
            t /= 4
        return False
