"""The one place that makes sparse matrices from files, after it has checked everything in them.

SciPy trusts the index arrays that it is given, and its compiled loops write where they point: one index below zero or beyond
the shape writes outside an array.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core.sparse_checks import PARTS, damage
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
    return _canonical("csr", (data, indices, indptr), shape, what)


def from_entries(data: Any, row: Any, column: Any, shape: Any, *, what: str) -> sp.csr_array:
    """The same from entries with their rows and columns, in any order."""
    return _canonical("coo", (data, row, column), shape, what)


def _canonical(form: str, given: Sequence[Any], shape: Any, what: str) -> sp.csr_array:
    """The matrix of the arrays of one of SciPy's formats, checked before SciPy gets them."""
    refuse = _refusal(what)
    rows, columns = _shape(shape, refuse)
    parts = [_values(given[0], refuse), *map(np.asarray, given[1:])]
    reason = damage(form, parts, (rows, columns))
    if reason is not None:
        raise refuse(reason)
    kind = np.int32 if max(rows, columns, parts[0].size) < np.iinfo(np.int32).max else np.int64
    values, *places = parts[0], *(part.astype(kind) for part in parts[1:])
    if form == "dia":
        entries = sp.dia_array((values, places[0]), shape=(rows, columns)).tocoo()
        form, values, places = "coo", entries.data, list(entries.coords)
    if form == "coo":  # not by SciPy, which adds entries that are listed twice in a narrow integer type
        order = np.argsort(places[0], kind="stable")
        starts = np.searchsorted(places[0][order], np.arange(rows + 1)).astype(kind)
        form, values, places = "csr", values[order], [places[1][order], starts]
    make = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}[form]
    matrix = sp.csr_array(make((values, *places), shape=(rows, columns)))
    matrix.sort_indices()
    if not matrix.has_canonical_format:
        if values.dtype.kind in "iu":  # not in a narrow integer type
            matrix = matrix.astype(np.float64)
        matrix.sum_duplicates()
        _values(matrix.data, refuse)
    return matrix


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
        if text not in PARTS:
            raise InputError(f"{path} holds a matrix of format {text!r}: {', '.join(PARTS)} are read.")
        absent = [name for name in ("shape", *PARTS[text]) if name not in archive.headers]
        if absent:
            raise refuse(f"it has no array {absent[0]!r}")
        shape = _shape(archive.read("shape"), refuse)
        # a compressed row or column that is empty takes a number all the same
        refuse_expanding(path, 8 * sum(shape), remedy="leave out rows and columns without entries")
        return _canonical(text, [archive.read(name) for name in PARTS[text]], shape, str(path))


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


def _values(value: Any, refuse: Callable[[str], InputError]) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise refuse(f"its values have dtype {array.dtype}, real numbers are expected")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise refuse(f"it holds the value {array[~np.isfinite(array)].flat[0]}, and all must be finite")
    return array
