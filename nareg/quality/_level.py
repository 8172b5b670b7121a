"""Levels and responses: readings that fit the other stations by no conversion.

The station's own mean was taken from the readings in question. So its level, too, is predicted from the other stations, by the
same correlation in space; how well that works is measured by doing it for every station.

Stations that read something else, indoors or by a broken law, have a level and a response unlike the other stations'. The
response is the slope of a station's readings over their prediction from the others, by generalized least squares: 1 for a
healthy one, about 0 indoors, 8 for a sensor that reads 300 + 8 x. The level is compared with what the others' levels say of
the place, in their own spread. Either by itself is no fault: a mountain is cold, and a coast varies little. But where the
others all respond nearly alike, a station that hardly does is suspect at any level: indoors it is as warm as a summer's day. Of
two stations at one place the level decides: the one that is off from all others is the faulty one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from nareg._core.arrays import MAD_TO_STD, robust_std
from nareg.quality._others import Others, isolated, nearest, others
from nareg.quality._residuals import FEWEST, Residuals
from nareg.quality._results import Fault

#: The response is so many times the network's, or less than one over it, by so many standard errors.
FACTOR, SURE = 3.0, 3.0
#: A span in which more than this share of the stations respond so tells nothing of one: soils that freeze rest at 0 °C.
MOST_ODD = 0.25
#: By itself a response is a fault where it is less than one over this times the network's, by a standard error, and so many
#: standard deviations of all responses below them, in the logarithm; none counts as less than the last.
DEAF, BELOW, LEAST_SLOPE = 5.0, 6.0, 1e-2
#: And these differ by no more: stations of fine dust differ by .6, and some in clean air follow no other.
NEARLY_ALIKE = 0.4
#: Also among this share of the readings, those of which the others expect least change.
CALM = 0.9
#: The level differs by so many standard deviations of the network's levels.
FAR = 6.0
#: And it is at least this share of the largest difference of all stations.
LARGEST = 0.7
#: Degrees of freedom of the distribution of levels.
DF = 4.0
#: Logarithm of odds, four to one, from which on it is known which of two levels is wrong.
KNOWN = 1.4
#: Levels are known no better than to this share of the spread of readings.
SHARE = 0.25
#: A level lasts whose last quarters differ by less than this share of it.
STEADY = 0.1
#: Spans begin or end at so many places in the record, and are the whole of it.
CUTS = 16
#: Readings in the span, and stations, at least.
SHORTEST, STATIONS = 40, 4


@dataclass(frozen=True)
class Response(Fault):
    """Readings that respond to the field by ``slope``, and whose level is off by ``level`` in the model's unit.

    The slope is NaN where a station at the same place decided, and the level where it is not off.
    """

    slope: float
    level: float


def differences(residuals: Residuals, seen: Others, enough: np.ndarray) -> np.ndarray:
    """(rows, N) readings minus what all other stations say of the place, its level too, in the model's unit."""
    values = residuals.grid.on_rows(residuals.model.to_unit(residuals.readings).T)
    return values - predicted(residuals, seen, enough)


def predicted(residuals: Residuals, seen: Others, enough: np.ndarray) -> np.ndarray:
    """(rows, N) what the other stations say.

    A station's own cycles came from the readings in doubt, so all have the median station's. Of a field that hardly returns to
    its mean, the prediction knows changes only.
    """
    cycles = np.median((residuals.offset - residuals.offset.mean(axis=0))[:, enough], axis=1)
    return seen.prediction - np.median(seen.prediction, axis=0) + cycles[:, None] + _levels(residuals, enough)


def _levels(residuals: Residuals, enough: np.ndarray) -> np.ndarray:
    """(N,) mean of every station, in the model's unit, from the others' medians by kriging, robustly."""
    own = medians(residuals.grid.on_rows(residuals.model.to_unit(residuals.readings).T))
    center = float(np.median(own[enough]))
    spread = robust_std(own[enough]) or 1.0
    z = np.where(enough, np.clip(own - center, -3 * spread, 3 * spread), 0.0)
    parameters, space = residuals.model.parameters, residuals.model.space
    K = parameters.covariance(space) / np.exp(parameters.log_variance)
    precision = np.linalg.inv(K + np.diag(np.where(enough, 0.1, 1e6)))
    weighted = precision @ (z - np.median(z[enough]))
    return z - weighted / np.diag(precision) + center


def responses(residuals: Residuals, seen: Others) -> list[Response]:
    """Stations of another level and response, from some time on, up to some time, or throughout.

    Without places there are none: stations that move together may be at any level.
    """
    if residuals.model.graph.coordinates is None:
        return []
    T = len(seen.prediction)
    counted, live, white = _compared(residuals, seen)
    if live.sum() < STATIONS:
        return []
    off, usual = _apart(residuals, seen, live)
    typical = float(np.median(_slopes(white, slice(0, T))[0][live]))
    best = {twin.station: twin for twin in _twins(residuals, off, live, usual)}
    cuts = [int(cut) for cut in np.linspace(0, T, CUTS + 1)[1:-1]]
    for start, stop in [(0, T), *((cut, T) for cut in cuts), *((0, cut) for cut in cuts)]:
        slope, error = _slopes(white, slice(start, stop))
        apart = np.where(live, medians(off[start:stop]), 0.0)
        odd = (slope + SURE * error < typical / FACTOR) | (slope - SURE * error > typical * FACTOR)
        if (odd & live).sum() > MOST_ODD * live.sum():
            continue
        # in a season levels differ by more than in the whole record: one soil thaws before the other
        others = apart[live & ~odd]
        far = max(usual, MAD_TO_STD * float(np.median(np.abs(others - np.median(others)))))
        # a station that is far off takes its neighbors' predictions along
        odd &= (np.abs(apart) > FAR * far) & (np.abs(apart) >= LARGEST * np.abs(apart).max())
        odd &= counted[start:stop].sum(axis=0) >= SHORTEST
        for i in map(int, np.flatnonzero(odd)):
            now = Response(i, start, stop, float(np.abs(apart[i])) / far, float(slope[i]), float(apart[i]))
            if i not in best or now.ratio * (stop - start) > best[i].ratio * (best[i].stop - best[i].start):
                best[i] = now
    changed = [_from_the_change(response, off[:, response.station], usual) for response in best.values()]
    alone = [response for response in changed if not _with_others(response, seen)]
    return [response for response in alone if not _grew(response, off[:, response.station], white, typical)]


def deaf(residuals: Residuals, seen: Others) -> list[Response]:
    """Stations that hardly respond, where the others all do nearly alike; whatever else may be the reason is known."""
    counted, live, white = _compared(residuals, seen)
    if live.sum() < STATIONS or residuals.model.graph.coordinates is None:
        return []
    slope, error = _slopes(white, slice(None))
    logs, spread = _logs(slope, live)
    if not 0 < spread < NEARLY_ALIKE:
        return []
    below = (np.median(logs[live]) - logs) / spread
    typical = np.median(slope[live])
    # a response that is far below zero, or hardly known, is none that is nearly zero
    odd = live & (np.abs(slope) + error < typical / DEAF) & (SURE * error < typical / 2) & (below > BELOW)
    # jams and floods are not at every place: beside them, too, the others have to respond alike
    expected = np.where(counted, np.abs(white[1]), np.nan)
    calm = expected <= np.nanquantile(np.where(live, expected, 0.0), CALM, axis=0)
    calm_slope, _ = _slopes([np.where(calm, part, 0.0) for part in white], slice(None))
    if not 0 < _logs(calm_slope, live & ~odd)[1] < NEARLY_ALIKE:
        return []
    return [
        Response(i, 0, len(counted), float(below[i]), float(slope[i]), math.nan)
        for i in np.flatnonzero(odd).tolist() if _without_the_nearest(residuals, i) < typical / DEAF
    ]  # fmt: skip


def _without_the_nearest(residuals: Residuals, station: int) -> float:
    """Response of a station to all others but the nearest, whose spikes may be what is expected of it."""
    _, _, white = _compared(residuals, others(residuals, [nearest(residuals, station)]))
    slope, error = _slopes(white, slice(None))
    return float(abs(slope[station]) - error[station])


def _logs(slope: np.ndarray, live: np.ndarray) -> tuple[np.ndarray, float]:
    """Logarithms of responses, and how much those of the live stations differ."""
    logs = np.log(np.maximum(slope, LEAST_SLOPE))
    return logs, robust_std(logs[live])


def _compared(residuals: Residuals, seen: Others) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Readings (T, N) that count, stations (N,) with enough of them, and whitened readings, predictions and ones."""
    counted = np.isfinite(residuals.y) & ~residuals.frozen & residuals.usable.any(axis=0)
    live = (counted.sum(axis=0) >= SHORTEST) & ~isolated(residuals)
    y = np.where(np.isfinite(residuals.y), residuals.y, seen.prediction)
    parts = (y, seen.prediction, np.ones(y.shape))
    return counted, live, [np.where(counted, seen.whitener.apply(part), 0.0) for part in parts]


def _apart(residuals: Residuals, seen: Others, live: np.ndarray) -> tuple[np.ndarray, float]:
    """The :func:`differences` less those of the median station, and the standard deviation of levels."""
    off = differences(residuals, seen, live)
    own = medians(off)
    center = float(np.median(own[live]))
    spread, scatter = (float(np.median(part[live])) for part in (np.abs(own - center), medians(np.abs(off - own))))
    return off - center, MAD_TO_STD * max(spread, SHARE * scatter, 1e-9)


def odds_of_levels(residuals: Residuals, seen: Others, fault: Fault) -> float:
    """Logarithm of the odds that a station's readings in a span, and not its others, are wrong.

    A step shows that two parts of a record differ, and not which one is right: that is the one whose level is as near to what
    the others say of the place as those of the others are. Levels follow a t distribution.
    """
    there, station = np.isfinite(residuals.y), fault.station
    inside = np.zeros(len(there), dtype=bool)
    inside[fault.start : fault.stop] = True
    live = there.sum(axis=0) >= FEWEST
    parts = inside, ~inside
    if live.sum() < STATIONS or not all(there[part, station].any() for part in parts):
        return 0.0
    off, usual = _apart(residuals, seen, live)
    surprise = []
    for part in parts:
        others = live & (there[part].sum(axis=0) >= FEWEST)
        others[station] = False
        if others.sum() < STATIONS - 1:
            return 0.0
        own = medians(np.where(there, off, np.nan)[part])
        center = float(np.median(own[others]))
        spread = max(usual, MAD_TO_STD * float(np.median(np.abs(own[others] - center))))
        surprise.append((DF + 1) / 2 * np.log1p(((own[station] - center) / spread) ** 2 / DF))
    return float(surprise[0] - surprise[1])


def earlier_is_wrong(odds: float, before: int, after: int) -> bool:
    """Whether of a step the readings before it are wrong, by these odds of those after it.

    Where fewer are before it the levels have to say so at all, else clearly.
    """
    return odds < (0.0 if before < after else -KNOWN)


def _from_the_change(response: Response, apart: np.ndarray, usual: float) -> Response:
    """The response from the time on, or up to the time, at which most readings are far off: what was right stays right."""
    span = _far_span(apart[response.start : response.stop], usual)
    if span is None or math.isnan(response.level):
        return response
    return replace(response, start=response.start + span.start, stop=response.start + span.stop)


def _with_others(response: Response, seen: Others) -> bool:
    """Whether a level begins or ends when others change theirs: after an earthquake all move on, the nearest one most."""
    ends = {response.start: response.level, response.stop: -response.level}
    return any(seen.share(response.station, end, jump) for end, jump in ends.items() if 0 < end < len(seen.white))


def _grew(response: Response, apart: np.ndarray, white: list[np.ndarray], typical: float) -> bool:
    """Whether a part of a record becomes another level step by step, from readings that respond: a battery that empties.

    A sensor that is moved or misread has its other level at once, or stays there, or hardly responds in the rest either.
    """
    known = np.flatnonzero(np.isfinite(apart))
    edges = np.searchsorted(known, [response.start, response.stop])
    inner = [int(edge) for edge in edges if FEWEST <= edge <= known.size - FEWEST]
    if math.isnan(response.slope) or not inner:
        return False
    reach = -(-len(apart) // CUTS)  # spans begin at cuts, perhaps after the change
    places = {c for edge in inner for c in range(max(edge - reach, FEWEST), min(edge + reach, known.size - FEWEST) + 1)}
    before, after = (
        np.array([np.median(apart[known[side]]) for side in sides])
        for sides in ([slice(max(c - SHORTEST, 0), c) for c in places], [slice(c, c + SHORTEST) for c in places])
    )
    inside = apart[known[edges[0] : edges[1]]]
    near, end = map(np.median, np.array_split(inside if edges[0] >= FEWEST else inside[::-1], 4)[2:])
    if np.abs(after - before).max() > abs(response.level) / 2 or abs(end - near) < STEADY * abs(response.level):
        return False
    rest = [part[:, [response.station]].copy() for part in white]
    for part in rest:
        part[response.start : response.stop] = 0.0
    slope, error = _slopes(rest, slice(None))
    return bool(slope[0] + SURE * error[0] > typical / FACTOR and slope[0] - SURE * error[0] < typical * FACTOR)


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
    assert places is not None
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
        level = medians(third[span]) - np.median(medians(third)[rest])
        i = int(a if abs(level[a]) >= abs(level[b]) else b)
        if abs(level[i]) > FAR * usual:
            result.append(Response(i, span.start, span.stop, abs(float(level[i])) / usual, math.nan, float(level[i])))
    return result


def medians(values: np.ndarray) -> np.ndarray:
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
