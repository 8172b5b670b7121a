"""Solve a cvxpy problem with any solver that cvxpy has, and translate how it ended."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from nareg.errors import InputError, MissingDependencyError, SolverError
from nareg.results import DesignDetails, Status

#: Tolerances where the caller gives none: about the least that double precision reaches on real networks, six digits.
#: Clarabel calls what meets the reduced ones alone inaccurate: they are no looser than six digits either.
REDUCED = {"reduced_tol_gap_abs": 1e-6, "reduced_tol_gap_rel": 1e-6, "reduced_tol_feas": 1e-7}
SETTINGS: dict[str, dict[str, Any]] = {
    "CLARABEL": {"tol_gap_abs": 2e-7, "tol_gap_rel": 2e-7, "tol_feas": 1e-8, **REDUCED},
    "SCS": {"eps_abs": 1e-7, "eps_rel": 1e-7, "max_iters": 20_000},
}


@dataclass(frozen=True)
class Ending:
    """Name and version of a solver, its own status, the seconds it took, and what that means."""

    solver: str
    solver_status: str
    seconds: float
    status: Status


@dataclass(frozen=True)
class Optimum:
    """The solved program: its matrices, its value and how the solver ended."""

    omega: np.ndarray
    value: float
    ending: Ending
    #: The filter in the coordinates C^1/2 x, where the program has one.
    H: np.ndarray | None = None
    #: The proven lower bound, where there is one.
    proof: DesignDetails = field(default_factory=DesignDetails)


def solver_name(solver: str, *, own: tuple[str, ...] = ()) -> str:
    """One of a function's ``own`` solvers, or the name of an installed one as cvxpy writes it, whatever the case.

    ``"sdp"`` may be among a function's own: the program's default solver.
    """
    import cvxpy as cp

    if solver in own:
        return solver
    name = str(solver).upper()
    installed = cp.installed_solvers()
    if name in installed:
        return name
    choices = ", ".join([*map(repr, own), *installed])
    if name in cp.settings.SOLVERS:
        raise MissingDependencyError(f"solver={solver!r} is not installed: install its package, or choose one of {choices}.")
    raise InputError(f"solver is {solver!r}; choose one of {choices}.")


def run(problem: Any, solver: str, options: dict[str, Any]) -> Ending:
    """Solve a problem; its variables then have values."""
    import cvxpy as cp

    name = solver_name(solver)
    started = time.perf_counter()
    ours = {**SETTINGS.get(name, {}), **options}
    six_digits = name == "CLARABEL" and REDUCED.items() <= ours.items()
    try:
        with warnings.catch_warnings():
            # "solution may be inaccurate" is reported in the status instead
            warnings.simplefilter("ignore", UserWarning)
            if six_digits and not _solved(problem, ours):
                six_digits = False
                ours = {key: value for key, value in ours.items() if key not in REDUCED}
            if not six_digits:
                problem.solve(solver=name, **ours)
    except (cp.SolverError, ValueError, TypeError) as error:  # of an option's name or value, the latter two
        reason = str(error).splitlines()[0]
        raise SolverError(f"solver={name!r} failed ({reason}): check its options, or try another solver.") from None
    seconds = time.perf_counter() - started
    if problem.status in ("infeasible", "infeasible_inaccurate"):
        raise InputError(
            "constraints: no weights keep your constraints and the bounds together: relax one, or pass a smaller lower bound."
        )
    if problem.status in ("unbounded", "unbounded_inaccurate"):
        raise InputError("constraints: the program has no smallest value: add a bound on what may grow.")
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise SolverError(f"solver={name!r} ended with {problem.status!r}: raise its limits, or try another solver.")
    try:
        release = version(name.lower())
    except PackageNotFoundError:  # a solver whose package has another name
        release = ""
    status = Status.CONVERGED if problem.status == cp.OPTIMAL or six_digits else Status.INACCURATE
    return Ending(f"{name} {release} (cvxpy {cp.__version__})".replace("  ", " "), problem.status, seconds, status)


def _solved(problem: Any, options: dict[str, Any]) -> bool:
    """Solve by Clarabel, and whether it met its reduced tolerances, or proved that there is no optimum."""
    import cvxpy as cp

    try:
        problem.solve(solver="CLARABEL", **options)
    except cp.SolverError:
        return False
    return problem.status in ("optimal", "optimal_inaccurate", "infeasible", "unbounded")
