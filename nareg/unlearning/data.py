"""What remains: graph, features, labels and the embedding, changed by requests whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nareg.unlearning._interrupts import interrupts_held
from nareg.unlearning.propagation.base import Change, Embedding, no_nodes
from nareg.unlearning.propagation.device import Device
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.exact import Propagation
from nareg.unlearning.propagation.growing import extended
from nareg.unlearning.propagation.residual import ApproximatePropagation


@dataclass(frozen=True, eq=False)
class Request:
    """A checked request.

    Attributes
    ----------
    told : dict
        What was asked, of which a ledger keeps the hash; "request" is its name.
    count : int
        Edges or nodes that it names.
    change : Change
    unlabeled : (K,) array
        Nodes whose labels go.
    gone : (K,) array
        Nodes that are removed.
    new_labels : (K,) array or None
        Of nodes that are added, behind all others, with the features of ``change``; -1 for none.
    anew : bool
        Whether the model is trained from nothing, with a new random term.
    """

    told: dict[str, Any]
    count: int
    change: Change
    unlabeled: np.ndarray = field(default_factory=no_nodes)
    gone: np.ndarray = field(default_factory=no_nodes)
    new_labels: np.ndarray | None = None
    anew: bool = False


class Data:
    """Graph, features, labels, embedding.

    Parameters
    ----------
    graph : LiveGraph
    features : (N, F) float64 array
    labels : (N,) int64 array
        -1 where there is none.
    train : (n_t,) int64 array
    classes : (C,) array
    told : bool
        Whether the classes were told, and not found in the labels.
    weights : (L + 1,) float64 array
    r_max : float
    gone : (N,) boolean array, optional
    device : Device, optional
    """

    def __init__(
        self,
        graph: LiveGraph,
        features: np.ndarray,
        labels: np.ndarray,
        train: np.ndarray,
        classes: np.ndarray,
        *,
        told: bool,
        weights: np.ndarray,
        r_max: float,
        gone: np.ndarray | None = None,
        device: Device | None = None,
    ) -> None:
        self.labels, self.classes, self.told = labels, classes, told
        #: Whether a request is under way, or failed and could not be undone.
        self.broken = False
        self.gone = np.zeros(graph.n_nodes, dtype=bool) if gone is None else gone
        self.propagation: Embedding = (
            ApproximatePropagation(graph, features, weights, train, r_max=r_max)
            if r_max
            else Propagation(graph, features, weights, train, device=device)
        )

    @property
    def graph(self) -> LiveGraph:
        """The graph."""
        return self.propagation.graph

    @property
    def n_nodes(self) -> int:
        """Number of nodes, removed ones among them."""
        return self.graph.n_nodes

    @property
    def n_features(self) -> int:
        """Number of features F."""
        return int(self.propagation.features.shape[1])

    @property
    def train(self) -> np.ndarray:
        """Nodes that are trained on, in the order of :meth:`targets`."""
        return self.propagation.train

    @property
    def columns(self) -> int:
        """Columns of the head: one for two classes."""
        return 1 if self.classes.size == 2 else self.classes.size

    def targets(self) -> np.ndarray:
        """(n_t, C) array of -1 and 1: each class against the rest."""
        return np.where(self.labels[self.train][:, None] == self.classes[-self.columns :], 1.0, -1.0)

    @contextmanager
    def changed(self, request: Request, *, fully: bool = False) -> Iterator[Callable[[], None]]:
        """The data after a request; as they were before where the block raises, on Ctrl-C, too.

        The block gets a function to call when the request is carried out for good: from then on nothing is undone. It is to
        be called while interrupts are held, with whatever else has to be done or not done along with it. ``fully`` propagates
        everything anew.
        """
        kept = False

        def keep() -> None:
            nonlocal kept
            kept, self.broken = True, False

        change, held = request.change, self.propagation
        leaving = request.unlabeled[held.trains(request.unlabeled)]
        labels, before = self.labels[request.unlabeled], self.n_nodes
        features = held.features[change.nodes] if request.new_labels is None else np.empty(0)
        try:
            with interrupts_held():
                self.broken = True  # until it is kept, or all of it undone
                if request.new_labels is not None:
                    self._add(request)
                elif fully:
                    held.update_fully(change)
                else:
                    held.update(change, request.gone)
                held.leave(leaving)
                self.labels[request.unlabeled] = -1
                self.gone[request.gone] = True
            yield keep
        except BaseException:
            if kept:
                raise
            with interrupts_held():
                self.labels, self.gone = self.labels[:before], self.gone[:before]
                self.labels[request.unlabeled] = labels
                self.gone[request.gone] = False
                if request.new_labels is not None:
                    held.drop_nodes(before)
                else:
                    held.join(leaving)
                    held.restore(change, features)
                self.broken = False
            raise

    def _add(self, request: Request) -> None:
        assert request.new_labels is not None
        assert request.change.features is not None
        self.propagation.add_nodes(request.change.features)
        self.propagation.join(request.change.nodes[request.new_labels >= 0])
        self.labels = extended(self.labels, request.new_labels)
        self.gone = extended(self.gone, np.zeros(request.new_labels.size, dtype=bool))
