"""Least squares on the smoothest graph frequencies."""

from __future__ import annotations

import numpy as np

from nareg._core import checks
from nareg._solvers.eigenvalues import smallest_eigenvectors
from nareg._solvers.system import penalty
from nareg.baselines._masks import per_mask
from nareg.errors import InputError
from nareg.typing import ArrayLike, GraphLike


def bandlimited(graph: GraphLike, y: ArrayLike, *, n_frequencies: int, observed: ArrayLike | None = None) -> np.ndarray:
    """Project the readings on the first eigenvectors of the Laplacian (least squares where observed).

    Parameters
    ----------
    graph : Graph or (N, N) operator
    y : (N,) or (N, T) array
    n_frequencies : int
        Number of graph frequencies, from the smoothest.
    observed : bool array, optional

    Returns
    -------
    array like y

    Raises
    ------
    InputError
        If the observed nodes do not determine the coefficients.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> nareg.baselines.bandlimited(nareg.graphs.grid((3,)), np.array([1.0, 0.0, 2.0]), n_frequencies=1)
    array([1., 1., 1.])
    """
    base = penalty(graph)
    n = base.n_nodes
    k = checks.integer("n_frequencies", n_frequencies, low=1)
    if k > n:
        raise InputError(f"n_frequencies is {k} but the graph has {n} nodes: choose at most {n}.")
    vectors = smallest_eigenvectors(base.L, k, dense=checks.DENSE_LIMIT)[1]

    def estimate(readings: np.ndarray, mask: np.ndarray) -> np.ndarray:
        coefficients, _, rank, _ = np.linalg.lstsq(vectors[mask], readings, rcond=1e-10)
        if rank < k:
            raise InputError(
                f"observed has {int(mask.sum())} nodes, which do not determine {k} frequencies: lower n_frequencies."
            )
        return vectors @ coefficients

    return per_mask(y, observed, n, estimate)
