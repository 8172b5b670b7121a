"""Training at the size of ogbn-arxiv: on made-up graphs, and on ogbn-arxiv and Flickr where a user has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import nareg
from experiments import _herta as h
from experiments._figure import Figure, Point, Row, Verdict, chosen, grade, instead
from experiments.herta_loss import METHODS, PLAIN, QUICK_ONES, measured, panels
from nareg.errors import DatasetNotFoundError
from nareg.gnn import Adjacency

#: What a user may have.
OWN = ("ogbn-arxiv", "flickr")
#: So many features make a matrix a class too dear: 40 factorizations of half a minute each, a few times over.
WIDE = 1000
#: Lengths of the made-up features' columns, from and to.
LENGTHS = 1.0, 30.0


@dataclass(frozen=True)
class Settings:
    """Made-up graphs with the nodes, edges (about), and classes of ogbn-arxiv; one with more features at the first lam only."""

    features: tuple[int, ...] = (128, 2000)
    nodes: int = 169_343
    degree: float = 14.2
    classes: int = 40
    losses: tuple[str, ...] = ("mse", "ce")
    lams: tuple[float, ...] = (1.0, 20.0)
    share: float = 0.8
    most: int = 300
    seed: int = 0
    device: str | None = None


def made_up(features: int) -> str:
    """Name of a made-up graph."""
    return f"made up, F = {features}"


def points(s: Settings) -> list[Point]:
    narrow = [
        {"dataset": dataset, "loss": loss, "lam": lam, "features": features}
        for dataset, features in [(made_up(s.features[0]), s.features[0]), *((name, 0) for name in OWN)]
        for loss in s.losses
        for lam in s.lams
    ]
    return narrow + [
        {"dataset": made_up(features), "loss": loss, "lam": s.lams[0], "features": features}
        for features in s.features[1:]
        for loss in s.losses
    ]


def generated(s: Settings, features: int) -> h.Loaded:
    """A power-law graph, features of different lengths, classes of a noisy linear model."""
    rng = np.random.default_rng([s.seed, features])
    graph = Adjacency(nareg.graphs.power_law(s.nodes, mean_degree=s.degree, rng=rng))
    lengths = np.geomspace(*LENGTHS, features)
    X = rng.standard_normal((s.nodes, features)) * lengths
    scores = X @ (rng.standard_normal((features, s.classes)) / lengths[:, None]) / np.sqrt(features)
    return h.Loaded(graph, X, (scores + 0.5 * rng.gumbel(size=scores.shape)).argmax(axis=1), s.device)


def compute(s: Settings, point: Point) -> list[Row]:
    loss = point["loss"]
    try:
        task = generated(s, point["features"]) if point["features"] else h.loaded(point["dataset"], s.device)
    except DatasetNotFoundError:
        return [{"kind": "absent", "refused": f"not run: {point['dataset']} is not here"}]
    (train,) = task.parts((s.share,), np.random.default_rng([s.seed, 1]))
    methods = [
        method for method, how in METHODS[loss].items()
        if method in QUICK_ONES and not (how.get("preconditioner") == "blocks" and task.n_features > WIDE)
    ]  # fmt: skip
    return measured(
        task, methods, loss=loss, lam=point["lam"], train=train, most=s.most, seed=[s.seed, 2], with_curves=True
    )  # fmt: skip


def datasets(rows: list[Row]) -> tuple[str, ...]:
    """Those that were run."""
    return tuple(dict.fromkeys(row["dataset"] for row in chosen(rows, kind="run")))


def draw(s: Settings, rows: list[Row]) -> Any:
    """Gap against iterations and seconds."""
    return panels(rows, datasets(rows), s.losses, s.lams)


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    runs = chosen(rows, kind="run")
    ours = {"mse": "sketched PCG", "ce": "sketched L-BFGS"}

    def compared(names: tuple[str, ...]) -> tuple[list[bool], str]:
        holds, said = [], []
        for point in points(s):
            dataset, loss, lam = point["dataset"], point["loss"], point["lam"]
            here = chosen(runs, dataset=dataset, loss=loss, lam=lam)
            if dataset not in names or not here:
                continue
            counts = {r["method"]: h.median([r], "iterations 0.001") for r in here}
            plain = min(counts[method] for method in counts if method in PLAIN and method != "direct")
            holds.append(counts[ours[loss]] <= 10 and counts[ours[loss]] < plain)
            said.append(
                f"{dataset} {loss} λ {lam:g}: {h.said(counts[ours[loss]], s.most)} / {h.said(plain, s.most)}; "
                f"auto {h.said(counts['auto'], s.most)}"
            )
        return holds, "; ".join(said)

    own, about = compared(OWN)
    _, generated_ones = compared(tuple(made_up(features) for features in s.features))
    counted = "; ".join(part for part in (about, generated_ones) if part)
    text = f"Iterations to a relative gap of 1e-3, sketched / the best without a preconditioner: {counted}."
    missing = " and ".join(row["dataset"] for row in chosen(rows, kind="absent", loss=s.losses[0], lam=s.lams[0]))
    verdict = Verdict("size", grade(own), text, f"Not run: {missing}, not here." if missing else "")
    return [instead(verdict, f"on {' and '.join(name for name in OWN if name in datasets(rows))} alone" if missing else "")]


FIGURE = Figure(
    "herta-large", "Training at the size of ogbn-arxiv", Settings(),
    Settings(features=(16, 32), nodes=2000, classes=5, lams=(1.0,), most=50),
    points, compute, draw, judge, **h.PARTS | {"helpers": ("_herta", "_algorithm1", "herta_loss")},
)  # fmt: skip
