"""Min-max programs (31)-(32): the worse of two extreme signals, under Prony's criterion or the true error."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from nareg._core import checks
from nareg._solvers.system import penalty
from nareg.design._convex.criteria import corner_starts, corner_status, smooth_worst, worst_corner
from nareg.design._convex.signal_sets import box_bounds
from nareg.design._convex.solving import Optimum
from nareg.design._risk.descent import DescentResult, ValueAndGradient
from nareg.design._risk.problem import DesignProblem, problem
from nareg.design.programs._program import Point, Program
from nareg.design.programs.relaxation import FilterProgram
from nareg.errors import InputError
from nareg.io import takes_tables
from nareg.results import Status
from nareg.typing import ArrayLike, GraphLike


@takes_tables()
def minmax(
    graph: GraphLike,
    *,
    signal_low: ArrayLike,
    signal_high: ArrayLike,
    noise: ArrayLike | None = None,
    criterion: str = "prony",
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    data_weight: ArrayLike | Literal["noise"] | None = None,
    cone: str = "cliques",
) -> Program:
    """Build the corner min-max program as a cvxpy problem.

    ``min max(c(x_l), c(x_u))`` over PSD Omega with ``Omega_ii >= lower_i``; ``c(x) = ||S x||^2`` (32), or ``||(H - I) x||^2
    + ||H Sigma^1/2||_F^2`` with the inequality (28). The paper takes the worst signal between two bounds for one of them.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    signal_low, signal_high : number or (N,) array
        Lowest and highest value of the signal at each node.
    noise : number, (N,) or (N, N) array, optional
        Noise variance(s) or covariance; required for ``criterion="mse"``.
    criterion : {"prony", "mse"}
        The modified error (32), or the true error.
    lower, upper, data_weight, cone
        As in :func:`prony`.

    Returns
    -------
    Program

    References
    ----------
    Yang, Coutino, Leus, Isufi 2021, equations (31)-(32).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((3, 3))
    >>> x = np.linspace(1, 2, 9)
    >>> program = nareg.design.programs.minmax(g, signal_low=x - 0.2, signal_high=x + 0.3, noise=0.1)
    >>> program.solve(scale="bound").status.name
    'CONVERGED'
    """
    checks.choice("criterion", criterion, ("prony", "mse"))
    if criterion == "mse" and noise is None:
        raise InputError("criterion='mse' needs noise: pass its variance, or use criterion='prony'.")
    make = partial(_corner_problem, penalty(graph), data_weight=data_weight)
    data = {"signal_low": signal_low, "signal_high": signal_high, "noise": noise}
    kind = CornerProgram if criterion == "prony" else CornerFilterProgram
    return kind(make, data, lower, upper, cone)


def _corner_problem(base: Any, *, signal_low: Any, signal_high: Any, noise: Any, data_weight: Any) -> DesignProblem:
    corners = np.column_stack(box_bounds(signal_low, signal_high, base.n_nodes))
    return problem(base, signals=corners, noise=noise, data_weight=data_weight, needs="minmax")


def _corners(program: Program) -> np.ndarray:
    """Both corners in the coordinates ``C^1/2 x``, (N, 2)."""
    low, high = (program.data[name] for name in ("signal_low", "signal_high"))
    n = program.task.n_nodes
    return np.sqrt(program.task.c)[:, None] * np.column_stack(box_bounds(low, high, n))


class CornerProgram(Program):
    """``min max_k ||S x_k||^2``, (32) for two corners."""

    title = "Prony's criterion at the worse of two corners (32)"
    method = "min-max (corners, prony)"
    scale_free = True
    formula = (
        "minimize    t\n"
        "subject to  ||S x_l||^2 <= t,  ||S x_u||^2 <= t,  S = Omega o L\n"
        "            Omega PSD,  Omega_ii >= lower_i"
    )

    def _assemble(self) -> tuple[Any, list[Any], list[Any]]:
        import cvxpy as cp

        n = self.task.n_nodes
        self.parameters["corners"] = cp.Parameter((n, 2), name="corners")
        worst = cp.Variable(name="t")
        image = self.matrix.times(self.white_L / self.matrix.unit) @ self.parameters["corners"]
        return worst, [cp.sum_squares(image[:, k]) <= worst for k in (0, 1)], []

    def _data_parameters(self) -> None:
        corners = _corners(self)
        size = float(np.abs(self.white_L).max() * np.abs(corners).max()) or 1.0
        self.parameters["corners"].value = corners / size * (self.matrix.unit / self.strength)
        self.unit = (size * self.strength) ** 2

    def _point(self, omega: np.ndarray) -> Point:
        share = np.maximum([np.max(constraint.dual_value) for constraint in self._own], 0.0)
        corners, S = _corners(self) * np.sqrt(share / max(float(share.sum()), 1e-300)), omega * self.white_L
        image = S @ corners
        return Point(float(np.sum(image**2)), image @ corners.T + corners @ image.T)

    def objective(self) -> ValueAndGradient:
        """The worse of the two corners."""
        return smooth_worst(self.task.base.L, _corners(self))

    def _value(self, w: np.ndarray) -> float:
        return worst_corner(self.task.base.L, _corners(self), w)

    def _starts(self, low: np.ndarray, high: np.ndarray) -> dict[str, np.ndarray]:
        return corner_starts(_corners(self), low, high)

    def _status(self, result: DescentResult, optimum: Optimum) -> Status:
        return corner_status(self.task.base.L, _corners(self), result, optimum.ending.status)


class CornerFilterProgram(FilterProgram):
    """``min max_k ||(H - I) x_k||^2 + tr(H^2 Sigma)``, (29) for two corners."""

    title = "True error at the worse of two corners (29), (31)"
    method = "min-max (corners, mse)"
    formula = (
        "minimize    t + ||H Sigma^1/2||^2\n"
        "subject to  ||(H - I) x_l||^2 <= t,  ||(H - I) x_u||^2 <= t\n"
        "            [[I + S, I], [I, H]] PSD,  S = Omega o L\n"
        "            H, Omega PSD,  Omega_ii >= lower_i"
    )
    detail = "worst_mse"
    function = "minmax"

    def _error_cost(self) -> tuple[Any, list[Any]]:
        import cvxpy as cp

        super()._error_cost()
        n, c = self.task.n_nodes, self.task.c
        self.parameters["corners"] = cp.Parameter((n, 2), name="corners")
        worst = cp.Variable(name="t")
        errors = (self.white_H - np.eye(n)) @ self.parameters["corners"]
        variance = cp.sum_squares(cp.multiply(np.sqrt(c)[:, None], self.H @ self.parameters["noise"]))
        return worst + variance, [cp.sum_squares(errors[:, k]) <= worst for k in (0, 1)]

    def _data_parameters(self) -> None:
        super()._data_parameters()
        self.parameters["corners"].value = _corners(self) / np.sqrt(self.unit)

    def objective(self) -> ValueAndGradient:
        """The worse of the two corners."""
        corners = _corners(self)
        white = self.task.whitened()
        both = [replace(white, R=np.outer(x, x)) for x in corners.T]

        def worse(w: np.ndarray) -> tuple[float, np.ndarray]:
            return max((task.mse_and_gradient(w) for task in both), key=lambda pair: pair[0])

        return worse
