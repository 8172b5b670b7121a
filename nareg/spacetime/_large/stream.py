"""Streams of large networks: the last few times are smoothed together, from a sparse stand-in for what came before.

The predicted covariance of a Kalman filter is dense. Its inverse is nearly a function of the field's precision: in a spatial
mode of precision ``theta``, a time with coverage c makes f to ``1 / (rho^2 / (f + c) + q / theta)``. A line ``f0 + f1 theta``
through f is the prior of the oldest of the times that are kept. Its error has decayed by the last of them, and their gaps count
exactly.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from nareg._linear.threads import one_thread
from nareg.errors import SolverError
from nareg.spacetime._base_stream import BaseStream, alone
from nareg.spacetime._large.system import TOO_SMALL, Process
from nareg.spacetime._large.variances import Chains, Forward

if TYPE_CHECKING:
    from nareg.spacetime._large.model import SparseSpaceTimeModel

#: Times that are smoothed together.
WINDOW = 4
#: Residual of an update's solve, and its most steps.
TOL, STEPS = 5e-3, 50
#: Spatial modes that the line is fitted to.
MODES = 64
#: Times after which the past is steady at the latest.
SETTLED = 2000


def begin(model: SparseSpaceTimeModel, y: np.ndarray, row: int, robust: float | None, pool: ThreadPoolExecutor) -> SparseStream:
    """A stream whose last step is ``row``, after the last readings (T, N) in the model's unit, without mean and cycles."""
    from nareg.spacetime._large.fitting import mean_of

    coverage = np.isfinite(y).mean(axis=0) / model.process.noise
    y = y[-model.memory :]
    weights = np.isfinite(y) / model.process.noise
    early = max(len(y) - WINDOW, 1)
    stream = SparseStream(model, row, robust, coverage, mean_of(y[:early], model.process, pool, TOL)[-1])
    for k in range(len(y)):
        stream.count(weights[k])
    for k in range(early):
        stream.past.step(float(weights[k].mean()))
    for k in range(early, len(y)):
        stream.push(np.nan_to_num(y[k]), weights[k])
    return stream


class _Past:
    """Precision ``f0 + f1 Theta`` of a prediction from all readings before, one time after another.

    ``f`` is the precision per spatial mode, which every time changes by its mean coverage, as in the module's docstring.
    """

    def __init__(self, process: Process):
        spatial = process.field
        waves = np.linspace(0.0, 2.0, MODES) + spatial.reach**-2.0
        self.theta = waves**spatial.family.smoothness * float(np.mean(spatial.scale**2))
        self.rho2, self.variance = process.rho**2, process.variance
        self.f = self.theta / self.variance  # before any reading

    def step(self, coverage: float) -> None:
        """After readings with a mean of ``1 / r`` of this, 0 in gaps, predict the next time."""
        q = self.variance * (1 - self.rho2)
        self.f = 1 / (self.rho2 / (self.f + coverage) + q / self.theta)

    def reach_steady_state(self, coverage: float) -> _Past:
        """The steady state for one coverage."""
        for _ in range(SETTLED):
            before = self.f
            self.step(coverage)
            if np.abs(self.f - before).max() <= 1e-10 * self.f.max():
                break
        return self

    def line(self) -> tuple[float, float]:
        """f0 and f1. Relative errors count: the smallest precisions are those of the largest patterns."""
        A = np.column_stack([np.ones(MODES), self.theta]) / self.f[:, None]
        f0, f1 = np.linalg.lstsq(A, np.ones(MODES), rcond=None)[0]
        return max(float(f0), 0.0), max(float(f1), 1e-3 / self.variance)


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
        self.past = _Past(process)
        self._share = coverage / (coverage.mean() or 1.0)  # of f0 at every station
        self._forward = Forward(Chains.of(process, coverage, model.graph.adjacency))
        self._values = np.zeros((0, model.n_nodes))
        self._weights = np.zeros((0, model.n_nodes))
        self._x = np.zeros((0, model.n_nodes))
        self._start = process.rho * mean  # prediction of the oldest time that is kept
        self._means = [mean]  # filtered, of the times before and within the window
        self._line = np.zeros(model.n_nodes), 1 / process.variance
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

    def _offset_variance(self, var: np.ndarray) -> np.ndarray:
        model = self.model
        return model.offset_variance(var[None], model.grid.seconds_of(np.array([self._row])))[0]

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
            self.past.step(float(self._weights[0].mean()))
            self._values, self._weights, self._x = self._values[1:], self._weights[1:], self._x[1:]
            self._start = rho * oldest
        self._values = np.vstack([self._values, values])
        self._weights = np.vstack([self._weights, weights])
        self._x = np.vstack([self._x, guess])
        if weights.any():
            self._solve()
        self._means = [*self._means[-WINDOW:], self._x[-1].copy()]

    @alone
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
            "pivots": np.array(forward.pivots), "ends": np.array(forward.ends), "past": self.past.f,
        }  # fmt: skip
        return arrays, {"row": self._row, "robust": self._robust}

    def restore(self, a: dict[str, np.ndarray]) -> None:
        """Restore the rest of a :meth:`snapshot`, beyond the constructor's arguments."""
        forward = self._forward
        self._start, self._values, self._weights, self._x = a["start"], a["values"], a["weights"], a["x"]
        self._means, self._strikes = list(a["means"]), a["strikes"]
        self.past.f = a["past"]
        forward.informed, forward.missing = a["informed"], a["missing"]
        forward.pivots, forward.ends = list(a["pivots"]), list(a["ends"])

    def _product(self, X: np.ndarray) -> np.ndarray:
        """The window's system times X (W, N)."""
        process, (f0, f1) = self.model.process, self._line
        q = process.variance * (1 - process.rho**2)
        spatial = np.ascontiguousarray((self._precision @ X.T).T)
        out = self._time(len(X)) @ spatial / q
        out[0] += f1 * spatial[0] + f0 * X[0]
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
            process = self.model.process
            # of a steady past, so that a stream from a file takes the same steps
            f0, f1 = _Past(process).reach_steady_state(float(self._coverage.mean())).line()
            spatial, q = process.field, process.variance * (1 - process.rho**2)
            first = np.zeros((W, W))
            first[0, 0] = f1 * q
            values, U = np.linalg.eigh(self._time(W) + first)
            factors = []
            for value, u in zip(values, U.T, strict=True):
                entries = max(value, 1e-12) / q * spatial.entries
                entries[: spatial.n] += self._coverage + u[0] ** 2 * f0 * self._share
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
        f0, f1 = self.past.line()
        self._line = self._share * f0, f1
        X, B = self._x, self._weights * self._values
        B[0] += f1 * (self._precision @ self._start) + self._line[0] * self._start
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
