"""Filters that neighbors can compute: linear matrix inequalities on S that bound the factor of a recursion per round.

With ``D = diag(c) + diag(S)`` and M the off-diagonal part of S, a Jacobi round multiplies the error by ``-D^-1 M``, whose
eigenvalues lie in ``[-rate, rate]`` exactly where

    -rate D <= M <= rate D

in the order of PSD matrices: two inequalities, linear in Omega. The published recursion (19) multiplies it by ``-S``.
"""

from __future__ import annotations

import numpy as np

from nareg.design._risk.rate import required_rate
from nareg.design.programs._omega import MatrixInequality
from nareg.design.programs._program import Program


def jacobi(program: Program, rate: float) -> list[MatrixInequality]:
    """Constraints under which every Jacobi round shrinks the error by ``rate`` or more.

    Parameters
    ----------
    program : Program
    rate : float
        Between 0 and 1. An accuracy eps takes about ``log(eps) / log(rate)`` rounds.

    Returns
    -------
    list of matrix inequalities
        For :meth:`Program.add`.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg.design import programs
    >>> g = nareg.graphs.grid((3, 3))
    >>> program = programs.prony(g, signals=np.linspace(1, 2, 9), lower=0.1)
    >>> design = program.add(*programs.jacobi(program, 0.5)).solve()
    >>> S, d = design.matrix.toarray(), 1 + design.matrix.diagonal()
    >>> bool(np.abs(np.linalg.eigvals((S - np.diag(np.diag(S))) / d[:, None])).max() <= 0.5 + 1e-6)
    True
    """
    import cvxpy as cp

    rate = required_rate(rate)
    diagonal = cp.diag(program.S)
    M = program.S - cp.diag(diagonal)
    D = rate * (np.diag(program.task.c) + cp.diag(diagonal))
    tree = program.matrix.tree
    return [
        MatrixInequality(D + M, tree, f"-{rate:g} D <= M, D = C + diag(S), M = S - diag(S)"),
        MatrixInequality(D - M, tree, f"M <= {rate:g} D"),
    ]


def recursion(program: Program, rate: float) -> list[MatrixInequality]:
    """Constraint under which every round of recursion (19) shrinks the error by ``rate`` or more: ``norm(S) <= rate``.

    Below 1 it is the paper's condition for (20). It costs far more than :func:`jacobi`, for it excludes large weights.

    Parameters
    ----------
    program : Program
    rate : float
        Between 0 and 1.

    Returns
    -------
    list of matrix inequalities
        For :meth:`Program.add`.
    """
    rate = required_rate(rate)
    expression = rate * np.eye(program.task.n_nodes) - program.S
    return [MatrixInequality(expression, program.matrix.tree, f"S <= {rate:g} I")]
