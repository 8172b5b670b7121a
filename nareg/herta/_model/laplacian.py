"""The Laplacian of an unfolded network: "augmented", "combinatorial", or a matrix in its place."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from nareg._core import checks
from nareg._core.arrays import as_numpy
from nareg._operator import penalty
from nareg.errors import InputError
from nareg.gnn.adjacency import Adjacency, GraphInput, as_adjacency

KINDS = ("augmented", "combinatorial")
#: A Laplacian, or a positive semidefinite matrix in its place.
OPERATORS = (*KINDS, "operator")
#: Relative accuracy of the largest eigenvalue, and the margin on it, because Lanczos approaches from below.
ACCURACY, MARGIN = 1e-2, 1.02


def checked_kind(kind: str, kinds: tuple[str, ...] = KINDS) -> str:
    """One of the kinds of L; "normalized" is another Laplacian in nareg."""
    if kind == "normalized":
        raise InputError('kind is "normalized", which names the Laplacian without self-loops: pass "augmented".')
    return checks.choice("kind", kind, kinds)


def laplacian_of(graph: GraphInput, kind: str, n_nodes: int | None = None) -> sp.csr_array:
    """L of a graph in any form that :class:`~nareg.gnn.Adjacency` takes; for "operator" the matrix itself, checked."""
    if kind == "operator":
        L = penalty(as_numpy(graph)).L
        if n_nodes is not None and L.shape[0] != n_nodes:
            raise InputError(f"graph has shape {L.shape} but there are {n_nodes} rows of features: pass one row per node.")
        return L
    adjacency = adjacency_of(graph, n_nodes)
    return adjacency.augmented_laplacian if kind == "augmented" else adjacency.laplacian


def scaled_laplacian_of(graph: GraphInput, kind: str, n_nodes: int | None = None) -> tuple[sp.csr_array, np.ndarray | None]:
    """L, and what the augmented one takes to zero, ``D~^1/2 1``. Others take ones to zero, or nothing is known of them."""
    if kind != "augmented":
        return laplacian_of(graph, kind, n_nodes), None
    adjacency = adjacency_of(graph, n_nodes)
    return adjacency.augmented_laplacian, np.sqrt(adjacency.degrees)


def adjacency_of(graph: GraphInput, n_nodes: int | None = None) -> Adjacency:
    """The adjacency of a graph; an :class:`~nareg.gnn.Adjacency` as it is."""
    if n_nodes is not None:
        return as_adjacency(graph, n_nodes)
    return graph if isinstance(graph, Adjacency) else Adjacency(graph)


def largest_eigenvalue(L: sp.csr_array) -> float:
    """An upper bound of the spectrum of a Laplacian: Gershgorin's, or Lanczos' with a margin where that is lower."""
    gershgorin = float(np.asarray(abs(L).sum(axis=1)).max(initial=0.0))
    if L.shape[0] < 20 or gershgorin == 0:
        return gershgorin
    start = np.random.default_rng(0).standard_normal(L.shape[0])
    try:
        result = float(eigsh(L, k=1, which="LA", v0=start, tol=ACCURACY, return_eigenvectors=False)[0])
    except ArpackNoConvergence:
        return gershgorin
    return min(gershgorin, MARGIN * result)
