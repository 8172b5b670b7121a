"""The demonstration: how much of the noise on a real sensor network does each design remove?

Protocol: the stations with a complete series; half of the days train and the other half test; the mean over all
stations and training days is removed; white noise is added at the stated SNR, whose power refers to the training
days. Designs learn from the training days (blind and data-driven rules from noisy ones only).

Every method here is a linear filter H, so its expected squared error on the test days is solved in closed form:
``||(H - I) x_t||^2 + tr(H Sigma H^T)`` for day t. NMSE is the sum over days over the signal's power. Its standard
error is a jackknife over blocks of 14 successive test days, because weather lasts. Noise removed is measured on
one noise draw per day by :func:`nareg.filters.denoise`.

There are three splits: random days (the usual protocol, which lets weather leak from training to test), alternating blocks of
30 days, and the two halves of the year.
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
from nareg.graph import Graph
from nareg.progress import Progress, ProgressCallback
from nareg.results import WeightDesign


@dataclass(frozen=True)
class DemoSettings:
    """Settings of the demonstration, printed in the report."""

    dataset: str = "us-weather"
    snr_db: tuple[float, ...] = (-10.0, -5.0, 0.0, 5.0, 10.0)
    reference_db: float = 0.0
    spread_decades: float = 2.0
    seed: int = 0
    sdp: bool = False


@dataclass(frozen=True)
class Score:
    """One method at one noise level on the test days; fractions of the signal power unless said otherwise.

    ``gain`` is NMSE over that of the best single weight (same data term), with its own jackknife error: most of
    the error of NMSE is common to all methods.
    """

    method: str
    noise: str
    split: str
    snr_db: float
    nmse: float
    nmse_error: float
    gain: float
    gain_error: float
    bias: float
    variance: float
    removed: float
    seconds: float

    @property
    def needs(self) -> str:
        """What the method needs to know."""
        return _BASELINE_NEEDS.get(self.method) or {**QUICK, **SDP, **UNEQUAL}[self.method][0]


@dataclass
class DemoResult:
    """The content of the report."""

    settings: DemoSettings
    network: SensorNetwork
    scores: list[Score] = field(default_factory=list)
    lmmse: dict[tuple[str, str, float], float] = field(default_factory=dict)
    designs: dict[str, WeightDesign] = field(default_factory=dict)
    example: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class DemoTask:
    """One noise level: the training half clean and noisy, the test half, the noise."""

    graph: Graph
    train: np.ndarray
    train_noisy: np.ndarray
    test: np.ndarray
    test_noisy: np.ndarray
    noise: np.ndarray
    snr_db: float
    label: str
    split: str


Designer = Callable[[DemoTask], WeightDesign]

#: What a method needs to know, and how to get it.
Way = tuple[str, Designer]


def _from_history(function: Callable[..., WeightDesign], needs: str = "clean history, noise", **options: Any) -> Way:
    return needs, lambda t: function(t.graph, signals=t.train, noise=t.noise, **options)


def _from_readings(function: Callable[..., WeightDesign], needs: str = "noisy readings, noise", **options: Any) -> Way:
    return needs, lambda t: function(t.graph, measurements=t.train_noisy, noise=t.noise, **options)


def _from_bounds(**options: Any) -> Way:
    def designer(t: DemoTask) -> WeightDesign:
        return design.minmax(t.graph, signal_low=t.train.min(axis=1), signal_high=t.train.max(axis=1), noise=t.noise, **options)

    return "bounds per station, noise", designer


QUICK: dict[str, Way] = {
    "one weight, published rule": _from_history(design.node_invariant, "SNR", rule="chen-liu"),
    "one weight, GCV": ("noisy readings", lambda t: design.node_invariant(t.graph, rule="gcv", measurements=t.train_noisy)),
    "one weight, SURE": _from_readings(design.node_invariant, rule="sure"),
    "one weight, best": _from_history(design.node_invariant, rule="oracle"),
    "relaxation (SDR)": _from_history(design.relaxation),
    "blind": _from_readings(design.blind),
    "exact": _from_history(design.exact),
    "edge": _from_history(design.edge),
    "edge from readings": _from_readings(design.edge),
}

#: Designs by semidefinite programming: minutes each at this size.
SDP: dict[str, Way] = {
    "Prony": _from_history(design.prony, scale="bound"),
    "min-max Prony (corners)": _from_bounds(),
    "min-max SDR (corners)": _from_bounds(criterion="mse"),
}

_CLEAN, _NOISY = "clean history, noise per station", "noisy readings, noise per station"
#: With stations of unequal quality: designs inside the noise-weighted data term.
UNEQUAL: dict[str, Way] = {
    "one weight, best": QUICK["one weight, best"],
    "exact": QUICK["exact"],
    "one weight, best, noise-weighted fit": _from_history(design.node_invariant, _CLEAN, rule="oracle", data_weight="noise"),
    "blind, noise-weighted fit": _from_readings(design.blind, _NOISY, data_weight="noise"),
    "exact, noise-weighted fit": _from_history(design.exact, _CLEAN, data_weight="noise"),
    "edge, noise-weighted fit": _from_history(design.edge, _CLEAN, data_weight="noise"),
    "edge from readings, noise-weighted fit": _from_readings(design.edge, _NOISY, data_weight="noise"),
}


def run(settings: DemoSettings | None = None, *, progress: ProgressCallback | None = None) -> DemoResult:
    """Run the demonstration.

    Parameters
    ----------
    settings : DemoSettings, optional
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per design.

    Returns
    -------
    DemoResult
    """
    settings = settings or DemoSettings()
    started = time.perf_counter()
    network = load(settings.dataset).complete()
    result = DemoResult(settings=settings, network=network, versions=_versions())
    rng = np.random.default_rng(settings.seed)
    spread = 10 ** rng.uniform(-settings.spread_decades / 2, settings.spread_decades / 2, network.n_nodes)
    shapes = {"equal": np.ones(network.n_nodes), "unequal": spread / spread.mean()}

    def task(snr_db: float, label: str, split: str = "random days") -> DemoTask:
        first = _SPLITS[split](network.n_times, np.random.default_rng(settings.seed))
        mean = float(network.signals[:, first].mean())
        train, test = network.signals[:, first] - mean, network.signals[:, ~first] - mean
        noise = np.mean(train**2) / 10 ** (snr_db / 10) * shapes[label]
        draws = (np.sqrt(noise)[:, None] * rng.standard_normal(part.shape) for part in (train, test))
        return DemoTask(network.graph, train, train + next(draws), test, test + next(draws), noise, snr_db, label, split)

    methods = {**QUICK, **(SDP if settings.sdp else {})}
    plan: list[tuple[DemoTask, dict[str, Way]]] = []
    plan += [(task(snr_db, "equal"), methods) for snr_db in settings.snr_db]
    plan += [(task(settings.reference_db, "unequal"), UNEQUAL)]
    shown = {
        name: QUICK[name]
        for name in ("one weight, best", "one weight, SURE", "relaxation (SDR)", "blind", "exact", "edge", "edge from readings")
    }
    plan += [(task(settings.reference_db, "equal", split), shown) for split in list(_SPLITS)[1:]]
    total, done = sum(len(chosen) for _, chosen in plan), 0
    homogeneous: dict[str, tuple[WeightDesign, float]] = {}
    for level, chosen in plan:
        limit = design.risk(level.graph, 0.0, signals=level.test, noise=level.noise).lmmse
        result.lmmse[level.label, level.split, level.snr_db] = limit
        measured = {name: _Measured.of(level, H, None, 0.0) for name, H in _baseline_filters(level).items()}
        for name, (_, designer) in chosen.items():
            if progress is not None:
                what = "" if level.split == "random days" else f", {level.split}"
                stage = f"{name}, {level.snr_db:g} dB, {level.label} noise{what}"
                progress(Progress(stage, done, total, done / total))
            begun = time.perf_counter()
            if name in ("Prony", "min-max Prony (corners)"):
                designed = _rescaled(homogeneous, name, level, designer)
            else:
                designed = designer(level)
            measured[name] = _Measured.of(level, _filter(level, designed), designed, time.perf_counter() - begun)
            done += 1
        reference = measured["one weight, best, noise-weighted fit" if level.label == "unequal" else "one weight, best"]
        result.scores += [m.score(level, name, reference) for name, m in measured.items()]
        if level.label == "equal" and level.snr_db == settings.reference_db and level.split == "random days":
            result.designs = {name: m.design for name, m in measured.items() if m.design is not None}
            first = _SPLITS[level.split](network.n_times, np.random.default_rng(settings.seed))
            mean = float(network.signals[:, first].mean())
            result.example = {"truth": level.test + mean, "noisy": level.test_noisy + mean, "days": network.times[~first]}
            result.example |= {name: m.estimate + mean for name, m in measured.items()}
    if progress is not None:
        progress(Progress("done", total, total, 1.0))
    result.timings["total"] = time.perf_counter() - started
    return result


def _random_days(n: int, rng: np.random.Generator) -> np.ndarray:
    first = np.zeros(n, dtype=bool)
    first[rng.permutation(n)[: n // 2]] = True
    return first


#: Name -> mask of the training days.
_SPLITS: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {
    "random days": _random_days,
    "alternating blocks of 30 days": lambda n, rng: np.arange(n) // 30 % 2 == 0,
    "first half of the year trains": lambda n, rng: np.arange(n) < n // 2,
}

_BASELINE_NEEDS = {
    "no filter": "nothing",
    "kernel ridge (diffusion)": "nothing",
    "dense Wiener filter": "clean history, noise",
}


@dataclass(frozen=True)
class _Measured:
    """A filter's expected error on every test day, and its estimate from one noisy draw."""

    daily_bias: np.ndarray
    variance: float
    power: np.ndarray
    estimate: np.ndarray
    seconds: float
    design: WeightDesign | None

    @classmethod
    def of(cls, level: DemoTask, H: np.ndarray, designed: WeightDesign | None, seconds: float) -> _Measured:
        estimate = H @ level.test_noisy if designed is None else filters.denoise(level.graph, designed, level.test_noisy).x
        return cls(
            daily_bias=np.sum((H @ level.test - level.test) ** 2, axis=0),
            variance=float(np.sum(H**2 * level.noise)),
            power=np.sum(level.test**2, axis=0),
            estimate=estimate,
            seconds=seconds,
            design=designed,
        )

    @property
    def daily(self) -> np.ndarray:
        return self.daily_bias + self.variance

    def score(self, level: DemoTask, name: str, reference: _Measured) -> Score:
        nmse, nmse_error = _jackknife(self.daily, self.power)
        gain, gain_error = _jackknife(self.daily, reference.daily)
        left = np.sum((self.estimate - level.test) ** 2) / np.sum((level.test_noisy - level.test) ** 2)
        return Score(
            method=name,
            noise=level.label,
            split=level.split,
            snr_db=level.snr_db,
            nmse=nmse,
            nmse_error=nmse_error,
            gain=gain,
            gain_error=gain_error,
            bias=float(self.daily_bias.sum() / self.power.sum()),
            variance=float(self.variance * self.power.size / self.power.sum()),
            removed=round(1 - float(left), 9) + 0.0,  # no minus zero
            seconds=self.seconds,
        )


def _jackknife(above: np.ndarray, below: np.ndarray) -> tuple[float, float]:
    """Ratio of sums over days, and its standard error by leaving out two successive weeks at a time."""
    total = float(above.sum() / below.sum())
    cuts = np.arange(0, above.size, 14)
    a, b = np.add.reduceat(above, cuts), np.add.reduceat(below, cuts)
    without = (a.sum() - a) / (b.sum() - b)
    k = without.size
    return total, float(np.sqrt((k - 1) / k * np.sum((without - without.mean()) ** 2)))


def _filter(level: DemoTask, designed: WeightDesign) -> np.ndarray:
    """The design's filter matrix, applied to the identity by the filters themselves."""
    return filters.denoise(level.graph, designed, np.eye(level.test.shape[0])).x


def _baseline_filters(level: DemoTask) -> dict[str, np.ndarray]:
    """Other methods on the same readings: none, kernel ridge, a dense Wiener filter."""
    identity = np.eye(level.test.shape[0])
    return {
        "no filter": identity,
        "kernel ridge (diffusion)": baselines.kernel_ridge(level.graph, identity, sigma2=5.0),
        "dense Wiener filter": baselines.lmmse(level.graph, identity, signals=level.train, noise=level.noise),
    }


def _rescaled(solved: dict[str, tuple[WeightDesign, float]], name: str, level: DemoTask, designer: Designer) -> WeightDesign:
    """Prony's criteria are homogeneous in the bound w0: solve once, rescale for every other SNR."""
    rule = design.node_invariant(level.graph, rule="chen-liu", signals=level.train, noise=level.noise)
    strength = rule.certificate.details["strength"]
    if name not in solved:
        solved[name] = (designer(level), strength)
    designed, strength_then = solved[name]
    return designed.rescaled(float(np.sqrt(strength / strength_then)))


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("numpy", "scipy", "cvxpy", "scs", "clarabel", "matplotlib")}
    return {"nareg": __version__, "Python": platform.python_version(), **packages}
