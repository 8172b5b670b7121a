"""The demonstration: how much of the noise on a real sensor network does each design remove?

Protocol: the stations with a complete series; half of the days, drawn at random, train, the other half test;
the mean over all stations and training days is removed; white noise is added at the stated SNR, whose power
refers to the training days. Designs learn from the training days (blind and data-driven rules from noisy ones
only) and are measured on the test days, each with its own noise, by :func:`nareg.filters.denoise`.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np

from nareg import baselines, design, filters
from nareg._version import __version__
from nareg.datasets import SensorNetwork, load
from nareg.results import WeightDesign

#: ``report(done, total, what)``
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Settings:
    """What shapes the demonstration; printed in the report."""

    dataset: str = "us-weather"
    snr_db: tuple[float, ...] = (-10.0, -5.0, 0.0, 5.0, 10.0)
    reference_db: float = 0.0
    spread_decades: float = 2.0
    seed: int = 0
    sdp: bool = False


@dataclass(frozen=True)
class Score:
    """One method at one noise level, measured on the test days."""

    method: str
    snr_db: float
    nmse: float
    nmse_error: float
    bias: float
    variance: float
    removed: float
    seconds: float
    needs: str
    noise: str = "equal"


@dataclass
class Outcome:
    """Everything the report shows."""

    settings: Settings
    network: SensorNetwork
    scores: list[Score] = field(default_factory=list)
    lmmse: dict[tuple[str, float], float] = field(default_factory=dict)
    designs: dict[str, WeightDesign] = field(default_factory=dict)
    example: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Task:
    """One noise level: the training half clean and noisy, the test half, the noise."""

    graph: Any
    train: np.ndarray
    train_noisy: np.ndarray
    test: np.ndarray
    test_noisy: np.ndarray
    noise: np.ndarray
    snr_db: float
    label: str


Designer = Callable[[Task], WeightDesign]

#: Name -> (what it needs to know, how to get it).
QUICK: dict[str, tuple[str, Designer]] = {
    "one weight, published rule": (
        "SNR",
        lambda t: design.node_invariant(t.graph, rule="chen-liu", signals=t.train, noise=t.noise),
    ),
    "one weight, GCV": ("noisy readings", lambda t: design.node_invariant(t.graph, rule="gcv", measurements=t.train_noisy)),
    "one weight, SURE": (
        "noisy readings, noise",
        lambda t: design.node_invariant(t.graph, rule="sure", measurements=t.train_noisy, noise=t.noise),
    ),
    "one weight, best": (
        "clean history, noise",
        lambda t: design.node_invariant(t.graph, rule="oracle", signals=t.train, noise=t.noise),
    ),
    "relaxation (SDR)": ("clean history, noise", lambda t: design.relaxation(t.graph, signals=t.train, noise=t.noise)),
    "blind": ("noisy readings, noise", lambda t: design.blind(t.graph, measurements=t.train_noisy, noise=t.noise)),
    "exact": ("clean history, noise", lambda t: design.exact(t.graph, signals=t.train, noise=t.noise)),
}

#: Designs by semidefinite programming: minutes each at this size.
SDP: dict[str, tuple[str, Designer]] = {
    "Prony": (
        "clean history, noise",
        lambda t: design.prony(t.graph, signals=t.train, noise=t.noise, scale="bound"),
    ),
    "min-max Prony (corners)": (
        "bounds per station, noise",
        lambda t: design.minmax(t.graph, low=t.train.min(axis=1), high=t.train.max(axis=1), noise=t.noise),
    ),
    "min-max SDR (corners)": (
        "bounds per station, noise",
        lambda t: design.minmax(t.graph, low=t.train.min(axis=1), high=t.train.max(axis=1), noise=t.noise, criterion="mse"),
    ),
}

#: With stations of unequal quality: designs inside the noise-weighted data term.
UNEQUAL: dict[str, tuple[str, Designer]] = {
    "one weight, best": QUICK["one weight, best"],
    "exact": QUICK["exact"],
    "one weight, best, noise-weighted fit": (
        "clean history, noise per station",
        lambda t: design.node_invariant(t.graph, rule="oracle", signals=t.train, noise=t.noise, fit="noise"),
    ),
    "blind, noise-weighted fit": (
        "noisy readings, noise per station",
        lambda t: design.blind(t.graph, measurements=t.train_noisy, noise=t.noise, fit="noise"),
    ),
    "exact, noise-weighted fit": (
        "clean history, noise per station",
        lambda t: design.exact(t.graph, signals=t.train, noise=t.noise, fit="noise"),
    ),
}


def run(settings: Settings | None = None, *, progress: Progress | None = None) -> Outcome:
    """Run the demonstration.

    Parameters
    ----------
    settings : Settings, optional
    progress : callable, optional
        ``progress(steps done, steps in all, what is being done)``.

    Returns
    -------
    Outcome
    """
    settings = settings or Settings()
    started = time.perf_counter()
    network = load(settings.dataset).complete()
    outcome = Outcome(settings=settings, network=network, versions=_versions())
    rng = np.random.default_rng(settings.seed)
    days = rng.permutation(network.n_times)
    half = network.n_times // 2
    first, second = np.sort(days[:half]), np.sort(days[half:])
    mean = float(network.signals[:, first].mean())
    train, test = network.signals[:, first] - mean, network.signals[:, second] - mean
    spread = 10 ** rng.uniform(-settings.spread_decades / 2, settings.spread_decades / 2, network.n_nodes)
    shapes = {"equal": np.ones(network.n_nodes), "unequal": spread / spread.mean()}

    def task(snr_db: float, label: str) -> Task:
        noise = np.mean(train**2) / 10 ** (snr_db / 10) * shapes[label]
        scale = np.sqrt(noise)[:, None]
        return Task(
            network.graph,
            train,
            train + scale * rng.standard_normal(train.shape),
            test,
            test + scale * rng.standard_normal(test.shape),
            noise,
            snr_db,
            label,
        )

    methods = {**QUICK, **(SDP if settings.sdp else {})}
    plan: list[tuple[Task, str, tuple[str, Designer]]] = []
    for snr_db in settings.snr_db:
        level = task(snr_db, "equal")
        plan += [(level, name, method) for name, method in methods.items()]
    unequal = task(settings.reference_db, "unequal")
    plan += [(unequal, name, method) for name, method in UNEQUAL.items()]

    homogeneous: dict[str, tuple[WeightDesign, float]] = {}
    for step, (level, name, (needs, designer)) in enumerate(plan):
        if progress is not None:
            progress(step, len(plan), f"{name}, {level.snr_db:g} dB" + ("" if level.label == "equal" else ", unequal noise"))
        begun = time.perf_counter()
        if name in ("Prony", "min-max Prony (corners)"):
            found = _rescaled(homogeneous, name, level, designer)
        else:
            found = designer(level)
        seconds = time.perf_counter() - begun
        outcome.scores.append(_score(level, name, needs, found, seconds))
        outcome.lmmse.setdefault((level.label, level.snr_db), _lmmse(level))
        if level.label == "equal" and level.snr_db == settings.reference_db:
            outcome.designs[name] = found
            if "noisy" not in outcome.example:
                outcome.example.update(truth=test + mean, noisy=level.test_noisy + mean, days=network.times[second])
            outcome.example[name] = filters.denoise(level.graph, found, level.test_noisy).x + mean
    outcome.scores += _baselines(outcome, plan)
    if progress is not None:
        progress(len(plan), len(plan), "done")
    outcome.seconds = time.perf_counter() - started
    return outcome


def _rescaled(known: dict[str, tuple[WeightDesign, float]], name: str, level: Task, designer: Designer) -> WeightDesign:
    """Prony's criteria are homogeneous in the bound w0: solve once, rescale for every other SNR."""
    w0 = design.node_invariant(level.graph, rule="chen-liu", signals=level.train, noise=level.noise).certificate.details["w0"]
    if name not in known:
        known[name] = (designer(level), w0)
    found, w0_then = known[name]
    return found.rescaled(float(np.sqrt(w0 / w0_then)))


def _score(level: Task, name: str, needs: str, found: WeightDesign, seconds: float) -> Score:
    estimate = filters.denoise(level.graph, found, level.test_noisy).x
    expected = design.risk(level.graph, found, signals=level.test, noise=level.noise)
    power = float(np.sum(level.test**2)) / level.test.shape[1]
    return _measured(level, name, needs, estimate, expected.bias / power, expected.variance / power, seconds)


def _measured(level: Task, name: str, needs: str, estimate: np.ndarray, bias: float, variance: float, seconds: float) -> Score:
    error = np.sum((estimate - level.test) ** 2, axis=0)
    power = float(np.sum(level.test**2))
    noise_power = float(np.sum((level.test_noisy - level.test) ** 2))
    return Score(
        method=name,
        snr_db=level.snr_db,
        nmse=float(error.sum()) / power,
        nmse_error=float(error.std(ddof=1) * np.sqrt(error.size)) / power,
        bias=bias,
        variance=variance,
        removed=round(1 - float(error.sum()) / noise_power, 9) + 0.0,  # no minus zero
        seconds=seconds,
        needs=needs,
        noise=level.label,
    )


def _lmmse(level: Task) -> float:
    return design.risk(level.graph, 0.0, signals=level.test, noise=level.noise).lmmse


def _baselines(outcome: Outcome, plan: list[tuple[Task, str, tuple[str, Designer]]]) -> list[Score]:
    """What others would do on the same readings: nothing, kernel ridge, a dense Wiener filter."""
    scores = []
    for level in {(t.label, t.snr_db): t for t, _, _ in plan}.values():
        ways: dict[str, tuple[str, Callable[[Task], np.ndarray]]] = {
            "no filter": ("nothing", lambda t: t.test_noisy),
            "kernel ridge (diffusion)": ("nothing", lambda t: baselines.kernel_ridge(t.graph, t.test_noisy, sigma2=5.0)),
            "dense Wiener filter": (
                "clean history, noise",
                lambda t: baselines.lmmse(t.graph, t.test_noisy, signals=t.train, noise=t.noise),
            ),
        }
        for name, (needs, estimate) in ways.items():
            begun = time.perf_counter()
            x = estimate(level)
            scores.append(_measured(level, name, needs, x, np.nan, np.nan, time.perf_counter() - begun))
    return scores


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("numpy", "scipy", "cvxpy", "scs", "clarabel", "matplotlib")}
    return {"nareg": __version__, "Python": platform.python_version(), **packages}
