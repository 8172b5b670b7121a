"""A fitted model of a large network: smooth, forecast, simulate, stream, without anything dense."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg._solvers.backends import SolverBackend
from nareg._solvers.threads import one_thread
from nareg.progress import Progress, ProgressCallback
from nareg.spacetime._model.base import BaseModel, GridReadings, on_grid
from nareg.spacetime._model.results import Smoothed
from nareg.spacetime._model.sparse_stream import SparseStream, begin
from nareg.spacetime._readings.outliers import ABSURD, deletion_scores, gross
from nareg.spacetime._sparse.engines import Engine, Local, open_engine
from nareg.spacetime._sparse.fitting import estimate
from nareg.spacetime._sparse.system import Process
from nareg.spacetime._sparse.variances import OffsetShares

#: Residual of the solves of an estimate, and of those that only look for gross outliers.
TOL, ROUGH = 1e-8, 1e-3
#: Rounds that look for gross outliers.
ROUNDS = 3
#: Threads: each solves for some of the frequencies in time.
THREADS = min(4, os.cpu_count() or 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class SparseSpaceTimeModel(BaseModel):
    """A graph state-space model of a large network; :func:`fit` makes it above 500 stations.

    ``x_t = rho x_{t-1} + e_t``, ``y_t = x_t + v_t``, where the field's precision is that of a Matern field on the graph. Its
    smoother is the filter ``(C + S)^-1 C y`` on the product of the graph and time, solved by conjugate gradients.

    Attributes
    ----------
    graph, transform, unit, cycles, unit_noise, grid, bands, status, log_likelihood, details, timings
        As in :class:`SpaceTimeModel`.
    process : Process
        The autoregression ``rho``, the field's variance and reach (in edges) and the noise variances, in the model's unit.
    shares : OffsetShares
        What readings leave of errors of mean and cycles.
    """

    process: Process
    shares: OffsetShares

    def smooth(
        self, readings: ArrayLike | None = None, *, times: ArrayLike | None = None, observed: ArrayLike | None = None,
        robust: bool = True, backend: SolverBackend = "scipy", progress: ProgressCallback | None = None,
    ) -> Smoothed:  # fmt: skip
        """Estimate the field at every station and time from all readings before and after.

        The mean is that of the dense smoother to a residual of 1e-8. Standard deviations are approximate: within 8 % in the
        median, more for fields that reach far and hardly move. Single values in gaps can be off by half. Bands are calibrated
        on hidden readings. The log-likelihood is an estimate with fixed random numbers.

        Parameters
        ----------
        readings : (N, T) array, optional
            NaN where missing. Default: the readings that the model was fitted to.
        times : (T,) array, optional
            Needed for readings at other times than those of the fit.
        observed : (N, T) bool array, optional
            False marks a reading as missing.
        robust : bool
            Ignore readings more than five standard deviations from their prediction by all others.
        backend : {"scipy", "torch", "petsc"} or Torch
            Library that solves. ``"torch"`` solves for the mean, on CUDA where there is one; a
            :class:`~nareg.filters.Torch` has a device and a precision. ``"petsc"`` solves for all on the ranks of
            ``mpiexec``, which pass the same model and readings, and get the same results.
        progress : callable, optional
            Called with a :class:`~nareg.progress.Progress` per solve: its stage, and the fraction that is done.

        Examples
        --------
        >>> import numpy as np, nareg
        >>> rng = np.random.default_rng(0)
        >>> g = nareg.graphs.grid((6, 6))
        >>> truth = np.cumsum(0.1 * rng.standard_normal(100)) + np.zeros((36, 1))
        >>> readings = truth + 0.5 * rng.standard_normal((36, 100))
        >>> smoothed = nareg.spacetime.fit(g, readings, rng=rng, engine="sparse").smooth()
        >>> bool(np.sqrt(np.mean((smoothed.x - truth) ** 2)) < 0.15)
        True
        """
        started = perf_counter()
        with one_thread(), open_engine(backend, self.process, self.graph, THREADS) as solver:
            given = on_grid(self, readings, times, observed, exclude=robust)
            y = given.rows - given.offset
            search = robust and readings is not None
            solver.compare(readings=y, robust=search)
            bad = self._outliers(y, solver, progress)[0] if search else np.zeros(y.shape, dtype=bool)
            calm = np.where(bad, np.nan, y)
            x, var, value = solver.smooth(calm, TOL)
            if progress is not None:
                progress(Progress("smoothing", fraction=1.0))
            rows = given.grid.rows
            offsets = self.offset_variance(var[rows], given.grid.seconds_of(rows))
            var = self.seen_variance(var[rows], offsets, np.isfinite(calm[rows]))
            smoothed = self._result(x[rows] + given.offset[rows], var, given, value, calm, started)
            solver.compare(estimate=(smoothed.x, smoothed.std))
        return smoothed

    def _forecast(self, steps: int, given: GridReadings, started: float) -> Smoothed:
        y = (given.rows - given.offset)[-self.memory :]
        with one_thread(), ThreadPoolExecutor(THREADS) as pool:
            x, var = estimate(y, self.process, self.graph, pool, TOL)
        decay = self.process.rho ** np.arange(1, steps + 1)[:, None]
        seconds = given.grid.seconds_of(len(given.rows) + np.arange(steps))
        ahead = decay**2 * var[-1] + self.process.variance * (1 - decay**2)
        ahead += self.offset_variance(ahead, seconds)
        times = np.array([given.grid.time_of(len(given.rows) + k) for k in range(steps)])
        return self._smoothed(decay * x[-1] + self.cycles.at(seconds), ahead, times, float("nan"), started)

    def offset_variance(self, var: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        """Variance (T, N) that errors of mean and cycles add to the field's, ``var`` (T, N), in the model's unit."""
        return self.cycles.variance_at(seconds) * self.shares.at(var / self.process.variance)

    def _draw(self, n_times: int, rng: np.random.Generator) -> np.ndarray:
        return self.process.draw(n_times, rng).T

    def stream(
        self, *, readings: ArrayLike | None = None, times: ArrayLike | None = None, robust: float | None = 4.0
    ) -> SparseStream:
        """Start a filter that takes in new readings after the last of the model's.

        Parameters
        ----------
        readings, times
            Readings to start from; default those of the fit.
        robust : float or None
            Readings further than ``robust`` standard deviations from their prediction are moved to that distance. After four
            such readings in a row a station is ignored until it reads near its prediction again. None takes every reading as
            it is.
        """
        if robust is not None:
            robust = checks.number("robust", robust, low=0, strict=True)
        given = on_grid(self, readings, times, exclude=robust is not None)
        first = round(float(self.grid.row_of(given.grid.values[:1])[0])) if readings is not None else 0
        y = given.rows - given.offset
        with one_thread(), ThreadPoolExecutor(THREADS) as pool:
            return begin(self, y, first + given.grid.length - 1, robust, pool)

    def scores(self, readings: ArrayLike | None = None, *, times: ArrayLike | None = None) -> np.ndarray:
        """Readings minus their predictions from all others, in standard deviations, (N, T); NaN where there is no reading."""
        given = on_grid(self, readings, times, exclude=False)
        with one_thread(), ThreadPoolExecutor(THREADS) as pool:
            _, scores = self._outliers(given.rows - given.offset, Local(self.process, self.graph, pool), None)
        return scores[given.grid.rows].T

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and its readings to an .npz file, whole or not at all; :func:`load` reads it."""
        from nareg.spacetime._model.sparse_store import save

        save(self, path)

    @property
    def memory(self) -> int:
        """Steps after which the past no longer matters: its effect has fallen to 1e-6."""
        return int(np.ceil(np.log(1e-6) / np.log(max(abs(self.process.rho), 0.1))))

    def _outliers(self, y: np.ndarray, solver: Engine, progress: ProgressCallback | None) -> tuple[np.ndarray, np.ndarray]:
        """(T, N) True for readings that all others contradict, and every reading's deletion score."""
        noise = self.process.noise
        with np.errstate(invalid="ignore"):
            bad = np.abs(y) > ABSURD * np.sqrt(self.process.variance + noise)
        for k in range(ROUNDS):
            x, var = solver.estimate(np.where(bad, np.nan, y), ROUGH)
            scores = deletion_scores(y, x, var, np.where(bad, np.inf, noise))
            # a deleted reading is judged with the noise that it would have
            scores = np.where(bad, (y - x) / np.sqrt(var + noise), scores)
            if progress is not None:
                progress(Progress("looking for outliers", fraction=(k + 1) / (ROUNDS + 1)))
            wild = gross(scores)
            if (wild == bad).all():
                break
            bad = wild
        return bad, scores

    def _result(
        self, x: np.ndarray, var: np.ndarray, given: GridReadings, value: float, used: np.ndarray, started: float
    ) -> Smoothed:
        # readings that were left out have no likelihood
        seen = given.values[np.isfinite(used[given.grid.rows].T)]
        value += float(self.transform.log_slope(seen).sum()) - seen.size * float(np.log(self.unit))
        return self._smoothed(x, var, given.grid.values, value, started)

    def _smoothed(self, x: np.ndarray, var: np.ndarray, times: np.ndarray, value: float, started: float) -> Smoothed:
        x, var = x.T, var.T
        mean, std = self.to_mean(x, var)
        return Smoothed(
            mean, std, self.status, value, times, self.unit_noise * self.unit**2, x * self.unit, var * self.unit**2,
            self.transform, self.bands, self.graph, {"total": perf_counter() - started},
        )  # fmt: skip
