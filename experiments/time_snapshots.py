"""Whole snapshots missing of PM2.5 and sea-surface temperature."""

from __future__ import annotations

from typing import Any

from experiments import _graphtrss as g
from experiments._figure import Figure, Point, Row, Verdict

KIND = g.SNAPSHOTS


def points(s: g.Settings) -> list[Point]:
    return g.points(s, KIND)


def compute(s: g.Settings, point: Point) -> list[Row]:
    return g.compute(s, point, KIND)


def draw(s: g.Settings, rows: list[Row]) -> Any:
    return g.draw(s, rows, KIND)


def judge(s: g.Settings, rows: list[Row]) -> list[Verdict]:
    return [
        g.reproduced(s, rows, KIND),
        g.below(s, rows, KIND, "below", lambda d: g.best_printed(d, KIND, s.every), "the best published RMSE"),
    ]


FIGURE = Figure(
    "time-snapshots",
    "Whole snapshots missing",
    g.Settings(),
    g.Settings(masks=1, peer_masks=2, every=4),
    points,
    compute,
    draw,
    judge,
    **g.PARTS,
)
