"""Where descents begin: the best single weight, and the inverse of the principal signal."""

from __future__ import annotations

import numpy as np

from nareg.design._risk.descent import descend_in_steps, feasible, minimize_scale, minimize_widely
from nareg.design._risk.problem import DesignProblem, extreme_frequencies
from nareg.design._risk.sampled import SampleColumns, SampledRisk

#: Largest and smallest single weight tried, times the one that weighs a node's data and its edges alike.
SINGLE_RANGE = (1e-8, 1e4)
#: Columns on which the single weight is chosen: its risk has one unknown, a few signals decide it.
SINGLE_COLUMNS = 32


def best_scalar(task: DesignProblem, low: np.ndarray, high: np.ndarray, largest: float = np.inf) -> tuple[np.ndarray, float]:
    """The single weight up to ``largest`` with the smallest risk, moved into the bounds node by node, and its risk."""
    first, last = extreme_frequencies(task.spectrum[0])
    typical = float(np.mean(task.c))
    ones = np.ones(task.n_nodes)
    span = np.sqrt(1e-4 * typical / last), np.sqrt(1e4 * typical / first)
    # where a node has no data term K tends to a singular matrix with the weight
    search = minimize_widely if (task.c > 0).all() else minimize_scale
    along = task.mse_along(ones)
    w = search(along, *span)[0]
    if w > largest:
        w = minimize_scale(along, 1e-3 * largest, largest)[0]
    weights = feasible(w * ones, low, high)
    return weights, task.mse(weights)


def inverse_signal(task: DesignProblem, high: np.ndarray) -> np.ndarray:
    """``w = s / u`` with u the principal direction of R: makes ``S u = 0``, the best scale s by the risk.

    For a single known signal on a connected graph this is a global minimizer of Prony's criterion.
    """
    u = np.linalg.eigh(task.R)[1][:, -1]
    size = np.maximum(np.abs(u), 1e-6 * np.abs(u).max())  # no division by zero
    direction = np.where(u < 0, -1.0, 1.0) * size.max() / size
    largest = float(np.sqrt(np.min(high / direction**2)))
    if largest == 0:
        return np.zeros_like(u)
    s, _ = minimize_scale(task.mse_along(direction), largest * 1e-6, largest)
    return s * direction


def best_single(
    risk: SampledRisk, columns: SampleColumns, low: np.ndarray, high: np.ndarray, largest: float = np.inf
) -> np.ndarray:
    """The single weight up to ``largest`` with the smallest risk, moved into the bounds node by node."""
    subset = columns.subset(SINGLE_COLUMNS)
    ones = np.ones(low.size)
    middle = min(balanced_weight(risk), largest)

    def value(log_w: float) -> float:
        return risk.value(feasible(np.exp(log_w) * ones, low, high), subset)

    first, last = np.log(np.minimum(middle * np.array(SINGLE_RANGE), largest))
    log_w = descend_in_steps(value, float(np.log(middle)), first, last, accuracy=0.01)
    risk.systems.forget()  # single weights beyond the best may have needed a factor that the design does not
    return feasible(np.exp(log_w) * ones, low, high)


def carried_single(risk: SampledRisk, columns: SampleColumns, low: np.ndarray, high: np.ndarray, scalar: float) -> np.ndarray:
    """An earlier single weight, or the best one where half or twice the earlier one is better."""
    subset = columns.subset(SINGLE_COLUMNS)
    near = [feasible(np.full(low.size, factor * scalar), low, high) for factor in (1.0, 0.5, 2.0)]
    values = [risk.value(w, subset) for w in near]
    return near[0] if scalar > 0 and values[0] <= min(values) else best_single(risk, columns, low, high)


def balanced_weight(risk: SampledRisk) -> float:
    """The weight that weighs a typical node's data and its edges alike."""
    return float(np.sqrt(risk.c.mean() / risk.L.diagonal().mean()))
