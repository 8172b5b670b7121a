"""How large residues may be: edges taken back one by one at the size of ogbn-arxiv, for r_max from zero up (Table 3)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _unlearning as u
from experiments._figure import Figure, Point, Row, Verdict, chosen, grade
from nareg.errors import DatasetNotFoundError
from nareg.unlearning import CertificateError

#: r_max -> accuracy before any removal, seconds of a removal, of propagation in it, times trained anew of 100.
PUBLISHED = {
    1e-5: (55.23, 3.30, 0.72, 100.0), 1e-7: (57.84, 3.60, 0.76, 100.0), 1e-9: (57.84, 3.31, 0.75, 85.33),
    5e-10: (57.84, 1.81, 0.71, 56.67), 1e-10: (57.84, 0.92, 0.77, 0.0), 1e-15: (57.84, 0.93, 0.77, 0.0),
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """100 random edges; the r_max of the table, and none."""

    datasets: tuple[str, ...] = ("made up, arxiv's size", "ogbn-arxiv")
    r_max: tuple[float, ...] = (*PUBLISHED, 0.0)
    removals: int = 100
    scale: float = 1.0
    seed: int = 0


def points(s: Settings) -> list[Point]:
    return [{"dataset": dataset, "r_max": r_max} for dataset in s.datasets for r_max in s.r_max]


def compute(s: Settings, point: Point) -> list[Row]:
    """Refused where the residues alone may move the gradient by more than the budget: the paper retrains, to no avail."""
    try:
        data = u.large(point["dataset"], s.scale)
    except DatasetNotFoundError:
        return [{"absent": True}]
    edges = data.edges(np.random.default_rng(s.seed))[: s.removals]
    start = time.perf_counter()
    try:
        model = data.fitted(u.OURS, np.random.default_rng([s.seed, 1]), r_max=point["r_max"])
    except CertificateError as error:
        return [{"absent": False, "refused": str(error)}]
    row: Row = {"absent": False, "refused": None, "fit": time.perf_counter() - start, "accuracy": data.accuracy(model)}
    try:
        told = [model.remove_edges([pair]) for pair in edges]
    except CertificateError as error:
        return [row | {"refused": str(error)}]
    return [row | {
        "total": float(np.median([sum(one.seconds.values()) for one in told])),
        "propagation": float(np.median([one.seconds["propagation"] for one in told])),
        "retrained": sum(one.retrained for one in told), "spent": max(one.spent / one.budget for one in told),
        "approximation": max(one.approximation / one.budget for one in told),
    }]  # fmt: skip


def ran(rows: list[Row], **keys: Any) -> list[Row]:
    """Rows of what was certified to the end."""
    return [row for row in chosen(rows, absent=False, **keys) if row["refused"] is None]


def draw(s: Settings, rows: list[Row]) -> Any:
    """Seconds of a removal, and what residues may take of the budget, against r_max."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    for k, dataset in enumerate(s.datasets):
        mine = sorted(ran(rows, dataset=dataset), key=lambda row: row["r_max"])
        # 0 has no place on a logarithmic axis: it is drawn as lines across
        shown = [row for row in mine if row["r_max"]]
        if shown:
            left.plot([r["r_max"] for r in shown], [r["total"] for r in shown], "o-", color=f"C{k}", label=f"{dataset}: total")
            left.plot([r["r_max"] for r in shown], [r["propagation"] for r in shown], "o:", color=f"C{k}", label="propagation")
            right.plot([r["r_max"] for r in shown], [r["approximation"] for r in shown], "o-", color=f"C{k}", label=dataset)
        for exact in (row for row in mine if not row["r_max"]):
            left.axhline(exact["total"], color=f"C{k}", linewidth=1, label=f"{dataset}: exact, total")
            left.axhline(exact["propagation"], color=f"C{k}", linewidth=1, linestyle=":", label="exact, propagation")
    left.plot(list(PUBLISHED), [told[1] for told in PUBLISHED.values()], "kx", label="published, total")
    left.set(xscale="log", yscale="log", xlabel="r_max", ylabel="seconds a removal (median)")
    right.set(xscale="log", yscale="log", xlabel="r_max", ylabel="share of the budget that residues may take")
    right.axhline(1, color="k", linewidth=0.8)
    left.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    if right.get_legend_handles_labels()[0]:
        right.legend(fontsize=7)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    alike, fewer, told = [], [], []
    for dataset in s.datasets:
        mine = sorted(ran(rows, dataset=dataset), key=lambda row: -row["r_max"])
        times = [row["propagation"] for row in mine if row["r_max"]]
        if len(times) > 1:
            alike.append(max(times) < 1.5 * min(times))
        refused = [row["r_max"] for row in chosen(rows, dataset=dataset, absent=False) if row["refused"] is not None]
        counts = [row["retrained"] for row in mine if row["r_max"]]
        if counts or refused:
            # refused is retrained without end
            fewer.append(all(r_max > row["r_max"] for r_max in refused for row in mine) and counts == sorted(counts)[::-1])
            small = [row["retrained"] for row in mine if 0 < row["r_max"] <= 1e-10]
            fewer.append(bool(small) and not any(small))
        cells = [
            f"{row['r_max']:g}: {1e3 * row['total']:.1f} ms ({1e3 * row['propagation']:.1f}), {row['retrained']} trained anew"
            for row in mine
        ]
        if refused:
            cells.append(f"no certificate at {', '.join(f'{r:g}' for r in sorted(refused, reverse=True))}")
        if cells:
            told.append(f"{dataset}: {'; '.join(cells)}")
    absent = sorted({row["dataset"] for row in chosen(rows, absent=True)})
    why = f"Not run: {', '.join(absent)}, not here. " if absent else ""
    why += "What residues may add is charged by a bound that holds, so that models are refused which the paper retrains."
    return [
        Verdict("fewer", grade(fewer), "A removal (propagation in it) by r_max: " + "; ".join(told) + ".", why),
        Verdict("independent", grade(alike), "Largest over smallest time of propagation with residues: "
                + "; ".join(_ratio(dataset, ran(rows, dataset=dataset)) for dataset in s.datasets) + "."),
    ]  # fmt: skip


def _ratio(dataset: str, rows: list[Row]) -> str:
    times = [row["propagation"] for row in rows if row["r_max"]]
    return f"{dataset} {max(times) / min(times):.2f}" if times else f"{dataset} not run"


FIGURE = Figure(
    "unlearning-residues", "How large residues may be", Settings(),
    Settings(datasets=("made up, arxiv's size",), r_max=(1e-5, 1e-10, 0.0), removals=5, scale=0.01),
    points, compute, draw, judge, **u.PARTS,
)  # fmt: skip
