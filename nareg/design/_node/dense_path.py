"""Exact and blind designs on N x N matrices, up to some thousand nodes: noise and gaps of any kind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nareg.design._node.log_weights import log_weights
from nareg.design._node.penalty_path import Fold, PenaltyPath
from nareg.design._risk.groups import Groups
from nareg.design._risk.problem import DesignProblem
from nareg.design._risk.rate import NodeRate
from nareg.design._risk.sampled import squares
from nareg.design._risk.starts import best_scalar
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, WeightDesign

#: Folds where the caller names no number.
DENSE_FOLDS = 4

#: From a filter matrix H the part of the risk that the noise has.
NoisePart = Callable[[np.ndarray], float]


def signal_fold(train: DesignProblem, held_out: np.ndarray, noise_part: NoisePart, constant: float = 0.0) -> Fold:
    """Signals or readings (N, T) held out: the distance of each from its filtered self, and the noise."""

    def values(w: np.ndarray) -> np.ndarray:
        H = train.filter_matrix(w)[1]
        return np.append(squares(H @ held_out - held_out) / held_out.shape[1], noise_part(H))

    return Fold(train.mse_and_gradient, values, held_out.shape[1] + 1, held_out.shape[1], constant)


def moment_fold(train: DesignProblem, held_out: DesignProblem) -> Fold:
    """A second moment held out: one number per fold."""
    return Fold(train.mse_and_gradient, lambda w: np.array([held_out.mse(w)]), 1, 1)


def design_dense(
    method: str,
    task: DesignProblem,
    folds: list[Fold],
    low: np.ndarray,
    high: np.ndarray,
    groups: Groups,
    *,
    progress: ProgressCallback | None,
    rate: float | None = None,
    details: DesignDetails | None = None,
) -> WeightDesign:
    """The path of penalties on dense matrices."""
    low, high = (groups.expand(bound) for bound in groups.bounds(low, high))
    promise = None if rate is None else NodeRate(task.base, task.c, rate, low, high)
    start, start_risk = best_scalar(task, low, high, np.inf if promise is None else promise.largest_single)
    path = PenaltyPath(task.base.L, log_weights(start, low, high, groups, promise), start, start_risk, groups, progress)
    end = path.follow(task.mse_and_gradient, folds)
    w, promised = (end.w, DesignDetails()) if promise is None else promise.certified(end.w, task.mse)
    return task.pack(
        method,
        w,
        task.mse(w),
        end.status,
        lower=low,
        upper=high,
        solver="L-BFGS-B (scipy)",
        solver_status=end.message,
        gradient_norm=end.gradient_norm,
        details={**path.details(), **promised, **(details or {})},
        settings={} if rate is None else {"rate": rate},
    )
