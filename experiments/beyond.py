"""Beyond the paper: every design and what a practitioner would use instead, on five networks, equal and unequal noise.

The times are cut into blocks that train and test in turn, and change their parts from one repeat to the next: a random half
would let the weather of one day train for the next hour. Noise is white; "unequal" gives every station a variance of its own,
spread over two decades, tells it to every method and lets it weigh the readings ("no fit": those that do not). Two tasks:
every station has a reading, or a random half of them has. Designs are made for the first task; the baselines that are dense
(kernel ridge, kriging, PCA, Wiener) are made for the second, and so are one weight, exact and edge.

Everything but total variation is a linear filter, whose expected error is known in closed form. Total variation is sampled on
some test signals, without weighing the readings, and set against the best single weight on the same signals.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments._figure import Figure, Point, Row, Verdict, chosen, column, mean_and_error
from experiments._methods import gaussian, matrix, random_nodes, ridge, risk, tuned_ridge, wiener
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

    def __post_init__(self) -> None:
        if self.blocks < 2 or self.most_times < 4 * self.blocks or self.repeats < 2:
            raise InputError("blocks and repeats must be at least 2, and most_times at least four times blocks.")


RULE, SINGLE, SUBSET = "one weight (NI rule)", "one weight, best", "one weight, best for the subset"
SINGLE_PLAIN, EXACT_PLAIN, TV = "one weight, best, no fit", "exact, no fit", "total variation"
EXACT_SUBSET, EDGE_SUBSET = "exact, for the subset", "edge, for the subset"
#: Method -> what it must know; with unequal noise the variances as well.
NEEDS = {
    RULE: "SNR",
    SINGLE: "clean history, noise",
    SUBSET: "clean history, noise",
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
    EXACT_SUBSET: "clean history, noise",
    "edge": "clean history, noise",
    "edge from readings": "noisy readings, noise",
    EDGE_SUBSET: "clean history, noise",
    "kernel ridge, published": "nothing",
    "kernel ridge, tuned": "clean history, noise",
    TV: "best penalty",
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


def signals_of(name: str, blocks: int, most_times: int) -> tuple[datasets.SensorNetwork, np.ndarray]:
    """The network of stations and times without a gap that has the most readings."""
    network = datasets.load(name)
    order = np.argsort(-network.observed.mean(axis=1), kind="stable")
    together = np.cumprod(network.observed[order], axis=0).sum(axis=1)  # times that the first k stations all have
    size = np.arange(1, order.size + 1) * np.minimum(together, most_times)
    size[(together < 4 * blocks) | (np.arange(order.size) < 2 * network.neighbors)] = 0
    if not size.any():
        raise InputError(f"{name} has too few times with a reading at every station for {blocks} blocks.")
    network = network.select(np.sort(order[: int(np.argmax(size)) + 1]))
    return network, network.signals[:, network.observed.all(axis=0)][:, :most_times]


def compute(s: Settings, point: Point) -> list[Row]:
    """All methods on the test blocks, with and without a reading at every station."""
    network, raw = signals_of(point["network"], s.blocks, s.most_times)
    graph, n, T = network.graph, network.n_nodes, raw.shape[1]
    rng = np.random.default_rng([s.seed, n, int(10 * point["snr_db"]) + 1000])
    snr = 10 ** (point["snr_db"] / 10)
    unequal = point["noise"] == "unequal"
    histories: dict[int, dict[str, Any]] = {}
    rows = []
    for repeat in range(s.repeats):
        part = repeat % 2
        first = np.arange(T) * s.blocks // T % 2 == part
        X = raw - raw[:, first].mean()
        train, test = X[:, first], X[:, ~first]
        shape = 10 ** rng.uniform(-s.decades / 2, s.decades / 2, n) if unequal else np.ones(n)
        noise = shape / shape.mean() * np.mean(X**2) / snr
        readings = train + np.sqrt(noise)[:, None] * rng.standard_normal(train.shape)
        if unequal or part not in histories:  # equal noise: they depend on nothing else that changes
            histories[part] = known_history(graph, train, noise, unequal)
        weights = {**histories[part], **known_readings(graph, readings, noise, unequal)}
        K = kriging(network.coordinates, readings[:, :: max(readings.shape[1] // s.kriging_signals, 1)], noise)
        R = train @ train.T / train.shape[1]
        few = test[:, :: max(test.shape[1] // s.tv_signals, 1)]
        for task in TASKS:
            seen = None if task == "denoising" else random_nodes(n, n // 2, [s.seed, n, repeat])
            H = {name: matrix(graph, w, seen) for name, w in weights.items()}
            H["kernel ridge, published"] = ridge(graph, 5.0, 1e-4, seen)
            H["kernel ridge, tuned"] = tuned_ridge(graph, R, noise, seen)
            H["kriging"] = gaussian(K, noise, seen)
            H["PCA"] = principal_components(train, noise, seen)
            H["Wiener filter"] = wiener(R, noise, seen)
            error = {name: nmse(h, test, noise) for name, h in H.items()}
            over = {name: e / error[SINGLE] for name, e in error.items()}
            if seen is None:  # it has no data term that leaves out stations
                error[TV] = total_variation(graph, few, noise, rng)
                over[TV] = error[TV] / nmse(H[SINGLE], few, noise)
            else:
                filters = (matrix(graph, weights[SINGLE].rescaled(factor), seen) for factor in np.geomspace(0.1, 10, 21))
                error[SUBSET] = nmse(min(filters, key=lambda h: risk(h, R, noise)), test, noise)
                data_weight = seen / noise if unequal else seen.astype(float)  # no data term where nothing is read
                for name, of in ((EXACT_SUBSET, design.exact), (EDGE_SUBSET, design.edge)):
                    solution = of(graph, signals=train, noise=noise, data_weight=data_weight)
                    error[name] = nmse(matrix(graph, solution, seen), test, noise)
                over |= {name: error[name] / error[SINGLE] for name in (SUBSET, EXACT_SUBSET, EDGE_SUBSET)}
            for name in (name for name in NEEDS if name in error):
                solved = weights.get(name)
                status = solved.status.name if isinstance(solved, WeightDesign) else ""
                scores = {"nmse": error[name], "over_single": over[name]}
                rows.append({"task": task, "nodes": n, "repeat": repeat, "method": name, "status": status, **scores})
    return rows


def nmse(H: np.ndarray, X: np.ndarray, noise: np.ndarray) -> float:
    """Expected squared error over all signals, over their power."""
    squared = float(np.sum((H @ X - X) ** 2)) + float(np.sum(H**2 * noise)) * X.shape[1]
    return squared / float(np.sum(X**2))


def known_history(graph: Graph, train: np.ndarray, noise: np.ndarray, unequal: bool) -> dict[str, Any]:
    """Weights from clean training signals, or from what is known of them."""
    given: dict[str, Any] = {"noise": noise, "data_weight": "noise" if unequal else None}
    known = {"signals": train, **given}
    bounds = {"signal_low": train.min(axis=1), "signal_high": train.max(axis=1)}
    rough = float(np.max(np.sum(train * (graph.laplacian() @ train), axis=0)))
    result = {
        RULE: design.node_invariant(graph, rule="chen-liu", **known),
        SINGLE: design.node_invariant(graph, rule="oracle", **known),
        "Prony": design.prony(graph, **known, scale="bound"),
        "relaxation (SDR)": design.relaxation(graph, **known),
        "min-max relaxation, corners": design.minmax(graph, criterion="mse", **bounds, **given),
        "min-max, smooth box": design.minmax(graph, criterion="mse", uncertainty=design.SmoothBox(rough), **bounds, **given),
        "exact": design.exact(graph, **known),
        "edge": design.edge(graph, **known),
    }
    if unequal:
        result[SINGLE_PLAIN] = design.node_invariant(graph, rule="oracle", signals=train, noise=noise)
        result[EXACT_PLAIN] = design.exact(graph, signals=train, noise=noise)
    return result


def known_readings(graph: Graph, readings: np.ndarray, noise: np.ndarray, unequal: bool) -> dict[str, Any]:
    """Weights from noisy readings. GCV needs no variances, but takes them where it is to weigh the readings."""
    given: dict[str, Any] = {"measurements": readings, "noise": noise, "data_weight": "noise" if unequal else None}
    gcv = given if unequal else {"measurements": readings}
    return {
        "one weight, GCV": design.node_invariant(graph, rule="gcv", **gcv),
        "one weight, SURE": design.node_invariant(graph, rule="sure", **given),
        "blind": design.blind(graph, **given),
        "edge from readings": design.edge(graph, **given),
    }


def kriging(coordinates: np.ndarray, readings: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Covariance of a Gaussian process with a Matérn kernel on the sphere's chords, fitted by likelihood (scikit-learn)."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
    except ModuleNotFoundError as error:
        raise NaregError("kriging needs scikit-learn: pip install 'nareg[experiments]'.") from error
    latitude, longitude = np.radians(coordinates.T)
    place = 6371.0 * np.column_stack(
        [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)]
    )
    power = float(np.mean(readings**2))
    # an unknown mean, a smooth field, and what each station has of its own
    smooth = ConstantKernel(1.0, (1e-4, 1e4)) * Matern(300.0, (1.0, 1e5), nu=1.5)
    kernel = ConstantKernel(1.0, (1e-4, 1e4)) + smooth + WhiteKernel(0.01, (1e-6, 1e2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a part that the data do not ask for ends at its limit
        process = GaussianProcessRegressor(kernel, alpha=noise / power).fit(place, readings / np.sqrt(power))
    covariance: np.ndarray = power * process.kernel_(place)
    return covariance


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
        if risk(H, R, noise) < least:
            best, least = H, risk(H, R, noise)
    return best


def total_variation(graph: Graph, X: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> float:
    """Sampled NMSE with the best of a grid of penalties: it is told which one suits the test signals."""
    Y = X + np.sqrt(noise)[:, None] * rng.standard_normal(X.shape)
    level = float(np.sqrt(noise.mean()))
    nmse = [
        np.sum((baselines.total_variation(graph, Y, weight=weight * level, tol=1e-4) - X) ** 2) / np.sum(X**2)
        for weight in (0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 16.0)
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
                color = "white" if abs(np.log2(value)) > 1 else "black"
                axis.text(j, i, text, ha="center", va="center", fontsize=7, color=color)
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
