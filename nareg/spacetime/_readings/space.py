"""Spatial correlation of the field, by distance or by the graph, and its extension to places without a station."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from nareg._core.neighbors import EARTH_RADIUS_KM, nearest
from nareg.errors import InputError
from nareg.graph import Graph

#: Families of correlation functions; the first two need coordinates.
FAMILIES = ("exponential", "matern", "graph")
#: Added to the diagonal, so that stations at one place leave the matrix positive definite.
JITTER = 1e-6
#: Neighbors that a new place is joined with in the graph family.
NEIGHBORS = 7


@dataclass(frozen=True, eq=False)
class Space:
    """Where the stations are: coordinates with their metric, or only the graph that joins them."""

    adjacency: sp.csr_array
    coordinates: np.ndarray | None
    metric: str
    stations: np.ndarray | None = None

    @classmethod
    def of(cls, graph: Graph) -> Space:
        return cls(graph.adjacency, graph.coordinates, graph.metric)

    @property
    def n(self) -> int:
        return int(self.adjacency.shape[0]) if self.stations is None else int(self.stations.size)

    def subset(self, stations: np.ndarray) -> Space:
        """Some of the stations; in the graph family their correlation is still that of the whole graph."""
        return Space(self.adjacency, None if self.coordinates is None else self.coordinates[stations], self.metric, stations)

    @cached_property
    def distances(self) -> np.ndarray:
        """(N, N), kilometers on the sphere or the coordinates' unit."""
        if self.coordinates is None:
            raise InputError("graph has no coordinates, so its nodes have no distances: build it with Graph.from_knn.")
        return between(self.coordinates, self.coordinates, self.metric)

    def nearest(self, station: int, among: np.ndarray) -> int | None:
        """The nearest other one ``among`` some stations: by distance, or where there is none a neighbor on the graph."""
        others = among[among != station]
        if self.coordinates is None:
            joined = others[self.adjacency[[station], :].toarray()[0, others] > 0]
            return int(joined[0]) if joined.size else None
        return int(others[np.argmin(self.distances[station, others])]) if others.size else None

    @property
    def families(self) -> tuple[str, ...]:
        return ("graph",) if self.coordinates is None else FAMILIES

    def typical_range(self, family: str) -> float:
        """A range to begin with: half the median distance, or two edges."""
        if family == "graph" or self.n < 2:
            return 2.0
        apart = self.distances[np.triu_indices(self.n, 1)]
        return float(np.median(apart)) / 2 or 1.0

    def correlation(self, family: str, reach: float) -> np.ndarray:
        """(N, N) correlation with range ``reach``: a distance, or for the graph a number of edges."""
        if family == "graph":
            whole = _graph_correlation(self.adjacency, reach)
            return whole if self.stations is None else whole[np.ix_(self.stations, self.stations)]
        return _of_distance(family, self.distances, reach)

    def correlation_and_slope(self, family: str, reach: float) -> tuple[np.ndarray, np.ndarray]:
        """The :meth:`correlation`, and its derivative by the log of the range."""
        if family != "graph":
            C = _of_distance(family, self.distances, reach)
            u = self.distances / reach
            return C, u * C if family == "exponential" else 3 * u**2 * np.exp(-np.sqrt(3.0) * u)
        C, slope = _graph_correlation(self.adjacency, reach), _graph_slope(self.adjacency, reach)
        return (C, slope) if self.stations is None else (C[block := np.ix_(self.stations, self.stations)], slope[block])

    def joint_correlation(self, family: str, reach: float, points: np.ndarray) -> np.ndarray:
        """Correlation (N + M, N + M) of the stations and M new places."""
        if self.coordinates is None:
            raise InputError("graph has no coordinates, which a place without a station needs: build it with Graph.from_knn.")
        if family == "graph":
            return _graph_correlation(self.extended(points), reach)
        places = np.vstack([self.coordinates, points])
        return _of_distance(family, between(places, places, self.metric), reach)

    def cross_correlation(self, family: str, reach: float, points: np.ndarray) -> np.ndarray:
        """Correlation (M, N) of new places with the stations."""
        return self.joint_correlation(family, reach, points)[self.n :, : self.n]

    def extended(self, points: np.ndarray) -> sp.csr_array:
        """Adjacency with new places, each joined with its nearest stations by a Gaussian of the stations' own distances."""
        assert self.coordinates is not None
        apart = between(points, self.coordinates, self.metric)
        k = min(NEIGHBORS, self.n)
        near = np.argsort(apart, axis=1, kind="stable")[:, :k]
        _, own = nearest(self.coordinates, min(k, self.n - 1), self.metric)
        weights = np.exp(-((np.take_along_axis(apart, near, axis=1) / (own.mean() or 1.0)) ** 2))
        M = points.shape[0]
        joined = sp.csr_array(
            (np.maximum(weights, 1e-12).ravel(), (np.repeat(np.arange(M), k), near.ravel())), shape=(M, self.n)
        )
        return sp.csr_array(sp.block_array([[self.adjacency, joined.T], [joined, sp.csr_array((M, M))]], format="csr"))


def between(points: np.ndarray, others: np.ndarray, metric: str) -> np.ndarray:
    """Distances (M, N)."""
    if metric != "haversine":
        return np.linalg.norm(points[:, None] - others[None], axis=-1)
    (a, b), (c, d) = np.radians(points).T, np.radians(others).T
    half = np.sin((a[:, None] - c) / 2) ** 2 + np.cos(a)[:, None] * np.cos(c) * np.sin((b[:, None] - d) / 2) ** 2
    return 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(half, 0, 1)))


def _of_distance(family: str, distances: np.ndarray, reach: float) -> np.ndarray:
    u = distances / reach
    if family == "exponential":
        return np.exp(-u)
    u = np.sqrt(3.0) * u  # Matern, smoothness 3/2
    return (1 + u) * np.exp(-u)


def _graph_correlation(adjacency: sp.csr_array, reach: float) -> np.ndarray:
    """``(L / mean degree + reach^-2 I)^-2`` scaled to ones on the diagonal: a Matern field on the graph."""
    root = _graph_root(adjacency, reach)
    return _scaled(root @ root)


def _graph_slope(adjacency: sp.csr_array, reach: float) -> np.ndarray:
    """Its derivative by the log of the reach, by which that of the inverse root is ``2 reach^-2`` times its square."""
    root = _graph_root(adjacency, reach)
    covariance = root @ root
    change = 4 / reach**2 * covariance @ root
    rates = np.diag(change) / np.diag(covariance)
    scale = np.sqrt(np.diag(covariance))
    return change / np.outer(scale, scale) - 0.5 * (rates[:, None] + rates) * _scaled(covariance)


def _graph_root(adjacency: sp.csr_array, reach: float) -> np.ndarray:
    A = adjacency.toarray()
    degrees = A.sum(axis=1)
    L = (np.diag(degrees) - A) / (degrees.mean() or 1.0)
    root = np.linalg.inv(L + np.eye(A.shape[0]) / reach**2)
    return 0.5 * (root + root.T)


def _scaled(covariance: np.ndarray) -> np.ndarray:
    scale = np.sqrt(np.diag(covariance))
    return covariance / np.outer(scale, scale)
