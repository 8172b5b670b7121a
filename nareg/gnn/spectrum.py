"""Bounds on the eigenvalues of the propagation matrix: they decide whether a series converges and a system is definite.

A~ has its spectrum in (-1, 1]. RNGC subtracts ``eps X X^T / ||X X^T||_F``, which is positive semidefinite: the upper end stays,
the lower one moves by at most ``eps sigma``, ``sigma = ||X X^T||_2 / ||X X^T||_F``. Where this bound does not decide, Lanczos
computes the end: ARPACK for arrays, and for tensors a few steps where they are (see nareg._solvers.lanczos).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

from nareg._core.arrays import empty_like
from nareg._solvers import eigenvalues, lanczos
from nareg.errors import DivergentMethodError
from nareg.gnn._operators import Operator
from nareg.gnn.adjacency import Adjacency

#: Residual, relative to the eigenvalue, at which Lanczos stops; the error of the eigenvalue is about its square.
ACCURACY = 1e-2
#: So near to the limit an eigenvalue is computed again, with a residual a hundred times smaller.
NEAR = 2e-2
#: Up to so many nodes eigenvalues are those of the dense matrix.
DENSE = 19


def lowest(adjacency: Adjacency) -> float:
    """A lower bound of the eigenvalues of A~, computed once per graph: Lanczos less its accuracy, and never below -1."""
    if adjacency.is_learned:  # another one in every pass
        return -1.0
    stored: float | None = adjacency.__dict__.get("_lowest")
    if stored is None:
        stored = max(-1.0, _end(adjacency.symmetric.matrix, "SA") - ACCURACY)  # "rw" is similar to it
        adjacency.__dict__["_lowest"] = stored
    return stored


def radius(M: Operator, like: Any) -> float:
    """Spectral radius of an operator that need not be symmetric."""
    if not isinstance(like, np.ndarray):
        return lanczos.radius(_product(M), like, tol=ACCURACY)
    operator = _operator(M, like)
    n = operator.shape[0]
    if n <= DENSE:
        return float(np.abs(np.linalg.eigvals(eigenvalues.as_dense(operator))).max())
    try:
        values = eigs(operator, k=1, which="LM", v0=eigenvalues.start_vector(n), tol=ACCURACY, return_eigenvectors=False)
    except ArpackNoConvergence as unfinished:
        values = unfinished.eigenvalues
    return float(np.abs(values).max(initial=1.0))


def check_series(bound: float, lam: float, M: Operator, like: Any, *, which: str, eps: float, remedy: str) -> None:
    """Refuse a Neumann series in ``c M`` that diverges.

    ``bound`` is one of the spectral radius of M. ``which`` says where an eigenvalue can be too large: at the lower end ("SA")
    of a symmetric M, at either ("LM"), or anywhere for one that is not symmetric ("any"). ``like`` are features of the dtype
    and on the device of M.
    """
    c = lam / (lam + 1)
    if c * bound < 1:
        return
    if which == "any":
        size = radius(M, like)
    else:
        size = abs(_end_of(M, like, which))
        if abs(c * size - 1) < NEAR:
            size = abs(_end_of(M, like, which, ACCURACY / 100))
    if c * size >= 1:
        raise DivergentMethodError(
            f"eps = {eps:g} and lam = {lam:g} make the Neumann series diverge: the perturbed matrix has an eigenvalue of size "
            f"{size:.3f}, it must be below {1 / c:.3f}; take a smaller eps, rows of "
            f"equal length{remedy}."
        )


def check_definite(M: Operator, like: Any, lam: float, eps: float) -> None:
    """Refuse ``(1 + lam) I - lam M`` that is not positive definite (edge-masked perturbations can do that)."""
    largest = _end_of(M, like, "LA")
    if lam * largest >= 1 + lam:
        raise DivergentMethodError(
            f"eps = {eps:g} with masked=True makes the system indefinite: the perturbed matrix has eigenvalue {largest:.3f} "
            f"but less than {1 + 1 / lam:.3f} is needed; take a smaller eps or masked=False."
        )


def _end_of(M: Operator, like: Any, which: str, tol: float = ACCURACY) -> float:
    """An extreme eigenvalue of a symmetric operator, computed where the features are."""
    if isinstance(like, np.ndarray):
        return _end(_operator(M, like), which, tol)
    return lanczos.extreme_eigenvalue(_product(M), like, which, tol=tol)


def _product(M: Operator) -> lanczos.Product:
    return lambda Z: M.multiply_add(Z, Z, 1.0, 0.0, empty_like(Z))


def _operator(M: Operator, like: np.ndarray) -> LinearOperator:
    """M as SciPy's operator on float64 vectors."""

    def product(v: np.ndarray) -> np.ndarray:
        image: np.ndarray = _product(M)(np.ascontiguousarray(v.reshape(-1, 1), dtype=like.dtype))
        return image.ravel().astype(np.float64)

    return eigenvalues.operator(product, like.shape[0])


def _end(matrix: Any, which: str, tol: float = ACCURACY) -> float:
    """An extreme eigenvalue; where Lanczos finds none, the end of A~'s spectrum."""
    value = eigenvalues.extreme_eigenvalue(matrix, which, tol=tol, dense=DENSE)
    return value if value is not None else -1.0 if which == "SA" else 1.0
