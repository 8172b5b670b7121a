"""Test accuracy with the paper's grid: learning rate, dropout and lam chosen by validation, with and without preconditioner."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _herta as h
from experiments._figure import Figure, Point, Row, Verdict, chosen, grade, instead, mean_and_error

HERTA, ADAM, AUTO = "HERTA (Adam)", "Adam", "auto"
METHODS = (HERTA, ADAM, AUTO)
#: More changes than so many of more than so much in validation accuracy from one epoch to the next: left out (Appendix E).
OSCILLATIONS, JUMP = 10, 0.05
#: Data sets of the paper's Figures 3, 12, 13 and 14.
PUBLISHED = ("ogbn-arxiv", "pubmed", "flickr", "cora", "citeseer")


@dataclass(frozen=True)
class Settings:
    """80 / 10 / 10 % of the labeled nodes, ``masks`` times at random; the paper's grid. "auto" has lam alone to choose."""

    datasets: tuple[str, ...] = ("cora", "citeseer", "pubmed")
    losses: tuple[str, ...] = ("mse", "ce")
    lams: tuple[float, ...] = (0.0, 1.0, 2.0, 10.0, 20.0, 100.0)
    rates: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0, 10.0)
    dropouts: tuple[float, ...] = (0.0, 0.8)
    epochs: int = 100
    masks: int = 3
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    return [
        {"dataset": dataset, "lam": lam, "mask": mask}
        for dataset, lam, mask in itertools.product(s.datasets, s.lams, range(s.masks))
    ]


def compute(s: Settings, point: Point) -> list[Row]:
    task = h.loaded(point["dataset"], s.device)
    train, stored, test = task.parts((0.8, 0.1, 0.1), np.random.default_rng([s.seed, point["mask"]]))
    seed = [s.seed, point["mask"], 1]
    P, built = task.built("adam", lam=point["lam"], train=train, seed=seed)  # for all learning rates, and for both losses
    ways: list[tuple[str, float | None, float, dict[str, Any]]] = [(AUTO, None, 0.0, {"max_iterations": 500})]
    for lr, dropout in itertools.product(s.rates, s.dropouts):
        adam: dict[str, Any] = {"optimizer": "adam", "learning_rate": lr, "dropout": dropout, "max_iterations": s.epochs}
        ways += [(name, lr, dropout, {**adam, "preconditioner": how}) for name, how in ((HERTA, P), (ADAM, "none"))]
    rows: list[Row] = []
    for loss, (method, rate, dropout, how) in itertools.product(s.losses, ways):
        result = task.fit(
            lam=point["lam"], loss=loss, train=train, validation=stored, tol=1e-4, patience=how["max_iterations"],
            rng=np.random.default_rng(seed), **how,
        )  # fmt: skip
        curve = result.validation
        assert curve is not None
        best = int(curve.argmax())
        rows.append({
            "loss": loss, "method": method, "rate": rate, "dropout": dropout, "validation": float(curve[best]), "epoch": best,
            "test": float((result.predict()[test] == task.labels[test]).mean()),
            "oscillates": int((np.abs(np.diff(curve)) > JUMP).sum() > OSCILLATIONS),
            "seconds": float(result.seconds[min(best, result.seconds.size - 1)]) + (built if method == HERTA else 0.0),
            "status": result.status.name, "curve": ",".join(f"{value:.4f}" for value in curve[: s.epochs + 1]),
        })  # fmt: skip
    return rows


def selected(masks: int, rows: list[Row], **keys: Any) -> list[Row]:
    """Per mask the configuration with the best validation accuracy, of those that do not oscillate."""
    result = []
    for mask in range(masks):
        mine = [row for row in chosen(rows, mask=mask, **keys) if not row["oscillates"] or row["method"] == AUTO]
        result += [max(mine, key=lambda row: (row["validation"], -row["epoch"]))] if mine else []
    return result


def draw(s: Settings, rows: list[Row]) -> Any:
    """Validation accuracy of the chosen configurations, first mask, against epochs."""
    import matplotlib.pyplot as plt

    shape = len(s.losses), len(s.datasets)
    figure, axes = plt.subplots(*shape, figsize=(3.8 * shape[1], 3.0 * shape[0]), layout="constrained", squeeze=False)
    for (i, loss), (j, dataset) in itertools.product(enumerate(s.losses), enumerate(s.datasets)):
        axis = axes[i, j]
        for k, method in enumerate(METHODS):
            (row, *_) = selected(s.masks, rows, dataset=dataset, loss=loss, method=method)
            curve = 100 * np.array([float(value) for value in row["curve"].split(",")])
            axis.plot(np.arange(curve.size), curve, color=f"C{k}", label=method)
            axis.plot(min(row["epoch"], s.epochs), 100 * row["validation"], "o", color=f"C{k}")
        axis.set(title=f"{dataset}, {loss}", xscale="symlog", xlim=(0, None))
    for axis in axes[-1]:
        axis.set_xlabel("epochs (evaluations)")
    for axis in axes[:, 0]:
        axis.set_ylabel("validation accuracy [%]")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(METHODS), fontsize=8)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    better, options = [], []
    for dataset, loss in itertools.product(s.datasets, s.losses):
        best = {m: selected(s.masks, rows, dataset=dataset, loss=loss, method=m) for m in METHODS}
        tests = {m: {row["mask"]: 100 * row["test"] for row in best[m]} for m in METHODS}
        both = sorted(set(tests[HERTA]) & set(tests[ADAM]))
        difference, error = mean_and_error([tests[HERTA][mask] - tests[ADAM][mask] for mask in both])
        better.append(difference >= 0 or difference > -2 * error)
        shown = ", ".join(f"{m} {np.mean(list(tests[m].values())):.1f}" for m in METHODS)
        options.append(f"{dataset} {loss}: {shown} (difference {difference:+.1f} ± {error:.1f})")
    absent = " and ".join(name for name in PUBLISHED if name not in s.datasets)
    why = "± is the standard error; not worse is what counts here."
    if absent:
        why += f" The paper's figures have {absent} too: not run (`--set datasets={','.join(PUBLISHED)}`, with your own files)."
    text = f"Test accuracy in %, mean of {s.masks} masks: " + "; ".join(options) + "."
    return [instead(Verdict("accuracy", grade(better), text, why), f"without {absent}" if absent else "")]


FIGURE = Figure(
    "herta-accuracy", "Test accuracy with the paper's grid", Settings(),
    Settings(datasets=("cora",), losses=("ce",), lams=(1.0,), rates=(0.1, 1.0), epochs=10, masks=1),
    points, compute, draw, judge, **h.PARTS,
)  # fmt: skip
