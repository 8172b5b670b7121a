"""Beyond the paper: every design and what a practitioner would use instead, on five networks, equal and unequal noise.

The times are cut into blocks that train and test in turn: a random half would let the weather of one day train for the next
hour. Noise is white; "unequal" gives every station a variance of its own, spread over two decades, and lets the designs
weigh the readings by it. Everything but total variation is a linear filter, whose expected error is known in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments._figure import Figure, Point, Row, Verdict, chosen
from experiments._methods import matrix, published_weight, ridge, wiener
from nareg import baselines, datasets, design
from nareg.errors import InputError, NaregError


@dataclass(frozen=True)
class Settings:
    """Networks, SNRs and the number of blocks."""

    networks: tuple[str, ...] = ("molene", "us-weather", "au-weather", "sea-surface-temperature", "pm25-california")
    snr_db: tuple[float, ...] = (-5.0, 0.0, 10.0)
    blocks: int = 20
    most_times: int = 800
    decades: float = 2.0
    tv_signals: int = 12
    kriging_signals: int = 20
    seed: int = 10


SINGLE = "one weight, best"
#: Method -> what it must know.
NEEDS = {
    "one weight (NI rule)": "SNR",
    SINGLE: "clean history, noise",
    "one weight, GCV": "noisy readings",
    "one weight, SURE": "noisy readings, noise",
    "blind": "noisy readings, noise",
    "Prony": "clean history, SNR",
    "relaxation (SDR)": "clean history, noise",
    "min-max relaxation, corners": "bounds, noise",
    "min-max, smooth box": "bounds, smoothness, noise",
    "exact": "clean history, noise",
    "edge": "clean history, noise",
    "kernel ridge": "nothing",
    "total variation": "noisy readings, its penalty",
    "kriging": "noisy readings, coordinates, noise",
    "PCA": "clean history, noise",
    "Wiener filter": "clean history, noise",
}


def points(s: Settings) -> list[Point]:
    """A point a network, kind of noise and SNR."""
    return [
        {"network": network, "noise": noise, "snr_db": snr_db}
        for network in s.networks
        for noise in ("equal", "unequal")
        for snr_db in s.snr_db
    ]


def signals_of(name: str, s: Settings) -> tuple[Any, np.ndarray]:
    """The network of stations and times without a gap that has the most readings; their mean removed."""
    network = datasets.load(name)
    order = np.argsort(-network.observed.mean(axis=1), kind="stable")
    together = np.cumprod(network.observed[order], axis=0).sum(axis=1)  # times that the first k stations all have
    size = np.arange(1, order.size + 1) * np.minimum(together, s.most_times)
    size[(together < 4 * s.blocks) | (np.arange(order.size) < 2 * network.neighbours)] = 0
    if not size.any():
        raise InputError(f"{name} has too few times with a reading at every station for {s.blocks} blocks.")
    network = network.select(np.sort(order[: int(np.argmax(size)) + 1]))
    X = network.signals[:, network.observed.all(axis=0)][:, : s.most_times]
    return network, X - X.mean()


def compute(s: Settings, point: Point) -> list[Row]:
    """All methods on the test blocks."""
    network, X = signals_of(point["network"], s)
    graph, n = network.graph, network.n_nodes
    rng = np.random.default_rng([s.seed, n, int(10 * point["snr_db"]) + 1000])
    first = np.arange(X.shape[1]) * s.blocks // X.shape[1] % 2 == 0
    train, test = X[:, first], X[:, ~first]
    snr = 10 ** (point["snr_db"] / 10)
    unequal = point["noise"] == "unequal"
    shape = 10 ** rng.uniform(-s.decades / 2, s.decades / 2, n) if unequal else np.ones(n)
    noise = shape / shape.mean() * np.mean(train**2) / snr
    readings = train + np.sqrt(noise)[:, None] * rng.standard_normal(train.shape)
    told: dict[str, Any] = {"noise": noise, "fit": "noise" if unequal else None}
    known = {"signals": train, **told}
    bounds = {"low": train.min(axis=1), "high": train.max(axis=1)}
    rough = float(np.max(np.sum(train * (graph.laplacian() @ train), axis=0)))
    ways = {
        "one weight (NI rule)": lambda: np.sqrt(published_weight(graph, snr)),
        SINGLE: lambda: design.node_invariant(graph, rule="oracle", **known),
        "one weight, GCV": lambda: (
            design.node_invariant(graph, rule="gcv", measurements=readings, fit=told["fit"], noise=noise)
            if unequal
            else design.node_invariant(graph, rule="gcv", measurements=readings)
        ),
        "one weight, SURE": lambda: design.node_invariant(graph, rule="sure", measurements=readings, **told),
        "blind": lambda: design.blind(graph, measurements=readings, **told),
        "Prony": lambda: design.prony(graph, **known, scale="bound"),
        "relaxation (SDR)": lambda: design.relaxation(graph, **known),
        "min-max relaxation, corners": lambda: design.minmax(graph, criterion="mse", **bounds, **told),
        "min-max, smooth box": lambda: design.minmax(
            graph, criterion="mse", uncertainty="smooth-box", smoothness=rough, **bounds, **told
        ),
        "exact": lambda: design.exact(graph, **known),
        "edge": lambda: design.edge(graph, **known),
    }
    H = {name: matrix(graph, find()) for name, find in ways.items()}
    H["kernel ridge"] = ridge(graph, 5.0, 1e-4)
    H["kriging"] = kriging(network.coordinates, readings[:, :: max(readings.shape[1] // s.kriging_signals, 1)], noise)
    H["PCA"] = principal_components(train, noise)
    H["Wiener filter"] = wiener(graph, train @ train.T / train.shape[1], noise)
    power = float(np.sum(test**2))
    error = {
        name: (float(np.sum((h @ test - test) ** 2)) + float(np.sum(h**2 * noise)) * test.shape[1]) / power
        for name, h in H.items()
    }
    error["total variation"] = total_variation(graph, test[:, :: max(test.shape[1] // s.tv_signals, 1)], noise, rng)
    return [
        {"nodes": n, "method": name, "needs": NEEDS[name], "nmse": error[name], "over_single": error[name] / error[SINGLE]}
        for name in NEEDS
    ]


def kriging(coordinates: np.ndarray, readings: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """H of a Gaussian process with a Matérn kernel on the sphere's chords, its parameters by likelihood (scikit-learn)."""
    try:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern
    except ModuleNotFoundError as error:
        raise NaregError("kriging needs scikit-learn: pip install 'nareg[experiments]'.") from error
    latitude, longitude = np.radians(coordinates.T)
    place = 6371.0 * np.column_stack(
        [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)]
    )
    power = float(np.mean(readings**2))
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * Matern(300.0, (10.0, 2e4), nu=1.5)
    process = GaussianProcessRegressor(kernel, alpha=noise / power).fit(place, readings / np.sqrt(power))
    K = process.kernel_(place)
    found: np.ndarray = np.linalg.solve(K + np.diag(noise / power), K).T
    return found


def principal_components(train: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Projection on the principal components of the training signals, as many as have the smallest error on them."""
    U = np.linalg.svd(train, full_matrices=False)[0]
    kept = np.cumsum(np.sum((U.T @ train) ** 2, axis=1)) / train.shape[1]
    spread = np.cumsum(np.sum(U**2 * noise[:, None], axis=0))
    rank = int(np.argmin(spread - kept)) + 1
    found: np.ndarray = U[:, :rank] @ U[:, :rank].T
    return found


def total_variation(graph: Any, X: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> float:
    """Sampled NMSE with the best of a grid of penalties: it is told which one suits the test signals."""
    Y = X + np.sqrt(noise)[:, None] * rng.standard_normal(X.shape)
    level = float(np.sqrt(noise.mean()))
    nmse = [
        np.sum((baselines.total_variation(graph, Y, weight=weight * level, tol=1e-4) - X) ** 2) / np.sum(X**2)
        for weight in (0.1, 0.3, 1.0, 3.0)
    ]
    return float(min(nmse))


def draw(s: Settings, rows: list[Row]) -> Any:
    """Methods against networks and SNRs: NMSE over that of the best single weight, a panel a kind of noise."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(15, 7), layout="constrained", sharey=True)
    for axis, noise in zip(axes, ("equal", "unequal"), strict=True):
        settings = [(network, snr_db) for network in s.networks for snr_db in s.snr_db]
        table = np.array(
            [[chosen(rows, network=a, snr_db=b, noise=noise, method=m)[0]["over_single"] for a, b in settings] for m in NEEDS]
        )
        image = axis.imshow(np.log2(table), cmap="RdBu_r", vmin=-1.5, vmax=1.5, aspect="auto")
        for (i, j), value in np.ndenumerate(table):
            colour = "white" if abs(np.log2(value)) > 1 else "black"
            axis.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
        axis.set_yticks(range(len(NEEDS)), [f"{m} [{needs}]" for m, needs in NEEDS.items()], fontsize=8)
        axis.set_xticks(range(len(settings)), [f"{a}, {b:g} dB" for a, b in settings], rotation=60, ha="right", fontsize=8)
        axis.set_title(f"{noise} noise: NMSE over the best single weight")
    figure.colorbar(image, ax=axes.tolist(), label="log2", shrink=0.6)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    """No claim of the paper."""
    return []


FIGURE = Figure(
    "beyond", "Every design and its alternatives on five networks", Settings(),
    Settings(networks=("molene", "pm25-california"), snr_db=(0.0,), most_times=300, tv_signals=4), points, compute, draw, judge,
)  # fmt: skip
