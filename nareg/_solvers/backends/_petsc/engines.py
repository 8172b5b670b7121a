"""The backend for a graph that every rank holds whole: rows are solved for in parallel, and every rank gets all of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from nareg._solvers.backends._petsc.choice import Methods, all_rows
from nareg._solvers.backends._petsc.library import load
from nareg._solvers.backends._petsc.matrices import DistributedSystem, Parts, from_rows, local_range, with_dominant_form
from nareg._solvers.backends._petsc.ranks import refuse_different, together
from nareg._solvers.engines import definite
from nareg._solvers.iterate import Callback, Iterates
from nareg._solvers.system import FilterSystem
from nareg.results import Status


class PetscEngines:
    """PETSc's solvers of one system; all ranks make it with the same system, and call it together."""

    def __init__(self, system: FilterSystem) -> None:
        self.system = system
        L, S = system.penalty.L, system.S
        refuse_different(
            load().comm,
            {"graph": (L.shape, L.indptr, L.indices, L.data), "weights": (S.indptr, S.indices, S.data), "fit": system.c},
        )

    @cached_property
    def _methods(self) -> Methods:
        return Methods(distributed(self.system))

    @cached_property
    def _refused(self) -> bool:
        """Whether a user's own S makes K indefinite, as far as that is cheap to know."""
        return self.system.w is None and not definite(self.system)

    def near(self, system: FilterSystem) -> PetscEngines:
        """That of a system with another data term or other weights."""
        return PetscEngines(system)

    def run(
        self, method: str, rhs: np.ndarray, *, tol: float, max_iterations: int | None, callback: Callback | None
    ) -> tuple[Iterates, str]:
        """Solve ``K x = rhs`` for (N, T) ``rhs``, the same on all ranks."""
        comm = load().comm
        with together(comm):
            refuse_different(comm, {"y": rhs, "method": method, "tol": tol, "max_iterations": max_iterations})
            refuse_different(comm, {"callback (given or not)": callback is None})
            if self._refused:
                return Iterates(np.zeros_like(rhs), 0, [1.0], Status.INDEFINITE), method
            own = rhs[slice(*local_range(self.system.n_nodes))]
            result, label = self._methods.run(method, own, tol=tol, max_iterations=max_iterations, callback=callback)
            result.x = all_rows(result.x)
            return result, label.replace("PETSc", f"PETSc on {comm.size} ranks") if comm.size > 1 else label


def distributed(system: FilterSystem) -> DistributedSystem:
    """The rows of this rank, of a system that it holds whole."""
    n = system.n_nodes
    first, last = local_range(n)
    c = system.c[first:last]
    # S of these rows plus C: SciPy's sum stores what is on either diagonal
    own = np.arange(last - first + 1)
    rows = sp.csr_array(system.S[first:last] + sp.csr_array((c, own[:-1] + first, own), shape=(last - first, n)))
    K = from_rows(n, rows.indptr, rows.indices, rows.data)
    d = K.getDiagonal()
    w, (high, low) = system.coupling_weights, system.coupling_sums
    # a neighbor without a weight has no entry in K, but counts in the row sum
    high = high[first:last] - system.coupling[first:last] @ (w == 0).astype(float)
    parts = Parts(w[first:last], c, high, low[first:last])
    if not system.sdd:
        return DistributedSystem(K, d, parts=parts)
    system_with_form = with_dominant_form(K, d, w[first:last], c, system.penalty.L.diagonal()[first:last])
    return replace(system_with_form, parts=parts)
