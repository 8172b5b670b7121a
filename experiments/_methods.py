"""The methods that the figures compare: each becomes a matrix H, and its error is computed exactly as well as sampled."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments._figure import Row
from nareg import baselines, filters
from nareg.graph import Graph


def bandlimited(graph: Graph, frequencies: int) -> np.ndarray:
    """The paper's synthetic signal: graph Fourier transform equal to one on the first frequencies, zero on the others."""
    signal: np.ndarray = np.linalg.eigh(graph.laplacian().toarray())[1][:, :frequencies].sum(axis=1)
    return signal


def published_weight(graph: Graph, snr: float) -> float:
    """``w0* = sqrt(theta / (lambda_2 lambda_N))``, ``theta = sqrt(1 / SNR)``: the benchmark's single weight."""
    values = np.linalg.eigvalsh(graph.laplacian().toarray())
    smallest = values[values > 1e-9 * values[-1]][0]
    return float(np.sqrt(np.sqrt(1 / snr) / (smallest * values[-1])))


def matrix(graph: Graph, weights: Any, observed: np.ndarray | None = None) -> np.ndarray:
    """H of node or edge weights: ``(I + S)^-1``, or ``(C + S)^-1 C`` with c = 0 at nodes that are not observed."""
    identity = np.eye(graph.n_nodes)
    if observed is None:
        return filters.denoise(graph, weights, identity, method="direct").x
    # not interpolate, which replaces weights that inflate estimates: what they do is what is measured here
    own = getattr(weights, "data_weight", None)
    c = observed.astype(float) if own is None else observed * own
    columns: np.ndarray = filters.denoise(graph, weights, identity, data_weight=c, method="direct").x
    return columns * observed


def ridge(graph: Graph, sigma2: float, mu: float, observed: np.ndarray | None = None) -> np.ndarray:
    """H of kernel ridge regression with the diffusion kernel."""
    columns = baselines.kernel_ridge(graph, np.eye(graph.n_nodes), sigma2=sigma2, mu=mu, observed=observed)
    return columns if observed is None else columns * observed


#: Widths and penalties (over the noise) that the tuned kernel ridge regressions try.
WIDTHS, PENALTIES = np.geomspace(0.01, 100, 9), np.geomspace(1e-4, 1e2, 10)


def gaussian(K: np.ndarray, noise: np.ndarray, observed: np.ndarray | None = None) -> np.ndarray:
    """H of the conditional mean of a signal with covariance K, given noisy readings of some stations."""
    seen = np.ones(len(K), dtype=bool) if observed is None else observed
    H = np.zeros_like(K)
    H[:, seen] = np.linalg.solve(K[np.ix_(seen, seen)] + np.diag(noise[seen]), K[seen]).T
    return H


def risk(H: np.ndarray, R: np.ndarray, noise: np.ndarray) -> float:
    """Expected squared error of a filter on signals with second moment R."""
    rest = H - np.eye(len(H))
    return float(np.sum((rest @ R) * rest) + np.sum(H**2 * noise))


def tuned_ridge(graph: Graph, R: np.ndarray, noise: np.ndarray, observed: np.ndarray | None = None) -> np.ndarray:
    """H of kernel ridge regression with the width and penalty that suit signals with second moment R best."""
    values, vectors = np.linalg.eigh(graph.laplacian().toarray())
    kernels = [(vectors * np.exp(-width * values / 2)) @ vectors.T for width in WIDTHS]
    ways = (gaussian(K, penalty * noise / noise.mean(), observed) for K in kernels for penalty in PENALTIES)
    return min(ways, key=lambda H: risk(H, R, noise))


def best_ridge(graph: Graph, X: np.ndarray, snr_db: float, observed: np.ndarray | None = None) -> np.ndarray:
    """The same for the mean of the signals' NMSE."""
    U = equal_power(X)
    return tuned_ridge(graph, U @ U.T / U.shape[1], np.full(graph.n_nodes, 10 ** (-snr_db / 10)), observed)


def equal_power(X: np.ndarray) -> np.ndarray:
    """Every signal divided by its root mean square.

    With noise of variance ``1 / SNR`` the squared error of these, summed, is what the figures show: the mean of the
    signals' NMSE. A design that is to do well there takes them; raw signals weigh the large ones more.
    """
    scaled: np.ndarray = X / np.sqrt(np.mean(X**2, axis=0))
    return scaled


def wiener(R: np.ndarray, noise: Any, observed: np.ndarray | None = None) -> np.ndarray:
    """H of the dense Wiener filter, which no linear filter beats where R is the signals' own second moment."""
    every = np.eye(R.shape[0])  # in the place of the graph too, which it ignores
    columns = baselines.lmmse(every, every, second_moment=R, noise=noise, observed=observed)
    return columns if observed is None else columns * observed


def errors(H: np.ndarray, X: np.ndarray, variance: np.ndarray, draws: int, rng: np.random.Generator) -> Row:
    """NMSE of a filter, expected in closed form and as a mean over noise draws with its standard error.

    Parameters
    ----------
    H : (N, N) array
    X : (N, T) array
        Clean signals.
    variance : (T,) array
        Noise variance of each signal, the same at every node.
    draws : int
        Noise draws a signal.

    Returns
    -------
    dict
        ``bias``, ``variance`` and ``nmse``: the mean over signals of each signal's expected squared error over its power;
        ``sampled`` and ``sampled_error`` the same from draws.
    """
    n, T = X.shape
    power = np.sum(X**2, axis=0)
    bias = np.sum((H @ X - X) ** 2, axis=0) / power
    spread = np.sum(H**2) * variance / power
    row: Row = {"bias": float(bias.mean()), "variance": float(spread.mean()), "nmse": float((bias + spread).mean())}
    if draws:
        sampled = np.empty((draws, T))
        for d in range(draws):
            Y = X + np.sqrt(variance) * rng.standard_normal((n, T))
            sampled[d] = np.sum((H @ Y - X) ** 2, axis=0) / power
        # each signal's own draws tell its spread: T (draws - 1) degrees of freedom, where means over all signals have draws - 1
        spreads = sampled.var(axis=0, ddof=1) if draws > 1 else np.nan
        row["sampled"], row["sampled_error"] = float(sampled.mean()), float(np.sqrt(np.mean(spreads) / (draws * T)))
    return row


def compared(filters_: dict[str, np.ndarray], X: np.ndarray, variance: np.ndarray, draws: int, seed: list[int]) -> list[Row]:
    """One row per method, all on the same noise."""
    return [{"method": name, **errors(H, X, variance, draws, np.random.default_rng(seed))} for name, H in filters_.items()]


def span(values: np.ndarray) -> str:
    """Smallest and largest value, for a sentence."""
    ends = [f"{value:#.3g}" for value in (values.min(), values.max())]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def random_nodes(n: int, number: int, seed: list[int]) -> np.ndarray:
    """Mask of a random subset of the nodes."""
    observed = np.zeros(n, dtype=bool)
    observed[np.random.default_rng(seed).permutation(n)[:number]] = True
    return observed
