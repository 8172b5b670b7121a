"""Small networks of the large model, and the dense filter that gives the same answers."""

from __future__ import annotations

import numpy as np

import nareg
from nareg.results import Status
from nareg.spacetime import SparseSpaceTimeModel
from nareg.spacetime._dense.filter import Dynamics
from nareg.spacetime._dense.smoother import Pass, run
from nareg.spacetime._model.results import Bands
from nareg.spacetime._readings import times as _times
from nareg.spacetime._readings import transforms as _transforms
from nareg.spacetime._readings.cycles import none
from nareg.spacetime._sparse.field import FieldFamily
from nareg.spacetime._sparse.system import Process
from nareg.spacetime._sparse.variances import everything


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


def model_of(graph: nareg.Graph, of: Process, y: np.ndarray) -> SparseSpaceTimeModel:
    """A model whose process is known, with readings (N, T)."""
    n, T = y.shape
    return SparseSpaceTimeModel(
        graph=graph, transform=_transforms.Transform("none"), unit=1.0, unit_noise=of.noise, process=of, bands=Bands(),
        cycles=none(stations=n), shares=everything(np.ones(n, dtype=bool)), grid=_times.grid(np.arange(float(T))),
        status=Status.CONVERGED, log_likelihood=0.0, readings=y, excluded=np.zeros(y.shape, dtype=bool),
    )  # fmt: skip


def dense(of: Process, y: np.ndarray, **options: object) -> Pass:
    """The dense Kalman filter and smoother of the same process."""
    C = of.variance * np.linalg.inv(of.field.precision().toarray())
    return run(y.T, Dynamics((np.asarray(of.rho),), (1 - of.rho**2) * C, C), of.noise, **options)
