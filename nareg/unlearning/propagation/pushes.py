"""Pushes of large batches on a torch device: all sources of a level at once, as one sparse product.

Nodes that a request can change are numbered nearest first. The sources of a level, and what they reach, are then the first so
many of them: sizes are known beforehand, and the host waits for nothing between the levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from nareg.unlearning.propagation.dynamic_graph import LiveGraph

if TYPE_CHECKING:
    from nareg.unlearning.propagation.base import Change, Scratch


@dataclass(frozen=True, eq=False)
class PushBatch:
    """What an exact push takes to a device: the graph around a request, without the loops.

    Attributes
    ----------
    nodes : (K,) int64 array
        Within L hops of the k nodes that the request touches, nearest first.
    hops : list of L sparse arrays
        A' from the nodes within ``l - 1`` hops to those within l.
    jumps : (k, k) sparse array
        A' - A between the touched nodes: -1 for removed edges, 1 for added ones.
    """

    nodes: np.ndarray
    hops: list[sp.csr_array]
    jumps: sp.csr_array

    @property
    def n_rows(self) -> int:
        """Rows of all levels, of their sum, and of what is pushed: what a device holds besides the graph."""
        return sum(sum(hop.shape) for hop in self.hops) + self.nodes.size

    @property
    def nnz(self) -> int:
        """Entries of all matrices."""
        return int(self.jumps.nnz + sum(hop.nnz for hop in self.hops))


def batch(scratch: Scratch, change: Change, order: int) -> PushBatch:
    """The part of the changed graph through which a request is pushed; the touched nodes come first, in rising order."""
    touched = change.touched
    nodes, counts = scratch.reach(touched, order)
    try:
        sources = nodes[: counts[-2]]
        rows = neighborhoods(scratch.graph, sources, scratch.slot, nodes.size)
        ends = scratch.slot[change.edges].reshape(-1, 2)
    finally:
        scratch.forget(nodes)
    hops = [sp.csr_array(rows[:first, :last].T) for first, last in pairwise(counts)]
    jumps = sp.coo_array((np.tile(change.signs, 2), (ends.T.ravel(), ends[:, ::-1].T.ravel())), shape=(touched.size,) * 2)
    return PushBatch(nodes, hops, sp.csr_array(jumps))


def neighborhoods(graph: LiveGraph, sources: np.ndarray, slot: np.ndarray, n_places: int) -> sp.csr_array:
    """(S, K): ones at the places of each source's neighbors, which all have one."""
    first, neighbors = graph.rows_of(sources)
    return sp.csr_array((np.ones(neighbors.size), slot[neighbors], first), shape=(sources.size, n_places))
