"""Step two of learning: the refinement by EM, and how many iterations of it, that predicts hidden readings best."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nareg.spacetime._dense.dynamics import Dynamics
from nareg.spacetime._dense.smoother import Pass, run
from nareg.spacetime._dense.tails import PASSES, heavy_tailed_pass
from nareg.spacetime._learn.em import Estimate, Refinement, Watch, refine
from nareg.spacetime._learn.holdout import HeldOut, Judge, silent_times
from nareg.spacetime._learn.parametric import SMALLEST, Parameters
from nareg.spacetime._learn.task import FEWEST_HIDDEN, LearningTask, StageClock
from nareg.spacetime._space import Space

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
