"""The relaxation of the true error: the filter of step one (29), and the weights closest to it, step two (30)."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from nareg._core import checks
from nareg._solvers.system import Penalty, penalty
from nareg.design._convex.filter_fit import fit_criterion, fit_weights_to, open_scale
from nareg.design._convex.quadratic import gram, linear
from nareg.design._convex.solving import Optimum
from nareg.design._risk.checked import local_status, with_details
from nareg.design._risk.descent import DescentResult, ValueAndGradient, feasible
from nareg.design._risk.problem import DesignProblem, half, problem, root
from nareg.design.programs._program import PART, Point, Program
from nareg.errors import TooLargeError
from nareg.io import takes_tables
from nareg.progress import ProgressCallback
from nareg.results import Status, WeightDesign
from nareg.typing import ArrayLike, GraphLike

#: Rows of a dense inequality above which no solver ends in hours.
DENSE_ROWS = 600


@takes_tables("signals")
def filter_step(
    graph: GraphLike,
    *,
    signals: ArrayLike | None = None,
    second_moment: ArrayLike | None = None,
    noise: ArrayLike,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    data_weight: ArrayLike | Literal["noise"] | None = None,
    cone: str = "cliques",
) -> Program:
    """Build the semidefinite relaxation of the true error (29) as a cvxpy problem.

    ``min ||(H - I) R^1/2||_F^2 + ||H Sigma^1/2||_F^2`` over PSD H and Omega with ``[[I + S, I], [I, H]]`` PSD, the
    matrix inequality (28). Its ``error`` is the expected squared error at each station, convex in H. :meth:`Program.solve`
    goes on to the weights whose filter is closest to H (30). The inequality is dense: 40 nodes took 20 seconds, 60 take
    minutes, and more, by SCS, up to hours. Above 300 it is refused: :func:`nareg.design.relaxation` has the same optimum.

    Parameters
    ----------
    graph, signals, second_moment, noise, lower, upper
        As in :func:`prony`; the noise is needed.
    data_weight : None, "noise" or (N,) array
        Data term c; the criterion is then the sum of ``c_i error_i``.
    cone : {"cliques", "dense"}
        Omega by its entries on the graph, or as an N x N variable. The inequality of 2 N rows is dense in both.

    Returns
    -------
    Program

    References
    ----------
    Yang, Coutino, Leus, Isufi 2021, equations (26)-(29).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((2, 3))
    >>> program = nareg.design.programs.filter_step(g, signals=np.linspace(1, 2, 6), noise=0.5)
    >>> design = program.add(program.error <= 0.4).solve()
    >>> sorted(program.variables)
    ['H', 'S', 'error', 'w2']
    """
    make = partial(problem, penalty(graph), data_weight=data_weight, needs="relaxation", noise_required=True)
    data = {"signals": signals, "second_moment": second_moment, "noise": noise}
    return FilterProgram(make, data, lower, upper, cone)


class FilterProgram(Program):
    """A program over the filter H: its error at each station, and the inequality that ties it to Omega."""

    title = "Relaxation of the true error, step one (29)"
    method = "relaxation"
    formula = (
        "minimize    ||(H - I) R^1/2||^2 + ||H Sigma^1/2||^2\n"
        "subject to  [[I + S, I], [I, H]] PSD,  S = Omega o L\n"
        "            H, Omega PSD,  Omega_ii >= lower_i"
    )
    #: Detail of the certificate that has the optimum of step one.
    detail = "symmetric_limit"
    #: Design function that needs no such program.
    function: ClassVar[str] = "relaxation"
    #: H is off by the root of what its error is off.
    settings: ClassVar[dict[str, dict[str, Any]]] = {"CLARABEL": {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9}}

    def _refuse_large(self, cone: str) -> None:
        rows = max(self._dense_rows(self.task.n_nodes), default=0)
        if rows > DENSE_ROWS:
            raise TooLargeError(
                f"the program has a dense inequality of {rows} rows ({self.task.n_nodes} nodes), more than the limit of "
                f"{DENSE_ROWS}: use nareg.design.{self.function}, which needs none, {PART}."
            )
        super()._refuse_large(cone)

    def _dense_rows(self, n: int) -> list[int]:
        return [n, 2 * n]

    def _assemble(self) -> tuple[Any, list[Any], list[Any]]:
        import cvxpy as cp

        n, identity, root = self.task.n_nodes, np.eye(self.task.n_nodes), np.sqrt(self.task.c)
        self.unit = float(np.trace(self.task.whitened().R))
        #: The filter in the coordinates C^1/2 x, where it is symmetric.
        self.white_H = cp.Variable((n, n), PSD=True, name="H")
        self.H = self.variables["H"] = cp.multiply(np.outer(1 / root, root), self.white_H)
        self.white_S = self.matrix.times(self.white_L)
        block = cp.bmat([[identity + self.white_S, identity], [identity, self.white_H]])
        cost, own = self._error_cost()
        return cost, own, [(block + block.T) / 2 >> 0]

    def _error_cost(self) -> tuple[Any, list[Any]]:
        """The error at each station, and the sum of them over the unit."""
        import cvxpy as cp

        n = self.task.n_nodes
        self.parameters |= {name: cp.Parameter((n, n), name=name) for name in ("signal", "noise")}
        errors = cp.hstack([(self.H - np.eye(n)) @ self.parameters["signal"], self.H @ self.parameters["noise"]])
        self.error = self.variables["error"] = self.unit * cp.hstack([cp.sum_squares(errors[i]) for i in range(n)])
        return cp.sum_squares(cp.multiply(np.sqrt(self.task.c)[:, None], errors)), []

    def _data_parameters(self) -> None:
        n = self.task.n_nodes
        for name, matrix in (("signal", self.task.R), ("noise", self.task.Sigma_matrix)):
            F = half(matrix / self.unit)
            self.parameters[name].value = np.pad(F, ((0, 0), (0, n - F.shape[1])))

    def objective(self) -> ValueAndGradient:
        """The true error (11)."""
        return self.task.whitened().mse_and_gradient

    def directions(self, optimum: Optimum) -> tuple[list[np.ndarray], float]:
        """Weights whose filter is close to H, (30): Omega of (29) is arbitrary, for the inequality does not bind."""
        return [self._finish(optimum, "bound", None).weights], 1.0

    def _finish(self, optimum: Optimum, scale: str, progress: ProgressCallback | None) -> WeightDesign:
        assert optimum.H is not None
        ending = optimum.ending
        details: Any = {self.detail: optimum.value, "sdp_status": ending.solver_status}
        design = fit_weights_to(self.task, optimum.H, (self.lower, self.upper), progress)
        return with_details(
            design, details, method=self.method, timings={"build": self.build_seconds, "sdp": ending.seconds},
            status=design.status if ending.status.ok else ending.status,
        )  # fmt: skip


@takes_tables("signals")
def fit(
    graph: GraphLike,
    *,
    target: ArrayLike,
    signals: ArrayLike | None = None,
    second_moment: ArrayLike | None = None,
    noise: ArrayLike,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    data_weight: ArrayLike | Literal["noise"] | None = None,
    cone: str = "cliques",
) -> Program:
    """Build the fit (30) of weights to a filter as a cvxpy problem.

    ``min ||H (I + S) - I||_F^2 + ||(I + S) H - I||_F^2`` over PSD Omega with ``Omega_ii >= lower_i``, a bound that (30) drops.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    target : (N, N) array
        The symmetric filter H to come close to.
    signals, second_moment, noise, lower, upper, cone
        As in :func:`prony`; the noise is needed. Where (30) leaves the scale of the weights open, the signals' error decides.
    data_weight : None, "noise" or (N,) array
        Data term c; the target is then a filter of the coordinates ``C^1/2 x``.

    Returns
    -------
    Program

    References
    ----------
    Yang, Coutino, Leus, Isufi 2021, equation (30).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((3, 3))
    >>> x = np.linspace(1, 2, 9)
    >>> H = np.outer(x, x) / (x @ x + 0.5)
    >>> nareg.design.programs.fit(g, target=H, signals=x, noise=0.5).solve().status.name
    'CONVERGED'
    """
    make = partial(_problem_with_target, penalty(graph), data_weight=data_weight)
    data = {"signals": signals, "second_moment": second_moment, "noise": noise, "target": target}
    return FitProgram(make, data, lower, upper, cone)


def _problem_with_target(base: Penalty, *, target: Any, **data: Any) -> DesignProblem:
    checks.psd_matrix("target", target, base.n_nodes)
    return problem(base, **data, needs="relaxation", noise_required=True)


class FitProgram(Program):
    """``min 2 ||H (I + S) - I||_F^2``, (30)."""

    title = "Relaxation, step two: the fit (30)"
    method = "relaxation"
    formula = (
        "minimize    ||H (I + S) - I||^2 + ||(I + S) H - I||^2,  S = Omega o L\nsubject to  Omega PSD,  Omega_ii >= lower_i"
    )

    @property
    def target(self) -> np.ndarray:
        """The filter to come close to."""
        return checks.psd_matrix("target", self.data["target"], self.task.n_nodes)

    def _assemble(self) -> tuple[Any, list[Any], list[Any]]:
        import cvxpy as cp

        m = self.matrix.rows.size
        self.parameters["root"] = cp.Parameter((m, m), name="root")
        self.parameters["slope"] = cp.Parameter(m, name="slope")
        self.parameters["constant"] = cp.Parameter(name="constant")
        z = self.matrix.unit_entries
        quadratic = cp.sum_squares(self.parameters["root"] @ z) + self.parameters["slope"] @ z
        return quadratic + self.parameters["constant"], [], []

    def _data_parameters(self) -> None:
        H, L, step = self.target, self.white_L, self.matrix.unit
        P = H @ H
        G = 2 * gram(L, P) * step**2
        self.unit = float(np.abs(G).max()) or 1.0
        F = root(G / self.unit)
        self.parameters["root"].value = np.pad(F, ((0, len(G) - len(F)), (0, 0)))
        self.parameters["slope"].value = 4 * linear(L, P - H) * step / self.unit
        self.parameters["constant"].value = 2 * float(np.sum((H - np.eye(len(H))) ** 2)) / self.unit

    def _point(self, omega: np.ndarray) -> Point:
        H, identity = self.target, np.eye(self.task.n_nodes)
        E = H @ (identity + omega * self.white_L) - identity
        slope = 2 * H @ E
        return Point(2 * float(np.sum(E**2)), slope + slope.T)

    def objective(self) -> ValueAndGradient:
        """(30) at rank one."""
        return fit_criterion(self.task.L, self.target)

    def _scaled(self, w: np.ndarray, scale: str) -> tuple[np.ndarray, float]:
        task, half = self.task, np.sqrt(self.task.c)
        low, high = self.lower / task.c, self.upper / task.c
        factor = open_scale(task.whitened().mse_along, self.objective(), w / half, low, high)
        return feasible(factor * w, self.lower, self.upper), factor

    def _status(self, result: DescentResult, optimum: Optimum) -> Status:
        proven = optimum.value <= result.value * (1 + 1e-5)
        return local_status(result, optimum.ending.status if proven else Status.INACCURATE)
