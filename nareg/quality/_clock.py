"""A wrong clock: readings that fit the other stations at earlier or later times, as after a reset or in another time zone.

The evidence is a likelihood ratio of whitened residuals, so that slow weather counts once, and it pays for all lags, spans and
stations that were tried. Cycles of the day have no part in it: a valley that warms late looks like a late clock every day.
Weather that passes reaches one station after another; a wrong clock has one lag against all others.

Where neighbors say little, a clock that is wrong in a part of the record shows in the station's own day: it moves at once, by a
lag, and stays as large. A season moves the days of all stations, or one slowly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from nareg.quality._others import LARGEST, Others, Whitener
from nareg.quality._residuals import Residuals
from nareg.quality._results import Fault
from nareg.quality._sun import DAY
from nareg.spacetime import TimeGrid

#: Hours that clocks are off by: those of other zones and of daylight saving, some of which are half, and a day. Where times
#: are numbers, as many steps as hours of a day.
HOURS = np.concatenate([np.arange(0.5, 14.5, 0.5), [24.0]])
STEPS = 24
#: A lag of so many hours more or less is the same, where steps do not divide it.
ABOUT = 0.25
#: Chance that a network without a fault shows a wrong clock, if its model is true.
CHANCE = 1e-4
#: Parts of the span; most of them must fit better, and the median part leaves this share of the whitened squares.
PARTS, MOST, LEFT = 8, 7, 0.7
#: Readings in the span, at least.
SHORTEST = 64
#: Share of the others that show a lag which must show this one.
AGREE = 0.75
#: And so many must show one.
FEWEST = 2
#: A correlation of white noise shows a lag beyond so many standard errors.
SHOWN = 5.0
#: Days on either side of the time at which a station's day moves: at least, as weather of one kind may last for a week, and
#: those that tell whether it moves at once.
DAYS, NEAR = 10, 30
#: One in so many days counts: the weather of a day resembles that of the day before.
SPELL = 1.3


@dataclass(frozen=True)
class Delay(Fault):
    """Labels that are ``steps`` of the grid late; readings are off by ``size``."""

    steps: int
    size: float


def delays(residuals: Residuals, seen: Others) -> list[Delay]:
    """Stations with a wrong clock, from some time on, up to some time, or throughout."""
    values = np.where(residuals.frozen | residuals.absurd, np.nan, residuals.y)
    enough = np.isfinite(values).sum(axis=0) >= SHORTEST
    lags = lags_of(residuals.grid)
    if enough.sum() < 4 or not lags.size:
        return []
    tried = lags.size * 2 * len(values) / SHORTEST * enough.sum()
    needed = 2 * float(np.log(tried / CHANCE))
    cycles = np.median(residuals.offset - residuals.offset.mean(axis=0), axis=1)
    each = (_station(i, values[:, i], seen, cycles, lags, needed) for i in map(int, np.flatnonzero(enough)))
    clear = sorted((delay for delay in each if delay is not None), key=lambda delay: -delay.ratio)[:1]
    # where the clearest lag is none of a clock, weather travels, and other lags are no clocks' either
    if clear and not _same_everywhere(clear[0], values[:, enough], values[:, clear[0].station], seen.whitener, lags):
        clear = []
    if "day" in residuals.model.cycles.names:
        clear += _moved_days(residuals, values, seen, lags, needed)
    return clear


def lags_of(grid: TimeGrid) -> np.ndarray:
    """Delays to try, in steps of the grid, without 0."""
    if not grid.dated:
        ahead = np.arange(1, STEPS + 1)
    else:
        steps = np.rint(HOURS * 3600 / grid.step)
        ahead = np.unique(steps[(np.abs(steps * grid.step / 3600 - HOURS) <= ABOUT) & (steps > 0)]).astype(int)
    return np.concatenate([-ahead[::-1], ahead])


def shifted(values: np.ndarray, lags: np.ndarray) -> np.ndarray:
    """(T, L) values of so many steps before; NaN beyond the record."""
    T = len(values)
    at = np.arange(T)[:, None] - lags  # a late label shows the field of an earlier time
    return np.where((at >= 0) & (at < T), values[np.clip(at, 0, T - 1)], np.nan)


def _station(station: int, y: np.ndarray, seen: Others, cycles: np.ndarray, lags: np.ndarray, needed: float) -> Delay | None:
    T, prediction = len(y), seen.prediction[:, station]
    moved = shifted(prediction, lags)
    there = np.isfinite(y)
    filled = np.where(there, y, prediction + seen.residual[:, station])
    whitener = seen.whitener.of_series([station])
    both = np.hstack([(filled - prediction)[:, None], filled[:, None] - np.where(np.isfinite(moved), moved, 0.0)])
    squares = np.minimum(whitener.apply(both) ** 2, LARGEST**2)
    reach = np.arange(T)[:, None] - lags
    known = there[:, None] & (reach >= whitener.order) & (reach < T)  # the filter looks back, not beyond the record
    fall = np.where(known, squares[:, :1] - squares[:, 1:], 0.0)
    gain = np.cumsum(fall, axis=0)
    spans = np.stack([gain, gain[-1] - np.vstack([np.zeros((1, lags.size)), gain[:-1]])])  # up to a time, and from it on
    late, cut, lag = (int(i) for i in np.unravel_index(int(np.argmax(spans)), spans.shape))
    inside = np.arange(T) >= cut if late else np.arange(T) <= cut
    rows = np.flatnonzero(inside & known[:, lag])
    if rows.size < SHORTEST:
        return None
    per_reading = max(float(squares[rows, 1 + lag].mean()), 1.0)
    evidence = float(fall[rows, lag].sum()) / per_reading
    parts = np.array([[squares[r, 0].sum(), squares[r, 1 + lag].sum()] for r in np.array_split(rows, PARTS)])
    left = float(np.median(parts[:, 1] / np.maximum(parts[:, 0], 1e-300)))
    if evidence < needed or left > LEFT or (parts[:, 1] < parts[:, 0]).sum() < MOST:
        return None
    size = _size(prediction + cycles, rows, lags[lag])
    # few readings beyond the span do not tell that it ends there
    start = int(rows[0]) if known[: rows[0], lag].sum() >= SHORTEST else 0
    stop = int(rows[-1]) + 1 if known[rows[-1] + 1 :, lag].sum() >= SHORTEST else T
    return Delay(station, start, stop, float(np.sqrt(evidence)), int(lags[lag]), size)


def _size(field: np.ndarray, rows: np.ndarray, lag: int) -> float:
    """By how much a field (T,) is off at some rows where its labels are late."""
    return float(np.sqrt(np.nanmean((shifted(field, np.array([lag]))[rows, 0] - field[rows]) ** 2)))


def _moved_days(residuals: Residuals, values: np.ndarray, seen: Others, lags: np.ndarray, needed: float) -> list[Delay]:
    """Stations whose day is another one from some time on, or up to it, and the same one if the clock is wrong there."""
    grid, offset, T = residuals.grid, residuals.offset, len(values)
    first = np.unique(np.floor(grid.seconds / DAY), return_index=True)[1]
    full = 2 * np.add.reduceat(np.isfinite(values), first) >= np.diff(first, append=T).max()
    tried = np.append(lags, 0)
    # a day is one number, the daily wave of what was read less what the others say at a lag; the wave is turned back by it
    waves = np.exp(-2j * np.pi / DAY * (grid.seconds[:, None] - tried * grid.step))
    whole = np.where(np.isfinite(values), values, seen.prediction + seen.residual) + offset - offset.mean(axis=0)
    full &= seen.observed.any(axis=0)
    best, change, moves = np.full((values.shape[1], 2, first.size), np.nan), np.zeros(full.T.shape), []
    for i in map(int, np.flatnonzero(full.sum(axis=0) >= 2 * DAYS)):
        moved = shifted(seen.prediction[:, i], tried)
        days = np.add.reduceat((whole[:, [i]] - np.where(np.isfinite(moved), moved, 0.0)) * waves, first)
        days[~full[:, i]] = 0.0
        left = _left_by_cut(days, full[:, i])
        best[i] = tried[np.argmin(left, axis=2)]
        sums, n = np.cumsum(days[:, -1]), np.cumsum(full[:, i])
        change[i] = np.abs((sums[-1] - sums) / np.maximum(n[-1] - n, DAYS) - sums / np.maximum(n, DAYS))
        late, cut, lag = (int(k) for k in np.unravel_index(int(np.argmin(left)), left.shape))
        moves.append((i, late, cut, lag, left[late, cut], days[:, [-1, lag]]))
    result = []
    for i, late, cut, lag, left, days in moves:
        common = np.nanmedian(np.delete(best, i, axis=0)[:, late, cut]) if len(moves) > 1 else 0.0
        usual = min(left[-1], left[np.argmin(np.abs(tried - common))])
        evidence = 2 * full[:, i].sum() / SPELL * float(np.log(usual / left[lag]))
        inside = (np.arange(first.size) > cut) == bool(late)
        near = full[:, i] & (np.abs(np.arange(first.size) - cut - 0.5) < NEAR)
        # a day that moves bends what is expected of its neighbors' days, by less
        if evidence >= needed and change[i, cut] == change[:, cut].max() and _at_once(days[near], inside[near]):
            start, stop = (int(first[cut + 1]), T) if late else (0, int(first[cut + 1]))
            size = _size(seen.prediction[:, i] + offset[:, i], np.arange(start, stop), tried[lag])
            result.append(Delay(i, start, stop, float(np.sqrt(evidence)), int(tried[lag]), size))
    return result


def _left_by_cut(days: np.ndarray, full: np.ndarray) -> np.ndarray:
    """(2, D, L) squares of days (D, L) around their mean, if those up to a day, or after it, have a lag; the last lag is 0."""
    sums, squares = (
        np.stack([part[-1, -1] + part - part[:, -1:], part[-1] - part + part[:, -1:]])
        for part in (np.cumsum(days, axis=0), np.cumsum(np.abs(days) ** 2, axis=0))
    )
    left: np.ndarray = squares - np.abs(sums) ** 2 / full.sum()
    before = np.cumsum(full)
    left[:, (before < DAYS) | (before > before[-1] - DAYS), :-1] = np.inf
    return left


def _at_once(days: np.ndarray, inside: np.ndarray) -> bool:
    """Whether days (D, 2), as read and by another clock, are clearly no slow change of the day, nor one of its size."""
    one, time = np.ones(len(days)), np.arange(len(days))
    read, clock = days[:, 0], np.where(inside, days[:, 1], days[:, 0])
    moved, slow, free = (_left(*of) for of in ((clock, one), (read, one, time), (read, inside, ~inside)))
    clearly = CHANCE ** (-1 / len(days))
    # days smaller than their own scatter are weather
    return bool(slow > clearly * moved and moved < clearly * free and len(days) * np.abs(clock.mean()) ** 2 > moved)


def _left(days: np.ndarray, *functions: np.ndarray) -> float:
    A = np.column_stack(functions).astype(float)
    return float((np.abs(days - A @ np.linalg.lstsq(A, days, rcond=None)[0]) ** 2).sum())


def _same_everywhere(delay: Delay, values: np.ndarray, y: np.ndarray, whitener: Whitener, lags: np.ndarray) -> bool:
    """Whether most of the other stations that show a lag of this one show the same, beside the one outside of the span."""
    others = values[:, [not np.array_equal(v, y, equal_nan=True) for v in values.T]]
    filters = whitener.of_series([delay.station])
    mine, others = (filters.apply(np.where(np.isfinite(v), v, 0.0)) for v in (y[:, None], others))
    mine, others = (np.where(np.abs(part) < 2 * LARGEST, np.clip(part, -LARGEST, LARGEST), 0.0) for part in (mine, others))
    inside = (np.arange(len(y)) >= delay.start) & (np.arange(len(y)) < delay.stop)
    tried = np.append(lags, 0)
    lag, clear = _clearest(np.where(inside[:, None], mine, 0.0), others, tried)
    if np.isfinite(y[~inside]).sum() >= SHORTEST:
        usual, known = _clearest(np.where(inside[:, None], 0.0, mine), others, tried)
        lag, clear = lag - usual, clear & known
    nearest = min(np.abs(lags).min(), (abs(delay.steps) - 1) // 2)  # none is not the same
    same = np.abs(lag - delay.steps) <= nearest
    return bool(clear.sum() >= FEWEST and same[clear].mean() >= AGREE)


def _clearest(mine: np.ndarray, others: np.ndarray, lags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of every other station, the lag at which white noise (T, 1) is most like its own, and whether it is beyond chance."""
    n = next_fast_len(2 * len(mine), real=True)
    products = irfft(rfft(others, n, axis=0).conj() * rfft(mine, n, axis=0), n, axis=0)[lags]
    errors = np.sqrt((mine**2).sum() * (others**2).mean(axis=0))
    return lags[np.argmax(products, axis=0)], products.max(axis=0) > SHOWN * errors
