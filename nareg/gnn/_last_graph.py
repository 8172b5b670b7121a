"""Remember the last graph that a layer was given, so that a training loop prepares it once."""

from __future__ import annotations

from typing import Any

from nareg.gnn._object_keys import object_key
from nareg.gnn.adjacency import Adjacency, GraphInput, Normalization, as_adjacency


class LastGraph:
    """One prepared adjacency, recognized by the identity (and, for tensors, the version) of what it was made of.

    A tensor changed behind torch's back (by ``.data``, or through the NumPy array that it shares) is not noticed.
    """

    def __init__(self) -> None:
        self._key: tuple[Any, ...] | None = None
        self._adjacency: Adjacency | None = None
        #: What a layer derives from this graph, by a key of its own; emptied when another one is given.
        self.derived: dict[Any, Any] = {}

    def get(self, graph: GraphInput, edge_weight: Any, n_nodes: int, normalization: Normalization) -> Adjacency:
        """The adjacency of this input, prepared anew only if it is another one or was changed."""
        if isinstance(graph, Adjacency):
            if graph is not self._adjacency:
                self._adjacency, self._key, self.derived = as_adjacency(graph, n_nodes, edge_weight=edge_weight), None, {}
            return as_adjacency(graph, n_nodes, edge_weight=edge_weight)
        key = (object_key(graph), object_key(edge_weight), n_nodes, normalization)
        known = self._key == key and None not in key[:2]
        if not known:
            self._adjacency = as_adjacency(graph, n_nodes, edge_weight=edge_weight, normalization=normalization)
            self._key, self.derived = key, {}
        assert self._adjacency is not None
        return self._adjacency

    def __deepcopy__(self, memo: Any) -> LastGraph:
        return LastGraph()

    def __reduce__(self) -> Any:
        return (LastGraph, ())
