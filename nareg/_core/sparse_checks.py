"""The border check of sparse matrices and edge lists: SciPy's compiled loops read and write where an index points.

``scipy.sparse.load_npz`` of a damaged file, or assignment to ``indices``, gives matrices that crash the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nareg._core import checks
from nareg.errors import InputError


def whole_sparse(name: str, value: Any) -> None:
    """Refuse a SciPy sparse matrix, of any format, whose index arrays do not fit its shape or point outside it."""
    if value.ndim != 2:
        raise InputError(f"{name} has shape {value.shape}, a matrix is expected.")
    check = _FORMATS.get(value.format)
    try:
        reason = f"its format {value.format!r} is unknown" if check is None else check(value, *value.shape)
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
        reason = str(error)
    if reason is not None:
        raise InputError(f"{name} is a damaged sparse matrix ({reason}): build it again from its entries.")


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


def _integers(**arrays: Any) -> str | None:
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
            return f"its {name} are no list of integers"
    return None


def _outside(name: str, places: np.ndarray, size: int) -> str | None:
    if places.size and (places.min() < 0 or places.max() >= size):
        bad = places.min() if places.min() < 0 else places.max()
        return f"it holds {name} {bad} of {size}"
    return None


def _by_rows(value: Any, rows: int, columns: int) -> str | None:
    starts, places, entries = value.indptr, value.indices, len(value.data)
    wrong = _integers(indptr=starts, indices=places)
    if wrong is not None:
        return wrong
    if starts.size != rows + 1 or starts[0] != 0 or (starts[1:] < starts[:-1]).any() or starts[-1] > min(places.size, entries):
        return f"its indptr does not rise from 0 to the number of its entries, {min(places.size, entries)}"
    return _outside("index", places[: starts[-1]], columns)


def _by_blocks(value: Any, rows: int, columns: int) -> str | None:
    if value.data.ndim != 3 or not all(value.data.shape[1:]) or rows % value.data.shape[1] or columns % value.data.shape[2]:
        return f"blocks of shape {value.data.shape[1:]} do not fill {rows} x {columns}"
    return _by_rows(value, rows // value.data.shape[1], columns // value.data.shape[2])


def _by_entries(value: Any, rows: int, columns: int) -> str | None:
    row, column = value.coords
    wrong = _integers(rows=row, columns=column)
    if wrong is not None:
        return wrong
    if not row.size == column.size == value.data.size:
        return f"it lists {row.size} rows and {column.size} columns for {value.data.size} entries"
    return _outside("row", row, rows) or _outside("column", column, columns)


def _by_diagonals(value: Any, rows: int, columns: int) -> str | None:
    wrong = _integers(offsets=value.offsets)
    if wrong is not None:
        return wrong
    if value.data.ndim != 2 or len(value.data) != value.offsets.size or np.unique(value.offsets).size != value.offsets.size:
        return f"it has {len(value.data)} diagonals for {np.unique(value.offsets).size} different offsets"
    outside = (value.offsets <= -rows) | (value.offsets >= columns)
    return f"it holds diagonal {value.offsets[outside][0]} of {rows} x {columns}" if outside.any() else None


def _by_lists(value: Any, rows: int, columns: int) -> str | None:
    if not value.rows.shape == value.data.shape == (rows,):
        return f"it lists {value.rows.shape} rows and {value.data.shape} rows of entries for {rows}"
    for row, entries in zip(value.rows, value.data, strict=True):
        if not isinstance(row, list) or not isinstance(entries, list) or len(row) != len(entries):
            return "a row is no list of as many columns as entries"
        if row:
            wrong = _outside("column", np.array(row, dtype=np.int64), columns)
            if wrong is not None:
                return wrong
    return None


def _by_keys(value: Any, rows: int, columns: int) -> str | None:
    keys = np.array(list(value.keys()), dtype=np.int64).reshape(-1, 2)
    return _outside("row", keys[:, 0], rows) or _outside("column", keys[:, 1], columns)


_FORMATS: dict[str, Callable[[Any, int, int], str | None]] = {
    "csr": _by_rows,
    "csc": lambda value, rows, columns: _by_rows(value, columns, rows),
    "bsr": _by_blocks,
    "coo": _by_entries,
    "dia": _by_diagonals,
    "lil": _by_lists,
    "dok": _by_keys,
}
