"""Shared parts of both lazy propagations: changes, scratch space, and the embedding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numba
import numpy as np

from nareg.unlearning.propagation import kernels
from nareg.unlearning.propagation.device import Device
from nareg.unlearning.propagation.dynamic_graph import LiveGraph, extended
from nareg.unlearning.propagation.rounding import Rounding

#: Sums are collected where they are wanted, row after row, and not scattered from where they come, unless that looks up so many
#: times more neighbors than there are rows to add: a row that is added at random takes as long as 30 neighbors.
LOOKUPS = 30


def _no_edges() -> np.ndarray:
    return np.empty((0, 2), dtype=np.int64)


def no_nodes() -> np.ndarray:
    """No nodes, for requests that name none."""
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Change:
    """A checked change of the graph: removed and added edges, and new rows of features for some nodes.

    Attributes
    ----------
    removed, added : (E, 2) int64 arrays
    nodes : (K,) int64 array
        In rising order.
    features : (K, F) array or None
        Their new rows.
    """

    removed: np.ndarray = field(default_factory=_no_edges)
    added: np.ndarray = field(default_factory=_no_edges)
    nodes: np.ndarray = field(default_factory=no_nodes)
    features: np.ndarray | None = None

    @property
    def edges(self) -> np.ndarray:
        """All edges that change."""
        return np.concatenate([self.removed, self.added])

    @property
    def signs(self) -> np.ndarray:
        """-1 for a removed edge, 1 for an added one."""
        return np.concatenate([-np.ones(len(self.removed)), np.ones(len(self.added))])

    @property
    def touched(self) -> np.ndarray:
        """Nodes whose degree or features change, in rising order."""
        return np.union1d(self.edges.ravel(), self.nodes)


class Embedding(ABC):
    """Graph, features and their embedding, updated by requests.

    Parameters
    ----------
    graph : LiveGraph
        Changed by :meth:`update`.
    features : (N, F) float64 array
        Taken over, not copied.
    weights : (L + 1,) float64 array
        ``w_l``.
    device : Device, optional
        For work on the whole graph, and for large batches.
    """

    #: Whether there is no error but rounding.
    exact: bool

    def __init__(self, graph: LiveGraph, features: np.ndarray, weights: np.ndarray, *, device: Device | None = None) -> None:
        self.graph, self.features, self.weights, self._device = graph, features, weights, device
        self._degrees, self.scratch = graph.degrees, Scratch(graph)
        self._rounding = Rounding(features, self._degrees, self.order)

    @property
    def order(self) -> int:
        """L."""
        return self.weights.size - 1

    @property
    @abstractmethod
    def train(self) -> np.ndarray:
        """Nodes that are trained on, in the order of :meth:`trained`."""

    @abstractmethod
    def trains(self, nodes: np.ndarray) -> np.ndarray:
        """Whether these are training nodes."""

    @abstractmethod
    def trained(self) -> tuple[np.ndarray, np.ndarray]:
        """``S, s``: embedding rows of the training nodes are ``s S``; to be used before the next change."""

    @abstractmethod
    def leave(self, nodes: np.ndarray) -> None:
        """Remove these nodes from training."""

    @abstractmethod
    def join(self, nodes: np.ndarray) -> None:
        """Add these nodes to training."""

    @abstractmethod
    def embedding(self, nodes: np.ndarray | slice = slice(None)) -> np.ndarray:
        """A new array with rows of Z."""

    @abstractmethod
    def recompute(self) -> None:
        """Compute everything from graph and features."""

    @abstractmethod
    def _push(self, change: Change) -> None:
        """Apply a request."""

    @abstractmethod
    def _clear(self, nodes: np.ndarray) -> None:
        """Set the rows of nodes without edges and features to zero."""

    @abstractmethod
    def add_nodes(self, features: np.ndarray) -> None:
        """Append nodes without edges."""

    @abstractmethod
    def drop_nodes(self, n_nodes: int) -> None:
        """Undo :meth:`add_nodes`, even if it was interrupted."""

    @abstractmethod
    def errors(self, W: np.ndarray | None = None) -> float:
        """Bound of ``||(Z - Z_hat) W||_F`` at the training nodes, without W of ``||Z - Z_hat||_F``."""

    @abstractmethod
    def column_errors(self) -> np.ndarray:
        """(F,) bounds of the columns of ``|Z - Z_hat|`` summed over the training nodes."""

    def update(self, change: Change, gone: np.ndarray | None = None) -> None:
        """Apply a request to graph, features and embedding.

        Rows of removed nodes (``gone``) are set to exactly zero; rounding errors would remain otherwise.
        """
        self._push(change)
        touched = change.touched
        if gone is not None:
            self._clear(gone)
            self._rounding.cleared(gone)
            touched = np.setdiff1d(touched, gone, assume_unique=True)
        if self._rounding.changed(change.nodes, self.features[change.nodes], touched, self._degrees[touched]):
            self.recompute()
            self._rounding.reset(self._degrees)

    def update_fully(self, change: Change) -> None:
        """Apply a request and propagate everything again."""
        self.graph.remove(change.removed)
        self.graph.add(change.added)
        if change.features is not None:
            self.features[change.nodes] = change.features
        self._anew()

    def restore(self, change: Change, features: np.ndarray) -> None:
        """Undo a change, even if it was interrupted; in memory, because the device may have failed."""
        device, self._device = self._device, None
        try:
            self.graph.restore(change.removed, change.added)
            self.features[change.nodes] = features
            self._anew()
        finally:
            self._device = device

    def _anew(self) -> None:
        self._degrees, self.scratch = self.graph.degrees, Scratch(self.graph)
        self._rounding = Rounding(self.features, self._degrees, self.order)
        self.recompute()


class Scratch:
    """Places of touched nodes in small arrays; -1 for all others. It is reused from one request to the next."""

    def __init__(self, graph: LiveGraph) -> None:
        self.graph = graph
        self.itself = np.arange(graph.n_nodes)
        self.slot = np.full(graph.n_nodes, -1, dtype=np.int64)
        self._touched = np.empty(graph.n_nodes, dtype=np.int64)
        self._source = np.full(graph.n_nodes, -1, dtype=np.int64)

    def mark(self, sources: np.ndarray) -> np.ndarray:
        """Nodes that a push from the sources reaches, in rising order; they have places until they are forgotten."""
        reached = np.sort(self.reach(sources, 1)[0])
        self.slot[reached] = np.arange(reached.size)
        return reached

    def reach(self, ends: np.ndarray, hops: int) -> tuple[np.ndarray, np.ndarray]:
        """Nodes within so many hops, nearest first, and how many within 0, 1, 2, ...; with places, as marked ones."""
        counts = np.zeros(hops + 1, dtype=np.int64)
        kernels.reach(*self.graph.rows, ends, self.slot, self._touched, counts)
        return self._touched[: counts[-1]].copy(), counts

    def left_factors(self, ends: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Nodes that the removal of an edge reaches, without places, and its left factors."""
        counts, graph = np.zeros(weights.size, dtype=np.int64), self.graph
        rows = [(end, graph.neighbors_of(end)) for end in ends.tolist()]
        try:
            left = kernels.left_factors(*self.graph.rows, weights, ends, self.slot, self._touched, counts)
        except MemoryError:
            self.slot[:] = -1
            raise
        for end, row in rows:  # the loop takes the edge out and puts it back, behind the others
            graph.neighbors[graph.start[end] : graph.start[end] + row.size] = row
        return self._touched[: counts[-1]].copy(), left

    def forget(self, nodes: np.ndarray) -> None:
        """Release the places of these nodes."""
        self.slot[nodes] = -1

    def spread(
        self,
        sources: np.ndarray,
        reached: np.ndarray,
        Y: np.ndarray,
        change: Change,
        sent: np.ndarray,
        out: np.ndarray,
        place: np.ndarray | None = None,
    ) -> None:
        """Add ``A' Y``, and ``(A' - A) D^-1 q``: contributions along removed edges end, those along added edges begin.

        Rows of ``out`` are those of marked nodes at their places, or where ``place`` says that nodes have them.
        """
        place = self.slot if place is None else place
        self.add(sources, reached, Y, out, place)
        for end in range(2):
            kernels.add_signed(place[change.edges[:, end]], sent[:, 1 - end], change.signs, out)

    def add(self, sources: np.ndarray, reached: np.ndarray, Y: np.ndarray, out: np.ndarray, place: np.ndarray) -> None:
        """Add ``A Y``, which is not zero at nodes that the sources reach, in rising order."""
        graph = self.graph
        if kernels.work(graph.live, reached) > LOOKUPS * kernels.work(graph.live, sources):
            kernels.scatter(*graph.rows, sources, Y, place, out, -(-Y.shape[1] // numba.get_num_threads()))
            return
        self._source[sources] = np.arange(sources.size)
        try:
            kernels.collect(*graph.rows, reached, self._source, Y, place, out)
        finally:
            self._source[sources] = -1

    def add_nodes(self, count: int) -> None:
        """Append places for new nodes."""
        self.itself = np.arange(self.itself.size + count)
        self.slot, self._source = (extended(array, np.full(count, -1)) for array in (self.slot, self._source))
        self._touched = extended(self._touched, np.zeros(count, dtype=np.int64))
