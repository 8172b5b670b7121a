"""Node weights for classification: one for all, one per node; designed from noisy features alone, or learned with labels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _nodes as n
from experiments import _regressors as regressors
from experiments._figure import Figure, Point, Row, Verdict, chosen, column
from experiments.gnn_noise import CITATION, level_of
from nareg import design
from nareg._solvers._torch._device import resolve
from nareg.errors import InputError
from nareg.gnn import NodeAdaptiveConv
from nareg.results import WeightDesign

TRUNCATED, PLAIN, VALIDATED = "NGC, lam = 32, S = 16", "one weight, lam = 32", "one weight, by validation"
SURE, DESIGNED = "one weight, by SURE", "one a node, by SURE"
ONE, DEGREE, NODE = "one weight, learned", "by degree, learned", "one a node, learned"
WAYS = (TRUNCATED, PLAIN, VALIDATED, SURE, DESIGNED, ONE, DEGREE, NODE)
#: Rows of equal length before the filter, as everywhere else; or features centered, filtered, and then rows of equal length.
FIRST, LAST = "rows first", "centered, rows last"

#: Designed ``w_i^2`` are cut here: of noise alone SURE wants to keep nothing, which is an infinite weight.
MOST = 1000.0


@dataclass(frozen=True)
class Settings:
    """Designs look at ``columns`` of the noisy features, and know the variance of the noise; ``lams`` are validated."""

    datasets: tuple[str, ...] = CITATION
    levels: tuple[float, ...] = (0.1, 0.3)
    columns: int = 200
    lams: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
    runs: int = 5
    epochs: int = 200
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    levels = {d: [level_of(d, level) for level in s.levels] for d in s.datasets}
    last = {d: levels[d][-1:] for d in s.datasets}
    return n.runs_of(s.datasets, levels, s.runs, kind=["noise"]) + n.runs_of(s.datasets, last, s.runs, kind=["pure noise"])


def compute(s: Settings, point: Point) -> list[Row]:
    dataset, level = point["dataset"], point["level"]
    _, features, adjacency = n.loaded(dataset)
    seed = [s.seed, point["run"], round(1e6 * level), point["kind"] == "pure noise"]
    raw = n.noisy(features, level, "none", seed, control=point["kind"] == "pure noise")
    centered = raw - raw.mean(axis=0)
    rows_of_length_one = n.noise.normalize_rows(raw)

    def fitted(way: str, x: np.ndarray, network: Any = None) -> Row:
        """A linear classifier, behind filtered features or with a filter in it, trained as NGC is."""
        recipe = n.Candidate(network or n.networks.FilteredNetwork, 0.2, 1e-5)
        (row,) = n.trained(dataset, x, [way], seed, epochs=s.epochs, device=s.device, chosen_recipes={way: recipe})
        return row

    def both(way: str, w: np.ndarray, **options: Any) -> list[Row]:
        first = filtered(w, rows_of_length_one, adjacency, s.device)
        last = n.noise.normalize_rows(filtered(w, centered, adjacency, s.device))
        options = {"lam": float(np.median(w**2)), **options}
        return [{**fitted(way, x), **options, "pipeline": pipeline} for pipeline, x in ((FIRST, first), (LAST, last))]

    def best(pipeline: str, rows: list[Row]) -> Row:
        return {**max(chosen(rows, pipeline=pipeline), key=lambda row: row["val"]), "model": VALIDATED}

    series = {
        FIRST: regressors.propagated(adjacency, rows_of_length_one, s.device),
        LAST: n.noise.normalize_rows(regressors.propagated(adjacency, centered, s.device)),
    }
    rows = [{**fitted(TRUNCATED, x), "pipeline": pipeline} for pipeline, x in series.items()]
    ones = np.ones(adjacency.n_nodes)
    rows += both(PLAIN, np.sqrt(32.0) * ones)
    tried = [row for lam in s.lams for row in both(f"lam = {lam:g}", np.sqrt(lam) * ones)]
    rows += [best(FIRST, tried), best(LAST, tried)]
    for way, make in designs(s, centered, level, adjacency, seed).items():
        start = time.perf_counter()
        try:
            w = np.minimum(make().weights, np.sqrt(MOST))
        except InputError:
            if point["kind"] == "noise":
                raise
            w = np.sqrt(MOST) * ones  # the columns have less power than the noise: there is nothing to keep
        rows += both(way, w, design_seconds=time.perf_counter() - start)
    groups = {ONE: 0 * ones, DEGREE: n.degree_groups(adjacency.degrees), NODE: np.arange(ones.size)}
    for way, tied in groups.items():
        rows.append({**fitted(way, rows_of_length_one, lambda f, c, g=tied: n.Adaptive(f, c, g, 32.0)), "pipeline": FIRST})
    return rows


def designs(
    s: Settings, centered: np.ndarray, level: float, adjacency: n.Adjacency, seed: list[int]
) -> dict[str, Callable[[], WeightDesign]]:
    """Weights that minimize Stein's unbiased estimate of the error of the denoised features; no label is looked at."""
    rng = np.random.default_rng([*seed, 1])
    columns = rng.choice(centered.shape[1], min(s.columns, centered.shape[1]), replace=False)
    L, known = adjacency.augmented_laplacian, centered[:, columns].astype(float)
    return {
        SURE: lambda: design.node_invariant(L, rule="sure", measurements=known, noise=level**2),
        DESIGNED: lambda: design.blind(L, measurements=known, noise=level**2),
    }


def filtered(w: np.ndarray, x: np.ndarray, adjacency: n.Adjacency, device: str | None = None) -> np.ndarray:
    """``(I + diag(w) L diag(w))^-1 x`` on the augmented Laplacian."""
    place = resolve(device or "cpu")
    layer = NodeAdaptiveConv(1, 1, weights=w, laplacian="augmented", tol=1e-3).to(place)
    out: np.ndarray = layer.denoise(adjacency, n.torch.as_tensor(x, device=place)).cpu().numpy()
    return out


def draw(s: Settings, rows: list[Row]) -> Any:
    """Accuracy of every way to choose weights, a column a data set, a row a noise."""
    import matplotlib.pyplot as plt

    shape = len(s.levels), len(s.datasets)
    figure, axes = plt.subplots(*shape, figsize=(4.8 * shape[1], 3.2 * shape[0]), layout="constrained", squeeze=False)
    for line, nominal in zip(axes, s.levels, strict=True):
        for axis, dataset in zip(line, s.datasets, strict=True):
            level = level_of(dataset, nominal)
            for k, pipeline in enumerate((FIRST, LAST)):
                cells = [n.cell(rows, dataset=dataset, level=level, kind="noise", pipeline=pipeline, model=way) for way in WAYS]
                shown = [(place + 0.2 * k, c) for place, c in enumerate(cells) if c is not None]
                axis.errorbar([c.mean for _, c in shown], [at for at, _ in shown], xerr=[c.half_width for _, c in shown],
                              fmt="o", color=f"C{k}", markersize=4, capsize=2, label=pipeline)  # fmt: skip
            result = column(rows, "lam", dataset=dataset, level=level, kind="noise", pipeline=FIRST, model=SURE)
            axis.set_title(f"{dataset}, noise {level:g}; SURE: lam = {np.mean(result):.3g}", fontsize=10)
            axis.set_yticks(range(len(WAYS)), WAYS, fontsize=8)
            axis.invert_yaxis()
    for axis in axes[-1]:
        axis.set_xlabel("test accuracy [%], 95 % intervals")
    axes[0, -1].legend(fontsize=8)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    """No claim of a paper."""
    return []


FIGURE = Figure(
    "gnn-adaptive", "Node weights for classification", Settings(),
    Settings(datasets=("cora",), levels=(0.3,), columns=40, lams=(8.0, 32.0), runs=2, epochs=60),
    points, compute, draw, judge,
    **n.PARTS | {"helpers": (*n.HELPERS, "_regressors", "gnn_noise"), "apart_from": ("baselines",)},
)  # fmt: skip
