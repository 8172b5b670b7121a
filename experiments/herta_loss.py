"""Training loss against iterations and seconds: preconditioned, plain, and the honest baseline without any iteration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _herta as h
from experiments._figure import Figure, Finding, Point, Row, Verdict, grade

#: Method -> what herta.fit is told; "rates": once for each of the paper's learning rates, the best of which counts.
METHODS: dict[str, dict[str, dict[str, Any]]] = {
    "mse": {
        "auto": {},
        "sketched PCG": {"optimizer": "pcg", "preconditioner": "sketched"},
        "Algorithm 1": {"optimizer": "algorithm-1"},
        "Algorithm 1, as printed": {"optimizer": "algorithm-1-as-printed"},
        "Algorithm 1, the paper's rates": {"optimizer": "algorithm-1", "rates": True},
        "Adam, preconditioned": {"optimizer": "adam", "preconditioner": "sketched", "rates": True},
        "direct": {"optimizer": "direct"},
        "CG": {"optimizer": "pcg", "preconditioner": "none"},
        "L-BFGS": {"optimizer": "lbfgs", "preconditioner": "none"},
        "gradient descent": {"optimizer": "gd", "preconditioner": "none"},
        "gradient descent, the paper's rates": {"optimizer": "gd", "preconditioner": "none", "rates": True},
        "Adam": {"optimizer": "adam", "preconditioner": "none", "rates": True},
    },
    "ce": {
        "auto": {},
        "exact L-BFGS": {"optimizer": "lbfgs", "preconditioner": "exact"},
        "sketched L-BFGS": {"optimizer": "lbfgs", "preconditioner": "sketched"},
        "gradient descent, preconditioned": {"optimizer": "gd", "preconditioner": "sketched"},
        "Adam, preconditioned": {"optimizer": "adam", "preconditioner": "sketched", "rates": True},
        "L-BFGS": {"optimizer": "lbfgs", "preconditioner": "none"},
        "gradient descent, the paper's rates": {"optimizer": "gd", "preconditioner": "none", "rates": True},
        "Adam": {"optimizer": "adam", "preconditioner": "none", "rates": True},
    },
}  # fmt: skip
#: Those that are run on every mask; the others on a few.
QUICK_ONES = ("auto", "sketched PCG", "exact L-BFGS", "sketched L-BFGS", "direct")
#: The paper's learning rates (Appendix E).
RATES = (0.001, 0.01, 0.1, 1.0, 10.0)
#: Relative gaps whose first iteration is told.
GAPS = (1e-1, 1e-2, 1e-3, 1e-6)
#: An optimum below this share of the start counts as zero: gaps are then relative to the start.
ZERO = 1e-6


@dataclass(frozen=True)
class Settings:
    """80 % of the labelled nodes to train on, ``masks`` times at random; slow baselines on the first ``slow`` of them."""

    datasets: tuple[str, ...] = ("cora", "citeseer", "pubmed")
    losses: tuple[str, ...] = ("mse", "ce")
    lams: tuple[float, ...] = (1.0, 20.0)
    masks: int = 10
    slow: int = 2
    most: int = 500
    seed: int = 0


def points(s: Settings) -> list[Point]:
    return [
        {"dataset": dataset, "loss": loss, "lam": lam, "mask": mask}
        for dataset in s.datasets for loss in s.losses for lam in s.lams for mask in range(s.masks)
    ]  # fmt: skip


def compute(s: Settings, point: Point) -> list[Row]:
    task = h.loaded(point["dataset"])
    train = task.random_nodes(0.8, np.random.default_rng([s.seed, point["mask"]]))
    told = {"lam": point["lam"], "loss": point["loss"], "train": train}
    lowest = optimum(task, told)
    start = 0.5 * train.size if point["loss"] == "mse" else train.size * math.log(task.n_classes)
    zero = lowest < ZERO * start
    scale = start if zero else lowest
    rows: list[Row] = []
    for method, how in METHODS[point["loss"]].items():
        if method not in QUICK_ONES and point["mask"] >= s.slow:
            continue
        arguments = {key: value for key, value in how.items() if key != "rates"}
        rates = RATES if "rates" in how else (None,)
        runs = []
        for rate in rates:
            rng = np.random.default_rng([s.seed, point["mask"], 1])
            more = {} if rate is None else {"learning_rate": rate}
            goal = lowest + GAPS[-1] * scale
            found = task.fit(**told, **arguments, **more, stop_below=goal, tol=1e-10, max_iterations=s.most, rng=rng)
            runs.append((rate, found, (np.minimum.accumulate(found.losses) - lowest) / scale))
        # the rate that got furthest, and of those that got all the way the fastest
        rate, found, gaps = min(runs, key=lambda run: (max(float(run[2][-1]), GAPS[-1]), run[2].size))
        row: Row = {"kind": "run", "method": method, "rate": rate, "zero": zero, "final": float(gaps[-1])}
        for gap in GAPS:
            at = int(np.argmax(gaps <= gap)) if (gaps <= gap * (1 + 1e-9)).any() else None
            row |= {f"iterations {gap:g}": at, f"seconds {gap:g}": None if at is None else float(found.seconds[at])}
        row |= {"products": found.products, "evaluations": found.evaluations + found.hessian_products,
                "condition": found.condition, "optimizer": found.optimizer, "preconditioner": found.preconditioner}  # fmt: skip
        rows.append(row)
        if point["mask"] == 0:
            shown = np.unique(np.round(np.geomspace(1, gaps.size, 60)).astype(int) - 1)
            rows += [
                {
                    "kind": "curve",
                    "method": method,
                    "iteration": int(i),
                    "second": float(found.seconds[i]),
                    "gap": float(gaps[i]),
                }
                for i in shown
            ]
    return rows


def optimum(task: h.Loaded, told: dict[str, Any]) -> float:
    """The smallest loss, by accurate solves; that of separable classes is zero."""
    if told["loss"] == "mse":
        return task.fit(**told, optimizer="direct", tol=1e-12, inner_tol=1e-11).loss
    if told["train"].size < 2 * task.n_features:
        return 0.0
    return task.fit(**told, preconditioner="exact", tol=1e-13, inner_tol=1e-10).loss


def draw(s: Settings, rows: list[Row]) -> Any:
    """Gap against iterations, first mask: a row a loss and lam, a column a data set."""
    import matplotlib.pyplot as plt

    lines = [(loss, lam) for loss in s.losses for lam in s.lams]
    shape = len(lines), len(s.datasets)
    figure, axes = plt.subplots(*shape, figsize=(4.6 * shape[1], 3.0 * shape[0]), layout="constrained", squeeze=False)
    for line, (loss, lam) in zip(axes, lines, strict=True):
        for axis, dataset in zip(line, s.datasets, strict=True):
            here = [r for r in rows if (r["dataset"], r["loss"], r["lam"], r["kind"]) == (dataset, loss, lam, "curve")]
            for k, method in enumerate(METHODS[loss]):
                mine = [r for r in here if r["method"] == method]
                style = "-" if method in QUICK_ONES or "Algorithm" in method or "preconditioned" in method else ":"
                axis.plot([r["iteration"] for r in mine], [max(r["gap"], 1e-9) for r in mine], style, color=f"C{k % 10}",
                          label=method, linewidth=1.2)  # fmt: skip
            axis.set(xscale="symlog", yscale="log", ylim=(1e-7, None), title=f"{dataset}, {loss}, λ = {lam:g}")
            axis.tick_params(labelsize=7)
        line[0].set_ylabel("gap to the optimum, relative", fontsize=8)
        line[-1].legend(fontsize=5.5)
    for axis in axes[-1]:
        axis.set_xlabel("iterations (evaluations)")
    return figure


def median(rows: list[Row], key: str) -> float:
    """Over masks; a run that did not get there counts as infinite."""
    values = [math.inf if r[key] is None else float(r[key]) for r in rows]
    return float(np.median(values)) if values else math.inf


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    runs = [r for r in rows if r["kind"] == "run"]
    ten, fast, told = [], [], []
    for dataset in s.datasets:
        for loss in s.losses:
            ours, plain = "Algorithm 1, the paper's rates" if loss == "mse" else "Adam, preconditioned", "Adam"
            for lam in s.lams:
                here = [r for r in runs if (r["dataset"], r["loss"], r["lam"]) == (dataset, loss, lam)]
                a, b = (median([r for r in here if r["method"] == m], "iterations 0.001") for m in (ours, plain))
                best = median([r for r in here if r["method"] == "auto"], "iterations 0.001")
                ten.append(a <= 10)
                fast.append(a < b)
                told.append(f"{dataset} {loss} λ {lam:g}: {a:g} ({ours}), {b:g} ({plain}), {best:g} (auto)")
    said = "Iterations to a relative gap of 1e-3: " + "; ".join(told) + "."
    return [
        Verdict("ten", grade(ten), said),
        Verdict("faster", grade(fast), said),
        Verdict("printed", *_printed(runs)),
    ]


def _printed(runs: list[Row]) -> tuple[Finding, str]:
    mine = [r for r in runs if r["method"] == "Algorithm 1, as printed"]
    return grade([r["final"] < 1e-3 for r in mine]), "Gap at the end: " + "; ".join(
        f"{r['dataset']} λ {r['lam']:g}: {r['final']:.2g}" for r in mine if r["mask"] == 0
    ) + "."


FIGURE = Figure(
    "herta-loss", "Training loss", Settings(),
    Settings(datasets=("cora",), masks=2, slow=1, most=60),
    points, compute, draw, judge, helpers=("_herta",), apart_from=("design", "baselines"), versions=("torch",),
)  # fmt: skip
