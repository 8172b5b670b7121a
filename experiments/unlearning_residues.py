"""The limit r_max of residues: edges removed one by one at the size of ogbn-arxiv, for r_max from zero up (Table 3)."""

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
    a certified model, which has a bound over all nodes to compute at each (the paper: 100).
    """

    datasets: tuple[str, ...] = ("made up, arxiv's size", "ogbn-arxiv")
    r_max: tuple[float, ...] = (*PUBLISHED, 0.0)
    timed: int = 100
    removals: int = 20
    scale: float = 1.0
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    return [{"dataset": dataset, "r_max": r_max} for dataset in s.datasets for r_max in s.r_max]


def compute(s: Settings, point: Point) -> list[Row]:
    """Refused where the residues alone may move the gradient by more than the budget: the paper retrains, to no avail.

    The table's r_max are for columns x with ``||D^1/2 x||_1 <= 1`` (Section 3): here times the mean of that norm.
    """
    try:
        data = u.large(point["dataset"], s.scale)
    except DatasetNotFoundError:
        return [{"absent": True}]
    edges = data.edges(np.random.default_rng(s.seed))[: s.timed]
    roots = np.sqrt(np.diff(data.graph.adjacency.indptr) + 1.0)
    used = point["r_max"] * float((roots @ np.abs(data.features)).mean())
    row: Row = {"absent": False, "refused": None, "used": used, **propagated(data, edges, used, s.device)}
    try:
        model = data.fitted(u.OURS, np.random.default_rng([s.seed, 1]), r_max=used, device=s.device)
        row["accuracy"] = data.accuracy(model)
        certificates = [model.remove_edges([pair]) for pair in edges[: s.removals]]
    except CertificateError as error:
        return [row | {"refused": str(error)}]
    return [row | {
        "total": float(np.median([sum(one.timings.values()) for one in certificates])),
        "retrained": sum(one.retrained for one in certificates),
        "approximation": max(one.approximation / one.budget for one in certificates),
    }]  # fmt: skip


def propagated(data: u.Loaded, edges: np.ndarray, r_max: float, device: str | None = None) -> Row:
    """Median seconds of an update of the embedding alone, and whether residues wait in it."""
    if not r_max:
        model = data.fitted(u.OURS, np.random.default_rng(0), device=device)
        options = [model.remove_edges([pair]).timings["propagation"] for pair in edges]
        return {"propagation": float(np.median(options)), "waiting": 0}
    stored = ApproximatePropagation(
        LiveGraph(data.graph), data.features.copy(), checked_weights(2, None), np.sort(data.train), r_max=r_max
    )  # fmt: skip
    seconds = []
    for pair in np.sort(edges, axis=1).astype(np.int64):
        start = time.perf_counter()
        stored.update(Change(removed=pair[None]))
        seconds.append(time.perf_counter() - start)
    return {"propagation": float(np.median(seconds)), "waiting": int(any(r.any() for r in stored.residues))}


def here(rows: list[Row], **keys: Any) -> list[Row]:
    """Rows of what was run, the largest r_max first."""
    return sorted(chosen(rows, absent=False, **keys), key=lambda row: -row["r_max"])


def certified(rows: list[Row], **keys: Any) -> list[Row]:
    """Those that were to the end."""
    return [row for row in here(rows, **keys) if row["refused"] is None]


def draw(s: Settings, rows: list[Row]) -> Any:
    """Seconds of a removal, and what residues may take of the budget, against r_max."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    for k, dataset in enumerate(dataset for dataset in s.datasets if here(rows, dataset=dataset)):
        # 0 has no place on a logarithmic axis: it is drawn as lines across
        mine, every = ([row for row in of(rows, dataset=dataset) if row["r_max"]] for of in (certified, here))
        left.plot([r["r_max"] for r in mine], [r["total"] for r in mine], "o-", color=f"C{k}", label=f"{dataset}: in all")
        left.plot([r["r_max"] for r in every], [r["propagation"] for r in every], "s:", color=f"C{k}", label="propagation")
        right.plot([r["r_max"] for r in mine], [r["approximation"] for r in mine], "o-", color=f"C{k}", label=dataset)
        refused = [row["r_max"] for row in every if row["refused"] is not None]
        if refused:
            right.plot(refused, [2.0] * len(refused), "^", color=f"C{k}", label=f"{dataset}: no certificate")
        for exact in (row for row in certified(rows, dataset=dataset) if not row["r_max"]):
            left.axhline(exact["total"], color=f"C{k}", linewidth=1, label="exact, in all")
            left.axhline(exact["propagation"], color=f"C{k}", linewidth=1, linestyle=":", label="exact, propagation")
    for column, mark, label in ((1, "kx", "published, in all"), (2, "k+", "published, propagation")):
        left.plot(list(PUBLISHED), [options[column] for options in PUBLISHED.values()], mark, label=label)
    left.set(xscale="log", yscale="log", xlabel="r_max, for columns of norm one", ylabel="seconds per removal (median)")
    right.set(xscale="log", yscale="log", xlabel="r_max, for columns of norm one", ylabel="share of the budget of residues")
    right.axhline(1, color="k", linewidth=0.8)
    left.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    right.legend(fontsize=7)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    alike, ratios, fewer, texts, refusals = [], [], [], [], 0
    for dataset in s.datasets:
        every, mine = ([row for row in of(rows, dataset=dataset) if row["r_max"]] for of in (here, certified))
        if not every:
            continue
        refused = [row["r_max"] for row in every if row["refused"] is not None]
        counts, small = [row["retrained"] for row in mine], [row["retrained"] for row in mine if row["r_max"] <= 1e-10]
        refusals += len(refused)
        # what is refused would be retrained without end
        fewer += [
            bool(refused) or any(counts),
            all(r_max > row["r_max"] for r_max in refused for row in mine) and counts == sorted(counts)[::-1],
            len(small) == sum(r_max <= 1e-10 for r_max in s.r_max if r_max) and not any(small),
        ]
        cells = []
        for row in here(rows, dataset=dataset):
            whole = "no certificate"
            if row["refused"] is None:
                anew = f"trained anew {row['retrained']} times of {s.removals}"
                whole = f"{row['accuracy']:.1f} %, {1e3 * row['total']:.0f} ms, {anew}"
            cells.append(f"{row['r_max']:g}: {whole} ({1e3 * row['propagation']:.0f} ms)")
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
    if refusals:
        why += "What residues may add is charged by a bound that holds: models are refused which the paper retrains. "
    why += "That bound is over all nodes, and most of the time of a removal with residues."
    on = u.stands_in(dataset for dataset in s.datasets if here(rows, dataset=dataset))
    seen = "; ".join(ratios) or f"they do not over {DECADES:g} decades"
    return [
        instead(verdict, on) for verdict in (
            Verdict("fewer", grade(fewer), f"Accuracy, a removal (propagation in it) by r_max: {'. '.join(texts)}.", why),
            Verdict("independent", grade(alike), f"Largest over smallest time of propagation where residues wait: {seen}."),
        )
    ]  # fmt: skip


FIGURE = Figure(
    "unlearning-residues", "How large residues may be", Settings(),
    Settings(datasets=("made up, arxiv's size",), r_max=(1e-5, 1e-10, 0.0), timed=10, removals=5, scale=0.01),
    points, compute, draw, judge, **u.PARTS,
)  # fmt: skip
