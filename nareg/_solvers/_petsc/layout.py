"""Which rank has which nodes: the file's order cut into even pieces, or a partition with fewer edges between ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from nareg._solvers._petsc.library import load
from nareg.errors import InputError, SolverError


class NodeLayout:
    """Rows of this rank in the file's order, and where the nodes go for the solve.

    Parameters
    ----------
    A : Mat
        The adjacency in the file's order.
    partition : {"none", "ptscotch", "parmetis"}

    Attributes
    ----------
    A : Mat
        The adjacency in the order of the solve.
    """

    def __init__(self, A: Any, partition: str) -> None:
        self.A = A
        self._exchange: Any = None
        if partition == "none" or load().comm.size == 1:
            return
        own = _nodes_of_this_rank(A, partition)
        moved = A.createSubMatrix(own, own)
        self._natural, self._solving = A.createVecRight(), moved.createVecRight()
        # entry own[i] of the file's order is entry i of this rank
        self._exchange = load().PETSc.Scatter().create(self._natural, own, self._solving, None)
        A.destroy()
        self.A = moved

    def to_solve(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, T) of this rank in the file's order, as rows in the order of the solve."""
        return rows if self._exchange is None else self._move(rows, self._natural, self._solving, "forward")

    def to_file(self, rows: np.ndarray) -> np.ndarray:
        """The way back."""
        return rows if self._exchange is None else self._move(rows, self._solving, self._natural, "reverse")

    def _move(self, rows: np.ndarray, source: Any, target: Any, mode: str) -> np.ndarray:
        moved = np.empty((target.getLocalSize(), rows.shape[1]))
        for t in range(rows.shape[1]):
            source.array[:] = rows[:, t]
            self._exchange.scatter(source, target, mode=mode)
            moved[:, t] = target.array
        return moved

    def cut(self) -> float:
        """Share of the edges that join nodes of different ranks."""
        comm = load().comm
        first, last = self.A.getOwnershipRange()
        counts = np.zeros(2)
        _, columns, values = self.A.getValuesCSR()
        edges = values != 0
        counts[:] = (edges & ((columns < first) | (columns >= last))).sum(), edges.sum()
        across, total = comm.allreduce(counts)
        return float(across / max(total, 1))


def _nodes_of_this_rank(A: Any, partition: str) -> Any:
    """The index set of the nodes that a partitioner gives to this rank."""
    library = load()
    PETSc = library.PETSc
    if not PETSc.Sys.hasExternalPackage(partition):
        raise InputError(
            f"this PETSc was built without {partition}: take partition='none', or another of 'ptscotch', 'parmetis'."
        )
    partitioner = PETSc.MatPartitioning().create(library.comm)
    try:
        neighbors = A.convert("mpiadj", PETSc.Mat())
        partitioner.setAdjacency(neighbors)
        partitioner.setType(partition)
        target = PETSc.IS()
        partitioner.apply(target)
        own = target.buildTwoSided()
    except PETSc.Error as error:
        raise SolverError(f"PETSc's {partition} cannot partition this graph ({error}): take partition='none'.") from None
    own.sort()
    return own
