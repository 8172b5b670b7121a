"""A sparse factor of a diagonally dominant M-matrix that does not fill: elimination with sampled fill-in.

To eliminate node k is to join its neighbors i and j by edges of weight ``a_ik a_jk / p_k``, a clique. Here a random tree of
at most as many edges as the node had takes the place of the clique. Its expectation is the clique, so the factor is right in
the mean, and the number of edges never grows (Kyng, Sachdeva, "Approximate Gaussian elimination for Laplacians", FOCS 2016;
the tree after Gao, Kyng, Spielman, "Robust and practical solution of Laplacian equations by approximate elimination", 2023).
Each edge is taken apart into ``PARTS`` parallel ones first, so that the trees of a node average.

The matrix is ``diag(e) + sum of a_ij (u_i - u_j)^2`` with e > 0. Like the exact elimination of
:mod:`nareg._solvers.twofold`, this one carries e and the edges and adds non-negative numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import uintp

from nareg._core.compiled import serial

#: Parallel edges per edge. One is faster where the graph has many edges per node (a power-law graph with 20: half the time to
#: build, and 8 iterations for 7), two where few have to carry all (a grid, lam = 1e6: 23 iterations for 30).
PARTS = 2
#: Nodes with at least so many edges are eliminated in any order.
MANY = 1024


@dataclass(frozen=True)
class ApproximateCholesky:
    """``(U D U^T)^-1 ~ H^-1`` for columns, with U triangular in the order of elimination.

    Attributes
    ----------
    order : (N,) array
        Node that was eliminated at each step.
    scale : (N,) array
        v, for which ``diag(v) H diag(v)`` is diagonally dominant, in the order of elimination.
    start, rows, values : arrays
        Columns of ``I - U``, in numbers of steps, of that matrix's factor.
    pivots : (N,) array
        Its D.
    """

    order: np.ndarray
    scale: np.ndarray
    start: np.ndarray
    rows: np.ndarray
    values: np.ndarray
    pivots: np.ndarray

    @classmethod
    def of(
        cls, H: sp.csr_array, scale: np.ndarray, excess: np.ndarray, *, rng: np.random.Generator, parts: int = PARTS
    ) -> ApproximateCholesky:
        """Of H, (N, N), symmetric and not positive beside its diagonal; ``excess`` > 0: row sums of ``diag(v) H diag(v)``."""
        v = sp.diags_array(scale)
        dominant = sp.csr_array(v @ H @ v)
        order, start, nodes, values, pivots = eliminate(dominant.indptr, dominant.indices, -dominant.data, excess, parts, rng)
        step = np.empty(order.size, np.int64)
        step[order] = np.arange(order.size)
        width = np.int32 if values.size < 2**31 else np.int64
        return cls(order, scale[order], start, step[nodes].astype(width), values, pivots)

    @property
    def nnz(self) -> int:
        """Number of entries below the diagonal."""
        return int(self.values.size)

    def solve(self, B: np.ndarray) -> np.ndarray:
        """The factor's inverse times (N, T) B."""
        X = B[self.order] * self.scale[:, None]
        substitute(self.start, self.rows, self.values, self.pivots, X)
        result = np.empty_like(X)
        result[self.order] = X * self.scale[:, None]
        return result


@serial
def link(node, place, first, before, following):  # type: ignore[no-untyped-def]
    """Put a node in front of a list."""
    before[node], following[node] = -1, first[place]
    if first[place] != -1:
        before[first[place]] = node
    first[place] = node


@serial
def unlink(node, place, first, before, following):  # type: ignore[no-untyped-def]
    """Take a node out of its list."""
    if before[node] == -1:
        first[place] = following[node]
    else:
        following[before[node]] = following[node]
    if following[node] != -1:
        before[following[node]] = before[node]


@serial
def halved(indptr, indices, data, parts):  # type: ignore[no-untyped-def]
    """Edges as two halves each, 2 k and 2 k + 1, in a linked list per node, with the lists' lengths."""
    n, count = indptr.size - 1, 0
    for i in range(n):
        for e in range(indptr[i], indptr[i + 1]):
            count += indices[e] > i and data[e] > 0
    end, after = np.empty(2 * parts * count, np.int64), np.empty(2 * parts * count, np.int64)
    weight, head, degree = np.empty(2 * parts * count), np.full(n, -1), np.zeros(n, np.int64)
    h = 0
    for i in range(n):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j > i and data[e] > 0:
                for _ in range(parts):
                    end[h], weight[h] = j, data[e] / parts
                    after[h], head[i] = head[i], h
                    end[h + 1], weight[h + 1] = i, data[e] / parts
                    after[h + 1], head[j] = head[j], h + 1
                    h += 2
                degree[i] += parts
                degree[j] += parts
    return end, after, weight, head, degree


@serial
def heavier(sums, q, chance):  # type: ignore[no-untyped-def]
    """An edge after the q-th, in proportion to weights whose partial sums these are."""
    low, high = q + 1, sums.size - 2
    goal = sums[low] + (sums[-1] - sums[low]) * chance
    while low < high:
        middle = (low + high) // 2
        if sums[middle + 1] > goal:
            high = middle
        else:
            low = middle + 1
    return low


@serial
def join(edges, end, after, weight, head, degree, total, copies, pivot, rng):  # type: ignore[no-untyped-def]
    """The tree: every edge of a node, from the lightest, takes the other end of a heavier one in the place of the node."""
    share = np.empty(edges.size)
    for q in range(edges.size):
        share[q] = total[end[edges[q]]] / copies[end[edges[q]]]
    ascending = np.argsort(share)
    sums = np.zeros(edges.size + 1)
    sums[1:] = np.cumsum(share[ascending])
    for q in range(edges.size):
        h = edges[ascending[q]]
        u = t = end[h]
        if q < edges.size - 1:
            t = end[edges[ascending[heavier(sums, q, rng.random())]]]
        if t == u:  # the heaviest, or two parts of one edge
            weight[h ^ 1] = 0.0
            degree[u] -= 1
        else:
            weight[h] = weight[h ^ 1] = share[ascending[q]] * (sums[-1] - sums[q + 1]) / pivot
            end[h], end[h ^ 1] = u, t
            after[h], head[t] = head[t], h
            degree[t] += 1


@serial
def eliminate(indptr, indices, data, excess, parts, rng):  # type: ignore[no-untyped-def]
    """Order, columns (with nodes for rows) and pivots of the factor.

    The next node is one with the fewest edges. Half ``h`` of an edge stands in the list of one of its ends and ``h ^ 1`` in
    that of the other. The weight of a half is zero once its edge is gone, and it is skipped when its list is read.
    """
    n, excess = excess.size, excess.copy()
    end, after, weight, head, degree = halved(indptr, indices, data, parts)
    first, before, following = np.full(MANY + 1, -1), np.full(n, -1), np.full(n, -1)
    place = np.minimum(degree, MANY)
    for i in range(n):
        link(i, place[i], first, before, following)
    order, pivots, start = np.empty(n, np.int64), np.empty(n), np.zeros(n + 1, np.int64)
    rows, values = np.empty(end.size // parts + n, np.int64), np.empty(end.size // parts + n)
    neighbors, parallel = np.empty(n, np.int64), np.empty(n * parts, np.int64)
    total, copies, size, smallest = np.zeros(n), np.zeros(n, np.int64), 0, 0
    for k in range(n):
        while first[smallest] == -1:
            smallest += 1
        v = first[smallest]
        unlink(v, smallest, first, before, following)
        order[k], pivot, n_neighbors, n_parallel = v, excess[v], 0, 0
        h = head[v]
        while h != -1:
            if weight[h] > 0:
                u = end[h]
                pivot += weight[h]
                if copies[u] == 0:
                    neighbors[n_neighbors] = u
                    n_neighbors += 1
                total[u] += weight[h]
                if copies[u] < parts:
                    copies[u] += 1
                    parallel[n_parallel] = h
                    n_parallel += 1
                else:  # its weight goes to the other parts
                    weight[h ^ 1] = 0.0
                    degree[u] -= 1
            h = after[h]
        pivots[k] = pivot
        if size + n_neighbors > rows.size:
            more = np.empty(rows.size + n_neighbors, np.int64)
            rows = np.concatenate((rows, more))
            values = np.concatenate((values, np.empty(more.size)))
        for u in neighbors[:n_neighbors]:
            rows[size], values[size] = u, total[u] / pivot
            excess[u] += values[size] * excess[v]
            size += 1
        start[k + 1] = size
        join(parallel[:n_parallel], end, after, weight, head, degree, total, copies, pivot, rng)
        for u in neighbors[:n_neighbors]:
            total[u], copies[u] = 0.0, 0
            fitting = min(degree[u], MANY)
            if fitting != place[u]:
                unlink(u, place[u], first, before, following)
                link(u, fitting, first, before, following)
                place[u] = fitting
                smallest = min(smallest, fitting)
    return order, start, rows[:size].copy(), values[:size].copy(), pivots


@serial
def substitute(start, rows, values, pivots, B):  # type: ignore[no-untyped-def]
    """Solve with the factor, in place, for (N, T) in the order of elimination."""
    n, t_end = B.shape
    row = np.empty(t_end)
    for k in range(n):
        for t in range(t_end):
            row[t] = B[k, t]
        for q in range(uintp(start[k]), uintp(start[k + 1])):
            i, a = uintp(rows[q]), values[q]
            for t in range(t_end):
                B[i, t] += a * row[t]
    for k in range(n - 1, -1, -1):
        for t in range(t_end):
            row[t] = B[k, t] / pivots[k]
        for q in range(uintp(start[k]), uintp(start[k + 1])):
            i, a = uintp(rows[q]), values[q]
            for t in range(t_end):
                row[t] += a * B[i, t]
        for t in range(t_end):
            B[k, t] = row[t]
