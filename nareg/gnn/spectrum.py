"""Where the eigenvalues of the propagation matrix lie, and what follows: whether a series converges, a system is definite.

A~ has its spectrum in (-1, 1]. RNGC subtracts ``eps X X^T / ||X X^T||_F``, which is positive semidefinite: the upper end stays,
the lower one moves by at most ``eps sigma``, ``sigma = ||X X^T||_2 / ||X X^T||_F``. Where this bound decides nothing the end is
computed by Lanczos.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh

from nareg._arrays import empty_like
from nareg.errors import DivergentMethodError
from nareg.gnn._operators import Operator
from nareg.gnn.adjacency import Adjacency

#: Residual, relative to the eigenvalue, at which Lanczos stops; the error of the eigenvalue is about its square.
ACCURACY = 1e-2
#: So near to the limit an eigenvalue is computed again, with a residual a hundred times smaller.
NEAR = 2e-2


def lowest(adjacency: Adjacency) -> float:
    """A lower bound of the eigenvalues of A~, computed once a graph: Lanczos less its accuracy, and never below -1."""
    held: float | None = adjacency.__dict__.get("_lowest")
    if held is None:
        matrix = adjacency.symmetric.matrix  # "rw" is similar to it
        held = max(-1.0, _end(lambda v: matrix @ v, matrix.shape[0], "SA") - ACCURACY)
        adjacency.__dict__["_lowest"] = held
    return held


def radius(M: Operator, like: Any) -> float:
    """Spectral radius of an operator that need not be symmetric."""
    product, n = _matvec(M, like), like.shape[0]
    if n < 20:
        return float(np.abs(np.linalg.eigvals(_dense(product, n))).max())
    try:
        operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
        values = eigs(operator, k=1, which="LM", v0=_start(n), tol=ACCURACY, return_eigenvectors=False)
    except ArpackNoConvergence as unfinished:
        values = unfinished.eigenvalues
    return float(np.abs(values).max(initial=1.0))


def check_series(bound: float, lam: float, M: Operator, like: Any, *, which: str, eps: float, remedy: str) -> None:
    """Refuse a Neumann series in ``c M`` that diverges.

    ``bound`` is one of the spectral radius of M. ``which`` says where an eigenvalue can be too large: at the lower end ("SA")
    of a symmetric M, at either ("LM"), or anywhere for one that is not symmetric ("any").
    """
    c = lam / (lam + 1)
    if c * bound < 1:
        return
    if which == "any":
        size = radius(M, like)
    else:
        product, n = _matvec(M, like), like.shape[0]
        size = abs(_end(product, n, which))
        if abs(c * size - 1) < NEAR:
            size = abs(_end(product, n, which, ACCURACY / 100))
    if c * size >= 1:
        raise DivergentMethodError(
            f"eps = {eps:g} and lam = {lam:g} make the Neumann series diverge: the perturbed matrix has an eigenvalue of size "
            f"{size:.3f}, it must be below {1 / c:.3f}; take a smaller eps, rows of equal length "
            f"(nareg.gnn.noise.normalize_rows){remedy}."
        )


def check_definite(M: Operator, like: Any, lam: float, eps: float) -> None:
    """Refuse ``(1 + lam) I - lam M`` that is not positive definite (edge-masked perturbations can do that)."""
    largest = _end(_matvec(M, like), like.shape[0], "LA")
    if lam * largest >= 1 + lam:
        raise DivergentMethodError(
            f"eps = {eps:g} with masked=True makes the system indefinite: the perturbed matrix has eigenvalue {largest:.3f} "
            f"but less than {1 + 1 / lam:.3f} is needed; take a smaller eps or masked=False."
        )


def _matvec(M: Operator, like: Any) -> Any:
    column = like[:, :1]

    def product(v: np.ndarray) -> np.ndarray:
        if isinstance(like, np.ndarray):
            one = np.ascontiguousarray(v.reshape(-1, 1), dtype=like.dtype)
            return M.multiply_add(one, one, 1.0, 0.0, empty_like(one)).ravel().astype(np.float64)
        import torch

        with torch.no_grad():
            Z = torch.as_tensor(v.reshape(-1, 1), dtype=column.dtype, device=column.device).contiguous()
            found: np.ndarray = M.multiply_add(Z, Z, 1.0, 0.0, empty_like(Z)).cpu().numpy().ravel().astype(np.float64)
        return found

    return product


def _end(product: Any, n: int, which: str, tol: float = ACCURACY) -> float:
    """An extreme eigenvalue of a symmetric operator: smallest ("SA"), largest ("LA"), or largest in size ("LM")."""
    if n < 20:
        values = np.linalg.eigvalsh(_dense(product, n))
    else:
        operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
        try:
            values = eigsh(operator, k=1, which=which, v0=_start(n), tol=tol, return_eigenvectors=False)
        except ArpackNoConvergence as unfinished:
            values = unfinished.eigenvalues if unfinished.eigenvalues.size else np.array([-1.0, 1.0])
    return float({"SA": values.min(), "LA": values.max(), "LM": values[np.abs(values).argmax()]}[which])


def _dense(product: Any, n: int) -> np.ndarray:
    return np.column_stack([product(column) for column in np.eye(n)])


def _start(n: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(n)
