"""Random samples of PM2.5 and sea-surface temperature without noise: reconstruction against GraphTRSS."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import _graphtrss as g
from experiments._figure import Figure, Point, Row, Verdict, grade

KIND = g.RECONSTRUCTION
#: Aims: data set -> largest ratio to GraphTRSS, from which density on.
AIMS = {"pm25-california": (0.90, 0.0), "sea-surface-temperature": (0.75, 0.3)}


def points(s: g.Settings) -> list[Point]:
    return g.points(s, KIND)


def compute(s: g.Settings, point: Point) -> list[Row]:
    return g.compute(s, point, KIND)


def draw(s: g.Settings, rows: list[Row]) -> Any:
    return g.draw(s, rows, KIND)


def judge(s: g.Settings, rows: list[Row]) -> list[Verdict]:
    holds, texts = [], []
    for dataset in s.datasets:
        most, start = AIMS[dataset]
        at = g.levels(dataset, KIND, s.every)
        ratios = g.means(rows, dataset, g.OURS, at) / g.printed(dataset, KIND, s.every, "GraphTRSS")
        inside = ratios[np.array(at) >= start]
        holds.append(inside.max() <= most)
        texts.append(
            f"{dataset}: {', '.join(f'{r:.2f}' for r in ratios)} at densities {at[0]:g} to {at[-1]:g}, "
            f"mean {ratios.mean():.3f} (aim {most:g} from density {start or at[0]:g} on)"
        )
    return [
        g.reproduced(s, rows, KIND),
        g.below(s, rows, KIND, "below", lambda d: g.printed(d, KIND, s.every, "GraphTRSS"), "GraphTRSS as published"),
        Verdict("ratio", grade(holds, aim=True), "; ".join(texts) + "."),
    ]


FIGURE = Figure(
    "time-graphtrss", "Reconstruction from random samples", g.Settings(), g.Settings(masks=1, peer_masks=2, every=4), points,
    compute, draw, judge, **g.PARTS,
)  # fmt: skip
