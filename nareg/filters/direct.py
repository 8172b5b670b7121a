"""Sparse factorisation: CHOLMOD if scikit-sparse is installed, else SuperLU in symmetric mode."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from nareg.errors import TooLargeError
from nareg.filters._iterate import Iterates
from nareg.filters._system import FilterSystem
from nareg.results import Status

#: Up to here even a completely filled factor fits (1.6 GB at 20,000 nodes).
WORST_CASE_NODES = 20_000
#: A two- or three-dimensional mesh of this size fills about 10 GB.
MESH_NODES = 2_000_000


def refusal(system: FilterSystem) -> str | None:
    """Why a factorisation might not fit, or None."""
    n = system.n_nodes
    if n <= WORST_CASE_NODES or (n <= MESH_NODES and system.mesh_like):
        return None
    return (
        f"method='direct' could fill {n**2 / 2 * 8 / 2**30:.0f} GiB on this graph ({n} nodes"
        + ("" if system.mesh_like else ", not mesh-like")
        + "): use method='cg'."
    )


def solve(system: FilterSystem, rhs: np.ndarray) -> Iterates:
    """Solve ``K x = rhs`` for (N, T) ``rhs`` with one factorisation and one step of refinement."""
    reason = refusal(system)
    if reason is not None:
        raise TooLargeError(reason)
    K = sp.csc_matrix(system.K)
    if (system.diagonal <= 0).any():
        return Iterates(np.zeros_like(rhs), 0, [1.0], Status.INDEFINITE)
    try:
        from sksparse.cholmod import CholmodNotPositiveDefiniteError, cholesky
    except ImportError:
        note = "SuperLU"
        try:
            # symmetric ordering and no pivoting: K is positive definite
            lu = splu(K, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        except RuntimeError:  # SuperLU's word for an exactly singular factor
            return Iterates(np.zeros_like(rhs), 0, [1.0], Status.INDEFINITE)
        # positive pivots without row exchanges are those of a Cholesky factor
        if (lu.U.diagonal() <= 0).any() or not np.array_equal(lu.perm_r, lu.perm_c):
            return Iterates(np.zeros_like(rhs), 0, [1.0], Status.INDEFINITE)
        apply_inverse = lu.solve
    else:
        note = "CHOLMOD"
        try:
            apply_inverse = cholesky(K)
        except CholmodNotPositiveDefiniteError:
            return Iterates(np.zeros_like(rhs), 0, [1.0], Status.INDEFINITE)
    x = apply_inverse(rhs)
    x += apply_inverse(rhs - K @ x)
    # a stable factorisation leaves a residual of rounding size against ||K|| ||x||, whatever the condition number
    left = np.linalg.norm(rhs - K @ x, axis=0)
    size = abs(K).sum(axis=1).max() * np.linalg.norm(x, axis=0) + np.linalg.norm(rhs, axis=0)
    backward = float(np.max(left / np.where(size > 0, size, 1.0), initial=0.0))
    status = Status.CONVERGED if backward < 1e-12 else Status.STALLED
    return Iterates(x, 0, [float(system.residuals(x, rhs)[0].max(initial=0.0))], status, note=note)
