"""Graphs from files: an adjacency in memory, or entries in chunks; edge lists, NPY, MatrixMarket, and SciPy's NPZ."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from nareg._storage import array_files, sparse_files, text_files
from nareg._storage.graph_sorting import Entries, EntrySource
from nareg._storage.text_files import numbers_of_lines
from nareg.errors import InputError, read_errors

#: Entries of an array that are read at a time.
PIECE = 2**21
#: Endings of edge lists.
EDGE_LISTS = (".csv", ".tsv", ".txt", ".edges")


def entry_source(path: Path, n_nodes: int | None = None) -> EntrySource:
    """A graph file that is read in chunks.

    Parameters
    ----------
    path : path
        ``.csv``, ``.tsv``, ``.txt`` or ``.edges`` (a line per edge: two node numbers and perhaps a weight; ``.gz`` may follow),
        ``.mtx``, ``.npz`` of ``scipy.sparse.save_npz``, or ``.npy`` with an ``edge_index`` (2, E).
    n_nodes : int, optional
        For edge lists; default the largest node plus one.

    Raises
    ------
    InputError
        If it is no such file.
    """
    kind = Path(path.stem if path.suffix.lower() == ".gz" else path).suffix.lower()
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    if kind in EDGE_LISTS:
        return EntrySource(str(path), lambda: _edge_list(path), n_nodes, is_matrix=False, is_text=True)
    readers = {".mtx": _matrix_market, ".npz": _scipy, ".npy": _edge_index}
    if kind not in readers:
        raise InputError(f"{path}: a graph's name ends in {', '.join((*EDGE_LISTS, *readers))}, or is a .graph folder.")
    with read_errors(f"{path} cannot be read", "write it again"):
        return readers[kind](path, n_nodes)


def _edge_list(path: Path) -> Iterator[Entries]:
    """Node numbers, and a weight in a third column; a header and comments may stand in front."""
    for numbers, done in numbers_of_lines(path, (2, 3), comment=b"#%"):
        rows, columns = (_nodes(numbers[:, k], path) for k in (0, 1))
        yield Entries(rows, columns, numbers[:, 2].copy() if numbers.shape[1] == 3 else None, done)


def _nodes(numbers: np.ndarray, path: Path) -> np.ndarray:
    whole = (numbers == np.floor(numbers)) & (np.abs(numbers) < 2**53)
    if not whole.all():
        raise InputError(f"{path} names node {numbers[~whole][0]:g}: node numbers are whole numbers from 0.")
    return numbers.astype(np.int64)


def _matrix_market(path: Path, n_nodes: int | None) -> EntrySource:
    """A sparse MatrixMarket file: real, integer or pattern; general or symmetric."""
    head = text_files.matrix_market_header(path)
    if head.layout != "coordinate" or head.field not in text_files.REAL or head.symmetry not in ("general", "symmetric"):
        kind = f"{head.layout} {head.field} {head.symmetry}"
        raise InputError(f"{path} is {kind}: coordinate, real or pattern, general or symmetric is expected.")
    if head.rows != head.columns:
        raise InputError(f"{path} declares the size {head.rows} x {head.columns}: a square matrix is expected.")

    def chunks() -> Iterator[Entries]:
        listed = 0
        for numbers, done in numbers_of_lines(path, (head.width,), comment=b"%", skip=head.lines):
            i, j = (_nodes(numbers[:, k], path) - 1 for k in (0, 1))
            weight = numbers[:, 2].copy() if head.field != "pattern" else None
            listed += i.size
            if head.symmetry == "symmetric":  # one of two mirrored entries is listed
                off = i != j
                i, j = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
                weight = None if weight is None else np.concatenate([weight, weight[off]])
            yield Entries(i, j, np.ones(i.size) if weight is None else weight, done)
        if listed != head.entries:
            raise InputError(
                f"{path} declares {head.entries} entries and has {listed}: it is cut off or damaged, write it again."
            )

    return EntrySource(str(path), chunks, head.rows, is_matrix=True, is_text=True)


def _scipy(path: Path, n_nodes: int | None) -> EntrySource:
    """A matrix in SciPy's NPZ: CSR is read in pieces, other formats as a whole."""
    with array_files.open_npz(path) as archive:
        streamed = _is_csr(archive)
        if streamed:
            shape = archive.read("shape").tolist()
            starts = archive.read("indptr").astype(np.int64)
            count, kind = archive.headers["indices"].shape[0], archive.headers["data"].dtype
            whole = (
                starts.size == shape[0] + 1 and starts[0] == 0 and starts[-1] == count and (np.diff(starts) >= 0).all()
                and archive.headers["data"].shape == (count,) and archive.headers["indices"].dtype.kind in "iu"
                and kind.kind in "fiub"
            )  # fmt: skip
            if not whole:
                raise InputError(f"{path} is damaged: its row starts, indices and data do not fit: write it again.")
    if not streamed:
        matrix = sparse_files.read_npz(path)
        shape, starts, count, kind = list(matrix.shape), matrix.indptr, matrix.nnz, matrix.dtype
    if shape[0] != shape[1]:
        raise InputError(f"{path} has shape {tuple(shape)}: a square adjacency is expected.")

    def chunks() -> Iterator[Entries]:
        first = 0
        for column, weight in _pieces(path) if streamed else [(matrix.indices, matrix.data)]:
            row = np.searchsorted(starts, np.arange(first, first + column.size), side="right") - 1
            first += column.size
            yield Entries(row, column.astype(np.int64), weight.astype(np.float64), first / max(count, 1))

    rounding = max(1e-12, 4 * float(np.finfo(kind).eps)) if kind.kind == "f" else 1e-12
    return EntrySource(str(path), chunks, shape[0], is_matrix=True, rounding=rounding)


def _is_csr(archive: array_files.Npz) -> bool:
    headers = archive.headers
    if not {"format", "shape", "indptr", "indices", "data"} <= set(headers) or headers["format"].n_bytes > 64:
        return False
    form = archive.read("format")
    flat = all(len(headers[name].shape) == 1 for name in ("indptr", "indices", "data", "shape"))
    return flat and form.size == 1 and form.item() in (b"csr", "csr") and headers["indptr"].dtype.kind in "iu"


def _pieces(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    with array_files.open_npz(path) as archive:
        yield from zip(archive.pieces("indices", PIECE), archive.pieces("data", PIECE), strict=True)


def _edge_index(path: Path, n_nodes: int | None) -> EntrySource:
    """Edges as an integer array (2, E), memory-mapped."""
    index = array_files.map_npy(path)
    if index.ndim != 2 or index.shape[0] != 2 or index.dtype.kind not in "iu":
        raise InputError(
            f"{path} has shape {index.shape} and dtype {index.dtype}: an edge_index (2, E) of integers is expected."
        )

    def chunks() -> Iterator[Entries]:
        for first in range(0, index.shape[1], PIECE):
            row, column = (index[k, first : first + PIECE].astype(np.int64) for k in (0, 1))
            yield Entries(row, column, None, min((first + PIECE) / index.shape[1], 1.0))

    return EntrySource(str(path), chunks, n_nodes, is_matrix=False)


def read_adjacency(path: str | os.PathLike[str]) -> sp.csr_array:
    """Read the adjacency of a graph from a MatrixMarket file.

    Parameters
    ----------
    path : path
        An ``.mtx`` file.

    Returns
    -------
    (N, N) CSR array

    Raises
    ------
    InputError
        If the file does not exist, or is not a MatrixMarket file.

    Examples
    --------
    >>> import tempfile, pathlib, scipy.io, nareg
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "graph.mtx"
    >>> scipy.io.mmwrite(path, nareg.graphs.grid((2, 2)).adjacency)
    >>> read_adjacency(path).shape
    (4, 4)
    """
    with read_errors(f"{path} is not a MatrixMarket file, or too large", "use scipy.io.mmwrite"):
        if not Path(path).exists():
            raise InputError(f"{path} does not exist.")
        return sp.csr_array(text_files.read_matrix_market(path))
