"""Prony's program (25) as it is printed, typed into cvxpy and solved with each solver's own settings.

nareg solves (25) otherwise: in the entries that the graph has, at tight tolerances, with weights refined at the bound.
"""

from __future__ import annotations

import warnings

import numpy as np

CLARABEL, SCS = "Clarabel", "SCS"
SOLVERS = (CLARABEL, SCS)


def omega(L: np.ndarray, x: np.ndarray, w0: float, solver: str) -> np.ndarray:
    """The matrix that a solver returns for one known signal ``x`` and squared weights of at least ``w0``."""
    import cvxpy

    matrix = cvxpy.Variable(L.shape, PSD=True)
    cost = cvxpy.sum_squares(cvxpy.multiply(matrix, L) @ x)  # tr((Omega o L)^2 x x^T)
    problem = cvxpy.Problem(cvxpy.Minimize(cost), [cvxpy.diag(matrix) >= w0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "inaccurate" is how Clarabel ends here, at values below 1e-6
        problem.solve(solver=solver.upper())
    result: np.ndarray = (matrix.value + matrix.value.T) / 2
    return result


def weights(matrix: np.ndarray) -> np.ndarray:
    """The eigenvector of the largest eigenvalue times its root, which the paper takes for the weights."""
    values, vectors = np.linalg.eigh(matrix)
    result: np.ndarray = np.sqrt(max(values[-1], 0.0)) * vectors[:, -1]
    return result
