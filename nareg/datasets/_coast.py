"""Land and borders around a network, from Natural Earth, clipped to a rectangle and simplified."""

from __future__ import annotations

from functools import cache

import numpy as np

from nareg.datasets.registry import BUNDLED

#: Lowest and highest ratio of a map's height to its width, as the explorer's map.js draws it.
LOWEST, HIGHEST = 0.5, 0.8
#: Share of the map's extent around the stations, and the smallest extent in degrees.
MARGIN, SMALLEST = 0.1, 0.15
#: Vertices closer than this share of the map's extent are merged; islands smaller than that vanish.
DETAIL = 1 / 800
#: The data go from one side of the date line to the other in steps of 90 degrees around the globe.
LEAP = 60.0
#: A map wider than this has no coastline: it may cross the date line.
WIDEST = 180.0


def coast(places: np.ndarray) -> dict[str, list[list[float]]]:
    """Polygons ``land`` and lines ``borders``, each ``[longitude, latitude, longitude, ...]``, around (N, 2) places.

    Empty where the stations span more than half of the globe.
    """
    south, west = places.min(axis=0)
    north, east = places.max(axis=0)
    extent = max(north - south, east - west, SMALLEST)
    if east - west > WIDEST:
        return {"land": [], "borders": []}
    narrowing = max(float(np.cos(np.radians((south + north) / 2))), 0.05)  # of a degree of longitude
    wide, tall = max((east - west) * narrowing, SMALLEST), max(north - south, SMALLEST)
    pad = np.array([max(tall / HIGHEST - wide, 0) / narrowing, max(LOWEST * wide - tall, 0)]) / 2 + MARGIN * extent
    box = np.stack([np.array([west, south]) - pad, np.array([east, north]) + pad])
    detail = DETAIL * extent
    land = (clip(ring, box) for ring in _near("land", box))
    borders = (part for line in _near("borders", box) for part in _inside(line, box))
    return {
        "land": [flat for ring in land if len(ring) > 2 and len(flat := _flat(ring, detail)) > 6],
        "borders": [_flat(line, detail) for line in borders],
    }


@cache
def _lines(name: str) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """All lines of a layer, (K, 2) longitude and latitude, and the lower and upper corners of the boxes around them."""
    with np.load(BUNDLED / "natural_earth.npz", allow_pickle=False) as data:
        scale = float(data["scale"])
        starts, steps, lengths = (data[f"{name}_{part}"].astype(np.int64) for part in ("starts", "steps", "lengths"))
    firsts = np.cumsum(lengths) - lengths
    steps = np.insert(steps, firsts - np.arange(len(firsts)), starts, axis=0)
    steps[firsts[1:]] -= np.add.reduceat(steps, firsts)[:-1]  # back from the end of the line before
    points = np.cumsum(steps, axis=0) / scale
    lines = np.split(points, firsts[1:])
    low, high = (corner.reduceat(points, firsts) for corner in (np.minimum, np.maximum))
    before = np.roll(points[:, 0], 1)
    before[firsts] = points[firsts + lengths - 1, 0]
    for k in np.flatnonzero(np.logical_or.reduceat(np.abs(points[:, 0] - before) > LEAP, firsts)):
        lines[k] = _in_one_piece(lines[k])
        low[k], high[k] = lines[k].min(axis=0), lines[k].max(axis=0)
    return lines, low, high


def _in_one_piece(line: np.ndarray) -> np.ndarray:
    """A ring across the date line beyond 180 degrees, without the way around the globe; one around a pole as it is."""
    leaps = np.abs(line[:, 0] - np.roll(line[:, 0], 1)) > LEAP
    rest = line[~(leaps & np.roll(leaps, -1))]
    longitude = np.unwrap(rest[:, 0], period=360)
    return line if abs(longitude[-1] - longitude[0]) > LEAP else np.column_stack([longitude, rest[:, 1]])


def _near(name: str, box: np.ndarray) -> list[np.ndarray]:
    """The lines of a layer that a box may meet, on either side of the date line."""
    lines, low, high = _lines(name)
    return [
        lines[k] + turn
        for turn in np.array([[-360.0, 0.0], [0.0, 0.0], [360.0, 0.0]])
        for k in np.flatnonzero(((high + turn >= box[0]) & (low + turn <= box[1])).all(axis=1))
    ]


def clip(ring: np.ndarray, box: np.ndarray) -> np.ndarray:
    """A ring cut by the four sides of a box (Sutherland and Hodgman, 1974)."""
    for axis in (0, 1):
        for side, sign in ((0, 1.0), (1, -1.0)):
            if len(ring) == 0:
                return ring
            limit = box[side, axis]
            depth = sign * (ring[:, axis] - limit)
            after, depth_after = np.roll(ring, -1, axis=0), np.roll(depth, -1)
            crosses = (depth >= 0) != (depth_after >= 0)
            share = np.where(crosses, depth / np.where(crosses, depth - depth_after, 1.0), 0.0)[:, None]
            candidates = np.stack([ring, ring + share * (after - ring)], axis=1)
            ring = candidates[np.stack([depth >= 0, crosses], axis=1)]
    return ring


def _inside(line: np.ndarray, box: np.ndarray) -> list[np.ndarray]:
    """The runs of a line inside a box, with the point before and after."""
    inside = ((line >= box[0]) & (line <= box[1])).all(axis=1)
    near = inside | np.r_[inside[1:], False] | np.r_[False, inside[:-1]]
    cuts = np.flatnonzero(np.diff(near)) + 1
    return [part for part, shown in zip(np.split(line, cuts), np.split(near, cuts), strict=True) if shown[0] and len(part) > 1]


def _flat(line: np.ndarray, detail: float) -> list[float]:
    """One list of numbers, without vertices that the map cannot show."""
    cells = np.rint(line / detail).astype(np.int64)
    distinct = np.r_[True, (np.diff(cells, axis=0) != 0).any(axis=1)]
    distinct[-1] = True
    decimals = max(int(np.ceil(-np.log10(detail))) + 1, 0)
    return [round(float(number), decimals) for number in line[distinct].ravel()]
