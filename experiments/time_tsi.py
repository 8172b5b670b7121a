"""TSI-Bench, Beijing: 12 sites x 11 quantities, hourly; standardized mean absolute error at hidden values of ten months.

The protocol is the published one: the first 28 months train, with as much hidden as in the test; the test is cut into days, and
a method sees one day at a time. Stations x quantities are one field of 132 nodes: every series has normal scores of its own,
the graph is learned from the training part, and :func:`nareg.spacetime.fit` learns covariance and dynamics. Beside it stands,
as a question of its own, what the same model makes of all ten months at once.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from experiments._figure import Figure, Point, Row, Verdict, column, grade, mean_and_error
from nareg import baselines, graphs, spacetime
from nareg.datasets import data_root
from nareg.errors import InputError

DAY, SITES, QUANTITIES = 24, 12, 11
#: Months of the training part, and those before the test.
TRAIN, BEFORE_TEST = np.datetime64("2015-07"), np.datetime64("2016-05")
#: The best published mean absolute errors, by pattern (TSI-Bench, tables 7 to 16), and a straight line's.
BEST = {
    "10 % points": ("CSDI", 0.102), "50 % points": ("CSDI", 0.144), "90 % points": ("Informer", 0.258),
    "50 % subsequences": ("BRITS", 0.193), "50 % blocks": ("CSDI", 0.181),
}  # fmt: skip
PUBLISHED_LINE = dict(zip(BEST, (0.112, 0.165, 0.366, 0.358, 0.285), strict=True))
LINE, OURS, WHOLE = "linear in time", "nareg.spacetime", "nareg.spacetime, all ten months at once"
POLLUTANTS = 6
#: Length of a hidden run; side of a hidden block, and the factor that the protocol hides a half with.
RUN, SIDE, FACTOR = 18, 6, 0.0055


@dataclass(frozen=True)
class Settings:
    """``hours`` are the last ones of the training part, which the model is fitted to."""

    patterns: tuple[str, ...] = tuple(BEST)
    hours: int = 4000
    draws: int = 1
    seed: int = 0


@cache
def record() -> tuple[np.ndarray, np.ndarray]:
    """Times, and (T, 132) values, site by site, as the protocol orders them."""
    file = data_root() / "files" / "beijing-multisite" / "beijing_multisite.npz"
    if not file.is_file():
        raise InputError(f"{file} is missing: set NAREG_DATA to a folder with files/beijing-multisite.")
    stored = np.load(file)
    values = stored["values"].astype(float).transpose(1, 0, 2)
    times = np.datetime64(str(stored["start"]), "h") + np.arange(len(values))
    return times, values.reshape(len(values), -1)


def hide(shape: tuple[int, int], pattern: str, rng: np.random.Generator) -> np.ndarray:
    """(T, 132) True where values are hidden, day by day."""
    days, features = shape[0] // DAY, shape[1]
    if pattern.endswith("points"):
        return rng.random(shape) < float(pattern.split()[0]) / 100
    hidden = np.zeros((days, features, DAY), dtype=bool)
    run, wide = (RUN, 1) if pattern.endswith("subsequences") else (SIDE, SIDE)
    rate = 0.5 * DAY / RUN if wide == 1 else FACTOR * DAY * features / SIDE**2
    first = features - wide + 1
    chosen = rng.choice(days * first, math.ceil(days * first * rate), replace=False)
    for k, start in zip(chosen, rng.integers(0, DAY - run + 1, chosen.size), strict=True):
        hidden[k // first, k % first : k % first + wide, start : start + run] = True
    return hidden.transpose(0, 2, 1).reshape(shape)


class NormalScores:
    """Every series as normal scores by its own training values: equal values have their middle rank, values between linear."""

    def __init__(self, values: np.ndarray):
        self.tables = []
        for series in values.T:
            seen, first, count = np.unique(np.sort(series[np.isfinite(series)]), return_index=True, return_counts=True)
            self.tables.append((seen, ndtri((first + count / 2) / count.sum())))

    def forward(self, values: np.ndarray) -> np.ndarray:
        """NaN stays NaN."""
        return np.column_stack([np.interp(x, *table) for x, table in zip(values.T, self.tables, strict=True)])

    def back(self, scores: np.ndarray) -> np.ndarray:
        """Values of scores, within the training values."""
        return np.column_stack([np.interp(z, table[1], table[0]) for z, table in zip(scores.T, self.tables, strict=True)])


def line(seen: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """A straight line in time within each day, the training mean where a day has no value."""
    days = [baselines.interpolate_in_time(day.T).T for day in seen.reshape(-1, DAY, seen.shape[1])]
    x = np.concatenate(days)
    return np.where(np.isfinite(x), x, mean)


def points(s: Settings) -> list[Point]:
    return [{"pattern": pattern, "draw": draw} for pattern in s.patterns for draw in range(s.seed, s.seed + s.draws)]


def compute(s: Settings, point: Point) -> list[Row]:
    times, values = record()
    rng = np.random.default_rng([point["draw"], list(BEST).index(point["pattern"])])
    train, test = times < TRAIN, times >= BEFORE_TEST
    mean, std = np.nanmean(values[train], axis=0), np.nanstd(values[train], axis=0)
    known = np.where(hide((int(train.sum()), values.shape[1]), point["pattern"], rng), np.nan, values[train])
    truth = values[test]
    hidden = hide(truth.shape, point["pattern"], rng) & np.isfinite(truth)
    seen = np.where(hidden, np.nan, truth)

    begun = time.perf_counter()
    straight = line(seen, mean)
    seconds = {LINE: time.perf_counter() - begun}
    begun = time.perf_counter()
    scores = NormalScores(known)
    fitted, at = scores.forward(known)[-s.hours :].T, times[train][-s.hours :]
    graph = graphs.learn(baselines.interpolate_in_time(fitted), neighbors=8).graph
    model = spacetime.fit(graph, fitted, times=at, dynamics="modes", transform=None, cycles="day", robust=False)
    learned = time.perf_counter() - begun
    z = scores.forward(seen)
    begun = time.perf_counter()
    parts = [slice(start, start + DAY) for start in range(0, len(z), DAY)]
    daily = np.concatenate([model.smooth(z[part].T, times=times[test][part]).x.T for part in parts])
    seconds[OURS] = learned + time.perf_counter() - begun
    begun = time.perf_counter()
    whole = model.smooth(z.T, times=times[test]).x.T
    seconds[WHOLE] = learned + time.perf_counter() - begun

    pollutant = np.arange(values.shape[1]) % QUANTITIES < POLLUTANTS
    rows = []
    for method, x in ((LINE, straight), (OURS, scores.back(daily)), (WHOLE, scores.back(whole))):
        errors = np.where(hidden, np.abs(x - truth) / std, np.nan)
        rows.append(
            {
                "method": method,
                "mae": float(np.nanmean(errors)),
                "mse": float(np.nanmean(errors**2)),
                "pollutants": float(np.nanmean(errors[:, pollutant])),
                "copied": copied(seen, truth, hidden),
                "values": int(hidden.sum()),
                "seconds": seconds[method],
            }
        )
    return rows


def copied(seen: np.ndarray, truth: np.ndarray, hidden: np.ndarray) -> float:
    """Share of the hidden weather values that another site shows at the same hour: sites share weather stations."""
    weather = slice(POLLUTANTS, None)
    shown, x, h = (part.reshape(len(part), SITES, QUANTITIES)[:, :, weather] for part in (seen, truth, hidden))
    there = np.array([np.any(shown == x[:, [site]], axis=1) for site in range(SITES)]).transpose(1, 0, 2)
    return float(there[h].mean())


def error(rows: list[Row], method: str, pattern: str) -> float:
    """The mean over draws."""
    return mean_and_error(column(rows, "mae", method=method, pattern=pattern))[0]


def draw(s: Settings, rows: list[Row]) -> Any:
    """Mean absolute errors by pattern; gray: the best published."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 4.4), layout="constrained")
    at = np.arange(len(s.patterns))
    bars = {
        "straight line": [error(rows, LINE, p) for p in s.patterns],
        "best of 28 published": [BEST[p][1] for p in s.patterns],
        "nareg, a day at a time": [error(rows, OURS, p) for p in s.patterns],
    }
    for k, ((name, heights), color) in enumerate(zip(bars.items(), ("C1", "0.7", "C0"), strict=True)):
        axis.bar(at + 0.27 * (k - 1), heights, 0.25, label=name, color=color)
    axis.set_xticks(at, [p.replace("% ", "%\n") for p in s.patterns])
    axis.set(ylabel="mean absolute error (standardized)", title="TSI-Bench, Beijing: 132 hourly series")
    axis.legend(frameon=False)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    mine = {p: error(rows, OURS, p) for p in s.patterns}
    said = "; ".join(f"{p}: {mine[p]:.3f}, published {BEST[p][1]:.3f} ({BEST[p][0]})" for p in s.patterns)
    return [Verdict("best", grade([mine[p] < BEST[p][1] for p in s.patterns], aim=True), f"{said}.")]


FIGURE = Figure(
    "time-tsi", "Beijing, 132 series: TSI-Bench", Settings(), Settings(patterns=("10 % points",), hours=1000),
    points, compute, draw, judge, helpers=(), apart_from=("gnn",),
)  # fmt: skip
