"""Where descents begin: the best single weight, and the inverse of the principal signal."""

from __future__ import annotations

import numpy as np

from nareg.design._risk.descent import feasible
from nareg.design._risk.problem import Problem, extreme_frequencies, minimize_scale, minimize_widely


def best_scalar(task: Problem, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, float]:
    """The single weight with the smallest risk, moved into the bounds node by node, and the risk of that."""
    first, last = extreme_frequencies(task.spectrum[0])
    typical = float(np.mean(task.c))
    ones = np.ones(task.n_nodes)
    span = np.sqrt(1e-4 * typical / last), np.sqrt(1e4 * typical / first)
    # where a node has no data term K tends to a singular matrix with the weight
    search = minimize_widely if (task.c > 0).all() else minimize_scale
    w = search(task.mse_along(ones), *span)[0]
    found = feasible(w * ones, low, high)
    return found, task.mse(found)


def inverse_signal(task: Problem, high: np.ndarray) -> np.ndarray:
    """``w = s / u`` with u the principal direction of R: makes ``S u = 0``, the best scale s by the risk.

    For a single known signal on a connected graph this is a global minimizer of Prony's criterion.
    """
    u = np.linalg.eigh(task.R)[1][:, -1]
    size = np.maximum(np.abs(u), 1e-6 * np.abs(u).max())  # no division by zero
    direction = np.where(u < 0, -1.0, 1.0) * size.max() / size
    most = float(np.sqrt(np.min(high / direction**2)))
    if most == 0:
        return np.zeros_like(u)
    s, _ = minimize_scale(task.mse_along(direction), most * 1e-6, most)
    return s * direction
