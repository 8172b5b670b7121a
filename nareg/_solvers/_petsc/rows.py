"""Arrays that ranks hold by rows: products with a sparse matrix, rows exchanged for columns, and work that ranks share.

Each is for work with roll calls (``steps``): a rank that fails before one does not leave the others waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import scipy.sparse as sp

from nareg._solvers._petsc.choice import all_rows
from nareg._solvers._petsc.factor import product
from nareg._solvers._petsc.library import load
from nareg._solvers._petsc.matrices import from_rows, local_range, range_of
from nareg._solvers._petsc.ranks import meeting

Item = TypeVar("Item")

#: Columns that a product takes at once: PETSc keeps copies of so many only.
COLUMNS = 256


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
