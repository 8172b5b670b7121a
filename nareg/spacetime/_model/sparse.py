"""A fitted model of a large network, without anything dense."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nareg._solvers.backends import SolverBackend
from nareg._solvers.threads import one_thread
from nareg.progress import Progress, ProgressCallback
from nareg.spacetime._model import store
from nareg.spacetime._model.base import BaseModel, GridReadings
from nareg.spacetime._model.stream import SparseStream
from nareg.spacetime._readings.engine import FieldEstimate
from nareg.spacetime._readings.outliers import ROUNDS, contradicted
from nareg.spacetime._sparse.estimates import THREADS, FieldSolver, estimate, mean_of, open_solver
from nareg.spacetime._sparse.field import SMOOTHNESS, FieldFamily
from nareg.spacetime._sparse.markov import STARTING
from nareg.spacetime._sparse.system import Process
from nareg.spacetime._sparse.variances import OffsetShares

#: Residual of the solves of an estimate, of those that only look for gross outliers, and of the mean that a stream starts from.
TOL, ROUGH, START_TOL = 1e-8, 1e-3, 1e-6


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SparseSpaceTimeModel(BaseModel[SparseStream]):
    """A graph state-space model of a large network; :func:`fit` makes it above 500 stations.

    ``x_t = rho x_{t-1} + e_t``, ``y_t = x_t + v_t``, where the field's precision is that of a Matern field on the graph. Its
    smoother is the filter ``(C + S)^-1 C y`` on the product of the graph and time, solved by conjugate gradients.

    The mean is that of the dense smoother to a residual of 1e-8. Standard deviations are approximate: within 8 % in the
    median, more for fields that reach far and hardly move. Single values in gaps can be off by half. Bands are calibrated
    on hidden readings. The log-likelihood is an estimate with fixed random numbers.

    Attributes
    ----------
    graph, transform, unit, cycles, unit_noise, grid, bands, status, log_likelihood, details, timings
        As in :class:`SpaceTimeModel`.
    process : Process
        The autoregression ``rho``, the field's variance and reach (in edges) and the noise variances, in the model's unit.
    shares : OffsetShares
        What readings leave of errors of mean and cycles.
    """

    format: ClassVar[str] = "nareg-spacetime-sparse-2"

    process: Process
    shares: OffsetShares

    def offset_variance(self, var: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        """Variance (T, N) that errors of mean and cycles add to the field's, ``var`` (T, N), in the model's unit."""
        return self.cycles.variance_at(seconds) * self.shares.at(var / self.process.variance)

    @property
    def memory(self) -> int:
        """Steps after which the past no longer matters: its effect has fallen to 1e-6."""
        return int(np.ceil(np.log(1e-6) / np.log(max(abs(self.process.rho), 0.1))))

    @contextmanager
    def _solving(self, backend: SolverBackend) -> Iterator[FieldSolver]:
        with one_thread(), open_solver(backend, self.process, self.graph) as solver:
            yield solver

    def _smoothed(
        self, given: GridReadings, solver: FieldSolver, *, search: bool, progress: ProgressCallback | None
    ) -> FieldEstimate:
        solver.compare(readings=given.rows, robust=search)
        bad = self._outliers(given.rows, solver, progress)[0] if search else np.zeros(given.rows.shape, dtype=bool)
        x, var, value = solver.smooth(np.where(bad, np.nan, given.rows), TOL)
        if progress is not None:
            progress(Progress("smoothing", fraction=1.0))
        solver.compare(estimate=(x, var))
        return FieldEstimate(x, var, self.offset_variance(var, given.grid.seconds), np.isfinite(given.rows) & ~bad, value)

    def _ahead(self, given: GridReadings, seconds: np.ndarray) -> FieldEstimate:
        with one_thread(), ThreadPoolExecutor(THREADS) as pool:
            x, var = estimate(given.rows[-self.memory :], self.process, self.graph, pool, TOL)
        decay = self.process.rho ** np.arange(1, seconds.size + 1)[:, None]
        ahead = decay**2 * var[-1] + self.process.variance * (1 - decay**2)
        offsets = self.offset_variance(ahead, seconds)
        return FieldEstimate(decay * x[-1], ahead, offsets, np.isfinite(given.rows), float("nan"))

    def _scores(self, given: GridReadings) -> np.ndarray:
        with self._solving("scipy") as solver:
            return self._outliers(given.rows, solver, None)[1]

    def _stream(self, given: GridReadings, row: int, robust: float | None) -> SparseStream:
        process, y = self.process, given.rows[-self.memory :]
        stream = SparseStream(self, row, robust)
        weights = np.isfinite(y) / process.noise
        early = max(len(y) - int(STARTING / stream.filter.pattern.multiplications) - 1, 0)
        with one_thread(), ThreadPoolExecutor(THREADS) as pool:
            if early:
                shares = process.rho ** (2.0 * np.arange(early)[::-1])
                coverage = shares @ weights[:early] / shares.sum()
                stream.filter.settle(mean_of(y[:early], process, pool, START_TOL)[-1], coverage)
            for k in range(early, len(y)):
                if k:
                    stream.filter.predict()
                stream.filter.correct(y[k], weights[k])
        return stream

    def _draw(self, n_times: int, rng: np.random.Generator) -> np.ndarray:
        return self.process.draw(n_times, rng).T

    def _outliers(self, y: np.ndarray, solver: FieldSolver, progress: ProgressCallback | None) -> tuple[np.ndarray, np.ndarray]:
        """(T, N) True for readings that all others contradict, and every reading's deletion score."""
        fractions = iter(np.arange(1, ROUNDS + 1) / (ROUNDS + 1))

        def rough(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            done = solver.estimate(y, ROUGH)
            if progress is not None:
                progress(Progress("looking for outliers", fraction=float(next(fractions))))
            return done

        return contradicted(y, self.process.noise, self.process.variance, rough)

    def _own_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        process, shares = self.process, self.shares
        arrays = {"shares_field": shares.field, "shares_offset": shares.offset, "shares_known": shares.known}
        facts = {"rho": process.rho, "variance": process.variance, "reach": process.field.reach}
        return arrays, facts | {"smoothness": process.field.family.smoothness}

    @classmethod
    def from_arrays(cls, a: dict[str, np.ndarray], facts: dict[str, Any]) -> SparseSpaceTimeModel:
        """A model from what :meth:`to_arrays` gave, checked."""
        shared, smoothness = store.shared_fields(a, facts), facts["smoothness"]
        rho, variance, reach = (store.number(facts, name) for name in ("rho", "variance", "reach"))
        store.need(abs(rho) < 1 and variance > 0 and 0 < reach < 1e6, "its process is not stationary")
        store.need(smoothness in SMOOTHNESS, f"its smoothness is {smoothness!r}")
        spatial = FieldFamily(shared["graph"].adjacency, int(smoothness)).at(reach)
        process = Process(spatial, rho, variance, shared["unit_noise"])
        return cls(process=process, shares=_shares(a, shared["graph"].n_nodes), **shared)


def _shares(a: dict[str, np.ndarray], n: int) -> OffsetShares:
    place, share, known = a["shares_field"], a["shares_offset"], a["shares_known"]
    for name in ("shares_field", "shares_offset"):
        store.array(a, name, (place.size,))
    store.need(place.size >= 2 and bool((np.diff(place) > 0).all()), "the curve of its shares does not increase")
    store.need(bool(((share >= 0) & (share <= 1)).all()), "its shares are not between 0 and 1")
    store.need(known.shape == (n,) and known.dtype == bool, "shares_known is not a mask of its stations")
    return OffsetShares(place, share, known)
