"""An undirected graph whose edges and nodes come and go, in rows with live counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.unlearning.propagation import kernels

#: In the place of a neighbor that is none any more.
GONE = -1
#: Room that a row gets when it is full, in multiples of what it holds.
GROWTH = 1.5
#: Spare rows of an array that rows were appended to, as a share of its rows.
SPARE = 0.25


class LiveGraph:
    """Rows of neighbors with room to grow. A removal takes the time of a row, an addition almost none.

    Parameters
    ----------
    graph : Graph
        Every edge of weight one; positions and names are not kept.

    Attributes
    ----------
    start : (N,) int64 array
        Where a node's row begins in ``neighbors``.
    live : (N,) int64 array
        Number of its neighbors, itself not counted.
    neighbors : int32 array
    n_edges : int
        Undirected ones.

    Raises
    ------
    InputError
        If an edge has a weight other than one.
    """

    def __init__(self, graph: Graph) -> None:
        adjacency = graph.adjacency
        refuse_weights(adjacency.data)
        self.live = np.diff(adjacency.indptr).astype(np.int64)
        self._room = self.live.copy()
        self.start = adjacency.indptr[:-1].astype(np.int64)
        self.neighbors = adjacency.indices.astype(np.int32)
        self._used = self.neighbors.size
        self.n_edges = self._used // 2

    @property
    def n_nodes(self) -> int:
        """Number of nodes, those without an edge among them."""
        return self.live.size

    @property
    def degrees(self) -> np.ndarray:
        """(N,) degrees with the loop at every node."""
        return self.live + 1.0

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Arguments of the compiled loops: start, live, neighbors."""
        return self.start, self.live, self.neighbors

    def neighbors_of(self, node: int) -> np.ndarray:
        """Neighbors of a node, in no order."""
        return self.neighbors[self.start[node] : self.start[node] + self.live[node]].copy()

    def rows_of(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the rows of these nodes begin, and where the last one ends; and their neighbors, row after row, in no order."""
        live = self.live[nodes]
        return np.concatenate([[0], np.cumsum(live)]), self.neighbors[_places(self.start[nodes], live)]

    def adjacency(self, *, in_order: bool = True) -> sp.csr_array:
        """The (N, N) adjacency matrix, without loops; sorting the neighbors takes most of the time."""
        ends = np.concatenate([[0], np.cumsum(self.live)])
        places = _places(self.start, self.live)
        adjacency = sp.csr_array((np.ones(ends[-1]), self.neighbors[places], ends), shape=(self.n_nodes, self.n_nodes))
        if in_order:
            adjacency.sort_indices()
        return adjacency

    def checked_pairs(self, name: str, value: Any, *, present: bool) -> np.ndarray:
        """(E, 2) pairs from a user: nodes that exist, no loops, every edge once; all of them there, or none of them."""
        array = checks.array_of(name, value)
        if array.size == 0:
            raise InputError(f"{name} is empty: pass pairs of nodes (u, v), one or more.")
        if array.dtype.kind not in "iu" or array.shape[-1] != 2 or array.ndim > 2:
            raise InputError(f"{name} has shape {array.shape} and dtype {array.dtype}: pairs of nodes (u, v) are expected.")
        pairs = np.sort(array.reshape(-1, 2).astype(np.int64), axis=1)
        if pairs.min() < 0 or pairs.max() >= self.n_nodes:
            bad = pairs[(pairs < 0).any(1) | (pairs >= self.n_nodes).any(1)][0]
            raise InputError(f"{name} has {_pair(bad)} but nodes are 0 to {self.n_nodes - 1}: correct it.")
        if (pairs[:, 0] == pairs[:, 1]).any():
            loop = pairs[pairs[:, 0] == pairs[:, 1]][0]
            raise InputError(f"{name} has {_pair(loop)}: a self-loop is not an edge.")
        edges, counts = (pairs, np.ones(1)) if len(pairs) == 1 else np.unique(pairs, axis=0, return_counts=True)
        if counts.max() > 1:
            raise InputError(f"{name} has {_pair(edges[counts.argmax()])} twice: name every edge once, in either direction.")
        there = self._present(edges)
        if (there != present).any():
            reason = "is not an edge, or was removed before" if present else "is an edge already"
            raise InputError(f"{name} has {_pair(edges[there != present][0])}, which {reason}: leave it out.")
        return edges

    def remove(self, edges: np.ndarray) -> None:
        """Remove checked edges."""
        kernels.unlink(*self.rows, edges)
        self.n_edges -= len(edges)

    def add(self, edges: np.ndarray) -> None:
        """Add checked edges."""
        nodes, counts = np.unique(edges, return_counts=True)
        full = self.live[nodes] + counts > self._room[nodes]
        for node, count in zip(nodes[full], counts[full], strict=True):
            self._move(node, int(GROWTH * (self.live[node] + count)) + 1)
        kernels.link(*self.rows, edges)
        self.n_edges += len(edges)

    def add_nodes(self, count: int) -> None:
        """Append nodes without edges, numbered from ``n_nodes``."""
        zeros = np.zeros(count, dtype=np.int64)
        self.start, self.live, self._room = (extended(array, zeros) for array in (self.start, self.live, self._room))

    def drop_nodes(self, n_nodes: int) -> None:
        """Remove the last nodes, which have no edges."""
        self.start, self.live, self._room = self.start[:n_nodes], self.live[:n_nodes], self._room[:n_nodes]

    def restore(self, removed: np.ndarray, added: np.ndarray) -> None:
        """Undo a removal and an addition of edges of which any part may have been done."""
        self.remove(added[self._present(added)])
        self.add(removed[~self._present(removed)])

    def _present(self, edges: np.ndarray) -> np.ndarray:
        there = np.empty(len(edges), dtype=bool)
        kernels.present(*self.rows, edges, there)
        return there

    def _move(self, node: int, room: int) -> None:
        """Give a row more room, behind all others."""
        if self._used + room > self.neighbors.size:
            self._make_room(room)
        row = self.neighbors_of(node)
        self.neighbors[self._used : self._used + row.size] = row
        self.neighbors[self.start[node] : self.start[node] + self._room[node]] = GONE
        self.start[node], self._room[node] = self._used, room
        self._used += room

    def _make_room(self, room: int) -> None:
        """Pack all rows anew, with that much room behind them and a share to spare."""
        places = np.cumsum(self._room) - self._room
        total = int(self._room.sum())
        packed = np.full(int(GROWTH * total) + room, GONE, dtype=np.int32)
        packed[_places(places, self.live)] = self.neighbors[_places(self.start, self.live)]
        self.neighbors, self.start, self._used = packed, places, total


def _places(start: np.ndarray, live: np.ndarray) -> np.ndarray:
    """Where the neighbors stand, row by row, for rows that start there and hold so many."""
    before = np.cumsum(live) - live
    return np.arange(live.sum()) + np.repeat(start - before, live)


def refuse_weights(weights: np.ndarray) -> None:
    """Raise InputError if an edge has a weight other than one."""
    odd = np.flatnonzero(weights != 1)
    if odd.size:
        raise InputError(
            f"graph has an edge of weight {weights[odd[0]]:g}: certified removal is for edges of weight one; "
            "pass Graph((adjacency != 0).astype(float))."
        )


def _pair(pair: Any) -> str:
    return f"({int(pair[0])}, {int(pair[1])})"


def extended(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The array with rows appended: in the spare rows behind it, or else in a copy with new spare rows.

    The array itself must not be used afterwards.
    """
    n_rows, total = len(array), len(array) + len(rows)
    whole = array.base
    if whole is None or len(whole) < total or whole.dtype != array.dtype or whole.shape[1:] != array.shape[1:]:
        whole = np.empty((total + int(SPARE * total) + 1, *array.shape[1:]), dtype=array.dtype)
        whole[:n_rows] = array
    whole[n_rows:total] = rows
    return whole[:total]
