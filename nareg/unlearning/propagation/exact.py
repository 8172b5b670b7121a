"""Exact lazy local propagation of generalized PageRank: the cost of a request depends on what it touches, not on the graph.

    Z = sum_l w_l P^l X,    P = D^-1/2 A D^-1/2,    l = 0..L,    degrees and A with the loop at every node

Stored are X, the reserves ``q_l = D^1/2 P^l X`` (0 < l < L) and ``S = sum_l w_l q_l``: (L + 1) N F numbers. As
``q_l = A D^-1 q_{l-1}``, a change of edges and features makes

    delta q_l = A' (D'^-1 q'_{l-1} - D^-1 q_{l-1}) + (A' - A) D^-1 q_{l-1},

which is not zero only around nodes whose row of ``D^-1 q_{l-1}`` changed, and at the ends of changed edges. This
is the push of ScaleGUN (Algorithms 3 and 4) with r_max = 0: no residue is left, and Z is that of the current graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nareg._core.arrays import briefly_shown
from nareg.errors import InputError
from nareg.unlearning.propagation import kernels
from nareg.unlearning.propagation.base import Change, Embedding, Scratch
from nareg.unlearning.propagation.device import Device
from nareg.unlearning.propagation.dynamic_graph import LiveGraph, extended

#: From so large a share of all rows that would be added, everything is propagated anew.
FULL = 0.9
#: Rows that could be added in the time that each end of an edge that changes takes, where so many edges change: pushing took
#: as long as propagating anew where ends counted as 11 (Citeseer), 19 (Cora) and 37 rows (20,000 nodes, 128 features).
ENDS, MANY = 12, 500


class Propagation(Embedding):
    """The embedding of a graph, updated by requests.

    Rows of S stand in an order of their own, those of training nodes first: the head works on them where they are.

    Parameters
    ----------
    graph, features, weights, device
        As in :class:`~nareg.unlearning.propagation.base.Embedding`.
    train : (n_t,) int array
    """

    exact = True

    def __init__(
        self, graph: LiveGraph, features: np.ndarray, weights: np.ndarray, train: np.ndarray, *, device: Device | None = None
    ) -> None:
        super().__init__(graph, features, weights, device=device)
        self._reserves = [np.empty_like(features) for _ in range(1, self.order)]
        self._sum = np.empty_like(features)
        others = np.ones(graph.n_nodes, dtype=bool)
        others[train] = False
        #: row of S -> node, and node -> row of S
        self._node = np.concatenate([train, np.flatnonzero(others)])
        self._row = np.argsort(self._node)
        self._n_train = train.size
        self.recompute()

    @property
    def train(self) -> np.ndarray:
        """Nodes that are trained on, in the order of :meth:`trained`."""
        return self._node[: self._n_train]

    def trains(self, nodes: np.ndarray) -> np.ndarray:
        """Whether these are training nodes."""
        return self._row[nodes] < self._n_train

    def trained(self) -> tuple[np.ndarray, np.ndarray]:
        """``S, s``: embedding rows of the training nodes are ``s S``. A view: to be used before the next change."""
        return self._sum[: self._n_train], self._degrees[self.train] ** -0.5

    def embedding(self, nodes: np.ndarray | slice = slice(None)) -> np.ndarray:
        """A new array with rows of Z."""
        rows: np.ndarray = self._sum[self._row[nodes]]
        rows *= self._degrees[nodes, None] ** -0.5
        return rows

    def powers(self, nodes: np.ndarray | slice = slice(None)) -> np.ndarray:
        """(L + 1, K, F): rows of ``P^l X``, l = 0..L; for weights with ``w_L = 1`` alone."""
        powers = [self.features[nodes], *(q[nodes] * self._degrees[nodes, None] ** -0.5 for q in self._reserves)]
        return np.stack([*powers, self.embedding(nodes)] if self.order else powers)

    def rows(self, node: int) -> np.ndarray:
        """(L + 1, F): a node's rows of ``q_0, ..., q_(L-1)`` and S."""
        root = np.sqrt(self._degrees[node])
        rows = [root * self.features[node], *(q[node] for q in self._reserves), self._sum[self._row[node]]]
        return np.stack(rows[-(self.order + 1) :])

    def leave(self, nodes: np.ndarray) -> None:
        """Remove these nodes from training."""
        for node in nodes:
            if self._row[node] < self._n_train:
                self._n_train -= 1
                self._exchange(self._row[node], self._n_train)

    def join(self, nodes: np.ndarray) -> None:
        """Add these nodes to training."""
        for node in nodes:
            if self._row[node] >= self._n_train:
                self._exchange(self._row[node], self._n_train)
                self._n_train += 1

    def _exchange(self, i: int, j: int) -> None:
        self._sum[[i, j]] = self._sum[[j, i]]
        self._node[[i, j]] = self._node[[j, i]]
        self._row[self._node[[i, j]]] = i, j

    def recompute(self, first: int = 1) -> None:
        """Compute the levels from ``first`` on from the one below, and the sum of all."""
        device = self._device if self.order else None
        if device is None:
            self._sum[:] = 0
        else:
            below = self.features if first == 1 else self._reserves[first - 2]
            device.propagate(self.graph, self._degrees, below, first, self.weights, self._node, self._reserves, self._sum)
        if self.weights[0]:
            kernels.add_rows(self._row, self.features * np.sqrt(self._degrees)[:, None], self.weights[0], self._sum)
        for level in range(1, self.order if device is None else first):
            reserve = self._reserves[level - 1]
            if level >= first:
                reserve[:] = 0
                self._push_all(level, self.scratch.itself, 1.0, reserve)
            if self.weights[level]:
                kernels.add_rows(self._row, reserve, self.weights[level], self._sum)
        if device is None and self.order and self.weights[-1]:
            self._push_all(self.order, self._row, self.weights[-1], self._sum)

    def _push_all(self, level: int, place: np.ndarray, weight: float, out: np.ndarray) -> None:
        """Add ``q_l``, from the level below."""
        below = self.features if level == 1 else self._reserves[level - 2]
        scale = self._degrees**-0.5 if level == 1 else 1 / self._degrees
        kernels.gather(*self.graph.rows, below, scale, place, weight, out)

    def _push(self, change: Change) -> None:
        graph, scratch, nodes = self.graph, self.scratch, change.touched
        graph.remove(change.removed)
        graph.add(change.added)
        before, after = self._degrees[nodes], graph.live[nodes] + 1.0

        sent = None if self._reaches_most(nodes, len(change.edges)) else self._sent(0, change.edges)
        old = self.features[nodes]
        if change.features is not None:
            self.features[change.nodes] = change.features
        if sent is None:
            self._degrees[nodes] = after
            self.recompute()
            return
        roots, new_roots, new = np.sqrt(before)[:, None], np.sqrt(after)[:, None], self.features[nodes]
        if self.weights[0]:
            kernels.add_rows(self._row[nodes], new_roots * new - roots * old, self.weights[0], self._sum)
        touched, Y = nodes, new / new_roots - old / roots
        for level in range(1, self.order + 1):
            if self._reaches_most(touched, len(change.edges)):
                self._degrees[nodes] = after
                self.recompute(level)
                return
            sources, weight = touched, self.weights[level]
            touched = scratch.mark(sources)
            if level == self.order:
                if weight:
                    scratch.spread(sources, touched, weight * Y, change, weight * sent, self._sum, self._row)
            else:
                delta = np.zeros((touched.size, Y.shape[1]))
                scratch.spread(sources, touched, Y, change, sent, delta)
                if weight:
                    kernels.add_rows(self._row[touched], delta, weight, self._sum)
                sent = self._sent(level, change.edges)
                Y = np.empty_like(delta)
                reserve = self._reserves[level - 1]
                kernels.outflow(touched, delta, reserve, self._degrees[touched], graph.live[touched] + 1.0, Y)
            scratch.forget(touched)
        self._degrees[nodes] = after

    def _reaches_most(self, sources: np.ndarray, n_edges: int = 0) -> bool:
        """Whether a push from these nodes, when so many edges change, would take as long as propagating everything anew."""
        graph, ends = self.graph, 2 * ENDS * n_edges if n_edges >= MANY else 0
        return bool(kernels.work(graph.live, sources) + ends > FULL * (2 * graph.n_edges + graph.n_nodes))

    def _clear(self, nodes: np.ndarray) -> None:
        for reserve in self._reserves:
            reserve[nodes] = 0
        self._sum[self._row[nodes]] = 0

    def add_nodes(self, features: np.ndarray) -> None:
        """Append nodes without edges."""
        # everything that takes memory first, so that all of it is done or nothing
        count = len(features)
        new = np.arange(self._row.size, self._row.size + count)
        row, node = extended(self._row, new), extended(self._node, new)
        degrees, X = extended(self._degrees, np.ones(count)), extended(self.features, features)
        # of degree one: every power of P leaves their features as they are
        total, reserves = extended(self._sum, self.weights.sum() * features), [extended(q, features) for q in self._reserves]
        self.scratch.add_nodes(count)
        self._rounding.added(features)
        self.graph.add_nodes(count)
        self._row, self._node, self._degrees, self.features = row, node, degrees, X
        self._sum, self._reserves = total, reserves

    def drop_nodes(self, n_nodes: int) -> None:
        """Undo :meth:`add_nodes`, even if it was interrupted."""
        new = np.arange(n_nodes, self._row.size)
        self.leave(new)
        for node in new[::-1]:
            self._exchange(self._row[node], node)
        self.graph.drop_nodes(n_nodes)
        self._row, self._node = self._row[:n_nodes], self._node[:n_nodes]
        self._degrees, self.features, self._sum = self._degrees[:n_nodes], self.features[:n_nodes], self._sum[:n_nodes]
        self._reserves = [q[:n_nodes] for q in self._reserves]
        self.scratch = Scratch(self.graph)
        self._rounding.dropped(n_nodes)

    def errors(self, W: np.ndarray | None = None) -> float:
        """Bound of ``||(Z - Z_hat) W||_F``, without W of ``||Z - Z_hat||_F``, at the training nodes: rounding."""
        entries = float(np.linalg.norm(self._rounding.bound(self._degrees[self.train])))
        error = entries * float(np.sqrt(self.features.shape[1]))
        return error if W is None else error * float(np.linalg.norm(W))

    def column_errors(self) -> np.ndarray:
        """(F,) bounds of the columns of ``|Z - Z_hat|`` summed over the training nodes."""
        return np.full(self.features.shape[1], float(self._rounding.bound(self._degrees[self.train]).sum()))

    def _sent(self, level: int, edges: np.ndarray) -> np.ndarray:
        """(E, 2, F): what the two ends of edges that change sent along them before, ``D^-1 q_l``."""
        ends = edges.ravel()
        degrees = self._degrees[ends][:, None]
        rows = self.features[ends] / np.sqrt(degrees) if level == 0 else self._reserves[level - 1][ends] / degrees
        return rows.reshape(len(edges), 2, rows.shape[1])


@briefly_shown
@dataclass(frozen=True, eq=False)
class EdgeFactors:
    """The removal of an edge as a matrix of rank 2 (L + 1): ``Z'[nodes] = Z[nodes] + left right``, other rows as they are.

    Attributes
    ----------
    nodes : (K,) array
        Within L hops of the ends.
    left : (K, 2 (L + 1)) array
    right : (2 (L + 1), F) array
    """

    nodes: np.ndarray
    left: np.ndarray
    right: np.ndarray

    def apply(self, W: np.ndarray) -> np.ndarray:
        """``(Z' - Z) W`` at ``nodes``: how scores change, for ``2 (L + 1)`` products with W."""
        return self.left @ (self.right @ W)

    def transposed_apply(self, R: np.ndarray) -> np.ndarray:
        """``(Z' - Z)^T R`` for rows of R at ``nodes``: how gradients ``Z^T l'(Z W)`` change, beside what R itself does."""
        return self.right.T @ (self.left.T @ R)


def edge_factors(propagation: Embedding, edge: Any) -> EdgeFactors:
    """What the removal of one edge would do to the embedding; nothing is changed.

    ``delta q_l = sum_t (A' D'^-1)^(l-t) (A' D'^-1 - A D^-1) q_(t-1)``, and ``A' D'^-1 - A D^-1`` has two columns that are not
    zero, those of the edge's ends u and v. So the right factors are the ends' rows of ``q_0, ..., q_(L-1)`` and of S, whose
    rows are rescaled. The left ones are sparse vectors around u and v that do not depend on the features.

    Parameters
    ----------
    propagation : Propagation
        Exact; an approximate one is refused, because factors contain no residues.
    edge : (u, v)

    Raises
    ------
    InputError
    """
    if not isinstance(propagation, Propagation):
        raise InputError("factors are for exact propagation: fit with r_max=0.")
    graph = propagation.graph
    pair = graph.checked_pairs("edge", edge, present=True)
    if len(pair) != 1:
        raise InputError(f"edge has {len(pair)} pairs: one (u, v) is expected.")
    ends = pair[0]
    nodes, left = propagation.scratch.left_factors(ends, propagation.weights)
    return EdgeFactors(nodes, left, np.concatenate([propagation.rows(end) for end in ends]))
