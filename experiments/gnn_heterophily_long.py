"""Wisconsin and Actor with the published 1,000 epochs for NGC and RNGC, beside the model that is ahead of them there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from experiments import _nodes as n
from experiments import gnn_heterophily
from experiments._figure import Figure, Row, Verdict
from experiments.gnn_heterophily import Settings

LONG = Settings(
    datasets=("wisconsin", "actor"), splits=("random",), models=(n.MLP, n.NGC, n.RNGC), filter_epochs=1000
)  # fmt: skip


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    return [gnn_heterophily.judge_matches(s, rows)]


PARTS: dict[str, Any] = {**n.PARTS, "helpers": (*n.HELPERS, "gnn_heterophily")}
FIGURE = Figure(
    "gnn-heterophily-long", "Unlike neighbors, the published epochs", LONG,
    replace(LONG, datasets=("wisconsin",), runs=2, epochs=60, filter_epochs=60),
    gnn_heterophily.points, gnn_heterophily.compute, gnn_heterophily.draw, judge, **PARTS,
)  # fmt: skip
