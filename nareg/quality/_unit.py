"""A wrong unit: readings that fit the other stations after a conversion that people forget.

The station's own mean was taken from the readings in doubt. So its level, too, is predicted from the other stations, by the
same correlation in space; how well that works is measured by doing it for every station.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nareg.quality._others import Others
from nareg.quality._residuals import FEWEST, Residuals
from nareg.spacetime._readings.outliers import MAD_TO_STD

#: Name of a conversion, factor, constant: what was read is ``factor * truth + constant``.
CONVERSIONS = (
    ("in °F instead of °C", 1.8, 32.0),
    ("in °C instead of °F", 1 / 1.8, -32 / 1.8),
    ("in K instead of °C", 1.0, 273.15),
    ("in °C instead of K", 1.0, -273.15),
    ("10 times too large", 10.0, 0.0),
    ("10 times too small", 0.1, 0.0),
    ("100 times too large", 100.0, 0.0),
    ("100 times too small", 0.01, 0.0),
    ("1000 times too large", 1000.0, 0.0),
    ("1000 times too small", 0.001, 0.0),
    ("in km/h instead of m/s", 3.6, 0.0),
    ("in m/s instead of km/h", 1 / 3.6, 0.0),
    ("in knots instead of m/s", 1.943844, 0.0),
    ("in m/s instead of knots", 1 / 1.943844, 0.0),
    ("in mm instead of inches", 25.4, 0.0),
    ("in inches instead of mm", 1 / 25.4, 0.0),
)
#: Readings are so many standard deviations from the other stations in the median; the conversion leaves this share of it.
FAR, LEFT = 6.0, 0.25
#: Where readings vary enough to show a factor, theirs is that near, as a ratio.
NEAR = 1.35
#: Where one value is more than this share of a usual station's readings, as on days without rain, medians say nothing.
REPEATED = 0.5
#: Readings on each side of a jump, which is so many times as large as any other change.
BESIDE, CLEAR = 5, 2.0
#: After the conversion readings scatter as much as field and noise together, within this factor.
WITHIN = 1.6


@dataclass(frozen=True)
class Conversion:
    """Readings of a station from ``start`` to ``stop`` that fit after a conversion."""

    station: int
    name: str
    start: int
    stop: int
    ratio: float
    slope: float

    @property
    def order(self) -> float:
        """How clear the fault is beside others of its kind."""
        return self.ratio


def conversions(residuals: Residuals, seen: Others) -> list[Conversion]:
    """Stations that read in a wrong unit, from some time on, up to some time, or throughout."""
    values = residuals.grid.on_rows(residuals.readings.T)
    enough = np.isfinite(values).sum(axis=0) >= FEWEST
    if enough.sum() < 4:
        return []
    if np.median([_commonest(c[np.isfinite(c)]) for c in values[:, enough].T]) > REPEATED:
        return []
    expected = residuals.model.to_readings(_expected(residuals, seen, enough))
    usual, noise = _usual(values - expected, enough)
    # where readings are transformed, places differ by a factor, which is no conversion
    apart = differences(residuals, seen, enough)
    apart /= _usual(apart, enough)[0]
    result = []
    for i in np.flatnonzero(enough):
        best = _station(values[:, i], expected[:, i], apart[:, i], usual, noise)
        if best is not None:
            name, start, stop, ratio, slope = best
            result.append(Conversion(int(i), name, start, stop, ratio, slope))
    return result


def _usual(difference: np.ndarray, enough: np.ndarray) -> tuple[float, float]:
    """How far a usual station's readings are from what the others say, level and scatter together, and the scatter."""
    own = _median(difference)
    level = MAD_TO_STD * float(np.median(np.abs(own[enough] - np.median(own[enough]))))
    noise = float(np.median(MAD_TO_STD * _median(np.abs(difference - own))[enough]))
    return float(np.hypot(level, noise)) or 1.0, noise


def _station(
    y: np.ndarray, expected: np.ndarray, apart: np.ndarray, usual: float, noise: float
) -> tuple[str, int, int, float, float] | None:
    seen = np.flatnonzero(np.isfinite(y))
    z, x = y[seen], expected[seen]
    jump = _jump(z - x, FAR * usual)
    changed = None if jump is None else _at_jump(z, x, apart[seen], seen, jump, usual, noise)
    if changed is not None:
        return changed
    plain = np.minimum(np.abs(z - x) / usual, 2 * FAR)
    best: tuple[float, str, float, float, slice] | None = None
    for name, factor, constant in CONVERSIONS:
        converted = (z - constant) / factor
        gain = np.cumsum(plain - np.minimum(np.abs(converted - x) / usual, 2 * FAR))
        whole = float(gain[-1])
        later, earlier = whole - np.concatenate([[0.0], gain[:-1]]), gain
        a, b = int(np.argmax(later)), int(np.argmax(earlier))
        value, part = max((float(later[a]), slice(a, None)), (float(earlier[b]), slice(0, b + 1)), key=lambda entry: entry[0])
        scatter = _spread(z[part]) / factor / max(float(np.hypot(_spread(x[part]), noise)), 1e-300)
        if not 1 / WITHIN < scatter < WITHIN:
            continue
        if best is None or value > best[0]:
            best = (value, name, factor, constant, part)
    if best is None:
        return None
    _, name, factor, constant, part = best
    if seen[part].size < FEWEST:
        return None
    far = float(np.median(np.abs(z[part] - x[part])) / usual)
    left = float(np.median(np.abs((z[part] - constant) / factor - x[part])) / usual)
    slope = _slope(z[part], x[part])
    if far < FAR or float(np.nanmedian(np.abs(apart[seen][part]))) < FAR or left > LEFT * far or left > 3.0:
        return None
    varied = _spread(x[part]) > 2 * usual
    if varied and factor != 1 and not 1 / NEAR < slope / factor < NEAR:
        return None
    return name, int(seen[part][0]), int(seen[part][-1]) + 1, far, slope


def _jump(difference: np.ndarray, least: float) -> int | None:
    """Where readings begin to differ from what is expected by another amount, for good; None where they do not.

    The medians of :data:`BESIDE` differences before and after a place differ there by far more than anywhere else.
    """
    if difference.size < 2 * FEWEST:
        return None
    windows = np.median(np.lib.stride_tricks.sliding_window_view(difference, BESIDE), axis=1)
    change = np.abs(windows[BESIDE:] - windows[:-BESIDE])
    at = int(np.argmax(change))
    elsewhere = np.delete(change, np.arange(max(at - BESIDE, 0), min(at + BESIDE + 1, change.size)))
    clear = elsewhere.size > 0 and change[at] > max(least, CLEAR * float(elsewhere.max()))
    return at + BESIDE if clear and FEWEST <= at + BESIDE <= difference.size - FEWEST else None


def _at_jump(
    z: np.ndarray, x: np.ndarray, apart: np.ndarray, seen: np.ndarray, jump: int, usual: float, noise: float
) -> tuple[str, int, int, float, float] | None:
    """The conversion of the readings from the jump on, or up to it, that closes it best: no other station is asked."""
    before, after = slice(max(jump - BESIDE, 0), jump), slice(jump, jump + BESIDE)
    best: tuple[float, str, float, slice] | None = None
    for name, factor, constant in CONVERSIONS:
        for part, inside, outside in ((slice(jump, None), after, before), (slice(0, jump), before, after)):
            left = abs(float(np.median((z[inside] - constant) / factor)) - float(np.median(z[outside])))
            scatter = _spread(z[part]) / factor / max(float(np.hypot(_spread(x[part]), noise)), 1e-300)
            if 1 / WITHIN < scatter < WITHIN and (best is None or left < best[0]):
                best = (left, name, factor, part)
    if best is None:
        return None
    left, name, factor, part = best
    rest = np.delete(np.arange(z.size), np.arange(z.size)[part])
    far = float(np.median(np.abs(z[part] - x[part] - np.median(z[rest] - x[rest])))) / usual
    shown = float(np.nanmedian(np.abs(apart[part] - np.nanmedian(apart[rest]))))
    if left > usual or far < FAR or shown < FAR:
        return None
    return name, int(seen[part][0]), int(seen[part][-1]) + 1, far, factor


def _commonest(values: np.ndarray) -> float:
    """Share of the commonest value."""
    return float(np.unique(values, return_counts=True)[1].max() / values.size)


def _spread(values: np.ndarray) -> float:
    return MAD_TO_STD * float(np.median(np.abs(values - np.median(values))))


def _slope(z: np.ndarray, x: np.ndarray) -> float:
    """Ratio of the spreads of readings and of what is expected, with the sign of their correlation."""
    spread = float(np.median(np.abs(x - np.median(x))))
    sign = 1.0 if np.sum((z - np.median(z)) * (x - np.median(x))) >= 0 else -1.0
    return sign * float(np.median(np.abs(z - np.median(z)))) / spread if spread > 0 else 1.0


def differences(residuals: Residuals, seen: Others, enough: np.ndarray) -> np.ndarray:
    """(rows, N) readings minus what all other stations say of the place, its level too, in the model's unit."""
    values = residuals.grid.on_rows(residuals.model.to_unit(residuals.readings).T)
    difference: np.ndarray = values - _expected(residuals, seen, enough)
    return difference


def _expected(residuals: Residuals, seen: Others, enough: np.ndarray) -> np.ndarray:
    """(rows, N) what the other stations say.

    A station's own cycles came from the readings in doubt, so all have the median station's. Of a field that hardly returns to
    its mean, the prediction knows changes only.
    """
    cycles = np.median((residuals.offset - residuals.offset.mean(axis=0))[:, enough], axis=1)
    expected: np.ndarray = seen.prediction - np.median(seen.prediction, axis=0) + cycles[:, None] + _levels(residuals, enough)
    return expected


def _levels(residuals: Residuals, enough: np.ndarray) -> np.ndarray:
    """(N,) mean of every station, in the model's unit, from the others' medians by kriging, robustly."""
    rows = np.full(residuals.y.shape, np.nan)
    rows[residuals.grid.rows] = residuals.model.to_unit(residuals.readings).T
    medians = _median(rows)
    center = float(np.median(medians[enough]))
    spread = MAD_TO_STD * float(np.median(np.abs(medians[enough] - center))) or 1.0
    z = np.where(enough, np.clip(medians - center, -3 * spread, 3 * spread), 0.0)
    parameters, space = residuals.model.parameters, residuals.model.space
    K = parameters.covariance(space) / np.exp(parameters.log_variance)
    precision = np.linalg.inv(K + np.diag(np.where(enough, 0.1, 1e6)))
    weighted = precision @ (z - np.median(z[enough]))
    others: np.ndarray = z - weighted / np.diag(precision) + center
    return others


def _median(values: np.ndarray) -> np.ndarray:
    """Median of every column without its missing entries, 0 where there is none."""
    return np.array([float(np.median(c[np.isfinite(c)])) if np.isfinite(c).any() else 0.0 for c in values.T])
