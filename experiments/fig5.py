"""Figure 5: interpolation at 0 dB on the Molene network, weights from half of the data or from lowest and highest values.

As Figure 4, with readings at a random subset of the stations only; several subsets of every size, and all stations. The
weights are those for denoising; kernel ridge regression with its best parameters and the LMMSE limit are made for the subset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments._figure import Figure, Point, Row, Verdict, chosen, column, elsewhere, grade, mean_and_error
from experiments._methods import compared, matrix, random_nodes, span
from experiments._stations import (
    BEST,
    EXACT,
    KRR,
    KRR_BEST,
    LIMIT,
    MM_PRONY,
    MM_SDR,
    NI,
    PRONY,
    SDR,
    SDR_EQUAL,
    STYLES,
    limit,
    molene,
    of_scenario,
    ridges,
    variances,
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Section V-B of the paper, interpolation. The verdicts are those of the first network."""

    stations: tuple[int, ...] = (32, 37)
    unit: str = "largest distance"
    observed: tuple[int, ...] = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
    snr_db: float = 0.0
    subsets: int = 10
    draws: int = 5
    sigma2: float = 5.0
    mu: float = 1e-4
    every: int = 1
    seed: int = 5


SCENARIOS = ("learned", "bounds")


def points(s: Settings) -> list[Point]:
    """A point a network and scenario."""
    return [{"stations": n, "scenario": scenario} for n in s.stations for scenario in SCENARIOS]


def compute(s: Settings, point: Point) -> list[Row]:
    """All methods of a scenario for every subset."""
    n = point["stations"]
    stations = molene(n, s.unit)
    graph = stations.graph
    weights, test = of_scenario(stations, point["scenario"], s.snr_db, s.seed)
    X = stations.signals[:, test[:: s.every]]
    rows = []
    for number, subset in [*((m, k) for m in s.observed for k in range(s.subsets)), (n, 0)]:
        seed = [s.seed, n, number, subset]
        observed = random_nodes(n, number, seed)
        filters = {name: matrix(graph, w, observed) for name, w in weights.items()}
        filters |= ridges(graph, X, s.snr_db, s.sigma2, s.mu, observed) | {LIMIT: limit(X, s.snr_db, observed)}
        compared_rows = compared(filters, X, variances(X, s.snr_db), s.draws, seed)
        rows += [{"observed": number, "subset": subset, **row} for row in compared_rows]
    return rows


def averages(rows: list[Row]) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Method -> numbers of observed stations, mean over subsets, and its standard error (0 where all are observed)."""
    numbers = list(dict.fromkeys(row["observed"] for row in rows))
    result = {}
    for name in dict.fromkeys(row["method"] for row in rows):
        cells = np.array([mean_and_error(column(rows, "nmse", method=name, observed=m)) for m in numbers])
        result[name] = (np.array(numbers), cells[:, 0], np.nan_to_num(cells[:, 1]))
    return result


def draw(s: Settings, rows: list[Row]) -> Any:
    """Both scenarios on the first network, bars of two standard errors over subsets."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(12, 5.5), layout="constrained", sharey=True)
    for axis, scenario in zip(axes, SCENARIOS, strict=True):
        for name, (numbers, mean, error) in averages(chosen(rows, stations=s.stations[0], scenario=scenario)).items():
            axis.errorbar(numbers, mean, 2 * error, fmt=STYLES[name], marker="o", ms=3, capsize=2, label=name)
        axis.set(xlabel="observed stations", ylabel="NMSE over all stations", title=f"{s.stations[0]} stations, {scenario}")
        axis.set_yscale("log")
        axis.grid(alpha=0.3, which="both")
        axis.legend(fontsize=8)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    """The claims about Figure 5 on the first network, and whether the others agree."""
    return elsewhere({f"{n} stations": _judge(chosen(rows, stations=n)) for n in s.stations})


def _judge(rows: list[Row]) -> list[Verdict]:
    f, b = ({name: a[1] for name, a in averages(chosen(rows, scenario=scenario)).items()} for scenario in SCENARIOS)
    prony, sdr, equal = (f[name] / f[NI] for name in (PRONY, SDR, SDR_EQUAL))
    over = {key: b[MM_PRONY] / b[key] for key in (NI, KRR, KRR_BEST)}
    m_sdr = b[MM_SDR] / b[NI]
    parts = [(prony[:-1] > 1.05).all(), (sdr[:-1] > 0.95).all() and sdr[-1] < 0.95]
    consistent = all((ratio[:-1] < 1).all() for ratio in (over[NI], over[KRR]))
    like = (np.abs(np.log(m_sdr)) < np.log(1.2)).all()
    best, exact = f[BEST] / f[NI], f[EXACT] / f[NI]
    return [
        Verdict(
            "learned",
            grade(parts),
            f"Over NI, with some stations observed and with all: learned Prony {span(prony[:-1])} and {prony[-1]:.3g}; the "
            f"relaxation with the noise of one recording {span(sdr[:-1])} and {sdr[-1]:.3g}, with signals of equal power "
            f"{span(equal[:-1])} and {equal[-1]:.3g}.",
            f"The best single weight for denoising has {span(best[:-1])} and {best[-1]:.3g}, the exact design "
            f"{span(exact[:-1])} and {exact[-1]:.3g}.",
        ),
        Verdict(
            "minmax",
            grade([consistent, like]),
            f"Min-max Prony has {span(over[NI])} times the NMSE of NI, {span(over[KRR])} times that of kernel ridge with the "
            f"published parameters and {span(over[KRR_BEST])} with its best ones; the min-max relaxation {span(m_sdr)} times "
            "that of NI.",
        ),
    ]


FIGURE = Figure(
    "fig5", "Interpolation on the Molene network", Settings(),
    Settings(stations=(32,), observed=(2, 10, 20, 30), subsets=4, draws=2, every=8), points, compute, draw, judge,
)  # fmt: skip
