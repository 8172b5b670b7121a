"""Lazy local propagation with residues: those of at most r_max are not pushed (ScaleGUN, r_max > 0).

    q_0 + r_0 = D^1/2 X,    q_l + r_l = A D^-1 q_{l-1},    Z_hat = sum_l w_l D^-1/2 q_l        (Lemma 3.2)

A row of ``r_l`` is pushed when one of its numbers is larger than r_max. That saves work where nodes hardly affect one another,
and costs (L + 1) N F numbers for the residues. It leaves an error, which a certificate has to include; for r_max = 0 there is
:class:`~nareg.unlearning.propagation.exact.Propagation`, which has none.
"""

from __future__ import annotations

import numpy as np

from nareg.unlearning.propagation.base import Change, Embedding, Scratch
from nareg.unlearning.propagation.dynamic_graph import LiveGraph, extended


class ApproximatePropagation(Embedding):
    """An embedding with a known bound on its distance to the exact one.

    Parameters
    ----------
    graph, features, weights, train
        As in :class:`~nareg.unlearning.propagation.exact.Propagation`.
    r_max : float
        More than 0.
    """

    exact = False

    def __init__(
        self,
        graph: LiveGraph,
        features: np.ndarray,
        weights: np.ndarray,
        train: np.ndarray,
        *,
        r_max: float,
    ) -> None:
        super().__init__(graph, features, weights)
        self._train, self.r_max = train, r_max
        levels = range(weights.size)
        self._reserves = [np.zeros_like(features) for _ in levels]
        self.residues = [np.zeros_like(features) for _ in levels]
        self.recompute()

    @property
    def train(self) -> np.ndarray:
        """Nodes that are trained on, in the order of :meth:`trained`."""
        return self._train

    def embedding(self, nodes: np.ndarray | slice = slice(None)) -> np.ndarray:
        """A new array with rows of Z_hat."""
        total = sum(w * q[nodes] for w, q in zip(self.weights, self._reserves, strict=True) if w)
        return np.asarray(total) / np.sqrt(self._degrees[nodes])[:, None]

    def trains(self, nodes: np.ndarray) -> np.ndarray:
        """Whether these are training nodes."""
        return np.isin(nodes, self.train)

    def trained(self) -> tuple[np.ndarray, np.ndarray]:
        """``S, s``: embedding rows of the training nodes are ``s S``."""
        return self.embedding(self.train), np.ones(self.train.size)

    def leave(self, nodes: np.ndarray) -> None:
        """Remove these nodes from training."""
        self._train = np.setdiff1d(self.train, nodes)

    def join(self, nodes: np.ndarray) -> None:
        """Add these nodes to training."""
        self._train = np.union1d(self.train, nodes)

    def recompute(self) -> None:
        """Forward push from the features alone."""
        for q, r in zip(self._reserves, self.residues, strict=True):
            q[:], r[:] = 0, 0
        np.multiply(self.features, np.sqrt(self._degrees)[:, None], out=self.residues[0])
        self._empty(np.arange(self.graph.n_nodes))

    def _push(self, change: Change) -> None:
        """Apply a request.

        Reserves of nodes with another degree are scaled so that what they send stays what it was (Algorithm 4): only at the
        ends of edges that change, and at nodes with new features, are there new residues.
        """
        graph, nodes, edges = self.graph, change.touched, change.edges
        graph.remove(change.removed)
        graph.add(change.added)
        if change.features is not None:
            self.features[change.nodes] = change.features
        ends, signs = edges.ravel(), change.signs[:, None]
        after = graph.live[nodes] + 1.0
        grown = (after / self._degrees[nodes])[:, None]
        sent = [(q[ends] / self._degrees[ends][:, None]).reshape(len(edges), 2, q.shape[1]) for q in self._reserves]
        self._degrees[nodes] = after
        for level, (q, r) in enumerate(zip(self._reserves, self.residues, strict=True)):
            before = q[nodes]
            q[nodes] = grown * before
            if level == 0:
                r[nodes] = np.sqrt(after)[:, None] * self.features[nodes] - q[nodes]
                continue
            r[nodes] -= (grown - 1) * before
            for end in range(2):
                np.add.at(r, edges[:, end], signs * sent[level - 1][:, 1 - end])
        self._empty(nodes)

    def _clear(self, nodes: np.ndarray) -> None:
        for rows in (*self._reserves, *self.residues):
            rows[nodes] = 0

    def _empty(self, nodes: np.ndarray) -> None:
        """Empty residues above r_max, level by level, and all of the last level."""
        waiting = nodes
        for level, (q, r) in enumerate(zip(self._reserves, self.residues, strict=True)):
            large = np.abs(r[waiting]).max(axis=1, initial=0) > (self.r_max if level < self.order else 0)
            pushed = waiting[large]
            rows = r[pushed]
            q[pushed] += rows
            r[pushed] = 0
            if level == self.order:
                break
            reached = self._spread(pushed, rows / self._degrees[pushed][:, None], self.residues[level + 1])
            waiting = np.union1d(reached, nodes)

    def _spread(self, pushed: np.ndarray, sent: np.ndarray, residues: np.ndarray) -> np.ndarray:
        """Add ``A sent`` to residues, and return the nodes that have any of it."""
        scratch = self.scratch
        reached = scratch.mark(pushed)
        try:
            # straight to the rows of all nodes: what is reached has to be looked at once more anyway
            scratch.add(pushed, reached, sent, residues, scratch.itself)
        finally:
            scratch.forget(reached)
        return reached

    def add_nodes(self, features: np.ndarray) -> None:
        """Append nodes without edges."""
        # everything that takes memory first, so that all of it is done or nothing
        count = len(features)
        degrees, X = extended(self._degrees, np.ones(count)), extended(self.features, features)
        # of degree one: every power of P leaves their features as they are
        reserves = [extended(q, features) for q in self._reserves]
        residues = [extended(r, np.zeros_like(features)) for r in self.residues]
        self.scratch.add_nodes(count)
        self._rounding.added(features)
        self.graph.add_nodes(count)
        self._degrees, self.features, self._reserves, self.residues = degrees, X, reserves, residues

    def drop_nodes(self, n_nodes: int) -> None:
        """Undo :meth:`add_nodes`, even if it was interrupted."""
        self.leave(np.arange(n_nodes, self._degrees.size))
        self.graph.drop_nodes(n_nodes)
        self._degrees, self.features = self._degrees[:n_nodes], self.features[:n_nodes]
        self._reserves, self.residues = ([rows[:n_nodes] for rows in levels] for levels in (self._reserves, self.residues))
        self.scratch = Scratch(self.graph)
        self._rounding.dropped(n_nodes)

    def errors(self, W: np.ndarray | None = None) -> float:
        """Bound of ``||(Z - Z_hat) W||_F``, without W of ``||Z - Z_hat||_F``: ``sum_l |w_l| sum_{t<=l} ||D^-1/2 R^(t) W||_F``.

        ``P`` has no eigenvalue above one in magnitude. (Lemma 3.1 rests on ``||A D^-1||_2 <= 1``, which is false.)
        """
        roots = np.sqrt(self._degrees)[:, None]
        norms = [float(np.linalg.norm((r if W is None else r @ W) / roots)) for r in self.residues]
        rounding = float(np.linalg.norm(self._rounding.bound(self._degrees)) * np.sqrt(self.features.shape[1]))
        rounding *= 1.0 if W is None else float(np.linalg.norm(W))
        return float(np.abs(self.weights) @ np.cumsum(norms)) + rounding

    def column_errors(self) -> np.ndarray:
        """(F,) bounds of the columns of ``|Z - Z_hat|`` summed: ``A D^-1`` keeps sums, and degrees are at least one."""
        sums = np.cumsum([np.abs(r).sum(0) for r in self.residues], axis=0)
        return np.abs(self.weights) @ sums + float(self._rounding.bound(self._degrees).sum())
