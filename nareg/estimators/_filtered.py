"""What estimators with a graph filter share: station means, the graph, and the weights."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from nareg import design
from nareg.design import station_levels
from nareg.errors import InputError
from nareg.estimators._base import CheckedReadings, FieldEstimator
from nareg.estimators._gaps import estimate
from nareg.estimators._graphs import network_of
from nareg.graph import Graph
from nareg.results import WeightDesign


class FilterTransformer(FieldEstimator):
    """X is (times, stations): station means are removed, weights are learned and applied, and the means are put back.

    A subclass learns its weights in ``_weigh``, and keeps them where ``_weights`` finds them.
    """

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
        return (estimate(self.graph_, self._weights, values.T - means) + means).T

    @abstractmethod
    def _weigh(self, anomalies: np.ndarray, observed: np.ndarray | None, y: Any) -> None:
        """Learn from anomalies (N, T) and where they were read; None is everywhere."""

    @property
    @abstractmethod
    def _weights(self) -> WeightDesign | float:
        """What ``_weigh`` learned."""


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
    fit: Any = None if noise is None else "noise"
    return design.node_invariant(graph, rule="gcv", measurements=anomalies, observed=observed, noise=noise, fit=fit)
