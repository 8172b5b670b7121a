"""A model that is known, and readings drawn from it: no fit stands between a fault and its test."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.results import Status
from nareg.spacetime import SpaceTimeModel
from nareg.spacetime._dense.parametric import Parameters
from nareg.spacetime._model.results import Bands
from nareg.spacetime._readings import times as _times
from nareg.spacetime._readings import transforms as _transforms
from nareg.spacetime._readings.cycles import Cycles
from nareg.spacetime._readings.space import Space

N, T = 20, 300


def known_model(
    readings: np.ndarray, coordinates: np.ndarray, noise: float = 0.3, level: np.ndarray | float = 15.0
) -> SpaceTimeModel:
    """Unit variance, correlation exp(-distance), second-order autoregression, white noise of the given standard deviation."""
    n = len(readings)
    graph = nareg.Graph.from_knn(coordinates, min(5, n - 1), names=[f"S{i}" for i in range(n)])
    space = Space.of(graph)
    parameters = Parameters("exponential", 0.0, 0.0, -6.0, np.arctanh(np.array([0.9, -0.2])), np.full(n, 2 * np.log(noise)))
    means = np.broadcast_to(np.asarray(level, dtype=float), (1, n)).copy()
    cycles = Cycles(
        (), (), means, means[:, 0], np.zeros(1), np.zeros((1, n)), np.zeros(1), np.zeros((1, n)), np.zeros((1, n, 1))
    )
    return SpaceTimeModel(
        graph=graph, transform=_transforms.named(None, readings[np.isfinite(readings)]), unit=1.0, cycles=cycles,
        dynamics=parameters.dynamics(space), unit_noise=parameters.noise, parameters=parameters, df=None,
        grid=_times.grid(np.arange(readings.shape[1], dtype=float)), bands=Bands(), status=Status.CONVERGED,
        log_likelihood=0.0, readings=readings, excluded=np.zeros(readings.shape, dtype=bool),
    )  # fmt: skip


def drawn(rng: np.random.Generator, n: int = N, t: int = T, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates, and readings (n, t) of the known model around 15."""
    coordinates = rng.uniform(0, 3, (n, 2))
    _, readings = known_model(np.full((n, t), 15.0), coordinates, noise).simulate(rng, n_times=t)
    return coordinates, readings


@pytest.fixture
def case(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return drawn(rng)
