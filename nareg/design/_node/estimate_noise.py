"""Estimate each station's noise variance from noisy readings alone.

What a smoother or the neighbors leave of a reading is a known combination of the noise variances. With gaps it is another
one for each pattern of gaps, and the equations of one station are averaged over its readings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import nnls
from scipy.sparse.linalg import lsmr

from nareg._core import checks
from nareg._core.arrays import MAD_TO_STD
from nareg._solvers.system import Penalty, penalty
from nareg.design._node.gap_patterns import Pattern, kron_reduction, patterns, station_levels
from nareg.design._node.node_invariant import node_invariant
from nareg.errors import InputError, SolverError
from nareg.io import takes_tables
from nareg.typing import ArrayLike, GraphLike

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
    if method is not None:
        checks.choice("method", method, ("gcv", "differences"))
    gaps = seen is not None
    seen = np.ones(Y.shape, dtype=bool) if seen is None else seen
    known, largest = seen.sum(axis=1) > 1, float(np.abs(Y).max())
    if not known.any():
        what = "observed leaves no station with two readings" if gaps else "measurements has one column"
        raise InputError(f"{what}: the noise of a station shows only over several readings, T >= 2.")
    if not base.L.nnz:
        raise InputError("graph has no edges: noise cannot be told from signal without neighbors.")
    seen = seen & known[:, None]
    Y = np.where(seen, Y - station_levels(Y, seen)[:, None], 0.0)
    if not np.abs(Y).max() > (1e-12 if gaps else 1e-14) * largest:  # means, and more so the fit of levels, leave rounding
        raise InputError("measurements do not vary over time: their noise cannot be seen.")
    if method is None:
        small = n <= checks.DENSE_LIMIT and np.unique(np.packbits(seen, axis=0), axis=1).shape[1] * float(n) ** 3 <= WORK
        method = "gcv" if small else "differences"
    if method == "gcv":
        checks.dense_size("method='gcv'", n, copies=3, alternative="use method='differences', whose equations are sparse")
        A, b, weighed = _residual_equations(base, Y, seen)
        variance = nnls(A, b)[0]
    else:
        A, b, weighed = _difference_equations(base.L, Y, seen) if gaps else _differences(base.L, Y)
        variance = _nonnegative_least_squares(A, b)
    if not weighed.any():
        raise InputError("observed has no two neighbors that read together: noise cannot be told from signal.")
    # none below a share of the median, and the median where nothing is known
    median = float(np.median(variance[weighed]))
    return np.where(weighed, np.maximum(variance, FLOOR * median), median)


def _differences(L: sp.csr_array, Y: np.ndarray) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
    """Equations of :func:`_difference_equations` where all stations read at all times, for any operator."""
    D = L.diagonal()
    scale = np.divide(1.0, D, out=np.zeros_like(D), where=D > 0)
    predictor = sp.csr_array(sp.diags_array(scale) @ L)
    difference = predictor @ Y
    spread = (MAD_TO_STD * np.median(np.abs(difference - np.median(difference, axis=1, keepdims=True)), axis=1)) ** 2
    return sp.csr_array(predictor.multiply(predictor)), spread, D > 0


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


Equations = tuple[np.ndarray, np.ndarray, np.ndarray]
#: A common level of all stations leaves no residual: what this share of a diagonal adds decides for none.
RIDGE = 1e-9
#: Numbers held at once while differences are averaged over times.
BLOCK = 2**23


def _residual_equations(base: Penalty, Y: np.ndarray, seen: np.ndarray) -> Equations:
    """``E r_i^2 = sum_j (I - H)_ij^2 sigma_j^2`` for the residuals r of one weight by cross-validation.

    Returns the matrix, the right-hand side, and which stations have an equation of their own. Readings are centered.
    """
    n = base.n_nodes
    L, parts = base.L.toarray(), list(patterns(seen))
    if len(parts) > 1:
        Y = _leveled(base, L, Y, seen, parts)
    A, b, count = np.zeros((n, n)), np.zeros(n), seen.sum(axis=1)
    for pattern, predictor in _predictors(base, L, Y, seen, parts):
        A[np.ix_(pattern.seen, pattern.seen)] += pattern.columns.size * predictor**2
        b[pattern.seen] += np.sum((predictor @ Y[np.ix_(pattern.seen, pattern.columns)]) ** 2, axis=1)
    used = count > 1
    A[used] /= count[used, None]
    # the mean of a station's own readings took a degree of freedom
    b[used] /= count[used] - 1
    weighed = used & (np.diag(A) > 1e-12)
    return np.where(weighed[:, None], A, 0.0), np.where(weighed, b, 0.0), weighed


def _leveled(base: Penalty, L: np.ndarray, Y: np.ndarray, seen: np.ndarray, parts: list[Pattern]) -> np.ndarray:
    """Readings less levels that leave the smallest residuals: means of different times differ where stations do not."""
    n = base.n_nodes
    squares, pull = np.zeros((n, n)), np.zeros(n)
    for pattern, predictor in _predictors(base, L, Y, seen, parts):
        own = np.ix_(pattern.seen, pattern.columns)
        twice = predictor @ predictor
        squares[np.ix_(pattern.seen, pattern.seen)] += pattern.columns.size * twice
        pull[pattern.seen] += twice @ Y[own].sum(axis=1)
    squares[np.diag_indices(n)] += RIDGE * np.trace(squares) / n
    return np.where(seen, Y - cho_solve(cho_factor(squares), pull)[:, None], 0.0)


def _predictors(
    base: Penalty, L: np.ndarray, Y: np.ndarray, seen: np.ndarray, parts: list[Pattern]
) -> Iterator[tuple[Pattern, np.ndarray]]:
    """``I - H`` of each pattern, with the weight that generalized cross-validation picks."""
    strength = node_invariant(base, rule="gcv", measurements=Y, observed=seen).certificate.details["strength"]
    for pattern in parts:
        reduced, _ = kron_reduction(L, pattern.seen)
        identity = np.eye(len(reduced))
        yield pattern, identity - np.linalg.inv(identity + strength * reduced)


def _difference_equations(L: sp.csr_array, Y: np.ndarray, seen: np.ndarray) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
    """The same for each station's difference to the weighted mean of the neighbors that read at the same time."""
    n = L.shape[0]
    off = sp.csr_array(sp.diags_array(L.diagonal()) - L)
    off.eliminate_zeros()
    if off.nnz and off.data.min() < 0:
        raise InputError("graph is an operator with positive entries off its diagonal: use method='gcv' with gaps.")
    near = off @ seen
    used = seen & (near > 0)
    scale = np.divide(1.0, near, out=np.zeros_like(near, dtype=float), where=used)
    difference = np.where(used, Y - scale * (off @ np.where(seen, Y, 0.0)), np.nan)
    weighed = used.sum(axis=1) > 1
    spread = np.zeros(n)
    middle = np.nanmedian(difference[weighed], axis=1, keepdims=True)
    spread[weighed] = (MAD_TO_STD * np.nanmedian(np.abs(difference[weighed] - middle), axis=1)) ** 2
    # mean over a station's times of the squared share of each neighbor
    rows = np.repeat(np.arange(n), np.diff(off.indptr))
    share, squared, present = np.empty(off.nnz), scale**2, seen.astype(float)
    step = max(1, BLOCK // max(seen.shape[1], 1))
    for first in range(0, off.nnz, step):
        part = slice(first, first + step)
        share[part] = np.einsum("et,et->e", squared[rows[part]], present[off.indices[part]])
    times = np.maximum(used.sum(axis=1), 1)
    coefficients = sp.csr_array((off.data**2 * share / times[rows], off.indices, off.indptr), shape=L.shape)
    selection = sp.diags_array(weighed.astype(float))
    return sp.csr_array(selection @ (coefficients + sp.eye_array(n))), np.where(weighed, spread, 0.0), weighed
