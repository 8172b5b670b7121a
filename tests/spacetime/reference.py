"""Small state-space cases, their dense Gaussian answers, and models that no fit has to find first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import nareg
from nareg.results import Status
from nareg.spacetime import SpaceTimeModel
from nareg.spacetime._dense.filter import Dynamics
from nareg.spacetime._dense.parametric import Parameters
from nareg.spacetime._model.results import Bands, FitDetails
from nareg.spacetime._readings import times as _times
from nareg.spacetime._readings import transforms as _transforms
from nareg.spacetime._readings.cycles import Cycles
from nareg.spacetime._readings.space import Space

KINDS = ("scalar", "diagonal", "full")


def spd(rng: np.random.Generator, n: int) -> np.ndarray:
    """A random covariance whose eigenvalues are all of order one."""
    root = rng.standard_normal((n, n))
    return root @ root.T / n + 0.2 * np.eye(n)


def random_dynamics(rng: np.random.Generator, n: int, order: int, kind: str) -> Dynamics:
    """Stable dynamics; the first state need not be stationary."""
    blocks = []
    for k in range(order):
        size = 0.9 * rng.random() if k == 0 else -0.5 * rng.random()
        if kind == "scalar":
            blocks.append(np.asarray(size))
        elif kind == "diagonal":
            blocks.append(size * rng.random(n))
        else:
            blocks.append(size * np.linalg.qr(rng.standard_normal((n, n)))[0])
    return Dynamics(tuple(blocks), spd(rng, n), spd(rng, order * n))


def autoregressions(rng: np.random.Generator, rho: float, count: int, T: int) -> np.ndarray:
    """Series (count, T) of variance one."""
    x = rng.standard_normal((count, T))
    for t in range(1, T):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * x[:, t]
    return x


def with_gaps(rng: np.random.Generator, y: np.ndarray, share: float) -> np.ndarray:
    """Readings (T, N) with single gaps, one time without any reading and one station that is silent for a while."""
    y = np.where(rng.random(y.shape) < share, np.nan, y)
    if len(y) > 3 and share:
        y[rng.integers(len(y))] = np.nan
        y[: len(y) // 2, rng.integers(y.shape[1])] = np.nan
    return y


@dataclass(frozen=True)
class Dense:
    """The exact joint Gaussian of all states, and what readings make of it."""

    mean: np.ndarray  # (T, pN) of the states given the readings
    covariance: np.ndarray  # (T, pN, T, pN)
    log_likelihood: float


def dense(y: np.ndarray, dynamics: Dynamics, r: np.ndarray, scale: np.ndarray) -> Dense:
    """Condition the joint Gaussian of all states on the readings, with no recursion over the readings."""
    T, n = y.shape
    m = dynamics.P0.shape[0]
    F = np.zeros((m, m))
    F[:n] = dynamics.matrix()
    F[n:, : m - n] = np.eye(m - n)
    joint = np.zeros((T, m, T, m))
    now = dynamics.P0
    for t in range(T):
        if t:
            now = F @ now @ F.T
            now[:n, :n] += scale[t] * dynamics.Q
        ahead = now
        for s in range(t, T):
            joint[s, :, t], joint[t, :, s] = ahead, ahead.T
            ahead = F @ ahead
    flat = joint.reshape(T * m, T * m)
    times, stations = np.nonzero(np.isfinite(y))
    seen = times * m + stations
    values = y[times, stations]
    S = flat[np.ix_(seen, seen)] + np.diag(np.broadcast_to(r, (T, n))[times, stations])
    gain = np.linalg.solve(S, flat[seen]).T
    left = flat - gain @ flat[seen]
    log_det = np.linalg.slogdet(S)[1]
    likelihood = -0.5 * (values @ np.linalg.solve(S, values) + log_det + values.size * np.log(2 * np.pi))
    return Dense((gain @ values).reshape(T, m), left.reshape(T, m, T, m), float(likelihood))


def slopes(function: Callable[[np.ndarray], float], theta: np.ndarray, step: float = 1e-4) -> np.ndarray:
    """Central finite differences of a function at theta."""
    eye = step * np.eye(theta.size)
    return np.array([(function(theta + e) - function(theta - e)) / (2 * step) for e in eye])


def parameters(n: int, *, family: str = "exponential", phi: tuple[float, ...] = (0.9,), reach: float = 2.0, noise: float = 0.25,
               eta: float = 0.02) -> Parameters:  # fmt: skip
    """A field of variance one; ``phi`` are partial autocorrelations."""
    return Parameters(
        family, 0.0, float(np.log(reach)), float(np.log(eta / (1 - eta))), np.arctanh(np.array(phi)), np.full(n, np.log(noise))
    )


def regular(seconds: np.ndarray, step: float, dated: bool) -> _times.TimeGrid:
    """A grid whose rows are at these seconds."""
    start = np.datetime64(round(seconds[0] * 1e9), "ns") if dated else seconds[0]
    return _times.TimeGrid(start, step, dated, np.arange(seconds.size), seconds.size, seconds)


def no_cycles(n: int, level: np.ndarray | float = 0.0) -> Cycles:
    """A mean per station and nothing else."""
    levels = np.broadcast_to(np.asarray(level, dtype=float), (n,))
    return Cycles(
        (),
        (),
        levels[None].copy(),
        np.array([levels.mean()]),
        np.zeros(1),
        np.zeros((1, n)),
        np.zeros(1),
        np.zeros((1, n)),
        np.zeros((1, n, 1)),
    )


def model_of(
    graph: nareg.Graph, readings: np.ndarray, *, process: Parameters | None = None, dynamics: Dynamics | None = None,
    noise: np.ndarray | None = None, unit: float = 1.0, level: np.ndarray | float = 0.0,
    transform: _transforms.Transform | None = None, times: object = None, df: float | None = None,
    excluded: np.ndarray | None = None,
) -> SpaceTimeModel:  # fmt: skip
    """A model with known parameters, as a fit would return it."""
    n, T = readings.shape
    process = parameters(n) if process is None else process
    return SpaceTimeModel(
        graph=graph, transform=transform or _transforms.Transform("none"), unit=unit, cycles=no_cycles(n, level),
        dynamics=process.dynamics(Space.of(graph)) if dynamics is None else dynamics,
        unit_noise=process.noise if noise is None else noise, parameters=process, df=df,
        grid=_times.grid(_times.checked(times, T)), bands=Bands(), status=Status.CONVERGED, log_likelihood=0.0,
        readings=readings, excluded=np.zeros((n, T), dtype=bool) if excluded is None else excluded,
        details=FitDetails("by hand"),
    )  # fmt: skip


def network(seed: int = 0, n: int = 9, T: int = 60, *, gaps: float = 0.1, phi: tuple[float, ...] = (0.9,), names: bool = True,
            **options: object) -> SpaceTimeModel:  # fmt: skip
    """A model on random places, with readings that it drew itself."""
    rng = np.random.default_rng(seed)
    graph = nareg.Graph.from_knn(4 * rng.random((n, 2)), min(4, n - 1), names=[f"s{i}" for i in range(n)] if names else None)
    empty = model_of(graph, np.zeros((n, T)), process=parameters(n, phi=phi), **options)  # type: ignore[arg-type]
    readings = empty.simulate(rng)[1][:, empty.grid.rows]
    readings[rng.random(readings.shape) < gaps] = np.nan
    return model_of(graph, readings, process=parameters(n, phi=phi), **options)  # type: ignore[arg-type]
