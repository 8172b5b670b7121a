"""Multigrid-preconditioned conjugate gradients on the diagonally dominant form of the system.

With ``u = w x`` the system is ``M u = c y / w``, ``M = diag(c / w^2) + L``: an M-matrix for which algebraic
multigrid was made. One V-cycle of M, scaled back by ``1 / w`` on both sides, preconditions CG on K. The stopping test stays on
K's own residual, because M's can be 50 times smaller.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import scipy.sparse as sp

from nareg._operator import FilterSystem
from nareg.errors import InputError
from nareg.filters import cg
from nareg.filters._iterate import Callback, Iterates


def refusal(system: FilterSystem) -> str | None:
    """Why multigrid cannot work on this system, or None."""
    if not system.sdd:
        return "method='multigrid' needs node weights on a graph Laplacian (a diagonally dominant form): use 'cg'."
    if not system.mesh_like:
        return (
            f"method='multigrid' would not end on this graph ({system.n_nodes} nodes, largest degree "
            f"{system.max_degree}, reached in a few steps: not mesh-like): use 'cg'."
        )
    return None


@contextmanager
def _fixed_seed() -> Iterator[None]:
    """Fix the start of spectral radii, which pyamg draws from NumPy's global random state; restore that state."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


def solve(
    system: FilterSystem,
    rhs: np.ndarray,
    *,
    tol: float,
    max_iterations: int = 500,
    callback: Callback | None = None,
    x0: np.ndarray | None = None,
) -> Iterates:
    """Solve ``K x = rhs``; nodes with ``w_i = 0`` decouple (``c_i x_i = rhs_i``) and are solved apart."""
    from pyamg import smoothed_aggregation_solver  # imported here: only this solver needs it

    reason = refusal(system)
    if reason is not None:
        raise InputError(reason)
    assert system.w is not None
    coupled = system.w != 0
    if not coupled.any():
        return cg.solve(system, rhs, tol=tol, max_iterations=max_iterations, callback=callback)  # K is diagonal
    inverse_w = 1.0 / system.w[coupled]
    L = system.penalty.L
    if not coupled.all():
        # dropping decoupled neighbors keeps their weight on the diagonal: still dominant
        L = sp.csr_array(L[coupled][:, coupled])
    M = sp.csr_matrix(sp.diags_array(system.c[coupled] * inverse_w**2) + L)
    with _fixed_seed():
        hierarchy = smoothed_aggregation_solver(M, max_coarse=500)
        v_cycle = hierarchy.aspreconditioner(cycle="V")
    # decoupled nodes: K is diagonal there
    decoupled_inverse = 1.0 / system.diagonal[~coupled]

    def precondition(residual: np.ndarray) -> np.ndarray:
        out = np.empty_like(residual)
        out[~coupled] = residual[~coupled] * decoupled_inverse[:, None]
        scaled = residual[coupled] * inverse_w[:, None]
        for t in range(residual.shape[1]):
            out[coupled, t] = inverse_w * (v_cycle @ np.ascontiguousarray(scaled[:, t]))
        return out

    result = cg.solve(system, rhs, tol=tol, max_iterations=max_iterations, callback=callback, x0=x0, precondition=precondition)
    result.note = f"{len(hierarchy.levels)} levels, operator complexity {hierarchy.operator_complexity():.2f}"
    return result
