"""Dense float64 references and problems that several test modules share, and what runs at night alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import nareg


def examples(few: int, nightly: int, **options: Any) -> settings:
    """So many examples of a property in each run, and more in the nightly one."""
    is_nightly = settings.default.max_examples == 100  # see conftest.py
    return settings(max_examples=nightly if is_nightly else few, **options)


def at_night(cases: Iterable[Any]) -> list[Any]:
    """Cases for ``parametrize`` that only the nightly run takes."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.nightly) for case in cases]


def little_memory(patch: pytest.MonkeyPatch) -> None:
    """As on a machine with a kilobyte."""
    patch.setattr("nareg._core.memory.room", lambda reserved=1.0: (1000.0, "this machine has 0.0 GiB"))
    patch.setattr("nareg._core.checks.SMALL", 0)


def dense_filter(graph: nareg.Graph, w: np.ndarray, c: np.ndarray | None = None) -> np.ndarray:
    """H = (C + diag(w) L diag(w))^-1 C by dense inversion."""
    L = graph.laplacian().toarray()
    c = np.ones(graph.n_nodes) if c is None else c
    return np.linalg.inv(np.diag(c) + np.diag(w) @ L @ np.diag(w)) @ np.diag(c)


def dense_risk(H: np.ndarray, R: np.ndarray, Sigma: np.ndarray) -> tuple[float, float]:
    error = H - np.eye(len(H))
    return float(np.trace(error @ R @ error.T)), float(np.trace(H @ Sigma @ H.T))


def bandlimited_signal(graph: nareg.Graph, n_frequencies: int) -> np.ndarray:
    """The paper's synthetic signal: graph Fourier transform one on the first frequencies, zero elsewhere."""
    return np.linalg.eigh(graph.laplacian().toarray())[1][:, :n_frequencies].sum(axis=1)


def half_split(X: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random halves of the columns, the training half's mean over everything removed from both."""
    order = rng.permutation(X.shape[1])
    first, second = X[:, order[: X.shape[1] // 2]], X[:, order[X.shape[1] // 2 :]]
    return first - first.mean(), second - first.mean()


def directional_difference(function, w: np.ndarray, direction: np.ndarray, step: float = 1e-6) -> float:
    """Central finite difference of ``function(w)[0]`` along a direction."""
    return (function(w + step * direction)[0] - function(w - step * direction)[0]) / (2 * step)


def vertices(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """All vertices of a box, a column each."""
    corners = np.array(list(itertools.product([0.0, 1.0], repeat=low.size)))
    return (low + corners * (high - low)).T


def sensor_case(seed: int, n: int = 20) -> tuple[nareg.Graph, np.ndarray, np.ndarray]:
    """A sensor graph and a range for every node."""
    rng = np.random.default_rng(seed)
    g = nareg.graphs.sensor(n, rng=rng)
    center, half = 1 + rng.random(n), 0.3 * rng.random(n)
    return g, center - half, center + half


def roughness(g: nareg.Graph, X: np.ndarray) -> np.ndarray:
    """``x^T L x`` of every column."""
    return np.sum(X * (g.laplacian() @ X), axis=0)


def hourly_rooms(seed: int, rooms: int = 12, days: int = 30, noise: float = 8.0) -> tuple[np.ndarray, np.ndarray]:
    """CO2 of rooms in ppm, by the hour: people come and go by the half hour at work, and the air goes in one or two hours."""
    rng = np.random.default_rng(seed)
    half = np.arange(48 * days)
    at_work = (half % 48 >= 16) & (half % 48 < 36) & (half // 48 % 7 < 5)
    exchanged, breath, usual = rng.uniform(0.5, 2.5, rooms), rng.uniform(60, 140, rooms), rng.uniform(0.3, 0.8, (24, rooms))
    field, air = np.empty((half.size, rooms)), np.full(rooms, 430.0)
    for t in half:
        people = rng.binomial(6, usual[t % 48 // 2]) if at_work[t] else rng.binomial(1, 0.01, rooms)
        full = 420 + people * breath / exchanged
        air = field[t] = full + (air - full) * np.exp(-exchanged / 2)
    field = field[1::2].T
    return field, field + noise * rng.standard_normal(field.shape)
