"""Directions in degrees: how they are recognized, and averaged around the circle."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

#: Names of directions.
NAMES = frozenset(
    ("direction", "direccion", "dirección", "richtung", "windrichtung", "windrichting", "richting", "winddirection", "winddir",
     "wdir", "wd", "dir", "mwd", "azimuth", "heading", "bearing")
)  # fmt: skip
UNITS = frozenset(("°", "deg", "degree", "degrees", "degt", "degtrue", "degreestrue", "degreetrue", "°true", "degrees_true"))
#: Readings alone tell directions by so many steps across the seam, this share of all, and of the steps beyond half a turn.
CROSSINGS, SHARE, MOST = 5, 0.002, 0.8
#: Such a step is short around the circle: its median, in degrees, as near to north as the readings on both sides reach.
SHORT, NORTH = 45.0, 45.0
#: Different whole degrees that occur on either side of north, and parts of ten degrees elsewhere.
DIFFERENT, PARTS = 4, 5
#: The readings reach within this many degrees of either end.
REACH = 15.0
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
    known = np.isfinite(values)
    if not known.any():
        return False
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if low < -180 or high > 360 or (low < 0 and high > 180):
        return False
    in_degrees = unit is not None and re.sub(r"[\s.]+", "", unit).casefold() in UNITS
    if unit is not None and not in_degrees:
        return False
    from_seam = values if low >= 0 else values + 180  # -180 to 180 wraps there
    named = in_degrees or any(map(_named, names))
    return _both_sides(from_seam) if named else _wraps(from_seam)


def _named(name: str) -> bool:
    """Whether a name says direction: as a word, or in the manner of windDir and WIND_DIRECTION_10M."""
    spaced = re.sub(r"(?<=[a-zäöü])(?=[A-Z])", " ", name)
    words = re.split(r"[\W\d_]+", spaced.casefold())
    return bool(NAMES & {*words, "".join(words)}) or any(word.startswith("wind") and word.endswith("dir") for word in words)


def _both_sides(values: np.ndarray) -> bool:
    """Whether readings lie on both sides of the seam, so that their mean would point to the other side."""
    return bool((values < 90).any() and (values > 270).any())


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
    values: np.ndarray, cells: np.ndarray, shape: tuple[int, int], unit: str | None, names: Iterable[str | None]
) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the values in each cell of a table (N, T), NaN where there is none, and their number.

    That of directions, as :func:`is_direction` recognizes them, is around the circle. Directions that cancel each other, such
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
        if is_direction(np.concatenate([first, last]).reshape(-1, shape[1]), unit, [name for name in names if name]):
            angle = np.deg2rad(values)
            east, north = mean(np.sin(angle)), mean(np.cos(angle))
            degrees = np.where(np.hypot(east, north) > CANCEL, np.rad2deg(np.arctan2(east, north)), np.nan)
            result[several] = (degrees if values.min() < 0 else degrees % 360)[several]
    return result.reshape(shape), number.reshape(shape)
