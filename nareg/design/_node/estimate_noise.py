"""Estimate each station's noise variance from noisy readings alone."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls
from scipy.sparse.linalg import lsmr

from nareg._core import checks
from nareg._operator import Penalty, penalty
from nareg.design._node import estimate_noise_gaps
from nareg.design._node.gap_patterns import station_levels
from nareg.design._node.node_invariant import node_invariant
from nareg.errors import InputError, SolverError
from nareg.io._labeled import takes_tables
from nareg.typing import ArrayLike, GraphLike

#: Consistency factor: the median absolute deviation of a normal variable is 0.6745 standard deviations.
MAD_TO_STD = 1.4826
#: Smallest variance returned, as a share of the median over nodes.
FLOOR = 0.05
#: Sparse least squares: exchanges of many variables that need not help, all exchanges, and the tolerance of each solve.
BLOCK_EXCHANGES, EXCHANGES, LSMR_TOL = 3, 500, 1e-13
#: Patterns of gaps times N^3 up to which "gcv" is the default: some ten seconds.
WORK = 5e10
#: A sign condition is broken by more than this share of the largest entry of b.
ROUNDING = 1e-11


@takes_tables("measurements", "observed", observed="observed")
def estimate_noise(
    graph: GraphLike,
    measurements: ArrayLike,
    *,
    method: Literal["gcv", "differences"] | None = None,
    observed: ArrayLike | None = None,
) -> np.ndarray:
    """Noise variance of every node from (N, T) noisy readings.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    measurements : (N, T) array
        Noisy readings, T >= 2 (the more the better; a few dozen give usable values per station).
    method : {"gcv", "differences"}, optional
        Default: ``"gcv"`` up to 3,000 nodes, beyond ``"differences"``. ``"gcv"`` smooths with the single weight
        that generalized cross-validation picks and solves ``E r_i^2 = sum_j (I - H)_ij^2 sigma_j^2`` for the
        variances, r the residual, by non-negative least squares, with dense matrices. ``"differences"`` does the
        same with each node's difference to the weighted mean of its neighbors and a robust spread (median
        absolute deviation), which a few spikes do not disturb; its equations are sparse. With gaps the neighbors are
        those that read at the same time; ``"gcv"`` then inverts a matrix per pattern of gaps, and the default is
        ``"differences"`` where that takes long.
    observed : bool array, (N,) or the shape of measurements, optional
        True where a reading was taken; measurements may hold anything elsewhere. Default: everywhere.

    Returns
    -------
    (N,) array of variances, in the squared unit of the readings

    Notes
    -----
    Whatever the smoother or the neighbors cannot predict counts as noise: where the signal itself varies
    from node to node, variances come out too high. Each node's mean over time is removed first, because a
    constant offset between neighbors is signal. No variance is put below a twentieth of the median: least
    squares cannot tell how good such a station is, and an estimate near zero would be trusted blindly. A node
    without neighbors gets the median, and so does one with fewer than two readings.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> rng = np.random.default_rng(0)
    >>> g = nareg.graphs.grid((6, 6))
    >>> sigma = np.where(np.arange(36) < 18, 0.5, 2.0)
    >>> y = 20 * rng.standard_normal(200) + sigma[:, None] * rng.standard_normal((36, 200))
    >>> v = nareg.design.estimate_noise(g, y)
    >>> bool(np.abs(np.sqrt(v[:18]).mean() - 0.5) < 0.1), bool(np.abs(np.sqrt(v[18:]).mean() - 2) < 0.1)
    (True, True)
    """
    base = penalty(graph)
    n = base.n_nodes
    Y, seen = checks.measurements(measurements, observed, n)
    if seen is not None:
        return with_gaps(base, Y, seen, method)
    if method is None:
        method = "gcv" if n <= checks.DENSE_LIMIT else "differences"
    checks.choice("method", method, ("gcv", "differences"))
    if method == "gcv":
        checks.dense_size("method='gcv'", n, copies=3, alternative="use method='differences', whose equations are sparse")
    if Y.shape[1] < 2:
        raise InputError("measurements has one column: the noise of a station shows only over several readings, T >= 2.")
    if not base.L.nnz:
        raise InputError("graph has no edges: noise cannot be told from signal without neighbors.")
    Y = Y - Y.mean(axis=1, keepdims=True)
    if not Y.any():
        raise InputError("measurements do not vary over time: their noise cannot be seen.")
    variance = _from_differences(base.L, Y) if method == "differences" else _from_residuals(base, Y)
    joined = base.L.diagonal() > 0
    return floored(variance, joined)


def floored(variance: np.ndarray, known: np.ndarray) -> np.ndarray:
    """No variance below a share of the median, and the median where nothing is known."""
    median = float(np.median(variance[known]))
    return np.where(known, np.maximum(variance, FLOOR * median), median)


def with_gaps(base: Penalty, Y: np.ndarray, seen: np.ndarray, method: str | None) -> np.ndarray:
    """The same from readings with gaps."""
    n = base.n_nodes
    count = seen.sum(axis=1)
    known, largest = count > 1, float(np.abs(Y).max())
    if not known.any():
        raise InputError("observed leaves no station with two readings: noise shows only over several, T >= 2.")
    seen = seen & known[:, None]
    Y = np.where(seen, Y - station_levels(Y, seen)[:, None], 0.0)
    if not np.abs(Y).max() > 1e-12 * largest:  # the fit of the levels leaves rounding
        raise InputError("measurements do not vary over time: their noise cannot be seen.")
    if not base.L.nnz:
        raise InputError("graph has no edges: noise cannot be told from signal without neighbors.")
    if method is None:
        small = n <= checks.DENSE_LIMIT and np.unique(np.packbits(seen, axis=0), axis=1).shape[1] * float(n) ** 3 <= WORK
        method = "gcv" if small else "differences"
    checks.choice("method", method, ("gcv", "differences"))
    if method == "gcv":
        checks.dense_size("method='gcv'", n, copies=3, alternative="use method='differences', whose equations are sparse")
        A, b, weighed = estimate_noise_gaps.from_residuals(base, Y, seen)
        variance = nnls(A, b)[0]
    else:
        A, b, weighed = estimate_noise_gaps.from_differences(base.L, Y, seen, MAD_TO_STD)
        variance = _nonnegative_least_squares(A, b)
    if not weighed.any():
        raise InputError("observed has no two neighbors that read together: noise cannot be told from signal.")
    return floored(variance, weighed)


def _from_differences(L: sp.csr_array, Y: np.ndarray) -> np.ndarray:
    """Variances that explain how far each node is from the mean of its neighbors."""
    D = L.diagonal()
    scale = np.divide(1.0, D, out=np.zeros_like(D), where=D > 0)
    predictor = sp.csr_array(sp.diags_array(scale) @ L)
    difference = predictor @ Y
    observed = (MAD_TO_STD * np.median(np.abs(difference - np.median(difference, axis=1, keepdims=True)), axis=1)) ** 2
    return _nonnegative_least_squares(sp.csr_array(predictor.multiply(predictor)), observed)


def _from_residuals(base: Penalty, Y: np.ndarray) -> np.ndarray:
    """Variances that explain the residuals of the smoother that generalized cross-validation picks."""
    n = base.n_nodes
    strength = node_invariant(base, rule="gcv", measurements=Y).certificate.details["strength"]
    predictor = np.eye(n) - np.linalg.inv(np.eye(n) + strength * base.L.toarray())
    observed = np.mean((predictor @ Y) ** 2, axis=1) / (1 - 1 / Y.shape[1])
    variance: np.ndarray = nnls(predictor**2, observed)[0]
    return variance


def _nonnegative_least_squares(A: sp.csr_array, b: np.ndarray) -> np.ndarray:
    """Minimize ``||A x - b||`` over ``x >= 0``, by block principal pivoting.

    All variables that break a sign condition change sides at once (bound at zero, or free); when that stops
    reducing their number, only the last of them does, which cannot cycle (Portugal, Judice and Vicente 1994).
    """
    columns = sp.csc_array(A)
    free = np.ones(A.shape[1], dtype=bool)
    x, fewest, patience = np.zeros(A.shape[1]), A.shape[1] + 1, BLOCK_EXCHANGES
    small = ROUNDING * float(np.abs(b).max(initial=0.0))
    for _ in range(EXCHANGES):
        x[:] = 0.0
        if free.any():
            x[free] = lsmr(columns[:, free], b, atol=LSMR_TOL, btol=LSMR_TOL, conlim=0.0, maxiter=10_000)[0]
        slope = A.T @ (A @ x - b)
        broken = np.where(free, x < -small, slope < -small)
        count = int(broken.sum())
        if not count:
            return np.maximum(x, 0.0)
        if count < fewest:
            fewest, patience = count, BLOCK_EXCHANGES
        elif patience:
            patience -= 1
        else:
            last = int(np.flatnonzero(broken)[-1])
            broken = np.arange(free.size) == last
        free = free ^ broken
    raise SolverError(
        "estimate_noise: the least squares for the variances did not converge; use method='gcv' on a part of the network."
    )
