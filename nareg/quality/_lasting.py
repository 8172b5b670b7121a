"""Lasting errors: a sensor that drifts away from its prediction by the others, or is off by a constant for a while.

A box and a ramp are fitted at every place, for widths from a few readings to most of the record. Generalized least squares
estimates their height, which is divided by its standard error. The station's mean and yearly cycle, which the fit took from the
same readings, are projected out: a valley that is colder in winter does not drift. How far a network departs from the model
shows in the pooled spread of these ratios, per width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from nareg._core.arrays import MAD_TO_STD
from nareg.quality._level import earlier_is_wrong, odds_of_levels
from nareg.quality._others import Others, others, tell
from nareg.quality._residuals import Residuals
from nareg.quality._results import Fault
from nareg.spacetime import fewest_sharing

#: Narrowest shape in steps, and the ratio of one width to the next. Every shape has so many readings: fewer are spikes.
NARROWEST, RATIO = 8, 1.4
#: Widest shape as a share of the record: what lasts longer is the station's mean.
WIDEST = 0.9
#: A shape needs this share of its steps with readings.
COVERED = 0.3
#: A shape counts for badness beyond so many times the clearest shape of a usual station.
UNUSUAL = 1.5
#: A station is suspect beyond so many times it, and so many standard deviations.
BEYOND, LEAST = 1.5, 5.5
#: It is also suspect only beyond what the clearest of healthy stations passes in this share of networks, by the Gumbel law
#: whose scale the quartiles of the stations' clearest shapes tell, drawn to its scale by chance as if by so many stations.
ALARMS, GUMBEL, STATIONS = 0.05, 0.2, 10
#: The median reading of an error is off by at least this share of its height; that of a ramp is by half.
MOST = 0.2
#: A leap stays where the median reading after it is off by this share of it.
STAYS = 0.75
#: Places in the record at which a ramp may begin.
BEGINS = 24
#: A station's own spread is measured with boxes that fit into the record so many times.
SHORT = 16
#: By chance it is so many times the model's.
CHANCE = 1.1
#: What is expected changes with neighbors that read more, or less, of an error's times by this share than of others.
CHANGED = 0.5
#: The course of an error has so many knots, and so many readings from one to the next.
KNOTS, BETWEEN = 5, 8
#: What comes and goes within this share of the record is the quantity's own, such as showers, where enough others have as much.
PASSING = 0.05
#: A leap shows in the medians of so many steps on each side.
BESIDE = 4
#: Weather and floods that travel are at the other stations so many steps before or after.
LAGS = np.array([0, 1, 2, 4, 8, 16, -1, -2, -4, -8, -16])
#: Steps that a residual is averaged over, and the range of its size, in standard deviations, that weighs a reading.
SMOOTHED, SMALLEST, LARGEST = 5, 0.25, 4.0
#: Badness per standard deviation of a shape: it speaks for many readings, and healthy stations have clear ones too.
#: With this weight spikes and lasting errors each rank first in their own files of five networks.
WEIGHT = 0.3


@dataclass(frozen=True, eq=False)
class Scan:
    """Results of one shape: ``ratio`` (places, N) in pooled standard deviations."""

    name: str
    width: int
    ratio: np.ndarray

    def covering(self, rows: int) -> np.ndarray:
        """(rows, N) largest ratio, in size, of any place of the shape that covers a step."""
        spread = np.zeros((rows + self.width - 1, self.ratio.shape[1]))
        spread[self.width - 1 : self.width - 1 + len(self.ratio)] = np.abs(self.ratio)
        # places t - width + 1 to t cover step t; they are rows t to t + width - 1 here, of which each round doubles the number
        reach = 1
        while reach < self.width:
            step = min(reach, self.width - reach)
            spread, reach = np.maximum(spread[:-step], spread[step:]), reach + step
        return spread


def widths(rows: int) -> list[int]:
    """Widths of the shapes."""
    result: list[int] = []
    width = float(NARROWEST)
    while width <= WIDEST * rows:
        if not result or round(width) > result[-1]:
            result.append(round(width))
        width *= RATIO
    return result


def _shape(name: str, width: int) -> np.ndarray:
    """(width,) a box or a ramp of height 1."""
    return np.ones(width) if name == "box" else np.linspace(1 / width, 1, width)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Running sums (T + 1, N) of values, and of values times their steps: differences are products with a shape at a place."""

    plain: np.ndarray
    weighted: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> _Sums:
        plain, weighted = np.zeros((2, len(values) + 1, values.shape[1]))
        np.cumsum(values, axis=0, out=plain[1:])
        np.cumsum(values * np.arange(len(values))[:, None], axis=0, out=weighted[1:])
        return cls(plain, weighted)

    def boxes(self, width: int) -> np.ndarray:
        """(T - width + 1, N) products with a box of height 1."""
        return self.plain[width:] - self.plain[:-width]

    def ramps(self, width: int) -> np.ndarray:
        """(T - width + 1, N) products with a ramp up to 1."""
        places = np.arange(len(self.plain) - width)[:, None]
        return (self.weighted[width:] - self.weighted[:-width] - (places - 1) * self.boxes(width)) / width


def scans(seen: Others) -> list[Scan]:
    """Every shape and width over the residuals.

    Shapes begin after the filter's first steps: one that is there from the start is the mean of the rest.
    """
    T, N = seen.white.shape
    whitener, live = seen.whitener, seen.observed.any(axis=0)
    fitted = [np.where(seen.observed, whitener.apply(np.repeat(wave[:, None], N, axis=1)), 0.0) for wave in seen.slow.T]
    crossed = np.array([[(one * other).sum(axis=0) for other in fitted] for one in fitted])  # (K, K, N) information on them
    inverse = np.linalg.pinv(crossed.transpose(2, 0, 1), hermitian=True)  # of zeros at a station without readings
    inverse = np.ascontiguousarray(inverse.transpose(1, 2, 0))  # sums run along the stations
    total = np.array([(one * seen.white).sum(axis=0) for one in fitted])
    parts = [_Sums.of(part) for part in (whitener.adjoint(seen.white), *map(whitener.adjoint, fitted))]
    readings = _Sums.of(seen.observed.astype(float))
    steps = np.zeros((2, T + 1, N))  # of a filter, what a step that lasts and a line that rises become
    steps[0, 1 : 1 + len(whitener.filter)] = whitener.filter[:T]
    np.cumsum(steps[0], axis=0, out=steps[0])
    np.cumsum(steps[0], axis=0, out=steps[1])
    result = []
    for width in widths(T):
        covered = readings.boxes(width) / width
        for name in ("box", "ramp"):
            score, *cross = (part.boxes(width) if name == "box" else part.ramps(width) for part in parts)
            weights = np.einsum("kln,ltn->ktn", inverse, np.array(cross))  # of a place's shape on what the fit took
            response = (steps[0] if name == "box" else steps[1] / width)[1:].copy()
            response[width:] -= response[: T - width] if name == "box" else response[: T - width] + steps[0, 1 : T - width + 1]
            squares = np.cumsum(response**2, axis=0)
            places = np.arange(T - width + 1)
            own = squares[T - 1 - places]  # the end of the record cuts a shape's last steps off
            variance = own - (weights * cross).sum(axis=0)
            good = (
                live
                & (covered > max(COVERED, (NARROWEST - 0.5) / width))
                & (variance > 0.05 * own)
                & (places >= whitener.order)[:, None]
            )
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(good, (score - (weights * total[:, None]).sum(axis=0)) / np.sqrt(variance), 0.0)
            some = ratio[good]
            pooled = MAD_TO_STD * float(np.median(np.abs(some))) if some.size else 1.0
            result.append(Scan(name, width, ratio / max(pooled, 1.0)))
    own = _own_spread(result, T, N)
    for scan in result:  # in place: they are most of what a check has in memory
        scan.ratio[:] /= own
    return result


def _own_spread(shapes: list[Scan], T: int, N: int) -> np.ndarray:
    """(N,) by how much a station's boxes differ more from the next ones than the model says, at least 1.

    Some places have lasting weather of their own, such as valleys. A difference of neighbors in time hardly sees a drift.
    """
    squares: list[np.ndarray] = []
    for scan in shapes:
        if scan.name == "box" and SHORT * scan.width <= T:
            first, second = scan.ratio[: -scan.width], scan.ratio[scan.width :]
            known = (first != 0) & (second != 0)
            steps = np.where(known, np.abs(second - first), np.nan)
            enough = known.sum(axis=0) >= SHORT
            squares.append(np.where(enough, np.nanmedian(np.where(enough, steps, 0.0), axis=0) ** 2, np.nan))
    if not squares:
        return np.ones(N)
    some = np.isfinite(squares).any(axis=0)
    mean = np.nanmean(np.where(some, squares, 1.0), axis=0)
    return np.where(some, np.maximum(MAD_TO_STD * np.sqrt(mean / 2) / CHANCE, 1.0), 1.0)


@dataclass(frozen=True)
class Lasting(Fault):
    """The clearest lasting error of a station: its course from ``start`` up to ``stop``, and the standard deviation of that."""

    shape: str
    height: float
    middle: float  # median error of its readings
    course: np.ndarray = field(compare=False)
    std: np.ndarray = field(compare=False)

    @property
    def lasts(self) -> bool:
        """Whether most of its readings are off, and not a few of them by much."""
        return bool(self.middle * np.sign(self.height) > MOST * abs(self.height))


class LastingErrors:
    """The lasting errors of every station.

    Attributes
    ----------
    seen : Others
    shapes : list of Scan
    peaks : (N,) array
        Largest ratio of each station.
    usual : float
        That of the median station.
    limit : float
        A station is suspect beyond it.
    """

    def __init__(self, seen: Others):
        self.seen, self.shapes = seen, scans(seen)
        N = seen.white.shape[1]
        self.ratios = np.array([np.abs(shape.ratio).max(axis=0) for shape in self.shapes]) if self.shapes else np.zeros((1, N))
        self.peaks, live = self.ratios.max(axis=0), seen.observed.any(axis=0)
        self.usual = float(np.median(self.peaks[live])) if live.any() else 0.0
        self.limit = max(BEYOND * self.usual, LEAST, highest(self.peaks[live]))

    def clearest(self, station: int) -> Lasting:
        """The clearest error of one station: all after a leap, or where a shape fits better, the best place near it."""
        shape = self.shapes[int(np.argmax(self.ratios[:, station]))]
        start = int(np.argmax(np.abs(shape.ratio[:, station])))
        stop = start + shape.width
        error = self.fit(station, shape.name, start, stop)
        first = max([error, *self._shifts(station)], key=lambda e: e.ratio)
        if first is not error:
            return first
        errors = [error]
        if error.lasts:
            T = len(self.seen.white)
            sides = [((start, end), self._at_once(station, start, end)) for end in (stop, T)]
            # the evidence is the shape's: a box far from it is another error, or none
            far = shape.width + NARROWEST
            spans = {new for old, new in sides if new is not None and np.abs(np.subtract(old, new)).max() <= far}
            errors += [self.fit(station, "box", *span) for span in spans]
            ends = sorted({stop, *(end for _, end in spans)})
            errors += [self.fit(station, "ramp", self._begin(station, end), end) for end in ends]
            sought = 2 * np.log(T)  # the best of so many places for an end inside the record is better by chance
            error = max(errors, key=lambda e: e.ratio**2 - sought * ((e.shape == "box") + (e.stop < T)))
        # places that are sought to fit whole residuals best are no evidence of a fault
        return replace(error, ratio=float(self.peaks[station]))

    def _begin(self, station: int, stop: int) -> int:
        """Where the ramp up to a step begins that fits whole residuals best."""
        readings = np.append(0, np.cumsum(self.seen.observed[:, station]))
        starts = np.unique(np.linspace(0, stop - NARROWEST, BEGINS).astype(int))
        starts = starts[(readings[stop] - readings[starts] >= NARROWEST) | (starts == 0)]
        ramps = np.zeros((len(self.seen.white), starts.size))
        for ramp, start in zip(ramps.T, starts, strict=True):
            ramp[start:stop] = _shape("ramp", stop - start)
        shapes, residual = self._white(station, ramps)
        ramps, slow = shapes[:, : starts.size], shapes[:, starts.size :]
        ramps = ramps - slow @ np.linalg.lstsq(slow, ramps, rcond=None)[0]
        gain = (ramps.T @ residual) ** 2 / np.maximum((ramps**2).sum(axis=0), 1e-300)
        return int(starts[np.argmax(gain)])

    def _at_once(self, station: int, start: int, stop: int) -> tuple[int, int] | None:
        """The box near a span that fits whole residuals best: each end is sought at all places, the other one kept."""
        seen, one = self.seen, self.seen.whitener.of_series([station])
        T, there = len(seen.white), seen.observed[:, station]

        def later(white: np.ndarray) -> np.ndarray:
            """(T + 1, n) product of white noise with a step at every place, which is none at the end."""
            sums = np.cumsum(one.adjoint(np.where(there[:, None], white, 0.0))[::-1], axis=0)[::-1]
            return np.vstack([sums, np.zeros((1, sums.shape[1]))])

        white = np.where(there[:, None], one.apply(np.column_stack([seen.slow, seen.residual[:, station]])), 0.0)
        wave, residual = white[:, :-1], white[:, -1]
        taken = np.linalg.pinv(wave.T @ wave)
        residual = residual - wave @ (taken @ (wave.T @ residual))
        fit, crossed = later(residual[:, None])[:, 0], later(wave)
        n = next_fast_len(2 * T, real=True)
        response = np.cumsum(np.pad(one.filter[:, 0], (0, max(T - len(one.filter), 0)))[:T]) ** 2
        power = np.append(irfft(rfft(there.astype(float), n) * rfft(response, n).conj(), n)[:T], 0.0)
        readings = np.append(0, np.cumsum(there))
        ends = [start, stop]
        for end in (0, 1, 0, 1):
            fixed = ends[1 - end]
            other = one.apply((np.arange(T) >= fixed).astype(float)[:, None])
            cross = crossed - crossed[fixed]
            variance = power + power[fixed] - 2 * later(other)[:, 0] - np.einsum("tk,kl,tl->t", cross, taken, cross)
            inside = readings[fixed] - readings if end == 0 else readings - readings[fixed]
            good = (inside >= NARROWEST) & (readings[-1] - inside >= NARROWEST) & (variance > 0.05 * (power + power[fixed]))
            good[: one.order] = False
            if not good.any():
                return None
            gain = np.where(good, (fit - fit[fixed]) ** 2 / np.where(good, variance, 1.0), 0.0)
            gain[T] += 2 * np.log(T)  # one of so many places is better than the record's end by chance
            ends[end] = int(np.argmax(gain))
        return ends[0], ends[1]

    def _shifts(self, station: int) -> list[Lasting]:
        """Errors from a leap to the next one, or the end, that stay: the ratio of a shape caps the leap, which is one step."""
        leaps, seen = np.flatnonzero(self.seen.leapt[:, station]), self.seen.observed[:, station]
        spans = list(pairwise([0, *map(int, leaps), seen.size]))
        long = [int(seen[slice(*span)].sum()) >= NARROWEST for span in spans]
        shifts = [self.fit(station, "box", *spans[k]) for k in range(1, len(spans)) if long[k - 1] and long[k]]
        return [shift for shift in shifts if shift.middle / shift.height > STAYS]

    def fit(self, station: int, name: str, start: int, stop: int) -> Lasting:
        """An error by least squares of whole residuals: the ratio of a shape caps them, and a jump is their largest."""
        error = np.zeros((len(self.seen.white), 1))
        error[start:stop, 0] = _shape(name, stop - start)
        shapes, residual = self._white(station, error)
        height, *taken = np.linalg.lstsq(shapes, residual, rcond=None)[0]
        ratio = abs(height) / np.sqrt(max(np.linalg.pinv(shapes.T @ shapes)[0, 0], 1e-300))
        left = (self.seen.residual[:, station] - self.seen.slow @ taken)[start:stop]
        middle = float(np.median(left[self.seen.observed[start:stop, station]]))
        return Lasting(station, start, stop, float(ratio), name, float(height), middle, *self._course(station, start, stop))

    def _travels(self, error: Lasting) -> bool:
        """Whether what the others say of other times explains more than an error, which is not clear beside it.

        A flood comes first to the gauge upstream and is higher there. The model, which has no travel, takes that for an error.
        """
        said = self.seen.prediction[:, error.station]
        near = said[np.clip(np.arange(said.size)[:, None] + LAGS, 0, said.size - 1)]
        shape = np.zeros((said.size, 1))
        shape[error.start : error.stop, 0] = _shape(error.shape, error.stop - error.start)
        columns, residual = self._white(error.station, np.hstack([shape, near]))

        def left(*places: slice) -> float:
            """Squares that are left beside some of the columns and what the fit took."""
            chosen = np.hstack([columns[:, part] for part in (*places, slice(1 + LAGS.size, None))])
            return float(np.sum((residual - chosen @ np.linalg.lstsq(chosen, residual, rcond=None)[0]) ** 2))

        first, rest = slice(0, 1), slice(1, 1 + LAGS.size)
        alone, travel, both = left(first), left(rest), left(first, rest)
        clear = error.ratio**2 * (travel - both) > self.limit**2 * (left() - alone)
        return travel < alone and not clear

    def _common(self, error: Lasting) -> bool:
        """Whether enough others have as large errors that come and go as soon, or change their level at the same time.

        A shower is at one station what no other one says, and an earthquake moves the nearest one most: neither is a fault.
        But a constant that comes and goes at once is a sensor's, however many have one at other times.
        """
        T, fewest = len(self.seen.white), fewest_sharing(int(self.seen.observed.any(axis=0).sum()))
        inside = [end for end in (error.start, error.stop) if 0 < end < T]
        if len(inside) == 2 and error.stop - error.start <= PASSING * T and not self._square(error):
            around = int(PASSING * T)  # by a fault neighbors are off at the same time
            apart = self.passing[: max(error.start - around, 0)], self.passing[error.stop + around :]
            clearest = np.maximum(*(part.max(axis=0, initial=0.0) for part in apart))
            if (clearest * BEYOND >= error.ratio).sum() >= fewest:
                return True
        jumps = {end: error.height if end == error.start else -error.height for end in inside}
        if error.shape == "ramp":
            jumps.pop(error.start, None)
        return any(self.seen.share(error.station, end, jump) for end, jump in jumps.items())

    def _square(self, error: Lasting) -> bool:
        """Whether a station leaps by an error's height where it begins, is as far off in both halves, and leaps back."""
        own = np.where(self.seen.observed, self.seen.residual, np.nan)[:, error.station]
        start, stop, middle = error.start, error.stop, (error.start + error.stop) // 2
        spans = ((start - BESIDE, start), (start, start + BESIDE), (start, middle), (middle, stop))
        parts = [own[max(first, 0) : last] for first, last in (*spans, (stop - BESIDE, stop), (stop, stop + BESIDE))]
        if not all(np.isfinite(part).any() for part in parts):
            return False
        before, begin, *halves, end, after = np.array([np.nanmedian(part) for part in parts]) / error.height
        return bool(min(begin - before, end - after, min(halves) / max(*halves, 1e-9)) > STAYS)

    @cached_property
    def passing(self) -> np.ndarray:
        """(T, N) ratio of the clearest error that covers a step, and passes."""
        T = len(self.seen.white)
        return reduce(np.maximum, (shape.covering(T) for shape in self.shapes if shape.width <= PASSING * T))

    def _white(self, station: int, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Errors (T, n) beside what the fit took, and the station's residual, as white noise where there are readings."""
        seen = self.seen
        columns = np.column_stack([errors, seen.slow, seen.residual[:, station]])
        white = seen.whitener.of_series([station]).apply(columns)[seen.observed[:, station]]
        return white[:, :-1], white[:, -1]

    def _course(self, station: int, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """The error in a span, lines between a few knots, by least squares, and its standard deviation."""
        n = max(min(KNOTS, int(self.seen.observed[start:stop, station].sum()) // BETWEEN), 1)
        lines = np.array(
            [np.interp(np.arange(stop - start), np.linspace(0, stop - start - 1, n), unit) for unit in np.eye(n)]
        ).T
        errors = np.zeros((len(self.seen.white), n))
        errors[start:stop] = lines
        shapes, residual = self._white(station, errors)
        heights = np.linalg.lstsq(shapes, residual, rcond=None)[0]
        left = float(np.sum((residual - shapes @ heights) ** 2)) / max(residual.size - shapes.shape[1], 1)
        covariance = max(left, 1.0) * np.linalg.pinv(shapes.T @ shapes)[:n, :n]
        return lines @ heights[:n], np.sqrt(np.maximum(np.einsum("tk,kl,tl->t", lines, covariance, lines), 0.0))

    def suspects(self, but: Sequence[int] = ()) -> list[Lasting]:
        """The clearest error of every station that is suspect, the largest first."""
        suspected = np.flatnonzero((self.peaks > self.limit) | self.seen.leapt.any(axis=0)) if self.shapes else ()
        errors = [error for i in suspected if i not in but and (error := self.clearest(int(i))).ratio > self.limit]
        true = (error for error in errors if error.lasts and not self._travels(error) and not self._common(error))
        return sorted(true, key=lambda error: -error.ratio)

    def badness(self) -> np.ndarray:
        """(rows, N) badness of all readings."""
        T = len(self.seen.white)
        if not self.shapes:
            return np.zeros(self.seen.white.shape)
        covering = reduce(np.maximum, (shape.covering(T) for shape in self.shapes))
        covering[covering < UNUSUAL * self.usual] = 0.0
        std = np.where(self.seen.std > 0, self.seen.std, 1.0)
        around = np.pad(self.seen.residual, [(SMOOTHED // 2, SMOOTHED // 2), (0, 0)], mode="symmetric")
        steps = around[SMOOTHED:] - around[:-SMOOTHED]
        sums = np.cumsum(np.concatenate([around[:SMOOTHED].sum(axis=0)[None], steps]), axis=0)
        size = np.abs(sums / SMOOTHED) / std
        return WEIGHT * covering * np.sqrt(np.clip(size, SMALLEST, LARGEST))


def highest(peaks: np.ndarray) -> float:
    """What the largest of as many peaks passes in few healthy networks: one in ten to twenty, for the scale is estimated.

    A peak is a maximum over places and widths, so that peaks follow a Gumbel law. Where stations have lasting weather of their
    own its scale is larger than by chance, and the clearest of many is clear. A few faulty stations hardly move its quartiles.
    """
    if peaks.size == 0:
        return 0.0
    lower, middle, upper = np.quantile(peaks, [0.25, 0.5, 0.75])
    at = -np.log(-np.log([0.25, 0.5, 0.75]))
    scale = min((upper - lower) / (at[2] - at[0]), (middle - lower) / (at[1] - at[0]))
    scale = (peaks.size * scale + STATIONS * GUMBEL) / (peaks.size + STATIONS)
    return float(middle + scale * (np.log(peaks.size) - np.log(-np.log1p(-ALARMS)) - at[1]))


def lasting(residuals: Residuals, seen: Others) -> tuple[list[Lasting], np.ndarray]:
    """The clearest lasting error of every suspect station, and the badness (rows, N) of all readings.

    A station with a lasting error bends what is expected of its neighbors, at other times by its mean. So it is left out, and
    they are judged again. Of two that differ from each other for the same time, such as twins, the faulty one differs from all
    the others as well.
    """
    now = LastingErrors(seen)
    badness = now.badness()
    errors: list[Lasting] = []
    stations: list[int] = []
    while suspects := now.suspects(but=stations):
        first: list[Lasting] = []
        neighbors: dict[int, Lasting] = {}
        for error in suspects:
            near = next((e for e in first if tell(seen.K, e.station, error.station)), None)
            if near is None:
                first.append(error)
            elif near.start < error.stop and error.start < near.stop:
                neighbors.setdefault(near.station, error)
        if neighbors:
            both = LastingErrors(others(residuals, [*stations, *(e.station for e in (*first, *neighbors.values()))]))
            pairs = [(e, neighbors.get(e.station, e)) for e in first]
            first = [
                error if error is other else max(map(both.clearest, (error.station, other.station)), key=lambda e: e.ratio)
                for error, other in pairs
            ]
        stations += [error.station for error in first]
        if len(first) == len(suspects):
            errors += first
            break
        now = LastingErrors(others(residuals, stations))
        # neighbors that are healthy after all tell more of an error
        errors += [max(error, now.clearest(error.station), key=lambda e: e.ratio) for error in first]
    return [_wrong_part(residuals, now, error) for error in errors if _stands(residuals, now, error, stations)], badness


def _wrong_part(residuals: Residuals, now: LastingErrors, error: Lasting) -> Lasting:
    """All readings after a step, or those before it where the levels of the others say so: it is the same step."""
    there = now.seen.observed[:, error.station]
    T, cut = there.size, error.start or error.stop
    before, after = int(there[:cut].sum()), int(there[cut:].sum())
    if error.shape != "box" or (error.start and error.stop < T) or min(before, after) < NARROWEST:
        return error
    odds = odds_of_levels(residuals, now.seen, Fault(error.station, cut, T, error.ratio))
    span = (0, cut) if earlier_is_wrong(odds, before, after) else (cut, T)
    return error if span == (error.start, error.stop) else replace(now.fit(error.station, "box", *span), ratio=error.ratio)


def _stands(residuals: Residuals, now: LastingErrors, error: Lasting, stations: list[int]) -> bool:
    """Whether there is an error without the neighbors that read in it, or beside it, alone: with them goes what is expected.

    And without those that have a clear error as well, but one that is no fault by itself. None is one whose readings are off by
    half, which a sensor that often spikes has at one place by chance.
    """
    usable, rows = residuals.usable, np.arange(len(residuals.y))
    inside = (rows >= error.start) & (rows < error.stop)
    read = np.isfinite(residuals.y[:, error.station])
    share = residuals.spiky[read, error.station].mean()
    if read.sum() * share ** (read[inside].sum() / 2) > ALARMS:
        return False
    change = (
        np.abs(usable[inside].mean(axis=0) - usable[~inside].mean(axis=0)) if not inside.all() else np.zeros(usable.shape[1])
    )
    bent = np.flatnonzero((change > CHANGED) | (now.peaks > now.limit))
    left = [int(j) for j in bent if j not in stations and tell(now.seen.K, error.station, int(j))]
    if not left:
        return True
    again = LastingErrors(others(residuals, [*stations, *left]))
    return again.clearest(error.station).ratio > again.limit
