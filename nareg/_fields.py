"""Synthetic fields whose smoothness, strength and noise differ from place to place, with their exact statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg import _checks
from nareg._operator import Penalty, penalty, scale_symmetric
from nareg.errors import InputError, SolverError
from nareg.filters import denoise
from nareg.graph import Graph
from nareg.results import Solution


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
        return signals + np.sqrt(self.noise)[:, None] * _checks.generator(rng).standard_normal(signals.shape)

    def lmmse(self, *, n_probes: int = 16, rng: np.random.Generator) -> tuple[float, float]:
        """Smallest mean squared error of any estimator, summed over nodes, and its standard error.

        It is ``tr((R^-1 + Sigma^-1)^-1)``, estimated with random probes at any size.
        """
        generator = _checks.generator(rng)
        z = generator.choice([-1.0, 1.0], size=(self.noise.size, n_probes))
        fit = 1.0 / self.noise
        estimate = _solved(denoise(self.graph, self.precision, z / fit[:, None], fit=fit, tol=1e-6))
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

    Returns
    -------
    Field

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
        raise InputError(f"graph is a {type(graph).__name__}, a nareg.Graph is expected.")
    n_signals = _checks.integer("n_signals", n_signals, low=1)
    short, long = (_checks.number(f"hops[{a}]", h, low=0, strict=True) for a, h in enumerate(hops))
    if short > long:
        raise InputError(f"hops is {hops!r}: the shortest length comes first.")
    noise_decades = _checks.number("noise_decades", noise_decades, low=0)
    snr_db = _checks.number("snr_db", snr_db)
    rng = _checks.generator(rng)
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
    return _solved(denoise(base, 1.0, white / k[:, None], fit=k, tol=1e-8))


def _solved(answer: Solution) -> Any:
    if not answer.status.ok:
        raise SolverError(f"the field could not be drawn (solve ended {answer.status.name}): take shorter hops.")
    return answer.x
