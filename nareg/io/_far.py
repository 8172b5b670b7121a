"""Stations that lie far from all others: a sign that was forgotten, coordinates exchanged, or a wrong row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nareg._core.neighbors import EARTH_RADIUS_KM, unit_vectors
from nareg.io._notes import Notes, count, is_or_are, listed

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
        notes.fact(f"{count(len(others), 'station')} more {is_or_are(len(others))} as far from the others: {listed(others)}")
