"""Denoisers of single times: node-adaptive and edge-adaptive filters."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from nareg import design
from nareg._core import checks
from nareg.design import Sampling
from nareg.errors import InputError
from nareg.estimators._filtered import FilterTransformer, one_weight, variances_of
from nareg.estimators._validation import clean_field, generator_of
from nareg.graph import Graph
from nareg.progress import ProgressCallback
from nareg.results import Status, WeightDesign
from nareg.typing import Sparse

DESIGNS = ("blind", "sure", "gcv", "exact")


class DesignedFilter(FilterTransformer):
    """X is (times, stations): a filter whose weights a design of :mod:`nareg.design` gives."""

    _learned = "design_"

    def _weigh(self, anomalies: np.ndarray, observed: np.ndarray | None, y: Any) -> None:
        self.design_ = self._designed(anomalies, observed, y)
        if self.design_.status is Status.INTERRUPTED:  # a search would score these weights as any other
            warnings.warn(f"fit ended early: {Status.INTERRUPTED.value}.", ConvergenceWarning, stacklevel=4)

    @property
    def _progress(self) -> ProgressCallback | None:
        return print if self.verbose else None

    @abstractmethod
    def _designed(self, anomalies: np.ndarray, observed: np.ndarray | None, y: Any) -> WeightDesign:
        """The weights for anomalies (N, T) and where they were read."""


class NodeAdaptiveDenoiser(DesignedFilter):
    """X is (times, stations): denoise each time with one weight per station, and fill its gaps.

    ``fit`` removes each station's mean and learns the weights w. ``transform`` solves ``(C + S) x = C y`` for every row, as
    :func:`nareg.filters.denoise` does, and puts the means back. S is ``diag(w) L diag(w)``, C one over the noise variances.

    Parameters
    ----------
    graph : Graph, or (N, N) sparse or dense adjacency, optional
        One node per column of X. Default: each station is joined with the seven whose readings in ``fit`` correlate most with
        its own. A graph by distances (:meth:`nareg.Graph.from_knn`) is better where readings are noisy.
    design : {"blind", "sure", "gcv", "exact"}
        ``"blind"``: one weight per station from the noisy readings (:func:`nareg.design.blind`). ``"sure"``, ``"gcv"``: one
        weight for all stations (:func:`nareg.design.node_invariant`); ``"gcv"`` needs no noise variance. ``"exact"``: one
        weight per station from clean signals (:func:`nareg.design.exact`), y in ``fit``, or X where y is None.
    noise : number or (N,) array, optional
        Noise variance(s), in the squared unit of X. Default: estimated (:func:`nareg.design.estimate_noise`); for
        ``"exact"`` the mean square of X minus y; for ``"gcv"`` equal noise, of any size.
    random_state : int, Generator, RandomState or None
        Draws held-out readings in ``fit`` and ``score``; None is a fixed seed.
    verbose : bool
        Print the progress of ``fit``.

    Attributes
    ----------
    graph_ : Graph
    design_ : WeightDesign
        The weights, with ``method``, ``status``, ``summary()``. Where the estimate of the noise is zero, or leaves no signal,
        it is the single weight of generalized cross-validation.
    means_ : (N,) array
        Station means.
    n_features_in_ : int
    feature_names_in_ : (N,) array
        Where X has names.

    Raises
    ------
    InputError
        A ``ValueError``: if the graph does not fit X, or the design refuses the readings.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If Ctrl-C ended the design: ``design_`` has the best weights so far.

    Notes
    -----
    In gaps a station whose weight is (nearly) zero takes the mean of its neighbors' weights. A part of the graph without any
    reading at a time is at its station means.

    References
    ----------
    Yang, Coutino, Leus, Isufi, "Node-Adaptive Regularization for Graph Signal Reconstruction", IEEE OJSP 2021.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg.estimators import NodeAdaptiveDenoiser
    >>> rng = np.random.default_rng(0)
    >>> graph = nareg.graphs.grid((5, 5))
    >>> clean = 3 * rng.standard_normal((40, 1)) + np.zeros(25)
    >>> X = clean + rng.standard_normal((40, 25))
    >>> denoiser = NodeAdaptiveDenoiser(graph, noise=1.0).fit(X)
    >>> bool(denoiser.score(X, clean) > -0.2)  # the noise alone gives -1
    True
    """

    def __init__(
        self,
        graph: Graph | Sparse | np.ndarray | None = None,
        *,
        design: Literal["blind", "sure", "gcv", "exact"] = "blind",
        noise: ArrayLike | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.graph, self.design, self.noise, self.random_state, self.verbose = graph, design, noise, random_state, verbose

    def _designed(self, anomalies: np.ndarray, observed: np.ndarray | None, y: Any) -> WeightDesign:
        graph = self.graph_
        rule = checks.choice("design", self.design, DESIGNS)
        sampling = Sampling(rng=generator_of(self.random_state))
        if rule == "exact":
            return self._from_clean(anomalies, observed, y, sampling)
        if rule == "gcv":
            return one_weight(graph, anomalies, observed, self.noise)
        variance = variances_of(graph, anomalies, observed, self.noise)
        if variance is None:
            return one_weight(graph, anomalies, observed)
        data: dict[str, Any] = {"measurements": anomalies, "observed": observed, "noise": variance, "data_weight": "noise"}
        if rule == "sure":
            return design.node_invariant(graph, rule="sure", **data)
        return design.blind(graph, **data, sampling=sampling, progress=self._progress)

    def _from_clean(self, anomalies: np.ndarray, observed: np.ndarray | None, y: Any, sampling: Sampling) -> WeightDesign:
        """The exact design: signals are y, or X where there is no y."""
        signals, variance = anomalies, self.noise
        if y is None:
            if variance is None:
                raise InputError("noise is None: design='exact' needs it, or the clean field: fit(X, y).")
            if observed is not None:
                raise InputError("X has gaps: design='exact' takes clean signals without any; pass them as y.")
        else:
            clean = clean_field(y, anomalies.T.shape).T
            signals = clean - self.means_[:, None]
            if variance is None:
                seen = np.ones(clean.shape, dtype=bool) if observed is None else observed
                squares, counts = np.where(seen, anomalies + self.means_[:, None] - clean, 0.0) ** 2, seen.sum(axis=1)
                variance = np.where(counts > 0, squares.sum(axis=1) / np.maximum(counts, 1), squares.sum() / counts.sum())
        return design.exact(
            self.graph_, signals=signals, noise=variance, data_weight="noise", sampling=sampling, progress=self._progress
        )


class EdgeDenoiser(DesignedFilter):
    """X is (times, stations): denoise each time with one weight per edge and station, and fill its gaps.

    ``fit`` removes each station's mean and learns the weights by the likelihood of the noisy readings
    (:func:`nareg.design.edge`). ``transform`` solves ``(C + S) x = C y`` for every row, with C one over the noise variances and
    any S on the graph's edges, and puts the means back. Learn from a month of readings or more.

    Parameters
    ----------
    graph : Graph, or (N, N) sparse or dense adjacency, optional
        One node per column of X. Default: each station is joined with the seven whose readings in ``fit`` correlate most with
        its own.
    noise : number or (N,) array, optional
        Noise variance(s), in the squared unit of X. Default: estimated (:func:`nareg.design.estimate_noise`).
    shrink : "auto", number in [0, 1] or None
        How far to shrink to the best model of two parameters; ``"auto"`` chooses by held-out times.
    random_state : int, Generator, RandomState or None
        Draws held-out readings in ``score``; None is a fixed seed.
    verbose : bool
        Print the progress of ``fit``.

    Attributes
    ----------
    graph_ : Graph
    design_ : WeightDesign
        The weights, with ``method``, ``status``, ``summary()``. Where the estimate of the noise is zero, or leaves no signal,
        it is the single weight of generalized cross-validation.
    means_ : (N,) array
        Station means.
    n_features_in_ : int
    feature_names_in_ : (N,) array
        Where X has names.

    Raises
    ------
    InputError
        A ``ValueError``: if the graph does not fit X, or the design refuses the readings.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If Ctrl-C ended the design: ``design_`` has the best weights so far.
    nareg.errors.AmplificationWarning
        If an estimate in a gap could be far larger than every anomaly (:func:`nareg.filters.interpolate`).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg.estimators import EdgeDenoiser
    >>> rng = np.random.default_rng(0)
    >>> graph = nareg.graphs.grid((5, 5))
    >>> clean = 3 * rng.standard_normal((40, 1)) + np.zeros(25)
    >>> X = clean + rng.standard_normal((40, 25))
    >>> denoiser = EdgeDenoiser(graph, noise=1.0).fit(X)
    >>> bool(denoiser.score(X, clean) > -0.2)  # the noise alone gives -1
    True
    """

    def __init__(
        self,
        graph: Graph | Sparse | np.ndarray | None = None,
        *,
        noise: ArrayLike | None = None,
        shrink: float | Literal["auto"] | None = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.graph, self.noise, self.shrink, self.random_state, self.verbose = graph, noise, shrink, random_state, verbose

    def _designed(self, anomalies: np.ndarray, observed: np.ndarray | None, y: Any) -> WeightDesign:
        variance = variances_of(self.graph_, anomalies, observed, self.noise)
        if variance is None:
            return one_weight(self.graph_, anomalies, observed)
        return design.edge(
            self.graph_,
            measurements=anomalies,
            observed=observed,
            noise=variance,
            shrink=self.shrink,
            data_weight="noise",
            progress=self._progress,
        )
