"""The filter system ``K x = C y`` with ``K = C + S``, built once from what a user may pass.

``S`` is ``diag(w) L diag(w)`` for node weights ``w``, or any sparse symmetric matrix. With ``u = w x`` the
system reads ``(diag(c / w^2) + L) u = c y / w``: for a graph Laplacian that is a symmetric diagonally dominant M-matrix for any
signs and spread of ``w``. Multigrid and the bounds of Jacobi and Chebyshev need that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from nareg._core import checks
from nareg._core.adjacency import refuse_foreign
from nareg._core.arrays import as_numpy, ratio
from nareg._core.sparse_checks import whole_sparse
from nareg._solvers.eigenvalues import extreme_eigenvalue
from nareg._storage.graph_files import StoredGraph
from nareg.errors import InputError, SingularSystemError
from nareg.graph import Graph, operator_hash
from nareg.results import WeightDesign

EPSILON = float(np.finfo(float).eps)
#: Columns whose residual is computed at a time.
COLUMNS = 16
#: What no semidefinite matrix has.
ZERO_DIAGONAL = "a zero on its diagonal with entries beside it"


@dataclass(frozen=True)
class Penalty:
    """A symmetric positive semidefinite ``L`` and what is known about it.

    ``is_laplacian`` says that L is a diagonally dominant M-matrix: a Laplacian, or one plus a diagonal.
    """

    L: sp.csr_array
    is_laplacian: bool
    describe_node: Callable[[int], str]
    names: tuple[str, ...] | None = None

    @property
    def n_nodes(self) -> int:
        return int(self.L.shape[0])


def penalty(graph: Any) -> Penalty:
    """``L`` of a Graph (combinatorial), or a user's symmetric PSD operator, checked."""
    if isinstance(graph, Penalty):
        return graph
    if isinstance(graph, Graph):
        return Penalty(graph.laplacian(), True, graph.describe_node, graph.names)
    if isinstance(graph, (StoredGraph, str, os.PathLike)):
        raise InputError("graph is in a folder, which filters.denoise takes: pass nareg.Graph.load(path) here, if it fits.")
    checks.refuse_gradient("graph", graph)
    graph = as_numpy(graph)
    if not sp.issparse(graph):
        refuse_foreign("graph", graph)
        dense = checks.floats("graph", graph, ndim=(2,))
        checks.dense_size("a dense operator", dense.shape[0], alternative="pass it as a scipy sparse matrix")
        graph = sp.csr_array(dense)
    matrix = _symmetric("graph", graph)
    n = matrix.shape[0]
    if (matrix.diagonal() < 0).any():
        raise InputError("graph (an operator) has a negative diagonal entry: it must be positive semidefinite.")
    if n <= checks.DENSE_LIMIT:
        lowest = checks.least_relative_eigenvalue(matrix.toarray())
        rounding = max(1e-9, 100 * float(np.finfo(graph.dtype).eps)) if graph.dtype.kind == "f" else 1e-9
        if lowest < -rounding * n:
            what = f"the eigenvalue {lowest:g} (its diagonal scaled to ones)" if np.isfinite(lowest) else ZERO_DIAGONAL
            raise InputError(
                f"graph (an operator) has {what}: it must be positive semidefinite; "
                "pass a Laplacian, or an adjacency through nareg.Graph."
            )
    elif not _is_dominant(matrix):
        lowest, size = _lowest_estimate(matrix)
        if lowest < -1e-8 * size:
            scaled = f"x^T L x = {lowest:g} ||x||^2 for some x (its diagonal scaled to ones)"
            raise InputError(
                f"graph (an operator) has {scaled if np.isfinite(lowest) else ZERO_DIAGONAL}: it must be positive "
                "semidefinite; pass a Laplacian, or an adjacency through nareg.Graph."
            )
    return Penalty(matrix, is_laplacian(matrix), lambda i: f"node {i}")


def _lowest_estimate(matrix: sp.csr_array) -> tuple[float, float]:
    """The smallest Rayleigh quotient of about a hundred Lanczos steps, and a bound on the largest.

    The matrix's diagonal is scaled to ones first. A negative quotient refutes semidefiniteness.
    """
    diagonal = matrix.diagonal()
    inverse = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = scale_symmetric(matrix, inverse)
    size = float(np.max(np.asarray(abs(scaled).sum(axis=1)).ravel()))
    if abs(matrix[diagonal == 0]).sum() > 0:
        return -np.inf, size
    lowest = extreme_eigenvalue(scaled, "SA", tol=1e-3, max_iterations=20)
    return np.inf if lowest is None else lowest, size


def is_laplacian(matrix: sp.csr_array) -> bool:
    """Zero row sums and no positive off-diagonal entry: a combinatorial Laplacian."""
    sums = np.abs(np.asarray(matrix.sum(axis=1)).ravel())
    off = matrix - sp.diags_array(matrix.diagonal())
    return bool((sums <= 1e-10 * np.abs(matrix.diagonal())).all() and (off.nnz == 0 or off.max() <= 0))


@dataclass(frozen=True)
class FilterSystem:
    """``K = diag(c) + S`` with the parts that the solvers need.

    ``w`` is None when a user passed ``S`` itself; then nothing beyond symmetry is known about it.
    """

    S: sp.csr_array
    c: np.ndarray
    w: np.ndarray | None
    penalty: Penalty

    @property
    def n_nodes(self) -> int:
        return int(self.c.size)

    @property
    def sdd(self) -> bool:
        """Whether ``u = w x`` makes the system symmetric diagonally dominant."""
        return self.w is not None and self.penalty.is_laplacian

    @cached_property
    def K(self) -> sp.csr_array:
        matrix = sp.csr_array(self.S + sp.diags_array(self.c))
        matrix.sort_indices()
        return matrix

    @cached_property
    def diagonal(self) -> np.ndarray:
        return self.K.diagonal()

    @cached_property
    def order(self) -> np.ndarray | None:
        """A node order that brings neighbors together in memory, where the given one scatters them; else None.

        With 16 signals a neighbor's row is two cache lines: on a sensor graph of 10^5 nodes in random order the
        product with K is 2.6 times faster after reverse Cuthill-McKee, which costs about four products.
        """
        n = self.n_nodes
        if n < 20_000 or self.max_degree > 200:
            return None
        sample = np.arange(0, n, max(n // 10_000, 1))
        part = self.K[sample]
        if np.abs(np.repeat(sample, np.diff(part.indptr)) - part.indices).mean() < 8 * np.sqrt(n):
            return None
        return reverse_cuthill_mckee(sp.csr_matrix(self.K), symmetric_mode=True)

    @cached_property
    def ordered_K(self) -> sp.csr_array:
        """K with its nodes in :attr:`order`."""
        if self.order is None:
            return self.K
        matrix = sp.csr_array(self.K[self.order][:, self.order])
        matrix.sort_indices()
        return matrix

    @cached_property
    def n_directed_edges(self) -> int:
        """Numbers sent in one round in which every node sends its value to its neighbors in S."""
        return int((self.S.data != 0).sum() - (self.S.diagonal() != 0).sum())

    @cached_property
    def max_degree(self) -> int:
        return int(np.diff(self.S.indptr).max(initial=0))

    @cached_property
    def mesh_like(self) -> bool:
        """Whether balls grow as in a mesh: a search from some node needs many levels to see all it can.

        An expander or a power-law graph is exhausted in a few levels; a d-dimensional mesh of n nodes
        takes about n^(1/d). Cholesky factors and algebraic multigrid stay sparse on meshes only.
        """
        if self.n_nodes < 2000:
            return True
        if self.max_degree > 200:
            return False
        from nareg._solvers import search  # numba: imported when first needed

        S, enough = self.S, 0.5 * self.n_nodes ** (1 / 3)
        start = int(np.argmax(np.diff(S.indptr)))
        levels, count, _ = search.levels(S.indptr, S.indices, S.data, start, int(np.ceil(enough)))
        return bool(levels >= min(enough, 0.5 * count ** (1 / 3)))

    @cached_property
    def diameter(self) -> int:
        """Steps between two nodes that are about as far apart as any in their component: of two searches, one after another."""
        from nareg._solvers import search

        S, start = self.S, int(np.argmax(np.diff(self.S.indptr)))
        for _ in range(2):
            steps, _, start = search.levels(S.indptr, S.indices, S.data, start, self.n_nodes)
        return int(steps)

    @property
    def coupling(self) -> sp.csr_array:
        """P of ``S = diag(v) P diag(v)``, with v the :attr:`coupling_weights`: L, or S itself."""
        return self.S if self.w is None else self.penalty.L

    @property
    def coupling_weights(self) -> np.ndarray:
        """The node weights, or ones."""
        return np.ones(self.n_nodes) if self.w is None else self.w

    @cached_property
    def coupling_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Row sums of :attr:`coupling` to twice the precision: rounded, and the rest."""
        from nareg._solvers import twofold  # numba: imported when first needed

        P = self.coupling
        high, low = twofold.row_sums(P.indptr, P.data)
        if self.sdd:
            # a Laplacian's row sums are zero: what is left of them is the rounding of its diagonal
            rounding = EPSILON * (np.diff(P.indptr) + 2) * P.diagonal()
            high = np.where(np.abs(high) <= rounding, 0.0, high)
            low = np.zeros_like(high)
        return high, low

    @property
    def absolute(self) -> sp.csr_array:
        """``|K|``, entry by entry."""
        return sp.csr_array((np.abs(self.K.data), self.K.indices, self.K.indptr), shape=self.K.shape)

    @cached_property
    def rounding(self) -> np.ndarray:
        """What rounding adds at most to an entry of ``rhs - K x``, as a share of ``|K| |x|`` there."""
        share: np.ndarray = EPSILON * (3 * np.diff(self.K.indptr) + 10)
        return share

    @cached_property
    def _largest_rounding(self) -> np.ndarray:
        """Norms of what rounding adds at most to ``rhs - K x`` for entries of size one, and of that over the diagonal."""
        return np.sqrt(self._squares((self.rounding * (self.absolute @ np.ones(self.n_nodes)))[:, None]))[:, 0]

    @cached_property
    def _positive_diagonal(self) -> np.ndarray:
        return np.where(self.diagonal > 0, self.diagonal, 1.0)

    def rounds_away(self, peak: np.ndarray, norms: np.ndarray, level: float, added: Callable[[], np.ndarray]) -> bool:
        """Whether residuals of K for x of these sizes (T,) could be off by a tenth of ``level`` of these norms (2, T).

        ``added`` gives the norms (2, T) of what rounding adds at most for x itself, which takes a product: beside a hub it is
        thousands of times less than for any x of its size.
        """
        most = 0.1 * level * norms
        return bool((self._largest_rounding[:, None] * peak > most).any() and (added() > most).any())

    def _squares(self, V: np.ndarray) -> np.ndarray:
        """(2, T) sums of squares of columns, and of columns over the diagonal."""
        # einsum makes no temporary of the signals' size
        return np.array([np.einsum("it,it->t", V, V), np.einsum("it,it,i->t", V, V, self._positive_diagonal**-2)])

    def residuals(self, x: np.ndarray, rhs: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """``||rhs - K x|| / ||rhs||`` of each column, and the same with both scaled by D^-1; zero for a zero column.

        ``level`` is what they are compared with: where the rounding of K might decide, they come from its parts.
        """

        def added() -> np.ndarray:
            return np.sqrt(self._squares(self.rounding[:, None] * (self.absolute @ np.abs(x))))

        below = self._squares(rhs)
        if self.rounds_away(np.abs(x).max(axis=0, initial=0.0), np.sqrt(below), level, added):
            left = self.residual_of_parts(x, rhs)
        else:
            left = self.K @ x
            np.subtract(rhs, left, out=left)
        plain, scaled = np.sqrt(ratio(self._squares(left), below))
        return plain, scaled

    def residual_of_parts(self, x: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """``rhs - C x - diag(w) L diag(w) x``, right to rounding however small C is beside the rest."""
        from nareg._solvers import twofold

        P, w, (high, low) = self.coupling, self.coupling_weights, self.coupling_sums
        left = np.empty_like(rhs)
        for first in range(0, rhs.shape[1], COLUMNS):
            some = slice(first, first + COLUMNS)
            X, B = np.ascontiguousarray(x[:, some]), np.ascontiguousarray(rhs[:, some])
            U, V, R = (np.empty_like(X) for _ in range(3))
            twofold.scale(w, X, U, V)
            twofold.residual(P.indptr, P.indices, P.data, high, low, w, self.c, B, X, np.zeros_like(X), U, V, R)
            left[:, some] = R
        return left


def filter_matrix(system: FilterSystem, *, what: str) -> np.ndarray:
    """Dense ``H = K^-1 C``, refused unless K is positive definite with a condition number below 1e13."""
    K = system.K.toarray()
    try:
        inverse = cho_solve(cho_factor(K, lower=True), np.eye(len(K)))
        condition = float(np.linalg.norm(K, 1) * np.linalg.norm(inverse, 1))
    except (np.linalg.LinAlgError, ValueError):
        condition = np.inf
    if not condition < 1e13:
        raise SingularSystemError(
            f"weights make C + S indefinite or too ill-conditioned for {what} (condition number {condition:.1e}): "
            "take smaller weights, or check S."
        )
    return inverse * system.c


def scale_symmetric(matrix: sp.csr_array, w: np.ndarray) -> sp.csr_array:
    """``diag(w) matrix diag(w)`` in one pass over the entries."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return sp.csr_array((matrix.data * w[rows] * w[matrix.indices], matrix.indices, matrix.indptr), shape=matrix.shape)


def data_term(data_weight: Any, weights: Any, n_nodes: int) -> np.ndarray:
    """The data-term weights ``c``: ``data_weight``, else the design's own, else ones."""
    if isinstance(data_weight, str):
        raise InputError(
            f"data_weight is {data_weight!r}: names are for designs; here pass the array itself, for example 1 / variance."
        )
    if isinstance(weights, WeightDesign) and weights.n_nodes != n_nodes:
        raise InputError(f"weights is a design for {weights.n_nodes} nodes but the graph has {n_nodes}: design again.")
    if data_weight is None:
        data_weight = weights.data_weight if isinstance(weights, WeightDesign) and weights.data_weight is not None else 1.0
    c = checks.nonnegative_vector(
        "data_weight", data_weight, n_nodes, why="pass weights of at least 0, where 0 means not observed"
    )
    if not c.any():
        raise InputError("data_weight is zero everywhere: at least one node needs a data term.")
    return c


def build(base: Penalty, weights: Any, c: np.ndarray) -> FilterSystem:
    """Check the weights and assemble ``K = C + S``; ``c`` comes from :func:`data_term`."""
    n = base.n_nodes
    w: np.ndarray | None
    if isinstance(weights, WeightDesign):
        if weights.graph_hash != operator_hash(base.L):
            raise InputError(
                "weights is a design for another graph of the same size (its hash differs): design again for this one."
            )
        w = None if weights.has_edge_weights else weights.weights
        S = weights.matrix if w is None else scale_symmetric(base.L, w)
    elif sp.issparse(weights) or (isinstance(weights, np.ndarray) and weights.ndim == 2):
        w = None
        if weights.shape in ((n, 1), (1, n)) and n > 1:
            raise InputError(f"weights has shape {weights.shape}: pass weights.ravel() for one weight per node.")
        matrix = weights if sp.issparse(weights) else sp.csr_array(checks.floats("weights", weights, ndim=(2,)))
        S = _symmetric("weights", matrix)
        if S.shape[0] != n:
            raise InputError(f"weights (a matrix S) has shape {S.shape} but the graph has {n} nodes: pass ({n}, {n}).")
    else:
        entries = np.size(weights)
        if entries > n > 1 and entries == n + sp.triu(base.L, 1).nnz:
            raise InputError(f"weights has {entries} numbers, as an edge design on this graph: pass the design, or its matrix.")
        w = checks.node_vector("weights", weights, n)
        with np.errstate(over="ignore"):
            S = scale_symmetric(base.L, w)
        if not np.isfinite(S.data).all():
            i = int(np.argmax(np.abs(w)))
            raise InputError(
                f"weights[{i}] is {w[i]:g}, too large: an entry of S = diag(w) L diag(w) overflows; take smaller weights."
            )
    system = FilterSystem(S=S, c=c, w=w, penalty=base)
    refuse_singular(system)
    if w is None and _is_dominant(S):
        # what holds for a Laplacian with unit weights holds for S: every solver is allowed
        return replace(system, w=np.ones(n), penalty=Penalty(S, True, base.describe_node, base.names))
    return system


def _is_dominant(S: sp.csr_array) -> bool:
    """No positive off-diagonal entry and no negative row sum, within rounding: a diagonally dominant M-matrix."""
    off = S - sp.diags_array(S.diagonal())
    sums = np.asarray(S.sum(axis=1)).ravel()
    return bool((off.nnz == 0 or off.max() <= 0) and (sums >= -1e-12 * np.abs(S.diagonal())).all())


def _symmetric(name: str, value: Any) -> sp.csr_array:
    if value.dtype.kind not in "fiu":
        raise InputError(f"{name} has dtype {value.dtype}, real numbers are expected.")
    whole_sparse(name, value)
    matrix = sp.csr_array(value.astype(np.float64))  # entries that are listed twice are added: not in a narrow integer type
    matrix.sum_duplicates()
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{name} has shape {matrix.shape}, a square matrix is expected.")
    if matrix.shape[0] == 0:
        raise InputError(f"{name} is a matrix without rows: a graph needs at least one node.")
    if not np.isfinite(matrix.data).all():
        raise InputError(f"{name} holds a value that is not finite: replace it.")
    gap = sp.coo_array(abs(matrix - matrix.T))
    rounding = max(1e-10, 4 * float(np.finfo(value.dtype).eps)) if value.dtype.kind == "f" else 1e-10
    if gap.nnz:
        # entry by entry: a faint block beside large entries is not rounding
        i, j = gap.coords
        size = np.sqrt(np.abs(matrix.diagonal()))
        entries = sp.csr_array(abs(matrix).maximum(abs(matrix).T))[i, j]
        excess = gap.data - rounding * np.maximum(size[i] * size[j], np.asarray(entries).ravel())
        if excess.max() > 0:
            raise InputError(
                f"{name} is not symmetric (largest difference {gap.data[excess > 0].max():g}): pass ({name} + {name}.T) / 2, "
                "or laplacian('normalized') in place of the random-walk Laplacian."
            )
        matrix = sp.csr_array((matrix + matrix.T) / 2)
    matrix.sort_indices()
    return matrix


def refuse_singular(system: FilterSystem) -> None:
    """Name a component of S's own support that has no data term.

    K is singular there, or (where weights of zero cut the component off) would pull its values to zero.
    """
    if (system.c > 0).all():
        return
    support = system.S.copy()
    support.eliminate_zeros()
    labels = connected_components(support, directed=False)[1]
    anchored = np.zeros(labels.max() + 1, dtype=bool)
    anchored[labels[system.c > 0]] = True
    for label in np.flatnonzero(~anchored):
        nodes = np.flatnonzero(labels == label)
        if not system.sdd:
            # a general S may be positive definite on the component by itself
            checks.dense_size("checking a component without data", nodes.size, alternative="give it a data term")
            part = support[nodes][:, nodes].toarray()
            if (np.diagonal(part) > 0).all() and checks.least_relative_eigenvalue(part) > 1e-12:
                continue
        shown = ", ".join(system.penalty.describe_node(int(i)) for i in nodes[:3]) + (", ..." if nodes.size > 3 else "")
        raise SingularSystemError(
            f"observed (data_weight) has no reading on a connected part of S ({nodes.size} of {system.n_nodes} nodes: "
            f"{shown}): observe one of its nodes, connect it with non-zero weights, or drop it (graph.subgraph)."
        )
