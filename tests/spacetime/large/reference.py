"""Small networks of the large model, and the dense filter that gives the same answers."""

from __future__ import annotations

import numpy as np

import nareg
from nareg.spacetime._dynamics import Dynamics
from nareg.spacetime._large.field import FieldFamily
from nareg.spacetime._large.system import Process
from nareg.spacetime._smoother import Pass, run


def process(seed=0, n=40, smoothness=2, reach=3.0, rho=0.9, variance=2.0, noise=0.5) -> tuple[nareg.Graph, Process]:
    rng = np.random.default_rng(seed)
    graph = nareg.Graph.from_knn(rng.random((n, 2)), min(6, n - 1))
    return graph, Process(
        FieldFamily(graph.adjacency, smoothness).at(reach), rho, variance, noise * np.exp(rng.normal(0, 0.5, n))
    )


def readings(of: Process, T: int, rng: np.random.Generator, gaps: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Field and readings, (N, T), with scattered gaps, a dead station and a time without any reading."""
    field = of.draw(T, rng)
    y = field + np.sqrt(of.noise)[:, None] * rng.standard_normal(field.shape)
    y[rng.random(y.shape) < gaps] = np.nan
    if gaps:
        y[1] = np.nan
        y[:, T // 2] = np.nan
    return field, y


def dense(of: Process, y: np.ndarray, **options: object) -> Pass:
    """The dense Kalman filter and smoother of the same process."""
    C = of.variance * np.linalg.inv(of.field.precision().toarray())
    return run(y.T, Dynamics((np.asarray(of.rho),), (1 - of.rho**2) * C, C), of.noise, **options)
