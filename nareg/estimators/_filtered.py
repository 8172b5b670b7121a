"""Estimators with a graph filter: what they share, and an imputer that fills gaps and keeps readings."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from nareg import design, filters
from nareg._core import checks
from nareg.design import station_levels
from nareg.errors import AmplificationWarning, InputError, SolverError
from nareg.estimators._base import CheckedReadings, FieldEstimator, network_of
from nareg.graph import Graph
from nareg.results import WeightDesign
from nareg.typing import Sparse

#: Node weights below this share of the largest count as zero: they connect nothing.
NO_WEIGHT = 1e-9


class FilterTransformer(FieldEstimator):
    """X is (times, stations): station means are removed, weights are learned and applied, and the means are put back.

    A subclass learns its weights in ``_weigh``, and keeps them in the attribute that ``_learned`` names.
    """

    _learned: ClassVar[str]

    def _learn(self, samples: CheckedReadings, y: Any) -> None:
        Y = samples.values.T
        seen = np.isfinite(Y)
        if not seen.any():
            raise InputError("X has no reading: pass at least one that is not NaN.")
        self.means_ = station_levels(Y, seen)
        anomalies = Y - self.means_[:, None]
        self.graph_ = network_of(self.graph, anomalies, getattr(self, "feature_names_in_", None))
        self._weigh(np.where(seen, anomalies, 0.0), None if seen.all() else seen, y)

    def _estimate(self, values: np.ndarray, times: np.ndarray | None) -> np.ndarray:
        means = self.means_[:, None]
        return (estimate(self.graph_, getattr(self, self._learned), values.T - means) + means).T

    @abstractmethod
    def _weigh(self, anomalies: np.ndarray, observed: np.ndarray | None, y: Any) -> None:
        """Learn from anomalies (N, T) and where they were read; None is everywhere."""


def variances_of(graph: Graph, anomalies: np.ndarray, observed: np.ndarray | None, noise: Any) -> Any:
    """Noise variances, given or estimated; None where the estimate leaves no noise, or nothing besides.

    A variance that is given and exceeds the readings is left to the design, which refuses it.
    """
    if noise is not None:
        return noise
    if not anomalies.any():
        return None
    variance = design.estimate_noise(graph, anomalies, observed=observed)
    counts = np.full(graph.n_nodes, anomalies.shape[1]) if observed is None else observed.sum(axis=1)
    has_signal = float(np.sum(anomalies**2)) > float(variance @ counts)
    return variance if has_signal and (variance > 0).all() else None


def one_weight(graph: Graph, anomalies: np.ndarray, observed: np.ndarray | None, noise: Any = None) -> WeightDesign:
    """The single weight that generalized cross-validation picks; with noise variances readings count by their inverse."""
    data_weight: Any = None if noise is None else "noise"
    return design.node_invariant(
        graph, rule="gcv", measurements=anomalies, observed=observed, noise=noise, data_weight=data_weight
    )


def estimate(graph: Graph, weights: WeightDesign | float, anomalies: np.ndarray) -> np.ndarray:
    """Denoise anomalies (N, T), NaN where missing; nothing is missing in the result.

    A station with a gap and (nearly) no weight of its own takes the mean of its neighbors' weights. A part of the graph
    without any reading at a time has no anomaly then: its stations are at their means.
    """
    seen = np.isfinite(anomalies)
    if seen.all():
        solution = filters.denoise(graph, weights, anomalies)
    else:
        usable = _connecting(weights)
        anchored = seen | _without_readings(_parts(graph, usable), seen)
        with warnings.catch_warnings():
            if not isinstance(weights, WeightDesign) or not weights.has_edge_weights:
                # what is done about it is documented for every estimator
                warnings.simplefilter("ignore", AmplificationWarning)
            solution = filters.interpolate(graph, usable, np.where(seen, anomalies, 0.0), anchored)
    if not solution.status.ok:
        raise SolverError(f"the filter did not converge ({solution.status.value}): pass a graph with less extreme weights.")
    return solution.x


def _connecting(weights: WeightDesign | float) -> WeightDesign | float:
    """A design with a tiny node weight in the place of zero, which would cut a station with a gap off."""
    if not isinstance(weights, WeightDesign) or weights.has_edge_weights or not weights.weights.any():
        return weights
    w = weights.weights
    least = NO_WEIGHT * float(np.abs(w).max())
    return replace(weights, weights=np.where(np.abs(w) < least, least, w))


def _parts(graph: Graph, weights: WeightDesign | float) -> np.ndarray:
    """The connected part of S that every station belongs to, (N,)."""
    if not isinstance(weights, WeightDesign):
        return graph.components
    support = weights.matrix
    support.eliminate_zeros()
    return connected_components(support, directed=False)[1]


def _without_readings(parts: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """(N, T) True in those parts that have no reading at a time."""
    members = sp.csr_array((np.ones(parts.size), (parts, np.arange(parts.size))))
    return (members @ seen.astype(float) == 0)[parts]


class GraphInterpolator(FilterTransformer):
    """X is (times, stations): fill each time's gaps (NaN) from the neighbors, and keep every reading.

    ``fit`` removes each station's mean and chooses one weight w for all stations; ``transform`` solves
    ``(C + w^2 L) x = C y`` for every row, with C zero in gaps, as :func:`nareg.filters.interpolate` does, puts the means back,
    and takes x in the gaps.

    Parameters
    ----------
    graph : Graph, or (N, N) sparse or dense adjacency, optional
        One node per column of X. Default: each station is joined with the seven whose readings in ``fit`` correlate most with
        its own.
    weights : "gcv" or positive number
        The weight w; a larger one smooths over more noise. ``"gcv"`` chooses it by generalized cross-validation.
    random_state : int, Generator, RandomState or None
        Draws held-out readings in ``score``; None is a fixed seed.

    Attributes
    ----------
    graph_ : Graph
    weights_ : float
        The weight w.
    means_ : (N,) array
        Station means. That of a station without any reading is the mean of the others.
    n_features_in_ : int
    feature_names_in_ : (N,) array
        Where X has names.

    Raises
    ------
    InputError
        A ``ValueError``: if the graph does not fit X, or the weight is no positive number.

    Notes
    -----
    ``score`` against a clean field counts all cells, gaps and readings. A part of the graph without any reading at a time is at
    its station means.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg.estimators import GraphInterpolator
    >>> X = np.array([[1.0, np.nan, 3.0], [2.0, 3.0, 4.0], [3.0, 4.0, np.nan]])
    >>> GraphInterpolator(nareg.graphs.grid((3,)), weights=0.1).fit_transform(X).round(2)
    array([[1., 2., 3.],
           [2., 3., 4.],
           [3., 4., 5.]])
    """

    _learned = "weights_"

    def __init__(
        self,
        graph: Graph | Sparse | np.ndarray | None = None,
        *,
        weights: float | Literal["gcv"] = "gcv",
        random_state: Any = None,
    ) -> None:
        self.graph, self.weights, self.random_state = graph, weights, random_state

    def _weigh(self, anomalies: np.ndarray, observed: np.ndarray | None, y: Any) -> None:
        if isinstance(self.weights, str):
            checks.choice("weights", self.weights, ("gcv",))
            self.weights_ = float(one_weight(self.graph_, anomalies, observed).weights[0])
        else:
            self.weights_ = checks.number("weights", self.weights, low=0, strict=True)

    def _estimate(self, values: np.ndarray, times: np.ndarray | None) -> np.ndarray:
        seen = np.isfinite(values)
        if seen.all():
            return values
        return np.where(seen, values, super()._estimate(values, times))
