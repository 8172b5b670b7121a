"""Sparse factors of symmetric positive definite matrices: CHOLMOD if scikit-sparse is installed, else SuperLU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import SuperLU, splu

#: Right-hand sides (N,) or (N, T) to solutions.
Solve = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Factor:
    """``K^-1`` as a function, and the library that made the factor."""

    solve: Solve
    library: str


def factorize(K: sp.csr_array | sp.csc_array, *, definite: bool = True) -> Factor | None:
    """Factor of a symmetric ``K``; None where a pivot is not positive in float64, or K is exactly singular.

    ``definite=False`` skips the test of the pivots, which copies the factor: for a preconditioner, or a K that is known
    to be positive definite.
    """
    try:
        from sksparse.cholmod import CholmodNotPositiveDefiniteError, cholesky
    except ImportError:
        lu = superlu(K)
        return None if lu is None or (definite and not is_cholesky(lu)) else Factor(lu.solve, "SuperLU")
    try:
        return Factor(cholesky(sp.csc_matrix(K)), "CHOLMOD")
    except CholmodNotPositiveDefiniteError:
        return None


def superlu(K: sp.csr_array | sp.csc_array, *, natural: bool = False) -> SuperLU | None:
    """SuperLU's factor without pivoting, in minimum-degree or the given order; None where K is exactly singular."""
    order = "NATURAL" if natural else "MMD_AT_PLUS_A"
    try:
        return splu(sp.csc_matrix(K), permc_spec=order, diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:  # SuperLU's word for an exactly singular factor
        return None


def fill_order(matrix: sp.csr_array | sp.csc_array | sp.csc_matrix) -> np.ndarray:
    """The minimum-degree order in which SuperLU eliminates a symmetric pattern."""
    pattern = sp.csc_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
    degrees = np.asarray(pattern.sum(axis=1)).ravel()
    filled = superlu(sp.csc_array(sp.diags_array(2 * degrees + 1.0) - pattern))
    assert filled is not None  # strictly diagonally dominant
    return np.argsort(filled.perm_c)


def is_cholesky(lu: SuperLU) -> bool:
    """Whether K is positive definite: positive pivots without row exchanges are those of a Cholesky factor."""
    return bool((lu.U.diagonal() > 0).all() and np.array_equal(lu.perm_r, lu.perm_c))
