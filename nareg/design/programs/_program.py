"""What the convex programs share: a cvxpy problem with names, data and the user's constraints, and the way to weights."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse.csgraph import connected_components

from nareg._core import checks
from nareg.design._convex.dual_bound import proven_bound
from nareg.design._convex.low_rank import rank_one, round_and_refine, scaled_by_mse
from nareg.design._convex.solving import Optimum, run, solver_name
from nareg.design._risk.checked import DesignEnd, local_status
from nareg.design._risk.descent import DescentResult, ValueAndGradient
from nareg.design._risk.problem import DesignProblem
from nareg.design.programs._omega import CONES, MatrixInequality, Omega
from nareg.design.programs._rank_one import Rounded, round_within
from nareg.errors import InputError
from nareg.io import in_order
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, Status, WeightDesign

#: Interior-point solver up to cones of this many rows, first-order solver above, unless the caller names one.
INTERIOR_ROWS = 120
#: Floating-point operations per second and iterations of an interior-point solver, for the estimate that print shows, and the
#: programs of the rounding where there are added constraints: seven on the US network, of which each takes about as long.
RATE, ITERATIONS, ROUNDING = 5e9, 25, 7
#: Solvers that form no matrix of a cone's size.
FIRST_ORDER = ("SCS",)
SCALES = ("mse", "bound")
#: What to do about a program that is too large.
PART = "or a part of the network (graph.subgraph)"
SMALLER_CONES = "or build it with cone='cliques'"


@dataclass(frozen=True)
class Point:
    """A convex quadratic of Omega at the optimum, that no feasible Omega can lower the program's objective under."""

    value: float
    #: Gradient in S of the coordinates C^1/2 x.
    slope: np.ndarray


class Program(ABC):
    """A convex program of the paper as a cvxpy problem: read it, change it, solve it.

    Attributes
    ----------
    problem : cvxpy.Problem
        DCP and DPP. Its objective is in units of ``unit``.
    variables : dict
        Named expressions: ``S`` and ``w2`` (the squared weights, ``Omega_ii``); ``omega`` with ``cone="dense"``; where the
        program has a filter also ``H`` and ``error``, the expected squared error at each station.
    parameters : dict
        Named cvxpy parameters, which :meth:`set` fills.
    """

    #: Name and equation, and the formula that ``print`` shows.
    title: ClassVar[str]
    formula: ClassVar[str]
    method: ClassVar[str]
    #: Whether the scale of the weights is chosen by the error, as the criterion leaves it open.
    scale_free: ClassVar[bool] = False
    #: Options by solver where the program needs others than most.
    settings: ClassVar[dict[str, dict[str, Any]]] = {}

    def __init__(self, make: Callable[..., DesignProblem], data: dict[str, Any], lower: Any, upper: Any, cone: str) -> None:
        import cvxpy as cp

        checks.choice("cone", cone, CONES)
        #: The data that the parameters were filled from.
        self.data = data
        self._make, self._bounds = make, {"lower": lower, "upper": upper}
        self.task = self._checked()
        n, root = self.task.n_nodes, np.sqrt(self.task.c)
        self._refuse_large(cone)
        started = time.perf_counter()
        self.lower, self.upper = self._squared_bounds()
        #: L in the coordinates C^1/2 x, where the same Omega gives the penalty.
        self.white_L = self.task.L / root[:, None] / root
        #: Omega's entries and where they lie.
        self.matrix = Omega(self.task.L, cone, self.strength)
        self.w2 = self.matrix.diagonal
        self.S = self.matrix.times(self.task.L)
        self.variables: dict[str, Any] = {"S": self.S, "w2": self.w2}
        if cone == "dense":
            self.variables["omega"] = self.matrix.unit * self.matrix.variable
        self.parameters: dict[str, Any] = {"lower": cp.Parameter(n, nonneg=True, name="lower")}
        self._limits = [self.w2 >= self.parameters["lower"]]
        if upper is not None:
            self.parameters["upper"] = cp.Parameter(n, nonneg=True, name="upper")
            self._limits.append(self.w2 <= self.parameters["upper"])
        self.unit = 1.0
        #: Symmetric filter of the coordinates C^1/2 x, and S there, in programs that have a filter.
        self.white_H: Any = None
        self.white_S: Any = None
        #: The constraints that :meth:`add` added.
        self.added: list[Any] = []
        self.cost, self._own, self._tie = self._assemble()
        self._fill()
        self._rebuild()
        self.build_seconds = time.perf_counter() - started

    # -- what each program says

    @abstractmethod
    def _assemble(self) -> tuple[Any, list[Any], list[Any]]:
        """Cost, its own constraints, and those that tie H to Omega, which hold at rank one."""

    @abstractmethod
    def _data_parameters(self) -> None:
        """Fill the parameters from ``task``, and set ``unit``."""

    @abstractmethod
    def objective(self) -> ValueAndGradient:
        """The program's objective at rank one, in weights of the coordinates ``C^1/2 x``, and its gradient."""

    def _point(self, omega: np.ndarray) -> Point | None:
        """What :func:`proven_bound` needs, where the objective is a quadratic of Omega."""
        return None

    def directions(self, optimum: Optimum) -> tuple[list[np.ndarray], float]:
        """Weights to start from, and the share of Omega that those of rank one carry.

        Parts of the graph that are not connected are rounded one by one, for their signs do not depend on each other.
        """
        count, label = connected_components(self.task.base.L, directed=False)
        w, share = np.zeros(self.task.n_nodes), 1.0
        for part in range(count):
            nodes = np.flatnonzero(label == part)
            w[nodes], carried = rank_one(optimum.omega[np.ix_(nodes, nodes)])
            share = min(share, carried)
        return [w, np.sqrt(np.diagonal(optimum.omega).clip(0))], share

    # -- the problem

    @property
    def omega(self) -> Any:
        """Omega itself, (N, N), with ``cone="dense"``."""
        if "omega" not in self.variables:
            raise InputError(
                "omega: with cone='cliques' entries off the graph are no unknowns: use w2 or S, or build with cone='dense'."
            )
        return self.variables["omega"]

    def add(self, *constraints: Any) -> Self:
        """Add constraints over the program's variables, and variables of your own.

        Parameters
        ----------
        *constraints : cvxpy constraints
            Convex ones, such as ``cp.sum(program.w2) <= 10``, or those of :func:`jacobi` and :func:`recursion`.

        Returns
        -------
        Program
            The program itself.

        Raises
        ------
        InputError
            For what is no constraint, is not convex (DCP), or has a variable of another program.
        """
        import cvxpy as cp

        for constraint in constraints:
            matrix = isinstance(constraint, MatrixInequality)
            if not matrix and not isinstance(constraint, cp.constraints.constraint.Constraint):
                raise InputError(f"constraint is {constraint!r}: pass a cvxpy constraint, such as cp.sum(program.w2) <= 10.")
            if not matrix and not constraint.is_dcp():
                raise InputError(f"constraint {constraint} is not convex (DCP): rewrite it, for example as an upper bound.")
            for variable in (constraint.expression if matrix else constraint).variables():
                if getattr(variable, "_nareg_program", id(self)) != id(self):
                    raise InputError(f"constraint {constraint} has a variable of another program: use this program's own.")
        self.added.extend(constraints)
        self._rebuild()
        return self

    def set(self, **data: Any) -> Self:
        """Fill the parameters from other data; the problem is not compiled again.

        Parameters
        ----------
        **data
            Any of the arguments that the program was built with, but graph and cone.

        Returns
        -------
        Program
            The program itself.
        """
        known = [*self.data, *self._bounds]
        for name in data:
            if name not in known:
                raise InputError(f"{name} is no argument of this program: choose from {', '.join(known)}.")
        for name, value in data.items():
            data[name] = in_order(name, value, self.task.base, signals=name in ("signals", "measurements"))
        before = self.data, self._bounds, self.task
        self._bounds = {name: data.get(name, value) for name, value in self._bounds.items()}
        self.data = {name: data.get(name, value) for name, value in self.data.items()}
        try:
            self.task = self._checked()
            if not np.array_equal(self.task.c, before[2].c):
                raise InputError("data_weight: the data term is part of the program: build another for this one.")
            if ("upper" in self.parameters) != (self._bounds["upper"] is not None):
                raise InputError("upper: the program was built with or without this bound: build another.")
            self.lower, self.upper = self._squared_bounds()
        except InputError:
            self.data, self._bounds, self.task = before
            raise
        self._fill()
        return self

    def optimum(self, solver: str | None = None, **options: Any) -> Optimum:
        """Solve the program alone, without weights."""
        self._refuse_nothing()
        name = self._solver(solver)
        if name not in FIRST_ORDER:
            rows = self._cone_rows()
            smaller = self.matrix.cone == "dense" and max(rows) == self.task.n_nodes
            checks.memory(
                f"solver={name!r} on PSD cones of up to {max(rows)} rows", 16.0 * sum((k * (k + 1) / 2) ** 2 for k in rows),
                alternative=f"use solver='SCS', {SMALLER_CONES if smaller else PART}",
            )  # fmt: skip
        ending = run(self.problem, name, {**self.settings.get(name, {}), **options})
        omega = self.matrix.value
        assert omega is not None
        H = self._filter()
        value = float(self.problem.value) * self.unit
        return Optimum(omega, value, ending, H, self._proof(omega, value))

    def __str__(self) -> str:
        rows = sorted(self._cone_rows(), reverse=True)
        lines = [self.title, *("  " + line for line in self.formula.splitlines())]
        lines += [f"  and your constraint {text}" for text in self._texts()]
        solver = self._solver(None)
        seconds = self._seconds() * (1 + ROUNDING if self.added else 1)
        wait = f"about {seconds:.0f} s" if seconds < 90 else f"about {seconds / 60:.0f} minutes"
        wait = "less than a second" if seconds < 1 else wait
        unknowns = int(self.problem.size_metrics.num_scalar_variables)
        lines += [
            f"  {unknowns:,} unknowns; {len(rows)} PSD cones, the largest of {rows[0]} rows",
            f"  {wait} with {solver}" if solver not in FIRST_ORDER else f"  minutes to hours with {solver}",
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.task.n_nodes} nodes, {len(self.added)} added constraints)"

    # -- details

    def _proof(self, omega: np.ndarray, value: float) -> DesignDetails:
        """The proven bound on the optimum of the program as published, and its distance."""
        point = None if self.added else self._point(omega)
        if point is None:
            return {}
        multiplier = np.asarray(self._limits[0].dual_value) * self.unit
        bound = proven_bound(point.value, self.white_L * point.slope, omega, multiplier, self.lower, self.upper)
        return {"dual_bound": bound, "gap": None if bound is None else (value - bound) / value, "dual_proof": "eigenvalues"}

    def _texts(self) -> list[str]:
        """The added constraints with the program's names for its expressions."""
        names = {str(expression): name for name, expression in self.variables.items()}
        texts = [str(constraint) for constraint in self.added]
        for expression in sorted(names, key=len, reverse=True):
            texts = [text.replace(expression, names[expression]) for text in texts]
        return texts

    @property
    def strength(self) -> float:
        """The size of squared weights to expect: the largest lower bound, or what makes the norm of S one."""
        largest = float(self.lower.max())
        return largest if largest > 0 else 1 / (float(np.linalg.norm(self.white_L, 2)) or 1.0)

    def assign(self, w: np.ndarray) -> None:
        """Give the variables the values of weights: ``Omega = w w^T``, ``H = (I + S)^-1``."""
        self.matrix.assign(np.outer(w, w))
        if self.white_H is not None:
            scaled = w / np.sqrt(self.task.c)
            self.white_H.save_value(np.linalg.inv(np.eye(w.size) + (scaled[:, None] * self.task.L) * scaled))

    @property
    def added_constraints(self) -> list[Any]:
        """The same as cvxpy constraints."""
        parts = [c.constraints if isinstance(c, MatrixInequality) else [c] for c in self.added]
        return [constraint for part in parts for constraint in part]

    @property
    def base_constraints(self) -> list[Any]:
        """The program's own constraints but those that hold at rank one: Omega PSD, and (28)."""
        return [*self._limits, *self._own]

    def _checked(self) -> DesignProblem:
        task = self._make(**self.data)
        task.refuse_extreme(self.method)
        return task

    def _squared_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return self.task.published_bounds(**self._bounds)

    def _fill(self) -> None:
        self.parameters["lower"].value = self.lower
        if "upper" in self.parameters:
            self.parameters["upper"].value = self.upper
        self._data_parameters()

    def _rebuild(self) -> None:
        import cvxpy as cp

        constraints = [*self.base_constraints, *self._tie, *self.matrix.constraints, *self.added_constraints]
        self.problem = cp.Problem(cp.Minimize(self.cost), constraints)
        if not self.added:  # its own variables: those of another program are refused by their owner
            for variable in self.problem.variables():
                variable._nareg_program = id(self)

    def _solver(self, solver: str | None) -> str:
        if solver is not None:
            return solver_name(solver)
        return "CLARABEL" if max(self._cone_rows()) <= INTERIOR_ROWS else "SCS"

    def _cone_rows(self) -> list[int]:
        """Rows of all PSD cones: of Omega, of the program's own matrices and inequalities, and of the added ones."""
        import cvxpy as cp

        variables = [v.shape[0] for v in self.problem.variables() if v.attributes["PSD"]]
        return [*variables, *(c.shape[0] for c in self.problem.constraints if isinstance(c, cp.constraints.PSD))]

    def _filter(self) -> np.ndarray | None:
        """The filter of the coordinates C^1/2 x after a solve."""
        return None if self.white_H is None else (self.white_H.value + self.white_H.value.T) / 2

    def _seconds(self) -> float:
        """What an interior-point solver may take: a factorization with a dense block per cone, per iteration."""
        sizes = np.array([k * (k + 1) / 2 for k in self._cone_rows()])
        m = self.matrix.rows.size
        return 0.3 + 1e-3 * m + ITERATIONS * float((sizes**3).sum() + m**3) / 3 / RATE  # the first two: to compile it

    def _refuse_large(self, cone: str) -> None:
        """Refuse, before it is built, what would not fit in memory."""
        n = self.task.n_nodes
        m = (self.task.base.L.nnz + n) // 2
        rows = [*self._dense_rows(n), *([n] if cone == "dense" else [])]
        entries = 4 * m**2 + 40 * sum(k * (k + 1) / 2 for k in rows)
        cones = f", dense cones of up to {max(rows)} rows" if rows else ""
        checks.memory(
            f"the program ({n} nodes, {m - n} edges{cones})", 8.0 * entries,
            alternative=f"use solver='auto' of the design function, {PART}",
        )  # fmt: skip

    def _dense_rows(self, n: int) -> list[int]:
        """Rows of the dense cones that the program has beside Omega's."""
        return []

    def _refuse_nothing(self) -> None:
        """Refuse a program whose optimum is zero weights."""
        if self.scale_free and not self.lower.any() and not self.added:
            raise InputError("lower is 0 everywhere: zero weights are optimal; pass noise, a positive lower, or a constraint.")

    # -- the way to weights

    def solve(
        self, solver: str | None = None, *, scale: str = "mse", verbose: bool = False, warm_start: bool = False,
        progress: ProgressCallback | None = None, **options: Any,
    ) -> WeightDesign:  # fmt: skip
        """Solve, and make weights of the optimum.

        Parameters
        ----------
        solver : str, optional
            Any solver that cvxpy has installed. Default: CLARABEL, and SCS where a cone is large.
        scale : {"mse", "bound"}
            Multiply the solution of (25) or (32) by the factor with the smallest expected error, or leave it at its bound.
        verbose, warm_start : bool
            As in ``cvxpy.Problem.solve``.
        progress : callable, optional
            Called with a :class:`~nareg.progress.Progress` per step.
        **options
            The solver's own options.

        Returns
        -------
        WeightDesign
            ``certificate.relaxed_objective`` is the program's optimum, ``certificate.details["constraint_violation"]`` by how
            much the weights miss your constraints.

        Raises
        ------
        InputError
            If no weights keep the constraints.
        SolverError
            If the solver fails.
        """
        checks.choice("scale", scale, SCALES)
        optimum = self.optimum(solver, verbose=verbose, warm_start=warm_start, **options)
        if not self.added:
            return self._finish(optimum, scale, progress)
        try:
            rounded = round_within(self, optimum, self._solver(solver), options, scale, progress)
        finally:
            self.matrix.assign(optimum.omega)  # the variables have the program's own optimum, whatever the rounding tried
        return self._pack_rounded(optimum, rounded)

    def _finish(self, optimum: Optimum, scale: str, progress: ProgressCallback | None) -> WeightDesign:
        """Weights from the optimum: rounded, refined from several starts, scaled, packed."""
        task, ending, half = self.task, optimum.ending, np.sqrt(self.task.c)
        low, high = self.lower / task.c, self.upper / task.c
        omega = optimum.omega / half[:, None] / half
        result, rounding = round_and_refine(omega, self.objective(), low, high, also=self._starts(low, high), progress=progress)
        w, factor = self._scaled(result.w * half, scale)
        details: DesignDetails = {
            **rounding, **optimum.proof, "scale_factor": factor, "objective_before_scaling": self._value(result.w),
        }  # fmt: skip
        status = self._status(result, optimum)
        end = DesignEnd(status, ending.solver, ending.solver_status, result.gradient_norm, details, optimum.value)
        return task.pack(
            self.method, w, self._value(w / half), (self.lower, self.upper), end, omega=optimum.omega,
            timings={"build": self.build_seconds, "sdp": ending.seconds}, settings={"solver": ending.solver, "scale": scale},
        )  # fmt: skip

    def _value(self, w: np.ndarray) -> float:
        """The program's criterion at weights of the coordinates ``C^1/2 x``."""
        return self.objective()(w)[0]

    def _starts(self, low: np.ndarray, high: np.ndarray) -> dict[str, np.ndarray]:
        """Weights of the coordinates ``C^1/2 x`` to descend from beside the rounded ones."""
        return {}

    def _scaled(self, w: np.ndarray, scale: str) -> tuple[np.ndarray, float]:
        """Weights times the factor with the smallest error, and that factor."""
        return scaled_by_mse(self.task, w, self.lower, self.upper, scale)

    def _status(self, result: DescentResult, optimum: Optimum) -> Status:
        """How the design ended, given the last descent."""
        return local_status(result, optimum.ending.status)

    def _pack_rounded(self, optimum: Optimum, rounded: Rounded) -> WeightDesign:
        half, ending = np.sqrt(self.task.c), optimum.ending
        details: DesignDetails = {
            "rank_one_share": rounded.share, "rounds": rounded.rounds, "scale_factor": rounded.factor,
            "constraint_violation": rounded.violation,
        }  # fmt: skip
        end = DesignEnd(rounded.status(ending.status), ending.solver, ending.solver_status, None, details, optimum.value)
        return self.task.pack(
            self.method, rounded.w, self.objective()(rounded.w / half)[0], (self.lower, self.upper), end, omega=optimum.omega,
            timings={"build": self.build_seconds, "sdp": ending.seconds, "refinement": rounded.seconds},
            settings={"solver": ending.solver, "constraints": self._texts()},
        )  # fmt: skip
