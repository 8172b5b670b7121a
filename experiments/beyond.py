"""Beyond the paper: every design and what a practitioner would use instead, on five networks, equal and unequal noise.

The times are cut into blocks that train and test in turn: a random half would let the weather of one day train for the next
hour. Noise is white; "unequal" gives every station a variance of its own, spread over two decades, and lets the designs
weigh the readings by it ("no fit": those that do not). Two tasks: every station has a reading, or a random half of them
has. Designs are made for the first task; the baselines that have a design of their own for the second (kriging, PCA, Wiener)
use it. Everything but total variation is a linear filter, whose expected error is known in closed form; what is drawn (the
variances, the noisy readings that designs learn from, the observed half) is drawn several times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments._figure import Figure, Point, Row, Verdict, chosen, column, mean_and_error
from experiments._methods import matrix, published_weight, random_nodes, ridge, wiener
from nareg import baselines, datasets, design
from nareg.errors import InputError, NaregError
from nareg.graph import Graph
from nareg.results import WeightDesign


@dataclass(frozen=True)
class Settings:
    """Networks, SNRs, the number of blocks, and how often everything random is drawn."""

    networks: tuple[str, ...] = ("molene", "us-weather", "au-weather", "sea-surface-temperature", "pm25-california")
    snr_db: tuple[float, ...] = (-5.0, 0.0, 10.0)
    blocks: int = 20
    most_times: int = 800
    decades: float = 2.0
    repeats: int = 4
    tv_signals: int = 12
    kriging_signals: int = 20
    seed: int = 10


SINGLE_PLAIN, EXACT_PLAIN = "one weight, best, no fit", "exact, no fit"
SINGLE, RULE, TV = "one weight, best", "one weight (NI rule)", "total variation"
#: Method -> what it must know.
NEEDS = {
    RULE: "SNR",
    SINGLE: "clean history, noise",
    SINGLE_PLAIN: "clean history, noise",
    "one weight, GCV": "noisy readings",
    "one weight, SURE": "noisy readings, noise",
    "blind": "noisy readings, noise",
    "Prony": "clean history, SNR",
    "relaxation (SDR)": "clean history, noise",
    "min-max relaxation, corners": "bounds, noise",
    "min-max, smooth box": "bounds, smoothness, noise",
    "exact": "clean history, noise",
    EXACT_PLAIN: "clean history, noise",
    "edge": "clean history, noise",
    "kernel ridge": "nothing",
    TV: "noisy readings, best penalty",
    "kriging": "noisy readings, coordinates, noise",
    "PCA": "clean history, noise",
    "Wiener filter": "clean history, noise",
}
TASKS = ("denoising", "interpolation")


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
    """All methods on the test blocks, with and without a reading at every station."""
    network, X = signals_of(point["network"], s)
    graph, n = network.graph, network.n_nodes
    rng = np.random.default_rng([s.seed, n, int(10 * point["snr_db"]) + 1000])
    first = np.arange(X.shape[1]) * s.blocks // X.shape[1] % 2 == 0
    train, test = X[:, first], X[:, ~first]
    snr = 10 ** (point["snr_db"] / 10)
    unequal = point["noise"] == "unequal"
    from_history: dict[str, Any] = {}
    rows = []
    for repeat in range(s.repeats):
        shape = 10 ** rng.uniform(-s.decades / 2, s.decades / 2, n) if unequal else np.ones(n)
        noise = shape / shape.mean() * np.mean(train**2) / snr
        readings = train + np.sqrt(noise)[:, None] * rng.standard_normal(train.shape)
        observed = random_nodes(n, n // 2, [s.seed, n, repeat])
        if unequal or not from_history:  # equal noise: they depend on nothing that is drawn
            from_history = known_history(graph, train, noise, snr, unequal)
        weights = {**from_history, **known_readings(graph, readings, noise, unequal)}
        place = kriging(network.coordinates, readings[:, :: max(readings.shape[1] // s.kriging_signals, 1)], noise)
        R = train @ train.T / train.shape[1]
        few = test[:, :: max(test.shape[1] // s.tv_signals, 1)]
        for task, seen in (("denoising", None), ("interpolation", observed)):
            H = {name: matrix(graph, w, seen) for name, w in weights.items()}
            H["kernel ridge"] = ridge(graph, 5.0, 1e-4, seen)
            H["kriging"] = gaussian(place, noise, seen)
            H["PCA"] = principal_components(train, noise, seen)
            H["Wiener filter"] = wiener(R, noise, seen)
            power = float(np.sum(test**2))
            error = {
                name: (float(np.sum((h @ test - test) ** 2)) + float(np.sum(h**2 * noise)) * test.shape[1]) / power
                for name, h in H.items()
            }
            if seen is None:  # it has no data term that leaves out stations
                error[TV] = total_variation(graph, few, noise, rng)
            for name in (name for name in NEEDS if name in error):
                solved = weights.get(name)
                told = {"nmse": error[name], "over_single": error[name] / error[SINGLE]}
                status = solved.status.name if isinstance(solved, WeightDesign) else ""
                rows.append({"task": task, "nodes": n, "repeat": repeat, "method": name, "status": status, **told})
    return rows


def known_history(graph: Graph, train: np.ndarray, noise: np.ndarray, snr: float, unequal: bool) -> dict[str, Any]:
    """Weights from clean training signals, or from what is known of them."""
    told: dict[str, Any] = {"noise": noise, "fit": "noise" if unequal else None}
    known = {"signals": train, **told}
    bounds = {"low": train.min(axis=1), "high": train.max(axis=1)}
    rough = float(np.max(np.sum(train * (graph.laplacian() @ train), axis=0)))
    found = {
        RULE: np.sqrt(published_weight(graph, snr)),
        SINGLE: design.node_invariant(graph, rule="oracle", **known),
        "Prony": design.prony(graph, **known, scale="bound"),
        "relaxation (SDR)": design.relaxation(graph, **known),
        "min-max relaxation, corners": design.minmax(graph, criterion="mse", **bounds, **told),
        "min-max, smooth box": design.minmax(
            graph, criterion="mse", uncertainty="smooth-box", smoothness=rough, **bounds, **told
        ),
        "exact": design.exact(graph, **known),
        "edge": design.edge(graph, **known),
    }
    if unequal:
        found[SINGLE_PLAIN] = design.node_invariant(graph, rule="oracle", signals=train, noise=noise)
        found[EXACT_PLAIN] = design.exact(graph, signals=train, noise=noise)
    return found


def known_readings(graph: Graph, readings: np.ndarray, noise: np.ndarray, unequal: bool) -> dict[str, Any]:
    """Weights from noisy readings. GCV needs no variances, but takes them where it is to weigh the readings."""
    told: dict[str, Any] = {"measurements": readings, "noise": noise, "fit": "noise" if unequal else None}
    gcv = told if unequal else {"measurements": readings}
    return {
        "one weight, GCV": design.node_invariant(graph, rule="gcv", **gcv),
        "one weight, SURE": design.node_invariant(graph, rule="sure", **told),
        "blind": design.blind(graph, **told),
    }


def kriging(coordinates: np.ndarray, readings: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Covariance of a Gaussian process with a Matérn kernel on the sphere's chords, fitted by likelihood (scikit-learn)."""
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
    found: np.ndarray = power * process.kernel_(place)
    return found


def gaussian(K: np.ndarray, noise: np.ndarray, observed: np.ndarray | None) -> np.ndarray:
    """H of the conditional mean of a signal with covariance K, given noisy readings of some stations."""
    seen = np.ones(noise.size, dtype=bool) if observed is None else observed
    H = np.zeros_like(K)
    H[:, seen] = np.linalg.solve(K[np.ix_(seen, seen)] + np.diag(noise[seen]), K[seen]).T
    return H


def principal_components(train: np.ndarray, noise: np.ndarray, observed: np.ndarray | None) -> np.ndarray:
    """Least-squares fit of the leading principal components, as many as have the smallest error on the training signals."""
    seen = np.ones(noise.size, dtype=bool) if observed is None else observed
    U = np.linalg.svd(train, full_matrices=False)[0]
    R = train @ train.T / train.shape[1]
    best, least = np.zeros_like(R), float(np.trace(R))
    for rank in np.unique(np.geomspace(1, min(U.shape[1], int(seen.sum())), 40).astype(int)):
        root = 1 / np.sqrt(noise[seen])
        H = np.zeros_like(R)
        H[:, seen] = U[:, :rank] @ np.linalg.pinv(root[:, None] * U[seen, :rank]) * root
        rest = H - np.eye(noise.size)
        risk = float(np.sum((rest @ R) * rest) + np.sum(H**2 * noise))
        if risk < least:
            best, least = H, risk
    return best


def total_variation(graph: Graph, X: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> float:
    """Sampled NMSE with the best of a grid of penalties: it is told which one suits the test signals."""
    Y = X + np.sqrt(noise)[:, None] * rng.standard_normal(X.shape)
    level = float(np.sqrt(noise.mean()))
    nmse = [
        np.sum((baselines.total_variation(graph, Y, weight=weight * level, tol=1e-4) - X) ** 2) / np.sum(X**2)
        for weight in (0.1, 0.3, 1.0, 3.0)
    ]
    return float(min(nmse))


def over_single(rows: list[Row], **keys: Any) -> tuple[float, float]:
    """NMSE over that of the best single weight: mean over what was drawn, and its standard error (0 if nothing varies)."""
    values = column(rows, "over_single", **keys)
    return mean_and_error(values) if values else (float("nan"), float("nan"))


def draw(s: Settings, rows: list[Row]) -> Any:
    """Methods against networks and SNRs, a panel a task and kind of noise; small: two standard errors where not zero."""
    import matplotlib.pyplot as plt

    columns = [(network, snr_db) for network in s.networks for snr_db in s.snr_db]
    figure, axes = plt.subplots(
        2, 2, figsize=(6 + 1.3 * len(columns), 15), layout="constrained", sharey=True, sharex=True, squeeze=False
    )
    for axis, (task, noise) in zip(axes.flat, ((t, k) for t in TASKS for k in ("equal", "unequal")), strict=True):
        mine = chosen(rows, task=task, noise=noise)
        cells = [[over_single(mine, network=a, snr_db=b, method=m) for a, b in columns] for m in NEEDS]
        table = np.array(cells)
        image = axis.imshow(np.log2(table[..., 0]), cmap="RdBu_r", vmin=-1.5, vmax=1.5, aspect="auto")
        for (i, j), value in np.ndenumerate(table[..., 0]):
            if np.isfinite(value):
                error = table[i, j, 1]
                text = f"{value:.2f}" + (f"\n±{2 * error:.2f}" if error >= 0.0025 else "")
                colour = "white" if abs(np.log2(value)) > 1 else "black"
                axis.text(j, i, text, ha="center", va="center", fontsize=7, color=colour)
        axis.set_yticks(range(len(NEEDS)), [f"{m} [{needs}]" for m, needs in NEEDS.items()], fontsize=8)
        axis.set_xticks(range(len(columns)), [f"{a}, {b:g} dB" for a, b in columns], rotation=60, ha="right", fontsize=8)
        axis.set_title(f"{task}, {noise} noise")
    bar = figure.colorbar(image, ax=axes.ravel().tolist(), label="NMSE over that of the best single weight", shrink=0.4)
    bar.set_ticks([-1, 0, 1], labels=["½", "1", "2"])
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    """No claim of the paper."""
    return []


FIGURE = Figure(
    "beyond", "Every design and its alternatives on five networks", Settings(),
    Settings(networks=("molene", "pm25-california"), snr_db=(0.0,), most_times=300, repeats=2, tv_signals=4),
    points, compute, draw, judge,
)  # fmt: skip
