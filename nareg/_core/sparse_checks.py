"""The border check of sparse matrices and edge lists: SciPy's compiled loops read and write where an index points.

``scipy.sparse.load_npz`` of a damaged file, or assignment to ``indices``, gives matrices that crash the interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._core.arrays import as_numpy
from nareg.errors import InputError

#: Arrays of SciPy's formats, by the names under which ``save_npz`` stores them.
PARTS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}


def whole_sparse(name: str, value: Any) -> None:
    """Refuse a SciPy sparse matrix, of any format, whose index arrays do not fit its shape or point outside it."""
    if value.ndim != 2:
        raise InputError(f"{name} has shape {value.shape}, a matrix is expected.")
    try:
        reason = _damage_of(value)
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
        reason = str(error)
    if reason is not None:
        raise InputError(f"{name} is a damaged sparse matrix ({reason}): build it again from its entries.")


def _damage_of(value: Any) -> str | None:
    if value.format == "lil":
        return _by_lists(value, *value.shape)
    if value.format == "dok":
        row, column = np.array(list(value.keys()), dtype=np.int64).reshape(-1, 2).T
        return _outside("row", row, value.shape[0]) or _outside("column", column, value.shape[1])
    if value.format not in PARTS:
        return f"its format {value.format!r} is unknown"
    parts = [getattr(value, part) for part in PARTS[value.format]]
    if "indptr" in PARTS[value.format]:  # SciPy's arrays may be longer than what they hold
        parts[:2] = (part[: max(int(parts[2][-1]), 0)] for part in parts[:2])
    return damage(value.format, parts, value.shape)


def damage(form: str, parts: Sequence[np.ndarray], shape: tuple[int, int]) -> str | None:
    """What does not fit in the arrays of a matrix, whose format has :data:`PARTS`; None where everything does."""
    (values, *places), (rows, columns) = parts, shape
    wrong = next(filter(None, map(_integers, PARTS[form][1:], places)), None)
    if wrong is not None:
        return wrong
    if form == "coo":
        return _by_entries(rows, columns, values, *places)
    if form == "dia":
        return _by_diagonals(rows, columns, values, *places)
    if form == "bsr":
        height, width = values.shape[1:] if values.ndim == 3 else (0, 0)
        if not height or not width or rows % height or columns % width:
            return f"its blocks have the shape {values.shape[1:]} in a matrix of {rows} x {columns}"
        return _by_rows(rows // height, columns // width, values[:, 0, 0], *places)
    if form == "csc":
        rows, columns = columns, rows
    return _by_rows(rows, columns, values, *places)


def edge_index(value: Any, n_nodes: int | None) -> tuple[np.ndarray, int]:
    """Checked (2, E) int64 node numbers, and the number of nodes: the largest number plus one if ``n_nodes`` is None."""
    index = checks.array_of("edge_index", value)
    if index.ndim != 2 or index.shape[0] != 2 or index.dtype.kind not in "iu":
        raise InputError(
            f"edge_index has shape {index.shape} and dtype {index.dtype}: integers (2, E), a sparse matrix or a Graph is "
            "expected."
        )
    low, high = (int(index.min()), int(index.max())) if index.size else (0, -1)
    n = high + 1 if n_nodes is None else n_nodes
    if low < 0:
        raise InputError(f"edge_index holds node {low}: node indices start at 0.")
    if high >= n:
        raise InputError(
            f"edge_index holds node {high}, out of range: there are {n} nodes, 0 to {n - 1}, for both ends of an edge."
        )
    if n_nodes is None:
        remedy = "number the nodes 0, 1, 2 ... with numpy.unique(edge_index, return_inverse=True)"
        checks.memory(f"a graph with a node of number {high}", 16.0 * n, alternative=remedy)
    return index.astype(np.int64), n


def edge_list(edges: Any, n_nodes: int | None, weight: Any) -> sp.csr_array:
    """The matrix of a checked ``edge_index`` without duplicates, and ``edge_weight``, where it is not None."""
    index, n = edge_index(edges, n_nodes)
    weights = np.ones(index.shape[1])
    if weight is not None:
        weights = checks.floats("edge_weight", as_numpy(weight), ndim=(1,)).astype(np.float64)
        if weights.size != index.shape[1]:
            raise InputError(f"edge_weight has {weights.size} entries for {index.shape[1]} edges: pass one per edge.")
    matrix = sp.csr_array((weights, (index[0], index[1])), shape=(n, n))
    if matrix.nnz != index.shape[1]:
        raise InputError("edge_index lists an edge twice: coalesce it first (torch_geometric.utils.coalesce).")
    return matrix


def _integers(name: str, array: Any) -> str | None:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        what = f"the shape {np.shape(array)} and dtype {getattr(array, 'dtype', type(array).__name__)}"
        return f"its {name} have {what}, a list of whole numbers is expected"
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        return f"its {name} hold {array.max()}"
    return None


def _outside(name: str, places: np.ndarray, size: int) -> str | None:
    if not places.size or (places.min() >= 0 and places.max() < size):
        return None
    return f"an entry is in {name} {places[((places < 0) | (places >= size)).argmax()]} of {size}"


def _by_rows(rows: int, columns: int, values: np.ndarray, places: np.ndarray, starts: np.ndarray) -> str | None:
    if values.shape != places.shape:
        return f"it has values of shape {values.shape} at {places.size} places"
    if starts.size != rows + 1:
        return f"it has {rows} rows and {starts.size} row starts"
    if starts[0] != 0 or starts[-1] != places.size or (starts[1:] < starts[:-1]).any():
        return f"its row starts do not rise from 0 to {places.size}"
    if not places.size or (places.min() >= 0 and places.max() < columns):
        return None
    at = int(((places < 0) | (places >= columns)).argmax())
    row = int(np.searchsorted(starts, at, side="right")) - 1
    return f"an entry of row {row} is in column {places[at]} of {columns}"


def _by_entries(rows: int, columns: int, values: np.ndarray, row: np.ndarray, column: np.ndarray) -> str | None:
    if values.ndim != 1 or not values.size == row.size == column.size:
        return f"it has values of shape {values.shape} at {row.size} rows and {column.size} columns"
    return _outside("row", row, rows) or _outside("column", column, columns)


def _by_diagonals(rows: int, columns: int, values: np.ndarray, offsets: np.ndarray) -> str | None:
    if values.ndim != 2 or len(values) != offsets.size or np.unique(offsets).size != offsets.size:
        return f"it has values of shape {values.shape} on {offsets.size} diagonals"
    outside = (offsets <= -rows) | (offsets >= columns)
    return f"it holds diagonal {offsets[outside][0]} of {rows} x {columns}" if outside.any() else None


def _by_lists(value: Any, rows: int, columns: int) -> str | None:
    if not value.rows.shape == value.data.shape == (rows,):
        return f"it lists {value.rows.shape} rows and {value.data.shape} rows of entries for {rows}"
    for row, entries in zip(value.rows, value.data, strict=True):
        if not isinstance(row, list) or not isinstance(entries, list) or len(row) != len(entries):
            return "a row is no list of as many columns as entries"
        wrong = _outside("column", np.array(row, dtype=np.int64), columns)
        if wrong is not None:
            return wrong
    return None
