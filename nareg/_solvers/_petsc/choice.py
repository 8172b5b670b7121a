"""The methods of the petsc backend for the local rows of a distributed system, and the automatic choice."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._solvers._petsc.factor import ParallelFactor
from nareg._solvers._petsc.krylov import Krylov
from nareg._solvers._petsc.matrices import DistributedSystem, Parts, from_rows, local_range, with_dominant_form
from nareg._solvers._petsc.ranks import load, refuse_different, together
from nareg._solvers.engines import definite
from nareg._solvers.iterate import Callback, Iterates
from nareg._solvers.system import FilterSystem
from nareg.errors import InputError
from nareg.results import Status

#: "multigrid" is "gamg".
METHODS = ("auto", "cg", "multigrid", "gamg", "hypre", "direct")
#: Jacobi-CG that has not converged by then meets smooth large weights: multigrid takes over.
PATIENCE = 150
MAX_ITERATIONS = {"cg": 10_000, "gamg": 500, "hypre": 500}


class Methods:
    """The solvers of one distributed system, each made when first needed and kept."""

    def __init__(self, system: DistributedSystem) -> None:
        self.system = system

    @cached_property
    def factor(self) -> ParallelFactor:
        return ParallelFactor(self.system)

    @cached_property
    def jacobi(self) -> Krylov:
        return Krylov(self.system, "jacobi")

    @cached_property
    def gamg(self) -> Krylov:
        return Krylov(self.system, "gamg")

    @cached_property
    def hypre(self) -> Krylov:
        return Krylov(self.system, "hypre")

    def run(
        self, method: str, rhs: np.ndarray, *, tol: float, max_iterations: int | None, callback: Callback | None
    ) -> tuple[Iterates, str]:
        """Solve by the method of this name; returns the local rows, and what to call the method that ran."""
        method = "gamg" if method == "multigrid" else method
        if method not in METHODS:
            raise InputError(f"method={method!r} is not there with backend='petsc': choose one of {', '.join(METHODS)}.")
        if method in ("gamg", "hypre") and not self.system.dominant:
            raise InputError(
                f"method={method!r} needs node weights on a graph Laplacian (a diagonally dominant form): use 'cg'."
            )
        if not self.system.positive:
            return Iterates(np.zeros_like(rhs), 0, [1.0], Status.INDEFINITE), method
        if method == "auto":
            return self._auto(rhs, tol, max_iterations, callback)
        if method == "direct":
            return self.factor.solve(rhs, tol), "direct (PETSc)"
        options: dict[str, Any] = {"tol": tol, "max_iterations": max_iterations or MAX_ITERATIONS[method], "callback": callback}
        solver: Krylov = {"cg": lambda: self.jacobi, "gamg": lambda: self.gamg, "hypre": lambda: self.hypre}[method]()
        result = solver.solve(rhs, **options)
        result.note = solver.note
        return result, f"{method} (PETSc)"

    def _auto(self, rhs: np.ndarray, tol: float, max_iterations: int | None, callback: Callback | None) -> tuple[Iterates, str]:
        """Jacobi-CG; where that is slow on a mesh, GAMG from the point it reached."""
        limit = max_iterations or MAX_ITERATIONS["cg"]
        options: dict[str, Any] = {"tol": tol, "callback": callback}
        may_switch = self.system.dominant and limit > PATIENCE
        if "gamg" in self.__dict__:  # made when an earlier call was slow
            rest = min(limit, MAX_ITERATIONS["gamg"])
            return self.gamg.solve(rhs, max_iterations=rest, **options), "gamg (PETSc, auto: CG was slow at the first call)"
        first = self.jacobi.solve(rhs, max_iterations=PATIENCE if may_switch else limit, **options)
        if first.status is not Status.MAX_ITERATIONS or not may_switch:
            return first, "cg (PETSc, auto)"
        if self.system.mesh_like:
            rest = min(limit, MAX_ITERATIONS["gamg"])
            second = self.gamg.solve(rhs, max_iterations=rest, x0=first.x, **options)
            second.note = self.gamg.note
            label = f"cg, then gamg (PETSc, auto: CG not converged after {PATIENCE} iterations, mesh-like graph)"
        else:
            second = self.jacobi.solve(rhs, max_iterations=limit - PATIENCE, x0=first.x, **options)
            label = "cg (PETSc, auto: not a mesh)"
        return second.after(first), label


def all_rows(local: np.ndarray) -> np.ndarray:
    """The rows of all ranks, (N, T), on every rank."""
    library = load()
    counts = library.comm.allgather(local.size)
    whole = np.empty((sum(counts) // local.shape[1], local.shape[1]))
    library.comm.Allgatherv(np.ascontiguousarray(local), [whole, counts])
    return whole


class PetscEngines:
    """PETSc's solvers of one system; all ranks make it with the same system, and call it together."""

    def __init__(self, system: FilterSystem) -> None:
        self.system = system
        L, S = system.penalty.L, system.S
        refuse_different(
            load().comm,
            {
                "graph": (L.shape, L.indptr, L.indices, L.data),
                "weights": (S.indptr, S.indices, S.data),
                "data_weight": system.c,
            },
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
