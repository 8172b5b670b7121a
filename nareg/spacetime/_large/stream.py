"""Streams of large networks: the last few times are smoothed together, from a sparse stand-in for what came before.

The predicted covariance of a Kalman filter is dense. Its inverse is nearly a function of the field's precision: in a spatial
mode of precision ``theta`` and with coverage c it is the steady solution of ``f = 1 / (rho^2 / (f + c) + q / theta)``. A line
``f0 + f1 theta`` through it is the prior of the oldest of the times that are kept, so that its error has decayed, and every gap
of the last times counts exactly.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nareg._linear.threads import one_thread
from nareg.errors import SolverError
from nareg.spacetime._base_stream import BaseStream
from nareg.spacetime._large.system import TOO_SMALL, Process
from nareg.spacetime._large.variances import Chains, Forward

if TYPE_CHECKING:
    from nareg.spacetime._large.model import SparseSpaceTimeModel

#: Times that are smoothed together.
WINDOW = 4
#: Residual of an update's solve, and its most steps.
TOL, STEPS = 5e-3, 50
#: Iterations of the Riccati recursion, and the spatial modes that the line is fitted to.
RICCATI, MODES = 2000, 64


def begin(model: SparseSpaceTimeModel, y: np.ndarray, row: int, robust: float | None, pool: ThreadPoolExecutor) -> SparseStream:
    """A stream whose last step is ``row``, after the last readings (T, N) in the model's unit, without mean and cycles."""
    from nareg.spacetime._large.fitting import estimate

    weights = np.isfinite(y) / model.process.noise
    coverage = weights.mean(axis=0)
    early = max(len(y) - WINDOW, 1)
    mean = estimate(y[:early], model.process, model.graph, pool, TOL)[0][-1]
    stream = SparseStream(model, row, robust, coverage, mean)
    for k in range(len(y)):
        stream.count(weights[k])
    for k in range(early, len(y)):
        stream.push(np.nan_to_num(y[k]), weights[k])
    return stream


@dataclass(frozen=True, eq=False)
class _Prior:
    """Precision ``f0 + f1 Theta`` of a prediction from all readings before."""

    f0: np.ndarray  # (N,)
    f1: float

    @classmethod
    def of(cls, process: Process, coverage: np.ndarray) -> _Prior:
        rho2, q = process.rho**2, process.variance * (1 - process.rho**2)
        spatial = process.field
        waves = np.linspace(0.0, 2.0, MODES) + spatial.reach**-2.0
        theta = waves**spatial.family.smoothness * float(np.mean(spatial.scale**2))
        c = float(coverage.mean())
        f = theta / process.variance
        for _ in range(RICCATI):
            before, f = f, 1 / (rho2 / (f + c) + q / theta)
            if np.abs(f - before).max() <= 1e-10 * f.max():
                break
        # relative errors count: the smallest precisions are those of the largest patterns
        A = np.column_stack([np.ones(MODES), theta]) / f[:, None]
        f0, f1 = np.linalg.lstsq(A, np.ones(MODES), rcond=None)[0]
        f1 = max(float(f1), 1e-3 / process.variance)
        return cls(np.full(spatial.n, max(float(f0), 0.0)) * (coverage / c if c > 0 else 0.0), f1)


class SparseStream(BaseStream):
    """A filter that continues after a large model's readings; :meth:`SparseSpaceTimeModel.stream` makes it.

    An update takes a few sparse solves; memory stays the same. Means and standard deviations are those of a Kalman filter
    within a few percent. Updates have no log-likelihood (NaN), which would take a determinant per step.

    Attributes
    ----------
    model : SparseSpaceTimeModel
    """

    model: SparseSpaceTimeModel

    def __init__(self, model: SparseSpaceTimeModel, row: int, robust: float | None, coverage: np.ndarray, mean: np.ndarray):
        super().__init__(model, row, robust)
        process = model.process
        self._coverage = coverage
        self._precision = process.field.precision()
        self._prior = _Prior.of(process, coverage)
        self._forward = Forward(Chains.of(process, coverage, model.graph.adjacency))
        self._values = np.zeros((0, model.n_nodes))
        self._weights = np.zeros((0, model.n_nodes))
        self._x = np.zeros((0, model.n_nodes))
        self._start = process.rho * mean  # prediction of the oldest time that is kept
        self._means = [mean]  # filtered, of the times before and within the window
        self._systems: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def _advance(self, steps: int) -> None:
        empty = np.zeros(self.model.n_nodes)
        for _ in range(min(steps - 1, self.model.memory)):
            self.count(empty)
            self.push(empty, empty)

    def _expected(self) -> tuple[np.ndarray, np.ndarray]:
        process = self.model.process
        var = process.rho**2 * self._forward.variance() + (1 - process.rho**2) * process.variance
        return process.rho * self._means[-1], var

    def _correct(self, y: np.ndarray) -> float:
        weights = np.isfinite(y) / self.model.process.noise
        self.count(weights)
        with one_thread():
            self.push(np.nan_to_num(y), weights)
        return float("nan")

    def _corrected(self) -> tuple[np.ndarray, np.ndarray]:
        return self._means[-1], self._forward.variance()

    def count(self, weights: np.ndarray) -> None:
        """Take the next time's information ``1 / r`` (N,) into the variances."""
        self._forward.step(weights)

    def push(self, values: np.ndarray, weights: np.ndarray) -> None:
        """Take in the next time's readings (N,), where ``weights`` are not zero, and smooth the window."""
        rho = self.model.process.rho
        guess = rho * self._means[-1]
        if len(self._values) == WINDOW:
            oldest = self._means[-WINDOW]
            self._values, self._weights, self._x = self._values[1:], self._weights[1:], self._x[1:]
            self._start = rho * oldest
        self._values = np.vstack([self._values, values])
        self._weights = np.vstack([self._weights, weights])
        self._x = np.vstack([self._x, guess])
        if weights.any():
            self._solve()
        self._means = [*self._means[-WINDOW:], self._x[-1].copy()]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the stream and its model, whole or not at all; :func:`load_stream` continues it."""
        from nareg.spacetime._large.store import save_stream

        save_stream(self, path)

    def snapshot(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """State of the stream beside its model: arrays, and plain facts."""
        forward = self._forward
        arrays = {
            "coverage": self._coverage, "start": self._start, "values": self._values, "weights": self._weights, "x": self._x,
            "means": np.array(self._means), "strikes": self._strikes, "informed": forward.informed, "missing": forward.missing,
            "pivots": np.array(forward.pivots), "ends": np.array(forward.ends),
        }  # fmt: skip
        return arrays, {"row": self._row, "robust": self._robust}

    def restore(self, a: dict[str, np.ndarray]) -> None:
        """Restore the rest of a :meth:`snapshot`, beyond the constructor's arguments."""
        forward = self._forward
        self._start, self._values, self._weights, self._x = a["start"], a["values"], a["weights"], a["x"]
        self._means, self._strikes = list(a["means"]), a["strikes"]
        forward.informed, forward.missing = a["informed"], a["missing"]
        forward.pivots, forward.ends = list(a["pivots"]), list(a["ends"])

    def _product(self, X: np.ndarray) -> np.ndarray:
        """The window's system times X (W, N)."""
        process, prior = self.model.process, self._prior
        q = process.variance * (1 - process.rho**2)
        spatial = np.ascontiguousarray((self._precision @ X.T).T)
        out = self._time(len(X)) @ spatial / q
        out[0] += prior.f1 * spatial[0] + prior.f0 * X[0]
        out += self._weights * X
        return out

    def _time(self, W: int) -> np.ndarray:
        """Precision in time of W - 1 steps of unit variance."""
        rho = self.model.process.rho
        D = np.eye(W)[1:] - rho * np.eye(W)[:-1]
        return D.T @ D

    def _preconditioner(self, W: int) -> tuple[np.ndarray, np.ndarray]:
        """Modes (W, W) of the window's times, and the factor of every mode's system in space, (W, entries)."""
        if W not in self._systems:
            process, prior = self.model.process, self._prior
            spatial, q = process.field, process.variance * (1 - process.rho**2)
            first = np.zeros((W, W))
            first[0, 0] = prior.f1 * q
            values, U = np.linalg.eigh(self._time(W) + first)
            factors = []
            for value, u in zip(values, U.T, strict=True):
                entries = max(value, 1e-12) / q * spatial.entries
                entries[: spatial.n] += self._coverage + u[0] ** 2 * prior.f0
                done = spatial.family.elimination.factor(entries)
                if done is None:
                    raise SolverError(TOO_SMALL)
                factors.append(done[1].astype(np.float32))  # half the memory to read, and a preconditioner still
            self._systems[W] = U, np.array(factors)
        return self._systems[W]

    def _precondition(self, R: np.ndarray) -> np.ndarray:
        from nareg.spacetime._large import kernels  # numba: imported when first needed

        U, factors = self._preconditioner(len(R))
        how = self.model.process.field.family.elimination
        return U @ kernels.solve_each(*how.compact, factors, how.rank, U.T @ R)

    def _solve(self) -> None:
        """Smooth the window, from the last solution on."""
        prior, X = self._prior, self._x
        B = self._weights * self._values
        B[0] += prior.f1 * (self._precision @ self._start) + prior.f0 * self._start
        R = B - self._product(X)
        Z = self._precondition(R)
        rz = float(np.vdot(R, Z))
        goal = TOL**2 * float(np.vdot(X, self._product(X)) + rz)
        P = Z
        for _ in range(STEPS):
            if rz <= goal:
                break
            Q = self._product(P)
            alpha = rz / float(np.vdot(P, Q))
            X = X + alpha * P
            R = R - alpha * Q
            Z = self._precondition(R)
            new = float(np.vdot(R, Z))
            P = Z + new / rz * P
            rz = new
        self._x = X
