"""Arrays that ranks hold by rows: products with a sparse matrix, rows exchanged for columns, work that ranks share, and files.

Each but the files is for work with roll calls (``steps``): a rank that fails before one does not leave the others waiting. Of
an ``.npy`` file each rank reads and writes its rows.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from nareg._solvers._petsc.choice import all_rows
from nareg._solvers._petsc.factor import product
from nareg._solvers._petsc.matrices import from_rows, local_range, range_of
from nareg._solvers._petsc.ranks import agreed, load, meeting
from nareg._storage import array_files
from nareg._storage.files import DRAFT, clear_drafts, resolved
from nareg._storage.signals import SignalFile
from nareg.errors import InputError

Item = TypeVar("Item")

#: Columns that a product takes at once: PETSc keeps copies of so many only.
COLUMNS = 256
#: Bytes that are written at a time: MPI counts them in 31 bits.
PIECE = 2**28


class RowMatrix:
    """A sparse matrix (N, N) by rows; every rank passes all of it and keeps its own rows."""

    def __init__(self, matrix: sp.csr_array) -> None:
        n = matrix.shape[0]
        rows = matrix[slice(*local_range(n))]
        with meeting(load().comm):
            self._K = from_rows(n, rows.indptr, rows.indices, rows.data)

    def __matmul__(self, X: np.ndarray) -> np.ndarray:
        """The rows of the product with X (n, M), of which every rank has its rows."""
        out = np.empty_like(X)
        with meeting(load().comm):
            for first in range(0, X.shape[1], COLUMNS):
                part = slice(first, first + COLUMNS)
                out[:, part] = product(self._K, X[:, part])
        return out


class Exchange:
    """Between rows (n, S, T) on every rank, and all rows (N, S, k) of the columns that a rank has.

    Parameters
    ----------
    n : int
        Rows of all ranks, N.
    columns : sequence of arrays
        Positions of every rank's columns; each of the T is one rank's.
    """

    def __init__(self, n: int, columns: Sequence[np.ndarray]) -> None:
        self._comm = load().comm
        self._columns = columns
        self._sizes = np.array([np.subtract(*range_of(n, rank)[::-1]) for rank in range(self._comm.size)])

    @property
    def own(self) -> np.ndarray:
        """Positions of this rank's columns."""
        return self._columns[self._comm.rank]

    def to_columns(self, X: np.ndarray) -> np.ndarray:
        """All rows of this rank's columns, from the rows of all columns."""
        S = X.shape[1]
        sent = np.concatenate([X[:, :, columns].ravel() for columns in self._columns])
        received = np.empty((int(self._sizes.sum()), S, self.own.size))
        with meeting(self._comm):
            self._comm.Alltoallv([sent, self._in_rows(X)], [received, self._sizes * S * self.own.size])
        return received

    def to_rows(self, Y: np.ndarray) -> np.ndarray:
        """The way back."""
        S, T = Y.shape[1], sum(columns.size for columns in self._columns)
        out = np.empty((int(self._sizes[self._comm.rank]), S, T))
        counts = self._in_rows(out)
        received = np.empty(out.size)
        with meeting(self._comm):
            self._comm.Alltoallv([np.ascontiguousarray(Y), self._sizes * S * self.own.size], [received, counts])
        for columns, part in zip(self._columns, np.split(received, np.cumsum(counts)[:-1]), strict=True):
            out[:, :, columns] = part.reshape(out.shape[0], S, columns.size)
        return out

    def _in_rows(self, X: np.ndarray) -> np.ndarray:
        """Numbers of the local rows (n, S, T) that belong to every rank's columns."""
        return np.array([X.shape[0] * X.shape[1] * columns.size for columns in self._columns])


def shared(work: Callable[[Item], np.ndarray], items: Sequence[Item], width: int) -> np.ndarray:
    """Results of ``width`` numbers each, (items, width), on every rank: each rank works on some of the items."""
    own = items[slice(*local_range(len(items)))]
    done = np.array([work(item) for item in own]).reshape(len(own), width)
    return gathered(done)


def gathered(rows: np.ndarray) -> np.ndarray:
    """The rows (n, T) of all ranks, on every rank."""
    with meeting(load().comm):
        return all_rows(rows)


def total(own: np.ndarray) -> np.ndarray:
    """Sum of an array over ranks, in their order: the same bits on each."""
    comm = load().comm
    every = np.empty((comm.size, own.size))
    with meeting(comm):
        comm.Allgather(np.ascontiguousarray(own), every)
    return every.sum(axis=0)


def vector_rows(name: str, value: Any, n_nodes: int, place: slice) -> np.ndarray:
    """Some rows of (N,) float64 numbers: of a file, an array, or one number for all nodes."""
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        value = np.broadcast_to(np.float64(value), n_nodes)
    source = SignalFile(name, value, n_nodes)
    if source.n_columns != 1:
        raise InputError(f"{name} has shape {source.shape}: one number per node, ({n_nodes},), is expected.")
    return source.rows(place, slice(0, 1))[:, 0].astype(np.float64)


@contextmanager
def parallel_writer(
    path: str | os.PathLike[str], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Iterator[Callable[[int, np.ndarray], None]]:
    """An ``.npy`` file that appears whole or not at all; the function, called by all ranks, writes rows from a first one on.

    The first rank makes a draft, all write into it with MPI-IO, and the first renames it when all are done.
    """
    library = load()
    MPI, comm = library.MPI, library.comm
    target = draft = None
    with agreed(comm):
        if comm.rank == 0:
            with _refusal(path):
                target = resolved(Path(path))
                target.parent.mkdir(parents=True, exist_ok=True)
                if target.is_dir():
                    raise IsADirectoryError("it is a folder")
                clear_drafts(target)
                draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.{DRAFT}")
                header = array_files.npy_header(dtype, shape)
                with open(draft, "xb") as handle:
                    handle.write(header)
                    handle.truncate(len(header) + dtype.itemsize * int(np.prod(shape)))
    name = comm.bcast(None if draft is None else str(draft))

    def write(first: int, rows: np.ndarray) -> None:
        data = np.ascontiguousarray(rows.astype(dtype, copy=False)).reshape(-1).view(np.uint8)
        offset = array_files.NPY_HEADER + first * dtype.itemsize * (shape[1] if len(shape) == 2 else 1)
        with agreed(comm):
            file = None
            try:
                file = MPI.File.Open(MPI.COMM_SELF, name, MPI.MODE_WRONLY)
                for start in range(0, data.size, PIECE):
                    file.Write_at(offset + start, data[start : start + PIECE])
                file.Sync()
            except MPI.Exception as error:
                raise InputError(f"{path} cannot be written ({error.Get_error_string()}): choose another path.") from None
            finally:
                if file is not None:
                    file.Close()

    try:
        yield write
        with agreed(comm):
            if target is not None and draft is not None:
                with _refusal(path):
                    os.replace(draft, target)
    finally:
        if draft is not None:
            with suppress(OSError):
                draft.unlink(missing_ok=True)


@contextmanager
def _refusal(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror or error}): choose another path.") from None
