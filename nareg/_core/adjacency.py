"""Checks of an adjacency matrix and of node numbers that come from a user; Laplacians and hashes of matrices."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._core.arrays import as_numpy
from nareg._core.sparse_checks import whole_sparse
from nareg.errors import InputError


def checked(value: Any) -> sp.csr_array:
    """A user's adjacency as canonical CSR, float64: square, symmetric, non-negative, finite, zero diagonal."""
    refuse_foreign("adjacency", value)
    value = as_numpy(value)
    # rounding in the user's own dtype is no asymmetry
    tolerance = 1e-12
    if sp.issparse(value):
        if value.dtype.kind not in "fiub":
            raise InputError(f"adjacency has dtype {value.dtype}, real weights are expected.")
        if value.ndim != 2:
            raise InputError(f"adjacency has shape {value.shape}, it must be square.")
        whole_sparse("adjacency", value)
        if value.dtype.kind == "f":
            tolerance = max(tolerance, 4 * float(np.finfo(value.dtype).eps))
        # entries that are listed twice are added: not in a narrow integer type
        matrix = sp.csr_array(value if value.dtype.kind == "b" else value.astype(np.float64)).astype(np.float64)
        matrix.sum_duplicates()
    else:
        dense = value.astype(float) if isinstance(value, np.ndarray) and value.dtype == bool else value
        checked = checks.floats("adjacency", dense, ndim=(2,), remedy="drop that edge")
        tolerance = max(tolerance, 4 * float(np.finfo(checked.dtype).eps))
        matrix = sp.csr_array(checked.astype(np.float64))
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"adjacency has shape {matrix.shape}, it must be square.")
    if matrix.shape[0] == 0:
        raise InputError("adjacency is empty: a graph needs at least one node.")
    if not np.isfinite(matrix.data).all():
        i, j = _entry(matrix, ~np.isfinite(matrix.data))
        raise InputError(f"adjacency[{i}, {j}] is {matrix[i, j]}: values must be finite; drop that edge.")
    if (matrix.data < 0).any():
        i, j = _entry(matrix, matrix.data < 0)
        raise InputError(f"adjacency[{i}, {j}] is {matrix[i, j]:g}: edge weights must not be negative.")
    if matrix.nnz and matrix.data.max() > np.finfo(float).max / matrix.shape[0]:
        i, j = _entry(matrix, matrix.data == matrix.data.max())
        raise InputError(f"adjacency[{i}, {j}] is {matrix[i, j]:g}: degrees would overflow; divide all weights by a constant.")
    loops = matrix.diagonal()
    if loops.any():
        i = int(np.flatnonzero(loops)[0])
        raise InputError(f"adjacency[{i}, {i}] is {loops[i]:g}: self-loops are not stored; set the diagonal to zero.")
    gap = sp.csr_array(abs(matrix - matrix.T))
    # entry by entry, so that a faint edge in one direction only is not taken for rounding
    allowed = sp.csr_array(tolerance * matrix.maximum(matrix.T))
    excess = sp.csr_array(gap - allowed)
    if excess.nnz and excess.max() > 0:
        i, j = _entry(excess, excess.data == excess.max())
        raise InputError(
            f"adjacency[{i}, {j}] differs from its mirror by {gap[i, j]:g}: the graph is undirected; pass "
            "adjacency.maximum(adjacency.T) if either direction means an edge."
        )
    if gap.nnz:
        matrix = sp.csr_array((matrix + matrix.T) / 2)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    if matrix.nnz < np.iinfo(np.int32).max:
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def refuse_foreign(name: str, graph: Any) -> None:
    """Raise if a graph is another library's."""
    # by its classes: a table of stations may have a column "W"
    for library in {ancestor.__module__.split(".")[0] for ancestor in type(graph).__mro__} & {"networkx", "pygsp"}:
        raise InputError(f"{name} is a graph of {library}: convert it with nareg.Graph.from_{library}.")


def _entry(matrix: sp.csr_array, bad: np.ndarray) -> tuple[int, int]:
    e = int(np.flatnonzero(bad)[0])
    return int(np.searchsorted(matrix.indptr, e, side="right")) - 1, int(matrix.indices[e])


def undirected(edges: np.ndarray, n_nodes: int) -> sp.csr_array:
    """Adjacency (N, N) of ones that joins the nodes of every column of ``edges`` (2, E), in whichever direction it points."""
    one_way = sp.csr_array((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(n_nodes, n_nodes))
    adjacency = sp.csr_array(one_way.maximum(one_way.T))
    adjacency.data[:] = 1.0  # entries that are listed twice were added
    return adjacency


def read_only(matrix: sp.csr_array) -> sp.csr_array:
    """The same matrix with sorted indices and arrays that cannot be written."""
    matrix.sort_indices()
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    return matrix


def laplacian(adjacency: sp.csr_array, degrees: np.ndarray, kind: str) -> sp.csr_array:
    """Laplacian of a kind; rows of isolated nodes are zero."""
    if kind == "combinatorial":
        return sp.csr_array(sp.diags_array(degrees) - adjacency)
    if kind == "augmented":
        half = sp.diags_array(1.0 / np.sqrt(degrees + 1.0))
        return sp.csr_array(sp.diags_array(degrees / (degrees + 1.0)) - half @ adjacency @ half)
    scale = np.zeros_like(degrees)
    np.divide(1.0, degrees if kind == "random-walk" else np.sqrt(degrees), out=scale, where=degrees > 0)
    inverse = sp.diags_array(scale)
    averaged = inverse @ adjacency if kind == "random-walk" else inverse @ adjacency @ inverse
    return sp.csr_array(sp.diags_array((degrees > 0).astype(float)) - averaged)


def node_indices(name: str, value: Any, n_nodes: int) -> np.ndarray:
    """Distinct node indices from a boolean mask or an integer array."""
    array = np.atleast_1d(checks.array_of(name, value))
    if array.dtype == bool and array.shape == (n_nodes,):
        return np.flatnonzero(array)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InputError(f"{name} has shape {array.shape} and dtype {array.dtype}: pass a mask ({n_nodes},) or node numbers.")
    if array.size and (array.min() < -n_nodes or array.max() >= n_nodes):
        bad = array.max() if array.max() >= n_nodes else array.min()
        raise InputError(f"{name} holds {bad} but there are {n_nodes} nodes: pass numbers from 0 to {n_nodes - 1}.")
    array = array.astype(np.int64) % n_nodes
    if np.unique(array).size != array.size:
        raise InputError(f"{name} lists a node twice: pass each node once.")
    return array


def operator_hash(matrix: sp.csr_array) -> str:
    """Hash of a sparse matrix's shape, pattern and values (SHA-256, first 16 hex digits)."""
    digest = hashlib.sha256(str(matrix.shape).encode())
    for part in (matrix.indptr.astype("<i8"), matrix.indices.astype("<i8"), matrix.data.astype("<f8")):
        digest.update(part.tobytes())
    return digest.hexdigest()[:16]
