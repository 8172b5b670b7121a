"""A changing graph whose rows of neighbors are in files."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nareg._storage.graph_files import StoredGraph
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.unlearning.propagation.dynamic_graph import LiveGraph, refuse_weights
from nareg.unlearning.store.table import Table

#: Tables of one number per node, and of the neighbors.
NODES, NEIGHBORS = ("start", "live", "room"), "neighbors"


class MappedGraph(LiveGraph):
    """Rows of neighbors in tables, which are told what changes.

    Parameters
    ----------
    tables : mapping
        With those of :data:`NODES` and :data:`NEIGHBORS`.
    n_nodes, n_edges : int
    used : int
        Neighbors that have a place, those of rows that moved on among them.
    """

    def __init__(self, tables: Mapping[str, Table], n_nodes: int, n_edges: int, used: int) -> None:
        self._tables = tables
        self.attach(n_nodes, n_edges, used)

    def attach(self, n_nodes: int, n_edges: int, used: int) -> None:
        """Take the arrays of the tables as they are now."""
        self.n_edges, self._used = n_edges, used
        self.start, self.live, self._room = (self._tables[name].array[:n_nodes] for name in NODES)
        self.neighbors = self._tables[NEIGHBORS].array

    @property
    def used(self) -> int:
        """Neighbors that have a place."""
        return self._used

    def remove(self, edges: np.ndarray) -> None:
        """Remove checked edges."""
        self._note(np.unique(edges))
        super().remove(edges)

    def add(self, edges: np.ndarray) -> None:
        """Add checked edges."""
        super().add(edges)
        self._note(np.unique(edges))

    def add_nodes(self, count: int) -> None:
        """Append nodes without edges, numbered from ``n_nodes``. The tables have room for them."""
        super().add_nodes(count)
        self._note(np.arange(self.n_nodes - count, self.n_nodes))

    def neighbors_of(self, node: int) -> np.ndarray:
        """Neighbors of a node, in no order."""
        self.check(np.array([node]))
        return super().neighbors_of(node)

    def check(self, nodes: np.ndarray) -> None:
        """Compare rows of these nodes with their checksums; compiled loops trust them."""
        for name in NODES:
            self._tables[name].check(nodes)
        self._tables[NEIGHBORS].check_runs(self.start[nodes], self.live[nodes])

    def _present(self, edges: np.ndarray) -> np.ndarray:
        self.check(np.unique(edges))
        return super()._present(edges)

    def _note(self, nodes: np.ndarray) -> None:
        for name in NODES:
            self._tables[name].note(nodes)
        for node in nodes.tolist():
            self._tables[NEIGHBORS].note(np.arange(self.start[node], self.start[node] + self._room[node]))

    def _move(self, node: int, room: int) -> None:
        self._note(np.array([node]))
        super()._move(node, room)
        self._note(np.array([node]))

    def _make_room(self, room: int) -> None:
        """Rows are never packed anew, which would write all of them: the file grows by a share."""
        self._tables[NEIGHBORS].grow(self._used + room)
        self.neighbors = self._tables[NEIGHBORS].array


def fill(tables: Mapping[str, Table], graph: StoredGraph | Graph) -> None:
    """Write a graph to tables of zeros, some rows at a time."""
    if isinstance(graph, Graph):
        refuse_weights(graph.adjacency.data)
        starts, parts = graph.adjacency.indptr.astype(np.int64), iter([graph.adjacency.indices])
    else:
        if graph.weights is not None:
            raise InputError(
                f"{graph.path} has edge weights: certified removal is for edges of weight one; convert it without weights."
            )
        starts, parts = np.array(graph.indptr), (graph.rows(*rows).indices for rows in graph.row_ranges())
    tables["start"].write(0, starts[:-1])
    for name in ("live", "room"):
        tables[name].write(0, np.diff(starts))
    first = 0
    for part in parts:
        tables[NEIGHBORS].write(first, part)
        first += len(part)
