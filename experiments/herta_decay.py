"""Test accuracy at the optimum, with and without weight decay: what early stopping does for optimizers that never get there."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _herta as h
from experiments._figure import Figure, Point, Row, Verdict, chosen, grade, mean_and_error

#: Those of which the paper says so.
SMALL = ("cora", "citeseer")


@dataclass(frozen=True)
class Settings:
    """The splits and lams of herta-accuracy; weight decay in the place of learning rate, dropout and early stopping."""

    datasets: tuple[str, ...] = (*SMALL, "pubmed")
    losses: tuple[str, ...] = ("mse", "ce")
    lams: tuple[float, ...] = (0.0, 1.0, 2.0, 10.0, 20.0, 100.0)
    decays: tuple[float, ...] = (0.0, 0.01, 0.1, 1.0, 10.0)
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
    rows: list[Row] = []
    for loss, decay in itertools.product(s.losses, s.decays):
        result = task.fit(lam=point["lam"], loss=loss, train=train, weight_decay=decay, tol=1e-4,
                         rng=np.random.default_rng([s.seed, point["mask"], 1]))  # fmt: skip
        right = result.predict() == task.labels
        rows.append({
            "loss": loss, "decay": decay, "validation": float(right[stored].mean()), "test": float(right[test].mean()),
            "optimizer": result.optimizer, "status": result.status.name, "seconds": float(result.seconds[-1]),
        })  # fmt: skip
    return rows


def selected(masks: int, rows: list[Row], **keys: Any) -> list[Row]:
    """Per mask the row with the best validation accuracy; among equals the one with more decay, then smaller lam."""
    result = []
    for mask in range(masks):
        mine = chosen(rows, mask=mask, **keys)
        result += [max(mine, key=lambda row: (row["validation"], row["decay"], -row["lam"]))] if mine else []
    return result


def draw(s: Settings, rows: list[Row]) -> Any:
    """Test accuracy against weight decay, lam chosen by validation at each."""
    import matplotlib.pyplot as plt

    shape = 1, len(s.datasets)
    figure, axes = plt.subplots(*shape, figsize=(4.0 * shape[1], 3.4), layout="constrained", squeeze=False)
    smallest = min((decay for decay in s.decays if decay), default=1.0)
    for axis, dataset in zip(axes[0], s.datasets, strict=True):
        for loss in s.losses:
            tests = [
                [100 * row["test"] for row in selected(s.masks, rows, dataset=dataset, loss=loss, decay=decay)]
                for decay in s.decays
            ]
            axis.errorbar(s.decays, np.mean(tests, axis=1), np.std(tests, axis=1), fmt="o-", capsize=3, label=loss)
        axis.set(title=dataset, xlabel="weight decay")
        axis.set_xscale("symlog", linthresh=smallest)
    axes[0, 0].set_ylabel("test accuracy at the optimum [%]")
    axes[0, 0].legend()
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    better, options = [], []
    for dataset, loss in itertools.product(s.datasets, s.losses):
        here = {"dataset": dataset, "loss": loss}
        without, best = (
            {row["mask"]: 100 * row["test"] for row in selected(s.masks, rows, **here, **retained)}
            for retained in ({"decay": 0.0}, {})
        )
        difference, error = mean_and_error([best[mask] - without[mask] for mask in best])
        if dataset in SMALL:
            better.append(difference > 2 * error)
        means = (np.mean(list(tests.values())) for tests in (without, best))
        options.append(
            "{} {}: {:.1f} without, {:.1f} with it ({:+.1f} ± {:.1f})".format(dataset, loss, *means, difference, error)
        )
    return [
        Verdict(
            "regularized", grade(better), f"Test accuracy at the optimum in %, mean of {s.masks} masks, weight decay chosen by "
            f"validation: {'; '.join(options)}.", f"± is the standard error; {' and '.join(SMALL)} count.",
        )
    ]  # fmt: skip


FIGURE = Figure(
    "herta-decay", "Test accuracy at the optimum", Settings(),
    Settings(datasets=("cora",), lams=(1.0, 10.0), decays=(0.0, 1.0), masks=2),
    points, compute, draw, judge, **h.PARTS,
)  # fmt: skip
