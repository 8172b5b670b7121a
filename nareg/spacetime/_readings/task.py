"""What learning is asked for, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from nareg.progress import Progress, ProgressCallback
from nareg.spacetime._readings.cycle_errors import OffsetErrors

#: With fewer hidden readings nothing is compared by them.
FEWEST_HIDDEN = 20
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
