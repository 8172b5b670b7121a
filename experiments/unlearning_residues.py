"""The limit r_max of residues: edges removed one by one for r_max from zero up (Table 3)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _unlearning as u
from experiments._figure import Figure, Point, Row, Verdict, chosen, grade, instead
from nareg.errors import CertificateError, DatasetNotFoundError
from nareg.unlearning.forgetting import checked_weights
from nareg.unlearning.propagation.base import Change
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.residual import ApproximatePropagation

#: r_max -> accuracy before any removal, seconds of a removal, of propagation in it, times trained anew of 100.
PUBLISHED = {
    1e-5: (55.23, 3.30, 0.72, 100.0), 1e-7: (57.84, 3.60, 0.76, 100.0), 1e-9: (57.84, 3.31, 0.75, 85.33),
    5e-10: (57.84, 1.81, 0.71, 56.67), 1e-10: (57.84, 0.92, 0.77, 0.0), 1e-15: (57.84, 0.93, 0.77, 0.0),
}  # fmt: skip
#: Decades of r_max, with residues that wait, that have to be seen before anything is said of the time of propagation.
DECADES = 2.0


@dataclass(frozen=True)
class Settings:
    """The r_max of the table, and none. ``timed`` random edges are taken from an embedding, the first ``removals`` of them from
    nareg's model, which has a bound over all nodes to compute at each; at ``small`` data all from ScaleGUN's (the paper: 100).
    """

    small: tuple[str, ...] = tuple(u.R_MAX)
    large: tuple[str, ...] = ("made up, arxiv's size", "ogbn-arxiv")
    r_max: tuple[float, ...] = (*PUBLISHED, 0.0)
    timed: int = 100
    removals: int = 20
    scale: float = 1.0
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    return [{"dataset": dataset, "r_max": r_max} for dataset in s.small + s.large for r_max in s.r_max]


def compute(s: Settings, point: Point) -> list[Row]:
    """Refused by nareg where the residues alone may move the gradient by more than the budget: the paper retrains then."""
    small = point["dataset"] in s.small
    try:
        data = u.loaded(point["dataset"]) if small else u.large(point["dataset"], s.scale)
    except DatasetNotFoundError:
        return [{"absent": True}]
    edges = data.edges(np.random.default_rng(s.seed))[: s.timed]
    used = data.residue(point["r_max"])
    row: Row = {"absent": False, "used": used, **propagated(data, edges, used, s.device)}
    for method, part in ((u.OURS, edges[: s.removals]), *([(u.SCALEGUN, edges)] if small else [])):
        row |= {f"{method} {key}": value for key, value in removed(data, method, part, used, s).items()}
    return [row]


def removed(data: u.Loaded, method: str, edges: np.ndarray, r_max: float, s: Settings) -> Row:
    """Accuracy before, seconds of a removal, how often the model was trained anew, and the budget that residues take."""
    rng = np.random.default_rng([s.seed, 1])
    try:
        model = data.fitted(method, rng, methods=u.AS_PUBLISHED, r_max=r_max, **u.placed(method, s.device))
        accuracy = data.accuracy(model)
        certificates = [model.remove_edges([pair]) for pair in edges]
    except CertificateError as error:
        return {"refused": str(error)}
    return {
        "refused": None, "accuracy": accuracy, "count": len(edges),
        "total": float(np.median([sum(one.timings.values()) for one in certificates])),
        "retrained": sum(one.retrained for one in certificates),
        "residues": max(one.approximation / one.budget for one in certificates),
    }  # fmt: skip


def propagated(data: u.Loaded, edges: np.ndarray, r_max: float, device: str | None = None) -> Row:
    """Median seconds of an update of the embedding alone, and whether residues wait in it."""
    if not r_max:
        model = data.fitted(u.OURS, np.random.default_rng(0), device=device)
        options = [model.remove_edges([pair]).timings["propagation"] for pair in edges]
        return {"propagation": float(np.median(options)), "waiting": 0}
    stored = ApproximatePropagation(
        LiveGraph(data.graph), data.features.copy(), checked_weights(2), np.sort(data.train), r_max=r_max
    )  # fmt: skip
    seconds = []
    for pair in np.sort(edges, axis=1).astype(np.int64):
        start = time.perf_counter()
        stored.update(Change(removed=pair[None]))
        seconds.append(time.perf_counter() - start)
    return {"propagation": float(np.median(seconds)), "waiting": int(any(r.any() for r in stored.residues))}


def here(rows: list[Row], dataset: str) -> list[Row]:
    """Rows of what was run, the largest r_max first."""
    return sorted(chosen(rows, absent=False, dataset=dataset), key=lambda row: -row["r_max"])


def certified(rows: list[Row], dataset: str, method: str) -> list[Row]:
    """Those that a method ran to the end."""
    return [row for row in here(rows, dataset) if row.get(f"{method} count")]


def draw(s: Settings, rows: list[Row]) -> Any:
    """Seconds of propagation, and the budget that residues take, against r_max."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    for k, dataset in enumerate(dataset for dataset in s.small + s.large if here(rows, dataset)):
        # 0 has no place on a logarithmic axis: it is drawn as a line across
        every = [row for row in here(rows, dataset) if row["r_max"]]
        left.plot([r["r_max"] for r in every], [r["propagation"] for r in every], "o-", color=f"C{k}", label=dataset)
        for exact in (row for row in here(rows, dataset) if not row["r_max"]):
            left.axhline(exact["propagation"], color=f"C{k}", linewidth=1, linestyle=":")
        for method, mark in ((u.OURS, "o-"), (u.SCALEGUN, "x--")):
            mine = [row for row in certified(rows, dataset, method) if row["r_max"] and row[f"{method} residues"]]
            shares = [row[f"{method} residues"] for row in mine]
            right.plot(
                [row["r_max"] for row in mine], shares, mark, color=f"C{k}", label=f"{dataset}, {method}" if mine else None
            )
    left.plot(list(PUBLISHED), [row[2] for row in PUBLISHED.values()], "k+", label="published, ogbn-arxiv")
    left.set(
        xscale="log", yscale="log", xlabel="r_max, for columns of norm one", ylabel="seconds of propagation; dotted: exact"
    )
    right.set(xscale="log", yscale="log", xlabel="r_max, for columns of norm one", ylabel="share of the budget of residues")
    right.axhline(1, color="k", linewidth=0.8)
    left.legend(fontsize=7)
    right.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def cell(row: Row, method: str) -> str:
    """What came of an r_max with a method."""
    if f"{method} refused" not in row:
        return ""
    if row[f"{method} refused"] is not None:
        return f", {method} no certificate"
    anew = f"trained anew {row[f'{method} retrained']} times of {row[f'{method} count']}"
    return f", {method} {row[f'{method} accuracy']:.1f} %, {1e3 * row[f'{method} total']:.0f} ms, {anew}"


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    alike, ratios, fewer, texts = [], [], [], []
    run = [dataset for dataset in s.small + s.large if here(rows, dataset)]
    for dataset in run:
        every = [row for row in here(rows, dataset) if row["r_max"]]
        counts = {row["r_max"]: row[f"{u.SCALEGUN} retrained"] for row in certified(rows, dataset, u.SCALEGUN) if row["r_max"]}
        if counts:
            fewer += [
                counts[max(counts)] > 0, list(counts.values()) == sorted(counts.values())[::-1],
                not any(count for r_max, count in counts.items() if r_max <= 1e-10),
            ]  # fmt: skip
        cells = [
            f"{row['r_max']:g}: propagation {1e3 * row['propagation']:.1f} ms{cell(row, u.SCALEGUN)}{cell(row, u.OURS)}"
            for row in here(rows, dataset)
        ]
        texts.append(f"{dataset}: {'; '.join(cells)}")
        waiting = [row for row in every if row["waiting"]]
        if waiting and waiting[0]["r_max"] >= 10**DECADES * waiting[-1]["r_max"]:
            times = [row["propagation"] for row in waiting]
            alike.append(max(times) < 1.5 * min(times))
            ratios.append(
                f"{dataset} {max(times) / min(times):.2f}, r_max from {waiting[-1]['r_max']:g} to {waiting[0]['r_max']:g}"
            )
    absent = sorted({row["dataset"] for row in chosen(rows, absent=True)})
    why = f"Not run: {', '.join(absent)}, not here. " if absent else ""
    why += "nareg charges what residues may add by a bound that holds, and refuses what ScaleGUN retrains. "
    why += "That bound is over all nodes, and most of the time of nareg's removals with residues."
    judged = [dataset for dataset in run if certified(rows, dataset, u.SCALEGUN)]
    seen = "; ".join(ratios) or f"they do not over {DECADES:g} decades"
    return [
        instead(Verdict("fewer", grade(fewer), f"By r_max: {'. '.join(texts)}.", why), f"on {', '.join(judged)}"),
        instead(
            Verdict("independent", grade(alike), f"Largest over smallest time of propagation where residues wait: {seen}."),
            u.stands_in(run),
        ),
    ]


FIGURE = Figure(
    "unlearning-residues", "How large residues may be", Settings(),
    Settings(small=("cora",), large=("made up, arxiv's size",), r_max=(1e-5, 1e-10, 0.0), timed=10, removals=5, scale=0.01),
    points, compute, draw, judge, **u.PARTS,
)  # fmt: skip
