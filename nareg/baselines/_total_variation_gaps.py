"""Total variation with gaps: the alternating direction method of multipliers, with a duality gap that bounds the error.

Some minimizer lies between the smallest and the largest reading: clipping x to that range raises no term. Within these limits
every p with ``|p_e| <= t_e`` gives a lower bound, also where its divergence at unobserved nodes is not zero.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from nareg._solvers.factorization import Factor, factorize
from nareg.errors import SolverError

#: Iterations between two looks at the gap, and between two changes of the step.
CHECK = 10
ADAPT = 100
#: Over-relaxation (Boyd et al., Distributed optimization via ADMM, 2011, section 3.4.3).
RELAXATION = 1.6


def minimize(
    incidence: sp.csr_array, limit: np.ndarray, Y: np.ndarray, mask: np.ndarray, *, tol: float, max_iterations: int
) -> np.ndarray:
    """Minimize ``sum_mask (y - x)^2 + sum_e limit_e |B x|_e`` for every column of the readings ``Y`` (S, T)."""
    readings = np.zeros((mask.size, Y.shape[1]))
    readings[mask] = Y
    low, high = Y.min(axis=0), Y.max(axis=0)
    scale = np.sum((Y - Y.mean(axis=0)) ** 2, axis=0) + np.finfo(float).tiny
    transpose = sp.csr_array(incidence.T)
    spread = float((high - low).max())
    if spread == 0:  # constant readings are their own estimate
        return np.broadcast_to(low, readings.shape).copy()
    rho = 10 * float(limit.mean()) / spread
    factor = _factor(incidence, mask, rho)
    z = np.zeros((incidence.shape[0], Y.shape[1]))
    p = z.copy()
    for iteration in range(max_iterations):
        x = factor.solve(2 * mask[:, None] * readings + transpose @ (rho * z - p))
        difference = incidence @ x
        relaxed = RELAXATION * difference + (1 - RELAXATION) * z
        before = z
        free = p + rho * relaxed
        p = np.clip(free, -limit, limit)
        z = (free - p) / rho
        if iteration % CHECK == 0:
            X = np.clip(x, low, high)
            gap = _primal(incidence, limit, readings, mask, X) - _dual(transpose @ p, readings, mask, low, high)
            if (gap <= tol * scale).all():
                return X
        if iteration % ADAPT == ADAPT - 1:
            primal, dual = np.linalg.norm(difference - z), rho * np.linalg.norm(transpose @ (z - before))
            change = np.sqrt(primal * np.linalg.norm(p) / max(dual * np.linalg.norm(z), np.finfo(float).tiny))
            if not 1 / 3 < change < 3:
                rho *= float(np.clip(change, 0.1, 10.0))
                factor = _factor(incidence, mask, rho)
    raise SolverError(
        f"total_variation did not reach tol={tol:g} in {max_iterations} iterations "
        f"(relative gap {float((gap / scale).max()):.1e}): raise max_iterations or tol."
    )


def _factor(incidence: sp.csr_array, mask: np.ndarray, rho: float) -> Factor:
    system = sp.csr_array(sp.diags_array(2.0 * mask) + rho * (incidence.T @ incidence))
    factor = factorize(system)
    if factor is None:
        raise SolverError("the system of total_variation has no factor in float64: multiply the graph's weights by a constant.")
    return factor


def _primal(incidence: sp.csr_array, limit: np.ndarray, readings: np.ndarray, mask: np.ndarray, X: np.ndarray) -> np.ndarray:
    return np.sum((readings - X)[mask] ** 2, axis=0) + np.sum(limit * np.abs(incidence @ X), axis=0)


def _dual(q: np.ndarray, readings: np.ndarray, mask: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Minimum over ``low <= x <= high`` of ``sum_mask (y - x)^2 + q^T x``."""
    best = np.clip((readings - q / 2)[mask], low, high)
    seen = np.sum((readings[mask] - best) ** 2 + q[mask] * best, axis=0)
    rest = q[~mask]
    return seen + np.sum(np.minimum(rest * low, rest * high), axis=0)
