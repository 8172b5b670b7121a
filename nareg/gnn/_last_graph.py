"""Remember the last graph that a layer was given, without keeping it alive, so that a training loop prepares it once."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from nareg._core.arrays import differentiated, refuse_transform
from nareg.gnn._reading import unwrapped
from nareg.gnn.adjacency import Adjacency, GraphInput, Normalization, as_adjacency
from nareg.graph import Graph


@dataclass(frozen=True, eq=False)
class ObjectKey:
    """An object that can be recognized without being kept alive."""

    reference: weakref.ref[Any]
    version: Any

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectKey):
            return NotImplemented
        mine = self.reference()
        return mine is not None and mine is other.reference() and self.version == other.version

    __hash__ = None  # type: ignore[assignment]


def object_key(value: Any) -> ObjectKey | str | None:
    """The key of a tensor or a Graph; None for objects that can change unnoticed (never recognized)."""
    if value is None:
        return "none"
    if isinstance(value, Graph):
        return ObjectKey(weakref.ref(value), 0)
    if not hasattr(value, "data_ptr") or value.is_inference():
        return None
    try:
        return ObjectKey(weakref.ref(value), (value._version, value.data_ptr() if str(value.layout) == "torch.strided" else 0))
    except RuntimeError:  # made within a transform of torch.func, which wraps it
        return None


class LastGraph:
    """One prepared adjacency, recognized by the identity (and, for tensors, the version) of what it was made of.

    A tensor changed behind torch's back (by ``.data``, or through the NumPy array that it shares) is not noticed. Threads may
    give a layer different graphs at once: what belongs to one graph is stored, and read, as one object.
    """

    def __init__(self) -> None:
        #: What recognizes the graph (None: itself), the graph, and what the layer derives from it by a key of its own.
        self._last: tuple[tuple[Any, ...] | None, Adjacency, dict[Any, Any]] | None = None
        #: Places of the edges of the last ``edge_index`` whose weights required a gradient.
        self._places: tuple[tuple[Any, ...], Any] | None = None

    def get(
        self, graph: GraphInput, edge_weight: Any, n_nodes: int, normalization: Normalization, symmetrize: bool = False
    ) -> Adjacency:
        """The adjacency of this input, prepared anew only if it is another one or was changed.

        Where ``edge_weight`` requires a gradient it is prepared anew, with the gradient in it, its edges placed once.
        """
        last = self._last
        graph, edge_weight = unwrapped(graph, edge_weight)
        if isinstance(graph, Adjacency):
            adjacency = as_adjacency(graph, n_nodes, edge_weight=edge_weight)
            if last is None or last[1] is not adjacency:
                self._last = None, adjacency, {}
            return adjacency
        if differentiated(edge_weight):
            from nareg.gnn._learned import EdgePlaces, LearnedAdjacency

            refuse_transform("edge_weight")
            edges, places = (object_key(graph), n_nodes), self._places
            if places is None or edges[0] is None or places[0] != edges:
                self._places = places = edges, EdgePlaces(graph, n_nodes)
            self._last = None
            return LearnedAdjacency(places[1], edge_weight, normalization=normalization, symmetrize=symmetrize)
        key = key_of(graph, edge_weight, n_nodes, normalization, symmetrize)
        if last is not None and last[0] == key and None not in key[:2]:
            return last[1]
        adjacency = as_adjacency(graph, n_nodes, edge_weight=edge_weight, normalization=normalization, symmetrize=symmetrize)
        self._last = key, adjacency, {}
        return adjacency

    def derived(self, adjacency: Adjacency) -> dict[Any, Any]:
        """What the layer derives from this graph, to read and to add to; empty, and not kept, if another one has come since."""
        last = self._last
        return last[2] if last is not None and last[1] is adjacency else {}

    def __deepcopy__(self, memo: Any) -> LastGraph:
        return LastGraph()

    def __reduce__(self) -> Any:
        return (LastGraph, ())


def key_of(graph: Any, edge_weight: Any, *settings: Any) -> tuple[Any, ...]:
    """What recognizes an adjacency: the objects that it is made of, and its settings."""
    return (object_key(graph), object_key(edge_weight), *settings)
