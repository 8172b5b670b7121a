"""A node classifier that forgets on request, with a certificate."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg import _checks
from nareg._linear.threads import product_threads
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.unlearning import head
from nareg.unlearning._interrupts import interrupts_held
from nareg.unlearning._locking import reading, request, training
from nareg.unlearning.certificate import Certificate, CertificateError, budget
from nareg.unlearning.data import Data, Request
from nareg.unlearning.forgetting import Forgetting, checked_weights
from nareg.unlearning.objective import LOSSES
from nareg.unlearning.propagation.base import Change
from nareg.unlearning.propagation.device import Device
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.factors import EdgeFactors, edge_factors
from nareg.unlearning.store.entries import Entry, LedgerError, Stored
from nareg.unlearning.store.ledger import Ledger
from nareg.unlearning.store.validation import refuse_unlike, settings_of

#: Budgets below are lost in rounding, or are zero.
SMALLEST = 1e-200


class CertifiedGPR(Forgetting[Certificate]):
    """Generalized PageRank and a linear head, trained so that what is removed is provably forgotten (ScaleGUN, corrected).

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
    device : str, optional
        A device of torch, say "cuda", for training and for propagations through the whole graph (where ``r_max`` is 0), in
        float64; NumPy and compiled loops by default.
    rng : numpy.random.Generator, optional
        Draws the random term; by default from the operating system. Whoever knows the seed knows the term.

    Attributes
    ----------
    coefficients : (F, C) array
        One column for two classes.
    classes : array
        They are part of the model, not of what can be forgotten.
    labels : (N,) array
        -1 where there is none, or none any more.
    train : (n_t,) array
        Nodes that are trained on.
    budget : float
        Of the gradient that a certificate may leave; 0 without a random term.

    Raises
    ------
    InputError

    Notes
    -----
    The features must not have been scaled with quantities of the whole data (column means, deviations, maxima): those would
    carry what is removed. Scale every node by itself. Columns whose means are zero give a warning; nothing else is seen.

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
        device: str | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        self.weights = checked_weights(order, weights)
        self.loss = LOSSES[_checks.choice("loss", loss, list(LOSSES))]
        self.lam = _checks.number("lam", lam, low=0, strict=True)
        self.alpha = _checks.number("alpha", alpha, low=0)
        self.eps = _checks.number("eps", eps, low=0, strict=True)
        self.delta = _checks.number("delta", delta, low=0, high=1, strict=True)
        if self.delta == 1:
            raise InputError("delta is 1, which promises nothing: it must be below 1, say one over the number of edges.")
        self.r_max = _checks.number("r_max", r_max, low=0)
        self._device = None if device is None else Device(device)
        self._rng = np.random.default_rng() if rng is None else _checks.generator(rng)
        self.budget = budget(self.alpha, self.eps, self.delta)
        if self.alpha and not self.budget > SMALLEST:
            raise InputError(
                f"alpha is {self.alpha:g}, eps {self.eps:g} and delta {self.delta:g}: no gradient is as small as they ask for "
                f"({self.budget:.3g}); take larger ones."
            )
        self._ledger: Ledger | None = None
        self._certificate: Certificate | None = None

    # -- training -----------------------------------------------------------------------------------------

    @training
    def fit(self, graph: Any, features: Any, labels: Any, train: Any, *, classes: Any = None) -> CertifiedGPR:
        """Propagate and train.

        Parameters
        ----------
        graph : Graph or (N, N) adjacency matrix
            Every edge of weight one.
        features : (N, F) array or sparse array
        labels : (N,) integer array
            -1 where there is none; those of other nodes than ``train`` are not looked at.
        train : indices or (N,) mask
        classes : integers, optional
            All that there can be, known without looking at the labels. By default those of the training nodes, none of which
            can then lose its last one: that would show.

        Raises
        ------
        InputError
        CertificateError
            If ``r_max`` is too large for the budget.
        """
        self._refuse_stored("fit")
        start = time.perf_counter()
        data = self._read(graph, features, labels, train, classes)
        seconds = {"propagation": time.perf_counter() - start}
        start = time.perf_counter()
        found = self._retrained(data)
        seconds |= {"training": time.perf_counter() - start}
        with self._turns.lock, interrupts_held():
            self._data, self._head = data, found
            self._certificate = self._certified(data, found, "fit", data.n_nodes, seconds, retrained=False)
        return self

    def _refuse_stored(self, what: str) -> None:
        if self._ledger is not None:
            raise InputError(f"{what} is asked of a model whose requests go to {self._ledger.path}: close() it first.")

    @property
    @reading
    def coefficients(self) -> np.ndarray:
        """(F, C), one column for two classes."""
        return self._head.W.copy()

    def _solved(self, data: Data, B: np.ndarray, W: np.ndarray) -> head.Head:
        options: dict[str, Any] = {"loss": self.loss, "lam": self.lam, "device": self._device}
        return head.solve(data.propagation, data.targets(), B, W, budget=self.budget if self.alpha else None, **options)

    def _retrained(self, data: Data) -> head.Head:
        """From nothing, with a new random term."""
        B = self._rng.normal(0.0, 1.0, (data.n_features, data.columns)) * self.alpha
        return self._solved(data, B, np.zeros_like(B))

    def _certified(
        self, data: Data, found: head.Head, request: str, count: int, seconds: dict[str, float], *, retrained: bool
    ) -> Certificate | None:
        """None without a random term."""
        if not self.alpha:
            return None
        return Certificate(
            request=request, count=count, eps=self.eps, delta=self.delta, alpha=self.alpha, budget=self.budget,
            spent=found.spent, residual=found.residual, approximation=found.approximation, retrained=retrained,
            n_nodes=data.n_nodes - int(np.count_nonzero(data.gone)), n_edges=data.graph.n_edges, n_train=data.train.size,
            seconds=seconds,
        )  # fmt: skip

    # -- requests -----------------------------------------------------------------------------------------

    #: Whether every request propagates everything anew.
    _fully = False

    def _do(self, request: Request) -> Certificate:
        """Carry out a request: the data, the model, the ledger; all of them or none."""
        self._refuse_uncertified()
        start, data = time.perf_counter(), self._data
        with data.changed(request, fully=self._fully) as keep:
            seconds = {"propagation": time.perf_counter() - start}
            start = time.perf_counter()
            found = self._found(data, anew=request.anew)
            seconds |= {"training": time.perf_counter() - start}
            name, retrained = request.told["request"], found.B is not self._head.B
            certificate = self._certified(data, found, name, request.count, seconds, retrained=retrained)
            with interrupts_held():
                if self._ledger is not None:
                    self._ledger.record(_entry(data, request.told, request.change, found, certificate))
                self._head, self._certificate = found, certificate
                keep()
        return self.certificate()

    def _found(self, data: Data, *, anew: bool) -> head.Head:
        """A model of what remains: the one at hand, adjusted, if that is enough and nothing else is asked for."""
        if not anew:
            with suppress(CertificateError):
                return self._adjusted(data)
        try:
            return self._retrained(data)
        except CertificateError as error:
            raise CertificateError(f"{error} Nothing was changed.") from None

    @request
    def renew(self) -> Certificate:
        """Train anew with a new random term, before another version of the model is published.

        Versions with the same term tell what was removed between them: the term cancels where their gradients are compared.

        Raises
        ------
        CertificateError
            If ``r_max`` is too large for the budget.
        LedgerError
            If it cannot be written to the store.
        """
        return self._do(Request({"request": "renew"}, self.remaining.size, Change(), anew=True))

    def _adjusted(self, data: Data) -> head.Head:
        """Newton steps from the model at hand.

        Raises
        ------
        CertificateError
            If that leaves more than the budget.
        """
        return self._solved(data, self._head.B, self._head.W)

    # -- the ledger ---------------------------------------------------------------------------------------

    @request
    def save(self, path: str | os.PathLike[str], *, key: str | os.PathLike[str] | None = None) -> CertifiedGPR:
        """Write a store of what remains and of the model; from now on every request is written to it before it returns.

        A key for the hashes of requests is written to the file ``key`` (``path.key``): best to another disk.

        Raises
        ------
        InputError
            If there is one already, or a key.
        LedgerError
            If it cannot be written.
        """
        self._refuse_stored("save")
        data = self._data
        settings: dict[str, Any] = {name: getattr(self, name) for name in ("lam", "alpha", "eps", "delta", "r_max")}
        settings |= {"weights": self.weights.tolist(), "loss": self.loss.name}
        settings |= {"classes": self.classes.tolist(), "told": data.told}
        A = sp.triu(data.graph.adjacency()).tocoo()
        change = Change(added=np.stack([A.row, A.col], axis=1).astype(np.int64), nodes=np.arange(data.n_nodes))
        entry = _entry(data, {"request": "save"}, change, self._head, self._certificate)
        self._ledger = Ledger.create(path, settings, entry, key)
        return self

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        key: str | os.PathLike[str] | None = None,
        device: str | None = None,
        rng: np.random.Generator | None = None,
    ) -> CertifiedGPR:
        """The model of a store, whose embedding is computed anew from what remains; requests go on being written there.

        Where ``r_max`` is above 0, and residues of the new embedding would leave more than the budget, it is exact.

        Raises
        ------
        InputError
            If there is no store, or no key.
        LedgerError
            If it cannot be read, is damaged, or another process has it open.
        """
        ledger = Ledger(path, key)
        try:
            if not ledger.has_key:
                raise InputError(
                    f"the key of {path} is not beside it, or not to be read: name its file with key=, to record requests with."
                )
            stored = ledger.read()
            model = cls.from_stored(stored, rng, device=device)
            if model.r_max and not model._belongs():
                model = cls.from_stored(stored, rng, device=device, exact=True)
            if not model._belongs():
                raise LedgerError(f"{path}: the model does not belong to the data beside it; restore the store from a copy.")
        except BaseException:
            ledger.close()
            raise
        model._ledger = ledger
        return model

    @classmethod
    def from_stored(
        cls, held: Stored, rng: np.random.Generator | None = None, *, device: str | None = None, exact: bool = False
    ) -> CertifiedGPR:
        """The model of what a store holds, with ``r_max`` or propagated exactly; its requests are written nowhere."""
        try:
            settings, classes, told = settings_of(held.settings)
        except ValueError as error:
            raise LedgerError(f"the store's settings are damaged ({error}); restore it from a copy.") from None
        try:
            refuse_unlike(held, classes)
        except ValueError as error:
            raise LedgerError(f"the store's data are damaged ({error}); restore it from a copy.") from None
        model = cls(**settings, device=device, rng=rng)
        n, ends = len(held.labels), np.concatenate([held.edges, held.edges[:, ::-1]])
        graph = LiveGraph(Graph(sp.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))))
        model._data = Data(
            graph, held.features, held.labels, np.flatnonzero(held.trained), classes, told=told, weights=model.weights,
            r_max=0.0 if exact else model.r_max, gone=held.gone, device=model._device,
        )  # fmt: skip
        options: dict[str, Any] = {"loss": model.loss, "lam": model.lam, "device": model._device}
        data = model._data
        model._head = head.evaluate(data.propagation, data.targets(), held.term, held.coefficients, **options)
        model._certificate = held.certificate
        return model

    def _belongs(self) -> bool:
        """Whether the model is one that the last certificate may have been issued for, on these data."""
        certificate, so = self._certificate, (self.remaining.size, self._data.graph.n_edges, self.train.size)
        counts = certificate is None or (certificate.n_nodes, certificate.n_edges, certificate.n_train) == so
        return counts and (not self.alpha or self._head.spent <= self.budget)

    def close(self) -> None:
        """Let others open the store; requests are no longer written to it. One of another thread is waited for."""
        with self._turns.lock:
            self._turns.refuse_changing("close")
            if self._ledger is not None:
                self._ledger.close()
            self._ledger = None

    # -- what is known ------------------------------------------------------------------------------------

    @reading
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

    @reading
    def preview(self, edge: Any) -> EdgeFactors:
        """What the removal of an edge (u, v) would do to the embedding, as factors of low rank; nothing is changed.

        Raises
        ------
        InputError
            For what is no edge; where ``r_max`` is above 0.
        """
        return edge_factors(self._data.propagation, edge)

    @reading
    def decision(self, nodes: Any = None) -> np.ndarray:
        """``Z W`` of some nodes, or all: (K, C), one column for two classes."""
        Z, W = self._data.propagation.embedding(self._index(nodes)), self._head.W
        with product_threads(Z.size * W.shape[1]):
            scores: np.ndarray = Z @ W
        return scores


def _entry(data: Data, told: dict[str, Any], change: Change, found: head.Head, certificate: Certificate | None) -> Entry:
    """What a ledger writes of a request that was carried out."""
    nodes = change.nodes
    return Entry(
        told=told, removed=change.removed, added=change.added, nodes=nodes, features=data.propagation.features[nodes],
        labels=data.labels[nodes], trained=data.propagation.trains(nodes), gone=data.gone[nodes], coefficients=found.W,
        term=found.B, certificate=certificate,
    )  # fmt: skip
