"""Times at which a whole network repeats its values: its logger or its link stood still, not one of its sensors.

Where all others repeat, a repeat of one station is no evidence. A network that stood still shows otherwise: it repeats as a
whole for longer than its calms explain, and when it goes on, most stations leap, where a quantity at rest makes a step. One
that still stands at the end of the record shows no leap; it then rests hardly ever, and never for nearly as long.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from nareg.spacetime._readings.repeats import (
    CHANCE,
    SHORTEST_RUN,
    RepeatedValue,
    at_bound,
    intermittent,
    remembered,
    repeats,
    stuck_runs,
)
from nareg.spacetime._readings.resolution import steps

#: So many stations at least, and this share of those that read away from a bound, which are at least half of all that read.
FEWEST, SHARE = 3, 0.9
#: Their first change after it is a leap, in the median, of so many steps of the instrument; and of so many usual changes where
#: other calms are longer than this share of it.
LEAP, CALM = 2.5, 0.25
#: Values at which a network stands are a limit where it stands there at another time as well, for this share of the time.
BACK = 0.1
#: Stations of their own clocks go on within this share of the time that they stood still, and within so many steps.
SOON, SOONEST = 0.04, 3
#: The leap of such a station is so many times its next change, where a flood goes on to rise.
RISES = 2.0
#: A network that stands still at the end of its record rests in at most this share of the times before.
RARELY = 0.05


@remembered
def freezes(y: np.ndarray) -> list[list[RepeatedValue]]:
    """Runs of the stations (T, N) that repeated their values at the same times, a list for each such span of times.

    None of a quantity that rests at a bound for much of the time: sums of rain stay where they are until it rains again.
    """
    rows = np.flatnonzero(np.isfinite(y).any(axis=1))  # gaps of the whole network end no run
    y = y[rows]
    seen, repeated = np.isfinite(y), repeats(y)
    if len(y) < SHORTEST_RUN or intermittent(y):
        return []
    free = seen & ~at_bound(y, _limit_rows(y, repeated))
    free[np.argmax(seen, axis=0), np.arange(y.shape[1])] = False
    number = free.sum(axis=1)
    whole = (number >= FEWEST) & (2 * number >= seen.sum(axis=1)) & ((repeated & free).sum(axis=1) >= SHARE * number)
    spans = _spans(whole)
    long = [span for span in spans if span.stop - span.start >= SHORTEST_RUN - 1]
    ends = {span.start: _leap(y, repeated, span) if span.stop < len(y) else (np.inf, 0.0) for span in long}
    still = [span for span in long if ends[span.start][0] >= LEAP]
    calms = [span.stop - span.start for span in spans if span not in still]
    begins, goes_on = (len(calms) + 1) / (len(y) + 2), (sum(calms) - len(calms) + 1) / (sum(calms) + 2)
    result = []
    for span in still:
        length = span.stop - span.start
        evidence = -float(np.log(begins) + (length - 1) * np.log(goes_on))
        usual = max(calms, default=0) > CALM * length
        if span.stop == len(y) and (length > span.start or sum(calms) > RARELY * span.start):
            continue
        if evidence > np.log(len(y) / CHANCE) and not (usual and ends[span.start][1] < LEAP):
            stations = np.flatnonzero((repeated | ~seen)[span].all(axis=0) & (repeated & free)[span].any(axis=0))
            each = [(int(i), span.start + np.flatnonzero(seen[span.start : _until(y[:, i], span), i])) for i in stations]
            if len(each) >= FEWEST:  # of many stations, one or the other may go on at any time
                result.append([RepeatedValue(i, rows[own], float(y[own[0], i]), evidence) for i, own in each])
    return result


def stuck(y: np.ndarray) -> np.ndarray:
    """(T, N) True in runs of one value that chance does not explain, of a station or of the whole network."""
    result = np.zeros(y.shape, dtype=bool)
    for run in [*stuck_runs(y), *(run for runs in freezes(y) for run in runs)]:
        result[run.rows, run.station] = True
    return result


def _spans(where: np.ndarray) -> list[slice]:
    """Runs of True in (T,)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], where, [False]]).astype(int)))
    return [slice(start, stop) for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)]


def _limit_rows(y: np.ndarray, repeated: np.ndarray) -> np.ndarray:
    """(T,) rows that tell limits: where all stand still, their values look like some.

    But where all read alike, or most come back to their values for nearly as long, it is one: dry gauges, light at night.
    """
    seen = np.isfinite(y)
    still = (repeated | ~seen).all(axis=1) & (np.nanmax(y, axis=1) > np.nanmin(y, axis=1))
    for span in _spans(still):
        still[span] = span.stop - span.start >= SHORTEST_RUN - 1
    returned, runs = np.zeros(y.shape, dtype=bool), (seen & ~repeated).cumsum(axis=0)
    for i in range(y.shape[1]):
        there = np.flatnonzero(still & seen[:, i])
        _, first, run, lengths = np.unique(runs[there, i], return_index=True, return_inverse=True, return_counts=True)
        at_value = defaultdict[float, list[int]](lambda: [0])
        stays = list(zip(y[there[first], i].tolist(), lengths.tolist(), strict=True))
        for value, length in sorted(stays):
            at_value[value].append(length)
        others = [at_value[value][-2 if length == at_value[value][-1] else -1] for value, length in stays]
        returned[there, i] = (np.array(others, dtype=int) >= BACK * lengths)[run]
    return ~still | (2 * returned.sum(axis=1) >= seen.sum(axis=1))


def _soon(span: slice) -> int:
    """Readings within which a network goes on."""
    return min(SOONEST, 1 + int(SOON * (span.stop - span.start)))


def _until(series: np.ndarray, span: slice) -> int:
    """Where a station (T,) goes on by a leap, which may be soon after the others."""
    later = np.flatnonzero(np.isfinite(series[span.stop :]))[: 2 * _soon(span)] + span.stop
    away = np.abs(series[later] - series[span][np.isfinite(series[span])][-1])
    moved = int(np.argmax(away > 0)) if away.any() else 0
    known = series[np.isfinite(series)][None]
    return int(later[moved]) if moved and away[moved] >= LEAP * float(steps(known)[0]) else span.stop


def _leap(y: np.ndarray, repeated: np.ndarray, span: slice) -> tuple[float, float]:
    """Median over the stations of the change that ends a span, in steps of the instrument and in their usual changes.

    All go on at once where a logger does, or within a few steps; a flood wakes one station after another.
    """
    leaps, soon = [], _soon(span)
    for i in np.flatnonzero(repeated[span].any(axis=0)):
        series = y[np.isfinite(y[:, i]), i]
        changes = np.abs(np.diff(series))
        after = changes[np.isfinite(y[: span.stop, i]).sum() - 1 :]
        if after.any():
            late = int(np.argmax(after[:soon] > 0))
            leap, changes = after[late], changes[changes > 0]
            if late and leap < RISES * after[late + 1 : late + 2].max(initial=0.0):
                leap = 0.0
            step = max(float(steps(series[None])[0]), float(changes.min()))  # few values show no step
            leaps.append((leap / step, leap / float(np.median(changes))))
    if len(leaps) < FEWEST:
        return 0.0, 0.0
    in_steps, in_changes = np.median(leaps, axis=0)
    return float(in_steps), float(in_changes)
