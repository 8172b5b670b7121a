"""Synthetic graphs and signals on them, and graphs learned from signals; ``rng`` is a ``numpy.random.Generator``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._core.arrays import briefly_shown
from nareg._solvers.system import Penalty, penalty, scale_symmetric
from nareg.errors import InputError, SolverError
from nareg.filters import denoise
from nareg.graph import Graph
from nareg.graphs._learned import LearnedGraph, learn
from nareg.results import Solution
from nareg.typing import ArrayLike

__all__ = [
    "Field",
    "LearnedGraph",
    "erdos_renyi",
    "grid",
    "heterogeneous_field",
    "learn",
    "power_law",
    "sensor",
    "stochastic_block",
]


def erdos_renyi(n: int, p: float, *, rng: np.random.Generator) -> Graph:
    """Erdős-Rényi graph: every pair of nodes is joined independently with probability p.

    Parameters
    ----------
    n : int
        Number of nodes.
    p : float
        Edge probability, from 0 to 1.
    rng : numpy.random.Generator

    Examples
    --------
    >>> import numpy as np, nareg
    >>> nareg.graphs.erdos_renyi(50, 0.5, rng=np.random.default_rng(0)).n_nodes
    50
    """
    n = checks.integer("n", n, low=1)
    return stochastic_block([n], [[p]], rng=rng)


def stochastic_block(sizes: Sequence[int], p: ArrayLike, *, rng: np.random.Generator) -> Graph:
    """Stochastic block model: nodes of blocks a and b are joined with probability ``p[a][b]``.

    Parameters
    ----------
    sizes : sequence of B ints
        Nodes per block; nodes are numbered block after block.
    p : (B, B) array
        Symmetric edge probabilities.
    rng : numpy.random.Generator

    Examples
    --------
    >>> import numpy as np, nareg
    >>> nareg.graphs.stochastic_block([2, 2], [[1, 0], [0, 1]], rng=np.random.default_rng(0))
    Graph(n_nodes=4, n_edges=2)
    """
    if not hasattr(sizes, "__iter__"):
        raise InputError(f"sizes is {sizes!r}: pass a sequence of block sizes.")
    counts = [checks.integer(f"sizes[{b}]", s, low=1) for b, s in enumerate(sizes)]
    probability = checks.floats("p", p, ndim=(2,)).astype(np.float64)
    if not counts:
        raise InputError("sizes is empty: pass at least one block.")
    if probability.shape != (len(counts), len(counts)) or not np.array_equal(probability, probability.T):
        raise InputError(f"p has shape {probability.shape}: pass a symmetric ({len(counts)}, {len(counts)}) array.")
    if probability.min(initial=0) < 0 or probability.max(initial=0) > 1:
        raise InputError(f"p has {probability.min():g} to {probability.max():g}: pass probabilities between 0 and 1.")
    rng = checks.generator(rng)
    first = np.concatenate([[0], np.cumsum(counts)])
    rows, cols = [], []
    for a, size_a in enumerate(counts):
        for b in range(a, len(counts)):
            if a == b:
                i, j = _triangle(_bernoulli_ranks(size_a * (size_a - 1) // 2, probability[a, a], rng))
            else:
                i, j = np.divmod(_bernoulli_ranks(size_a * counts[b], probability[a, b], rng), counts[b])
            rows.append(first[a] + i)
            cols.append(first[b] + j)
    return _from_pairs(np.concatenate(rows), np.concatenate(cols), int(first[-1]))


def grid(shape: Sequence[int]) -> Graph:
    """Regular grid in any dimension, unit weights, coordinates included.

    Parameters
    ----------
    shape : sequence of int
        Nodes along each side; ``(n,)`` is a path.

    Examples
    --------
    >>> import nareg
    >>> nareg.graphs.grid((3, 4))
    Graph(n_nodes=12, n_edges=17)
    """
    if not hasattr(shape, "__iter__"):
        raise InputError(f"shape is {shape!r}: pass a sequence, such as ({shape!r},) for a path.")
    dims = [checks.integer(f"shape[{a}]", s, low=1) for a, s in enumerate(shape)]
    if not dims:
        raise InputError("shape is empty: pass at least one side, for example (10, 10).")
    index = np.arange(int(np.prod(dims))).reshape(dims)
    pairs = [
        (np.take(index, range(s - 1), axis=a).ravel(), np.take(index, range(1, s), axis=a).ravel()) for a, s in enumerate(dims)
    ]
    points = np.stack(np.meshgrid(*(np.arange(s, dtype=float) for s in dims), indexing="ij"), axis=-1)
    i, j = np.concatenate(pairs, axis=1)
    return _from_pairs(i, j, index.size, coordinates=points.reshape(index.size, len(dims)))


def power_law(n: int, *, exponent: float = 2.5, mean_degree: float = 14, rng: np.random.Generator) -> Graph:
    """Graph with power-law degrees (Chung-Lu): edge endpoints drawn in proportion to node weights.

    Double edges and loops are dropped, so that the mean degree comes out slightly below ``mean_degree``.

    Parameters
    ----------
    n : int
        Number of nodes.
    exponent : float
        Exponent of the degrees' distribution, above 2.
    mean_degree : float
    rng : numpy.random.Generator

    Examples
    --------
    >>> import numpy as np, nareg
    >>> nareg.graphs.power_law(1000, mean_degree=4, rng=np.random.default_rng(0)).n_nodes
    1000
    """
    n = checks.integer("n", n, low=2)
    exponent = checks.number("exponent", exponent, low=2, strict=True)
    mean_degree = checks.number("mean_degree", mean_degree, low=0, strict=True)
    rng = checks.generator(rng)
    weight = np.arange(1, n + 1) ** (-1 / (exponent - 1))
    cumulative = np.cumsum(weight) / weight.sum()
    ends = np.searchsorted(cumulative, rng.random((2, round(n * mean_degree / 2))))
    low, high = np.minimum(*ends), np.maximum(*ends)
    ranks = np.unique(low[low != high].astype(np.int64) * n + high[low != high])
    return _from_pairs(*np.divmod(ranks, n), n)


def sensor(n: int, k: int = 7, *, rng: np.random.Generator) -> Graph:
    """Sensors placed uniformly in the unit square, each joined with its k nearest, Gaussian kernel.

    Parameters
    ----------
    n : int
        Number of nodes.
    k : int
        Neighbors per node.
    rng : numpy.random.Generator

    Examples
    --------
    >>> import numpy as np, nareg
    >>> nareg.graphs.sensor(100, rng=np.random.default_rng(0)).coordinates.shape
    (100, 2)
    """
    n = checks.integer("n", n, low=2)
    return Graph.from_knn(checks.generator(rng).random((n, 2)), k)


def _bernoulli_ranks(total: int, p: float, rng: np.random.Generator) -> np.ndarray:
    """Ranks in 0 .. total - 1, each kept with probability p; memory grows with those kept."""
    if total <= 10_000_000:
        return np.flatnonzero(rng.random(total) < p)
    return np.sort(rng.choice(total, size=rng.binomial(total, p), replace=False, shuffle=False))


def _triangle(rank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pair (i, j), i > j, of each rank in the strict lower triangle, row by row."""
    i = np.floor((1 + np.sqrt(1 + 8.0 * rank)) / 2).astype(np.int64)
    i -= i * (i - 1) // 2 > rank  # the square root may round up
    i += (i + 1) * i // 2 <= rank  # or down
    return i, rank - i * (i - 1) // 2


def _from_pairs(i: np.ndarray, j: np.ndarray, n: int, **parts: Any) -> Graph:
    ones = np.ones(len(i))
    half = sp.csr_array((ones, (i, j)), shape=(n, n))
    return Graph(half + half.T, **parts)


@briefly_shown
@dataclass(frozen=True)
class Field:
    """Signals of a Gaussian field on a graph, and what they were drawn from.

    Attributes
    ----------
    graph : Graph
    signals : (N, T) array
        Clean signals.
    noise : (N,) array
        Noise variance of every node.
    precision : (N, N) CSR array
        Inverse covariance of the field: nodes up to two hops apart.
    """

    graph: Graph
    signals: np.ndarray
    noise: np.ndarray
    precision: sp.csr_array

    def measure(self, signals: np.ndarray, *, rng: np.random.Generator) -> np.ndarray:
        """Readings: the signals plus independent noise."""
        return signals + np.sqrt(self.noise)[:, None] * checks.generator(rng).standard_normal(signals.shape)

    def lmmse(self, *, n_probes: int = 16, rng: np.random.Generator) -> tuple[float, float]:
        """Smallest mean squared error of any estimator, summed over nodes, and its standard error.

        It is ``tr((R^-1 + Sigma^-1)^-1)``, estimated with random probes at any size.
        """
        generator = checks.generator(rng)
        z = generator.choice([-1.0, 1.0], size=(self.noise.size, n_probes))
        data_weight = 1.0 / self.noise
        estimate = _solved(denoise(self.graph, self.precision, z / data_weight[:, None], data_weight=data_weight, tol=1e-6))
        errors = np.einsum("ip,ip->p", z, estimate)
        return float(errors.mean()), float(errors.std(ddof=1) / np.sqrt(n_probes))


def heterogeneous_field(
    graph: Graph,
    n_signals: int,
    *,
    hops: tuple[float, float] = (2.0, 20.0),
    noise_decades: float = 2.0,
    snr_db: float = 0.0,
    rng: np.random.Generator,
) -> Field:
    """Draw signals of a field that is smooth in some places and rough in others, and noise that differs by node.

    ``x = diag(a) (diag(k) + L)^-1 e`` with white e: a Gaussian Markov field (Whittle-Matern on a graph) whose
    correlation length varies smoothly over the graph. Noise variances are independent from node to node.

    Parameters
    ----------
    graph : Graph
    n_signals : int
    hops : (float, float)
        Shortest and longest correlation length, in edges of mean weight.
    noise_decades : float
        Spread of the noise variances, log-uniform over nodes; 0 for equal noise.
    snr_db : float
        Mean signal power over mean noise variance, in dB; the mean signal power is one.
    rng : numpy.random.Generator

    Examples
    --------
    >>> import numpy as np, nareg
    >>> rng = np.random.default_rng(0)
    >>> g = nareg.graphs.sensor(200, rng=rng)
    >>> field = nareg.graphs.heterogeneous_field(g, 30, rng=rng)
    >>> field.signals.shape, float(np.mean(field.signals**2).round(6))
    ((200, 30), 1.0)
    """
    if not isinstance(graph, Graph):
        raise InputError(f"graph is a {type(graph).__name__}: pass a nareg.Graph.")
    n_signals = checks.integer("n_signals", n_signals, low=1)
    short, long = (checks.number(f"hops[{a}]", h, low=0, strict=True) for a, h in enumerate(hops))
    if short > long:
        raise InputError(f"hops is {hops!r}: the shortest length comes first.")
    noise_decades = checks.number("noise_decades", noise_decades, low=0)
    snr_db = checks.number("snr_db", snr_db)
    rng = checks.generator(rng)
    n, base = graph.n_nodes, penalty(graph)
    degree = float(graph.degrees.mean())
    if degree == 0:
        raise InputError("graph has no edges: a field needs neighbors.")
    # where in its range the length lies: smooth over twice the longest length, uniform over nodes by its rank
    rough = _smoothed(base, np.full(n, degree / (2 * long) ** 2), rng.standard_normal((n, 1)))[:, 0]
    place = np.argsort(np.argsort(rough)) / max(n - 1, 1)
    length = short * (long / short) ** place
    k = degree / length**2
    white = _smoothed(base, k, rng.standard_normal((n, n_signals)))
    # in the plane the variance of (k + L)^-1 e goes like 1 / k: without the root the smooth parts would outweigh all
    amplitude = np.sqrt(k)
    scale = float(np.sqrt(np.mean((amplitude[:, None] * white) ** 2)))
    signals = (amplitude / scale)[:, None] * white
    operator = sp.csr_array(base.L + sp.diags_array(k))
    precision = scale_symmetric(sp.csr_array(operator @ operator), scale / amplitude)
    spread = 10 ** rng.uniform(-noise_decades / 2, noise_decades / 2, n)
    return Field(graph, signals, spread / spread.mean() / 10 ** (snr_db / 10), precision)


def _smoothed(base: Penalty, k: np.ndarray, white: np.ndarray) -> np.ndarray:
    """``(diag(k) + L)^-1 white``."""
    return _solved(denoise(base, 1.0, white / k[:, None], data_weight=k, tol=1e-8))


def _solved(answer: Solution) -> np.ndarray:
    if not answer.status.ok:
        raise SolverError(f"the field could not be drawn (the solver ended with {answer.status.name}): pass shorter hops.")
    return answer.x
