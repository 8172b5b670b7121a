"""US network: what ten days of noisy readings are good for, and a year."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _us as u
from experiments._figure import Figure, Point, Row, Verdict, column, grade, mean_and_error
from nareg.errors import DegenerateFitWarning


@dataclass(frozen=True)
class Settings:
    """Consecutive ``days`` from a random first one, the same for all methods; ``draws`` of noise and first day."""

    snr_db: tuple[float, ...] = (-10.0, 0.0, 10.0)
    days: tuple[int, ...] = (10, 30, 91, 182, 365)
    methods: tuple[str, ...] = (u.BEST, u.GCV, u.EDGE, u.KRIGING, u.GP, u.OURS)
    draws: int = 10
    seed: int = 0


def points(s: Settings) -> list[Point]:
    return [
        {"snr_db": snr, "days": days, "draw": draw, "method": method}
        for snr in s.snr_db for days in s.days for draw in range(s.seed, s.seed + s.draws) for method in s.methods
    ]  # fmt: skip


def compute(s: Settings, point: Point) -> list[Row]:
    whole = u.task(point["snr_db"], point["draw"])
    last = whole.truth.shape[1] - point["days"]
    first = int(np.random.default_rng([point["draw"], point["days"]]).integers(last + 1))
    t = whole.some(first, point["days"])
    begun = time.perf_counter()
    with warnings.catch_warnings():
        # ten days may show no field at all: the error says so
        warnings.simplefilter("ignore", DegenerateFitWarning)
        x, more = u.METHODS[point["method"]](t)
    return [{"first": first, "nmse": t.nmse(x), **more, "seconds": time.perf_counter() - begun}]


def ratios(rows: list[Row], method: str, snr_db: float, days: int) -> np.ndarray:
    """NMSE over that of the best single weight on the same days, per draw."""
    at = {"snr_db": snr_db, "days": days}
    return np.array(column(rows, "nmse", method=method, **at)) / np.array(column(rows, "nmse", method=u.BEST, **at))


def draw(s: Settings, rows: list[Row]) -> Any:
    """Ratio to the best single weight against days, a column an SNR."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(s.snr_db), figsize=(4.4 * len(s.snr_db), 4), layout="constrained", squeeze=False)
    for axis, snr in zip(axes[0], s.snr_db, strict=True):
        for k, method in enumerate(m for m in s.methods if m != u.BEST):
            means, errors = zip(*(mean_and_error(ratios(rows, method, snr, days)) for days in s.days), strict=True)
            axis.errorbar(s.days, means, errors, fmt="o-", color="C0" if method == u.OURS else f"C{k + 1}", label=method)
        axis.axhline(1, color="0.5", linewidth=1)
        axis.set(title=f"{snr:g} dB", xscale="log", xlabel="days of noisy readings")
        axis.set_xticks(s.days, [str(days) for days in s.days])
    axes[0, 0].set_ylabel("NMSE over the best single weight's")
    axes[0, 0].legend(fontsize=8)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    means = {(snr, days): mean_and_error(ratios(rows, u.OURS, snr, days))[0] for snr in s.snr_db for days in s.days}
    texts = "; ".join(
        f"{snr:g} dB: " + ", ".join(f"{means[snr, days]:.2f} at {days} days" for days in s.days) for snr in s.snr_db
    )
    return [
        Verdict(
            "aim",
            grade([ratio <= 1.01 for ratio in means.values()], aim=True),
            f"{texts}; {s.draws} draw{'s' * (s.draws > 1)}.",
        )
    ]


FIGURE = Figure(
    "time-learning", "Learning curve: 10 to 365 days of noisy readings", Settings(),
    Settings(snr_db=(0.0,), days=(10, 91), draws=1), points, compute, draw, judge, **u.PARTS,
)  # fmt: skip
