"""The solvers of one filter system: which one is taken, what is kept of it, and a check of what it returned."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, Protocol, get_args

import numpy as np

from nareg import _checks
from nareg._operator import FilterSystem
from nareg.filters import cg, chebyshev, direct, multigrid, recursion
from nareg.filters._iterate import Callback, Iterates
from nareg.results import Solution, Status

Method = Literal["auto", "direct", "cg", "multigrid", "jacobi", "chebyshev", "recursion"]
METHODS = get_args(Method)
#: Up to here a factorization takes milliseconds.
SMALL = 5_000
#: Jacobi-CG that has not converged by then is on a mesh with smooth weights: multigrid takes over.
PATIENCE = 150
#: Iterations with the factor of a nearby system: each costs a solve with it. Few gaps, or large weights, take fewer.
NEARBY = 12
#: Largest mesh whose factor serves many calls (about 1.5 GB for nearest neighbors in the plane). A solve takes a quarter of
#: the time of conjugate gradients with independent weights, and has saved the factor's after some ten calls.
FACTOR_NODES = 200_000
MAX_ITERATIONS = {"cg": 10_000, "multigrid": 500, "jacobi": 200_000, "chebyshev": 200_000, "recursion": 200_000}


class Backend(Protocol):
    """One filter system in the hands of one library, for NumPy arrays in and out."""

    @property
    def system(self) -> FilterSystem:
        """What is solved."""

    def run(
        self, method: str, rhs: np.ndarray, *, tol: float, max_iterations: int | None, callback: Callback | None
    ) -> tuple[Iterates, str]:
        """Solve ``K x = rhs`` for float64 (N, T) ``rhs``, which stays as it is; and what to call the method that did."""

    def near(self, system: FilterSystem) -> Backend:
        """The same for a system that differs in its data term or weights."""


class Engines:
    """SciPy's and our own compiled solvers: a system, its factor and its multigrid levels, made when first needed and kept.

    ``many`` says that more calls follow: what is slow to make and quick to use then pays. ``nearby`` is a system with the
    same S and another data term, whose factor or levels precondition this one.
    """

    def __init__(self, system: FilterSystem, *, many: bool = False, nearby: Engines | None = None) -> None:
        self.system = system
        self._many = many
        self._nearby = nearby
        #: What later calls take, once conjugate gradients have been slow.
        self._chosen: Literal["cg", "direct", "multigrid"] = "cg"

    @cached_property
    def factored(self) -> direct.Factored:
        """The system with a sparse factor."""
        return direct.Factored(self.system)

    @cached_property
    def hierarchy(self) -> multigrid.Hierarchy:
        """The system with multigrid levels; refused where they would not stay sparse."""
        return multigrid.Hierarchy(self.system)

    def near(self, system: FilterSystem) -> Engines:
        """Those of a system that differs in its data term, or (without help from this one) in its weights."""
        return Engines(system, nearby=self if system.S is self.system.S else None)

    @property
    def preconditioner(self) -> cg.Preconditioner | None:
        """The inverse that was made for earlier calls, or an approximate one; None before the first."""
        if self._chosen == "direct" and self.factored.factor is not None:
            return self.factored.factor.solve
        return self.hierarchy.precondition if self._chosen == "multigrid" else None

    def run(
        self, method: str, rhs: np.ndarray, *, tol: float, max_iterations: int | None, callback: Callback | None
    ) -> tuple[Iterates, str]:
        """Solve by the method of this name."""
        if self.system.w is None and not _definite(self.system):
            return Iterates(np.zeros_like(rhs), 0, [1.0], Status.INDEFINITE), method
        if method == "auto":
            return self.auto(rhs, tol, max_iterations, callback)
        if method == "direct":
            return self.factored.solve(rhs, tol), "direct"
        limit = max_iterations or MAX_ITERATIONS[method]
        return self.iterate(method, rhs, tol=tol, max_iterations=limit, callback=callback), method

    def iterate(self, method: str, rhs: np.ndarray, **options: Any) -> Iterates:
        """Run the iterative method of this name."""
        if method == "multigrid":
            return self.hierarchy.solve(rhs, **options)
        solvers: dict[str, Callable[..., Iterates]] = {
            "cg": cg.solve,
            "jacobi": recursion.jacobi,
            "chebyshev": chebyshev.solve,
            "recursion": recursion.published,
        }
        return solvers[method](self.system, rhs, **options)

    def auto(self, rhs: np.ndarray, tol: float, max_iterations: int | None, callback: Callback | None) -> tuple[Iterates, str]:
        """Size first, then conditioning as CG itself shows it (measured: see docs/guides/solvers.md)."""
        system = self.system
        limit = max_iterations or MAX_ITERATIONS["cg"]
        options: dict[str, Any] = {"tol": tol, "callback": callback}
        # a small system is factored anew, which refines where weights are huge
        if self._nearby is not None and system.n_nodes > SMALL and self._nearby.preconditioner is not None:
            precondition = self._nearby.preconditioner
            result = cg.solve(system, rhs, max_iterations=min(limit, NEARBY), precondition=precondition, **options)
            if result.status is Status.CONVERGED and _reached(system, result.x, rhs, tol):
                return result, f"cg (auto: preconditioned by {self._nearby._chosen} for readings at all nodes)"
        if system.n_nodes <= SMALL or (self._many and system.n_nodes <= FACTOR_NODES and system.mesh_like):
            self._chosen = "direct"
            more = ", mesh-like graph, more calls expected" if system.n_nodes > SMALL else ""
            return self.factored.solve(rhs, tol), f"direct (auto: {system.n_nodes} nodes{more})"
        if self._chosen == "multigrid":
            rest = min(limit, MAX_ITERATIONS["multigrid"])
            return self.hierarchy.solve(rhs, max_iterations=rest, **options), "multigrid (auto: CG was slow at the first call)"
        may_switch = system.sdd and limit > PATIENCE
        label = f"cg (auto: {system.n_nodes} nodes)"
        first = cg.solve(system, rhs, max_iterations=PATIENCE if may_switch else limit, **options)
        if first.status is not Status.MAX_ITERATIONS or not may_switch:
            return first, label
        # slow: smooth large weights, made for multigrid where the graph is a mesh
        if multigrid.refusal(system) is not None:
            second = cg.solve(system, rhs, max_iterations=limit - PATIENCE, x0=first.x, **options)
        else:
            self._chosen = "multigrid"
            rest = min(limit, MAX_ITERATIONS["multigrid"])
            second = self.hierarchy.solve(rhs, max_iterations=rest, x0=first.x, **options)
            label = f"cg, then multigrid (auto: CG not converged after {PATIENCE} iterations, mesh-like graph)"
        second.residuals = first.residuals + second.residuals[1:]
        second.iterations += first.iterations
        return second, label


def allowed(tol: float) -> float:
    """The recomputed residual that counts as converged: recurrences and rounding take a share."""
    return max(2 * tol, 1e-12)


def _reached(system: FilterSystem, x: np.ndarray, rhs: np.ndarray, tol: float) -> bool:
    return max(float(r.max(initial=0.0)) for r in system.residuals(x, rhs)) <= allowed(tol)


def quick_solve(system: FilterSystem, rhs: np.ndarray, tol: float) -> Iterates:
    """One solve by the automatic choice, for the library's own questions."""
    return Engines(system).auto(rhs, tol, None, None)[0]


def solve(
    engines: Backend,
    y: np.ndarray,
    method: str,
    tol: float,
    max_iterations: int | None,
    callback: Callback | None,
) -> Solution:
    """Run one method on checked input and recompute the residual of what it returned."""
    system = engines.system
    start = time.perf_counter()
    columns, unit = _without_underflow(y.reshape(system.n_nodes, -1).astype(np.float64, copy=False))
    rhs = columns if (system.c == 1).all() else system.c[:, None] * columns  # solvers do not write to it
    result, label = engines.run(method, rhs, tol=tol, max_iterations=max_iterations, callback=callback)
    plain, scaled = result.reached or (float(r.max(initial=0.0)) for r in system.residuals(result.x, rhs))
    status = result.status
    # recurrences drift: what counts is the residual of the point itself
    if status is Status.CONVERGED and not max(plain, scaled) <= allowed(tol):
        status = Status.STALLED
    if unit is not None:
        result.x = result.x * unit
    return Solution(
        x=result.x.reshape(y.shape).astype(y.dtype, copy=False),
        status=status,
        method=label + (f" [{result.note}]" if result.note else ""),
        iterations=result.iterations,
        residuals=np.array(result.residuals),
        residual=plain,
        rounds=result.rounds,
        messages=None if result.rounds is None else result.rounds * system.n_directed_edges,
        timings={"total": time.perf_counter() - start},
    )


def _without_underflow(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Columns whose squares would underflow in norms, divided by a power of two; and the divisors, None for ones."""
    peak = np.abs(columns).max(axis=0)
    faint = (peak < 1e-100) & (peak > 0)
    if not faint.any():
        return columns, None
    unit = np.where(faint, np.ldexp(1.0, np.frexp(peak)[1] - 1), 1.0)
    return columns / unit, unit


def _definite(system: FilterSystem) -> bool:
    """Whether K is positive definite for a user's own S, up to the size at which that is cheap to know."""
    if system.n_nodes > _checks.DENSE_LIMIT:
        return True
    try:
        np.linalg.cholesky(system.K.toarray())
    except np.linalg.LinAlgError:
        return False
    return True
