"""Graph total variation: keeps jumps that quadratic smoothing blurs."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._solvers.factorization import Factor, factorize
from nareg.baselines._masks import per_mask, refuse_silent_part
from nareg.errors import InputError, SolverError
from nareg.graph import Graph
from nareg.io import takes_tables
from nareg.typing import ArrayLike


@takes_tables("y", "observed", observed="observed")
def total_variation(
    graph: Graph,
    y: ArrayLike,
    *,
    weight: float,
    observed: ArrayLike | None = None,
    tol: float = 1e-6,
    max_iterations: int = 20_000,
) -> np.ndarray:
    """Minimize ``||y - x||^2 + weight * sum_edges A_ij |x_i - x_j|`` for every signal, over the observed nodes.

    Accelerated projected gradient on the dual, one bounded number per edge; with gaps, alternating directions with one sparse
    factor per mask. Both stop when the duality gap, which bounds the distance to the optimal value, is below ``tol`` times
    ``||y - mean(y)||^2``.

    Parameters
    ----------
    graph : Graph
    y : (N,) or (N, T) array
        Any value, NaN included, where not observed.
    weight : float
        Strength, in the unit of the signal. Above 0 where nodes are not observed.
    observed : bool array, (N,) or the shape of y, optional
        True where a reading was taken. Default: everywhere. The estimate at other nodes need not be unique.
    tol : float
        Relative duality gap.
    max_iterations : int

    Returns
    -------
    array like y

    Raises
    ------
    SingularSystemError
        If a connected part of the graph has no observed node.
    SolverError
        If the gap is not reached.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> y = np.array([0.1, -0.1, 5.1, 4.9])
    >>> nareg.baselines.total_variation(nareg.graphs.grid((4,)), y, weight=0.5).round(1)
    array([0.1, 0.1, 4.9, 4.9])
    >>> seen = np.array([True, True, False, True])
    >>> nareg.baselines.total_variation(nareg.graphs.grid((4,)), y, weight=0.5, observed=seen)[:2].round(3)
    array([0.125, 0.125])
    """
    if not isinstance(graph, Graph):
        raise InputError(f"graph is a {type(graph).__name__}: total variation needs the edges of a nareg.Graph.")
    weight = checks.number("weight", weight, low=0)
    tol = checks.number("tol", tol, low=0, strict=True)
    max_iterations = checks.integer("max_iterations", max_iterations, low=1)
    if observed is not None:
        return _with_gaps(graph, y, observed, weight, tol, max_iterations)
    readings = checks.signals("y", y, graph.n_nodes)
    Y = readings.reshape(graph.n_nodes, -1).astype(np.float64)
    if graph.n_edges == 0 or weight == 0:
        return readings.copy()
    incidence, strength = _incidence(graph)
    m = strength.size
    # with x = y - B^T p / 2 the dual is max over |p_e| <= weight A_e of p^T B y - ||B^T p||^2 / 4
    limit = (weight * strength)[:, None]
    step = 2.0 / (2.0 * float(np.diff(graph.adjacency.indptr).max()))  # ||B||^2 is at most twice the largest count
    transpose = sp.csr_array(incidence.T)
    p = np.zeros((m, Y.shape[1]))
    z, t = p.copy(), 1.0
    scale = np.sum((Y - Y.mean(axis=0)) ** 2, axis=0) + np.finfo(float).tiny
    for iteration in range(max_iterations):
        new = np.clip(z + step * (incidence @ (Y - transpose @ z / 2)), -limit, limit)
        t_new = (1 + np.sqrt(1 + 4 * t * t)) / 2
        z = new + (t - 1) / t_new * (new - p)
        p, t = new, t_new
        if iteration % 10 == 0:
            X = Y - transpose @ p / 2
            difference = incidence @ X
            gap = np.sum(limit * np.abs(difference) - p * difference, axis=0)
            if (gap <= tol * scale).all():
                return X.reshape(readings.shape).astype(readings.dtype)
    raise SolverError(
        f"total_variation did not reach tol={tol:g} in {max_iterations} iterations "
        f"(relative gap {float((gap / scale).max()):.1e}): raise max_iterations or tol."
    )


def _incidence(graph: Graph) -> tuple[sp.csr_array, np.ndarray]:
    """``B`` (M, N) with ``(B x)_e = x_i - x_j``, and the weights of the edges."""
    edges = sp.triu(graph.adjacency, 1).tocoo()
    m = edges.nnz
    i, j = edges.coords
    entries, rows = np.r_[np.ones(m), -np.ones(m)], np.r_[np.arange(m), np.arange(m)]
    return sp.csr_array((entries, (rows, np.r_[i, j])), shape=(m, graph.n_nodes)), edges.data


def _with_gaps(graph: Graph, y: ArrayLike, observed: ArrayLike, weight: float, tol: float, max_iterations: int) -> np.ndarray:
    incidence, strength = _incidence(graph)

    def estimate(readings: np.ndarray, mask: np.ndarray) -> np.ndarray:
        refuse_silent_part(graph, mask)
        if mask.all():
            return total_variation(graph, readings, weight=weight, tol=tol, max_iterations=max_iterations)
        if weight == 0:
            raise InputError("weight is 0 but some nodes are not observed: pass a weight above 0.")
        limit = (weight * strength)[:, None]
        return _minimize_with_gaps(incidence, limit, readings, mask, tol=tol, max_iterations=max_iterations)

    return per_mask(y, observed, graph.n_nodes, estimate)


#: Iterations between two looks at the gap, and between two changes of the step.
CHECK = 10
ADAPT = 100
#: Over-relaxation (Boyd et al., Distributed optimization via ADMM, 2011, section 3.4.3).
RELAXATION = 1.6


def _minimize_with_gaps(
    incidence: sp.csr_array, limit: np.ndarray, Y: np.ndarray, mask: np.ndarray, *, tol: float, max_iterations: int
) -> np.ndarray:
    """Minimize ``sum_mask (y - x)^2 + sum_e limit_e |B x|_e`` for every column of the readings ``Y`` (S, T).

    By the alternating direction method of multipliers. Some minimizer lies between the smallest and the largest reading:
    clipping x to that range raises no term. Within these limits every p with ``|p_e| <= t_e`` gives a lower bound, also
    where its divergence at unobserved nodes is not zero.
    """
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
