"""Wrong units: readings that fit the other stations after a conversion that people forget.

The station's own mean was taken from the readings in question. So its level, too, is predicted from the other stations, by the
same correlation in space; how well that works is measured by doing it for every station.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from nareg._core.arrays import MAD_TO_STD, robust_std
from nareg.quality._level import SHORTEST, differences, medians, predicted
from nareg.quality._others import Others
from nareg.quality._residuals import FEWEST, Residuals
from nareg.quality._results import Fault

#: Name of a conversion, factor, constant, quantity whose units these are: what was read is ``factor * truth + constant``.
CONVERSIONS = (
    ("in °F instead of °C", 1.8, 32.0, "temperature"),
    ("in °C instead of °F", 1 / 1.8, -32 / 1.8, "temperature"),
    ("in K instead of °C", 1.0, 273.15, "temperature"),
    ("in °C instead of K", 1.0, -273.15, "temperature"),
    ("10 times too large", 10.0, 0.0, "any"),
    ("10 times too small", 0.1, 0.0, "any"),
    ("100 times too large", 100.0, 0.0, "any"),
    ("100 times too small", 0.01, 0.0, "any"),
    ("1000 times too large", 1000.0, 0.0, "any"),
    ("1000 times too small", 0.001, 0.0, "any"),
    ("in km/h instead of m/s", 3.6, 0.0, "speed"),
    ("in m/s instead of km/h", 1 / 3.6, 0.0, "speed"),
    ("in knots instead of m/s", 1.943844, 0.0, "speed"),
    ("in m/s instead of knots", 1 / 1.943844, 0.0, "speed"),
    ("in mm instead of inches", 25.4, 0.0, "length"),
    ("in inches instead of mm", 1 / 25.4, 0.0, "length"),
    ("in feet instead of m", 1 / 0.3048, 0.0, "length"),
    ("in m instead of feet", 0.3048, 0.0, "length"),
)
#: Units, and words of names, that say which quantity it is; those of the last have no conversions of their own.
QUANTITIES = {
    "temperature": "°c c degc °f f degf k celsius fahrenheit kelvin temperature temperatur temp tair",
    "speed": "m/s ms-1 km/h kmh kt kts knots mph wind windspeed speed",
    "length": "m cm mm mm/h ft feet in inch inches level waterlevel stage tide tides gauge pegel rain rainfall snow "
    "precipitation precip prcp niederschlag regen neerslag pluie lluvia pioggia",
    "": "hpa kpa pa mbar bar mmhg inhg psi % humidity pressure ppm ppb µg/m³ μg/m³ ug/m3 w/m2 w/m² lux db psu ntu ms/cm µs/cm",
}
#: Readings are so many standard deviations from the other stations in the median; the conversion leaves this share of it.
UNIT_FAR, LEFT = 6.0, 0.25
#: Of conversions that explain about as much, this share of the most, that is taken whose factor the readings' spread shows.
AS_MUCH = 0.7
#: Where readings vary enough to show a factor, theirs is that near, as a ratio, or by so many standard deviations of all.
#: They show one where they follow what is expected with so large a correlation.
NEAR, SPREADS, FOLLOWS = 1.35, 2.0, 0.7
#: A factor so large is hardly natural where readings follow at all, and levels differ by at most this share of themselves:
#: its fourth root is near enough. A river may carry a hundred times as much as the brooks beside it, which differ.
GROSS, ALIKE = 100.0, 0.15
#: This share of readings at either end counts as the next ones where a factor is measured.
ENDS = 0.005
#: Where one value is more than this share of a usual station's readings, as on days without rain, medians say nothing.
REPEATED = 0.5
#: Readings on each side of a jump, which is so many times as large as any other change.
BESIDE, CLEAR = 5, 2.0
#: A part within the record is closed where this share of its readings is near the rest after the conversion. The readings
#: at its ends are off by most of what the others are, and those beside it by less than this share of it.
CLOSED, AT_ONCE = 0.9, 0.25
#: After the conversion readings scatter as much as field and noise together, within this factor.
WITHIN = 1.6


@dataclass(frozen=True)
class Conversion(Fault):
    """Readings that fit after a conversion."""

    name: str


def conversions(residuals: Residuals, seen: Others, words: Sequence[str] = ()) -> list[Conversion]:
    """Stations that read in a wrong unit, from some time on, up to some time, or throughout.

    Without places only a change of unit and gross factors show: stations that move together may be at any level. Where
    ``words`` say which quantity it is, units of others are none.
    """
    values = residuals.grid.on_rows(residuals.readings.T)
    enough = np.isfinite(values).sum(axis=0) >= FEWEST
    if enough.sum() < 4:
        return []
    if np.median([_commonest(c[np.isfinite(c)]) for c in values[:, enough].T]) > REPEATED:
        return []
    expected = residuals.model.to_readings(predicted(residuals, seen, enough))
    usual, noise = _usual(values - expected, enough)
    # where readings are transformed, places differ by a factor, which is no conversion
    apart = differences(residuals, seen, enough)
    apart /= _usual(apart, enough)[0]
    throughout = residuals.model.graph.coordinates is not None
    factors = np.array([_factor(values[:, i], expected[:, i]) if enough[i] else np.nan for i in range(enough.size)])
    each = (
        _station(
            i,
            values[:, i],
            expected[:, i],
            apart[:, i],
            (usual, noise),
            possible(words),
            (factors[i], _usual_factor(np.delete(factors, i))),
            throughout=throughout,
        )
        for i in map(int, np.flatnonzero(enough))
    )
    return [conversion for conversion in each if conversion is not None]


def possible(words: Sequence[str]) -> list[tuple[str, float, float]]:
    """Conversions of the quantity that the first of some units and names tells; all where none does."""
    for word in map(str.casefold, words):
        parts = {word, *(part for part in re.split(r"[^\w/°%]+|_", word) if len(part) > 2)}  # "in" and "c" are no units there
        known = [name for name, own in QUANTITIES.items() if parts & {*own.split()}]
        if len(known) == 1:
            return [conversion[:3] for conversion in CONVERSIONS if conversion[3] in (*known, "any")]
    return [conversion[:3] for conversion in CONVERSIONS]


def _usual(difference: np.ndarray, enough: np.ndarray) -> tuple[float, float]:
    """How far a usual station's readings are from what the others say, level and scatter together, and the scatter."""
    own = medians(difference)
    level = robust_std(own[enough])
    noise = float(np.median(MAD_TO_STD * medians(np.abs(difference - own))[enough]))
    return float(np.hypot(level, noise)) or 1.0, noise


def _station(
    station: int, y: np.ndarray, expected: np.ndarray, apart: np.ndarray, scales: tuple[float, float],
    possible: Sequence[tuple[str, float, float]], factors: tuple[float, tuple[float, float] | None], *, throughout: bool,
) -> Conversion | None:  # fmt: skip
    usual, noise = scales
    seen = np.flatnonzero(np.isfinite(y))
    z, x = y[seen], expected[seen]
    jump = _jump(z - x, UNIT_FAR * usual)
    changed = None if jump is None else _at_jump(z, x, apart[seen], jump, scales, possible)
    changed = changed or _for_a_while(z, x, scales, possible)
    if changed is not None:
        name, part, far = changed
        return Conversion(station, int(seen[part][0]), int(seen[part][-1]) + 1, far, name)
    plain = np.minimum(np.abs(z - x) / usual, 2 * UNIT_FAR)
    fits: list[tuple[float, str, float, float, float, slice]] = []
    ratio = _ratios(z, x, noise)
    alike = np.isfinite(factors[0]) and usual < ALIKE * abs(float(np.median(x)))
    for name, factor, constant in possible:
        enough = max(factor, 1 / factor) ** 0.25 if alike and max(factor, 1 / factor) > 0.99 * GROSS else 1.0
        if (not throughout and enough == 1) or (constant == 0 and not _shows(factor, *factors, enough)):
            continue
        converted = (z - constant) / factor
        gain = np.cumsum(plain - np.minimum(np.abs(converted - x) / usual, 2 * UNIT_FAR))
        whole = float(gain[-1])
        later, earlier = whole - np.concatenate([[0.0], gain[:-1]]), gain
        a, b = int(np.argmax(later)), int(np.argmax(earlier))
        value, part = max((float(later[a]), slice(a, None)), (float(earlier[b]), slice(0, b + 1)), key=lambda entry: entry[0])
        scatter = ratio(part.start, part.stop) / factor
        if value > 0 and 1 / max(WITHIN, enough) < scatter < max(WITHIN, enough):
            fits.append((value, name, factor, constant, enough, part))
    if not fits:
        return None
    most = max(fits, key=lambda entry: entry[0])
    shown = _factor_shown(x, most[-1], ratio, noise)
    equals = [entry for entry in fits if entry[0] >= AS_MUCH * most[0]] if shown is not None else [most]
    _, name, factor, constant, enough, part = min(equals, key=lambda entry: abs(np.log((shown or 1.0) / entry[2])))
    if seen[part].size < FEWEST or not _leaps_where_it_changes(z, x, part, factor, constant):
        return None
    far = float(np.median(np.abs(z[part] - x[part])) / usual)
    left = float(np.median(np.abs((z[part] - constant) / factor - x[part])) / usual)
    slope = _slope(z[part], x[part])
    if far < UNIT_FAR or float(np.nanmedian(np.abs(apart[seen][part]))) < UNIT_FAR or left > LEFT * far or left > 3.0:
        return None
    varied = robust_std(x[part]) > 2 * usual
    if varied and factor != 1 and not 1 / max(NEAR, enough) < slope / factor < max(NEAR, enough):
        return None
    return Conversion(station, int(seen[part][0]), int(seen[part][-1]) + 1, far, name)


def _factor(z: np.ndarray, x: np.ndarray) -> float:
    """By how much readings follow what is expected, floods and storms included; NaN where they hardly do."""
    both = np.isfinite(z) & np.isfinite(x)
    if both.sum() < FEWEST:
        return float("nan")
    z, x = (np.clip(part[both], *np.quantile(part[both], [ENDS, 1 - ENDS])) for part in (z, x))
    z, x = z - z.mean(), x - x.mean()
    products, power = float(z @ x), float(x @ x)
    return products / power if products > FOLLOWS * np.sqrt(power * float(z @ z)) > 0 else float("nan")


def _usual_factor(factors: np.ndarray) -> tuple[float, float] | None:
    """Median of the logarithms of factors, and by how much they differ by nature; None where few are known.

    A narrow river rises by more than a wide one, and in the same unit.
    """
    logs = np.log(factors[np.isfinite(factors)])
    return None if logs.size < 3 else (float(np.median(logs)), SPREADS * robust_std(logs))


def _shows(factor: float, measured: float, others: tuple[float, float] | None, enough: float = NEAR) -> bool:
    """Whether a measured factor is about a conversion's times the others' usual one, which differ by less; True if unknown.

    It may be ``enough`` times as large as that.
    """
    if np.isnan(measured) or others is None:
        return True
    usual, natural = others
    size, apart = abs(float(np.log(factor))), abs(np.log(measured / factor) - usual)
    # nearer to the factor than to none
    return bool(apart < min(max(np.log(max(NEAR, enough)), natural), size / 2) and size > natural)


def _leaps_where_it_changes(z: np.ndarray, x: np.ndarray, part: slice, factor: float, constant: float) -> bool:
    """Whether readings at the begin or end of a part go on more smoothly if they are converted: a unit changes at once.

    Where the rest is too short to say, the part stands for the whole record.
    """
    cut = part.start or part.stop or 0
    if not FEWEST <= cut <= z.size - FEWEST:
        return True
    converted = z.copy()
    converted[part] = (z[part] - constant) / factor
    sides = slice(cut - BESIDE, cut), slice(cut, cut + BESIDE)
    read, right = (abs(np.subtract(*(np.median((y - x)[side]) for side in sides))) for y in (z, converted))
    return bool(right < read)


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
    z: np.ndarray, x: np.ndarray, apart: np.ndarray, jump: int, scales: tuple[float, float],
    possible: Sequence[tuple[str, float, float]],
) -> tuple[str, slice, float] | None:  # fmt: skip
    """The conversion of the readings from the jump on, or up to it, that closes it best: no other station is asked."""
    before, after = slice(max(jump - BESIDE, 0), jump), slice(jump, jump + BESIDE)
    fits: list[tuple[float, str, float, slice]] = []
    usual, noise = scales
    ratio, earlier, later = _ratios(z, x, noise), float(np.median(z[before])), float(np.median(z[after]))
    for name, factor, constant in possible:
        for part, inside, outside in ((slice(jump, None), later, earlier), (slice(0, jump), earlier, later)):
            left = abs((inside - constant) / factor - outside)
            if 1 / WITHIN < ratio(part.start, part.stop) / factor < WITHIN:
                fits.append((left, name, factor, part))
    if not fits:
        return None
    left, name, _, part = min(fits, key=lambda fit: fit[0])
    rest = _rest(part)
    if (grown := _factor_shown(x, part, ratio, noise)) is not None:
        equals = [fit for fit in fits if fit[0] <= max(left, usual) and fit[3] == part]
        left, name, _, part = min(equals, key=lambda fit: abs(np.log(grown / fit[2])))
    far = float(np.median(np.abs(z[part] - x[part] - np.median(z[rest] - x[rest])))) / usual
    shown = float(np.nanmedian(np.abs(apart[part] - np.nanmedian(apart[rest]))))
    if left > usual or far < UNIT_FAR or shown < UNIT_FAR:
        return None
    return name, part, far


def _for_a_while(
    z: np.ndarray, x: np.ndarray, scales: tuple[float, float], possible: Sequence[tuple[str, float, float]]
) -> tuple[str, slice, float] | None:
    """The conversion of the longest part within the record that is far from the rest, begins and ends at once, and is closed.

    The spread is nearer to a factor than to none: readings that are off by a constant have that of the rest.
    """
    usual, noise = scales
    level = float(np.median(z - x))
    error = np.abs(z - x - level)
    ends = np.flatnonzero(np.diff(error > UNIT_FAR * usual, prepend=False, append=False)).tolist()
    start, stop = max(zip(ends[::2], ends[1::2], strict=True), key=lambda part: part[1] - part[0], default=(0, 0))
    if min(start, stop - start, z.size - stop) < FEWEST:
        return None
    part, ratio = slice(start, stop), _ratios(z, x, noise)(start, stop)
    far = float(np.median(error[part]))
    if not max(error[[start - 1, stop]]) < AT_ONCE * far < (1 - AT_ONCE) * far < min(error[[start, stop - 1]]):
        return None
    fits = []
    for name, factor, constant in possible:
        left = np.abs((z[part] - constant) / factor - x[part] - level)
        nearer = factor == 1 or (ratio > np.sqrt(factor) if factor > 1 else ratio < np.sqrt(factor))
        if ratio > 0 and nearer and np.quantile(left, CLOSED) < UNIT_FAR / 2 * noise:
            fits.append((float(np.median(left)), name))
    return (min(fits)[1], part, far / usual) if fits else None


def _rest(part: slice) -> slice:
    """Readings before a part that lasts to the end, or after one from the beginning."""
    return slice(0, part.start) if part.stop is None else slice(part.stop, None)


def _factor_shown(x: np.ndarray, part: slice, ratio: Callable[[int, int | None], float], noise: float) -> float | None:
    """The factor that the spread of a part shows, beside that of the rest; None where hardly more than noise is expected.

    A level says little of factors that are near each other, such as 3.28 and 3.6: a station has one of its own.
    """
    rest = _rest(part)
    now, usual = (robust_std(x[side]) if x[side].size >= SHORTEST else 0.0 for side in (part, rest))
    grown, before = (ratio(side.start, side.stop) for side in (part, rest))
    if now <= 2 * noise or not grown > 0 or (usual > 2 * noise and not before > 0):  # stuck readings have no spread
        return None
    return grown / (before if usual > 2 * noise else 1.0)


def _commonest(values: np.ndarray) -> float:
    """Share of the commonest value."""
    return float(np.unique(values, return_counts=True)[1].max() / values.size)


def _ratios(z: np.ndarray, x: np.ndarray, noise: float) -> Callable[[int, int | None], float]:
    """By first and last row of a part: the spread of readings over that of what is expected; conversions share parts."""

    @cache
    def ratio(start: int, stop: int | None) -> float:
        return robust_std(z[start:stop]) / max(float(np.hypot(robust_std(x[start:stop]), noise)), 1e-300)

    return ratio


def _slope(z: np.ndarray, x: np.ndarray) -> float:
    """Ratio of the spreads of readings and of what is expected, with the sign of their correlation."""
    spread = robust_std(x)
    sign = 1.0 if np.sum((z - np.median(z)) * (x - np.median(x))) >= 0 else -1.0
    return sign * robust_std(z) / spread if spread > 0 else 1.0
