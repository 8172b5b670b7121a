"""A node classifier that forgets on request, with a certificate."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg import _checks
from nareg.errors import InputError
from nareg.graph import Graph, node_indices
from nareg.unlearning import head
from nareg.unlearning._interrupts import interrupts_held
from nareg.unlearning.approximate import ApproximatePropagation
from nareg.unlearning.certificate import Certificate, CertificateError, budget
from nareg.unlearning.graph import LiveGraph
from nareg.unlearning.ledger import Entry, Ledger, LedgerError, Remaining
from nareg.unlearning.objective import LOSSES
from nareg.unlearning.propagation import Change, Propagation


class CertifiedGPR:
    """Generalised PageRank and a linear head, trained so that what is removed is provably forgotten (ScaleGUN, corrected).

    ``Z = sum_l w_l (D^-1/2 A D^-1/2)^l X`` with loops in A; a logistic or least-squares problem for each class against the
    rest, with a random linear term. A request updates Z around what it names, takes Newton steps from the old model, and
    returns a :class:`Certificate`, or raises and leaves everything as it was.

    Parameters
    ----------
    order : int
        L, where ``weights`` are not given: ``Z = P^L X`` (SGC).
    weights : (L + 1,) array, optional
        ``w_l``, with absolute values that sum to at most one.
    loss : {"logistic", "squared"}
    lam : float
        Ridge a training node, more than 0.
    alpha : float
        Deviation of the random linear term; 0 for none, and no certificate.
    eps, delta : float
        Of the certificate: more than 0, and between 0 and 1.
    r_max : float
        Residues up to this wait; 0 propagates exactly.
    rng : numpy.random.Generator, optional
        Draws the random term; by default from the operating system. Whoever knows the seed knows the term.

    Attributes
    ----------
    coefficients : (F, C) array
        One column for two classes.
    classes : array
        Known beforehand: they are part of the model, not of what can be forgotten.
    labels : (N,) array
        -1 where there is none, or none any more.
    train : (n_t,) array
        Nodes that are trained on.
    budget : float

    Raises
    ------
    InputError

    Notes
    -----
    The features must not have been scaled with quantities of the whole data (column means, deviations, maxima): those would
    carry what is removed. Scale every node by itself.

    Examples
    --------
    >>> import nareg, numpy as np
    >>> from nareg.unlearning import CertifiedGPR
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> model = CertifiedGPR(rng=np.random.default_rng(1)).fit(data.graph, data.features, data.labels, np.arange(200))
    >>> u, v = map(int, np.argwhere(data.graph.adjacency.toarray())[0])
    >>> certificate = model.remove_edges([(u, v)])
    >>> certificate.spent <= certificate.budget, certificate.retrained
    (True, False)
    """

    def __init__(
        self,
        *,
        order: int = 2,
        weights: Any = None,
        loss: str = "logistic",
        lam: float = 1e-2,
        alpha: float = 0.1,
        eps: float = 1.0,
        delta: float = 1e-4,
        r_max: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.weights = _weights(order, weights)
        self.loss = LOSSES[_checks.choice("loss", loss, list(LOSSES))]
        self.lam = _checks.number("lam", lam, low=0, strict=True)
        self.alpha = _checks.number("alpha", alpha, low=0)
        self.eps = _checks.number("eps", eps, low=0, strict=True)
        self.delta = _checks.number("delta", delta, low=0, high=1, strict=True)
        if self.delta == 1:
            raise InputError("delta is 1, which promises nothing: it must be below 1, say one over the number of edges.")
        self.r_max = _checks.number("r_max", r_max, low=0)
        self._rng = np.random.default_rng() if rng is None else _checks.generator(rng)
        self.budget = budget(self.alpha, self.eps, self.delta)
        self._ledger: Ledger | None = None
        self._certificate: Certificate | None = None

    # -- training -----------------------------------------------------------------------------------------

    def fit(self, graph: Any, features: Any, labels: Any, train: Any) -> CertifiedGPR:
        """Propagate and train.

        Parameters
        ----------
        graph : Graph or (N, N) adjacency matrix
            Every edge of weight one.
        features : (N, F) array or sparse array
        labels : (N,) integer array
            -1 where there is none; those of other nodes than ``train`` are not looked at.
        train : indices or (N,) mask

        Raises
        ------
        InputError
        CertificateError
            If ``r_max`` is too large for the budget.
        """
        live = LiveGraph(graph if isinstance(graph, Graph) else Graph(graph))
        n = live.n_nodes
        X, y = _features("features", features, n), _labels(labels, n)
        nodes = np.sort(node_indices("train", train, n))
        if nodes.size == 0:
            raise InputError("train is empty: name at least one node of every class.")
        if (y[nodes] < 0).any():
            node = int(nodes[y[nodes] < 0][0])
            raise InputError(f"labels[{node}] is {y[node]}, no class, but node {node} is trained on: leave it out of train.")
        classes = np.unique(y[nodes])
        if classes.size < 2:
            raise InputError(f"labels of the training nodes are all {classes[0]}: there is nothing to tell apart.")
        start = time.perf_counter()
        self._propagation = self._propagated(live, X, nodes)
        self.classes, self.labels, self._gone = classes, y, np.zeros(n, dtype=bool)
        seconds = {"propagation": time.perf_counter() - start}
        start = time.perf_counter()
        self.close()
        self._head = self._retrained()
        seconds |= {"training": time.perf_counter() - start}
        self._certificate = self._certified(self._head, "fit", n, seconds, retrained=False)
        return self

    def _propagated(self, graph: LiveGraph, X: np.ndarray, train: np.ndarray) -> Propagation | ApproximatePropagation:
        if self.r_max:
            return ApproximatePropagation(graph, X, self.weights, train, r_max=self.r_max)
        return Propagation(graph, X, self.weights, train)

    @property
    def n_nodes(self) -> int:
        """Number of nodes, removed ones among them: they keep their numbers."""
        return self._propagation.graph.n_nodes

    @property
    def remaining(self) -> np.ndarray:
        """Nodes that were not removed."""
        return np.flatnonzero(~self._gone)

    @property
    def coefficients(self) -> np.ndarray:
        """(F, C), one column for two classes."""
        return self._head.W

    @property
    def train(self) -> np.ndarray:
        """Nodes that are trained on."""
        return np.sort(self._propagation.train)

    def _targets(self) -> np.ndarray:
        """(n_t, C) array of -1 and 1."""
        apart = self.classes[1:] if self.classes.size == 2 else self.classes
        return np.where(self.labels[self._propagation.train][:, None] == apart, 1.0, -1.0)

    def _solved(self, B: np.ndarray, W: np.ndarray) -> head.Head:
        told: dict[str, Any] = {"loss": self.loss, "lam": self.lam, "budget": self.budget}
        return head.solve(self._propagation, self._targets(), B, W, **told)

    def _retrained(self) -> head.Head:
        """From nothing, with a new random term."""
        columns = 1 if self.classes.size == 2 else self.classes.size
        B = self._rng.normal(0.0, 1.0, (self._propagation.features.shape[1], columns)) * self.alpha
        return self._solved(B, np.zeros_like(B))

    def _certified(
        self, found: head.Head, request: str, count: int, seconds: dict[str, float], *, retrained: bool
    ) -> Certificate | None:
        """None without a random term."""
        if not self.alpha:
            return None
        return Certificate(
            request=request, count=count, eps=self.eps, delta=self.delta, alpha=self.alpha, budget=self.budget,
            spent=found.spent, residual=found.residual, approximation=found.approximation, retrained=retrained,
            n_nodes=self.remaining.size, n_edges=self._propagation.graph.n_edges,
            n_train=self._propagation.train.size, seconds=seconds,
        )  # fmt: skip

    # -- requests -----------------------------------------------------------------------------------------

    def remove_edges(self, edges: Any) -> Certificate:
        """Forget that nodes were joined.

        Parameters
        ----------
        edges : (E, 2) pairs of nodes
            In whichever direction.

        Raises
        ------
        InputError
            For what is no edge, or not any more.
        CertificateError
            If the budget cannot be met; nothing is changed then.
        """
        pairs = self._propagation.graph.edges("edges", edges, present=True)
        return self._apply({"request": "remove_edges", "edges": pairs.tolist()}, len(pairs), Change(removed=pairs))

    def remove_nodes(self, nodes: Any) -> Certificate:
        """Forget nodes: their edges, features and labels. Their numbers are not used again."""
        index = self._nodes(nodes)
        graph = self._propagation.graph
        joined = [np.stack([np.full(graph.live[u], u), graph.of(u)], axis=1) for u in index]
        edges = np.unique(np.sort(np.concatenate(joined).astype(np.int64), axis=1), axis=0)
        blank = np.zeros((index.size, self._propagation.features.shape[1]))
        told = {"request": "remove_nodes", "nodes": index.tolist()}
        change = Change(removed=edges, nodes=index, features=blank)
        return self._apply(told, index.size, change, unlabelled=index, gone=index)

    def remove_features(self, nodes: Any, *, labels: bool = False) -> Certificate:
        """Forget nodes' features; with ``labels`` their labels as well (what the paper calls feature unlearning)."""
        index = self._nodes(nodes)
        blank = np.zeros((index.size, self._propagation.features.shape[1]))
        told = {"request": "remove_features", "nodes": index.tolist(), "labels": labels}
        return self._apply(told, index.size, Change(nodes=index, features=blank), unlabelled=index if labels else None)

    def add_edges(self, edges: Any) -> Certificate:
        """Join nodes that are not."""
        pairs = self._propagation.graph.edges("edges", edges, present=False)
        self._refuse_gone("edges", pairs.ravel())
        return self._apply({"request": "add_edges", "edges": pairs.tolist()}, len(pairs), Change(added=pairs))

    def add_nodes(self, features: Any, *, labels: Any = None) -> Certificate:
        """Nodes without edges, numbered from ``n_nodes``; those with a label that is not -1 are trained on."""
        X = _features("features", features, None)
        wanted = self._propagation.features.shape[1]
        if X.shape[1] != wanted:
            raise InputError(f"features has {X.shape[1]} columns but the model was fitted to {wanted}.")
        y = np.full(len(X), -1) if labels is None else _labels(labels, len(X))
        unknown = np.setdiff1d(y[y >= 0], self.classes)
        if unknown.size:
            raise InputError(f"labels holds class {unknown[0]}, which the model was not fitted to ({self.classes.tolist()}).")
        self._refuse_uncertified()
        before, start = self.n_nodes, time.perf_counter()
        try:
            with interrupts_held():
                self._propagation.add_nodes(X)
                self.labels = np.concatenate([self.labels, y])
                self._propagation.join(before + np.flatnonzero(y >= 0))
                self._gone = np.concatenate([self._gone, np.zeros(len(X), dtype=bool)])
            told = {"request": "add_nodes", "features": X.tolist(), "labels": y.tolist()}
            change = Change(nodes=np.arange(before, before + len(X)))
            return self._learn(told, len(X), {"propagation": time.perf_counter() - start}, change)
        except BaseException:
            with interrupts_held():
                self._propagation.drop_nodes(before)
                self.labels, self._gone = self.labels[:before], self._gone[:before]
            raise

    def _nodes(self, value: Any) -> np.ndarray:
        """Nodes that a removal names."""
        given = _checks.array_of("nodes", value)
        index = np.sort(node_indices("nodes", given if given.size else given.astype(np.int64), self.n_nodes))
        if index.size == 0:
            raise InputError("nodes is empty: name at least one.")
        self._refuse_gone("nodes", index)
        return index

    def _refuse_gone(self, name: str, nodes: np.ndarray) -> None:
        if self._gone[nodes].any():
            raise InputError(f"{name} holds {int(nodes[self._gone[nodes]][0])}, which was removed before.")

    def _apply(
        self,
        told: dict[str, Any],
        count: int,
        change: Change,
        *,
        unlabelled: np.ndarray | None = None,
        gone: np.ndarray | None = None,
    ) -> Certificate:
        """Apply a checked change, whole or not at all."""
        self._refuse_uncertified()
        none = np.empty(0, dtype=np.int64)
        unlabelled, gone = none if unlabelled is None else unlabelled, none if gone is None else gone
        held = self._propagation
        leaving = np.intersect1d(unlabelled, held.train)
        lost = np.setdiff1d(self.labels[leaving], self.labels[np.setdiff1d(held.train, leaving)])
        if lost.size:
            raise InputError(
                f"nodes holds the last training node of class {lost[0]}: a model without it would tell that it was there; fit "
                "anew without the class."
            )
        features, labels = held.features[change.nodes], self.labels[unlabelled]
        start = time.perf_counter()
        try:
            with interrupts_held():
                self._changed(change)
                held.leave(leaving)
                self.labels[unlabelled] = -1
                self._gone[gone] = True
            return self._learn(told, count, {"propagation": time.perf_counter() - start}, change)
        except BaseException:  # Ctrl-C, too
            with interrupts_held():
                held.join(leaving)
                held.restore(change, features)
                self.labels[unlabelled] = labels
                self._gone[gone] = False
            raise

    def _changed(self, change: Change) -> None:
        """Graph, features and embedding, brought up to date."""
        self._propagation.update(change)

    def _adjusted(self) -> head.Head:
        """The model, brought up to date."""
        return self._solved(self._head.B, self._head.W)

    def _learn(self, told: dict[str, Any], count: int, seconds: dict[str, float], change: Change) -> Certificate:
        """Newton steps from the model at hand, from nothing where those cannot be certified; then the ledger."""
        start = time.perf_counter()
        try:
            found = self._adjusted()
        except CertificateError:
            found = self._retrained()
        retrained = found.B is not self._head.B
        seconds |= {"training": time.perf_counter() - start}
        certificate = self._certified(found, told["request"], count, seconds, retrained=retrained)
        with interrupts_held():
            if self._ledger is not None:
                self._ledger.record(self._entry(told, change, found, certificate))
            self._head, self._certificate = found, certificate
        return self.certificate()

    # -- the ledger ---------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> CertifiedGPR:
        """Write a store of what remains and of the model; from now on every request is written to it before it returns.

        A key for the hashes of requests is written beside it, to ``path.key``: keep it elsewhere.

        Raises
        ------
        InputError
            If there is one already.
        LedgerError
            If it cannot be written.
        """
        weights, classes = self.weights.tolist(), self.classes.tolist()
        told = {name: getattr(self, name) for name in ("lam", "alpha", "eps", "delta", "r_max")}
        settings = {**told, "weights": weights, "loss": self.loss.name, "classes": classes}
        everything = np.arange(self.n_nodes)
        A = sp.triu(self._propagation.graph.adjacency()).tocoo()
        change = Change(added=np.stack([A.row, A.col], axis=1).astype(np.int64), nodes=everything)
        entry = self._entry({"request": "save"}, change, self._head, self._certificate)
        self._ledger = Ledger.create(Path(path), settings, entry)
        return self

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, rng: np.random.Generator | None = None) -> CertifiedGPR:
        """The model of a store, whose embedding is computed anew from what remains; requests go on being written there.

        Raises
        ------
        InputError
            If there is no store, or no key beside it.
        LedgerError
            If it cannot be read, is damaged, or another process has it open.
        """
        ledger = Ledger(Path(path))
        try:
            model = cls._of(ledger.read(), rng)
            if model.alpha and model._head.spent > model.budget:
                raise LedgerError(f"{path}: the model does not belong to the data beside it; restore the store from a copy.")
        except BaseException:
            ledger.close()
            raise
        model._ledger = ledger
        return model

    @classmethod
    def _of(cls, held: Remaining, rng: np.random.Generator | None) -> CertifiedGPR:
        settings = dict(held.settings)
        classes = settings.pop("classes")
        model = cls(**settings, rng=rng)
        n, ends = len(held.labels), np.concatenate([held.edges, held.edges[:, ::-1]])
        graph = LiveGraph(Graph(sp.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))))
        model._propagation = model._propagated(graph, held.features, np.flatnonzero(held.trained))
        model.classes, model.labels, model._gone = np.array(classes), held.labels, held.gone
        told: dict[str, Any] = {"loss": model.loss, "lam": model.lam}
        model._head = head.evaluate(model._propagation, model._targets(), held.term, held.coefficients, **told)
        model._certificate = held.certificate
        return model

    def close(self) -> None:
        """Let others open the store; requests are no longer written to it."""
        if self._ledger is not None:
            self._ledger.close()
        self._ledger = None

    def _entry(self, told: dict[str, Any], change: Change, found: head.Head, certificate: Certificate | None) -> Entry:
        nodes = change.nodes
        return Entry(
            told=told, removed=change.removed, added=change.added, nodes=nodes, features=self._propagation.features[nodes],
            labels=self.labels[nodes], trained=np.isin(nodes, self._propagation.train), gone=self._gone[nodes],
            coefficients=found.W, term=found.B, certificate=certificate,
        )  # fmt: skip

    # -- what is known ------------------------------------------------------------------------------------

    def certificate(self) -> Certificate:
        """Of the last request.

        Raises
        ------
        CertificateError
            Without a random term (``alpha=0``) there is none.
        """
        self._refuse_uncertified()
        assert self._certificate is not None
        return self._certificate

    def _refuse_uncertified(self) -> None:
        if not self.alpha:
            raise CertificateError("alpha is 0: without a random term nothing is certified; fit with alpha above 0.")

    def embedding(self) -> np.ndarray:
        """(N, F) array Z, new."""
        return self._propagation.embedding()

    def decision(self, nodes: Any = None) -> np.ndarray:
        """``Z W`` of some nodes, or all."""
        index = slice(None) if nodes is None else node_indices("nodes", nodes, self.n_nodes)
        found: np.ndarray = self._propagation.embedding(index) @ self._head.W
        return found

    def predict(self, nodes: Any = None) -> np.ndarray:
        """Class of some nodes, or all."""
        scores = self.decision(nodes)
        best = (scores[:, 0] > 0).astype(int) if self.classes.size == 2 else scores.argmax(axis=1)
        found: np.ndarray = self.classes[best]
        return found


def _weights(order: Any, weights: Any) -> np.ndarray:
    if weights is None:
        found = np.zeros(_checks.integer("order", order, low=0) + 1)
        found[-1] = 1
        return found
    found = _checks.floats("weights", weights, ndim=(1,)).astype(np.float64)
    if found.size == 0 or np.abs(found).sum() > 1 + 1e-12:
        raise InputError(
            f"weights have {found.size} values whose absolute values sum to {np.abs(found).sum():g}: at least one value and a "
            "sum of at most one are expected; divide by the sum."
        )
    return found


def _features(name: str, value: Any, n_nodes: int | None) -> np.ndarray:
    """A float64 copy."""
    X = np.array(_checks.floats(name, value.toarray() if sp.issparse(value) else value, ndim=(2,)), dtype=np.float64)
    if X.shape[1] == 0 or (n_nodes is not None and len(X) != n_nodes):
        raise InputError(f"{name} has shape {X.shape}: ({'M' if n_nodes is None else n_nodes}, F) is expected, F at least 1.")
    return X


def _labels(value: Any, n: int) -> np.ndarray:
    array = _checks.array_of("labels", value)
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise InputError(f"labels have shape {array.shape} and dtype {array.dtype}: ({n},) integers are expected, -1 for none.")
    return array.astype(np.int64)
