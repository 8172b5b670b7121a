"""Tables of the experiments on training, in Markdown, for the documentation."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from experiments import _herta as h
from experiments import herta_accuracy, herta_decay, herta_effects, herta_large, herta_loss, herta_solver, herta_sparsifier
from experiments._figure import Row, chosen, column
from experiments._tables import markdown_head

#: Draws in multiples of the edges that the table of sparsified graphs shows.
DRAWS = (0.5, 2.0)


def parts(options: dict[str, dict[str, Any]], rows: dict[str, list[Row]]) -> dict[str, str]:
    """Tables of those experiments that were run, by the name of their mark."""
    makers = {
        "herta-loss": loss,
        "herta-large": large,
        "herta-accuracy": accuracy,
        "herta-decay": decay,
        "herta-effects": effects,
        "herta-sparsifier": sparsifier,
        "herta-solver": solver,
    }
    result: dict[str, str] = {}
    for name, make in makers.items():
        if name in rows:
            result |= make(options[name]["settings"], rows[name])
    for name in rows:
        s = options[name]["settings"]
        slow = f" (the slow methods: {s['slow']})" if "slow" in s else ""
        average = "mean ± standard deviation" if name in ("herta-accuracy", "herta-decay") else "median"
        runs = f"{average} of {s['masks']} masks{slow}; " if "masks" in s else ""
        result[f"{name}-runs"] = f"{runs}seeds from {s['seed']}, commit `{options[name]['commit']}`.".capitalize()
    return result


def loss(s: dict[str, Any], rows: list[Row]) -> dict[str, str]:
    """Iterations of every method, and what "auto" takes against the best baseline and the best of all others."""
    runs, result = chosen(rows, kind="run"), {}
    for kind in s["losses"]:
        columns = list(itertools.product(s["datasets"], s["lams"]))
        lines = markdown_head(["method", *(f"{dataset} λ = {lam:g}" for dataset, lam in columns)])
        for method in herta_loss.METHODS[kind]:
            cells = []
            for dataset, lam in columns:
                mine = chosen(runs, loss=kind, dataset=dataset, lam=lam, method=method)
                cells.append(" / ".join(count(h.median(mine, f"iterations {gap:g}")) for gap in (1e-3, 1e-6)))
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
        result[f"loss-{kind}"] = "\n".join(lines)
    lines = markdown_head(["", "auto took", "seconds", "products", "best baseline", "best of all others"])
    for kind, dataset, lam in itertools.product(s["losses"], s["datasets"], s["lams"]):
        here = chosen(runs, loss=kind, dataset=dataset, lam=lam)
        seconds = {m: h.median(chosen(here, method=m), "seconds 1e-06") for m in herta_loss.METHODS[kind]}
        auto = seconds.pop("auto")
        cells = []
        for among in ([m for m in seconds if m in herta_loss.PLAIN], seconds):
            best = min(among, key=lambda m: seconds[m])
            there, made = math.isfinite(seconds[best]), h.median(chosen(here, method=best), "products")
            cell = f"{best} {seconds[best]:.2f} ({auto / seconds[best]:.2f}), {made:,.0f}"
            cells.append(cell if there else f"none in {s['most']}")
        (first, *_), products = chosen(here, method="auto"), h.median(chosen(here, method="auto"), "products")
        lines.append(
            f"| {dataset}, {kind}, λ = {lam:g} | {first['optimizer']}, {first['preconditioner']} | {auto:.2f} | "
            f"{products:,.0f} | " + " | ".join(cells) + " |"
        )
    return result | {"loss-seconds": "\n".join(lines)}


def count(number: float) -> str:
    """A median count."""
    return "–" if math.isinf(number) else f"{number:g}"


def large(s: dict[str, Any], rows: list[Row]) -> dict[str, str]:
    """Seconds and iterations of every method on graphs of ogbn-arxiv's size, and seconds over those of the fastest."""
    result = {}
    for kind in s["losses"]:
        runs = chosen(rows, kind="run", loss=kind)
        columns = [(dataset, lam) for dataset in herta_large.datasets(runs) for lam in s["lams"]]
        columns = [(dataset, lam) for dataset, lam in columns if chosen(runs, dataset=dataset, lam=lam)]
        lines = markdown_head(["method", *(f"{dataset}, λ = {lam:g}" for dataset, lam in columns)])
        fastest = {where: min(h.median([row], "seconds 1e-06") for row in chosen(runs, dataset=where[0], lam=where[1]))
                   for where in columns}  # fmt: skip
        for method in dict.fromkeys(row["method"] for row in runs):
            cells = []
            for dataset, lam in columns:
                mine = chosen(runs, dataset=dataset, lam=lam, method=method)
                seconds, steps = h.median(mine, "seconds 1e-06"), h.median(mine, "iterations 1e-06")
                over = seconds / fastest[dataset, lam]
                there = f"{seconds:.3g} s ({over:.2f}), {steps:g}" if math.isfinite(seconds) else f"not in {s['most']}"
                cells.append(there if mine else "not run")
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
        result[f"large-{kind}"] = "\n".join(lines)
    return result


def accuracy(s: dict[str, Any], rows: list[Row]) -> dict[str, str]:
    """Test accuracy of the chosen configurations and when they had it."""
    columns = list(itertools.product(s["datasets"], s["losses"]))
    lines = markdown_head(["method", *(f"{dataset}, {kind}" for dataset, kind in columns)])
    for method in herta_accuracy.METHODS:
        cells = []
        for dataset, kind in columns:
            mine = herta_accuracy.selected(s["masks"], rows, dataset=dataset, loss=kind, method=method)
            cells.append(f"{spread(mine)} ({np.median(column(mine, 'epoch')):.0f})")
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return {"accuracy-table": "\n".join(lines)}


def spread(rows: list[Row]) -> str:
    """Test accuracy in per cent, mean and standard deviation."""
    test = 100 * np.array(column(rows, "test"))
    return f"{test.mean():.1f} ± {test.std(ddof=1):.1f}"


def decay(s: dict[str, Any], rows: list[Row]) -> dict[str, str]:
    """Test accuracy at the optimum, without weight decay and with what validation chose of it."""
    columns = list(itertools.product(s["datasets"], s["losses"]))
    lines = markdown_head(["weight decay", *(f"{dataset}, {kind}" for dataset, kind in columns)])
    ways: list[tuple[str, dict[str, Any]]] = [(f"{decay:g}", {"decay": decay}) for decay in s["decays"]]
    for label, retained in [*ways, ("by validation", {})]:
        cells = []
        for dataset, kind in columns:
            mine = herta_decay.selected(s["masks"], rows, dataset=dataset, loss=kind, **retained)
            cells.append(spread(mine))
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return {"decay-table": "\n".join(lines)}


def effects(s: dict[str, Any], rows: list[Row]) -> dict[str, str]:
    """Condition number and iterations for every effect."""
    columns = list(itertools.product(s["datasets"], s["lams"]))
    lines = markdown_head(["", *(f"{dataset} λ = {lam:g}" for dataset, lam in columns)])
    ways: list[tuple[str, dict[str, Any]]] = [
        ("training rows, whole graph", {"effect": "mask", "value": herta_effects.MASKED}),
        ("all rows, as printed", {"effect": "mask", "value": herta_effects.UNMASKED}),
        *((f"sketch of {size} F rows", {"effect": "sketch", "value": float(size)}) for size in herta_effects.SIZES),
        *(
            (f"sparsified, {d:g} draw{'s' * (d > 1)} an edge", {"effect": "edges", "draws": d})
            for d in herta_effects.DRAWS
            if d > 0
        ),
        *((f"ridge {ridge:g}", {"effect": "ridge", "value": ridge}) for ridge in herta_effects.RIDGES),
    ]
    for label, keys in ways:
        cells = []
        for dataset, lam in columns:
            mine = chosen(rows, dataset=dataset, lam=lam, **keys)
            options = f"{h.median(mine, 'condition'):.3g}: {count(h.median(mine, 'iterations'))}" if mine else ""
            cells.append(options)
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return {"effects-table": "\n".join(lines)}


def sparsifier(s: dict[str, Any], rows: list[Row]) -> dict[str, str]:
    """Share of the edges kept and measured error, for some numbers of draws; the picture has all."""
    lines = markdown_head(["graph", "draws", *herta_sparsifier.LABELS.values()])
    for graph, lam, draws in itertools.product(s["graphs"], s["lams"], DRAWS):
        cells = []
        for scores in herta_sparsifier.SCORES:
            mine = chosen(rows, what="compared", graph=graph, lam=lam, draws=draws, scores=scores)
            cells.append(f"{np.mean(column(mine, 'kept')):.0%}: {np.mean(column(mine, 'error')):.2g}")
        lines.append(f"| {graph}, λ = {lam:g} | {draws:g} m | " + " | ".join(cells) + " |")
    return {"sparsifier-table": "\n".join(lines)}


def solver(s: dict[str, Any], rows: list[Row]) -> dict[str, str]:
    """Products and seconds of solves, and seconds of trainings, for every lam."""
    lines = markdown_head(["", *(f"λ = {lam:g}" for lam in s["lams"])])
    for graph, name in itertools.product(s["graphs"], herta_solver.SOLVERS):
        mine = chosen(rows, graph=graph, solver=name, what=herta_solver.SOLVE)
        cells = [f"{row['products']:.0f} ({row['seconds']:.2g} s)" for row in mine]
        lines.append(f"| {graph}, {herta_solver.LABELS[name]} | " + " | ".join(cells) + " |")
    for graph, name in itertools.product(s["graphs"], herta_solver.SOLVERS):
        mine = chosen(rows, graph=graph, solver=name, what=herta_solver.TRAINING)
        cells = [f"{row['seconds']:.3g} s" for row in mine] + ["not run"] * (len(s["lams"]) - len(mine))
        lines.append(f"| training on {graph}, {herta_solver.LABELS[name]} | " + " | ".join(cells) + " |")
    return {"solver-table": "\n".join(lines)}
