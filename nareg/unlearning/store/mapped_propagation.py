"""Exact lazy propagation on files: the rows that a request touches are read, changed in memory, and noted."""

from __future__ import annotations

import mmap
from dataclasses import asdict, dataclass

import numpy as np

from nareg.progress import ProgressCallback
from nareg.unlearning.propagation.base import Change, Scratch
from nareg.unlearning.propagation.exact import Propagation
from nareg.unlearning.propagation.rounding import Rounding
from nareg.unlearning.store import blocks
from nareg.unlearning.store.folder import StateFolder
from nareg.unlearning.store.mapped_graph import MappedGraph


@dataclass(frozen=True)
class Counts:
    """Numbers of a propagation that are not in tables.

    Attributes
    ----------
    n_nodes, n_edges, n_train : int
    used : int
        Neighbors that have a place.
    peak, ratio : float
    requests : int
        Of :class:`~nareg.unlearning.propagation.rounding.Rounding`.
    """

    n_nodes: int
    n_edges: int
    n_train: int
    used: int
    peak: float
    ratio: float
    requests: int

    def as_dict(self) -> dict[str, float]:
        """For a file."""
        return asdict(self)


class MappedRounding(Rounding):
    """Largest features and degrees in the tables ``largest`` and ``peaks``."""

    def __init__(self, folder: StateFolder, counts: Counts, order: int) -> None:
        self._folder, self._order, self._before = folder, max(order, 1), None
        self.peak, self.ratio, self.requests = counts.peak, counts.ratio, counts.requests
        self._largest, self._degrees = (folder[name].array[: counts.n_nodes] for name in ("largest", "peaks"))

    def reset(self, degrees: np.ndarray) -> None:
        """Note that everything was computed again."""
        peaks = self._degrees
        super().reset(degrees)
        peaks[:] = degrees
        self._degrees = peaks
        self._folder["peaks"].note(np.arange(degrees.size))

    def changed(self, nodes: np.ndarray, features: np.ndarray, touched: np.ndarray, degrees: np.ndarray) -> bool:
        """Note a request; return whether everything should be computed again."""
        self._folder["largest"].note(nodes)
        self._folder["peaks"].note(touched)
        return super().changed(nodes, features, touched, degrees)

    def cleared(self, nodes: np.ndarray) -> None:
        """Note nodes without edges whose rows are exact."""
        self._folder["peaks"].note(nodes)
        super().cleared(nodes)

    def added(self, features: np.ndarray) -> None:
        """Note new nodes, without edges. The tables have room for them."""
        first = len(self._largest)
        super().added(features)
        for name in ("largest", "peaks"):
            self._folder[name].note(np.arange(first, first + len(features)))


class MappedPropagation(Propagation):
    """The embedding of a graph in the tables of a folder.

    Parameters
    ----------
    folder : StateFolder
    weights : (L + 1,) array
    counts : Counts
    memory : int, optional
        Bytes for propagation through the whole graph.
    """

    #: Called while everything is computed.
    progress: ProgressCallback | None = None

    def __init__(self, folder: StateFolder, weights: np.ndarray, counts: Counts, memory: int | None) -> None:
        self._folder, self.weights, self._memory, self._device = folder, weights, memory, None
        self.attach(counts)

    @property
    def counts(self) -> Counts:
        """The numbers that are not in tables."""
        rounding = self._rounding
        return Counts(
            self.graph.n_nodes, self.graph.n_edges, self._n_train, self._graph.used, rounding.peak, rounding.ratio,
            rounding.requests,
        )  # fmt: skip

    def attach(self, counts: Counts, scratch: Scratch | None = None) -> None:
        """Take the arrays of the tables as they are now; ``scratch`` is that of a graph with as many nodes."""
        self._graph = MappedGraph(self._folder.tables, counts.n_nodes, counts.n_edges, counts.used)
        self.graph, self._degrees = self._graph, self._graph.degrees
        self._view(counts.n_nodes)
        self._n_train, self._rounding = counts.n_train, MappedRounding(self._folder, counts, self.order)
        self.scratch = Scratch(self.graph) if scratch is None else scratch
        self.scratch.graph = self.graph
        #: Whether the present request reaches more rows than fit into memory.
        self._is_wide = False
        #: Whether reserves and sums of the present request were computed in the files.
        self.is_anew = False

    def _view(self, n: int) -> None:
        self.features, self._sum, self._node, self._row = (
            self._folder[t].array[:n] for t in ("features", "sum", "node", "row")
        )
        self._reserves = [table.array[:n] for table in self._folder.reserves]

    def update(self, change: Change, gone: np.ndarray | None = None) -> None:
        """Apply a request to graph, features and embedding, in memory, and note which rows change."""
        # what it changes at level l is at most l hops away from the nodes that it touches, with removed edges still there
        nodes, counts = self._reached(change.touched)
        self._folder["features"].check(change.touched)
        self._folder["features"].note(change.nodes)
        wide = self._is_wide = self._bytes(counts) > blocks.allowed(self._folder.embedding, self.graph.n_nodes, self._memory)
        for level, table in enumerate(self._folder.reserves, start=1):
            if not wide:
                table.check(nodes[: counts[level]])
            table.note(nodes[: counts[level]])
        if not wide:
            self._folder["sum"].check(self._row[nodes])
        super().update(change, gone)
        if not self.is_anew:
            self._folder["sum"].note(self._row[nodes])

    def _reached(self, touched: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Nodes within L hops and how many within 0, 1, ..., after their rows of the graph were checked hop by hop."""
        for hops in range(self.order + 1):
            nodes, counts = self.scratch.reach(touched, hops)
            self.scratch.forget(nodes)
            self._graph.check(nodes[counts[hops - 1] if hops else 0 :])
        return nodes, counts

    def _bytes(self, counts: np.ndarray) -> float:
        """Memory for a request that reaches so many rows within 0, 1, ..., L hops: their pages, two rows for each pushed on.

        With r rows to a page, K of N rows that lie anywhere are on ``N / r (1 - (1 - K / N)^r)`` pages, about.
        """
        n, total = self.graph.n_nodes, 16.0 * self.features.shape[1] * counts[max(self.order - 1, 0)]
        for table, count in zip(self._folder.embedding[1:], counts[-max(self.order, 1) :], strict=True):
            rows, size = max(mmap.PAGESIZE / table.row_bytes, 1.0), max(mmap.PAGESIZE, table.row_bytes)
            total += size * n / rows * (1 - (1 - count / n) ** rows)
        return float(total)

    def recompute(self, first: int = 1) -> None:
        """Compute the levels from ``first`` on, and the sum, in the files: these are stale until the request is done."""
        folder = self._folder
        folder.mark_stale()
        blocks.propagate(
            self.graph, folder.embedding, self._row, self.weights, self._memory, first=first, progress=self.progress
        )
        for table in folder.embedding[first:]:
            table.sync()
            table.attach()
        names = [f"reserve-{level}" for level in range(first, self.order)]
        folder.sum_up_files([*names, "sum"])
        self._view(self.graph.n_nodes)
        self.is_anew = True

    def recompute_trained(self) -> float:
        """Put rows of training nodes that are propagated anew in the place of the stored ones, in memory alone.

        Returns the Frobenius norm of the difference, in rows of Z.
        """
        rows = blocks.rows_of_sum(self.graph, self._folder.embedding, self.train, self.weights, self._memory)
        S, s = self.trained()
        off = float(np.linalg.norm(s[:, None] * (S - rows)))
        S[:] = rows
        return off

    def _reaches_most(self, sources: np.ndarray, n_edges: int = 0) -> bool:
        return self._is_wide or super()._reaches_most(sources, n_edges)

    def _clear(self, nodes: np.ndarray) -> None:
        super()._clear(nodes)
        for table in self._folder.reserves:
            table.note(nodes)
        self._folder["sum"].note(self._row[nodes])

    def _exchange(self, i: int, j: int) -> None:
        super()._exchange(i, j)
        rows = np.array([i, j])
        self._folder["sum"].note(rows)
        self._folder["node"].note(rows)
        self._folder["row"].note(self._node[rows])

    def add_nodes(self, features: np.ndarray) -> None:
        """Append nodes without edges."""
        first, total = self.graph.n_nodes, self.graph.n_nodes + len(features)
        counts = self.counts
        self._folder.grow(total)
        self.attach(counts, self.scratch)
        super().add_nodes(features)
        for table in (*self._folder.embedding, self._folder["node"], self._folder["row"]):
            table.note(np.arange(first, total))
