"""What the dense and the sparse engine are asked for, and what they answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from nareg.progress import Progress, ProgressCallback
from nareg.results import Status
from nareg.spacetime._readings.coefficients import Shrinkage
from nareg.spacetime._readings.covariates import Covariates
from nareg.spacetime._readings.cycle_errors import OffsetErrors
from nareg.spacetime._readings.cycles import Cycles, shrunk_cycles
from nareg.spacetime._readings.holdout import HeldOut
from nareg.spacetime._readings.series import Series
from nareg.spacetime._readings.space import Space
from nareg.spacetime._readings.times import TimeGrid

#: Smallest noise variance, relative to that of the readings.
FLOOR = 1e-7


@dataclass(frozen=True)
class LearningTask:
    """Options of the user."""

    dynamics: str  # "auto" or a kind of dynamics
    noise: np.ndarray | None  # (N,) known noise variances
    robust: bool  # leave gross outliers out of the fit
    rng: np.random.Generator
    offsets: OffsetErrors | None = None  # of the means and cycles that were removed
    least: np.ndarray | None = None  # (N,) variances that the noise has at least

    def of_rows(self, unit: float, offsets: OffsetErrors, least: np.ndarray) -> LearningTask:
        """The same for readings divided by ``unit``, from which uncertain means and cycles were removed.

        Their noise has at ``least`` these variances (N,), unless it is given.
        """
        noise = None if self.noise is None else np.maximum(self.noise / unit**2, FLOOR)
        return replace(self, noise=noise, offsets=offsets, least=None if noise is not None else least)

    def of(self, stations: np.ndarray) -> LearningTask:
        """The same for some of the stations."""
        noise, least = (None if part is None else part[stations] for part in (self.noise, self.least))
        return replace(self, noise=noise, least=least, offsets=None if self.offsets is None else self.offsets.of(stations))

    def bounded(self, noise: np.ndarray) -> np.ndarray:
        """Noise variances (N,) that are not below the least ones."""
        return noise if self.least is None else np.maximum(noise, self.least)


@dataclass
class StageClock:
    """Reports how far learning is. Each stage takes a share of the time and sees a roughly known number of rows."""

    report: ProgressCallback | None
    stage: str = "preparing"
    begin: float = 0.0
    end: float = 0.0
    expected: float = 1.0
    done: float = 0.0
    starts: list[tuple[str, float]] = field(default_factory=lambda: [("preparing", perf_counter())])

    def enter(self, stage: str, end: float, rows: float) -> None:
        """A new stage, until the fraction ``end`` of all, of about so many rows."""
        self.stage, self.begin, self.end = stage, self.end, end
        self.expected, self.done = max(rows, 1.0), 0.0
        self.starts.append((stage, perf_counter()))

    def timings(self) -> dict[str, float]:
        """Seconds per stage so far, and in total."""
        ends = [start for _, start in self.starts[1:]] + [perf_counter()]
        seconds = {stage: end - start for (stage, start), end in zip(self.starts, ends, strict=True)}
        return seconds | {"total": ends[-1] - self.starts[0][1]}

    def tick(self, rows: float) -> None:
        """So many rows were seen; a stage that sees more than it expected waits at its end."""
        self.done = min(self.done + rows, self.expected)
        if self.report is not None:
            fraction = self.begin + (self.end - self.begin) * self.done / self.expected
            self.report(Progress(self.stage, fraction=fraction))


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned from readings on a grid, how it was chosen, and the hidden readings with their predictions."""

    parts: Mapping[str, Any]  # what the engine's own kind of model has
    noise: np.ndarray  # (N,) variances
    field: float  # variance of the field
    excluded: np.ndarray  # (T, N) True for readings left out of the fit as gross outliers
    log_likelihood: float
    chosen: str  # the model, in a few words
    choices: list[tuple[str, float, float]]  # name, log-likelihood or gain at hidden readings, its standard error or NaN
    status: Status
    gradient: float
    held_out: HeldOut | None
    objective: tuple[float, ...] = ()
    noise_error: np.ndarray | None = None  # (2, N) by how much noise variances may be lower and higher


class Learner(ABC):
    """An engine that learns a model of a network."""

    @abstractmethod
    def patch(self, y: np.ndarray) -> tuple[np.ndarray, Space]:
        """Stations by which to choose a transform of readings (N, T), and where they are."""

    @abstractmethod
    def shrinkage(self, rows: np.ndarray, z: np.ndarray | None) -> Shrinkage:
        """What shrinks the means and cycles of readings (T, N), with slopes by standard covariates ``z`` (N, C)."""

    def cycles(
        self, rows: np.ndarray, grid: TimeGrid, wanted: str | tuple[str, ...], covariates: Covariates | None = None,
        series: Series | None = None,
    ) -> Cycles:  # fmt: skip
        """Means and cycles of readings (T, N) on a grid, by the covariates and series that help."""
        shrinkage = self.shrinkage(rows, None if covariates is None else covariates.standard)
        return shrunk_cycles(rows, grid, wanted, shrinkage, covariates, series)

    def regressed(self, cycles: Cycles, rows: np.ndarray, grid: TimeGrid, learned: Learned) -> tuple[Cycles, float]:
        """Means and cycles once more, by what was learned from readings (T, N) without them, and the gain in log-likelihood."""
        return cycles, 0.0

    @abstractmethod
    def learn(self, rows: np.ndarray, task: LearningTask, clock: StageClock) -> Learned:
        """Learn from readings (T, N), mean and cycles removed, NaN where missing."""


@dataclass(frozen=True, eq=False)
class FieldEstimate:
    """The field at times (T, N) in the model's unit, without mean and cycles."""

    x: np.ndarray
    var: np.ndarray
    offsets: np.ndarray  # (T, N) variance that errors of mean and cycles add
    used: np.ndarray  # (T, N) True for the readings that it comes from
    log_likelihood: float  # of these
