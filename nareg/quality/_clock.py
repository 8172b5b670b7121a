"""A wrong clock: readings that fit the other stations at earlier or later times, as after a reset or in another time zone.

The station's own cycles came from the times in doubt. So what is expected of it has the median of all stations' cycles.
Weather that passes reaches one station before another, but takes little of the difference away; hence the limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nareg.quality._others import Others
from nareg.quality._residuals import Residuals
from nareg.spacetime._times import TimeGrid

#: Delays up to a day, or so many steps where times are numbers; so many each way are tried.
DAY, STEPS, TRIED = 86_400.0, 24, 48
#: Parts of the span; most of them must fit better, and the median part by this share of the squares.
PARTS, MOST, LEFT = 8, 7, 0.5
#: The squares fall by so many standard errors at least.
CLEAR = 4.0
#: Readings in the span, at least.
SHORTEST = 64
#: Differences count up to so many standard deviations.
CAP = 6.0


@dataclass(frozen=True)
class Delay:
    """A station whose labels from ``start`` to ``stop`` are ``steps`` of the grid late.

    The share ``left`` of its squared differences from the others remains then. They fall by ``ratio`` standard errors, and
    its readings are off by ``size``.
    """

    station: int
    start: int
    stop: int
    steps: int
    left: float
    ratio: float
    size: float

    @property
    def order(self) -> float:
        """How clear the fault is beside others of its kind."""
        return 1 / self.left


def delays(residuals: Residuals, seen: Others) -> list[Delay]:
    """Stations with a wrong clock, from some time on, up to some time, or throughout."""
    cycles = residuals.offset - residuals.offset.mean(axis=0)
    values = np.where(residuals.frozen | residuals.absurd, np.nan, residuals.y) + cycles
    expected = seen.prediction + np.median(cycles, axis=1)[:, None]
    enough = np.isfinite(values).sum(axis=0) >= SHORTEST
    if enough.sum() < 4:
        return []
    lags = _lags(residuals.grid)
    results = (_station(int(i), values[:, i], expected[:, i], float(seen.std[i]), lags) for i in np.flatnonzero(enough))
    return [delay for delay in results if delay is not None]


def _lags(grid: TimeGrid) -> np.ndarray:
    """Delays to try, in steps of the grid, without 0."""
    longest = max(int(DAY // grid.step), 1) if grid.dated else STEPS
    stride = -(-longest // TRIED)
    ahead = stride * np.arange(1, longest // stride + 1)
    return np.concatenate([-ahead[::-1], ahead])


def _station(station: int, y: np.ndarray, expected: np.ndarray, std: float, lags: np.ndarray) -> Delay | None:
    T = len(y)
    at = np.arange(T) - lags[:, None]  # a late label shows the field of an earlier time
    moved = np.where((at >= 0) & (at < T), expected[np.clip(at, 0, T - 1)], np.nan)
    plain, shifted = (np.minimum(((y - e) / std) ** 2, CAP**2) for e in (expected, moved))
    fall = plain - shifted  # NaN where there is no reading, or no prediction at the other time
    gain = np.cumsum(np.nan_to_num(fall), axis=1)
    before = np.hstack([np.zeros((len(lags), 1)), gain[:, :-1]])
    spans = np.stack([gain, gain[:, -1:] - before])  # up to a time, and from it on
    late, lag, cut = (int(i) for i in np.unravel_index(int(np.argmax(spans)), spans.shape))
    inside = np.arange(T) >= cut if late else np.arange(T) <= cut
    rows = np.flatnonzero(inside & np.isfinite(fall[lag]))
    if rows.size < SHORTEST:
        return None
    parts = np.array([[plain[r].mean(), shifted[lag, r].mean()] for r in np.array_split(rows, PARTS)])
    falls = parts[:, 0] - parts[:, 1]
    left = float(np.median(parts[:, 1] / parts[:, 0]))
    ratio = float(falls.mean() / (falls.std(ddof=1) / np.sqrt(PARTS)))
    if (falls > 0).sum() < MOST or left > LEFT or ratio < CLEAR:
        return None
    size = float(np.sqrt(np.mean((moved[lag, rows] - expected[rows]) ** 2)))
    return Delay(station, int(rows[0]), int(rows[-1]) + 1, int(lags[lag]), left, ratio, size)
