"""Features flipped at random: zero becomes one, anything else becomes zero, with probability p."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from experiments import _nodes as n
from experiments._figure import Figure, Point, Row, Verdict, chosen, instead
from experiments._noise import RowNormalization
from experiments.gnn_noise import CITATION

#: (data set, p) -> S, lambda, eps of the paper's table; all others S = 16, lambda = 32, eps = 1e-5 (Pubmed: 0.1).
PUBLISHED = {
    ("cora", 0.1): n.Filter(32, 64.0, 1e-5), ("cora", 0.2): n.Filter(eps=1e-5), ("cora", 0.4): n.Filter(eps=0.1),
}  # fmt: skip


def distance(x: np.ndarray, probability: float, rng: np.random.Generator) -> np.ndarray:
    """``|x - m|``, m one with this probability: what is not binary becomes ``1 - x``."""
    flipped = rng.random(x.shape, dtype=np.float32) < probability
    return np.where(flipped, np.abs(1 - x), x)


class Reading(NamedTuple):
    """What the paper leaves open: what a flip is, how rows are normalized, and whether its table of S and lambda holds."""

    flip: Callable[[np.ndarray, float, np.random.Generator], np.ndarray]
    rows: RowNormalization
    deep: bool = False


PRINTED = "printed"
#: "deep" has S = 32 and lambda = 64 in every cell; the paper's table has them for Cora at p = 0.1 alone.
READINGS = {
    "deep": Reading(n.noise.flip, "none", deep=True), PRINTED: Reading(n.noise.flip, "none"),
    "distance": Reading(distance, "none"), "distance l1": Reading(distance, "l1"), "distance l2": Reading(distance, "l2"),
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """``readings``: the first with all models and the control. ``epochs``: of NGC and RNGC, as published, and of others."""

    datasets: tuple[str, ...] = CITATION
    levels: tuple[float, ...] = (0.1, 0.2, 0.4)
    readings: tuple[str, ...] = ("deep", PRINTED)
    models: tuple[str, ...] = (n.MLP, n.GCN, n.S2GC, n.NGC, n.RNGC)
    runs: int = 40
    epochs: tuple[int, int] = (100, 200)
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    n.check_models(s.models)
    n.check_names("readings", s.readings, READINGS)
    flips = n.runs_of(s.datasets, dict.fromkeys(s.datasets, s.levels), s.runs, kind=s.readings, what=["features"])
    last = dict.fromkeys(s.datasets, s.levels[-1:])
    return flips + n.runs_of(s.datasets, last, s.runs, kind=s.readings[:1], what=["pure noise"])


def compute(s: Settings, point: Point) -> list[Row]:
    dataset, level, reading = point["dataset"], point["level"], READINGS[point["kind"]]
    _, features, _ = n.loaded(dataset)
    seed = [s.seed, point["run"], round(1000 * level)]
    clean = features if point["what"] == "features" else np.zeros_like(features)
    x = n.noise.normalize_rows(reading.flip(clean, level, np.random.default_rng(seed)), reading.rows)
    defaults = PUBLISHED.get((dataset, level), n.Filter(eps=0.1 if dataset == "pubmed" else 1e-5))
    if reading.deep:
        defaults = replace(defaults, order=32, lam=64.0)
    of_filters, of_others = s.epochs
    filters = [m for m in s.models if m in (n.NGC, n.RNGC)]
    rows = n.trained(dataset, x, filters, seed, defaults=defaults, epochs=of_filters, device=s.device)
    others = [m for m in s.models if m not in filters] if point["kind"] == s.readings[0] else []
    return rows + n.trained(dataset, x, others, seed, defaults=defaults, epochs=of_others, device=s.device)


def draw(s: Settings, rows: list[Row]) -> Any:
    """Accuracy against the probability of a flip; a row of panels for each reading; crosses: published."""
    import matplotlib.pyplot as plt

    shape = len(s.readings), len(s.datasets)
    figure, axes = plt.subplots(
        *shape, figsize=(4.6 * shape[1], 3.6 * shape[0]), layout="constrained", squeeze=False, sharey="col"
    )
    known = n.published("gnn-flips")[n.RNGC]
    for line, kind in zip(axes, s.readings, strict=True):
        for axis, dataset in zip(line, s.datasets, strict=True):
            n.lines(axis, rows, s.levels, s.models, dataset=dataset, kind=kind, what="features")
            axis.plot([float(p) for p in known[dataset]], list(known[dataset].values()), "kx", zorder=5)
            alone = n.cell(rows, dataset=dataset, kind=kind, what="pure noise", model=n.NGC)
            if alone is not None:
                axis.axhline(alone.mean, color="k", linestyle=":", linewidth=1)
            axis.set(title=f"{dataset}, {kind}", xlabel="probability of a flip")
        line[0].set_ylabel("test accuracy [%]")
    axes[0, -1].legend(
        fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), title="cross: RNGC, published;\ndotted: NGC on flips alone"
    )
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    mine = [row for row in rows if row["what"] == "features"]
    first, *others = s.readings
    verdict = n.judged("table", mine, "gnn-flips", kind=first)
    why = "".join(f" Reading {kind!r}: {n.judged('table', mine, 'gnn-flips', kind=kind).measured}" for kind in others)
    on = "" if first == PRINTED else "with S and λ other than printed"
    ahead, said = [], []
    for dataset in s.datasets:
        here = chosen(mine, dataset=dataset, level=s.levels[-1], kind=first)
        rival = max((m for m in (n.MLP, n.GCN) if m in s.models), key=lambda m: n.cell(here, model=m).mean)
        test = n.paired_rows(here, n.RNGC, rival)
        ahead.append(test.difference > test.half_width)
        said.append(f"{dataset}: {test.difference:+.1f} ± {test.half_width:.1f} against {rival}")
    return [
        instead(Verdict("table", verdict.finding, verdict.measured, why.strip()), on),
        Verdict("better", n.grade(ahead), f"RNGC at p = {s.levels[-1]:g}: " + "; ".join(said) + " points (95 %)."),
    ]


FIGURE = Figure(
    "gnn-flips", "Flipped features", Settings(),
    Settings(datasets=("cora",), levels=(0.1, 0.4), models=(n.MLP, n.GCN, n.NGC, n.RNGC), runs=2, epochs=(60, 60)),
    points, compute, draw, judge, **n.PARTS | {"helpers": (*n.HELPERS, "gnn_noise")},
)  # fmt: skip
