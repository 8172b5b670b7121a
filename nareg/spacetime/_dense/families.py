"""The correlation of a field in space and time: families and orders, compared on some stations in parts of the record."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nareg.spacetime._dense.parametric import Fitted, Parameters, Penalized, maximize
from nareg.spacetime._dense.smoother import smoothed_means
from nareg.spacetime._dense.starts import MUCH, calm_noise, first_guess, second_order, with_shown_noise, with_shown_swing
from nareg.spacetime._readings.engine import LearningTask, StageClock
from nareg.spacetime._readings.holdout import FEWEST_HIDDEN, Gain, Judge, gaps_of, hide, hide_times, silent_times, station_order
from nareg.spacetime._readings.space import Space

#: Learning sees windows that a pass takes so many seconds for: fewer for a handful of parameters than for matrices, which short
#: windows overfit. The last fit sees everything.
FEW_SECONDS, PASS_SECONDS = 0.03, 0.6
#: Seconds of a row on one core: a constant, and coefficients of the square and the cube of the state's size.
ROW_SECONDS = 5e-6, 2e-8, 6e-10
FEWEST_ROWS, MOST_ROWS = 60, 4000
#: Matrices of order p are learned from so many rows per station, where a pass takes no longer than so many seconds over p.
ROWS_PER_STATION, LONG_SECONDS = 3, 4.0
#: Forms of the dynamics are compared from so many steps per station on.
STEPS_PER_STATION = 2
#: Stations that families and orders are compared on at most; all stations then share the winner.
MAX_STATIONS = 30
#: Iterations for the first family, for the others, which start from its answer, and for the same model again after
#: readings were left out or added.
ITERATIONS, WARM, AGAIN = 25, 10, 6
#: Second order has to lower the error at hidden readings by more than its standard error, or to raise the log-likelihood by
#: this much and not predict worse beyond chance.
ORDER_GAIN = 5.0
#: Standard errors by which hidden readings must be predicted worse to turn down a likelier order.
REFUTED = 2.0
#: Where one pass over the record would take more seconds by the second order, it has to predict better.
COSTLY_SECONDS = 10.0
#: A second order swings where more than this share of it is left after a turn. One swing of all stations takes for noise what
#: matrices of the first order, which turn fields into each other, may tell better: both are refined then.
SWINGS = 0.05
#: Share of the readings that is hidden while models are compared.
HIDDEN = 0.1
#: Times at which no station reads while models are compared, the file's own gaps among them.
HIDDEN_TIMES = 0.05


def windows_of(y: np.ndarray, order: int, seconds: float = FEW_SECONDS, stations: int | None = None) -> list[slice]:
    """Parts of the record that learning from so many stations can afford: all of it, or up to four windows spread over it."""
    return _spread(y, _affordable(y.shape[1] if stations is None else min(y.shape[1], stations), order, seconds))


def windows_of_matrices(y: np.ndarray, order: int) -> list[slice]:
    """Parts of the record that matrices are learned from: as of few parameters, or longer where that is not enough."""
    T, N = y.shape
    rows, longer = _affordable(N, order, PASS_SECONDS), _affordable(N, order, LONG_SECONDS / order)
    enough = min(T, ROWS_PER_STATION * N)
    return _spread(y, enough if rows < enough <= longer else rows)


def enough_for_matrices(y: np.ndarray, order: int) -> bool:
    """Whether these windows have so many steps that hidden readings may choose between forms of the dynamics."""
    return sum(part.stop - part.start - 1 for part in windows_of_matrices(y, order)) >= STEPS_PER_STATION * y.shape[1]


def _affordable(N: int, order: int, seconds: float) -> int:
    return min(MOST_ROWS, max(FEWEST_ROWS, int(seconds / _row_seconds(order * N))))


def _row_seconds(size: int) -> float:
    constant, square, cube = ROW_SECONDS
    return constant + square * size**2 + cube * size**3


def _spread(y: np.ndarray, rows: int) -> list[slice]:
    """All times, or up to four windows of so many rows in all, from readings to readings: long silence teaches nothing."""
    T = len(y)
    if rows >= T:
        return [slice(0, T)]
    count = max(1, min(4, rows // FEWEST_ROWS))
    length = rows // count
    seen = np.flatnonzero(np.isfinite(y).any(axis=1))
    if not seen.size:
        return [slice(0, length)]
    last = int(np.searchsorted(seen, seen[-1] + 1 - length))  # the last window ends with the readings
    first = seen[np.linspace(0, last, count).astype(int)]
    windows: list[slice] = []
    for start in np.minimum(first, T - length).tolist():
        if not windows or start >= windows[-1].stop:
            windows.append(slice(start, start + length))
    return windows


class ModelComparison:
    """Models of readings ``y`` (T, N): ``hidden`` ones compare them, ``seen`` are the others."""

    def __init__(self, y: np.ndarray, space: Space, task: LearningTask, clock: StageClock) -> None:
        self.y, self.space, self.task, self.clock = y, space, task, clock
        self.fixed_noise = task.noise is not None
        self.hidden = hide(y, HIDDEN, task.rng) | hide_times(y, HIDDEN_TIMES, task.rng)
        self.seen = np.where(self.hidden, np.nan, y)
        self.choices: list[tuple[str, float, float]] = []

    def maximized(
        self, windows: list[np.ndarray], space: Space, start: Parameters, task: LearningTask, iterations: int
    ) -> Fitted:
        """The parametric model of largest likelihood in a space, from a start."""
        rows = sum(len(w) for w in windows)
        return maximize(
            Penalized(
                windows, space, start, fixed_noise=self.fixed_noise, least=task.least, tick=lambda _: self.clock.tick(rows)
            ),
            iterations,
        )

    def best_family(self) -> tuple[Fitted, Fitted | None]:
        """The best family and order, on some of the stations, spread to all; and the first order beside a second that swings.

        Orders are compared by the hidden readings, too: jumps of the field look like roughness to the likelihood of a smooth
        one, and the other way round. Another family has to be likelier and to predict these readings better.
        """
        space, parts = self.space, windows_of(self.y, 1, stations=MAX_STATIONS)
        readings = np.concatenate([self.seen[p] for p in parts])
        order = station_order(readings)
        live = order[np.isfinite(readings).any(axis=0)[order]]
        stations = _some_with_neighbors(space, live, self.task.rng) if live.size > MAX_STATIONS else np.sort(live)
        part, task = space.subset(stations) if stations.size < space.n else space, self.task.of(stations)
        few, masks = ([values[p][:, stations] for p in parts] for values in (self.seen, self.hidden))
        rows = sum(len(w) for w in few)
        evaluations = ITERATIONS + WARM * (len(part.families) + 1) + AGAIN
        self.clock.enter("comparing correlations in space and time", 0.3, evaluations * rows)
        truth = np.concatenate([self.y[p][:, stations][m] for p, m in zip(parts, masks, strict=True)])
        silent, gaps = silent_times(few, masks), gaps_of(few, masks)

        def attempt(start: Parameters, iterations: int) -> Fitted:
            fitted = self.maximized(few, part, start, task, iterations)
            self.choices.append((f"{start.family} correlation, order {start.order}", fitted.objective, float("nan")))
            return fitted

        def errors(parameters: Parameters) -> np.ndarray:
            means = smoothed_means(few, parameters.dynamics(part), parameters.noise)
            return truth - np.concatenate([x[m] for x, m in zip(means, masks, strict=True)])

        def gain(name: str, old: Fitted, new: Fitted) -> Gain:
            before = errors(old.parameters)
            result = Judge.of(before, silent).gain(before, errors(new.parameters))
            self.choices.append((name, result.value, result.error))
            return result

        def refuted(old: Fitted, new: Fitted) -> bool:
            """Whether the new errors are larger beyond chance, where a few long gaps tell little."""
            before = errors(old.parameters)
            worse = Judge.of(before, silent, gaps).gain(before, errors(new.parameters))
            return worse.value < -REFUTED * worse.error

        simpler, best = None, attempt(first_guess(few, part, part.families[0], task.noise), ITERATIONS)
        # matrices of the first order are worth more than a second order without them
        if enough_for_matrices(self.y, 2) or not enough_for_matrices(self.y, 1):
            richer = attempt(second_order(best.parameters), WARM)
            smooth = second_order(best.parameters)
            noisier = None if self.fixed_noise else with_shown_noise(smooth, few)
            for name, start in (("more noise", noisier), ("a swing", with_shown_swing(smooth, few))):
                if start is not None:
                    other = attempt(start, WARM)
                    if other.objective > richer.objective and gain(name, richer, other).value >= 0:
                        richer = other
            likelier = richer.objective > best.objective + ORDER_GAIN
            if truth.size >= FEWEST_HIDDEN:
                second = gain("second order", best, richer)
                # what is equally likely is one process in two forms: the one with fewer parameters is taken
                apart = abs(richer.objective - best.objective) > ORDER_GAIN
                costly = len(self.y) * _row_seconds(2 * space.n) > COSTLY_SECONDS
                likelier = (apart and second.better) or (likelier and not costly and not refuted(best, richer))
            simpler = best if likelier and richer.parameters.turn() > SWINGS else None
            best = richer if likelier else best
        for family in part.families[1:]:
            other = attempt(best.parameters.moved_to(family, part), WARM)
            # by more than a standard error: a smooth field with much noise looks like a rough one with little noise
            if other.objective > best.objective and (
                truth.size < FEWEST_HIDDEN or gain(f"{family} correlation", best, other).better
            ):
                best = other
        calm = None if self.fixed_noise else calm_noise(self.y)
        less = None if calm is None else np.log(self.task.bounded(calm)[stations])
        if less is not None and float(np.median(best.parameters.log_noise - less)) > np.log(MUCH):
            self.fixed_noise = True
            quieter = attempt(replace(best.parameters, log_noise=less), ITERATIONS)
            if truth.size >= FEWEST_HIDDEN:
                gain("noise of calm times", best, quieter)
                self.fixed_noise = not refuted(best, quieter)
            simpler, best = (None, quieter) if self.fixed_noise else (simpler, best)

        def spread(fitted: Fitted) -> Fitted:
            return replace(fitted, parameters=fitted.parameters.spread_to(space.n, stations, self.task.noise))

        if part is not space:
            simpler, best = None if simpler is None else spread(simpler), spread(best)
        return best, simpler


def _some_with_neighbors(space: Space, stations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """:data:`MAX_STATIONS` of the stations, most as pairs: neighbors show how rough a field is, others its range."""
    shuffled = rng.permutation(stations)
    chosen: dict[int, None] = {}
    for i in shuffled:
        if len(chosen) >= MAX_STATIONS:
            break
        chosen[int(i)] = None
        near = space.nearest(int(i), shuffled)
        if near is not None:
            chosen[near] = None
    return np.sort(list(chosen)[:MAX_STATIONS])
