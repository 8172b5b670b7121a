"""The same noise with rows divided by their signed sum, as published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import hypot
from typing import Any

from experiments import _nodes as n
from experiments import gnn_noise
from experiments._figure import Figure, Finding, Row, Verdict, chosen, grade
from experiments.gnn_noise import Settings

SIGNED = Settings(rows="signed-sum", models=(*n.EIGHT, n.EXACT))


def lead(cells: Sequence[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Rival -> cells with RNGC's mean above its own, and those of them beyond the 95 % intervals of both means.

    A cell has a summary for each model.
    """
    rivals = [m for m in cells[0] if m in n.EIGHT and m not in (n.NGC, n.RNGC)] if cells else []
    result = {}
    for rival in rivals:
        gaps = [
            (cell[n.RNGC].mean - cell[rival].mean, hypot(cell[n.RNGC].half_width, cell[rival].half_width)) for cell in cells
        ]
        result[rival] = sum(gap > 0 for gap, _ in gaps), sum(gap > width for gap, width in gaps)
    return result


def judge_lead(cells: Sequence[dict[str, Any]]) -> tuple[Finding, str]:
    """The finding, for which each rival is a part of the claim, and the counts."""
    counts = lead(cells)
    listed = ", ".join(f"{rival} in {above} ({beyond})" for rival, (above, beyond) in counts.items())
    text = f"RNGC's mean is above that of a rival (beyond the 95 % intervals of both), of {len(cells)} cells: {listed}. "
    return grade(beyond == len(cells) for _, beyond in counts.values()), text


def judge_best(s: Settings, rows: list[Row]) -> Verdict:
    """The paper's main claim, as its rows are: rival by rival."""
    best = gnn_noise.judge_best(s, rows)
    if best.finding is Finding.NOT_RUN:
        return best
    cells = [
        {m: n.cell(chosen(rows, dataset=d, level=gnn_noise.level_of(d, level), kind="noise"), model=m) for m in s.models}
        for d in s.datasets for level in s.levels
    ]  # fmt: skip
    finding, text = judge_lead(cells)
    return replace(best, finding=finding, measured=text + best.measured)


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    noisy = [row for row in rows if row["kind"] == "noise"]
    why = "Published means are of 100 runs; the selection rule there is not stated, here it is the best validation accuracy."
    return [judge_best(s, rows), n.judged("table", noisy, "gnn-noise-signed", why=why)]


PARTS: dict[str, Any] = {**n.PARTS, "helpers": (*n.HELPERS, "gnn_noise")}
FIGURE = Figure(
    "gnn-noise-signed", "Gaussian noise on features, rows divided by their signed sum, as published", SIGNED,
    replace(gnn_noise.FIGURE.quick, rows="signed-sum"),
    gnn_noise.points, gnn_noise.compute, gnn_noise.draw, judge, **PARTS,
)  # fmt: skip
