"""Prony's criterion (25): the smallest modified error ``e' = y - (I + S) x``, that is ``tr(S R S)``."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np

from nareg._solvers.system import penalty
from nareg.design._convex.criteria import square_criterion
from nareg.design._convex.low_rank import bound_starts
from nareg.design._convex.quadratic import gram
from nareg.design._risk.descent import ValueAndGradient
from nareg.design._risk.problem import problem, root
from nareg.design.programs._program import Point, Program
from nareg.io import takes_tables
from nareg.typing import ArrayLike, GraphLike


@takes_tables("signals")
def prony(
    graph: GraphLike,
    *,
    signals: ArrayLike | None = None,
    second_moment: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    data_weight: ArrayLike | Literal["noise"] | None = None,
    cone: str = "cliques",
) -> Program:
    """Build Prony's program (25) as a cvxpy problem.

    ``min tr((Omega o L)^2 R)`` over PSD Omega with ``Omega_ii >= lower_i``, where ``R = E[x x^T]``. With one known signal
    ``R = x x^T``; with training signals ``X X^T / T``.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    signals : (N,) or (N, T) array, optional
        Clean training signals, or the one known signal.
    second_moment : (N, N) array, optional
        ``E[x x^T]``; exactly one of the two.
    noise : number, (N,) or (N, N) array, optional
        Noise variance(s) or covariance; sets the default lower bound and the scale of the weights.
    lower, upper : number or (N,) array, optional
        Bounds on ``Omega_ii``. Default below: the paper's ``w0*`` of Lemma 1 (14) where the noise is known, else 0; above:
        none in the program, ``1e8 / lambda_max(L)`` for the weights.
    data_weight : None, "noise" or (N,) array
        Data term c; the criterion is then ``tr(S C^-1 S R)``.
    cone : {"cliques", "dense"}
        Omega by its entries on the graph, PSD over cliques of a chordal completion, or as an N x N variable.

    Returns
    -------
    Program

    References
    ----------
    Yang, Coutino, Leus, Isufi 2021, equation (25).

    Examples
    --------
    >>> import cvxpy as cp, numpy as np, nareg
    >>> g = nareg.graphs.grid((3, 3))
    >>> program = nareg.design.programs.prony(g, signals=np.linspace(1, 2, 9), noise=0.1)
    >>> design = program.add(cp.sum(program.w2) <= 12).solve()
    >>> bool(np.sum(design.weights**2) <= 12 + 1e-6)
    True
    """
    make = partial(problem, penalty(graph), data_weight=data_weight, needs="prony")
    data = {"signals": signals, "second_moment": second_moment, "noise": noise}
    return PronyProgram(make, data, lower, upper, cone)


class PronyProgram(Program):
    """``min tr(S R S)``, (25)."""

    title = "Prony's criterion (25)"
    method = "prony"
    scale_free = True
    formula = "minimize    tr(S C^-1 S R),  S = Omega o L\nsubject to  Omega PSD,  Omega_ii >= lower_i"

    def _assemble(self) -> tuple[Any, list[Any], list[Any]]:
        import cvxpy as cp

        m = self.matrix.rows.size
        self.parameters["root"] = cp.Parameter((m, m), name="root")  # of the quadratic form in Omega's entries
        return cp.sum_squares(self.parameters["root"] @ self.matrix.unit_entries), [], []

    def _data_parameters(self) -> None:
        G = gram(self.white_L, self.task.whitened().R)
        self.unit = (float(np.abs(G).max()) or 1.0) * self.strength**2
        F = root(G)
        padded = np.zeros(G.shape)
        padded[: len(F)] = F * (self.matrix.unit / np.sqrt(self.unit))
        self.parameters["root"].value = padded

    def _point(self, omega: np.ndarray) -> Point:
        SR = (omega * self.white_L) @ self.task.whitened().R
        return Point(float(np.sum(SR * omega * self.white_L)), SR + SR.T)

    def objective(self) -> ValueAndGradient:
        """``tr(S R S)`` at rank one."""
        return square_criterion(self.task.base.L, root(self.task.whitened().R).T)

    def _starts(self, low: np.ndarray, high: np.ndarray) -> dict[str, np.ndarray]:
        return bound_starts(root(self.task.whitened().R).T, low, high)
