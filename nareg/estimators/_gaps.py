"""Apply weights to readings with gaps, whatever the gaps are."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from nareg import filters
from nareg.errors import AmplificationWarning, SolverError
from nareg.graph import Graph
from nareg.results import WeightDesign

#: Node weights below this share of the largest count as zero: they connect nothing.
NO_WEIGHT = 1e-9


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
    labels: np.ndarray = connected_components(support, directed=False)[1]
    return labels


def _without_readings(parts: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """(N, T) True in those parts that have no reading at a time."""
    members = sp.csr_array((np.ones(parts.size), (parts, np.arange(parts.size))))
    silent: np.ndarray = (members @ seen.astype(float) == 0)[parts]
    return silent
