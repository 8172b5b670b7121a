"""US network: a year of noisy readings and nothing else, beside what knows more."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _us as u
from experiments._figure import Figure, Point, Row, Verdict, column, grade, mean_and_error

#: Aims: SNR -> largest NMSE.
AIMS = {-10.0: 0.165, 0.0: 0.070, 10.0: 0.0235}


@dataclass(frozen=True)
class Settings:
    """``draws`` of the noise."""

    snr_db: tuple[float, ...] = tuple(AIMS)
    methods: tuple[str, ...] = tuple(u.METHODS)
    draws: int = 3
    seed: int = 0


def points(s: Settings) -> list[Point]:
    draws = range(s.seed, s.seed + s.draws)
    return [{"snr_db": snr, "draw": draw, "method": method} for snr in s.snr_db for draw in draws for method in s.methods]


def compute(s: Settings, point: Point) -> list[Row]:
    t = u.task(point["snr_db"], point["draw"])
    begun = time.perf_counter()
    x, more = u.METHODS[point["method"]](t)
    return [{"nmse": t.nmse(x), **more, "seconds": time.perf_counter() - begun}]


def nmse(rows: list[Row], method: str, snr_db: float) -> float:
    return mean_and_error(column(rows, "nmse", method=method, snr_db=snr_db))[0]


def draw(s: Settings, rows: list[Row], aims: dict[float, float] = AIMS) -> Any:
    """NMSE by method, a column an SNR; dashed: the aim."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(s.snr_db), figsize=(4 * len(s.snr_db), 4.2), layout="constrained", squeeze=False, sharey=True
    )
    for axis, snr in zip(axes[0], s.snr_db, strict=True):
        values = [nmse(rows, method, snr) for method in s.methods]
        colors = ["C0" if m == u.OURS else "0.6" if u.NEEDS[m] == "the truth" else "C1" for m in s.methods]
        axis.barh(np.arange(len(values)), values, color=colors)
        most = 1.2 * nmse(rows, s.methods[0], snr)  # what is worse than any weight is cut off
        for k, value in enumerate(values):
            inside = value > most / 4
            at, color = (0.02 * most, "w") if inside else (value + 0.02 * most, "k")
            axis.text(at, k, f"{value:.3g}", va="center", color=color, fontsize=9)
        axis.set(title=f"{snr:g} dB", xlim=(0, most), xlabel="NMSE over all days")
        if snr in aims:
            axis.axvline(aims[snr], color="C0", linestyle="--")
    axes[0, 0].set_yticks(np.arange(len(s.methods)), s.methods)
    axes[0, 0].invert_yaxis()
    figure.suptitle("gray: knows the truth" + ("; dashed: aim" if aims else ""), fontsize=9)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    aimed = [snr for snr in s.snr_db if snr in AIMS]
    reached = {snr: nmse(rows, u.OURS, snr) for snr in aimed}
    texts = "; ".join(f"{snr:g} dB: {value:.4f} (aim {AIMS[snr]:g})" for snr, value in reached.items())
    result = [
        Verdict(
            "aim",
            grade([v <= AIMS[snr] for snr, v in reached.items()], aim=True),
            f"{texts}; {s.draws} draw{'s' * (s.draws > 1)}.",
        )
    ]
    return [*result, beside_peers(s, rows)]


def beside_peers(s: Settings, rows: list[Row]) -> Verdict:
    """Ours and the best peer that does not know the truth."""
    peers = [m for m in s.methods if m != u.OURS and u.NEEDS[m] != "the truth"]
    best = {snr: min(peers, key=lambda m: nmse(rows, m, snr)) for snr in s.snr_db}
    said = "; ".join(
        f"{snr:g} dB: {nmse(rows, u.OURS, snr):.4f}, best peer {peer} {nmse(rows, peer, snr):.4f}" for snr, peer in best.items()
    )
    holds = [nmse(rows, u.OURS, snr) <= nmse(rows, peer, snr) for snr, peer in best.items()]
    return Verdict("peers", grade(holds, aim=True), said + ".")


FIGURE = Figure(
    "time-us", "A year of noisy readings of the US network", Settings(),
    Settings(snr_db=(0.0,), methods=(u.BEST, u.GCV, u.KRIGING, u.WIENER, u.GP, u.OURS), draws=1), points, compute, draw, judge,
    **u.PARTS,
)  # fmt: skip
