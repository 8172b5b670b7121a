"""Remember the last graph that a layer was given, so that a training loop prepares it once."""

from __future__ import annotations

import weakref
from typing import Any

from nareg.gnn.adjacency import Adjacency
from nareg.gnn.propagation import as_adjacency


class LastGraph:
    """One prepared adjacency, recognised by the identity (and, for tensors, the version) of what it was made of."""

    def __init__(self) -> None:
        self._key: tuple[Any, ...] | None = None
        self._held: Adjacency | None = None
        #: What a layer derives from this graph, by a key of its own; emptied when another one is given.
        self.derived: dict[Any, Any] = {}

    def get(self, graph: Any, edge_weight: Any, n_nodes: int, normalization: str) -> Adjacency:
        """The adjacency of this input, prepared anew only if it is another one or was changed."""
        if isinstance(graph, Adjacency):
            if graph is not self._held:
                self._held, self._key, self.derived = as_adjacency(graph, n_nodes, edge_weight=edge_weight), None, {}
            return as_adjacency(graph, n_nodes, edge_weight=edge_weight)
        key = (_mark(graph), _mark(edge_weight), n_nodes, normalization)
        known = self._key is not None and all(mark is not None for mark in key[:2]) and _same(self._key, key)
        if not known:
            self._held = as_adjacency(graph, n_nodes, edge_weight=edge_weight, normalization=normalization)
            self._key, self.derived = key, {}
        assert self._held is not None
        return self._held

    def __deepcopy__(self, memo: Any) -> LastGraph:
        return LastGraph()

    def __reduce__(self) -> Any:
        return (LastGraph, ())


def _mark(value: Any) -> Any:
    """A weak reference and a version for tensors; None for what can change without a trace (never recognised)."""
    if value is None:
        return "none"
    return (weakref.ref(value), value._version) if hasattr(value, "_version") else None


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    def equal(x: Any, y: Any) -> bool:
        if isinstance(x, tuple) and isinstance(y, tuple):
            return x[0]() is y[0]() and x[0]() is not None and x[1] == y[1]
        return bool(x == y)

    return all(equal(x, y) for x, y in zip(a, b, strict=True))
