"""Station means, and a smooth daily and yearly cycle, the week and the tide, from noisy readings with gaps.

Every station's coefficients are fitted by least squares and then shrunk: the coefficients of one kind are a field over the
network with an exponential covariance, seen with an error. How large that error is, is read off coefficients at
frequencies beside the cycle's own, where there is weather and noise but no cycle (empirical Bayes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from nareg.errors import InputError
from nareg.spacetime._readings.coefficients import Shrinkage
from nareg.spacetime._readings.covariates import Covariates, Regression
from nareg.spacetime._readings.cycle_errors import FEWEST_PER_WAVE as FEWEST_PER_WAVE
from nareg.spacetime._readings.cycle_errors import (
    OffsetErrors,
    comparable_stations,
    least_squares,
    of_coefficient,
    shown_errors,
    unit_errors,
)  # fmt: skip
from nareg.spacetime._readings.holdout import station_order
from nareg.spacetime._readings.series import Series
from nareg.spacetime._readings.space import JITTER, Space
from nareg.spacetime._readings.station_series import StationSeries
from nareg.spacetime._readings.times import TimeGrid

DAY, YEAR = 86_400.0, 365.2425 * 86_400.0
PERIODS = {"day": DAY, "year": YEAR}
#: Periods of the moon's largest waves M2, O1, M4 and N2. The first two are of half a day and a day, the last one is told from
#: M2 in a record of so many seconds.
TIDES = 12.4206012 * 3600.0, 25.8193417 * 3600.0, 6.2103006 * 3600.0, 12.6583475 * 3600.0
TIDE, ALL_TIDES = "tide", 28 * DAY
#: The week of pumps and traffic, and waves in it: its days, and how the day's first two waves change from day to day.
WEEK, WEEK_WAVES = "week", (1.0, 2.0, 3.0, 5.0, 6.0, 8.0, 9.0, 13.0, 15.0)
#: Every cycle that a model may have. The sun's tide is part of the daily one.
CYCLES = PERIODS | {TIDE: TIDES[0], WEEK: 7 * DAY}
#: A station follows the week where its waves have so many times the power of those beside them, and this share of the variance
#: that the other cycles leave: healthy weather has 3 times. What is left of a series that is a cycle alone is rounding.
WEEKLY, WEEKLY_SHARE, FLAT = 12.0, 0.05, 1e-12
#: Where gaps make waves the same, a sum of squares of their difference is at most this share of the largest.
RANK = 1e-10
#: The tide leaves at most this share of the variance that mean and daily cycle leave, at the median of so many stations.
TIDAL, TIDAL_STATIONS = 0.2, 12
#: A station shows whether it has a tide by at least so many readings per function of time: few of them follow anything.
PLENTY = 5
#: A cycle is looked for when the readings span at least so many periods and have so many steps per period, the year quarters.
FEWEST_PERIODS = {"day": 1.9, "year": 0.9, TIDE: 4.8, WEEK: 3.9}
FEWEST_STEPS, QUARTERS = 6, 3.9
#: A record of this share of a year shows the yearly cycle whole.
WHOLE = 0.95
#: Least distance between such a wave and a cycle's harmonic, in periods per record: closer ones the record cannot tell apart.
APART = 0.75
#: Harmonics per cycle, where there are enough steps per period.
HARMONICS = {"day": 2, "year": 1}


@dataclass(frozen=True, eq=False)
class Cycles:
    """Means and cycles: ``level[k]`` (N,) multiplies the k-th function of time."""

    names: tuple[str, ...]  # cycles, of "day", "year", "week" and "tide"
    harmonics: tuple[int, ...]
    level: np.ndarray  # (K, N) coefficients: mean, then cosine and sine of every harmonic of every cycle, then of every series
    common: np.ndarray  # (K,) the network's own coefficient
    ranges: np.ndarray  # (K,) range of the coefficient's field in the unit of the distances; 0: all stations share one
    dual: np.ndarray  # (K, N): coefficient at a place = common + correlation with the stations @ dual
    variance: np.ndarray  # (K,) variance of the coefficient's field around common
    spread: np.ndarray  # (K, N) variance of each station's coefficient given its readings
    errors: np.ndarray  # (K, N, J) draws of the coefficients' errors, with their correlation between stations
    regression: Regression | None = None  # on what is known of the stations beside their places
    own: np.ndarray | None = None  # (K,) share of the field's variance that every station has for itself; None: 0
    series: Series | None = None  # what all stations share over time
    local: StationSeries | None = None  # what is known at every station over time

    def basis(self, seconds: np.ndarray) -> np.ndarray:
        """The functions of time, (T, K)."""
        return self._waves(seconds, self.names)

    def slow(self, seconds: np.ndarray) -> np.ndarray:
        """Those of the mean, of series, and of the yearly cycle over a year: in a part of one it looks like a drift."""
        yearly = np.ptp(seconds) >= WHOLE * YEAR if seconds.size else False
        return self._waves(seconds, [name for name in self.names if name == "year" and yearly])

    def _waves(self, seconds: np.ndarray, names: Sequence[str]) -> np.ndarray:
        columns = [np.ones_like(seconds)]
        for name in names:
            columns += _waves_of(name, self.harmonics[self.names.index(name)], seconds)
        if self.series is not None:
            columns += list(self.series.at(seconds).T)
        return np.column_stack(columns)

    def other_days(self, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest change (T, N) of mean and cycles if a day were another one of the week, as a holiday is."""
        if WEEK not in self.names:
            none_changes = np.zeros((seconds.size, self.level.shape[1]))
            return none_changes, none_changes
        at = self.names.index(WEEK)
        first, count = 1 + 2 * sum(self.harmonics[:at]), self.harmonics[at]
        days = [
            np.column_stack(_waves_of(WEEK, count, seconds + day * DAY)) @ self.level[first : first + 2 * count]
            for day in range(7)
        ]
        return np.min(days, axis=0) - days[0], np.max(days, axis=0) - days[0]

    def at(self, seconds: np.ndarray) -> np.ndarray:
        """Mean and cycles of every station, with what it follows over time, (T, N)."""
        fixed = self.basis(seconds) @ self.level
        return fixed if self.local is None else fixed + self.local.at(seconds)

    def variance_at(self, seconds: np.ndarray) -> np.ndarray:
        """Variance of mean and cycles of every station, (T, N)."""
        return self.basis(seconds) ** 2 @ self.spread

    def errors_at(self, seconds: np.ndarray) -> OffsetErrors:
        """Errors of mean and cycles of every station."""
        return OffsetErrors(self.basis(seconds), self.spread, self.errors)

    @property
    def follows(self) -> tuple[str, ...]:
        """Names of the covariates that coefficients follow."""
        regression = self.regression
        if regression is None:
            return ()
        return tuple(name for name, used in zip(regression.covariates.names, regression.used, strict=True) if used)

    def covariates_at(self, given: Mapping[str, ArrayLike] | None, count: int) -> np.ndarray:
        """(M, C) standard covariates of so many places, of which a user has ``given`` some."""
        if self.local is not None and self.local.used:
            raise InputError(
                f"covariates: estimates follow {self.local.used[0]!r} at each station, whose values at new places are unknown: "
                "fit without it for these."
            )
        if self.regression is not None:
            return self.regression.covariates.at_places(given, count, self.regression.used)
        if given:
            raise InputError(f"covariates names {next(iter(given))!r}, but the model has none: omit it.")
        return np.empty((count, 0))

    def at_points(self, space: Space, points: np.ndarray, z: np.ndarray | None = None) -> np.ndarray:
        """Coefficients (K, M) at places without a station, where standard covariates are ``z`` (M, C); None: their means."""
        family = space.families[0]
        level = np.repeat(self.common[:, None], points.shape[0], axis=1)
        for k, reach in enumerate(self.ranges):
            if reach > 0:
                level[k] += space.cross_correlation(family, float(reach), points) @ self.dual[k, : space.n]
        return level if self.regression is None or z is None else level + self.regression.slopes @ z.T

    def spread_at_points(self, space: Space, points: np.ndarray, z: np.ndarray | None = None) -> np.ndarray:
        """Variances (K, M) of the coefficients at places: of what the stations do not tell, and of the stations' own.

        Errors of the stations' coefficients are taken to be alike, so that they do not average out.
        """
        spread = np.empty((self.common.size, points.shape[0]))
        for k, reach in enumerate(self.ranges):
            (K, size), shared = self.covariance(space, k), 1 - self.own_share(k)
            if not size:
                spread[k] = self.variance[k] + self.spread[k].mean()
                continue
            cross, prior = np.zeros((points.shape[0], space.n)), np.zeros(points.shape[0])
            if reach > 0:
                cross += shared * self.variance[k] * space.cross_correlation(space.families[0], float(reach), points)
                prior += self.variance[k]
            if self.regression is not None and z is not None:
                loads = z * self.regression.variances[k]
                cross += loads @ self.regression.covariates.standard.T
                prior += (loads * z).sum(axis=1)
            solved = np.linalg.solve(K, np.column_stack([cross.T, np.ones(space.n)]))
            W, ones = solved[:, :-1].T, solved[:, -1]
            # what the weights lack is that of the common value, which the stations tell, too
            rest = 1 - W.sum(axis=1)
            own = np.maximum(prior - np.einsum("mn,mn->m", W, cross), 0.0) + rest**2 / ones.sum()
            W = W + np.outer(rest, ones / ones.sum())
            spread[k] = own + (W @ np.sqrt(self.spread[k])) ** 2
        return spread

    def own_share(self, k: int) -> float:
        """Of a coefficient's field, what every station has for itself."""
        return 0.0 if self.own is None else float(self.own[k])

    def covariance(self, space: Space, k: int) -> tuple[np.ndarray, float]:
        """Covariance (N, N) of a coefficient's field and slopes at the stations, and its size; 0: they all share it."""
        K, size = np.zeros((space.n, space.n)), 0.0
        if self.ranges[k] > 0:
            size, own = float(self.variance[k]), self.own_share(k)
            K += size * (1 - own) * space.correlation(space.families[0], float(self.ranges[k]))
            K.flat[:: space.n + 1] += size * own
        if self.regression is not None:
            z, priors = self.regression.covariates.standard, self.regression.variances[k]
            K += (z * priors) @ z.T
            size += float(priors.sum())
        K.flat[:: space.n + 1] += JITTER * size
        return K, size

    def restricted(self, space: Space, stations: np.ndarray) -> Cycles:
        """The cycles of some of the stations, in their ``space``. The level at other places interpolates theirs."""
        regression = None if self.regression is None else self.regression.of_stations(stations)
        some = replace(
            self, level=self.level[:, stations], dual=self.dual[:, stations], spread=self.spread[:, stations],
            errors=self.errors[:, stations], regression=regression,
            local=None if self.local is None else self.local.of_stations(stations),
        )  # fmt: skip
        dual = np.zeros_like(some.level)
        slopes = None if regression is None else np.zeros_like(regression.slopes)
        for k in range(len(dual)):
            K, size = some.covariance(space, k)
            if not size:
                continue
            alpha = np.linalg.solve(K, some.level[k] - self.common[k])
            dual[k] = (1 - self.own_share(k)) * self.variance[k] * alpha
            if regression is not None and slopes is not None:
                slopes[k] = regression.variances[k] * (regression.covariates.standard.T @ alpha)
        if regression is not None and slopes is not None:
            regression = replace(regression, slopes=slopes)
        return replace(some, dual=dual, regression=regression)


def waves(seconds: np.ndarray, period: float, multiples: range | tuple[float, ...]) -> list[np.ndarray]:
    angle = 2 * np.pi * seconds / period
    return [wave(k * angle) for k in multiples for wave in (np.cos, np.sin)]


def _waves_of(name: str, count: int, seconds: np.ndarray) -> list[np.ndarray]:
    """The first ``count`` waves of a cycle, two functions each."""
    if name == TIDE:
        return [wave for period in TIDES[:count] for wave in waves(seconds, period, (1.0,))]
    if name == WEEK:
        return waves(seconds, CYCLES[WEEK], WEEK_WAVES[:count])
    return waves(seconds, PERIODS[name], range(1, count + 1))


def find(
    seconds: np.ndarray, step: float, dated: bool, wanted: str | tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Names of the cycles that the readings can show, and their numbers of harmonics."""
    if not dated:
        if wanted and wanted != "auto":
            raise InputError(f"cycles is {wanted!r} but times are numbers, which have no days or years: pass dates as times.")
        return (), ()
    span = float(seconds[-1] - seconds[0]) + step
    names, harmonics = [], []
    for name in PERIODS if wanted == "auto" else wanted:
        steps, fewest = CYCLES[name] / step, QUARTERS if name == "year" else FEWEST_STEPS
        if span >= FEWEST_PERIODS[name] * CYCLES[name] and steps >= fewest:
            names.append(name)
            if name == TIDE:
                most = len(TIDES) - (span < ALL_TIDES)
            elif name == WEEK:
                most = sum(2 * wave < steps for wave in WEEK_WAVES)
            else:
                most = min(HARMONICS[name], int(steps) // 4)
            harmonics.append(max(1, most))
        elif wanted != "auto":
            raise InputError(
                f"cycles names {name!r} but the times span {span / CYCLES[name]:.2g} of them with {steps:.2g} steps each: "
                f"pass at least {FEWEST_PERIODS[name]:g} with {fewest:.0f} steps each, or omit it."
            )
    return tuple(names), tuple(harmonics)


def tidal(y: np.ndarray, grid: TimeGrid) -> bool:
    """Whether readings (T, N) on a grid follow the moon, and more than the sun."""
    span = grid.seconds[-1] - grid.seconds[0] + grid.step
    if not grid.dated or span < FEWEST_PERIODS[TIDE] * TIDES[0] or TIDES[0] < FEWEST_STEPS * grid.step:
        return False
    sun, moon = (none((name,), (count,)).basis(grid.seconds) for name, count in (("day", 2), (TIDE, 3)))
    rests = []
    for i in station_order(y)[:TIDAL_STATIONS]:
        seen = np.isfinite(y[:, i])
        if seen.sum() >= PLENTY * (sun.shape[1] + moon.shape[1]):
            bases = (basis[seen] for basis in (sun, moon, np.column_stack([sun, moon[:, 1:]])))
            rests.append([np.var(y[seen, i] - basis @ np.linalg.lstsq(basis, y[seen, i])[0]) for basis in bases])
    by_sun, by_moon, by_both = np.median(rests, axis=0) if rests else (0.0, 0.0, 0.0)
    return bool(by_both < TIDAL * by_sun and by_moon < by_sun)


def weekly(y: np.ndarray, grid: TimeGrid) -> bool:
    """Whether readings (T, N) on a grid follow the week at any station, as at pumped wells and along streets."""
    seconds, length = grid.seconds, CYCLES[WEEK]
    span = float(seconds[-1] - seconds[0]) + grid.step
    if not grid.dated or span < FEWEST_PERIODS[WEEK] * length or length < FEWEST_STEPS * grid.step:
        return False
    names, harmonics = find(seconds, grid.step, grid.dated, (*find(seconds, grid.step, grid.dated, "auto")[0], WEEK))
    B, own = none(names, harmonics).basis(seconds), WEEK_WAVES[: harmonics[-1]]
    beside = _beside(own, span / length)
    free = sorted({k for near in beside for k in near})
    both = np.column_stack([B, *waves(seconds - seconds[0], span, tuple(map(float, free)))])
    places = [[len(own) + free.index(k) for k in near] for near in beside]
    return any(_follows_week(values, both, B.shape[1] - 2 * len(own), places) for values in y.T)


def _beside(own: tuple[float, ...], weeks: float) -> list[list[int]]:
    """Frequencies on both sides of each wave of the week, that fit a record of so many weeks a whole number of times.

    None is one of the week or of the day.
    """
    taken = np.array([*own, 7.0, 14.0]) * weeks
    steps = [side * by for side in (-1, 1) for by in range(2, 6)]
    near = [[round(wave * weeks) + step for step in steps] for wave in own]
    return [[k for k in some if k > 0 and np.abs(k - taken).min() >= 1] for some in near]


def _follows_week(values: np.ndarray, both: np.ndarray, usual: int, beside: list[list[int]]) -> bool:
    """Whether readings (T,) follow the week, by functions of time (T, K): ``usual`` ones, the week's, and those beside it.

    ``beside`` are the places of the latter among all waves, for each of the week's.
    """
    seen = np.isfinite(values)
    if seen.sum() < 2 * both.shape[1]:
        return False
    z, basis = values[seen] - values[seen].mean(), both[seen]
    squares, products = basis.T @ basis, basis.T @ z  # which take a tenth of the time of the readings themselves
    without = np.linalg.lstsq(squares[:usual, :usual], products[:usual], RANK)[0]
    rest = np.var(z - basis[:, :usual] @ without)
    if rest <= FLAT * z.var():
        return False
    power = (np.linalg.lstsq(squares, products, RANK)[0][usual:] ** 2).reshape(-1, 2).sum(axis=1)
    ratios = [power[k] / power[near].mean() for k, near in enumerate(beside) if near]
    clear = max(np.mean(part) for part in (ratios[:3], ratios[3:]) if part)  # days may differ by their means or their hours
    return bool(clear > WEEKLY and power[: len(beside)].sum() / 2 > WEEKLY_SHARE * rest)


def shrunk_cycles(
    y: np.ndarray, grid: TimeGrid, wanted: str | tuple[str, ...], shrinkage: Shrinkage, covariates: Covariates | None,
    series: Series | None,
) -> Cycles:  # fmt: skip
    """Means and cycles of readings (T, N) on a grid, NaN where missing, with draws of their errors.

    They follow those of the ``covariates``, by which the shrinkage may have slopes, and of the ``series`` that help.
    """
    seconds = grid.seconds
    names, harmonics = find(seconds, grid.step, grid.dated, wanted)
    plain = none(names, harmonics).basis(seconds)
    if series is not None:
        series = series.chosen(y, seconds, plain)
    B = replace(none(names, harmonics), series=series).basis(seconds)
    coefficients, spreads, power, controls = least_squares(
        y, np.column_stack([B, control_waves(seconds, grid.step, names)]), B.shape[1]
    )
    powers = np.full(B.shape[1], power)
    if series is not None and series.used.any():
        powers[plain.shape[1] :] = series.powers(y - B @ coefficients, seconds, plain)
    rng = np.random.default_rng(0)  # fixed: the same readings have the same bands
    controls /= np.sqrt(power or 1.0)
    unit = unit_errors(controls, y, rng, shrinkage.draws)
    model = shrinkage.error_model(shown_errors(controls, y).T, comparable_stations(controls, np.isfinite(y).sum(axis=0)))
    gains: dict[int, float] = {}
    if covariates is not None:
        shrinkage, gains = shrinkage.choose(coefficients, spreads * powers[:, None], model, B.T @ B / len(B))
    parts = [
        shrinkage(b, spread * powers[k], model, of_coefficient(unit, k).T, rng)
        for k, (b, spread) in enumerate(zip(coefficients, spreads, strict=True))
    ]
    level, common, reach, variance, spread, errors = (
        np.array([getattr(part, name) for part in parts])
        for name in ("level", "common", "reach", "variance", "spread", "errors")
    )
    dual = np.array([np.zeros(y.shape[1]) if part.dual is None else part.dual for part in parts])
    regression = None
    if covariates is not None:
        slopes, priors = (np.array([getattr(part, name) for part in parts]) for name in ("slopes", "slope_variances"))
        regression = Regression(covariates, slopes, priors, np.array([gains.get(c, 0.0) for c in range(len(covariates.names))]))
    own = np.array([part.own for part in parts])
    return Cycles(names, harmonics, level, common, reach, dual, variance, spread, errors, regression, own, series)


def none(names: tuple[str, ...] = (), harmonics: tuple[int, ...] = (), stations: int = 0) -> Cycles:
    """Means and cycles that are zero and known."""
    K = 1 + 2 * sum(harmonics)
    zero, zeros = np.zeros(K), np.zeros((K, stations))
    return Cycles(names, harmonics, zeros, zero, zero, zeros, zero, zeros, zeros[..., None])


def control_waves(seconds: np.ndarray, step: float, names: tuple[str, ...]) -> np.ndarray:
    """Waves at frequencies beside the cycles', that fit the record a whole number of times."""
    span = float(seconds[-1] - seconds[0]) + step
    # a cycle need not fit the record a whole number of times: no wave may be one of its harmonics, or nearly so
    periods = [CYCLES[name] for name in names if name != TIDE]
    own = [k * span / period for period in periods for k in (1, 2)]
    own += [k * span / CYCLES[WEEK] for k in WEEK_WAVES if WEEK in names]
    own += [span / period for period in TIDES if TIDE in names]
    first = max((round(span / period) for period in periods), default=1)
    free = [k for k in range(max(1, first - 2), first + 9) if all(abs(k - f) >= APART for f in own)][:4]
    return np.column_stack(waves(seconds - seconds[0], span, tuple(free)))
