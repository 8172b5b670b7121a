"""The certified worst case of a set, minimized as a semidefinite program.

The bound is jointly convex in (Omega, d, mu). With T, the box coordinates,

    min sum(d) + mu kappa   such that   [[diag(d) + mu T^T L T, T^T S], [S T, I]] >= 0,   S = Omega o L

which is the S-procedure for ``||S x||^2 <= t`` over the box, scaled so that every side has length two.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from nareg.design._convex.entries import half
from nareg.design._minmax.signal_sets import SignalSet
from nareg.design._risk.problem import DesignProblem
from nareg.design.programs._program import Optimum
from nareg.design.programs._solving import run
from nareg.errors import TooLargeError

#: The bound as an SDP has a matrix inequality of 2 N + 1 rows: with Clarabel 9 s at 40 nodes and minutes at 60,
#: with SCS two minutes at 70.
CLARABEL_BOUND_NODES, BOUND_NODES = 50, 120


def bound_program(
    white: DesignProblem, U: SignalSet, c: np.ndarray, lower: np.ndarray, solver: str, *, criterion: str
) -> Optimum:
    """The certified bound minimized as an SDP: over Omega for "prony", over a PSD filter H for "mse".

    ``white`` is the problem in the coordinates ``C^1/2 x``, c the data term that led there and ``lower`` the bound on
    ``Omega_ii`` there.
    """
    n = white.n_nodes
    if n > BOUND_NODES:
        raise TooLargeError(
            f"solver='sdp' on {n} nodes would take hours (a matrix inequality of {2 * n + 1} rows, limit {BOUND_NODES} "
            "nodes): use solver='first-order'."
        )
    if solver == "sdp":
        solver = "CLARABEL" if n <= CLARABEL_BOUND_NODES else "SCS"
    import cvxpy as cp  # half a second to import

    T = np.sqrt(c)[:, None] * U.columns.toarray()
    size = T.shape[1]
    # one scale for every problem, so that solver tolerances mean the same
    unit = float(np.linalg.norm(T, 2)) or 1.0
    X = cp.Variable((n, n), PSD=True)
    constraints = []
    if criterion == "prony":
        norm = float(np.linalg.norm(white.L, 2)) or 1.0
        strength = norm * float(lower.max())
        M = cp.multiply(white.L / norm, X) @ (T / unit)
        constraints.append(cp.diag(X) >= lower / lower.max())
        variance = 0.0
    else:
        strength = 1.0
        M = (X - np.eye(n)) @ (T / unit)
        variance = cp.sum_squares(X @ half(white.Sigma_matrix / unit**2))
    if U.name == "ball":
        largest = cp.Variable()
        corner, cost = largest * np.eye(size), largest
    else:
        d = cp.Variable(size)
        corner, cost = cp.diag(d), cp.sum(d)
        if size > 1:
            constraints.append(d[:-1] >= 0)
        if U.name == "smooth-box":
            Q = U.roughness.toarray() if sp.issparse(U.roughness) else U.roughness
            mu = cp.Variable(nonneg=True)
            corner, cost = corner + mu * (Q / U.smoothness), cost + mu
    block = cp.bmat([[corner, M.T], [M, np.eye(n)]])
    constraints.append((block + block.T) / 2 >> 0)
    problem = cp.Problem(cp.Minimize(cost + variance), constraints)
    ending = run(problem, solver, {})
    matrix = (X.value + X.value.T) / 2
    value = float(problem.value) * (strength * unit) ** 2
    return Optimum(matrix * lower.max(), value, ending) if criterion == "prony" else Optimum(matrix, value, ending, matrix)
