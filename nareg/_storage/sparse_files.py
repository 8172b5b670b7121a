"""The one place that makes sparse matrices from files, after it has checked everything in them.

SciPy trusts the index arrays that it is given, and its compiled loops write where they point: one index below zero or beyond
the shape writes outside an array.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._storage.array_files import open_npz, refuse_expanding
from nareg.errors import InputError


def csr(data: Any, indices: Any, indptr: Any, shape: Any, *, what: str) -> sp.csr_array:
    """A canonical CSR matrix of parts that a file holds: rows in order, entries that are listed twice added.

    Parameters
    ----------
    data, indices, indptr : arrays
    shape : two integers
    what : str
        What the parts are of, for messages: a file, or an array in it.

    Raises
    ------
    InputError
        If anything in them does not fit: types, sizes, row starts that fall, columns beyond the shape, values not finite.

    Examples
    --------
    >>> import numpy as np
    >>> csr([1.0, 2.0], [2, 0], [0, 1, 2], (2, 3), what="features.npz").toarray().tolist()
    [[0.0, 0.0, 1.0], [2.0, 0.0, 0.0]]
    >>> csr([1.0], [3], [0, 1], (1, 3), what="features.npz")
    Traceback (most recent call last):
    nareg.errors.InputError: features.npz is damaged: an entry of row 0 is in column 3 of 3. Write it again.
    """
    refuse = _refusal(what)
    rows, columns = _shape(shape, refuse)
    values, places, starts = _values(data, refuse), _whole(indices, "indices", refuse), _whole(indptr, "indptr", refuse)
    if values.ndim != 1 or values.size != places.size:
        raise refuse(f"it has values of shape {values.shape} at {places.size} places")
    if starts.size != rows + 1:
        raise refuse(f"it has {rows} rows and {starts.size} row starts")
    if starts[0] != 0 or starts[-1] != places.size or (starts[1:] < starts[:-1]).any():
        raise refuse(f"its row starts do not rise from 0 to {places.size}")
    outside = (places < 0) | (places >= columns)
    if outside.any():
        at = int(outside.argmax())
        row = int(np.searchsorted(starts, at, side="right")) - 1
        raise refuse(f"an entry of row {row} is in column {places[at]} of {columns}")
    kind = np.int32 if max(rows, columns, places.size) < np.iinfo(np.int32).max else np.int64
    matrix = sp.csr_array((values, places.astype(kind), starts.astype(kind)), shape=(rows, columns))
    matrix.sort_indices()
    if not matrix.has_canonical_format:
        if values.dtype.kind in "iu":  # not in a narrow integer type
            matrix = matrix.astype(np.float64)
        matrix.sum_duplicates()
        _values(matrix.data, refuse)
    return matrix


def from_entries(data: Any, row: Any, column: Any, shape: Any, *, what: str) -> sp.csr_array:
    """The same from entries with their rows and columns, in any order."""
    refuse = _refusal(what)
    rows, columns = _shape(shape, refuse)
    values, i, j = _values(data, refuse), _whole(row, "rows", refuse), _whole(column, "columns", refuse)
    if values.ndim != 1 or not values.size == i.size == j.size:
        raise refuse(f"it has values of shape {values.shape} at {i.size} rows and {j.size} columns")
    for name, places, count in (("row", i, rows), ("column", j, columns)):
        outside = (places < 0) | (places >= count)
        if outside.any():
            raise refuse(f"an entry is in {name} {places[outside.argmax()]} of {count}")
    order = np.argsort(i, kind="stable")
    starts = np.searchsorted(i[order], np.arange(rows + 1))
    return csr(values[order], j[order], starts, (rows, columns), what=what)


def stored(arrays: Mapping[str, Any], name: str, *, what: str) -> sp.csr_array:
    """A CSR matrix from the arrays ``name_data, name_indices, name_indptr, name_shape``."""
    return csr(*(arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr", "shape")), what=f"{what}: {name}")


def read_npz(path: str | os.PathLike[str]) -> sp.csr_array:
    """A matrix that ``scipy.sparse.save_npz`` wrote, in whichever format.

    Raises
    ------
    InputError
        If anything in it does not fit.
    zipfile.BadZipFile, OSError, ...
        One of ``nareg.errors.UNREADABLE`` if it is no such file.
    """
    refuse = _refusal(str(path))
    with open_npz(path) as archive:
        if "format" not in archive.headers or archive.headers["format"].n_bytes > 64:
            raise InputError(f"{path} does not say what format its matrix has: write it with scipy.sparse.save_npz.")
        form = archive.read("format")
        text = form.item().decode("ascii", "replace") if form.dtype.kind == "S" and form.size == 1 else str(form)
        if text not in _FORMATS:
            raise InputError(f"{path} holds a matrix of format {text!r}: {', '.join(_FORMATS)} are read.")
        needed, build = _FORMATS[text]
        absent = [name for name in ("shape", *needed) if name not in archive.headers]
        if absent:
            raise refuse(f"it has no array {absent[0]!r}")
        shape = _shape(archive.read("shape"), refuse)
        # a compressed row or column that is empty takes a number all the same
        refuse_expanding(path, 8 * sum(shape), remedy="leave out rows and columns without entries")
        return build(*(archive.read(name) for name in needed), shape, str(path))


def _csc(data: Any, indices: Any, indptr: Any, shape: tuple[int, int], what: str) -> sp.csr_array:
    turned = csr(data, indices, indptr, shape[::-1], what=f"{what} (by columns)")
    return sp.csr_array(turned.T)


def _bsr(data: Any, indices: Any, indptr: Any, shape: tuple[int, int], what: str) -> sp.csr_array:
    refuse, blocks = _refusal(what), np.asarray(data)
    if blocks.ndim != 3 or 0 in blocks.shape[1:] or shape[0] % blocks.shape[1] or shape[1] % blocks.shape[2]:
        raise refuse(f"its blocks have the shape {blocks.shape[1:]} in a matrix of {shape}")
    height, width = blocks.shape[1:]
    # where the blocks are, checked; then their entries
    places = csr(
        np.arange(1, len(blocks) + 1, dtype=np.float64), indices, indptr, (shape[0] // height, shape[1] // width), what=what
    ).tocoo()
    if places.nnz != len(blocks):
        raise refuse("a block is listed twice")
    values = blocks[places.data.astype(np.int64) - 1]
    i = (places.row.astype(np.int64) * height)[:, None, None] + np.arange(height)[:, None]
    j = (places.col.astype(np.int64) * width)[:, None, None] + np.arange(width)
    i, j = (np.broadcast_to(index, values.shape).ravel() for index in (i, j))
    return from_entries(values.ravel(), i, j, shape, what=what)


def _coo(data: Any, row: Any, column: Any, shape: tuple[int, int], what: str) -> sp.csr_array:
    return from_entries(data, row, column, shape, what=what)


def _dia(data: Any, offsets: Any, shape: tuple[int, int], what: str) -> sp.csr_array:
    refuse, values = _refusal(what), np.asarray(data)
    steps = _whole(offsets, "offsets", refuse)
    if values.ndim != 2 or len(values) != steps.size or np.unique(steps).size != steps.size:
        raise refuse(f"it has values of shape {values.shape} on {steps.size} diagonals")
    columns = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    with np.errstate(over="ignore"):  # what wraps around is outside all the same
        rows = columns - steps[:, None]
    inside = (rows >= 0) & (rows < shape[0]) & (columns < shape[1]) & (values != 0)
    return from_entries(values[inside], rows[inside], columns[inside], shape, what=what)


def _csr(data: Any, indices: Any, indptr: Any, shape: tuple[int, int], what: str) -> sp.csr_array:
    return csr(data, indices, indptr, shape, what=what)


#: Arrays that each of SciPy's formats is stored in, and what makes a matrix of them.
_FORMATS: dict[str, tuple[tuple[str, ...], Callable[..., sp.csr_array]]] = {
    "csr": (("data", "indices", "indptr"), _csr),
    "csc": (("data", "indices", "indptr"), _csc),
    "bsr": (("data", "indices", "indptr"), _bsr),
    "coo": (("data", "row", "col"), _coo),
    "dia": (("data", "offsets"), _dia),
}


def _refusal(what: str) -> Callable[[str], InputError]:
    return lambda why: InputError(f"{what} is damaged: {why}. Write it again.")


def _shape(value: Any, refuse: Callable[[str], InputError]) -> tuple[int, int]:
    array = np.asarray(value)
    if array.shape != (2,) or array.dtype.kind not in "iu":
        raise refuse(f"its shape is {array.tolist() if array.size < 10 else array.shape}, two whole numbers are expected")
    rows, columns = (int(length) for length in array)
    if min(rows, columns) < 0 or max(rows, columns) > np.iinfo(np.int64).max // 16:
        raise refuse(f"its shape is ({rows}, {columns})")
    return rows, columns


def _whole(value: Any, name: str, refuse: Callable[[str], InputError]) -> np.ndarray:
    array = np.asarray(value)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise refuse(f"its {name} have the shape {array.shape} and dtype {array.dtype}, a list of whole numbers is expected")
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise refuse(f"its {name} hold {array.max()}")
    return array.astype(np.int64)


def _values(value: Any, refuse: Callable[[str], InputError]) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise refuse(f"its values have dtype {array.dtype}, real numbers are expected")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise refuse(f"it holds the value {array[~np.isfinite(array)].flat[0]}, and all must be finite")
    return array
