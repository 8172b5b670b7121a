"""Extreme eigenvalues of symmetric matrices and operators: dense where small, else Lanczos from a fixed start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

from nareg.errors import SolverError

#: Up to here a dense eigendecomposition is as fast as Lanczos, and cannot fail.
DENSE = 500

#: (N, N): an array, a SciPy sparse matrix or a LinearOperator.
Matrix = Any


def start_vector(n: int) -> np.ndarray:
    """The same start every time, so that the answer is; not constant, which a Laplacian would annihilate."""
    return np.random.default_rng(0).standard_normal(n)


def operator(product: Callable[[np.ndarray], np.ndarray], n: int) -> LinearOperator:
    """A symmetric (n, n) operator from its product with a vector."""
    return LinearOperator((n, n), matvec=product, dtype=np.float64)


def extreme_eigenvalue(
    matrix: Matrix,
    which: str,
    *,
    tol: float = 1e-6,
    dense: int = DENSE,
    start: np.ndarray | None = None,
    max_iterations: int | None = None,
) -> float | None:
    """Smallest (``"SA"``), largest (``"LA"``) or in size largest (``"LM"``) eigenvalue of a symmetric matrix.

    Dense up to ``dense`` nodes. Lanczos comes from inside the spectrum: a largest eigenvalue is a lower bound. Where it does
    not converge the answer is the best estimate so far, or None if there is none.
    """
    n = matrix.shape[0]
    if n <= dense or n < 3:
        values = np.linalg.eigvalsh(as_dense(matrix))
    else:
        v0 = start_vector(n) if start is None else start
        try:
            values = eigsh(matrix, k=1, which=which, v0=v0, tol=tol, maxiter=max_iterations, return_eigenvectors=False)
        except ArpackNoConvergence as unfinished:
            values = unfinished.eigenvalues
        except ArpackError:
            return None
        if not values.size:
            return None
    return float({"SA": values.min(), "LA": values.max(), "LM": values[np.abs(values).argmax()]}[which])


def extreme_eigenvectors(matrix: Matrix, k: int, which: str = "LA", *, tol: float) -> tuple[np.ndarray, np.ndarray] | None:
    """K extreme eigenvalues, (k,) in rising order, and eigenvectors, (N, k), by Lanczos; None where it does not converge."""
    try:
        values, vectors = eigsh(matrix, k=k, which=which, v0=start_vector(matrix.shape[0]), tol=tol)
    except ArpackError:
        return None
    return values, vectors


def smallest_eigenvectors(matrix: sp.csr_array, k: int, *, dense: int) -> tuple[np.ndarray, np.ndarray]:
    """K smallest eigenvalues, (k,) in rising order, and eigenvectors, (N, k), of a positive semidefinite matrix.

    Dense up to ``dense`` nodes, else Lanczos, shifted to just below zero and inverted: the smallest converge first.
    """
    n = matrix.shape[0]
    if n <= dense:
        values, vectors = np.linalg.eigh(as_dense(matrix))
        return values[:k], vectors[:, :k]
    shift = -1e-3 * (float(matrix.diagonal().mean()) or 1.0)
    try:
        values, vectors = eigsh(matrix.tocsc(), k=k, sigma=shift, v0=start_vector(n))
    except ArpackError as error:
        raise SolverError(f"the {k} smallest eigenvalues of {n} nodes did not converge ({error}): ask for fewer.") from None
    order = np.argsort(values)
    return values[order], vectors[:, order]


def as_dense(matrix: Matrix) -> np.ndarray:
    """The matrix as an array; an operator column by column."""
    if isinstance(matrix, np.ndarray):
        return matrix
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix @ np.eye(matrix.shape[0]))
