"""Kinds of quantities: how they are recognized; and directions in degrees, averaged around the circle."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from nareg.io._notes import count
from nareg.io._vocabulary import BRACKETS, kinds_in, unit_in

#: Names of directions.
NAMES = frozenset(
    ("direction", "direccion", "dirección", "richtung", "windrichtung", "windrichting", "richting", "winddirection", "winddir",
     "wdir", "wd", "dir", "mwd", "azimuth", "heading", "bearing")
)  # fmt: skip
#: Words of names of what is about directions and none itself: how they spread, turn or were counted.
SPREAD = frozenset(
    ("std", "stdev", "stddev", "sd", "sigma", "deviation", "standard", "variance", "variability", "range", "change", "shear",
     "count", "number", "quality", "qc", "flag")
)  # fmt: skip
UNITS = frozenset(("°", "deg", "degree", "degrees", "degt", "degtrue", "degreestrue", "degreetrue", "°true", "degrees_true"))
#: What a quantity is: any number, one from 0 on, one from 0 to 100, or a direction.
KINDS = ("number", "nonnegative", "bounded", "direction")
#: Words and units of quantities that are never below 0.
NONNEGATIVE = frozenset(
    ("rain", "wind", "ozone", "nitrogen oxides", "sulfur dioxide", "carbon monoxide", "methane", "fine particles", "particles")
)  # fmt: skip
NONNEGATIVE_UNITS = frozenset(
    ("mm", "mm/h", "m/s", "ms-1", "km/h", "mph", "kt", "kts", "knots", "µg/m³", "μg/m³", "ug/m3", "ppb", "ppm", "lux")
)
#: Readings alone tell directions by so many steps across the seam, this share of all, and of the steps beyond half a turn.
CROSSINGS, SHARE, MOST = 5, 0.002, 0.8
#: Such a step is short around the circle: its median, in degrees, as near to north as the readings on both sides reach.
SHORT, NORTH = 45.0, 45.0
#: Different whole degrees that occur on either side of north, and parts of ten degrees elsewhere.
DIFFERENT, PARTS = 4, 5
#: The readings reach within this many degrees of either end.
REACH = 15.0
#: Readings that show whether a station only counts, and share of their steps that rises. A meter that begins anew falls to this
#: share of its largest reading. So large a share of the stations count.
COUNTED, RISING, ANEW, COUNTERS = 200, 0.2, 0.1, 0.9
#: Directions in tens of degrees go to this; so many different ones, to this far from either end, leave no doubt; 99 varies.
TENS, SURE, ENDS, VARIABLE = 36, 24, 3, 99
TEN_DEGREES = re.compile(r"(?:10'?s?|tensof|tens?|deka|deca|da)(?:°|deg(?:rees?)?)", re.IGNORECASE)
#: Units of what meters count.
ENERGY = frozenset(("wh", "kwh", "mwh", "gwh", "kvarh", "gj"))
#: A mean vector of at most this length points nowhere.
CANCEL = 1e-9


def is_direction(values: np.ndarray, unit: str | None, names: Iterable[str]) -> bool:
    """Whether readings (N, T) are directions, by their unit or a name, or by how they cross north.

    Parameters
    ----------
    values : (N, T) array
        NaN where missing.
    unit : str or None
        What the table states. Any but degrees clears the readings.
    names : iterable of str
        Names of the quantity: of its column, its variable, its file.
    """
    return _shown_by(values, unit, names) is not None


def _shown_by(values: np.ndarray, unit: str | None, names: Iterable[str]) -> str | None:
    """What shows that readings are directions, ``"unit"``, ``"name"`` or ``"values"``; None where they are none."""
    if not on_circle(values):
        return None
    in_degrees = unit is not None and re.sub(r"[\s.]+", "", unit).casefold() in UNITS
    if unit is not None and not in_degrees:
        return None
    from_seam = values if np.nanmin(values) >= 0 else values + 180  # -180 to 180 wraps there
    if in_degrees or any(map(_named, names)):
        if not ((from_seam < 90).any() and (from_seam > 270).any()):  # else their mean would point to the other side
            return None
        return "unit" if in_degrees else "name"
    return "values" if _wraps(from_seam) else None


def on_circle(values: np.ndarray) -> bool:
    """Whether there are readings, all from 0 to 360 or from -180 to 180."""
    if not np.isfinite(values).any():
        return False
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return low >= -180 and high <= (360 if low >= 0 else 180)


def kind_of(values: np.ndarray, unit: str | None, names: Sequence[str]) -> tuple[str, str]:
    """What readings (N, T) are, one of :data:`KINDS`, and what shows it: ``"unit"``, ``"name"`` or ``"values"``.

    Parameters
    ----------
    values : (N, T) array
        NaN where missing.
    unit : str or None
        What the table states, or a name in brackets.
    names : sequence of str
        As in :func:`is_direction`; the first is the quantity's own.

    Examples
    --------
    >>> kind_of(np.array([[10.0, 350.0]]), None, ["wind direction"]), kind_of(np.array([[40.0, 90.0]]), "%", ["RH"])
    (('direction', 'name'), ('bounded', 'name'))
    """
    around = _shown_by(values, unit, names)
    if around is None and unit is None and any(map(_named, names)) and on_circle(values):
        around = "name"  # that stay on one side of north are cleaned as numbers, with the same result
    if around is not None:
        return "direction", around
    own = kinds_in(BRACKETS.sub("", names[0])) - {"snow"}  # which may be a depth, or a cover in per cent
    spelled = re.sub(r"[\s^.]+", "", unit or unit_in(names[0])).casefold()
    low, high = (float(end(values, initial=0.0, where=np.isfinite(values))) for end in (np.min, np.max))
    shares = 1 < high <= 100  # a share of 1 is in another unit
    for shown, bounded, nonnegative in (
        ("name", "humidity" in own, bool(own & NONNEGATIVE) and "direction" not in own),
        ("unit", spelled == "%" and not own, spelled in NONNEGATIVE_UNITS and not own),
    ):
        if bounded or nonnegative:
            possible = low >= 0 and (nonnegative or shares)
            return ("bounded" if bounded else "nonnegative", shown) if possible else ("number", "values")
    return "number", "name" if own else "unit" if spelled else "values"


def counter_of(values: np.ndarray) -> tuple[bool, int]:
    """Whether readings (N, T) only rise, as meters do, and at how many stations they begin anew, if not most at once.

    Sums since a date, such as degree days of a year, begin anew at all stations at once.

    Examples
    --------
    >>> meters = np.cumsum(np.ones((3, 300)), axis=1) + [[0], [20], [40]]
    >>> counter_of(meters), counter_of(meters % 200), counter_of(-meters)
    ((True, 0), (True, 3), (False, 0))
    """
    seen, starts = 0, []
    for row in values:
        rows = np.flatnonzero(np.isfinite(row))
        own = row[rows]
        if own.size < COUNTED:
            continue
        seen += 1
        steps, largest = np.diff(own), np.maximum.accumulate(own)[:-1]
        falls = steps < 0
        again = falls & (own[1:] >= 0) & (own[1:] <= ANEW * largest)
        if (falls == again).all() and (steps > 0).mean() > RISING and again.mean() < 1 / COUNTED:
            starts.append(rows[1:][again])
    if not seen or len(starts) < COUNTERS * seen:
        return False, 0
    each = np.bincount(np.concatenate(starts))
    at_once = each[2 * each > max(len(starts), 2)]
    return True, 0 if 2 * at_once.sum() > each.sum() else sum(own.size > 0 for own in starts)


def about_counters(values: np.ndarray, unit: str | None) -> tuple[str, bool] | None:
    """What is said of readings (N, T) that only rise, and whether unit or values show that they are those of meters."""
    only, anew = counter_of(values)
    if not only:
        return None
    energy = (unit or "").strip().casefold() in ENERGY
    remedy = "clean the differences of successive readings, or pass kind number to clean them as they are"
    if energy or anew:
        why = f", in {unit}" if energy else f", and begin anew at {count(anew, 'station')}"
        return f"The readings only rise{why}, as those of a meter do: {remedy}.", True
    return f"The readings only rise. If they are those of a meter, {remedy}.", False


def about_tens(values: np.ndarray, unit: str | None, names: Iterable[str], kind: str | None = None) -> str | None:
    """What is said of directions (N, T) in tens of degrees, by a ``kind`` or their name; None of others.

    Examples
    --------
    >>> turning = np.arange(200)[None] % 37
    >>> about_tens(turning, None, ["dd"]), about_tens(turning, None, ["wind direction"])[:45]
    (None, 'The directions lie from 0 to 36, as those in ')
    """
    names = list(names)
    if kind != "direction" and (kind is not None or not any(map(_named, names))):
        return None
    own = np.where(values == VARIABLE, np.nan, values)
    seen = np.unique(own[np.isfinite(own)])
    if not seen.size or seen[0] < 0 or seen[-1] > TENS or (seen % 1).any():
        return None
    for stated in (unit, *(brackets.group() for brackets in map(BRACKETS.search, names) if brackets)):
        if stated is not None and TEN_DEGREES.fullmatch(re.sub(r"[\s.\-()\[\]]+", "", stated)):
            return f"The directions are in tens of degrees ({stated.strip(' ()[]')}): multiply them by 10, and name them anew."
    other = unit is not None and re.sub(r"[\s.]+", "", unit).casefold() not in UNITS
    many = len(seen) >= SURE and seen[0] <= ENDS and seen[-1] >= TENS - ENDS
    if other or not (many or _wraps(10 * own)):
        return None
    return (
        f"The directions lie from {seen[0]:g} to {seen[-1]:g}, as those in tens of degrees do: multiply them by 10, or pass "
        "kind number if they are degrees."
    )


def _named(name: str) -> bool:
    """Whether a name says direction: as a word, or in the manner of windDir and WIND_DIRECTION_10M; not its spread."""
    spaced = re.sub(r"(?<=[a-zäöü])(?=[A-Z])", " ", name)
    words = re.split(r"[\W\d_]+", spaced.casefold())
    if SPREAD & {*words}:
        return False
    return bool(NAMES & {*words, "".join(words)}) or any(word.startswith("wind") and word.endswith("dir") for word in words)


def _wraps(values: np.ndarray) -> bool:
    """Whether readings from 0 to 360 cross the seam in short steps, as directions do, and hardly anything else."""
    if np.nanmin(values) > REACH or np.nanmax(values) < 360 - REACH:
        return False
    number = beyond = steps = 0
    around = []
    for row in values:
        own = row[np.isfinite(row)]
        size = np.abs(np.diff(own))
        ends = np.sort(np.stack([own[1:], own[:-1]]), axis=0)
        crossing = (size > 180) & (ends[0] <= 90) & (ends[1] >= 270)
        steps, beyond, number = steps + size.size, beyond + int((size > 180).sum()), number + int(crossing.sum())
        around.append(360 - size[crossing])
    if number < max(CROSSINGS, SHARE * steps) or number < MOST * beyond or np.median(np.concatenate(around)) > SHORT:
        return False
    flat = values[np.isfinite(values)]
    east, west = np.unique(np.rint(flat[flat < NORTH])), np.unique(np.rint(flat[flat > 360 - NORTH]))
    parts = np.unique(flat[(flat > NORTH) & (flat < 360 - NORTH)] // 10)
    return min(len(east), len(west)) >= DIFFERENT and len(parts) >= PARTS


def merged(
    values: np.ndarray,
    cells: np.ndarray,
    shape: tuple[int, int],
    unit: str | None,
    names: Iterable[str | None],
    kind: str | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the values in each cell of a table (N, T), NaN where there is none, and their number.

    That of directions, which a ``kind`` says or :func:`is_direction` recognizes, is around the circle.
    Directions that cancel each other, such
    as north and south, have none.
    """
    size = shape[0] * shape[1]
    number = np.bincount(cells, minlength=size)

    def mean(part: np.ndarray) -> np.ndarray:
        sums = np.bincount(cells, weights=part, minlength=size)
        return np.divide(sums, number, out=np.full(size, np.nan), where=number > 0)

    result, several = mean(values), number > 1
    if several.any():
        first, last = np.full((2, size), np.nan)
        last[cells], first[cells[::-1]] = values, values[::-1]
        ends = np.concatenate([first, last]).reshape(-1, shape[1])
        if kind == "direction" or (kind is None and is_direction(ends, unit, [name for name in names if name])):
            angle = np.deg2rad(values)
            east, north = mean(np.sin(angle)), mean(np.cos(angle))
            degrees = np.where(np.hypot(east, north) > CANCEL, np.rad2deg(np.arctan2(east, north)), np.nan)
            result[several] = (degrees if values.min() < 0 else degrees % 360)[several]
    return result.reshape(shape), number.reshape(shape)
