"""The filter system ``K = C + diag(w) L diag(w)`` of a graph on disk, with a diagonal of ones.

K itself is never formed: with ``D = diag(K) = c + w^2 d`` (d the degrees) and ``s = w / sqrt(D)``,

    D^-1/2 K D^-1/2 = I - diag(s) A diag(s),

so that products take the stored adjacency and two numbers per node. Jacobi-preconditioned conjugate gradients on K are plain
conjugate gradients on this matrix.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from nareg import _array_files, _checks
from nareg._graph_files import StoredGraph
from nareg.errors import InputError
from nareg.outofcore._components import refuse_without_data
from nareg.outofcore._signals import existing
from nareg.outofcore._streaming import EdgeStream
from nareg.results import WeightDesign

#: Below this share of a node's diagonal that couples it to its neighbors, the coupling is less than float64 rounding.
UNCOUPLED = 1e-16


@dataclass(frozen=True)
class StoredSystem:
    """``I - diag(s) A diag(s)``, its scaling, and what the right-hand sides are multiplied by.

    ``s`` is zero at nodes whose weight couples them to no neighbor: their equation is ``K_ii x_i = c_i y_i``.
    """

    edges: EdgeStream
    s: np.ndarray
    diagonal: np.ndarray
    c: np.ndarray

    @property
    def n_nodes(self) -> int:
        return int(self.s.size)


def system(graph: StoredGraph, weights: Any, fit: Any) -> StoredSystem:
    """Check weights and data term; one pass over the edges for the degrees, and one more where nodes have no data."""
    n = graph.n_nodes
    if isinstance(weights, WeightDesign):
        raise InputError("weights is a design: pass design.weights, and fit=design.fit, for the graph that it was made for.")
    w = _vector("weights", weights, n)
    c = np.broadcast_to(1.0, n) if fit is None else _vector("fit", fit, n)
    if (c < 0).any():
        i = int((c < 0).argmax())
        raise InputError(f"fit[{i}] is {c[i]:g}, negative: pass weights of at least 0, where 0 means not observed.")
    edges = EdgeStream(graph)
    diagonal = edges.degrees()
    with np.errstate(over="ignore"):
        diagonal *= w
        diagonal *= w
    if not np.isfinite(diagonal).all():
        i = int(np.abs(w).argmax())
        raise InputError(f"weights[{i}] is {w[i]:g}, too large: w^2 times the degree overflows; take smaller weights.")
    uncoupled = diagonal <= UNCOUPLED * c
    diagonal += c
    np.divide(w, np.sqrt(diagonal), out=w, where=~uncoupled)
    w[uncoupled] = 0.0
    if not (c > 0).all():
        refuse_without_data(edges, w != 0, c > 0)
    return StoredSystem(edges, w, diagonal, c)


def _vector(name: str, value: Any, n_nodes: int) -> np.ndarray:
    """(N,) float64, of a number, an array, or an ``.npy`` file."""
    if isinstance(value, (str, os.PathLike)):
        value = _array_files.read_npy(existing(name, value))
    return _checks.node_vector(name, value, n_nodes)
