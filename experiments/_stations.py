"""Station networks as the paper sets them up: graph, one mean removed, noise of the same SNR for every signal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments._figure import Row, mean_and_error
from experiments._methods import best_ridge, equal_power, errors, matrix, published_weight, ridge, wiener
from nareg import datasets, design
from nareg.graph import Graph
from nareg.results import WeightDesign

#: Molene stations with a complete series that the published coordinate list does not have (under the same id): without
#: them 32 are left, the number that the paper gives.
NOT_LISTED = ("Tregunc", "Plovan", "Saint-Joachim", "Morlaix", "Guiscriff")
NI, NI_THREE, BEST, EXACT = "one weight (NI rule)", "one weight, 3 x the rule", "one weight, best", "exact"
PRONY, SDR, SDR_EQUAL = "Prony", "relaxation, noise of one instance", "relaxation, signals of equal power"
MM_PRONY, MM_THREE, MM_SDR, PAIR = "min-max Prony", "min-max Prony, 3 x the bound", "min-max relaxation", "one global pair"
MM_BEST = "min-max Prony, best scale"
KRR, KRR_BEST, LIMIT, ORACLE = "kernel ridge", "kernel ridge, best parameters", "LMMSE limit", "oracle Prony"
#: Color and line of a method, the same in every figure.
STYLES = {
    NI: "C7-", NI_THREE: "C7--", BEST: "k-", EXACT: "C2-", PRONY: "C3-", "Prony, scale by MSE": "C3--", SDR: "C0-",
    SDR_EQUAL: "C0--", MM_PRONY: "C3-", f"{MM_PRONY}, {PAIR}": "C3:", MM_THREE: "C3--", MM_BEST: "C3-.", MM_SDR: "C0-",
    f"{MM_SDR}, {PAIR}": "C0:", KRR: "C5-", KRR_BEST: "C5--", LIMIT: "k:", ORACLE: "C1--",
}  # fmt: skip

#: Kilometers in the unit of the distance d of ``exp(-5 d^2)``; the paper does not say which it took.
UNITS = ("largest distance", "100 km", "50 km", "mean neighbor distance")


@dataclass(frozen=True)
class Stations:
    """Graph and signals (N, T), the mean over stations and times removed; a value for every station and time."""

    graph: Graph
    signals: np.ndarray

    @property
    def n(self) -> int:
        """Number of stations."""
        return self.graph.n_nodes


def molene(number: int, unit: str, neighbors: int = 5) -> Stations:
    """The 37 stations with a complete series, or the 32 of them in the published list, as a graph of ``exp(-5 d^2)``."""
    network = datasets.load("molene").complete()
    if number != network.n_nodes:
        listed = np.array([not name.upper().startswith(tuple(s.upper() for s in NOT_LISTED)) for name in network.names])
        network = network.select(listed)
    if network.n_nodes != number:
        raise ValueError(f"{network.n_nodes} stations instead of {number}")
    far = distances(network.coordinates)
    near = np.sort(far + np.diag(np.full(number, np.inf)), axis=1)[:, :neighbors]
    length = {"largest distance": far.max(), "mean neighbor distance": near.mean(), "100 km": 100.0, "50 km": 50.0}[unit]
    graph = Graph.from_knn(network.coordinates, neighbors, metric="haversine", kernel=lambda d: np.exp(-5 * (d / length) ** 2))
    return Stations(graph, network.signals - network.signals.mean())


def large(name: str) -> Stations:
    """The complete stations of a network with their seven nearest neighbors."""
    network = datasets.load(name).complete()
    return Stations(network.graph, network.signals - network.signals.mean())


def noaa() -> Stations:
    """The 109 stations with the published graph: weights ``exp(-(km / 600)^2)`` to seven neighbors, normalized.

    Every weight is divided by the root of both stations' sums over their seven neighbors.
    """
    network = datasets.load("noaa-109")
    near = Graph.from_knn(network.coordinates, 7, metric="haversine", scale=600).adjacency.toarray()
    sums = np.sort(near, axis=1)[:, -7:].sum(axis=1)
    return Stations(Graph(near / np.sqrt(np.outer(sums, sums))), network.signals - network.signals.mean())


def distances(coordinates: np.ndarray) -> np.ndarray:
    """Great-circle distances in kilometers between all pairs."""
    latitude, longitude = np.radians(coordinates.T)
    half = (
        np.sin((latitude[:, None] - latitude) / 2) ** 2
        + np.cos(latitude)[:, None] * np.cos(latitude) * np.sin((longitude[:, None] - longitude) / 2) ** 2
    )
    distances: np.ndarray = 2 * 6371.0088 * np.arcsin(np.sqrt(np.clip(half, 0, 1)))
    return distances


def variances(X: np.ndarray, snr_db: float) -> np.ndarray:
    """Noise variance of every signal: ``||x_t||^2 / (N SNR)``."""
    noise: np.ndarray = np.mean(X**2, axis=0) / 10 ** (snr_db / 10)
    return noise


def limit(X: np.ndarray, snr_db: float, observed: np.ndarray | None = None) -> np.ndarray:
    """H with the smallest mean NMSE that one linear filter can have on these signals."""
    U = equal_power(X)
    return wiener(U @ U.T / U.shape[1], 10 ** (-snr_db / 10), observed)


def halves(T: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A random half of the times trains, the other tests."""
    order = np.random.default_rng(seed).permutation(T)
    return np.sort(order[: T // 2]), np.sort(order[T // 2 :])


def oracle_prony(
    graph: Graph, X: np.ndarray, snr_db: float, draws: int, seed: list[int], observed: np.ndarray | None = None
) -> Row:
    """Prony's design made for every signal from that very signal, at the bound: the paper's ideal.

    Its noise is its own: every signal has a filter of its own.
    """
    w0 = published_weight(graph, 10 ** (snr_db / 10))
    rng = np.random.default_rng(seed)
    rows = []
    for x, variance in zip(X.T, variances(X, snr_db), strict=True):
        w = design.prony(graph, signals=x, noise=variance, lower=w0, scale="bound").weights
        rows.append(errors(matrix(graph, w, observed), x[:, None], np.array([variance]), draws, rng))
    means: Row = {key: float(np.mean([row[key] for row in rows])) for key in ("bias", "variance", "nmse")}
    if draws:
        means["sampled"] = mean_and_error([row["sampled"] for row in rows])[0]
        means["sampled_error"] = float(np.sqrt(np.sum([row["sampled_error"] ** 2 for row in rows])) / len(rows))
    return means


def typical(X: np.ndarray) -> int:
    """The signal whose power is the median of all: the "one instance" from which the paper takes the noise covariance."""
    return int(np.argsort(np.mean(X**2, axis=0))[X.shape[1] // 2])


def learned(stations: Stations, train: np.ndarray, snr_db: float) -> dict[str, Any]:
    """Weights that the paper learns from half of the data, and what it should have been compared with.

    "noise of one instance": as the paper sets the covariance of the relaxation, the second moment being that of all signals.
    "signals of equal power": both as the mean NMSE weighs them.
    """
    X = stations.signals[:, train]
    graph, snr = stations.graph, 10 ** (snr_db / 10)
    w0 = published_weight(graph, snr)
    one = float(np.mean(stations.signals[:, typical(stations.signals)] ** 2)) / snr
    known: dict[str, Any] = {"signals": equal_power(X), "noise": 1 / snr}
    return {
        NI: np.sqrt(w0),
        PRONY: design.prony(graph, signals=X, lower=w0, scale="bound"),
        "Prony, scale by MSE": design.prony(graph, **known, lower=w0),
        SDR: design.relaxation(graph, signals=X, noise=one, lower=w0),
        SDR_EQUAL: design.relaxation(graph, **known, lower=w0),
        BEST: design.node_invariant(graph, rule="oracle", **known),
        EXACT: design.exact(graph, **known),
    }


def minmax_once(stations: Stations) -> dict[str, WeightDesign]:
    """Min-max Prony from the range of every station and from one range for all, at the bound for 0 dB.

    Both are homogeneous, so that every other SNR is a rescaling.
    """
    X, w0 = stations.signals, published_weight(stations.graph, 1.0)
    ranges = {MM_PRONY: (X.min(axis=1), X.max(axis=1)), f"{MM_PRONY}, {PAIR}": (X.min(), X.max())}
    return {
        name: design.minmax(stations.graph, signal_low=low, signal_high=high, lower=w0) for name, (low, high) in ranges.items()
    }


def bounded(stations: Stations, snr_db: float, once: dict[str, WeightDesign]) -> dict[str, Any]:
    """Weights from the lowest and highest values; ``once`` holds the min-max Prony designs of :func:`minmax_once`.

    Prony's criterion leaves the scale of the weights open: beside the smallest that meets the bound, three times it; and one
    weight of three times the rule, which tells the effect of the scale from that of the design.
    """
    graph, snr, X = stations.graph, 10 ** (snr_db / 10), stations.signals
    w0 = published_weight(graph, snr)
    factor = float(np.sqrt(w0 / published_weight(graph, 1.0)))
    one = float(np.mean(X[:, typical(X)] ** 2)) / snr
    known: dict[str, Any] = {"noise": one, "lower": w0, "criterion": "mse"}
    return {
        NI: np.sqrt(w0),
        NI_THREE: 3 * np.sqrt(w0),
        **{name: weights.rescaled(factor) for name, weights in once.items()},
        MM_THREE: once[MM_PRONY].rescaled(3 * factor),
        MM_SDR: design.minmax(graph, signal_low=X.min(axis=1), signal_high=X.max(axis=1), **known),
        f"{MM_SDR}, {PAIR}": design.minmax(graph, signal_low=X.min(), signal_high=X.max(), **known),
        BEST: design.node_invariant(graph, rule="oracle", signals=equal_power(X), noise=1 / snr),
    }


def of_scenario(stations: Stations, scenario: str, snr_db: float, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    """Weights of a scenario of Section V-B, "learned" or "bounds", and the times that test them."""
    T = stations.signals.shape[1]
    if scenario == "bounds":
        return bounded(stations, snr_db, minmax_once(stations)), np.arange(T)
    train, test = halves(T, seed)
    return learned(stations, train, snr_db), test


def ridges(
    graph: Graph, X: np.ndarray, snr_db: float, sigma2: float, mu: float, observed: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Kernel ridge regression with the published parameters, and with those that suit the signals shown best."""
    return {
        KRR: ridge(graph, sigma2, mu, observed),
        KRR_BEST: best_ridge(graph, X, snr_db, observed),
    }
