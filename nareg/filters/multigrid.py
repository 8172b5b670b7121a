"""Multigrid-preconditioned conjugate gradients on the diagonally dominant form of the system.

With ``u = w x`` the system is ``M u = c y / w``, ``M = diag(c / w^2) + L``: an M-matrix for which algebraic
multigrid was made. One V-cycle of M, scaled back by ``1 / w`` on both sides, preconditions CG on K. The stopping test stays on
K's own residual, because M's can be 50 times smaller.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from nareg._operator import FilterSystem
from nareg.errors import InputError
from nareg.filters import cg
from nareg.filters._iterate import Callback, Iterates

if TYPE_CHECKING:
    from pyamg.multilevel import MultilevelSolver
    from scipy.sparse.linalg import LinearOperator


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


class Hierarchy:
    """A system and its levels, which are made at the first solve and kept.

    Nodes with ``w_i = 0`` decouple (``c_i x_i = rhs_i``) and are solved apart.
    """

    def __init__(self, system: FilterSystem) -> None:
        reason = refusal(system)
        if reason is not None:
            raise InputError(reason)
        assert system.w is not None
        self.system = system
        self.coupled = system.w != 0
        self.inverse_w = 1.0 / system.w[self.coupled]
        # decoupled nodes: K is diagonal there
        self.decoupled_inverse = 1.0 / system.diagonal[~self.coupled]

    @cached_property
    def levels(self) -> MultilevelSolver:
        """Of ``M`` on the coupled nodes."""
        from pyamg import smoothed_aggregation_solver  # imported here: only this solver needs it

        L, coupled = self.system.penalty.L, self.coupled
        if not coupled.all():
            # dropping decoupled neighbors keeps their weight on the diagonal: still dominant
            L = sp.csr_array(L[coupled][:, coupled])
        M = sp.csr_matrix(sp.diags_array(self.system.c[coupled] * self.inverse_w**2) + L)
        with _fixed_seed():
            return smoothed_aggregation_solver(M, max_coarse=500)

    @cached_property
    def v_cycle(self) -> LinearOperator:
        """One V-cycle of M."""
        levels = self.levels
        with _fixed_seed():
            return levels.aspreconditioner(cycle="V")

    def precondition(self, residual: np.ndarray) -> np.ndarray:
        """One V-cycle for every column, scaled back to K."""
        coupled, inverse_w = self.coupled, self.inverse_w
        out = np.empty_like(residual)
        out[~coupled] = residual[~coupled] * self.decoupled_inverse[:, None]
        scaled = residual[coupled] * inverse_w[:, None]
        for t in range(residual.shape[1]):
            out[coupled, t] = inverse_w * (self.v_cycle @ np.ascontiguousarray(scaled[:, t]))
        return out

    def solve(
        self,
        rhs: np.ndarray,
        *,
        tol: float,
        max_iterations: int = 500,
        callback: Callback | None = None,
        x0: np.ndarray | None = None,
    ) -> Iterates:
        """Solve ``K x = rhs``."""
        options: dict[str, Any] = {"tol": tol, "max_iterations": max_iterations, "callback": callback}
        if not self.coupled.any():
            return cg.solve(self.system, rhs, **options)  # K is diagonal
        result = cg.solve(self.system, rhs, x0=x0, precondition=self.precondition, **options)
        result.note = f"{len(self.levels.levels)} levels, operator complexity {self.levels.operator_complexity():.2f}"
        return result
