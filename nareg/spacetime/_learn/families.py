"""Step one of learning: the family of correlation and the order of the autoregression, by likelihood and hidden readings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nareg.spacetime._dense.smoother import run
from nareg.spacetime._learn.holdout import Gain, Judge, silent_times, station_order
from nareg.spacetime._learn.parametric import Fitted, Parameters, first_guess, maximize, second_order
from nareg.spacetime._learn.task import FEWEST_HIDDEN, LearningTask, StageClock
from nareg.spacetime._space import Space

#: Learning sees windows that a pass takes so many seconds for, by the cost of a row and of its matrix products: fewer for a
#: handful of parameters than for matrices, which short windows overfit. The last fit sees everything.
FEW_SECONDS, PASS_SECONDS, ROW_SECONDS, CUBE_SECONDS = 0.7, 1.5, 2e-4, 6e-10
FEWEST_ROWS = 60
#: Matrices are learned from so many rows per station, where a pass then takes no longer than so many seconds.
ROWS_PER_STATION, LONG_SECONDS = 3, 5.0
#: Stations that families and orders are compared on at most; all stations then share the winner.
MAX_STATIONS = 30
#: Iterations of L-BFGS for the first family, for the others, which start from its answer, and for the same model again after
#: readings were left out or added.
ITERATIONS, WARM, AGAIN = 25, 10, 6
#: Second order has to lower the error at hidden readings by more than its standard error, or to raise the log-likelihood by
#: this much and not predict worse.
ORDER_GAIN = 5.0


def windows_of(y: np.ndarray, order: int, seconds: float = FEW_SECONDS) -> list[slice]:
    """Parts of the record that learning can afford: all of it, or up to four windows spread over it."""
    return _spread(len(y), _affordable(y.shape[1], order, seconds))


def windows_of_matrices(y: np.ndarray, order: int) -> list[slice]:
    """Parts of the record that matrices are learned from: as of few parameters, or longer where that is not enough."""
    T, N = y.shape
    rows, longer = _affordable(N, order, PASS_SECONDS), _affordable(N, order, LONG_SECONDS)
    enough = min(T, ROWS_PER_STATION * N)
    return _spread(T, enough if rows < enough <= longer else rows)


def _affordable(N: int, order: int, seconds: float) -> int:
    return max(FEWEST_ROWS, int(seconds / (ROW_SECONDS + CUBE_SECONDS * (order * N) ** 3)))


def _spread(T: int, rows: int) -> list[slice]:
    """All times, or up to four windows of so many rows in all."""
    if rows >= T:
        return [slice(0, T)]
    count = max(1, min(4, rows // FEWEST_ROWS))
    length = rows // count
    starts = np.linspace(0, T - length, count).astype(int)
    return [slice(int(s), int(s) + length) for s in starts]


def best_family(
    windows: list[np.ndarray], truths: list[np.ndarray], masks: list[np.ndarray], space: Space, task: LearningTask,
    progress: StageClock,
) -> tuple[Fitted, list[tuple[str, float, float]]]:  # fmt: skip
    """The best family and order, on some of the stations, spread to all.

    Orders are compared by the hidden readings: jumps of the field look like roughness to the likelihood of a smooth one, and
    the other way round. Another family has to be likelier and to predict these readings better.
    """
    readings = np.concatenate(windows)
    order = station_order(readings)
    live = order[np.isfinite(readings).any(axis=0)[order]]
    stations = _some_with_neighbors(space, live, task.rng) if live.size > MAX_STATIONS else np.sort(live)
    part = space.subset(stations) if stations.size < space.n else space
    few = [w[:, stations] for w in windows]
    noise = None if task.noise is None else task.noise[stations]
    least = None if task.least is None else task.least[stations]
    rows = sum(len(w) for w in windows)
    tick = lambda _: progress.tick(rows)  # noqa: E731
    evaluations = ITERATIONS + WARM * len(part.families) + AGAIN
    progress.enter("comparing correlations in space and time", 0.3, evaluations * rows)
    choices: list[tuple[str, float, float]] = []
    marks = [m[:, stations] for m in masks]
    hidden = np.concatenate([t[:, stations][m] for t, m in zip(truths, marks, strict=True)])
    silent = silent_times(few, marks)

    def attempt(start: Parameters, iterations: int) -> Fitted:
        fitted = maximize(few, part, start, fixed_noise=noise is not None, iterations=iterations, least=least, tick=tick)
        choices.append((f"{start.family} correlation, order {start.order}", fitted.objective, float("nan")))
        return fitted

    def errors(parameters: Parameters) -> np.ndarray:
        passes = [run(w, parameters.dynamics(part), parameters.noise) for w in few]
        return hidden - np.concatenate([p.x[m] for p, m in zip(passes, marks, strict=True)])

    def gain(name: str, old: Fitted, new: Fitted) -> Gain:
        before = errors(old.parameters)
        result = Judge.of(before, silent).gain(before, errors(new.parameters))
        choices.append((name, result.value, result.error))
        return result

    best = attempt(first_guess(few, part, part.families[0], 1, noise), ITERATIONS)
    richer = attempt(second_order(best.parameters), WARM)
    likelier = richer.objective > best.objective + ORDER_GAIN
    if hidden.size >= FEWEST_HIDDEN:
        second = gain("second order", best, richer)
        likelier = second.better or (likelier and second.value > 0)
    best = richer if likelier else best
    for family in part.families[1:]:
        other = attempt(best.parameters.moved_to(family, part), WARM)
        # by more than a standard error: a smooth field with much noise looks like a rough one with little noise
        if other.objective > best.objective and (
            hidden.size < FEWEST_HIDDEN or gain(f"{family} correlation", best, other).better
        ):
            best = other
    if part is not space:
        best = replace(best, parameters=best.parameters.spread_to(space.n, stations, task.noise))
    return best, choices


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


def fit_again(
    windows: list[np.ndarray], space: Space, parameters: Parameters, task: LearningTask, progress: StageClock
) -> Fitted:
    """The same model on all stations, after readings were left out."""
    rows = sum(len(w) for w in windows)
    iterations, fixed = AGAIN if space.n <= MAX_STATIONS else 2, task.noise is not None
    tick = lambda _: progress.tick(rows)  # noqa: E731
    return maximize(windows, space, parameters, fixed_noise=fixed, iterations=iterations, least=task.least, tick=tick)
