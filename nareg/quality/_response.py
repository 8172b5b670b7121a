"""Stations that read something else: indoors, or by a broken law. Level and response are both unlike the other stations'.

The response is the slope of a station's readings over their prediction from the others, by generalized least squares: 1 for a
healthy one, about 0 indoors, 8 for a sensor that reads 300 + 8 x. The level is compared with what the others' levels say of
the place, in their own spread. Either alone is no fault: a mountain is cold, and a coast is calm. Of two stations at one place
the level alone decides: the one that is off from all others is the faulty one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from nareg.quality._others import Others, alone, others
from nareg.quality._residuals import Residuals
from nareg.quality._unit import differences
from nareg.spacetime._readings.outliers import MAD_TO_STD

#: The response is so many times the network's, or less than one over it, by so many standard errors.
FACTOR, SURE = 3.0, 3.0
#: The level differs by so many standard deviations of the network's levels.
FAR = 6.0
#: And it is at least this share of the largest difference of all stations.
LARGEST = 0.7
#: Levels are known no better than to this share of the spread of readings.
SHARE = 0.25
#: Spans begin or end at so many places in the record, and are the whole of it.
CUTS = 16
#: Readings in the span, and stations, at least.
SHORTEST, STATIONS = 40, 4


@dataclass(frozen=True)
class Response:
    """A station whose readings from ``start`` to ``stop`` respond to the field by ``slope``.

    Their level is off by ``level`` in the model's unit, ``ratio`` standard deviations. The slope is NaN where a station at the
    same place decided.
    """

    station: int
    start: int
    stop: int
    slope: float
    level: float
    ratio: float

    @property
    def order(self) -> float:
        """How clear the fault is beside others of its kind."""
        return self.ratio


def responses(residuals: Residuals, seen: Others) -> list[Response]:
    """Stations of another level and response, from some time on, up to some time, or throughout."""
    T, N = seen.prediction.shape
    counted = np.isfinite(residuals.y) & ~residuals.frozen & residuals.usable.any(axis=0)
    live = (counted.sum(axis=0) >= SHORTEST) & ~alone(residuals)
    if live.sum() < STATIONS:
        return []
    off = differences(residuals, seen, live)
    own = _median(off)
    center = float(np.median(own[live]))
    spread, scatter = (float(np.median(part[live])) for part in (np.abs(own - center), _median(np.abs(off - own))))
    usual = MAD_TO_STD * max(spread, SHARE * scatter, 1e-9)
    y = np.where(np.isfinite(residuals.y), residuals.y, seen.prediction)
    white = [np.where(counted, seen.whitener.apply(part), 0.0) for part in (y, seen.prediction, np.ones((T, N)))]
    typical = float(np.median(_slopes(white, slice(0, T))[0][live]))
    best = {twin.station: twin for twin in _twins(residuals, off, live, usual)}
    cuts = [int(cut) for cut in np.linspace(0, T, CUTS + 1)[1:-1]]
    for start, stop in [(0, T), *((cut, T) for cut in cuts), *((0, cut) for cut in cuts)]:
        slope, error = _slopes(white, slice(start, stop))
        apart = np.where(live, _median(off[start:stop]) - center, 0.0)
        odd = (slope + SURE * error < typical / FACTOR) | (slope - SURE * error > typical * FACTOR)
        # a station that is far off takes its neighbors' predictions along
        odd &= (np.abs(apart) > FAR * usual) & (np.abs(apart) >= LARGEST * np.abs(apart).max())
        odd &= counted[start:stop].sum(axis=0) >= SHORTEST
        for i in map(int, np.flatnonzero(odd)):
            now = Response(i, start, stop, float(slope[i]), float(apart[i]), float(np.abs(apart[i])) / usual)
            if i not in best or now.ratio * (stop - start) > best[i].ratio * (best[i].stop - best[i].start):
                best[i] = now
    return [_from_the_change(response, off[:, response.station] - center, usual) for response in best.values()]


def _from_the_change(response: Response, apart: np.ndarray, usual: float) -> Response:
    """The response from the time on, or up to the time, at which most readings are far off: what was right stays right."""
    span = _far_span(apart[response.start : response.stop], usual)
    if span is None:
        return response
    return replace(response, start=response.start + span.start, stop=response.start + span.stop)


def _far_span(apart: np.ndarray, usual: float) -> slice | None:
    """From which row on, or up to which, most of the differences (T,) are far; None where fewer than :data:`SHORTEST` more."""
    known = np.flatnonzero(np.isfinite(apart))
    if not known.size:
        return None
    far = np.where(np.abs(apart[known]) > FAR * usual, 1, -1)
    later, earlier = np.cumsum(far[::-1])[::-1], np.cumsum(far)
    if max(later.max(), earlier.max()) < SHORTEST:
        return None
    rows = known[int(np.argmax(later)) :] if later.max() >= earlier.max() else known[: int(np.argmax(earlier)) + 1]
    return slice(int(rows[0]), int(rows[-1]) + 1)


def _twins(residuals: Residuals, off: np.ndarray, live: np.ndarray, usual: float) -> list[Response]:
    """Of two stations at one place whose levels differ, the one that is off from what all other stations say."""
    places = residuals.model.graph.coordinates
    if places is None:
        return []
    same = (places[:, None] == places).all(axis=2) & live & live[:, None]
    result = []
    for a, b in np.argwhere(np.triu(same, 1)):
        apart = off[:, a] - off[:, b]
        rest = live.copy()
        rest[[a, b]] = False
        span = _far_span(apart, usual)
        if rest.sum() < STATIONS - 2 or span is None:
            continue
        third = differences(residuals, others(residuals, [int(a), int(b)]), rest)
        level = _median(third[span]) - np.median(_median(third)[rest])
        i = int(a if abs(level[a]) >= abs(level[b]) else b)
        if abs(level[i]) > FAR * usual:
            result.append(Response(i, span.start, span.stop, math.nan, float(level[i]), abs(float(level[i])) / usual))
    return result


def _median(values: np.ndarray) -> np.ndarray:
    """(N,) median of every column without its missing entries, 0 where there is none."""
    return np.array([float(np.median(c[np.isfinite(c)])) if np.isfinite(c).any() else 0.0 for c in values.T])


def _slopes(white: list[np.ndarray], span: slice) -> tuple[np.ndarray, np.ndarray]:
    """(N,) slopes of whitened readings over whitened predictions beside a constant, and their standard errors."""
    y, p, one = (part[span] for part in white)
    squares = np.maximum((one**2).sum(axis=0), 1e-300)
    y, p = (part - one * (one * part).sum(axis=0) / squares for part in (y, p))
    power = np.maximum((p**2).sum(axis=0), 1e-300)
    slope = (y * p).sum(axis=0) / power
    rest = ((y - slope * p) ** 2).sum(axis=0) / np.maximum((one != 0).sum(axis=0) - 2, 1)
    return slope, np.sqrt(np.maximum(rest, 1.0) / power)
