"""From readings on a grid to dynamics and noise: candidates, the readings that compare them, and the choice.

1. Families of correlation and orders of the autoregression, by likelihood, on the readings that are not hidden.
2. Refinements by EM (free process noise, dynamics, heavy-tailed steps), by the error at the hidden readings: a richer model is
   taken where it lowers that error by more than its standard error.
3. What was chosen, once more with every reading.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from nareg.progress import Progress, ProgressCallback
from nareg.spacetime._dynamics import Dynamics
from nareg.spacetime._em import Estimate, Refinement, refine
from nareg.spacetime._holdout import HeldOut, hide, improvement, robust_scale, winsorized_squares
from nareg.spacetime._outliers import gross
from nareg.spacetime._parametric import Fitted, Parameters, first_guess, maximize, second_order
from nareg.spacetime._smoother import Pass, run
from nareg.spacetime._space import Space
from nareg.spacetime._tails import PASSES, heavy_tailed_pass

#: Share of the readings that is hidden while models are compared.
HIDDEN = 0.1
#: Learning sees windows that a pass takes so many seconds for, by the cost of a row and of its matrix products: fewer for a
#: handful of parameters than for matrices, which short windows overfit. The last fit sees everything.
FEW_SECONDS, PASS_SECONDS, ROW_SECONDS, CUBE_SECONDS = 0.7, 1.5, 2e-4, 6e-10
FEWEST_ROWS = 60
#: Stations that families and orders are compared on at most; all stations then share the winner.
MAX_STATIONS = 30
#: Iterations of L-BFGS for the first family, and for the others, which start from its
#: answer; and for the same model after readings were left out or added.
ITERATIONS, WARM, AGAIN = 25, 10, 6
#: A parametric fit whose scaled gradient is at most this has converged.
FLAT = 1e-2
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
#: With fewer hidden readings nothing is compared by them. Second order has to lower their error by more than its standard
#: error, or to raise the log-likelihood by this much and not predict worse.
FEWEST_HIDDEN, ORDER_GAIN = 20, 5.0


@dataclass(frozen=True)
class LearningTask:
    """Options of the user.

    Attributes
    ----------
    dynamics : str
        ``"auto"`` or a kind of dynamics.
    noise : (N,) array or None
        Known noise variances, in the model's unit.
    robust : bool
        Leave gross outliers out of the fit.
    """

    dynamics: str
    noise: np.ndarray | None
    robust: bool
    rng: np.random.Generator


@dataclass
class StageClock:
    """Reports how far learning is. Each stage takes a share of the time and sees a roughly known number of rows."""

    report: ProgressCallback | None
    stage: str = "preparing"
    begin: float = 0.0
    end: float = 0.0
    expected: float = 1.0
    done: float = 0.0
    starts: list[tuple[str, float]] = field(default_factory=lambda: [("preparing", perf_counter())])

    def enter(self, stage: str, end: float, rows: float) -> None:
        """A new stage, until the fraction ``end`` of all, of about so many rows."""
        self.stage, self.begin, self.end = stage, self.end, end
        self.expected, self.done = max(rows, 1.0), 0.0
        self.starts.append((stage, perf_counter()))

    def timings(self) -> dict[str, float]:
        """Seconds per stage so far, and in total."""
        ends = [start for _, start in self.starts[1:]] + [perf_counter()]
        seconds = {stage: end - start for (stage, start), end in zip(self.starts, ends, strict=True)}
        return seconds | {"total": ends[-1] - self.starts[0][1]}

    def tick(self, rows: float) -> None:
        """So many rows were seen; a stage that sees more than it expected waits at its end."""
        self.done = min(self.done + rows, self.expected)
        if self.report is not None:
            fraction = self.begin + (self.end - self.begin) * self.done / self.expected
            self.report(Progress(self.stage, fraction=fraction))


@dataclass(frozen=True, eq=False)
class Learned:
    """Dynamics and noise, how they were chosen, and the hidden readings with their predictions.

    Attributes
    ----------
    parameters : Parameters
        The parametric fit that the dynamics started from; its covariance extends to places without a station.
    estimate : Estimate
    refinement : Refinement or None
    excluded : (T, N) bool array
        Readings left out of the fit as gross outliers.
    held_out : HeldOut or None
    choices : list of (str, float, float)
        What was tried: name, its log-likelihood or gain at hidden readings, and the standard error of that (or NaN).
    """

    parameters: Parameters
    estimate: Estimate
    refinement: Refinement | None
    excluded: np.ndarray
    held_out: HeldOut | None
    choices: list[tuple[str, float, float]] = field(default_factory=list)


def windows_of(y: np.ndarray, order: int, seconds: float = FEW_SECONDS) -> list[slice]:
    """Parts of the record that learning can afford: all of it, or up to four windows spread over it."""
    T, N = y.shape
    rows = max(FEWEST_ROWS, int(seconds / (ROW_SECONDS + CUBE_SECONDS * (order * N) ** 3)))
    if rows >= T:
        return [slice(0, T)]
    count = max(1, min(4, rows // FEWEST_ROWS))
    length = rows // count
    starts = np.linspace(0, T - length, count).astype(int)
    return [slice(int(s), int(s) + length) for s in starts]


def some_stations(space: Space, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Stations that the parametric likelihood is computed on: all that read, or a random part."""
    live = np.flatnonzero(np.isfinite(y).any(axis=0))
    if live.size <= MAX_STATIONS:
        return live
    return np.sort(rng.choice(live, MAX_STATIONS, replace=False))


def learn(y: np.ndarray, space: Space, task: LearningTask, progress: StageClock) -> Learned:
    """Learn from readings (T, N) on a grid, mean and cycles removed, NaN where missing."""
    hidden = hide(y, HIDDEN, task.rng)
    seen = np.where(hidden, np.nan, y)
    parts = windows_of(y, 1)
    fitted, choices = _parametric(
        [seen[p] for p in parts], [y[p] for p in parts], [hidden[p] for p in parts], space, task, progress
    )
    parameters = fitted.parameters
    parts = windows_of(y, parameters.order, PASS_SECONDS)
    excluded = np.zeros(y.shape, dtype=bool)
    if task.robust:
        excluded = _outliers(seen, space, parameters, excluded)
        calm = np.where(excluded, np.nan, seen)
        fitted = _again([calm[p] for p in parts], space, parameters, task, progress)
        parameters = fitted.parameters
        excluded |= _outliers(seen, space, parameters, excluded)
        seen = np.where(excluded, np.nan, seen)
    else:
        fitted = _again([seen[p] for p in parts], space, parameters, task, progress)
        parameters = fitted.parameters
    refinement, iterations, held_out, tried = _compare(y, seen, hidden & ~excluded, parts, space, parameters, task, progress)
    choices += tried
    progress.enter("learning from all readings", 1.0, (iterations + 1) * len(y))
    if task.robust:
        excluded |= _outliers(y, space, parameters, excluded)
    estimate = _finish(np.where(excluded, np.nan, y), space, fitted, refinement, iterations, task, progress)
    return Learned(parameters, estimate, refinement, excluded, held_out, choices)


def _outliers(y: np.ndarray, space: Space, parameters: Parameters, excluded: np.ndarray) -> np.ndarray:
    calm = np.where(excluded, np.nan, y)
    done = run(calm, parameters.dynamics(space), parameters.noise)
    return gross(y, done, np.where(excluded, np.inf, parameters.noise))


def _parametric(
    windows: list[np.ndarray],
    truths: list[np.ndarray],
    masks: list[np.ndarray],
    space: Space,
    task: LearningTask,
    progress: StageClock,
) -> tuple[Fitted, list[tuple[str, float, float]]]:
    """The best family and order, on some of the stations, spread to all.

    Families of one order are compared by likelihood, orders by the hidden readings: jumps of the field look like roughness
    to the likelihood of a smooth one, and the other way round.
    """
    stations = some_stations(space, np.concatenate(windows), task.rng)
    part = space.subset(stations) if stations.size < space.n else space
    few = [w[:, stations] for w in windows]
    noise = None if task.noise is None else task.noise[stations]
    rows = sum(len(w) for w in windows)
    tick = lambda _: progress.tick(rows)  # noqa: E731
    evaluations = ITERATIONS + WARM * len(part.families) + AGAIN
    progress.enter("comparing correlations in space and time", 0.3, evaluations * rows)
    choices: list[tuple[str, float, float]] = []
    hidden = np.concatenate([t[:, stations][m[:, stations]] for t, m in zip(truths, masks, strict=True)])

    def attempt(start: Parameters, iterations: int) -> Fitted:
        fitted = maximize(few, part, start, fixed_noise=noise is not None, iterations=iterations, tick=tick)
        choices.append((f"{start.family} correlation, order {start.order}", fitted.objective, float("nan")))
        return fitted

    def errors(parameters: Parameters) -> np.ndarray:
        passes = [run(w, parameters.dynamics(part), parameters.noise) for w in few]
        return hidden - np.concatenate([p.x[m[:, stations]] for p, m in zip(passes, masks, strict=True)])

    best = attempt(first_guess(few, part, part.families[0], 1, noise), ITERATIONS)
    richer = attempt(second_order(best.parameters), WARM)
    if hidden.size >= FEWEST_HIDDEN:
        before = errors(best.parameters)
        gain, error = improvement(before, errors(richer.parameters), robust_scale(before))
        choices.append(("second order", gain, error))
        likelier = richer.objective > best.objective + ORDER_GAIN
        best = richer if gain > error or (likelier and gain > 0) else best
    elif richer.objective > best.objective + ORDER_GAIN:
        best = richer
    for family in part.families[1:]:
        other = attempt(best.parameters.moved_to(family, part), WARM)
        if other.objective > best.objective:
            best = other
    if part is not space:
        best = replace(best, parameters=best.parameters.spread_to(space.n, stations, task.noise))
    return best, choices


def _again(windows: list[np.ndarray], space: Space, parameters: Parameters, task: LearningTask, progress: StageClock) -> Fitted:
    rows = sum(len(w) for w in windows)
    iterations = AGAIN if space.n <= MAX_STATIONS else 2
    return maximize(
        windows,
        space,
        parameters,
        fixed_noise=task.noise is not None,
        iterations=iterations,
        tick=lambda _: progress.tick(rows),
    )


def _refinements(task: LearningTask, steps: int, chosen: Refinement | None) -> list[Refinement]:
    """What is tried after the parametric model: Gaussian steps first, then heavy tails for the dynamics that were taken."""
    if chosen is not None:
        return [replace(chosen, df=DF)] if chosen.df is None else []
    return [_weighted(kind, steps) for kind in (AUTO if task.dynamics == "auto" else (task.dynamics,))]


def _weighted(kind: str, steps: int, df: float | None = None) -> Refinement:
    nu, kappa = WEIGHTS[kind]
    return Refinement(kind, nu * steps, kappa * steps, df)


def support_of(space: Space) -> np.ndarray:
    """Entries of A that "graph" dynamics may use."""
    return (space.adjacency.toarray() > 0) | np.eye(space.n, dtype=bool)


def basis_of(space: Space, parameters: Parameters) -> np.ndarray:
    """The modes: eigenvectors of the field's covariance."""
    basis: np.ndarray = np.linalg.eigh(parameters.covariance(space))[1]
    return basis


def _compare(
    y: np.ndarray, seen: np.ndarray, hidden: np.ndarray, parts: list[slice], space: Space, parameters: Parameters,
    task: LearningTask, progress: StageClock,
) -> tuple[Refinement | None, int, HeldOut | None, list[tuple[str, float, float]]]:  # fmt: skip
    """The refinement, and how many iterations of it, that predict the hidden readings best."""
    windows = [seen[p] for p in parts]
    masks = [hidden[p] for p in parts]
    truth = np.concatenate([y[p][m] for p, m in zip(parts, masks, strict=True)])
    rows, steps = sum(len(w) for w in windows), sum(len(w) - 1 for w in windows)
    attempts = len(_refinements(task, steps, None)) + 1
    progress.enter("comparing dynamics by hidden readings", 0.85, EM_ITERATIONS * attempts * rows + PASSES * len(y))
    start = parameters.dynamics(space)
    tried: list[tuple[str, float, float]] = []

    def predict(passes: list[Pass], r: np.ndarray) -> HeldOut:
        x = np.concatenate([p.x[m] for p, m in zip(passes, masks, strict=True)])
        var = np.concatenate([(p.var + r)[m] for p, m in zip(passes, masks, strict=True)])
        return HeldOut(truth, x, np.sqrt(var))

    def whole(refinement: Refinement | None, dynamics: Dynamics, r: np.ndarray) -> HeldOut | None:
        """Predictions over the whole record, which windows may be too short or too few to stand for."""
        if not hidden.any():
            return None
        done = heavy_tailed_pass(seen, dynamics, r, None if refinement is None else refinement.df, tick=progress.tick)
        return HeldOut(y[hidden], done.x[hidden], np.sqrt((done.var + r)[hidden]))

    passes = [run(w, start, parameters.noise) for w in windows]
    best, best_iterations, chosen = predict(passes, parameters.noise), 0, None
    learned: tuple[Dynamics, np.ndarray] = start, parameters.noise
    if truth.size < FEWEST_HIDDEN or (task.dynamics == "auto" and steps < 2 * space.n):
        named = None if task.dynamics == "auto" or not steps else _refinements(task, steps, None)[0]
        return named, EM_ITERATIONS if named else 0, whole(None, start, parameters.noise), tried
    scale = robust_scale(best.errors)

    def attempt(refinement: Refinement) -> None:
        nonlocal best, best_iterations, chosen, learned
        path: list[HeldOut] = []
        models: list[tuple[Dynamics, np.ndarray]] = []

        def watch(passes: list[Pass], now: Estimate) -> bool:
            path.append(predict(passes, now.r))
            models.append((now.dynamics, now.r))
            squares = [float(winsorized_squares(step.errors, scale).mean()) for step in path]
            return len(squares) > PATIENCE and min(squares[-PATIENCE:]) > min(squares)

        refine(
            windows, start, parameters.noise, refinement, iterations=EM_ITERATIONS, fixed_noise=task.noise is not None,
            basis=basis_of(space, parameters) if refinement.dynamics == "modes" else None,
            support=support_of(space) if refinement.dynamics == "graph" else None,
            watch=watch, tick=lambda _: progress.tick(rows),
        )  # fmt: skip
        gains = [improvement(best.errors, step.errors, scale) for step in path]
        k = int(np.argmax([gain for gain, _ in gains]))
        gain, error = gains[k]
        tried.append((refinement.describe(), gain, error))
        must = task.dynamics != "auto" and chosen is None
        if must or gain > error:
            k = max(k, 1) if must else k
            best, best_iterations, chosen, learned = path[k], k, refinement, models[k]

    for refinement in _refinements(task, steps, None):
        attempt(refinement)
    tails = _refinements(task, steps, chosen or _weighted("scalar", steps))
    for refinement in tails:
        attempt(refinement)
    return chosen, best_iterations, whole(chosen, *learned), tried


def _finish(
    y: np.ndarray, space: Space, fitted: Fitted, refinement: Refinement | None, iterations: int, task: LearningTask,
    progress: StageClock,
) -> Estimate:  # fmt: skip
    """The chosen model on every reading."""
    parameters = fitted.parameters
    start = parameters.dynamics(space)
    T = len(y)
    if refinement is None:
        done = run(y, start, parameters.noise, smooth=False)
        progress.tick(T)
        return Estimate(
            start,
            parameters.noise,
            [np.ones(T)],
            [done.log_likelihood],
            done.log_likelihood,
            fitted.gradient,
            0,
            fitted.gradient <= FLAT,
        )
    scaled = _weighted(refinement.dynamics, T - 1, refinement.df)
    return refine(
        [y], start, parameters.noise, scaled, iterations=iterations, fixed_noise=task.noise is not None,
        basis=basis_of(space, parameters) if refinement.dynamics == "modes" else None,
        support=support_of(space) if refinement.dynamics == "graph" else None,
        tick=lambda _: progress.tick(T),
    )  # fmt: skip
