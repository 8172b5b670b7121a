"""The equations for each station's noise variance, from readings with gaps.

As without gaps, what a smoother or the neighbors leave of a reading is a known combination of the noise variances; here
the combination is another one for each pattern of gaps, and the equations of one station are averaged over its readings.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from nareg._operator import Penalty
from nareg.design._node.gap_patterns import Pattern, kron_reduction, patterns
from nareg.design._node.node_invariant import node_invariant
from nareg.errors import InputError

Equations = tuple[np.ndarray, np.ndarray, np.ndarray]
#: A common level of all stations leaves no residual: what this share of a diagonal adds decides for none.
RIDGE = 1e-9
#: Numbers held at once while differences are averaged over times.
BLOCK = 2**23


def from_residuals(base: Penalty, Y: np.ndarray, seen: np.ndarray) -> Equations:
    """``E r_i^2 = sum_j (I - H)_ij^2 sigma_j^2`` for the residuals r of one weight by cross-validation.

    Returns the matrix, the right-hand side, and which stations have an equation of their own. Readings are centered.
    """
    n = base.n_nodes
    L, parts = base.L.toarray(), list(patterns(seen))
    # stations read at different times, so that their means differ where they do not: levels that leave the smallest
    # residuals take the place of means
    squares, pull = np.zeros((n, n)), np.zeros(n)
    for pattern, predictor in _predictors(base, L, Y, seen, parts):
        own = np.ix_(pattern.seen, pattern.columns)
        twice = predictor @ predictor
        squares[np.ix_(pattern.seen, pattern.seen)] += pattern.columns.size * twice
        pull[pattern.seen] += twice @ Y[own].sum(axis=1)
    squares[np.diag_indices(n)] += RIDGE * np.trace(squares) / n
    Y = np.where(seen, Y - cho_solve(cho_factor(squares), pull)[:, None], 0.0)
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


def _predictors(
    base: Penalty, L: np.ndarray, Y: np.ndarray, seen: np.ndarray, parts: list[Pattern]
) -> Iterator[tuple[Pattern, np.ndarray]]:
    """``I - H`` of each pattern, with the weight that generalized cross-validation picks."""
    strength = node_invariant(base, rule="gcv", measurements=Y, observed=seen).certificate.details["strength"]
    for pattern in parts:
        reduced, _ = kron_reduction(L, pattern.seen)
        identity = np.eye(len(reduced))
        yield pattern, identity - np.linalg.inv(identity + strength * reduced)


def from_differences(
    L: sp.csr_array, Y: np.ndarray, seen: np.ndarray, mad_to_std: float
) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
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
    spread[weighed] = (mad_to_std * np.nanmedian(np.abs(difference[weighed] - middle), axis=1)) ** 2
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
