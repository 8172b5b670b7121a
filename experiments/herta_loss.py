"""Training loss against iterations and seconds: preconditioned, plain, and the honest baseline without any iteration."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _herta as h
from experiments._figure import Figure, Finding, Point, Row, Verdict, chosen, grade

#: Method -> what herta.fit is told; "rates": once for each of the paper's learning rates, the best of which counts, all with
#: the same preconditioner.
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
        "L-BFGS, a matrix a class": {"optimizer": "lbfgs", "preconditioner": "blocks"},
        "sketched L-BFGS": {"optimizer": "lbfgs", "preconditioner": "sketched"},
        "gradient descent, preconditioned": {"optimizer": "gd", "preconditioner": "sketched", "rates": True},
        "Adam, preconditioned": {"optimizer": "adam", "preconditioner": "sketched", "rates": True},
        "L-BFGS": {"optimizer": "lbfgs", "preconditioner": "none"},
        "gradient descent, the paper's rates": {"optimizer": "gd", "preconditioner": "none", "rates": True},
        "Adam": {"optimizer": "adam", "preconditioner": "none", "rates": True},
    },
}  # fmt: skip
#: Those that are run on every mask; the others on a few.
QUICK_ONES = ("auto", "sketched PCG", "exact L-BFGS", "L-BFGS, a matrix a class", "sketched L-BFGS", "direct", "CG", "L-BFGS")
#: Without a preconditioner.
PLAIN = ("direct", "CG", "L-BFGS", "gradient descent", "gradient descent, the paper's rates", "Adam")
#: The paper's learning rates (Appendix E).
RATES = (0.001, 0.01, 0.1, 1.0, 10.0)
#: Relative gaps whose first iteration is told.
GAPS = (1e-1, 1e-2, 1e-3, 1e-6)
#: An optimum below this share of the start counts as zero: gaps are then relative to the start. (Citeseer's cross-entropy ends
#: at 2 ln 2 or at 0, by whether both of two nodes that nothing tells apart are trained on.)
ZERO = 1e-2
#: Points of a curve that are kept.
SHOWN = 60


@dataclass(frozen=True)
class Settings:
    """80 % of the labeled nodes to train on, ``masks`` times at random; slow methods on the first ``slow`` of them."""

    datasets: tuple[str, ...] = ("cora", "citeseer", "pubmed")
    losses: tuple[str, ...] = ("mse", "ce")
    lams: tuple[float, ...] = (1.0, 20.0)
    masks: int = 10
    slow: int = 1
    most: int = 500
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    return [
        {"dataset": dataset, "loss": loss, "lam": lam, "mask": mask}
        for dataset in s.datasets for loss in s.losses for lam in s.lams for mask in range(s.masks)
    ]  # fmt: skip


def compute(s: Settings, point: Point) -> list[Row]:
    task, loss, mask = h.loaded(point["dataset"], s.device), point["loss"], point["mask"]
    (train,) = task.parts((0.8,), np.random.default_rng([s.seed, mask]))
    methods = [method for method in METHODS[loss] if method in QUICK_ONES or mask < s.slow]
    return measured(
        task, methods, loss=loss, lam=point["lam"], train=train, most=s.most, seed=[s.seed, mask, 1], with_curves=mask == 0
    )  # fmt: skip


def measured(
    task: h.Loaded,
    methods: list[str],
    *,
    loss: str,
    lam: float,
    train: np.ndarray,
    most: int,
    seed: list[int],
    with_curves: bool,
) -> list[Row]:
    """Every method's way to the optimum: a row each, and rows of its curve."""
    options: dict[str, Any] = {"loss": loss, "lam": lam, "train": train}
    lowest, start = task.optimum(**options), task.start(loss=loss, train=train)
    zero = lowest < ZERO * start
    scale = start if zero else lowest
    rows: list[Row] = []
    for method in methods:
        how = METHODS[loss][method]
        arguments: dict[str, Any] = {key: value for key, value in how.items() if key != "rates"}
        runs, built = [], 0.0
        if "rates" in how and how.get("preconditioner") != "none":
            P, built = task.built(how["optimizer"], lam=lam, train=train, seed=seed)
            arguments |= {"optimizer": how["optimizer"].replace("algorithm-1", "gd"), "preconditioner": P}
        for rate in RATES if "rates" in how else (None,):
            step: dict[str, Any] = {} if rate is None else {"learning_rate": rate}
            result = task.fit(
                **options, stop_below=lowest + GAPS[-1] * scale, tol=1e-10, max_iterations=most,
                rng=np.random.default_rng(seed), **arguments, **step,
            )  # fmt: skip
            losses = np.where(np.isfinite(result.losses), result.losses, np.inf)
            runs.append((rate, result, (np.minimum.accumulate(losses) - lowest) / scale))
        # the rate that got furthest, and of those that got all the way the fastest
        rate, result, gaps = min(runs, key=lambda run: (max(float(run[2][-1]), GAPS[-1]), run[2].size))
        last = min(float((result.loss - lowest) / scale), 1e9)
        row: Row = {"kind": "run", "method": method, "rate": rate, "zero": int(zero), "final": float(gaps[-1]), "last": last}
        for gap in GAPS:  # at the best rate for each
            reached = [(first_below(curve, gap), run) for _, run, curve in runs]
            at, run = min(reached, key=lambda pair: math.inf if pair[0] is None else pair[0])
            row |= {f"iterations {gap:g}": at, f"seconds {gap:g}": None if at is None else built + float(run.seconds[at])}
        row |= {
            "products": result.products, "evaluations": result.evaluations + result.hessian_products,
            "condition": result.condition, "optimizer": result.optimizer, "preconditioner": result.preconditioner,
        }  # fmt: skip
        rows.append(row)
        if with_curves:
            for i in np.unique(np.round(np.geomspace(1, gaps.size, SHOWN)).astype(int) - 1):
                where = {"iteration": int(i), "second": built + float(result.seconds[i]), "gap": float(gaps[i])}
                rows.append({"kind": "curve", "method": method, **where})
    return rows


def first_below(gaps: np.ndarray, gap: float) -> int | None:
    """The first iteration with at most this gap."""
    below = gaps <= gap * (1 + 1e-9)
    return int(below.argmax()) if below.any() else None


def draw(s: Settings, rows: list[Row]) -> Any:
    """Gap against iterations and seconds, first mask."""
    return panels(rows, s.datasets, s.losses, s.lams)


def panels(rows: list[Row], datasets: tuple[str, ...], losses: tuple[str, ...], lams: tuple[float, ...]) -> Any:
    """Gap against iterations, and below it against seconds: two rows a loss and lam, a column a data set."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    lines = list(itertools.product(losses, lams, ("iteration", "second")))
    shape = len(lines), len(datasets)
    figure, axes = plt.subplots(*shape, figsize=(4.2 * shape[1] + 2.6, 2.7 * shape[0]), layout="constrained", squeeze=False)
    names = list(dict.fromkeys(method for loss in losses for method in METHODS[loss]))
    colors = dict(zip(names, plt.get_cmap("tab20").colors, strict=False))  # type: ignore[attr-defined]
    seen: dict[str, Any] = {}
    for line, (loss, lam, along) in zip(axes, lines, strict=True):
        for axis, dataset in zip(line, datasets, strict=True):
            for method in METHODS[loss]:
                mine = chosen(rows, dataset=dataset, loss=loss, lam=lam, kind="curve", method=method)
                if not mine:
                    continue
                # "auto" lies on one of the others: a broad line behind them
                style = {"color": "k", "linewidth": 3.5, "alpha": 0.3} if method == "auto" else {"linewidth": 1.3}
                (seen[method],) = axis.plot(
                    [r[along] for r in mine], [max(r["gap"], 1e-9) for r in mine], ":" if method in PLAIN else "-",
                    **{"color": colors[method], "label": method, **style},
                )  # fmt: skip
            if not axis.lines:  # not run
                axis.set_axis_off()
                continue
            axis.set(yscale="log", ylim=(1e-7, None), title=f"{dataset}, {loss}, λ = {lam:g}")
            if along == "iteration":
                axis.set(xscale="symlog", xlim=(0, None), xlabel="iterations (evaluations)")
            else:
                axis.set(xscale="log", xlabel="seconds, one core, building included")
                axis.xaxis.set_minor_formatter(NullFormatter())  # numbers would lie over one another
            axis.tick_params(labelsize=7)
        line[0].set_ylabel("gap to the optimum, relative", fontsize=8)
    figure.legend(seen.values(), seen.keys(), loc="outside right upper", fontsize=7, title="dotted: no preconditioner")
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    runs = chosen(rows, kind="run")
    ten, fast, options = [], [], []
    for dataset in s.datasets:
        for loss in s.losses:
            theirs = {"mse": ("Algorithm 1, the paper's rates", "gradient descent, the paper's rates"),
                      "ce": ("gradient descent, preconditioned", "gradient descent, the paper's rates")}[loss]  # fmt: skip
            pairs = (theirs, ("Adam, preconditioned", "Adam"))
            for lam in s.lams:
                here = chosen(runs, dataset=dataset, loss=loss, lam=lam)
                counts = {m: h.median(chosen(here, method=m), "iterations 0.001") for m in (*sum(pairs, ()), "auto")}
                ten += [counts[ours] <= 10 for ours, _ in pairs]
                fast += [counts[ours] < counts[plain] for ours, plain in pairs]
                compared = ", ".join(f"{h.said(counts[a], s.most)} / {h.said(counts[b], s.most)}" for a, b in pairs)
                options.append(f"{dataset} {loss} λ {lam:g}: {compared}; auto {h.said(counts['auto'], s.most)}")
    text = (
        "Iterations to a relative gap of 1e-3 at the best of the paper's learning rates, preconditioned / plain, gradient "
        "descent, then Adam: " + "; ".join(options) + "."
    )
    return [
        Verdict("ten", grade(ten), text),
        Verdict("faster", grade(fast), f"Preconditioned is ahead in {sum(fast)} of {len(fast)} pairs."),
        Verdict("printed", *_printed(runs)),
    ]


def _printed(runs: list[Row]) -> tuple[Finding, str]:
    mine = chosen(runs, method="Algorithm 1, as printed")
    return grade([r["last"] < 1e-3 for r in mine]), "Relative gap at the end: " + "; ".join(
        f"{r['dataset']} λ {r['lam']:g}: {r['last']:.2g}" for r in mine if r["mask"] == 0
    ) + "."


FIGURE = Figure(
    "herta-loss", "Training loss", Settings(),
    Settings(datasets=("cora",), lams=(1.0,), masks=1, slow=1, most=20),
    points, compute, draw, judge, **h.PARTS,
)  # fmt: skip
