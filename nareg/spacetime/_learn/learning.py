"""From readings on a grid to dynamics and noise: candidates, the readings that compare them, and the choice.

1. Families of correlation and orders of the autoregression, by likelihood, on the readings that are not hidden.
2. Refinements by EM (free process noise, dynamics, heavy-tailed steps), by the error at the hidden readings: a richer model is
   taken where it lowers that error by more than its standard error.
3. What was chosen, once more with every reading.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nareg.spacetime._dense.smoother import run
from nareg.spacetime._learn.em import Estimate, Refinement
from nareg.spacetime._learn.families import PASS_SECONDS, best_family, fit_again, windows_of, windows_of_matrices
from nareg.spacetime._learn.holdout import HeldOut, hide, hide_times
from nareg.spacetime._learn.outliers import deletion_scores, gross, robust_spread
from nareg.spacetime._learn.parametric import Fitted, Parameters
from nareg.spacetime._learn.refinements import best_refinement, refined, weighted
from nareg.spacetime._learn.task import LearningTask, StageClock
from nareg.spacetime._space import Space

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
