"""White noise on the features of citation graphs, and noise of the same power at every node that is correlated along edges.

Dependent noise is white noise behind the filter ``(I + dependence L~)^-1``, its rows stretched to the length of white ones: a
low-pass filter passes it on. It is smooth over the graph itself and so tells communities apart, hence the control of noise
without features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _nodes as n
from experiments import _noise as noise
from experiments._figure import Figure, Point, Row, Verdict
from experiments.gnn_noise import CITATION, level_of
from nareg.gnn import ConjugateGradients, propagate

WHITE, DEPENDENT = "white", "dependent"
FEATURES, ALONE = "features", "pure noise"
MODELS = (n.MLP, n.GCN, n.S2GC, n.APPNP, n.GLP, n.AIRGNN, n.AIRGNN_SMOOTH, n.NGC, n.RNGC)


@dataclass(frozen=True)
class Settings:
    """The noise standard deviation is ``level``, a tenth of it on Pubmed. Rows have length one."""

    datasets: tuple[str, ...] = CITATION
    level: float = 0.3
    kinds: tuple[str, ...] = (WHITE, DEPENDENT)
    dependence: float = 8.0
    models: tuple[str, ...] = MODELS
    runs: int = 5
    epochs: int = 200
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    n.check_models(s.models, (*n.ALL, n.AIRGNN, n.AIRGNN_SMOOTH))
    levels = {d: [level_of(d, s.level)] for d in s.datasets}
    return n.runs_of(s.datasets, levels, s.runs, kind=s.kinds, what=(FEATURES, ALONE))


def drawn(shape: tuple[int, ...], kind: str, graph: n.Adjacency, dependence: float, rng: np.random.Generator) -> np.ndarray:
    """Noise of power one at every node: of white noise in the mean, of dependent noise exactly."""
    white = rng.standard_normal(shape, dtype=np.float32)
    if kind == WHITE:
        return white
    smooth = propagate(graph, white, lam=dependence, solver=ConjugateGradients(tol=1e-4))
    return np.sqrt(np.float32(shape[1])) * noise.normalize_rows(smooth)


def compute(s: Settings, point: Point) -> list[Row]:
    dataset, level, kind, alone = point["dataset"], point["level"], point["kind"], point["what"] == ALONE
    _, features, graph = n.loaded(dataset)
    seed = [s.seed, point["run"], round(1e6 * level), kind == DEPENDENT, alone]
    added = level * drawn(features.shape, kind, graph, s.dependence, np.random.default_rng(seed))
    x = noise.normalize_rows(added if alone else features + added)
    return n.trained(dataset, x, s.models, seed, epochs=s.epochs, device=s.device)


def draw(s: Settings, rows: list[Row]) -> Any:
    """Accuracy of every model, a panel a data set and kind of noise; gray: noise without features."""
    import matplotlib.pyplot as plt

    shape = len(s.datasets), len(s.kinds)
    figure, axes = plt.subplots(
        *shape, figsize=(4.6 * shape[1], 4 * shape[0]), layout="constrained", squeeze=False, sharex="row", sharey=True
    )
    for line, dataset in zip(axes, s.datasets, strict=True):
        for axis, kind in zip(line, s.kinds, strict=True):
            for what in (ALONE, FEATURES):
                for place, model in enumerate(s.models):
                    cell = n.cell(rows, dataset=dataset, kind=kind, what=what, model=model)
                    color = n.COLORS[model] if what == FEATURES else "0.75"
                    axis.errorbar(cell.mean, place, xerr=cell.half_width, fmt="o", color=color, capsize=3)
            title = f"{dataset}, {kind} noise {level_of(dataset, s.level):g}"
            axis.set(title=title, xlabel="test accuracy [%], 95 % intervals; gray: noise alone")
    axes[0, 0].set_yticks(range(len(s.models)), s.models)
    axes[0, 0].invert_yaxis()
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    """No claim of a paper."""
    return []


FIGURE = Figure(
    "gnn-dependent", "White noise, and noise that is correlated along edges", Settings(),
    Settings(datasets=("cora",), models=(n.MLP, n.S2GC, n.AIRGNN, n.NGC), runs=2, epochs=60),
    points, compute, draw, judge, **n.PARTS | {"helpers": (*n.HELPERS, "gnn_noise")},
)  # fmt: skip
