"""The solvers of one filter system: which one is taken, what is kept of it, and a check of what it returned."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, Protocol, get_args

import numpy as np

from nareg._core import checks
from nareg._solvers import cg, costs, direct, multigrid, recursion
from nareg._solvers.iterate import Callback, Iterates, Stop
from nareg._solvers.system import FilterSystem
from nareg.results import Solution, Status

Method = Literal["auto", "direct", "cg", "multigrid", "jacobi", "chebyshev", "recursion"]
METHODS = get_args(Method)
#: Up to here any factorization takes milliseconds, and up to here that of a mesh.
TINY, SMALL = 2_000, 5_000
#: The iteration at which CG is first asked how long it will take, that from which growing residuals mean long, and a number
#: of iterations that is not worth asking about.
FIRST_CHECK, SURE, FEW = 12, 48, 40
#: Iterations that take news through the graph so many times are enough: 2 to 4 times were seen on meshes in plane and space.
CROSSINGS = 4
#: On a graph that is no mesh the residuals jump, most solves take less than this, and a factor fills.
PATIENCE = 150
#: Up to so many signals CG is watched on all of them.
FEW_SIGNALS = 4
#: What CG must promise to cost, over the alternative, before it is given up.
MARGIN = 1.5
#: How many calls a prepared filter expects.
CALLS = 30
#: Iterations with the factor of a nearby system: each costs a solve with it. Few gaps, or large weights, take fewer.
NEARBY = 12
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
    def _definite(self) -> bool:
        return self.system.w is not None or definite(self.system)

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
        if not self._definite:
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
            "chebyshev": recursion.chebyshev,
            "recursion": recursion.published,
        }
        return solvers[method](self.system, rhs, **options)

    def auto(self, rhs: np.ndarray, tol: float, max_iterations: int | None, callback: Callback | None) -> tuple[Iterates, str]:
        """A factor where that is quick, else CG for as long as it promises to cost less than the alternatives."""
        system, n = self.system, self.system.n_nodes
        limit = max_iterations or MAX_ITERATIONS["cg"]
        options: dict[str, Any] = {"tol": tol, "callback": callback}
        # a small system is factored anew, which refines where weights are huge
        if self._nearby is not None and n > SMALL and self._nearby.preconditioner is not None:
            precondition = self._nearby.preconditioner
            result = cg.solve(system, rhs, max_iterations=min(limit, NEARBY), precondition=precondition, **options)
            if _converged(system, result, rhs, tol):
                return result, f"cg (auto: preconditioned by {self._nearby._chosen} for readings at all nodes)"
        if n <= TINY or (n <= SMALL and system.mesh_like):
            self._chosen = "direct"
            return self.factored.solve(rhs, tol), f"direct (auto: {n} nodes)"
        if self._chosen != "cg":
            return self._take(self._chosen, rhs, limit, None, options), f"{self._chosen} (auto: CG was slow at the first call)"
        outlook = Outlook(system, tol, rhs.shape[1], CALLS if self._many else 1)
        first = self._watched(rhs, limit, outlook, options)
        if outlook.better is None:
            return first, f"cg (auto: {n} nodes)"
        self._chosen = outlook.better
        second = self._take(outlook.better, rhs, max(limit - first.iterations, 1), first.x, options)
        if outlook.better == "multigrid" and outlook.factor_fits and not _converged(system, second, rhs, tol):
            self._chosen = "direct"  # which refines where weights are huge
            return self.factored.solve(rhs, tol), "direct (auto: CG and multigrid did not converge)"
        return second.after(first), f"cg, then {outlook.better} (auto: {outlook.reason})"

    def _watched(self, rhs: np.ndarray, limit: int, outlook: Outlook, options: dict[str, Any]) -> Iterates:
        """CG for as long as it promises to be quick; of many signals the largest is tried first."""
        if rhs.shape[1] <= FEW_SIGNALS:
            return cg.solve(self.system, rhs, max_iterations=limit, watch=outlook.gives_up, **options)
        largest = int(np.argmax(np.einsum("it,it->t", rhs, rhs)))
        tried = rhs[:, [largest]]
        first = cg.solve(self.system, tried, tol=options["tol"], max_iterations=limit, watch=outlook.gives_up)
        if outlook.better is None:
            return cg.solve(self.system, rhs, max_iterations=limit, **options)
        return Iterates(np.zeros_like(rhs), first.iterations, first.residuals, first.status)

    def _take(
        self,
        method: Literal["direct", "multigrid"],
        rhs: np.ndarray,
        limit: int,
        x0: np.ndarray | None,
        options: dict[str, Any],
    ) -> Iterates:
        if method == "direct":
            return self.factored.solve(rhs, options["tol"])
        return self.hierarchy.solve(rhs, max_iterations=min(limit, MAX_ITERATIONS["multigrid"]), x0=x0, **options)


class Outlook:
    """Watches conjugate gradients, and gives up where a factor or multigrid promises to end sooner."""

    def __init__(self, system: FilterSystem, tol: float, columns: int, calls: int) -> None:
        self._system, self._tol, self._columns, self._calls = system, tol, columns, calls
        self._check, self._before = FIRST_CHECK, np.inf
        #: What to take instead, once CG was given up, and why.
        self.better: Literal["direct", "multigrid"] | None = None
        self.reason = ""

    @cached_property
    def _iteration(self) -> float:
        return costs.iteration(self._system.K, self._columns)

    @cached_property
    def _alternatives(self) -> costs.Costs:
        return costs.alternatives(self._system, self._columns, self._calls)

    @property
    def factor_fits(self) -> bool:
        """Whether a factor was among the alternatives."""
        return bool(np.isfinite(self._alternatives.direct))

    def gives_up(self, residuals: list[float]) -> bool:
        """At iterations 12, 24, 48, ...: the slope of log residuals over the second half tells how many follow.

        On a grid with weights over three decades that number is 150, 258, 502 and 927, where one weight of 5 has 125, 105, 77
        and 30.
        """
        done = len(residuals) - 1
        if done < self._check:
            return False
        self._check *= 2
        now, before = (max(r, 1e-300) for r in (residuals[-1], residuals[done // 2]))
        slope = np.log(before / now) / (done - done // 2)
        if slope <= 0 and done < SURE:  # residuals may grow at first
            return False
        left = min(np.log(max(now / self._tol, 1.0)) / max(slope, 1e-9), MAX_ITERATIONS["cg"])
        # convergence that slows down goes on to do so: where the number grows it is taken two checks ahead
        growth, self._before = left / self._before, left
        left *= max(growth, 1.0) ** 2
        if left <= FEW or (done < PATIENCE and not self._system.mesh_like):
            return False
        left = min(left, CROSSINGS * self._system.diameter)
        # later calls start from zero
        cost = self._iteration * (left + (self._calls - 1) * (left + done))
        best, method = self._alternatives.best
        if cost <= MARGIN * best:
            return False
        self.better = method
        self.reason = f"CG would take some {left:.0f} more iterations, {cost / best:.1g} times the cost"
        return True


def allowed(tol: float) -> float:
    """The recomputed residual that counts as converged: recurrences and rounding take a share."""
    return max(2 * tol, 1e-12)


def _converged(system: FilterSystem, result: Iterates, rhs: np.ndarray, tol: float) -> bool:
    if result.status is not Status.CONVERGED:
        return False
    return all(bool((r <= allowed(tol)).all()) for r in system.residuals(result.x, rhs, allowed(tol)))


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
    columns, unit = without_underflow(y.reshape(system.n_nodes, -1).astype(np.float64, copy=False))
    rhs = columns if (system.c == 1).all() else system.c[:, None] * columns  # solvers do not write to it
    result, label, residuals = checked_run(engines, rhs, Stop(method, tol, max_iterations, callback))
    if unit is not None:
        result.x = result.x * unit
    return Solution(
        x=result.x.reshape(y.shape).astype(y.dtype, copy=False),
        status=result.status,
        method=label + (f" [{result.note}]" if result.note else ""),
        iterations=result.iterations,
        residuals=np.array(result.residuals),
        residual=residuals[0],
        rounds=result.rounds,
        messages=None if result.rounds is None else result.rounds * system.n_directed_edges,
        timings={"total": time.perf_counter() - start},
    )


def checked_run(engines: Backend, rhs: np.ndarray, stop: Stop) -> tuple[Iterates, str, tuple[float, float]]:
    """Solve, and judge by the residuals of the point itself (of K, and over its diagonal): recurrences drift."""
    result, label = engines.run(stop.method, rhs, tol=stop.tol, max_iterations=stop.max_iterations, callback=stop.callback)
    level = allowed(stop.tol)
    plain, scaled = result.reached or (float(r.max(initial=0.0)) for r in engines.system.residuals(result.x, rhs, level))
    if result.status is Status.CONVERGED and not (plain <= level and scaled <= level):
        result.status = Status.STALLED
    return result, label, (plain, scaled)


def without_underflow(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Columns whose squares would underflow in norms, divided by a power of two; and the divisors, None for ones."""
    peak = np.abs(columns).max(axis=0)
    faint = (peak < 1e-100) & (peak > 0)
    if not faint.any():
        return columns, None
    unit = np.where(faint, np.ldexp(1.0, np.frexp(peak)[1] - 1), 1.0)
    return columns / unit, unit


def definite(system: FilterSystem) -> bool:
    """Whether K is positive definite for a user's own S, up to the size at which that is cheap to know."""
    if system.n_nodes > checks.DENSE_LIMIT:
        return True
    try:
        np.linalg.cholesky(system.K.toarray())
    except np.linalg.LinAlgError:
        return False
    return True
