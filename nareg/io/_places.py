"""Positions as people and receivers write them, and stations that lie far from all others."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from nareg._core.neighbors import EARTH_RADIUS_KM, unit_vectors
from nareg.errors import InputError, MissingDependencyError
from nareg.io._notes import Notes, count, listed, verb

_NUMBER = r"\d+(?:[.,]\d+)?"
#: Degrees, minutes and seconds between marks, colons or spaces; a letter before or after.
_MARKED = re.compile(
    rf"(?P<before>[NSEW])?\s*(?P<sign>[+\-−]?)\s*(?P<degrees>{_NUMBER})\s*(?:[°º˚:d]|deg\.?|\s)?\s*"
    rf"(?:(?P<minutes>{_NUMBER})\s*(?:['′’‘´:m]|min\.?|\s)?\s*"
    rf"(?:(?P<seconds>{_NUMBER})\s*(?:[\"″”s]|''|′′|’’|sec\.?)?)?)?\s*(?P<after>[NSEW])?",
    re.IGNORECASE,
)
_AXES = ("NS", "EW")
#: From so many stations on, minutes below 60 everywhere are no chance.
PACKED_FROM, DECIMALS_FROM = 3, 6


class Angles:
    """Reads cells of a latitude (column 0) and a longitude (column 1) that are no plain numbers.

    Examples
    --------
    >>> angles = Angles()
    >>> round(angles.read("49° 23' N", 0, 0), 4), angles.read("87.65W", 0, 1), angles.read("49° 75' N", 0, 0)
    (49.3833, -87.65, None)
    """

    def __init__(self) -> None:
        self.number = 0
        self._first: tuple[str, float, str, int, int] | None = None

    def read(self, cell: str, row: int, column: int) -> float | None:
        """Degrees, or None where the cell is no angle of this column."""
        parsed = _MARKED.fullmatch(cell.strip()) if column < len(_AXES) else None
        if parsed is None or (parsed["before"] and parsed["after"]):
            return None
        letter = (parsed["before"] or parsed["after"] or "").upper()
        if letter and (letter not in _AXES[column] or parsed["sign"]):
            return None
        parts = [part for part in (parsed["degrees"], parsed["minutes"], parsed["seconds"]) if part is not None]
        numbers = [float(part.replace(",", ".")) for part in parts]
        whole = all(part.isdecimal() for part in parts[:-1])
        if not whole or any(part >= 60 for part in numbers[1:]):
            return None
        degrees = sum(part / 60**k for k, part in enumerate(numbers))
        value = -degrees if letter in ("S", "W") or parsed["sign"] in ("-", "−") else degrees
        self.number += 1
        if self._first is None:
            kind = ("degrees", "degrees and minutes", "degrees, minutes and seconds")[len(parts) - 1]
            self._first = cell, value, kind, row, column
        return value

    def finish(self, values: np.ndarray, notes: Notes, where: Callable[[int, int], str]) -> None:
        """Note what was read."""
        if self._first is not None:
            cell, value, kind, row, column = self._first
            notes.guess(
                f"{count(self.number, 'coordinate')} such as {cell!r} {verb(self.number)} read as {kind} ({value:.6g})",
                "write decimal degrees, west and south with a minus",
                place=where(row, column),
            )


def unpack(places: np.ndarray, notes: Notes) -> np.ndarray:
    """Degrees of coordinates (N, 2) that receivers pack as ddmm.mmm; others as they are.

    They are packed where a latitude exceeds 90, none exceeds 9000, and what follows the degrees is below 60 everywhere.
    """
    known = places[np.isfinite(places).all(axis=1)]
    size = np.abs(known)
    packed = len(known) and size[:, 0].max() > 90 and (size <= [9000, 18000]).all() and (size % 100 < 60).all()
    if not packed or len(known) < PACKED_FROM or size[:, 0].min() < 90:
        return places
    degrees: np.ndarray = np.sign(places) * (np.abs(places) // 100 + np.abs(places) % 100 / 60)
    first = abs(known[0, 0])
    notes.guess(
        f"coordinates such as {first:.10g} are read as degrees and minutes, ddmm.mmm ({first // 100 + first % 100 / 60:.6g})",
        "write decimal degrees",
    )
    return degrees


def in_degrees(places: np.ndarray, crs: str, notes: Notes) -> np.ndarray:
    """Latitude and longitude of positions (N, 2) in the plane of a reference system, such as ``EPSG:28992``."""
    try:
        from pyproj import CRS, Transformer
        from pyproj.exceptions import CRSError
    except ImportError:
        raise MissingDependencyError(f"crs is {crs!r}, which needs pyproj: pip install pyproj.") from None
    try:
        system = CRS.from_user_input(crs)
    except CRSError:
        raise InputError(f"crs is {crs!r}, which is not known: pass a code such as 'EPSG:32632' or 'EPSG:28992'.") from None
    if not system.is_projected:
        raise InputError(f"crs is {crs!r}, which has no x and y in the plane: pass the system of the coordinates.")
    longitude, latitude = Transformer.from_crs(system, 4326, always_xy=True).transform(places[:, 0], places[:, 1])
    if not np.isfinite([longitude, latitude]).all():
        raise InputError(f"crs is {crs!r}, but positions of {notes.source} lie outside of it: pass their own system.")
    notes.fact(f"x and y are converted to degrees from {system.name}")
    return np.column_stack([latitude, longitude])


def note_two_decimals(places: np.ndarray, notes: Notes) -> None:
    """Note degrees whose decimals may be minutes: 49.22 for 49° 22'."""
    known = places[np.isfinite(places).all(axis=1)]
    minutes = np.abs(known) % 1 * 100
    whole = np.rint(minutes)
    if len(known) >= DECIMALS_FROM and np.allclose(minutes, whole, atol=1e-6) and whole.max() < 60 and np.median(whole) > 0:
        notes.fact(
            f"no coordinate has more than two decimals, and none reaches .60: if {known[0, 0]:g} means "
            f"{int(abs(known[0, 0]))}° {whole[0, 0]:02.0f}', divide the minutes by 60"
        )


def in_meters(places: np.ndarray) -> bool:
    """Whether places (N, 2) are no degrees in any form, but meters of a grid."""
    known = np.abs(places[np.isfinite(places).all(axis=1)])
    return bool(len(known) and (known > [9000, 18000]).any(axis=1).all() and not all(map(_with_seconds, known)))


def _with_seconds(size: np.ndarray) -> bool:
    """Whether a place may be in degrees, minutes and seconds, ddmmss."""
    return bool(
        (size <= [900000, 1800000]).all() and (size % 1e4 // 100 < 60).all() and (size % 100 < 60).all() and size[1] > 1e4
    )


def refusal(latitude: float, longitude: float) -> str:
    """What a place beyond 90 and 360 degrees may be, and the remedy."""
    size = np.abs([latitude, longitude])
    if size[0] <= 180 and size[1] <= 90:
        return "latitude and longitude are exchanged: name the columns the other way round"
    if (size <= [9000, 18000]).all() and (size % 100 < 60).all():
        return "if these are degrees and minutes (ddmm.mmm), write decimal degrees: minutes divided by 60"
    if _with_seconds(size):
        return (
            "if these are degrees, minutes and seconds (ddmmss) write decimal degrees; if they are meters name the columns "
            "x and y"
        )
    return "write a latitude of at most 90 and a longitude of at most 360 degrees, or name columns in meters x and y"


#: A station is far from this multiple of the usual distance to the middle on; half of it, where a usual slip explains it.
FAR = 6.0
#: Fewer stations than this have no usual distance.
FEW = 5
#: Usual slips in latitude and longitude, and how to undo them.
SLIPS: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("with the other sign of its longitude", lambda place: place * [1, -1]),
    ("with the other sign of its latitude", lambda place: place * [-1, 1]),
    ("with both signs changed", lambda place: -place),
    ("with latitude and longitude exchanged", lambda place: place[::-1]),
)


def note_far(names: np.ndarray, places: np.ndarray, metric: str, notes: Notes) -> None:
    """Note stations far from all others, and the slip that would explain the first."""
    if len(places) < FEW:
        return
    degrees = metric == "haversine"
    size = EARTH_RADIUS_KM if degrees else float(np.abs(places).max()) or 1.0
    points = unit_vectors(places) if degrees else places / size  # whose squares do not overflow
    middle = np.median(points, axis=0)
    if degrees:
        middle /= max(float(np.linalg.norm(middle)), 1e-9)
    radius = np.linalg.norm(points - middle, axis=1)
    usual = float(np.quantile(radius, 0.75))

    def slip(i: int) -> str | None:
        def undone(undo: Callable[[np.ndarray], np.ndarray]) -> float:
            place = undo(places[i])
            there = np.abs(place[0]) <= 90
            return float(np.linalg.norm(unit_vectors(place[None]) - middle)) if there else np.inf

        return next((what for what, undo in SLIPS if undone(undo) <= 1.5 * usual), None) if degrees else None

    outer = [int(i) for i in np.argsort(-radius) if radius[i] > FAR / 2 * usual]
    far = [i for i in outer if radius[i] > FAR * usual or slip(i) is not None]
    if usual == 0 or not far or len(far) > len(places) / 4:
        return
    first = far[0]
    away = float(np.linalg.norm(np.delete(points, far, axis=0) - points[first], axis=1).min())
    away = size * (2 * float(np.arcsin(min(away / 2, 1))) if degrees else away)
    slip_of_first = slip(first)
    remedy = (
        f"{slip_of_first} it would be among them" if slip_of_first else "check the coordinates, their signs and their order"
    )
    notes.fact(f"station {str(names[first])!r} is {away:,.0f}{' km' if degrees else ''} from all others: {remedy}")
    if others := [str(names[i]) for i in far[1:]]:
        notes.fact(f"{count(len(others), 'station')} more {verb(len(others))} as far from the others: {listed(others)}")
