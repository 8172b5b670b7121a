"""What the figures compare, on equal terms: each method becomes a matrix H, and its error is exact as well as sampled."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments._figure import Row, mean_and_error
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
    columns: np.ndarray = filters.interpolate(graph, weights, identity, observed, method="direct").x
    return columns * observed


def ridge(graph: Graph, sigma2: float, mu: float, observed: np.ndarray | None = None) -> np.ndarray:
    """H of kernel ridge regression with the diffusion kernel."""
    columns = baselines.kernel_ridge(graph, np.eye(graph.n_nodes), sigma2=sigma2, mu=mu, observed=observed)
    return columns if observed is None else columns * observed


#: Widths and penalties that :func:`best_ridge` tries.
RIDGES = tuple((float(a), float(b)) for a in np.geomspace(0.01, 100, 9) for b in np.geomspace(1e-5, 1, 6))


def best_ridge(graph: Graph, X: np.ndarray, snr: float, observed: np.ndarray | None = None) -> np.ndarray:
    """H of kernel ridge regression with the width and penalty that suit the signals best, in the mean of their NMSE."""
    U = equal_power(X)
    R, every = U @ U.T / U.shape[1], np.eye(graph.n_nodes)

    def risk(H: np.ndarray) -> float:
        return float(np.sum(((H - every) @ R) * (H - every)) + np.sum(H**2) / snr)

    return min((ridge(graph, sigma2, mu, observed) for sigma2, mu in RIDGES), key=risk)


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
        # over draws, each a mean over all signals: their errors are independent
        row["sampled"], row["sampled_error"] = mean_and_error(sampled.mean(axis=1))
    return row


def compared(filters_: dict[str, np.ndarray], X: np.ndarray, variance: np.ndarray, draws: int, seed: list[int]) -> list[Row]:
    """A row a method, all on the same noise."""
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
