"""Remember the last graph that a layer was given, so that a training loop prepares it once."""

from __future__ import annotations

from typing import Any

from nareg.gnn._object_keys import object_key
from nareg.gnn._reading import unwrapped
from nareg.gnn.adjacency import Adjacency, GraphInput, Normalization, as_adjacency


class LastGraph:
    """One prepared adjacency, recognized by the identity (and, for tensors, the version) of what it was made of.

    A tensor changed behind torch's back (by ``.data``, or through the NumPy array that it shares) is not noticed.
    """

    def __init__(self) -> None:
        self._key: tuple[Any, ...] | None = None
        self._adjacency: Adjacency | None = None
        #: Places of the edges of the last ``edge_index`` whose weights required a gradient.
        self._places: tuple[tuple[Any, ...], Any] | None = None
        #: What a layer derives from this graph, by a key of its own; emptied when another one is given.
        self.derived: dict[Any, Any] = {}

    def get(
        self, graph: GraphInput, edge_weight: Any, n_nodes: int, normalization: Normalization, symmetrize: bool = False
    ) -> Adjacency:
        """The adjacency of this input, prepared anew only if it is another one or was changed."""
        if isinstance(graph, Adjacency):
            if graph is not self._adjacency:
                self._adjacency, self._key, self.derived = as_adjacency(graph, n_nodes, edge_weight=edge_weight), None, {}
            return as_adjacency(graph, n_nodes, edge_weight=edge_weight)
        graph, edge_weight = unwrapped(graph, edge_weight)
        key = key_of(graph, edge_weight, n_nodes, normalization, symmetrize)
        if not self.knows(key):
            self._adjacency = as_adjacency(
                graph, n_nodes, edge_weight=edge_weight, normalization=normalization, symmetrize=symmetrize
            )
            self._key, self.derived = key, {}
        assert self._adjacency is not None
        return self._adjacency

    def get_learned(
        self, graph: GraphInput, edge_weight: Any, n_nodes: int, normalization: Normalization, symmetrize: bool
    ) -> Adjacency:
        """The same, with a gradient in ``edge_weight`` where it requires one: prepared anew, its edges placed once."""
        graph, edge_weight = unwrapped(graph, edge_weight)
        if isinstance(graph, Adjacency) or not getattr(edge_weight, "requires_grad", False):
            return self.get(graph, edge_weight, n_nodes, normalization, symmetrize)
        from nareg.gnn._learned import EdgePlaces, LearnedAdjacency

        key = (object_key(graph), n_nodes)
        if self._places is None or key[0] is None or self._places[0] != key:
            self._places = key, EdgePlaces(graph, n_nodes)
        self._adjacency = self._key = None
        self.derived = {}
        return LearnedAdjacency(self._places[1], edge_weight, normalization=normalization, symmetrize=symmetrize)

    def knows(self, key: tuple[Any, ...]) -> bool:
        """Whether this is the key of the last graph, and that can be recognized."""
        return self._key == key and None not in key[:2]

    def __deepcopy__(self, memo: Any) -> LastGraph:
        return LastGraph()

    def __reduce__(self) -> Any:
        return (LastGraph, ())


def key_of(graph: Any, edge_weight: Any, *settings: Any) -> tuple[Any, ...]:
    """What recognizes an adjacency: the objects that it is made of, and its settings."""
    return (object_key(graph), object_key(edge_weight), *settings)
