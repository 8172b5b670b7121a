"""The same noise with rows divided by their signed sum, as published."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from experiments import _nodes as n
from experiments import gnn_noise
from experiments._figure import Figure, Row, Verdict
from experiments.gnn_noise import Settings

SIGNED = Settings(rows="signed-sum", models=(*n.EIGHT, n.EXACT))


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    noisy = [row for row in rows if row["kind"] == "noise"]
    why = "Published means are of 100 runs; the selection rule there is not stated, here it is the best validation accuracy."
    return [gnn_noise.judge_best(s, rows), n.judged("table", noisy, "gnn-noise-signed", why=why)]


PARTS: dict[str, Any] = {**n.PARTS, "helpers": ("_nodes", "gnn_noise")}
FIGURE = Figure(
    "gnn-noise-signed", "Gaussian noise on features, rows divided by their signed sum, as published", SIGNED,
    replace(gnn_noise.FIGURE.quick, rows="signed-sum"),
    gnn_noise.points, gnn_noise.compute, gnn_noise.draw, judge, **PARTS,
)  # fmt: skip
