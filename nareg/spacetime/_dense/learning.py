"""From readings on a grid to dynamics and noise: candidates, the readings that compare them, and the choice.

1. Families of correlation and orders of the autoregression, by likelihood, on the readings that are not hidden.
2. Refinements by EM (free process noise, dynamics, heavy-tailed steps), by the error at the hidden readings: a richer model is
   taken where it lowers that error by more than its standard error.
3. What was chosen, once more with every reading.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nareg.spacetime._dense.em import Estimate, Refinement, Watch, refine
from nareg.spacetime._dense.filter import Dynamics
from nareg.spacetime._dense.parametric import SMALLEST, Fitted, Parameters, first_guess, maximize, second_order
from nareg.spacetime._dense.smoother import PASSES, Pass, heavy_tailed_pass, run
from nareg.spacetime._readings.holdout import Gain, HeldOut, Judge, hide, hide_times, silent_times, station_order
from nareg.spacetime._readings.outliers import deletion_scores, gross, robust_spread
from nareg.spacetime._readings.space import Space
from nareg.spacetime._readings.task import FEWEST_HIDDEN, LearningTask, StageClock

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


#: Iterations of EM.
EM_ITERATIONS = 12
#: A path of EM ends when its last steps so many predict worse than its best.
PATIENCE = 2
#: Weights of the parametric process noise and dynamics, per step of the readings: dynamics of few parameters need little.
WEIGHTS = {"scalar": (0.2, 1.0), "diagonal": (0.5, 0.03), "modes": (0.2, 0.03), "graph": (0.5, 1.0), "full": (0.5, 1.0)}
#: What "auto" tries, in this order.
AUTO = ("scalar", "modes", "full")
#: Degrees of freedom of heavy-tailed steps.
DF = 4.0


def _refinements(task: LearningTask, steps: int, chosen: Refinement | None) -> list[Refinement]:
    """What is tried after the parametric model: Gaussian steps first, then heavy tails for the dynamics that were taken."""
    if chosen is not None:
        return [replace(chosen, df=DF)] if chosen.df is None else []
    return [weighted(kind, steps) for kind in (AUTO if task.dynamics == "auto" else (task.dynamics,))]


def weighted(kind: str, steps: int, df: float | None = None) -> Refinement:
    """A refinement with the weights of its kind, for a record of so many steps."""
    nu, kappa = WEIGHTS[kind]
    return Refinement(kind, nu * steps, kappa * steps, df)


def refined(
    windows: list[np.ndarray], space: Space, parameters: Parameters, refinement: Refinement, task: LearningTask,
    progress: StageClock, *, iterations: int, watch: Watch | None = None,
) -> Estimate:  # fmt: skip
    """EM from the parametric model on."""
    basis = support = None
    if refinement.dynamics == "modes":  # the eigenvectors of the field's covariance
        basis = np.linalg.eigh(parameters.covariance(space))[1]
    elif refinement.dynamics == "graph":
        support = (space.adjacency.toarray() > 0) | np.eye(space.n, dtype=bool)
    rows = sum(len(w) for w in windows)
    return refine(
        windows, parameters.dynamics(space), parameters.noise, refinement, iterations=iterations,
        fixed_noise=task.noise is not None, least=task.least, basis=basis, support=support, watch=watch,
        tick=lambda _: progress.tick(rows),
    )  # fmt: skip


def best_refinement(
    y: np.ndarray, seen: np.ndarray, hidden: np.ndarray, parts: list[slice], space: Space, parameters: Parameters,
    task: LearningTask, progress: StageClock,
) -> tuple[Refinement | None, int, HeldOut | None, list[tuple[str, float, float]]]:  # fmt: skip
    """The refinement, and how many iterations of it, that predict the hidden readings best."""
    if np.nanvar(seen) <= SMALLEST:  # constant readings leave nothing to refine
        return None, 0, None, []
    windows = [seen[p] for p in parts]
    masks = [hidden[p] for p in parts]
    truth = np.concatenate([y[p][m] for p, m in zip(parts, masks, strict=True)])
    rows, steps = sum(len(w) for w in windows), sum(len(w) - 1 for w in windows)
    attempts = len(_refinements(task, steps, None)) + 1
    progress.enter("comparing dynamics by hidden readings", 0.85, EM_ITERATIONS * attempts * rows + PASSES * len(y))
    start = parameters.dynamics(space)
    tried: list[tuple[str, float, float]] = []

    def errors(passes: list[Pass]) -> np.ndarray:
        return truth - np.concatenate([p.x[m] for p, m in zip(passes, masks, strict=True)])

    def whole(refinement: Refinement | None, dynamics: Dynamics, r: np.ndarray) -> HeldOut | None:
        """Predictions over the whole record, which windows may be too short or too few to stand for."""
        if not hidden.any():
            return None
        draws = None if task.offsets is None else task.offsets.draws
        df = None if refinement is None else refinement.df
        done = heavy_tailed_pass(seen, dynamics, r, df, tick=progress.tick, errors=draws)
        offsets = 0.0 if task.offsets is None else task.offsets.left(done.taken)
        return HeldOut(y[hidden], done.x[hidden], np.sqrt((done.var + r + offsets)[hidden]))

    passes = [run(w, start, parameters.noise) for w in windows]
    best, best_iterations, chosen = errors(passes), 0, None
    learned: tuple[Dynamics, np.ndarray] = start, parameters.noise
    if truth.size < FEWEST_HIDDEN or (task.dynamics == "auto" and steps < 2 * space.n):
        named = None if task.dynamics == "auto" or not steps else _refinements(task, steps, None)[0]
        return named, EM_ITERATIONS if named else 0, whole(None, start, parameters.noise), tried
    judge = Judge.of(best, silent_times(windows, masks))

    def attempt(refinement: Refinement) -> None:
        nonlocal best, best_iterations, chosen, learned
        path: list[np.ndarray] = []
        models: list[tuple[Dynamics, np.ndarray]] = []

        def watch(passes: list[Pass], now: Estimate) -> bool:
            path.append(errors(passes))
            models.append((now.dynamics, now.r))
            squares = [judge.loss(step) for step in path]
            return len(squares) > PATIENCE and min(squares[-PATIENCE:]) > min(squares)

        refined(windows, space, parameters, refinement, task, progress, iterations=EM_ITERATIONS, watch=watch)
        gains = [judge.gain(best, step) for step in path]
        k = int(np.argmax([gain.value for gain in gains]))
        tried.append((refinement.describe(), gains[k].value, gains[k].error))
        must = task.dynamics != "auto" and chosen is None
        if must or gains[k].better:
            k = max(k, 1) if must else k
            best, best_iterations, chosen, learned = path[k], k, refinement, models[k]

    for refinement in _refinements(task, steps, None):
        attempt(refinement)
    for refinement in _refinements(task, steps, chosen or weighted("scalar", steps)):
        attempt(refinement)
    return chosen, best_iterations, whole(chosen, *learned), tried


#: Share of the readings that is hidden while models are compared.
HIDDEN = 0.1
#: Times at which no station reads while models are compared, the file's own gaps among them.
HIDDEN_TIMES = 0.05
#: A parametric fit whose scaled gradient is at most this has converged.
FLAT = 1e-2
#: Outliers make a station's noise larger than the spread of its other readings by at most this factor.
LEAST_SPREAD = 0.05


@dataclass(frozen=True, eq=False)
class Learned:
    """Dynamics and noise, how they were chosen, and the hidden readings with their predictions."""

    parameters: Parameters  # the fit that the dynamics started from; it extends to places without a station
    estimate: Estimate
    refinement: Refinement | None
    excluded: np.ndarray  # (T, N) True for readings left out of the fit as gross outliers
    held_out: HeldOut | None
    choices: list[tuple[str, float, float]]  # name, log-likelihood or gain at hidden readings, its standard error or NaN


def learn(y: np.ndarray, space: Space, task: LearningTask, progress: StageClock) -> Learned:
    """Learn from readings (T, N) on a grid, mean and cycles removed, NaN where missing."""
    hidden = hide(y, HIDDEN, task.rng) | hide_times(y, HIDDEN_TIMES, task.rng)
    seen = np.where(hidden, np.nan, y)
    parts = windows_of(y, 1)
    fitted, choices = best_family(
        [seen[p] for p in parts], [y[p] for p in parts], [hidden[p] for p in parts], space, task, progress
    )
    parameters = fitted.parameters
    parts = windows_of(y, parameters.order, PASS_SECONDS)
    excluded = np.zeros(y.shape, dtype=bool)
    if task.robust:
        excluded, parameters = _first_outliers(seen, space, parameters, fixed=task.noise is not None)
        parameters = replace(parameters, log_noise=np.log(task.bounded(parameters.noise)))
    calm = np.where(excluded, np.nan, seen)
    fitted = fit_again([calm[p] for p in parts], space, parameters, task, progress)
    parameters = fitted.parameters
    if task.robust:
        excluded |= _outliers(seen, space, parameters, excluded)
    parts = windows_of_matrices(y, parameters.order)
    refinement, iterations, held_out, tried = best_refinement(
        y, np.where(excluded, np.nan, seen), hidden & ~excluded, parts, space, parameters, task, progress
    )
    choices += tried
    progress.enter("learning from all readings", 1.0, (iterations + 1) * len(y))
    if task.robust:
        excluded |= _outliers(y, space, parameters, excluded)
    estimate = _finish(np.where(excluded, np.nan, y), space, fitted, refinement, iterations, task, progress)
    return Learned(parameters, estimate, refinement, excluded, held_out, choices)


def _first_outliers(y: np.ndarray, space: Space, parameters: Parameters, fixed: bool) -> tuple[np.ndarray, Parameters]:
    """Gross outliers, and noise without what they made of it: unless it is given, a few iterations would not undo that."""
    done = run(y, parameters.dynamics(space), parameters.noise)
    scores = deletion_scores(y, done.x, done.var, parameters.noise)
    excluded = gross(scores)
    if fixed:
        return excluded, parameters
    spread = robust_spread(scores)
    # less would be a station whose readings are all but equal, of whose noise they say nothing
    calmer = np.where(excluded.any(axis=0) & (spread > LEAST_SPREAD), np.minimum(spread, 1.0), 1.0)
    return excluded, replace(parameters, log_noise=parameters.log_noise + 2 * np.log(calmer))


def _outliers(y: np.ndarray, space: Space, parameters: Parameters, excluded: np.ndarray) -> np.ndarray:
    calm = np.where(excluded, np.nan, y)
    done = run(calm, parameters.dynamics(space), parameters.noise)
    return gross(deletion_scores(y, done.x, done.var, np.where(excluded, np.inf, parameters.noise)))


def _finish(
    y: np.ndarray, space: Space, fitted: Fitted, refinement: Refinement | None, iterations: int, task: LearningTask,
    progress: StageClock,
) -> Estimate:  # fmt: skip
    """The chosen model on every reading."""
    parameters = fitted.parameters
    if refinement is None:
        start = parameters.dynamics(space)
        done = run(y, start, parameters.noise, smooth=False)
        progress.tick(len(y))
        return Estimate(
            start, parameters.noise, [np.ones(len(y))], [done.log_likelihood], done.log_likelihood, fitted.gradient, 0,
            fitted.gradient <= FLAT,
        )  # fmt: skip
    scaled = weighted(refinement.dynamics, len(y) - 1, refinement.df)
    return refined([y], space, parameters, scaled, task, progress, iterations=iterations)
