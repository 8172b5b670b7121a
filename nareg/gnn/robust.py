"""RNGC's filter: ``M = A~ - eps U U^T / ||U U^T||_F``, U the features, in the place of A~.

The perturbation does not depend on the scale of U, which is divided out first: squares of squares of features would leave
float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core.arrays import (
    differentiated,
    in_transform,
    is_tensor,
    namespace,
    of_all_entries,
    outside_transforms,
    refuse_transform,
)
from nareg._solvers import cg
from nareg._solvers.threads import few_threads
from nareg.errors import InputError
from nareg.gnn import _operators, spectrum
from nareg.gnn._last_graph import object_key
from nareg.gnn._operators import NumpySparse, Operator, Perturbed, TorchSparse, adjacency_operator
from nareg.gnn.adjacency import Adjacency, csr_like
from nareg.gnn.ngc import differentiable, linear, ngc, system
from nareg.gnn.solvers import Chebyshev, ConjugateGradients, Neumann, Solver

#: The perturbation by the last features of a layer, and a key to recognize them.
Memo = dict[Any, Any]


@dataclass(frozen=True)
class PerturbedMatrix:
    """The operator M, the gradient of ``<Y, M Z>`` in U, and a bound of its spectral radius.

    The bound is inf where none is cheap, and 0 of features that are not finite, as where a training diverges.
    """

    operator: Operator
    slope: Callable[[Any, Any, Any], Any]
    bound: float


def rngc(
    adjacency: Any,
    x: Any,
    U: Any,
    *,
    lam: float,
    solver: Solver,
    eps: float,
    masked: bool,
    memo: Memo | None = None,
) -> Any:
    """Series, solve or low-rank formula in the perturbed matrix, checked to converge; arguments are trusted."""
    if not isinstance(solver, Neumann) and not adjacency.is_symmetric:
        raise InputError(
            f"solver={solver!r} with eps > 0 needs a symmetric matrix: prepare the graph with normalization='sym', or pass "
            "solver='neumann'."
        )
    if isinstance(solver, Chebyshev):
        if masked:
            raise InputError("solver='chebyshev' has no edge-masked form: pass solver='cg', or masked=False.")
        return _woodbury(adjacency, x, U, lam, solver, eps)
    perturbed = perturbed_matrix(adjacency, U, lam, solver, eps, masked, memo)
    M, slope = perturbed.operator, perturbed.slope

    def recurrence(op: Operator, B: Any) -> Any:
        if isinstance(solver, Neumann):
            return _operators.neumann(op, B, lam=lam, order=solver.order)
        return cg.solve_exactly(system(op, lam), B, tol=solver.tol)[0]

    if not differentiable(adjacency, U):
        return linear(x, M, recurrence)
    from nareg.gnn._autograd import PerturbedSeries, Solve

    parameters, slopes = [U], [slope]
    if adjacency.is_learned:
        parameters.append(adjacency.entries(adjacency.normalization, x))
        slopes.append(adjacency.slope)
    if isinstance(solver, Neumann):
        refuse_transform("RNGC's series, in features or weights of edges,")
        return PerturbedSeries.apply(x, M, slopes, lam, solver.order, *parameters)

    def solve(B: Any) -> Any:
        return recurrence(M, B)

    of_system = [lambda Y, Z, p, of_M=of_M: -lam * of_M(Y, Z, p) for of_M in slopes]
    return Solve.apply(x, solve, solve, of_system, *parameters)


def perturbed_matrix(
    adjacency: Adjacency, U: Any, lam: float, solver: Solver, eps: float, masked: bool, memo: Memo | None
) -> PerturbedMatrix:
    """The perturbation by these features with its spectrum checked, from the memo where they are the last ones."""
    if is_tensor(U) and in_transform():
        return outside_transforms(lambda V: perturbed_matrix(adjacency, V, lam, solver, eps, masked, None), U.detach())
    fixed = U.detach() if hasattr(U, "detach") else U
    # features that require a gradient are about to change, and finite differences change them unnoticed
    features_key = None if memo is None or differentiated(U) else object_key(U)
    exact = isinstance(solver, ConjugateGradients)  # what is checked does not depend on orders and tolerances
    key = (features_key, lam, exact, eps, masked)
    if memo is not None and features_key is not None:
        last: tuple[Any, PerturbedMatrix] | None = memo.get("last")
        if last is not None and last[0] == key:
            return last[1]
    with few_threads(U.shape[0]):
        perturbed = (_masked if masked else _low_rank)(adjacency, fixed, eps)
        if exact:
            if masked and perturbed.bound > 0:  # U U^T itself is positive semidefinite: the system is definite whatever eps
                spectrum.check_definite(perturbed.operator, fixed, lam, eps)
        else:
            remedy = "" if masked or not adjacency.is_symmetric else ", or solver='cg'"
            which = "any" if not adjacency.is_symmetric else "LM" if masked else "SA"
            spectrum.check_series(perturbed.bound, lam, perturbed.operator, fixed, which=which, eps=eps, remedy=remedy)
    if memo is not None and features_key is not None:
        memo["last"] = key, perturbed  # as one object: threads share the memo
    return perturbed


def _low_rank(adjacency: Adjacency, U: Any, eps: float) -> PerturbedMatrix:
    """``A~ - eps V V^T / ||V V^T||_F`` with V a multiple of U; the second term is formed only where that costs less."""
    V, peak = _scaled(U)
    G = V.T @ V if V.shape[1] <= V.shape[0] else V @ V.T
    size = float((G * G).sum()) ** 0.5 or 1.0  # features that are all zero perturb nothing
    M = Perturbed(adjacency_operator(adjacency, U), V, eps / size)
    bound = np.inf if np.isfinite(peak) else 0.0
    if adjacency.is_symmetric and bound:
        low = spectrum.lowest(adjacency)
        bound = max(1.0, eps - low)
        if len(G) <= 2000 and bound > 1:  # the largest eigenvalue over the Frobenius norm, at most one
            largest = namespace(G).linalg.eigvalsh(G)[-1]
            bound = max(1.0, eps * float(largest) / size - low)

    def slope(Y: Any, Z: Any, parameter: Any) -> Any:
        W = parameter / peak
        a, b = W.T @ Y, W.T @ Z
        cubic = W @ (W.T @ W) if W.shape[1] <= W.shape[0] else (W @ W.T) @ W
        return (-eps / size / peak) * (Y @ b.T + Z @ a.T - (2 * (a * b).sum() / size**2) * cubic)

    return PerturbedMatrix(M, slope, bound)


def _masked(adjacency: Adjacency, U: Any, eps: float) -> PerturbedMatrix:
    """Inner products on the entries of A~ only: neither definite nor of low rank; its spectral norm is at most eps."""
    V, peak = _scaled(U)
    M, slope = masked_operator(adjacency, V, eps)
    bound = 1 + eps if np.isfinite(peak) else 0.0
    return PerturbedMatrix(M, lambda Y, Z, parameter: slope(Y, Z, parameter / peak) / peak, bound)


def _scaled(U: Any) -> tuple[Any, float]:
    """U with its largest entry near one, and what it was divided by: one where that is near enough already."""
    peak = of_all_entries(lambda V: float(abs(V).max()), U) if 0 not in U.shape else 0.0
    return (U, 1.0) if peak == 0 or 1e-4 < peak < 1e4 else (U / peak, peak)


def _woodbury(adjacency: Adjacency, x: Any, U: Any, lam: float, solver: Chebyshev, eps: float) -> Any:
    """The exact RNGC filter from the exact NGC filter H: with ``b = lam eps / ||U U^T||_F``,

        (H^-1 + b U U^T)^-1 x = H x - b H U (I + b U^T H U)^-1 U^T H x,

    which for U = x is ``H x (I + b x^T H x)^-1``: NGC followed by an F x F matrix.
    """
    Y = ngc(adjacency, x, lam=lam, solver=solver)
    V = Y if U is x else ngc(adjacency, U, lam=lam, solver=solver)
    same = U is x
    _, peak = _scaled(U.detach() if hasattr(U, "detach") else U)
    U, V = U / peak, V / peak
    n, F = U.shape
    G = U.T @ U if n >= F else U @ U.T
    size = (G * G).sum() ** 0.5
    b = lam * eps / (size + (size == 0))
    solve, eye = namespace(x).linalg.solve, namespace(x).eye(min(n, F), dtype=x.dtype, device=x.device)
    if n < F:
        return solve(eye + b * (V @ U.T), Y)
    small = eye + b * (U.T @ V)
    if same:
        return solve((small + small.T) / 2, Y.T).T
    return Y - b * (V @ solve(small, U.T @ Y))


#: Numbers gathered at once from each side: so many stay in the cache of a CPU, and so many fill a GPU.
CHUNK, DEVICE_CHUNK = 2**20, 2**25


def masked_operator(adjacency: Adjacency, U: Any, eps: float) -> tuple[Operator, Any]:
    """``A~ - eps P / ||P||_F``, P the entries of ``U U^T`` where A~ has one; and the gradient of its bilinear form in U.

    With p the entries of P and s those of ``Y Z^T`` in the same places, ``<Y, M Z>`` is ``-eps p.s / |p|`` up to a constant,
    and its gradient ``(G + G^T) U``, where G has the entries ``-eps (s / |p| - p (p.s) / |p|^3)``. All of it is computed where
    U is: entries are numbers on the pattern of A~, which is symmetric.
    """
    rows, columns, mirror, entries, matrix, operator = _pattern(adjacency, U)
    p = inner_products(U, U, rows, columns)
    # a learned weight can be zero: no entry, as where it is not listed
    present = entries != 0 if adjacency.is_learned else None
    if present is not None:
        p = p * present
    size = (p * p).sum() ** 0.5
    size = size + (size == 0)

    def slope(Y: Any, Z: Any, V: Any) -> Any:
        s = inner_products(Y, Z, rows, columns)
        if present is not None:
            s = s * present
        g = -eps * (s / size - p * ((p * s).sum() / size**3))
        return matrix(g + g[mirror], V.dtype) @ V

    values = entries - (eps / size) * p
    mirrored = values if adjacency.is_symmetric else values[mirror]
    return operator(matrix(values, U.dtype), matrix(mirrored, U.dtype)), slope


def inner_products(Y: Any, Z: Any, rows: Any, columns: Any) -> Any:
    """``Y_i . Z_j`` for pairs (i, j) in double precision, slice by slice."""
    if isinstance(Y, np.ndarray):
        products: Any = np.empty(rows.size)
        count, chunk = rows.size, CHUNK
        left, right = (lambda _, index: Y[index]), (lambda _, index: Z[index])
    else:
        import torch

        # three times as fast on a CPU as Y[rows]
        left, right = Y.detach().index_select, Z.detach().index_select
        products = torch.empty(rows.shape, dtype=torch.float64, device=Y.device)
        count, chunk = rows.numel(), CHUNK if Y.device.type == "cpu" else DEVICE_CHUNK
    entries = max(1, chunk // max(1, Y.shape[1]))
    for first in range(0, count, entries):
        part = slice(first, first + entries)
        products[part] = (left(0, rows[part]) * right(0, columns[part])).sum(1)
    return products


def _pattern(adjacency: Adjacency, like: Any) -> tuple[Any, ...]:
    """Where A~ has entries, in the library of features and on their device.

    Row, column and mirror of every entry (j, i is in the place ``mirror`` of i, j), its value, the matrix with other values
    in these places (of a dtype), and the operator of two such.
    """
    if isinstance(like, np.ndarray):
        A = adjacency.csr(np.float64)

        def array(values: np.ndarray, dtype: Any) -> sp.csr_array:
            return sp.csr_array((values.astype(dtype), A.indices, A.indptr), shape=A.shape)

        return *adjacency.places, A.data, array, NumpySparse
    import torch

    B = adjacency.tensor(torch.float64, like.device)
    return *adjacency.places_on(like.device), B.values(), lambda values, dtype: csr_like(B, values.to(dtype)), TorchSparse
