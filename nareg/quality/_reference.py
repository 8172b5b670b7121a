"""Sensors beside a station of known quality, a reference.

Nothing has to be guessed there: what the reference reads is regressed on what the sensor reads. That is used where tenths of
the record are predicted better by the others' regression than by the sensor itself. Times are compared first: where a clock is
wrong, the factor of a regression is too small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nareg._core.arrays import MAD_TO_STD
from nareg._core.neighbors import great_circle_km
from nareg.graph import Graph
from nareg.quality._clock import lags_of, shifted
from nareg.quality._level import SHORTEST
from nareg.quality._residuals import FEWEST, Residuals
from nareg.quality._results import Fault

#: A sensor stands beside a reference up to so many kilometers away, or at the same place of a plane.
BESIDE = 0.1
#: A regression on the reference is judged in so many parts of the record, each predicted by that of the others, and has to be
#: better by so many standard errors, and leave at most this share of the mean square difference.
BLOCKS, BETTER, REST = 10, 4.0, 0.9
#: A regression is not used where it leaves a part of the record more than so many times the mean square difference, and what
#: is left of usual parts.
WORSE = 2.0
#: A regression is a conversion of units where they differ by less than the first share of the readings' spread, and it leaves
#: no more than the second.
ALIKE, SHARP = 0.03, 0.15


@dataclass(frozen=True, eq=False)
class SensorLaw(Fault):
    """A sensor beside a reference, which reads ``constant + factor`` times what the sensor does, ``late`` steps later.

    Attributes
    ----------
    reference : int
    late : int
        By how many steps the clock of the reference is behind the sensor's.
    factor, constant : float
    before, after : float
        Root mean square difference of the sensor from the reference, as it is and by regressions that do not know the times.
    low, high : float
        The sensor's readings beside the reference: beyond them, the regression would extrapolate.
    follows : bool
        The regression leaves clearly less than a constant would, and its factor is positive.
    worse : bool
        A part of the record is clearly nearer to the reference without the regression.
    changes : bool
        A part of the record is clearly better predicted by those next to it than by all others.
    """

    reference: int
    late: int
    factor: float
    constant: float
    before: float
    after: float
    low: float
    high: float
    follows: bool
    worse: bool
    changes: bool


def calibrations(residuals: Residuals, references: Sequence[int]) -> list[SensorLaw]:
    """Sensors beside a reference that a regression on it brings clearly nearer to it."""
    values = np.where(residuals.by_station(residuals.frozen | residuals.absurd), np.nan, residuals.readings)
    values, lags, result = residuals.grid.on_rows(values.T), lags_of(residuals.grid), []
    for i, reference in beside(residuals.model.graph, references, values.T):
        x, y = values[:, i], values[:, reference]
        both = np.isfinite(x) & np.isfinite(y)
        if both.sum() < SHORTEST:
            continue
        low, high = float(x[both].min()), float(x[both].max())
        raw, rest = _each((y - x)[both]), _unknowing(x, y)
        late = _likeliest(x, y, lags)
        moved = shifted(y, np.array([late]))[:, 0]
        if late and _clearer(rest, other := _unknowing(x, moved)) > BETTER:
            y, rest = moved, other
        else:
            late = 0
        if (ratio := _clearer(raw, rest)) > BETTER:
            constant, factor = _robust_line(x, y)
            before, after = (float(np.sqrt(part.mean())) for part in (raw, rest))
            follows = factor > 0 and _clearer(_unknowing(np.zeros_like(x), y), rest) > BETTER
            # what is next to nothing in a calm is no evidence
            worse = bool((rest > WORSE * np.maximum(raw, np.median(rest))).any())
            changes = _clearer(rest, _unknowing(x, y, reach=1)) > BETTER
            calibration = SensorLaw(
                i, 0, len(x), ratio, reference, late, factor, constant, before, after, low, high, follows, worse, changes
            )
            result.append(calibration)
    return result


def _likeliest(x: np.ndarray, y: np.ndarray, lags: np.ndarray) -> int:
    """By how many steps ``y`` is to be moved so that it is most like ``x``."""
    best, late = 0.0, 0
    with np.errstate(invalid="ignore", divide="ignore"):  # what stands still is like nothing
        for lag, moved in zip((0, *lags), shifted(y, np.array([0, *lags])).T, strict=True):
            both = np.isfinite(x) & np.isfinite(moved)
            if both.sum() >= SHORTEST and (like := abs(np.corrcoef(x[both], moved[both])[0, 1])) > best:
                best, late = like, int(lag)
    return late


def _unknowing(x: np.ndarray, y: np.ndarray, reach: int = BLOCKS) -> np.ndarray:
    """(BLOCKS,) mean squares of what each part of the record has beyond the regression of the others within reach."""
    both = np.isfinite(x) & np.isfinite(y)
    x, y = x[both], y[both]
    part = np.arange(x.size) * BLOCKS // x.size
    apart = np.abs(part - np.arange(BLOCKS)[:, None])
    lines = [_robust_line(x[there], y[there]) for there in (apart > 0) & (apart <= reach)]
    constant, factor = np.array(lines)[part].T
    return _each(y - constant - factor * x)


def _each(error: np.ndarray) -> np.ndarray:
    """(BLOCKS,) mean squares of the parts of the record."""
    part = np.arange(error.size) * BLOCKS // error.size
    return np.bincount(part, error**2) / np.bincount(part)


def _clearer(before: np.ndarray, after: np.ndarray) -> float:
    """By how many standard errors the mean squares of the parts are less, in the logarithm; 0 where it is not by much."""
    usual = float(np.median(after)) + 1e-300  # how two hardly differ in a calm is no evidence
    gain = np.log((before + usual) / (after + usual))
    return float(gain.mean() * math.sqrt(BLOCKS) / max(gain.std(ddof=1), 1e-9)) if after.sum() < REST * before.sum() else 0.0


def beside(graph: Graph, references: Sequence[int], readings: np.ndarray) -> list[tuple[int, int]]:
    """Other stations, each with the nearest of the references it stands beside, one with enough readings (N, T) if there is."""
    places, pairs = graph.coordinates, []
    if places is None:
        return []
    limit = BESIDE if graph.metric == "haversine" else 0.0
    for i in sorted(set(range(len(places))) - set(references)):
        away = [
            great_circle_km(*places[[i, j]].T)[0, 1] if graph.metric == "haversine" else np.linalg.norm(places[i] - places[j])
            for j in references
        ]
        near = [(not comparable(readings, i, j), d, j) for j, d in zip(references, away, strict=True) if d <= limit]
        if near:
            pairs.append((i, min(near)[-1]))
    return pairs


def comparable(readings: np.ndarray, i: int, j: int) -> bool:
    """Whether two stations have enough readings (N, T) at common times."""
    return bool(np.isfinite(readings[[i, j]]).all(axis=0).sum() >= SHORTEST)


def farther(readings: np.ndarray, corrected: np.ndarray, right: np.ndarray) -> bool:
    """Whether corrected readings are clearly farther from the reference's, NaN where there is none, than as they are."""
    before, after = (np.nansum((values - right) ** 2) for values in (readings, corrected))
    return bool(np.isfinite(right).sum() >= FEWEST and after > WORSE * before)


def _robust_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Constant and factor of ``y`` over ``x`` where both are known, in which a few large differences count little."""
    from scipy.optimize import least_squares  # imported here: it would slow the import of nareg.cleaning

    both = np.isfinite(x) & np.isfinite(y)
    x, y = x[both], y[both]
    columns = np.column_stack([np.ones(x.size), x])
    first = np.linalg.lstsq(columns, y, rcond=None)[0]
    scale = MAD_TO_STD * float(np.median(np.abs(y - columns @ first))) or 1.0
    line = least_squares(lambda c: (columns @ c - y) / scale, first, lambda c: columns / scale, loss="soft_l1").x
    return float(line[0]), float(line[1])
