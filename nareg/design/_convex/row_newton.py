"""Trust-region Newton method for the rows of a factor V under ``low_i <= ||v_i||^2 <= high_i``.

Rows at a bound that q pushes against move on their sphere, the others freely; a step that leaves the bounds is taken
back along the row. A Hessian product costs what a gradient does.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from nareg.design._convex.dual_bound import DualCertificate, certify
from nareg.design._convex.quadratic import LowRankPoint, SupportQuadratic
from nareg.design._risk.descent import report
from nareg.progress import ProgressCallback

#: Of one search, all ranks and tolerances together.
MAX_STEPS = 1000
MAX_CG = 300
#: Distance to the limit of all S, relative to it, at which nothing is left to gain.
AT_LIMIT = 1e-4
#: Steps for which a preconditioner serves.
PRECONDITIONER_STEPS = 8
#: Share of the rows' squared length in a direction that counts as unused.
UNUSED = 1e-3


class RowNewton:
    """Trust-region Newton method for the rows of V, with the radius in the norm of the preconditioner."""

    def __init__(
        self, quadratic: SupportQuadratic, low: np.ndarray, high: np.ndarray, progress: ProgressCallback | None
    ) -> None:
        self.q = quadratic
        self.low, self.high = np.sqrt(low), np.sqrt(high)
        self.free = quadratic.enters & (self.high > self.low)
        self.moves = quadratic.enters
        self.reward = np.zeros(low.size)
        self.progress = progress
        self.steps = self.products = 0
        self.point: LowRankPoint
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
        """Minimize ``q - sum_i reward_i ||v_i||^2`` from here on."""
        self.reward = reward
        self._take(self.point.V, self.point)

    @property
    def scale(self) -> float:
        """Size of the value's part that S decides."""
        return max(self.point.square, self.floor)

    def _take(self, V: np.ndarray, point: LowRankPoint | None = None) -> None:
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

    def _merit(self, point: LowRankPoint) -> float:
        return point.value - float(self.reward @ np.einsum("ik,ik->i", point.V, point.V))

    def _tangent(self, D: np.ndarray) -> np.ndarray:
        """Remove the part along each row at its bound; rows that do not affect q become zero."""
        V = self.point.V
        along = np.where(self.active, np.einsum("ik,ik->i", D, V) / np.maximum(self.length**2, 1e-300), 0.0)
        return (D - along[:, None] * V) * self.moves[:, None]

    def _clamped(self, V: np.ndarray, active: np.ndarray | None = None) -> np.ndarray:
        """Every row's length taken into its bounds; that of a row held at a bound does not change."""
        length = np.linalg.norm(V, axis=1)
        V = V.copy()
        V[length == 0, 0] = 1.0
        clipped = np.clip(length, self.low, self.high)
        if active is not None:
            clipped = np.where(active, self.length, clipped)
        return V * (clipped / np.where(length == 0, 1.0, length))[:, None]

    def gradient_norm(self) -> float:
        """Projected gradient times row length, over the value."""
        return float(np.linalg.norm(self.gradient * self.length[:, None]) / self.scale)

    def run(self, tol: float, last: int = MAX_STEPS) -> None:
        """Newton steps up to number ``last``, until the projected gradient is small or no step lowers the value."""
        first = self.gradient_norm()
        while self.steps < min(last, MAX_STEPS):
            norm = self.gradient_norm()
            report(self.progress, self.steps, self.point.value, norm)
            if norm <= tol or self._at_limit() or not self._step(min(0.1, np.sqrt(norm / max(first, 1e-300)))):
                return

    def _at_limit(self) -> bool:
        """Whether the value is near the lower limit for any S: with one known signal a long flat valley leads there."""
        return self.point.value - self.q.least <= AT_LIMIT * self.q.least

    def _step(self, forcing: float) -> bool:
        """One step; False if none lowers the value."""
        D, length, bounded = self._direction(forcing)
        slope = float(np.sum(self.gradient * D))
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

    def _direction(self, forcing: float) -> tuple[np.ndarray, float, bool]:
        """Steihaug's truncated conjugate gradients: step, its length, whether the radius or negative curvature ended it.

        Lengths are in the norm of the preconditioner, by recurrences (Conn, Gould, Toint 2000, section 7.5.1).
        """
        self._prepare()
        D = np.zeros_like(self.gradient)
        R = -self.gradient
        Z = self._precondition(R)
        P = Z
        rz = first = float(np.sum(R * Z))
        dd, dp, pp = 0.0, 0.0, rz  # squared lengths and the product of D and P
        if not np.isfinite(self.radius):
            self.radius = 10 * self._length(self.point.V)
        for _ in range(MAX_CG):
            HP = self._hessian(P)
            curvature = float(np.sum(P * HP))
            alpha = rz / curvature if curvature > 1e-14 * pp else np.inf
            following = dd + alpha * (2 * dp + alpha * pp)
            if following >= self.radius**2:  # or negative curvature
                t = (-dp + np.sqrt(max(dp * dp - pp * (dd - self.radius**2), 0.0))) / max(pp, 1e-300)
                return D + t * P, self.radius, True
            D += alpha * P
            R -= alpha * HP
            Z = self._precondition(R)
            rz, previous = float(np.sum(R * Z)), rz
            if rz <= forcing**2 * first:
                return D, np.sqrt(following), False
            beta = rz / previous
            dd, dp, pp = following, beta * (dp + alpha * pp), rz + beta**2 * pp
            P = Z + beta * P
        return D, np.sqrt(dd), False

    def _hessian(self, D: np.ndarray) -> np.ndarray:
        """Hessian of the Lagrangian along D: ``2 (Y'[D] V + Y D - (lam + eps) D)``."""
        self.products += 1
        HD = self.q.apply(self.q.image(self.point.V, D), self.point.V) + self.q.apply(self.point.Y, D)
        return self._tangent(2 * (HD - (self.lam + self.reward)[:, None] * D))

    def _prepare(self) -> None:
        """Blocks of the preconditioner: curvature in one row, and the diagonal of Z."""
        if self.prepared == self.point.V.shape and self.steps < self.fresh_until:
            return
        self.prepared, self.fresh_until = self.point.V.shape, self.steps + PRECONDITIONER_STEPS
        blocks = self.q.row_curvature(self.point.V)
        k = blocks.shape[1]
        trace = np.einsum("ijj->i", blocks)
        diagonal = np.maximum(self.q.grouped(self.point.Y).diagonal() - self.lam, 0.0)
        ridge = diagonal + 1e-3 * trace / k + 1e-12 * trace.max(initial=0.0) + 1e-300
        self.blocks = 2 * (blocks + ridge[:, None, None] * np.eye(k))
        self.inverse = np.linalg.inv(self.blocks)

    def _length(self, D: np.ndarray) -> float:
        """Norm of a change of V that belongs to the preconditioner."""
        return float(np.sqrt(np.einsum("ik,ikl,il->", D, self.blocks, D, optimize=["einsum_path", (0, 1), (0, 1)])))

    def _precondition(self, R: np.ndarray) -> np.ndarray:
        return self._tangent(np.matmul(self.inverse, R[:, :, None])[:, :, 0])

    def compress(self) -> None:
        """Drop columns that are nearly zero: the method converges slowly at a singular V."""
        U, s, _ = np.linalg.svd(self.point.V, full_matrices=False)
        retained = s > 1e-2 * s[0]
        if not retained.all():
            self.begin(U[:, retained] * s[retained])

    def certificate(self, size: np.ndarray, margin: float, small: float, mesh_like: bool) -> DualCertificate:
        """The dual bound of the program without the reward, for the rows that affect q."""
        rows = np.flatnonzero(self.moves)
        Y = sp.csr_array(self.q.grouped(self.point.Y)[rows][:, rows])
        point = replace(self.point, V=self.point.V[rows])
        pull = self.lam + self.reward
        certificate = certify(
            Y, point, pull[rows], self.low[rows] ** 2, self.high[rows] ** 2, size[rows],
            margin=margin,
            small=small,
            mesh_like=mesh_like,
        )  # fmt: skip
        if certificate.directions is None:
            return certificate
        directions = np.zeros((self.low.size, certificate.directions.shape[1]))
        directions[rows] = certificate.directions
        return replace(certificate, directions=directions)

    def escape(self, directions: np.ndarray) -> bool:
        """A step along directions in which Z is negative; False if none lowers the value.

        A direction u turns into the change ``u c^T`` of V with c where the rows near u have next to nothing: there the
        other part of the curvature vanishes. Where they use all columns u becomes a new one.
        """
        V = self.point.V
        step, fresh = np.zeros_like(V), []
        for u in directions.T:
            share, axes = np.linalg.eigh((V * (u**2)[:, None]).T @ V)
            if share[0] <= UNUSED * share.sum():
                step += np.outer(u, axes[:, 0])
            else:
                fresh.append(u)
        V = np.hstack([V, np.zeros((len(V), len(fresh)))])
        step = np.hstack([step, np.transpose(fresh).reshape(len(V), -1)])
        best, t, length, lowest = None, 1.0, 0.0, self.merit
        while t > 1e-6:
            point = self.q.at(self._clamped(V + t * step, self.active))
            merit = self._merit(point)
            if merit < lowest:
                best, length, lowest = point, t, merit
            elif best is not None:
                break
            t /= 2
        if best is None:
            return False
        self._take(best.V, best)
        self._prepare()
        self.radius = length * self._length(step)
        return True
