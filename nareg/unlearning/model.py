"""A node classifier with certified unlearning."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from nareg._core import checks
from nareg._core.interrupts import interrupts_deferred
from nareg._core.process import Noise
from nareg._solvers.threads import product_threads
from nareg.errors import CertificateError, InputError
from nareg.io import takes_tables
from nareg.progress import ProgressCallback
from nareg.typing import ArrayLike, GraphLike, Sparse
from nareg.unlearning import _arguments, head
from nareg.unlearning._locking import reading, request, training
from nareg.unlearning.calibration import AUTO, Auto, Calibrated, Calibration, FeatureScale, checked_budget, checked_guarantee
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.cost import UtilityCost, measured, warn_of_cost
from nareg.unlearning.data import Data, Request
from nareg.unlearning.forgetting import checked_labels, checked_weights
from nareg.unlearning.head import CertifiedTraining
from nareg.unlearning.objective import LOSSES, ClassifierObjective
from nareg.unlearning.propagation.base import Change
from nareg.unlearning.propagation.device import Device
from nareg.unlearning.propagation.exact import EdgeFactors, edge_factors
from nareg.unlearning.store.entries import StoredSettings
from nareg.unlearning.stored_model import StoredModel


class CertifiedGPR(StoredModel):
    """Generalized PageRank and a linear head that provably forget removed data (ScaleGUN, corrected).

    The embedding is ``Z = sum_l w_l (D^-1/2 A D^-1/2)^l X`` with self-loops in A. The head solves a logistic or least-squares
    problem per class against the rest, with a linear noise term. A request updates Z locally, takes Newton steps from the old
    model, and returns a :class:`Certificate`. A request that raises changes nothing.

    Parameters
    ----------
    weights : int or (L + 1,) array
        Number of propagation steps L of ``Z = P^L X`` (SGC), or weights ``w_l`` whose absolute values sum to at most one.
    loss : {"logistic", "squared"}
    lam : float, "auto" or FeatureScale
        Ridge per training node, above 0. "auto", the default, is ``5e-5 s^2`` for features whose rows have the length s.
    alpha : float, "auto" or FeatureScale
        Standard deviation of the noise term; 0 for no noise and no certificate. "auto", the default, is ``0.2 lam n_t / s``:
        noise changes the score of a node by a deviation of at most 0.2 if its embedding has the length s.
        ``FeatureScale(norm=1.0)`` in the place of "auto" states s. Otherwise s is a power of two near the median length of a
        row, chosen by the exponential mechanism. That adds ``eps_scale`` to ``eps`` per row of features that is removed, and
        nothing for edges; certificates state it.
    eps : float
        Privacy loss that each certificate guarantees, above 0.
    delta : float
        Probability that the guarantee fails, between 0 and 1.
    r_max : float
        Residuals below this are not pushed; 0 (default) is exact.
    folder : path, optional
        Keep graph, features and embedding in memory-mapped files of this folder, which requests change in place, all or
        nothing. :meth:`load` opens it again. For graphs larger than memory, with ``r_max=0`` and without ``device``.
    device : str, optional
        A torch device, such as "cuda", which trains in float64 and propagates through the whole graph. The default is NumPy
        and compiled loops, which also serve requests.
    rng : numpy.random.Generator, optional
        Draws the noise term. The operating system seeds the default, not ``default_rng(0)`` as elsewhere: who knows the seed
        knows the noise term. A copy of the model, or one in a forked process, goes on with a seed of its own.

    Attributes
    ----------
    coefficients : (F, C) array
        One column for two classes.
    classes : array
        Classes of the model; none can be removed.
    labels : (N,) array
        Labels, -1 for none or a removed one.
    train : (n_t,) array
        Training nodes.
    lam, alpha : float
        In use. "auto" is decided by ``fit``, and no request changes it.
    budget : float
        Largest gradient norm of a certificate; 0 without a noise term.
    cost : UtilityCost or None
        What ridge and noise cost, in points of accuracy at training nodes that are held out.

    Notes
    -----
    Scale every node's features by themselves. Statistics of all nodes (column means, deviations, maxima) retain removed data.
    Columns of mean zero raise a warning; other such scalings go undetected.

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
        weights: int | ArrayLike = 2,
        loss: str = "logistic",
        lam: float | Auto | FeatureScale = "auto",
        alpha: float | Auto | FeatureScale = "auto",
        eps: float = 1.0,
        delta: float = 1e-4,
        r_max: float = 0.0,
        folder: str | os.PathLike[str] | None = None,
        device: str | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        self.weights = checked_weights(weights)
        self.loss = LOSSES[checks.choice("loss", loss, list(LOSSES))]
        self._calibration = Calibration.checked(lam, alpha)
        self.eps, self.delta = checked_guarantee(eps, delta)
        self.r_max = checks.number("r_max", r_max, low=0)
        self.folder = None if folder is None else _arguments.folder(folder, self.r_max, device)
        self._device = None if device is None else Device(device)
        self._noise_source = Noise(None if rng is None else checks.generator(rng))  # secret: see rng
        self._calibrated = self._calibration.fixed
        checked_budget(1.0 if self._calibration.alpha == AUTO else self._calibration.alpha, self.eps, self.delta)
        self._cost: UtilityCost | None = None

    @property
    def lam(self) -> float:
        """Ridge per training node in use."""
        return self._numbers.lam

    @property
    def alpha(self) -> float:
        """Standard deviation of the noise term in use."""
        return self._numbers.alpha

    @property
    def eps_scale(self) -> float:
        """What the choice of ``lam`` and ``alpha`` adds to ``eps``, per row of features that is removed."""
        return self._numbers.eps_scale

    @property
    def budget(self) -> float:
        """Largest gradient norm of a certificate; 0 without a noise term."""
        return self._training.budget

    @property
    def _numbers(self) -> Calibrated:
        if self._calibrated is None:
            raise InputError('lam or alpha is "auto", which fit decides: call fit(graph, features, labels, train) first.')
        return self._calibrated

    def calibration_options(self) -> dict[str, Any]:
        """``lam`` and ``alpha`` as they were passed, for another model."""
        return self._calibration.options()

    @training
    @takes_tables(rows=("features",))
    def fit(
        self, graph: GraphLike, features: ArrayLike | Sparse, labels: ArrayLike, train: ArrayLike, *,
        classes: ArrayLike | None = None, memory: int | None = None, progress: ProgressCallback | None = None,
    ) -> CertifiedGPR:  # fmt: skip
        """Propagate and train.

        A :class:`~nareg.errors.UtilityWarning` says if ridge and noise cost more than five points of accuracy (see ``cost``).

        Parameters
        ----------
        graph : Graph or (N, N) adjacency matrix
            Every edge has weight one. With ``folder`` also a :class:`~nareg.io.StoredGraph` or its path.
        features : (N, F) array or sparse array
            With ``folder`` also the path of an ``.npy`` file. float32 stays float32 there, which loses nothing.
        labels : (N,) integer array
            Labels, -1 for none; training uses those of ``train``.
        train : indices or (N,) mask
        classes : integers, optional
            All possible classes, known without the labels. By default the classes of the training nodes, none of which can
            then lose its last training node, because that would show.
        memory : int, optional
            With ``folder``: bytes for propagation through the whole graph; by default two fifths of those of the embedding.
        progress : callable, optional
            With ``folder``: receives a :class:`nareg.progress.Progress` for every pass over the graph.

        Raises
        ------
        InputError
            If shapes do not match, or a class is missing.
        CertificateError
            If ``r_max`` is too large for the budget.
        """
        self._refuse_stored("fit")
        memory = None if memory is None else checks.integer("memory", memory, low=1)
        start = time.perf_counter()
        if self.folder is None:
            data = self._read(graph, features, labels, train, classes)
        else:
            from nareg.unlearning.store.creation import create

            labeled = partial(checked_labels, labels, train, classes)
            data = create(self.folder, graph, features, labeled, self.weights, memory, progress)
        timings = {"propagation": time.perf_counter() - start}
        before = self._calibrated
        try:
            start = time.perf_counter()
            self._calibrated = self._calibration.calibrated(data.propagation.features, data.train.size, self._rng)
            data.settings = self._settings(data)
            result = self._retrained(data)
            timings |= {"training": time.perf_counter() - start}
            costs = self._measured(data, result)
            certificate = self._training.certificate(data, result, "fit", data.n_nodes, timings, retrained=False)
            with self._lock.mutex, interrupts_deferred():
                data.record(None, result, certificate)
                self._data, self._head, self._certificate, self._cost = data, result, certificate, costs
        except BaseException:
            self._calibrated = before
            data.close()
            raise
        if costs is not None:
            warn_of_cost(costs, stacklevel=5)
        return self

    @property
    @reading
    def cost(self) -> UtilityCost | None:
        """What ridge and noise cost at training nodes that are held out; None with fewer than 20 of them.

        It is computed from the remaining data, and for you alone: no certificate covers it.
        """
        if self._cost is None:
            self._cost = self._measured(self._data, self._head)
        return self._cost

    def _measured(self, data: Data, result: head.Head) -> UtilityCost | None:
        S, s = data.propagation.trained()
        return measured(ClassifierObjective(S, s, data.targets(), self.loss, self.lam, result.B))

    def _settings(self, data: Data) -> StoredSettings:
        return {
            "lam": self.lam, "alpha": self.alpha, "eps_scale": self.eps_scale, "eps": self.eps, "delta": self.delta,
            "r_max": self.r_max, "weights": self.weights.tolist(), "loss": self.loss.name, "classes": data.classes.tolist(),
            "classes_given": data.classes_given,
        }  # fmt: skip

    def _fits(self) -> bool:
        """Whether the last certificate can have been issued for this model and these data."""
        certificate, so = self._certificate, (self.remaining.size, self._data.graph.n_edges, self.train.size)
        counts = certificate is None or (certificate.n_nodes, certificate.n_edges, certificate.n_train) == so
        return counts and (not self.alpha or self._head.spent <= self.budget)

    @property
    @reading
    def coefficients(self) -> np.ndarray:
        """Coefficients (F, C), one column for two classes."""
        return self._head.W.copy()

    @property
    def _training(self) -> CertifiedTraining:
        return CertifiedTraining(self.loss, self.lam, self.alpha, self.eps, self.delta, self.eps_scale, self._device)

    def _retrained(self, data: Data) -> head.Head:
        """Train from nothing, with a new noise term."""
        return self._training.retrained(data, self._rng)

    #: Whether every request propagates through the whole graph.
    _fully = False

    def _do(self, request: Request) -> Certificate:
        """Carry out a request on data, model and ledger, all or none."""
        self._refuse_uncertified()
        start, data = time.perf_counter(), self._data
        with data.changed(request, fully=self._fully) as commit:
            timings = {"propagation": time.perf_counter() - start}
            start = time.perf_counter()
            result = self._updated(data, retrain=request.retrain)
            timings |= {"training": time.perf_counter() - start}
            name, retrained = request.details["request"], result.B is not self._head.B
            certificate = self._training.certificate(data, result, name, request.count, timings, retrained=retrained)
            with interrupts_deferred():
                data.record(request, result, certificate)
                self._head, self._certificate, self._cost = result, certificate, None
                commit()
        return self.certificate()

    def _updated(self, data: Data, *, retrain: bool) -> head.Head:
        """A head for the remaining data: the present one, adjusted, unless that exceeds the budget or ``retrain`` is set."""
        if not retrain:
            with suppress(CertificateError):
                return self._adjusted(data)
        try:
            return self._retrained(data)
        except CertificateError as error:
            raise CertificateError(f"{error} Nothing was changed.") from None

    @request
    def renew(self) -> Certificate:
        """Retrain with a new noise term. Do so before you publish another version of the model.

        A noise term that two versions share cancels between their gradients and reveals what was removed.

        Raises
        ------
        CertificateError
            If ``r_max`` is too large for the budget.
        LedgerError
            If the request cannot be written to the store.
        """
        return self._do(Request({"request": "renew"}, self.remaining.size, Change(), retrain=True))

    def _adjusted(self, data: Data) -> head.Head:
        """Newton steps from the present head; a CertificateError if the remaining gradient exceeds the budget."""
        return self._training.adjusted(data, self._head.B, self._head.W)

    @reading
    def certificate(self) -> Certificate:
        """The certificate of the last request.

        Raises
        ------
        CertificateError
            If ``alpha`` is 0, so that nothing is certified.
        """
        self._refuse_uncertified()
        assert self._certificate is not None
        return self._certificate

    def _refuse_uncertified(self) -> None:
        if not self.alpha:
            raise CertificateError("alpha is 0, so that nothing is certified: fit with alpha above 0.")

    @reading
    def preview(self, edge: ArrayLike) -> EdgeFactors:
        """Low-rank factors of the change of the embedding if edge (u, v) were removed; the model stays as it is.

        Raises
        ------
        InputError
            If the pair is not an edge, or ``r_max`` is above 0.
        """
        return edge_factors(self._data.propagation, edge)

    @reading
    def decision(self, nodes: ArrayLike | None = None) -> np.ndarray:
        """Scores ``Z W`` (K, C) of these nodes, or all; one column for two classes."""
        Z, W = self._data.propagation.embedding(self._index(nodes)), self._head.W
        with product_threads(Z.size * W.shape[1]):
            scores: np.ndarray = Z @ W
        return scores

    @reading
    def decision_on(self, graph: GraphLike, features: ArrayLike | Sparse) -> np.ndarray:
        """Scores (N, C) of the nodes of another graph, with the features of this one; columns as in :meth:`decision`."""
        return self._elsewhere(graph, features).embedding() @ self._head.W

    @reading
    def weights_vector(self) -> np.ndarray:
        """All coefficients in one vector, (F C,)."""
        return self._head.W.flatten()
