"""GraphTRSS: gaps filled so that the change from one time to the next is smooth on the graph."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from nareg._core import checks
from nareg.baselines._masks import series
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.io import takes_tables
from nareg.typing import ArrayLike


@takes_tables("y", "observed", observed="observed")
def graph_trss(
    graph: Graph,
    y: ArrayLike,
    observed: ArrayLike | None = None,
    *,
    weight: float,
    epsilon: float,
    power: float = 1.0,
) -> np.ndarray:
    """Minimize ``||M * X - Y||^2 + weight * tr((X D)' (L + epsilon I)^power (X D))`` over all times together.

    Time-varying graph signal reconstruction via Sobolev smoothness. D takes differences of consecutive times, M is one where
    there is a reading. The method has no model of noise and no way to choose its two numbers: the publication chooses them
    by the true error.

    Parameters
    ----------
    graph : Graph
    y : (N, T) array
        At least two times; NaN where missing.
    observed : (N, T) or (N,) bool array, optional
        Default: where ``y`` is not NaN.
    weight : float
        Positive; upsilon in the publication.
    epsilon : float
        Positive; in the unit of the Laplacian.
    power : float
        Positive; beta in the publication, whose experiments use 1.

    Returns
    -------
    (N, T) float64 array
        A station without any reading gets the solution of smallest norm, whose mean over time is zero: conjugate gradients
        that start from zero, as the authors', end there.

    Raises
    ------
    TooLargeError
        If T matrices of size N x N do not fit.

    Notes
    -----
    The system is block tridiagonal in time. It is solved by block elimination, in ``O(T N^3)``; the authors run conjugate
    gradients to the same minimum. Source: Giraldo, Mahmood, Garcia-Garcia, Thanou and Bouwmans, "Reconstruction of
    Time-Varying Graph Signals via Sobolev Smoothness", IEEE Transactions on Signal and Information Processing over
    Networks 8 (2022).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> y = np.array([[1.0, 2.0, np.nan], [1.0, np.nan, 3.0]])
    >>> nareg.baselines.graph_trss(nareg.graphs.grid((2,)), y, weight=1e-6, epsilon=1e-3).round(1)
    array([[1., 2., 3.],
           [1., 2., 3.]])
    """
    if not isinstance(graph, Graph):
        raise InputError(f"graph is a {type(graph).__name__}: GraphTRSS needs the Laplacian of a nareg.Graph.")
    values = series(y, observed)
    n, T = values.shape
    if n != graph.n_nodes:
        raise InputError(f"y has {n} rows but the graph has {graph.n_nodes} nodes: rows are stations.")
    if T < 2:
        raise InputError("y has 1 time: GraphTRSS smooths changes in time and needs at least 2.")
    weight = checks.number("weight", weight, low=0, strict=True)
    epsilon = checks.number("epsilon", epsilon, low=0, strict=True)
    power = checks.number("power", power, low=0, strict=True)
    checks.memory("graph_trss", 8.0 * (T + 4) * n**2, alternative="use fewer times or a part of the network")
    seen = np.isfinite(values)
    if not seen.any():
        raise InputError("y has no reading: pass at least one.")
    L = graph.laplacian().toarray()
    S = weight * _power(L + epsilon * np.eye(n), power)
    silent = ~seen.any(axis=1)
    data = seen.astype(np.float64)
    # of a station without readings only differences are known: its first value is set to zero, its mean removed afterwards
    data[silent, 0] = 1.0
    X = _block_tridiagonal(data, S, np.where(seen, values, 0.0))
    X[silent] -= X[silent].mean(axis=1, keepdims=True)
    return X


def _power(matrix: np.ndarray, power: float) -> np.ndarray:
    if power == 1:
        return matrix
    eigenvalues, vectors = np.linalg.eigh(matrix)
    return (vectors * eigenvalues**power) @ vectors.T


def _block_tridiagonal(data: np.ndarray, S: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Solve ``data * X + S X (D D') = Y``: eliminate times forward, substitute backward."""
    n, T = Y.shape
    factors = []
    X = np.empty((n, T))
    carried, right = np.zeros((n, n)), np.zeros(n)
    for t in range(T):
        block = (1.0 if t in (0, T - 1) else 2.0) * S - carried
        block[np.diag_indices(n)] += data[:, t]
        factor = cho_factor(0.5 * (block + block.T), lower=True, check_finite=False)
        X[:, t] = Y[:, t] + right
        factors.append(factor)
        if t < T - 1:
            carried = S @ cho_solve(factor, S, check_finite=False)
            right = S @ cho_solve(factor, X[:, t], check_finite=False)
    for t in reversed(range(T)):
        X[:, t] = cho_solve(factors[t], X[:, t] + (S @ X[:, t + 1] if t < T - 1 else 0.0), check_finite=False)
    return X
