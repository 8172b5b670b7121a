"""The way from a convex program to weights: rounded, refined, scaled, or within the user's constraints."""

from __future__ import annotations

from typing import Any

import numpy as np

from nareg._core import checks
from nareg.design._convex.rounding import round_and_refine, scaled_by_mse
from nareg.design._convex.solving import Optimum
from nareg.design._risk.descent import DescentResult
from nareg.design._risk.problem import DesignEnd, local_status
from nareg.design.programs._problem import ConvexProblem
from nareg.design.programs._rank_one import Rounded, round_within
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, Status, WeightDesign

SCALES = ("mse", "bound")


class Program(ConvexProblem):
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
        if not self._constraints:
            return self._finish(optimum, scale, progress)
        try:
            rounded = round_within(self, optimum, self._solver(solver), options, scale, progress)
        finally:
            self._omega.assign(optimum.omega)  # the variables have the program's own optimum, whatever the rounding tried
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
