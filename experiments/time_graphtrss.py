"""Random samples of PM2.5 and sea-surface temperature without noise: reconstruction against GraphTRSS."""

from __future__ import annotations

import numpy as np

from experiments import _graphtrss as g
from experiments._figure import Row, Verdict, grade

#: Aims: data set -> largest ratio to GraphTRSS, from which density on.
AIMS = {"pm25-california": (0.90, 0.0), "sea-surface-temperature": (0.75, 0.3)}


def judge(s: g.Settings, rows: list[Row], kind: str) -> list[Verdict]:
    holds, texts = [], []
    for dataset in s.datasets:
        most, start = AIMS[dataset]
        at = g.levels(dataset, kind, s.every)
        ratios = g.means(rows, dataset, g.OURS, at) / g.printed(dataset, kind, s.every, "GraphTRSS")
        inside = ratios[np.array(at) >= start]
        holds.append(inside.max() <= most)
        texts.append(
            f"{dataset}: {', '.join(f'{r:.2f}' for r in ratios)} at densities {at[0]:g} to {at[-1]:g}, "
            f"mean {ratios.mean():.3f} (aim {most:g} from density {start or at[0]:g} on)"
        )
    return [
        g.reproduced(s, rows, kind),
        g.below(s, rows, kind, "below", lambda d: g.printed(d, kind, s.every, "GraphTRSS"), "GraphTRSS as published"),
        Verdict("ratio", grade(holds, aim=True), "; ".join(texts) + "."),
    ]


FIGURE = g.experiment("time-graphtrss", "Reconstruction from random samples", g.RECONSTRUCTION, judge)
