"""Runs of one value: bounds of a quantity, where readings repeat by nature, and sensors that are stuck.

A repeated value is evidence only where it is unlikely. Humidity stays at 100, rain and the sun's light at 0, a coarse sensor
at its step, and a calm network repeats as a whole. So every repeat counts ``-log p``, with p the share of the other stations'
readings that repeat in the same state: at a bound with the others as near to it, or elsewhere with as many others that repeat.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import TypeVar

import numpy as np

from nareg._core.arrays import robust_std
from nareg.spacetime._readings.resolution import steps

Answer = TypeVar("Answer")

#: Readings of which answers are remembered: those of a file, and those of a fit, which hides some.
REMEMBERED = 2
#: Runs are stuck where chance gives such a run anywhere in the file with at most this probability.
CHANCE = 1e-3
SHORTEST_RUN = 5
#: A bound has so many readings at least, and so many times those of any of the next three values.
FEWEST_AT_BOUND, TIMES_NEXT = 10, 2.0
#: Zero, where nothing is less, has so many times the readings of the next values: the half of a step that is rounded to it.
AT_ZERO = 0.5
#: A limit of detection has at least this share of the readings, and at most this one beyond it.
AT_LIMIT, BEYOND_LIMIT = 0.01, 0.1
#: Values with less than this share of the readings at a limit are not beside it; it has so many times those of the next others.
RARE, TIMES_INSIDE = 0.4, 1.5
#: Of the values inside, this share is nearest to a bound: so many times as far from it as from the middle value, they are not
#: beside it, unless within so many steps of the instrument.
EDGE, APART, STEPS_APART = 0.05, 2.0, 4.0
#: What lies so many times the range of nearly all values beyond it is an error, and no bound.
BEYOND = 3.0
#: A quantity with more than this share of its readings at a bound is intermittent.
RESTING = 0.25
#: Runs in which a single station returns to its smallest or largest value, or some to a low one: a limit, no accident.
RETURNS = 3
#: Classes of alike times, by how many of the others repeat then, or how far they are from the bound; up to so many spreads.
CLASSES, TINY, FARTHEST = 6, 1e-3, 5.0
#: A run says nothing where the others moved, in the station's own measure, by fewer than so many of its steps.
MOVED = 2.0
#: A flood or a front may come to a station so much of a run after the others, or leave it before them.
TRAVELS = 0.1
#: A sensor that stood still catches up: it leaps by so many steps, and by what the others moved meanwhile, to this factor; they
#: move by at most this share of it when it leaps.
CAUGHT_UP, ALIKE, SUDDEN = 5.0, 3.0, 1 / 3
#: It is the last bit of evidence for a run that has nearly enough, this share of it, where it is one of few such leaps.
NEARLY, RARE_LEAP = 0.75, float(np.log(100))
#: So many stations that stand still and catch up at once are one fault, of what they share.
TOGETHER = 3
#: Runs longer than this share of a station's others are its long ones.
LONG = 0.95
#: Values up to so many steps away are beside a run, at least so many readings, and changes beyond this share of all are leaps.
STEPS_BESIDE, FEWEST_BESIDE, LEAP = 2.5, 30, 0.99
#: Readings at a bound that the others' share counts for beside the station's own.
PRIOR_READINGS = 10.0
#: Runs at a bound, or of a lone station, from which on their evidence has a tail of its own, between these two quantiles.
TAILED, TAIL = 40, (0.75, 0.95)
#: Runs that a station counts for in its own share of repeats beside the ones that it has.
PRIOR_RUNS = 4.0


@dataclass(frozen=True)
class Bounds:
    """Hard bounds of a quantity, which its readings reach and never cross; infinite where there is none."""

    low: float = -np.inf
    high: float = np.inf

    def clip(self, x: np.ndarray) -> np.ndarray:
        """Values inside."""
        return np.clip(x, self.low, self.high)

    def at(self, y: np.ndarray) -> np.ndarray:
        """1 where readings are at the upper bound, -1 at the lower one, else 0; a bound that some readings cross is none."""
        at_high = (y == self.high) & ~(y > self.high).any()
        at_low = (y == self.low) & ~(y < self.low).any()
        return at_high.astype(float) - at_low


@dataclass(frozen=True)
class RepeatedValue:
    """Readings of one station that repeat one value, from position ``start`` up to ``stop`` of those it has."""

    station: int
    rows: np.ndarray
    value: float
    evidence: float  # minus the logarithm of its probability


def bounds(y: np.ndarray) -> Bounds:
    """Bounds of the readings (T, N): their extremes, where several stations come back to exactly these again and again."""
    seen = np.isfinite(y)
    if not seen.any():
        return Bounds()
    values, counts = np.unique(y[seen], return_counts=True)
    low, high = np.quantile(values, [0.01, 0.99])
    possible = (values >= low - BEYOND * (high - low)) & (values <= high + BEYOND * (high - low))
    values, counts = values[possible], counts[possible]
    ends = []
    for ordered, number in ((values, counts), (values[::-1], counts[::-1])):
        end = float(ordered[0])
        shared = int((y == end).any(axis=0).sum()) >= min(2, y.shape[1])
        ends.append(end if shared and _is_atom(ordered, number) else None)
    low, high = ends
    return Bounds(-np.inf if low is None else low, np.inf if high is None else high)


def _is_atom(values: np.ndarray, counts: np.ndarray, times: float = TIMES_NEXT) -> bool:
    """Whether the first of the values, ordered from one end, has more readings than a tail has there, and is no code."""
    if values.size < 3 or counts[0] < max(FEWEST_AT_BOUND, times * counts[1:4].max()):
        return False
    inner = np.repeat(values[1:], np.minimum(counts[1:], 50))
    if not inner.size:
        return False
    near, middle = np.quantile(np.abs(inner - values[0]), [EDGE, 0.5])
    # a quantity comes near its bound; a mark for something else has nothing beside it
    return bool(near <= max(APART * (middle - near), STEPS_APART * float(np.median(np.abs(np.diff(values[1:]))))))


def detectable(y: np.ndarray) -> Bounds:
    """From where to where readings (T, N) tell the quantity: its bounds, or limits of detection inside.

    A limit of detection is a value that many stations read more often by far than any of the next ones, with few readings
    beyond: another instrument's, or those before the limit was set.
    """
    ends, seen = bounds(y), np.isfinite(y)
    values, at = np.unique(y[seen], return_inverse=True)
    by_station = np.zeros((y.shape[1], values.size), dtype=int)
    np.add.at(by_station, (np.nonzero(seen)[1], at), 1)
    shared = by_station.sum(axis=0) - by_station.max(axis=0, initial=0)  # one stuck sensor makes no limit
    low, high = _limit(values, shared), _limit(values[::-1], shared[::-1])
    graded = values.size > 1 and values[0] == 0 and shared[0] < TIMES_NEXT * shared[1:4].max()
    if low is None and graded and _is_atom(values, shared, AT_ZERO):
        low = 0.0  # what is never negative rests there, such as dust in whole numbers
    return Bounds(ends.low if low is None else max(low, ends.low), ends.high if high is None else min(high, ends.high))


def _limit(values: np.ndarray, shared: np.ndarray) -> float | None:
    """The innermost of the ``values``, ordered from one end, that is a limit of detection."""
    outside = np.cumsum(shared) - shared
    total = int(shared.sum())
    near = (outside <= BEYOND_LIMIT * total) & (outside + shared < total / 2)  # most readings are inside
    near &= shared >= max(FEWEST_AT_BOUND, AT_LIMIT * total)
    for k in map(int, np.flatnonzero(near)[::-1]):
        inside = shared[k + 1 :]
        # between the steps of one instrument lie values of another one
        if shared[k] >= TIMES_INSIDE * inside[inside > RARE * shared[k]][:3].max(initial=0):
            return float(values[k])
    return None


def at_bound(y: np.ndarray, moving: np.ndarray | slice = slice(None)) -> np.ndarray:
    """(T, N) True for readings at or beyond what is detectable, or at a limit that one station alone returns to.

    The rows ``moving`` tell bounds and limits.
    """
    ends = detectable(y[moving])
    result: np.ndarray = (y <= ends.low) | (y >= ends.high)
    for i, column in enumerate(y.T):
        series = column[moving][np.isfinite(column[moving])]
        if series.size < FEWEST_AT_BOUND:
            continue
        values, counts = np.unique(series, return_counts=True)
        for ordered, number in ((values, counts), (values[::-1], counts[::-1])):
            here = series == ordered[0]
            returns = int(here[0]) + int((here[1:] & ~here[:-1]).sum())
            if returns >= RETURNS and _is_atom(ordered, number):
                result[:, i] |= column == ordered[0]
    return result


def intermittent(y: np.ndarray) -> bool:
    """Whether the quantity rests at a bound for much of the time, as rain does: its readings follow no Gaussian law."""
    seen, ends = np.isfinite(y), bounds(y)
    resting = ((y == ends.low) | (y == ends.high)).sum()
    return bool(resting > RESTING * max(int(seen.sum()), 1))


def remembered(answer_of: Callable[[np.ndarray], Answer]) -> Callable[[np.ndarray], Answer]:
    """Remember what was said of the last few readings: one check after the other asks it of the same ones."""
    answers: dict[bytes, Answer] = {}

    @wraps(answer_of)
    def call(y: np.ndarray) -> Answer:
        key = hashlib.blake2b(y.tobytes(), key=repr(y.shape).encode()).digest()
        answer = answers.get(key)
        if answer is None:
            answer = answers[key] = answer_of(y)
            for old in list(answers)[:-REMEMBERED]:
                answers.pop(old, None)
        return deepcopy(answer)

    return call


@remembered
def stuck_runs(y: np.ndarray) -> list[RepeatedValue]:
    """Runs of one value in readings (T, N) that chance does not explain; missing readings do not end a run."""
    seen = np.isfinite(y)
    total = int(seen.sum())
    if total < SHORTEST_RUN:
        return []
    odds = _Odds.of(y)
    runs = []
    for i in range(y.shape[1]):
        rows = np.flatnonzero(seen[:, i])
        ends = np.append(np.flatnonzero(~odds.repeats[rows, i]), rows.size)
        long = np.flatnonzero(np.diff(ends) > 1)
        runs += [odds.run(i, rows[start:stop]) for start, stop in zip(ends[long], ends[long + 1], strict=True)]
    limit = float(np.log(total / CHANCE))
    resolution = steps(y.T)
    result = _stood_together(odds, runs, resolution, limit)
    single = {(run.station, run.rows[0]) for run in result}
    for kind in (False, True):
        same_kind = [run for run in runs if odds.bound[run.rows[0], run.station] == kind]
        for run in same_kind:
            if run.rows.size < SHORTEST_RUN or run.evidence <= NEARLY * limit or (run.station, run.rows[0]) in single:
                continue
            leap = 0.0 if kind else odds.caught_up(run, resolution[run.station])
            if leap > RARE_LEAP and run.evidence + leap > limit:
                result.append(replace(run, evidence=run.evidence + leap))
            elif run.evidence > limit:
                evidence = min(run.evidence, odds.beside(run, resolution[run.station]))
                beside = [other for other in same_kind if other.station != run.station]
                evidence /= _inflation(beside or [other for other in same_kind if other is not run], tailed=kind or not beside)
                if evidence > limit and _others_moved(y, run, resolution) and not _at_rest(y, run, same_kind, resolution):
                    result.append(replace(run, evidence=evidence))
    return sorted(_but_at_limits(y, odds, result), key=lambda run: (run.station, run.rows[0]))


def _but_at_limits(y: np.ndarray, odds: _Odds, runs: list[RepeatedValue]) -> list[RepeatedValue]:
    """The runs but those that come without a leap to a low value at which other stations rest so at other times.

    It is a limit of detection that holds for a part of the record or for some of the instruments.
    """
    low = np.quantile(y[np.isfinite(y)], RESTING)
    gentle: dict[float, list[RepeatedValue]] = {}
    for run in runs:
        if run.value <= low and not odds.leaps_to(run):
            gentle.setdefault(run.value, []).append(run)
    at_limits = [
        run for some in gentle.values() for run in some
        if len({run.station for run in some}) > 1 and len({run.rows[0] for run in some}) >= RETURNS
    ]  # fmt: skip
    return [run for run in runs if not any(run is other for other in at_limits)]


def _stood_together(odds: _Odds, runs: list[RepeatedValue], resolution: np.ndarray, limit: float) -> list[RepeatedValue]:
    """Runs of several stations that begin together, and end together as each catches up with those that went on."""
    by_end: dict[int, list[RepeatedValue]] = {}
    for run in runs:
        if run.rows.size >= SHORTEST_RUN and not odds.bound[run.rows[0], run.station]:
            by_end.setdefault(int(run.rows[-1]), []).append(run)
    result = []
    for ending in by_end.values():
        begin = float(np.median([run.rows[0] for run in ending]))
        group = [run for run in ending if abs(run.rows[0] - begin) <= max(TRAVELS * run.rows.size, 1.0)]
        if len(group) < TOGETHER:
            continue
        stations = [run.station for run in group]
        leaps = [odds.caught_up(run, resolution[run.station], stations) for run in group]
        if all(leaps) and sum(leaps) + max(run.evidence for run in group) > limit:
            result += [replace(run, evidence=max(sum(leaps) + run.evidence, limit)) for run in group]
    return result


def _inflation(runs: list[RepeatedValue], *, tailed: bool) -> float:
    """By how much the evidence of usual runs is larger than if their repeats were independent, at least 1.

    It would then be exponential, in steps of the evidence of one repeat: with a mean excess of 1 at most over 1 and a step.
    """
    excess = np.sort([run.evidence * (1 - 1 / (run.rows.size - 1)) - 1 for run in runs if run.evidence > 1])
    usual = excess[: excess.size - max(1, excess.size // 20)]  # without the longest, which may be faults
    if excess.size < FEWEST_AT_BOUND:
        return 1.0
    if len(runs) < TAILED or not tailed:
        return max(1.0, float(usual.mean()))
    # at a bound, or where nobody else reads, one deep in its rest stays for longer: long runs have a scale of their own
    inner, outer = np.quantile([run.evidence for run in runs], TAIL)
    return max(1.0, float(usual.mean()), float(outer - inner) / float(np.log((1 - TAIL[0]) / (1 - TAIL[1]))))


def _at_rest(y: np.ndarray, run: RepeatedValue, runs: list[RepeatedValue], resolution: np.ndarray) -> bool:
    """Whether the quantity itself may have come to rest, as a slow one does where it turns.

    It then goes on by one step of the instrument, where a sensor that was stuck has to catch up; and the station has other
    long runs, beside which this one is not too long.
    """
    column = y[run.rows[-1] + 1 :, run.station]
    after = column[np.isfinite(column)][:1]
    if after.size == 0 or abs(after[0] - run.value) > 1.5 * resolution[run.station]:
        return False
    lengths = np.array([other.rows.size for other in runs if other.station == run.station and other is not run])
    if lengths.size < FEWEST_AT_BOUND:
        return False
    long = float(np.quantile(lengths, LONG))
    excess = lengths[lengths > long] - long
    usual = float(np.median(excess)) / np.log(2) if excess.size else 0.0
    return run.rows.size <= long + usual * np.log(max(excess.size, 1) / CHANCE)


def repeats(y: np.ndarray) -> np.ndarray:
    """(T, N) True where a reading equals the one before it at its station."""
    result = np.zeros(y.shape, dtype=bool)
    for i, column in enumerate(y.T):
        rows = np.flatnonzero(np.isfinite(column))
        result[rows[1:], i] = np.diff(column[rows]) == 0
    return result


@dataclass(frozen=True, eq=False)
class _Odds:
    """Probability that a healthy station repeats its reading, by class of alike times.

    ``cell`` (T, N) is the class, ``tried`` and ``happened`` (cells, N) count readings and repeats. ``own`` (N,) are the shares
    of the stations themselves, away from bounds.
    """

    y: np.ndarray
    repeats: np.ndarray
    bound: np.ndarray
    scale: np.ndarray
    cell: np.ndarray
    tried: np.ndarray
    happened: np.ndarray
    own: np.ndarray

    @classmethod
    def of(cls, y: np.ndarray) -> _Odds:
        N = y.shape[1]
        seen, scale, bound, repeated = np.isfinite(y), _scales(y), at_bound(y), repeats(y)
        possible = seen.copy()
        possible[np.argmax(seen, axis=0), np.arange(N)] = False
        others_repeat = _of_others(np.where(possible, repeated & ~bound, np.nan))
        away = _of_others(np.where(seen, np.minimum(_distance(y, scale), FARTHEST), np.nan))
        cell = np.where(bound, CLASSES + 1 + _classes(away, bound), _classes(others_repeat, ~bound))
        tried, happened = np.zeros((2, 2 * (CLASSES + 1), N))
        t, i = np.nonzero(possible)
        np.add.at(tried, (cell[t, i], i), 1.0)
        np.add.at(happened, (cell[t, i], i), repeated[t, i])
        own = np.array([_own_share(repeated[:, k], bound[:, k], seen[:, k]) for k in range(N)])
        return cls(y, repeated, bound, scale, cell, tried, happened, own)

    @cached_property
    def _totals(self) -> tuple[np.ndarray, np.ndarray]:
        """Of ``happened`` and ``tried`` over all stations, summed once: a run is asked for at every station."""
        return self.happened.sum(axis=1), self.tried.sum(axis=1)

    def run(self, i: int, rows: np.ndarray) -> RepeatedValue:
        """The evidence of a run: of the others' repeats, and at a bound of the station's own at other times as well."""
        cells = self.cell[rows[1:], i]
        happened, tried = self._totals
        bound = bool(self.bound[rows[0], i])
        others = (happened - self.happened[:, i] + 1) / (tried - self.tried[:, i] + 2)
        others[CLASSES] = self.own[i]  # no other station reads
        if bound:
            inside = np.bincount(cells, minlength=len(self.tried))
            happened, tried = self.happened[:, i] - inside, self.tried[:, i] - inside
            probability = (happened + PRIOR_READINGS * others) / (tried + PRIOR_READINGS)
            probability[-1] = 1.0  # it may last, for all that is known
        else:
            probability = np.maximum(others, self.own[i])
        return RepeatedValue(i, rows, float(self.y[rows[0], i]), -float(np.log(probability[cells]).sum()))

    def beside(self, run: RepeatedValue, step: float) -> float:
        """The evidence of a run by how often the station repeats the values beside it: water at its freezing point rests.

        It comes there by way of these, where a sensor that fails leaps; and such a sensor returns to the value itself.
        """
        if self.leaps_to(run):
            return np.inf
        y, repeats = self.y[:, run.station], self.repeats[:, run.station]
        distance = np.abs(y - run.value)
        others = np.sort(distance[distance > 0])[:FEWEST_BESIDE]
        near = distance <= max(STEPS_BESIDE * step, float(others.max(initial=0.0)))
        return -float(np.log(_own_share(repeats, y == run.value, near))) * (run.rows.size - 1)

    def leaps_to(self, run: RepeatedValue) -> bool:
        """Whether a run begins with one of the station's largest changes."""
        series = self.y[np.isfinite(self.y[:, run.station]), run.station]
        before = self.y[: run.rows[0], run.station]
        before = before[np.isfinite(before)][-1:]
        return bool((np.abs(before - run.value) > np.quantile(np.abs(np.diff(series)), LEAP)).any())

    def caught_up(self, run: RepeatedValue, step: float, stations: Sequence[int] = ()) -> float:
        """The evidence of a leap after a run by about what the others moved meanwhile, and not at once; 0 if there is none.

        Where some ``stations`` stood still together, they are none of the others, and a smaller leap of any size will do.
        """
        i, stop, together = run.station, run.rows[-1], len(stations) > 0
        series = self.y[np.isfinite(self.y[:, i]), i]
        after = stop + 1 + np.flatnonzero(np.isfinite(self.y[stop + 1 :, i]))[:1]
        if not after.size or self.scale[i] == 0:
            return 0.0
        leap = float(self.y[after[0], i] - run.value)
        before = self.y[[run.rows[0], stop]]
        later = self.y[[run.rows[run.rows.size // 2], after[0]]]  # a flood that ends a rest moves none halfway
        moved = np.delete((later - before) / np.where(self.scale > 0, self.scale, np.nan), [i, *stations], axis=1)
        moved = moved[:, np.isfinite(moved).all(axis=0)] * self.scale[i]
        if abs(leap) < (STEPS_BESIDE if together else CAUGHT_UP) * step or not moved.size:
            return 0.0
        meanwhile, at_once = float(np.median(moved[0])), float(np.median(np.abs(moved[1])))
        if at_once > SUDDEN * abs(leap) or not (together or 1 / ALIKE < meanwhile / leap < ALIKE):
            return 0.0
        as_large = int((np.abs(np.diff(series)) >= abs(leap)).sum())
        return float(np.log(series.size / max(as_large, 1)))


def _of_others(values: np.ndarray) -> np.ndarray:
    """(T, N) mean of the other stations' values at the same time, NaN where there is none."""
    there = np.isfinite(values)
    plain = np.where(there, values, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (plain.sum(axis=1, keepdims=True) - plain) / (there.sum(axis=1, keepdims=True) - there)


def _classes(values: np.ndarray, where: np.ndarray) -> np.ndarray:
    """(T, N) class of every value: 0 for 0 and nearly so, equally frequent ones above, the last where there is none."""
    some = values[where & (values > TINY)]
    inner = np.quantile(some, np.linspace(0, 1, CLASSES)[1:-1]) if some.size else np.zeros(0)
    classes: np.ndarray = np.searchsorted(np.append(TINY, inner), np.nan_to_num(values))
    return np.where(np.isfinite(values), classes, CLASSES)


def _distance(y: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """(T, N) distance of the readings from the nearest end of what is detectable, in the station's spread."""
    ends = detectable(y)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.maximum(np.minimum(y - ends.low, ends.high - y), 0.0) / np.where(scale > 0, scale, 1.0)


def _own_share(repeats: np.ndarray, bound: np.ndarray, seen: np.ndarray) -> float:
    """Share of a station's runs, away from bounds, that are longer than one reading: large for a coarse or a slow one.

    A sensor that is stuck for a while has few such runs, however long they are.
    """
    rows = np.flatnonzero(seen & ~bound)
    starts = np.flatnonzero(~repeats[rows])
    lengths = np.diff(np.append(starts, rows.size))
    return (float((lengths > 1).sum()) + 1 / PRIOR_RUNS) / (lengths.size + PRIOR_RUNS)


def _scales(y: np.ndarray, spread_of: Callable[[np.ndarray], float] = robust_std) -> np.ndarray:
    """(N,) spread of every station, the network's where a station does not vary."""
    with np.errstate(all="ignore"):
        spread = np.array([spread_of(column[np.isfinite(column)]) for column in y.T])
    positive = spread[spread > 0]
    return np.where(spread > 0, spread, float(np.median(positive)) if positive.size else 0.0)


def _others_moved(y: np.ndarray, run: RepeatedValue, resolution: np.ndarray) -> bool:
    """Whether the others varied during a run by more than the station's step would hide.

    Where the quantity itself does not vary, in a drought or a calm, a value that stays is no fault. How much a station varies
    beside the others is seen at the other times.
    """
    inside, sure = np.zeros((2, len(y)), dtype=bool)
    inside[run.rows[0] : run.rows[-1] + 1] = True
    ends = int(TRAVELS * run.rows.size)
    sure[run.rows[ends] : run.rows[-1 - ends] + 1] = True
    scale = _scales(y[~inside])
    if not scale.any():  # all rest for most of the time
        scale = _scales(y, lambda values: float(values.std()) if values.size else 0.0)
    rest = y[~inside, run.station]
    step = float(steps(np.append(rest, run.value)[None])[0])
    others = [j for j in range(y.shape[1]) if j != run.station and scale[j] > 0]
    parts = [(j, y[sure & np.isfinite(y[:, j]), j]) for j in others]
    # one step of theirs may be rounding
    moved = [max(float(np.ptp(part)) - resolution[j], 0.0) / scale[j] for j, part in parts if part.size > 1]
    usual = float(np.median(moved)) * scale[run.station] if moved else np.inf
    return bool(usual > 0 and usual >= MOVED * step)
