"""The filter system ``K = C + diag(w) L diag(w)`` of a graph on disk, with a diagonal of ones.

K itself is never formed: with ``D = diag(K) = c + w^2 d`` (d the degrees) and ``s = w / sqrt(D)``,

    D^-1/2 K D^-1/2 = I - diag(s) A diag(s),

so that products take the stored adjacency and two numbers per node. Jacobi-preconditioned conjugate gradients on K are plain
conjugate gradients on this matrix.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nareg._core import checks
from nareg._core.compiled import serial
from nareg._solvers._disk.streaming import EdgeStream
from nareg._storage import array_files
from nareg._storage.graph_files import StoredGraph
from nareg._storage.signals import existing
from nareg.errors import InputError, SingularSystemError
from nareg.results import WeightDesign

#: Smaller s leave the float32 directions of conjugate gradients, its multiples, no room: such nodes keep what they have read.
SMALLEST = 1e-24


@dataclass(frozen=True)
class StoredSystem:
    """``I - diag(s) A diag(s)``, its scaling, and what the right-hand sides are multiplied by.

    The iteration leaves nodes whose s is below :data:`SMALLEST` at ``c_i y_i / K_ii``. Residuals count their coupling: what is
    nothing to a node may be all that its neighbor has.
    """

    edges: EdgeStream
    s: np.ndarray
    diagonal: np.ndarray
    c: np.ndarray

    @property
    def n_nodes(self) -> int:
        return int(self.s.size)

    @cached_property
    def leaves_some(self) -> bool:
        """Whether it leaves any."""
        return bool((np.abs(self.s) < SMALLEST).any())

    def is_left(self, place: slice) -> np.ndarray:
        """Which of some nodes the iteration leaves."""
        return np.abs(self.s[place]) < SMALLEST


def system(graph: StoredGraph, weights: Any, data_weight: Any) -> StoredSystem:
    """Check weights and data term; one pass over the edges for the degrees, and one more where nodes have no data."""
    n = graph.n_nodes
    if isinstance(weights, WeightDesign):
        raise InputError(
            "weights is a design: pass design.weights, and data_weight=design.data_weight, for the graph that it was made for."
        )
    w = _vector("weights", weights, n)
    c = np.broadcast_to(1.0, n) if data_weight is None else _vector("data_weight", data_weight, n)
    if (c < 0).any():
        i = int((c < 0).argmax())
        raise InputError(f"data_weight[{i}] is {c[i]:g}, negative: pass weights of at least 0, where 0 means not observed.")
    edges = EdgeStream(graph)
    diagonal = edges.degrees()
    with np.errstate(over="ignore"):
        diagonal *= w
        diagonal *= w
    if not np.isfinite(diagonal).all():
        i = int(np.abs(w).argmax())
        raise InputError(f"weights[{i}] is {w[i]:g}, too large: w^2 times the degree overflows; take smaller weights.")
    if not (c > 0).all():
        refuse_without_data(edges, w != 0, c > 0)
    diagonal += c
    w /= np.sqrt(diagonal)
    return StoredSystem(edges, w, diagonal, c)


def _vector(name: str, value: Any, n_nodes: int) -> np.ndarray:
    """(N,) float64, of a number, an array, or an ``.npy`` file."""
    if isinstance(value, (str, os.PathLike)):
        value = array_files.read_npy(existing(name, value))
    return checks.node_vector(name, value, n_nodes)


def refuse_without_data(edges: EdgeStream, coupled: np.ndarray, observed: np.ndarray) -> None:
    """Refuse a connected part (over edges between coupled nodes) that has no observed node.

    K is singular there, or (where weights of zero cut the part off) would pull its values to zero.

    One pass over the edges, and one number per node.
    """
    parent = np.arange(coupled.size)
    for part in edges.rows():
        _join(part.indptr, part.indices, part.first, coupled, parent)
    node = int(_without_data(parent, observed))
    if node >= 0:
        raise SingularSystemError(
            f"data_weight is zero on the whole connected part of the graph that holds node {node}: observe one of its nodes, "
            "connect it with non-zero weights, or drop it."
        )


@serial
def _root(parent, i):  # type: ignore[no-untyped-def]
    """The first node of i's part; paths to it are halved."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@serial
def _join(indptr, indices, first, coupled, parent):  # type: ignore[no-untyped-def]
    for i in range(indptr.size - 1):
        if not coupled[first + i]:
            continue
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j < first + i and coupled[j]:
                a, b = _root(parent, first + i), _root(parent, j)
                parent[max(a, b)] = min(a, b)


@serial
def _without_data(parent, observed):  # type: ignore[no-untyped-def]
    """A node of a part in which none is observed, or -1."""
    anchored = np.zeros(parent.size, np.bool_)
    for i in range(parent.size):
        if observed[i]:
            anchored[_root(parent, i)] = True
    for i in range(parent.size):
        if not anchored[_root(parent, i)]:
            return i
    return -1
