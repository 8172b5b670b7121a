"""Damped Newton method for the rows of a factor V under ``low_i <= ||v_i||^2 <= high_i``.

Rows at a bound that q pushes against move on their sphere, the others freely; a step that leaves the bounds is taken
back along the row. A Hessian product costs what a gradient does.

The model goes wrong around a few rows at a time: where curvature is negative, or a row wants to move further than its own
length. So every row has a damping of its own (Levenberg and Marquardt's, in units of its curvature). One radius for all rows
made a large network wait for each of its places in turn: the number of steps grew with the number of nodes.
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
#: Hessian products of a step: more are spent on a model that the next step replaces.
MAX_CG = 30
#: Distance to the limit of all S, relative to it, at which nothing is left to gain.
AT_LIMIT = 1e-4
#: Steps for which a preconditioner serves.
PRECONDITIONER_STEPS = 8
#: Share of the rows' squared length in a direction that counts as unused.
UNUSED = 1e-3
#: A row's longest change in a step, relative to its length.
LONGEST_STEP = 0.5
#: Factor of the damping after a step that the model foresaw, and damping below which there is none.
DECAY, LEAST_DAMPING = 0.5, 1e-3
#: The model foresaw a step if this part of what it promised came true.
FORESEEN = 0.75


class RowNewton:
    """Newton method for the rows of V, each damped where the model has gone wrong around it."""

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
        self.damping = np.zeros(low.size)
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
        D, promised = self._direction(forcing)
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
        relative, before = self._relative_length(D), self.merit
        if t < 1:  # the rows that move furthest are those that it was wrong about
            self._damp(relative > 0.5 * relative.max(), 1.0)
        elif before - self._merit(point) > FORESEEN * promised:
            self.damping *= np.where(relative < LONGEST_STEP, DECAY, 1.0)
            self.damping[self.damping < LEAST_DAMPING] = 0.0
        self._take(V, point)
        return before - self.merit > 1e-15 * self.scale

    def _direction(self, forcing: float) -> tuple[np.ndarray, float]:
        """A step by truncated conjugate gradients on the damped Hessian, and what the model promises for it.

        Where curvature is negative along a direction, it is so in the part of some rows: these are damped until it is
        positive, and the search goes on. No row changes by more than a share of its length.
        """
        self._prepare()
        D, R = np.zeros_like(self.gradient), -self.gradient
        P = Z = self._precondition(R)
        rz = first = float(np.sum(R * Z))
        taken = 0
        for _ in range(3 * MAX_CG):
            HP = self._hessian(P)
            square = self.size * np.einsum("ik,ik->i", P, P)
            each = np.einsum("ik,ik->i", P, HP) + self.damping * square
            if each.sum() <= 1e-10 * square.sum():
                more = np.where(each < 0, -1.5 * each / np.maximum(square, 1e-300), 0.0)
                self.damping += more
                self._invert()
                R -= self._tangent((more * self.size)[:, None] * D)
                if _decrease(self.gradient, R, D) <= 0:  # with the new damping too long a step
                    D, R = np.zeros_like(D), -self.gradient
                P = Z = self._precondition(R)
                rz = float(np.sum(R * Z))
                continue
            alpha = rz / float(each.sum())
            D += alpha * P
            R -= alpha * (HP + self._tangent((self.damping * self.size)[:, None] * P))
            Z = self._precondition(R)
            rz, previous = float(np.sum(R * Z)), rz
            taken += 1
            if rz <= forcing**2 * first or taken == MAX_CG:
                break
            P = Z + rz / previous * P
        if not D.any():
            D = Z
        promised = _decrease(self.gradient, R, D)
        relative = self._relative_length(D)
        if (relative > LONGEST_STEP).any():
            self._damp(relative > LONGEST_STEP, 0.1)
            clipped = D * np.minimum(1.0, LONGEST_STEP / np.maximum(relative, 1e-300))[:, None]
            if np.sum(clipped * self.gradient) < 0:
                D = clipped
        return D, promised

    def _relative_length(self, D: np.ndarray) -> np.ndarray:
        """Length of every row of a step over that of the row."""
        shortest = 1e-6 * float(self.length.max(initial=0.0)) or 1.0
        return np.linalg.norm(D, axis=1) / np.maximum(self.length, shortest)

    def _damp(self, rows: np.ndarray, least: float) -> None:
        self.damping[rows] = np.maximum(4 * self.damping[rows], least)

    def _hessian(self, D: np.ndarray) -> np.ndarray:
        """Hessian of the Lagrangian along D: ``2 (Y'[D] V + Y D - (lam + eps) D)``."""
        self.products += 1
        HD = self.q.apply(self.q.image(self.point.V, D), self.point.V) + self.q.apply(self.point.Y, D)
        return self._tangent(2 * (HD - (self.lam + self.reward)[:, None] * D))

    def _prepare(self) -> None:
        """Blocks of the preconditioner: curvature in one row, and the diagonal of Z."""
        if self.prepared != self.point.V.shape or self.steps >= self.fresh_until:
            self.prepared, self.fresh_until = self.point.V.shape, self.steps + PRECONDITIONER_STEPS
            blocks = self.q.row_curvature(self.point.V)
            k = blocks.shape[1]
            trace = np.einsum("ijj->i", blocks)
            diagonal = np.maximum(self.q.grouped(self.point.Y).diagonal() - self.lam, 0.0)
            ridge = diagonal + 1e-3 * trace / k + 1e-12 * trace.max(initial=0.0) + 1e-300
            self.blocks = 2 * (blocks + ridge[:, None, None] * np.eye(k))
            self.size = np.einsum("ijj->i", self.blocks) / k
            self.inverse, self.inverted = np.linalg.inv(self.blocks), np.zeros_like(self.size)
        self._invert()

    def _invert(self) -> None:
        """Inverses of the blocks with the present damping, where it has changed."""
        rows = np.flatnonzero(self.damping != self.inverted)
        ridge = (self.damping * self.size)[rows, None, None] * np.eye(self.blocks.shape[1])
        self.inverse[rows] = np.linalg.inv(self.blocks[rows] + ridge)
        self.inverted = self.damping.copy()

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
            Y, point, pull[rows], (self.low[rows] ** 2, self.high[rows] ** 2), size[rows],
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
        best, t, lowest = None, 1.0, self.merit
        while t > 1e-6:
            point = self.q.at(self._clamped(V + t * step, self.active))
            merit = self._merit(point)
            if merit < lowest:
                best, lowest = point, merit
            elif best is not None:
                break
            t /= 2
        if best is None:
            return False
        self._take(best.V, best)
        return True


def _decrease(gradient: np.ndarray, R: np.ndarray, D: np.ndarray) -> float:
    """What the quadratic model falls by over the step D, whose residual is ``R = -gradient - H D``."""
    return 0.5 * float(np.sum((R - gradient) * D))
