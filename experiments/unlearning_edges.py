"""Edges removed one by one from small graphs: accuracy, seconds and budget (the paper's Table 8)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _unlearning as u
from experiments._figure import Figure, Point, Row, Verdict, chosen, grade, instead

#: Published: accuracy before any removal and after 500, 1,000, 1,500 and 2,000, seconds of a removal, of propagation in it.
PUBLISHED: dict[str, dict[str, tuple[tuple[float, ...], float, float]]] = {
    "cora": {
        u.RETRAINED: ((85.30, 85.20, 84.10, 83.00, 82.40), 0.74, 0.15),
        u.CGU: ((84.10, 83.30, 82.30, 81.80, 81.40), 0.28, 0.15),
        u.CEU: ((84.10, 83.30, 82.30, 81.80, 81.40), 0.32, 0.17),
        u.SCALEGUN: ((84.10, 83.30, 82.30, 81.80, 81.40), 0.12, 0.01),
    },
    "citeseer": {
        u.RETRAINED: ((79.30, 78.60, 78.30, 77.93, 77.60), 0.99, 0.34),
        u.CGU: ((78.80, 78.37, 78.00, 77.43, 77.10), 0.81, 0.29),
        u.CEU: ((78.80, 78.37, 78.00, 77.43, 77.10), 0.76, 0.27),
        u.SCALEGUN: ((78.80, 78.37, 78.00, 77.43, 77.10), 0.55, 0.03),
    },
    "amazon-photo": {
        u.RETRAINED: ((91.67, 91.60, 91.60, 91.57, 91.63), 3.08, 0.31),
        u.CGU: ((89.93, 89.90, 89.90, 89.67, 89.67), 0.35, 0.26),
        u.CEU: ((89.93, 89.90, 89.90, 89.67, 89.67), 0.40, 0.29),
        u.SCALEGUN: ((89.93, 89.90, 89.90, 89.67, 89.67), 0.07, 0.01),
    },
}
EVERY = 500
#: Stands for all methods, whose removals are timed in turn.
CLOCKED = "all"
#: Times as long as ScaleGUN's that propagation of everything is published to take.
LONGER = 10


@dataclass(frozen=True)
class Settings:
    """nareg and ScaleGUN remove every edge by itself; the others ``timed`` of every ``every``, the rest of those at once.

    Seconds are of ``clocked`` edges that all methods remove in turn. The paper has five trials.
    """

    datasets: tuple[str, ...] = ("cora", "citeseer", "amazon-photo")
    methods: tuple[str, ...] = tuple(u.AS_PUBLISHED)
    removals: int = 2000
    every: int = EVERY
    timed: int = 3
    clocked: int = 20
    trials: int = 3
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    return [
        {"dataset": dataset, "method": method, "trial": trial}
        for dataset in s.datasets for trial in range(s.trials) for method in s.methods
    ] + [{"dataset": dataset, "method": CLOCKED, "trial": 0} for dataset in s.datasets]  # fmt: skip


def compute(s: Settings, point: Point) -> list[Row]:
    data, method = u.loaded(point["dataset"]), point["method"]
    seed = [s.seed, point["trial"]]
    edges = data.edges(np.random.default_rng(seed))[: s.removals]  # the same for every method
    if method == CLOCKED:
        return clocked(s, data, edges[: s.clocked], seed)
    model = data.as_published(method, np.random.default_rng([*seed, 1]), **u.placed(method, s.device))
    timed = s.every if method in u.ONE_BY_ONE else s.timed
    return u.removed_in_parts(data, model, edges, model.remove_edges, every=s.every, timed=timed)


def clocked(s: Settings, data: u.Loaded, edges: np.ndarray, seed: list[int]) -> list[Row]:
    """Median processor seconds of a removal by each method, one edge after the other: what runs beside is not in them."""
    models = {m: data.as_published(m, np.random.default_rng([*seed, 1]), **u.placed(m, s.device)) for m in s.methods}
    spent: dict[str, list[tuple[float, float, bool]]] = {m: [] for m in s.methods}
    for pair in edges:
        for method, model in models.items():
            start = time.process_time()
            certificate = model.remove_edges([pair])
            seconds = time.process_time() - start
            share = certificate.timings["propagation"] / sum(certificate.timings.values())
            spent[method].append((seconds, share * seconds, certificate.retrained))
    return [
        {
            "method": method, "removed": None, "total": float(np.median([total for total, _, _ in ones])),
            "propagation": float(np.median([part for _, part, _ in ones])), "timed": len(ones),
            "retrained": sum(anew for _, _, anew in ones),
        }
        for method, ones in spent.items()
    ]  # fmt: skip


def draw(s: Settings, rows: list[Row]) -> Any:
    """Accuracy against edges removed, a column a data set; crosses: published; below seconds of a removal."""
    import matplotlib.pyplot as plt

    shape = 2, len(s.datasets)
    figure, axes = plt.subplots(*shape, figsize=(4.6 * shape[1], 6.4), layout="constrained", squeeze=False)
    removed = list(range(0, s.removals + 1, s.every))
    for k, dataset in enumerate(s.datasets):
        upper, lower = axes[:, k]
        for j, method in enumerate(s.methods):
            here = {"dataset": dataset, "method": method}
            upper.plot(removed, [u.mean(rows, "accuracy", removed=n, **here) for n in removed], label=method, **u.line(j))
            known, *seconds = PUBLISHED[dataset].get(method, ((),))
            upper.plot(range(0, EVERY * len(known), EVERY), known, "x", color=f"C{j}")
            u.draw_times(lower, j, rows, tuple(seconds) or None, removed=None, **here)
        upper.set(title=dataset, xlabel="edges removed", ylabel="test accuracy [%]")
        lower.set(yscale="log", ylabel="seconds per removal", xlabel=u.MARKS)
        lower.set_xticks(range(len(s.methods)), s.methods)
    axes[0, 0].legend(title="crosses: published", fontsize=8)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    long, beside, propagated, rest = [], [], [], []
    for dataset in s.datasets:
        share, total = (
            {m: u.median(rows, key, dataset=dataset, method=m, removed=None) for m in s.methods}
            for key in ("propagation", "total")
        )
        steps = {m: total[m] - share[m] for m in s.methods}
        for peer in (u.CGU, u.CEU):
            long += [share[peer] > LONGER * share[u.SCALEGUN], 0.5 < share[peer] / share[u.RETRAINED] < 2]
            beside.append(0.5 < steps[peer] / steps[u.SCALEGUN] < 2)
        over = [share[peer] / share[other] for other in (u.SCALEGUN, u.RETRAINED) for peer in (u.CGU, u.CEU)]
        propagated.append("{}: {:.0f} and {:.0f} times ScaleGUN's, {:.1f} and {:.1f} times retraining's".format(dataset, *over))
        rest.append(f"{dataset} {', '.join(f'{m} {1e3 * steps[m]:.0f} ms' for m in s.methods if m != u.RETRAINED)}")
    sound, cells = [], []
    for method in (u.SCALEGUN, u.OURS):
        mine = [row for row in chosen(rows, method=method) if row["removed"]]
        claimed, true = (max(row[key] for row in mine) for key in ("spent", "true"))
        anew, count = (sum(row[key] for row in mine) for key in ("retrained", "timed"))
        cells.append(
            f"{method}: of {count} removals {anew} were followed by training anew; at most {claimed:.1%} of the budget were "
            f"stated, and the gradient on the exact embedding was at most {true:.2%} of it"
        )
        if method == u.SCALEGUN:
            sound = [anew == 0, true <= 1, all(row["true"] <= row["spent"] for row in mine)]
    exact = (
        "That gradient is taken after every {} removals, all classes together. For all data the bound is none (Theorem 4.5)."
    )
    missing = [name for name in PUBLISHED if name not in s.datasets]
    verdicts = [
        *u.compared_tables(rows, "dataset", PUBLISHED, EVERY, s.methods, s.datasets),
        Verdict("certified", grade(sound), "; ".join(cells) + ".", exact.format(s.every)),
        Verdict(
            "longer", grade(long), f"Propagation by CGU and CEU: {'; '.join(propagated)}.", f"{LONGER} times are asked for."
        ),
        Verdict("beside", grade(beside), f"Beside propagation: {'; '.join(rest)}.", f"{u.STEPS} Within a factor of 2."),
    ]
    return [instead(verdict, f"on {' and '.join(s.datasets)}" if missing else "") for verdict in verdicts]


FIGURE = Figure(
    "unlearning-edges", "Edges removed one by one", Settings(),
    Settings(datasets=("cora",), removals=40, every=20, timed=1, clocked=5, trials=1),
    points, compute, draw, judge, **u.PARTS,
)  # fmt: skip
