"""Figure 5: interpolation at 0 dB on the Molene network, weights from half of the data or from lowest and highest values.

As Figure 4, with readings at a random subset of the stations only; several subsets of every size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments._figure import Figure, Finding, Point, Row, Verdict, chosen, mean_and_error
from experiments._methods import compared, matrix, random_nodes, ridge, span
from experiments._stations import limit, molene, of_scenario, variances


@dataclass(frozen=True)
class Settings:
    """Section V-B of the paper, interpolation."""

    stations: tuple[int, ...] = (37, 32)
    unit: str = "largest distance"
    observed: tuple[int, ...] = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
    snr_db: float = 0.0
    subsets: int = 10
    draws: int = 5
    sigma2: float = 5.0
    mu: float = 1e-4
    every: int = 1
    instance: int = 0
    seed: int = 5


KRR, LIMIT = "kernel ridge", "LMMSE limit"


def points(s: Settings) -> list[Point]:
    """A point a network and scenario."""
    return [{"stations": n, "scenario": scenario} for n in s.stations for scenario in ("learned", "bounds")]


def compute(s: Settings, point: Point) -> list[Row]:
    """All methods of a scenario for every subset."""
    stations = molene(point["stations"], s.unit)
    graph, X = stations.graph, stations.signals
    weights, test = of_scenario(stations, point["scenario"], s.snr_db, s.instance, s.seed)
    X = X[:, test[:: s.every]]
    rows = []
    for number in s.observed:
        for subset in range(s.subsets):
            seed = [s.seed, point["stations"], number, subset]
            observed = random_nodes(stations.n, number, seed)
            filters = {name: matrix(graph, w, observed) for name, w in weights.items()}
            filters[KRR] = ridge(graph, s.sigma2, s.mu, observed)
            filters[LIMIT] = limit(X, s.snr_db, observed)
            found = compared(filters, X, variances(X, s.snr_db), s.draws, seed)
            rows += [{"observed": number, "subset": subset, **row} for row in found]
    return rows


def averages(s: Settings, rows: list[Row], n: int, scenario: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Method -> mean over subsets and its standard error for every number of observed stations."""
    mine = chosen(rows, stations=n, scenario=scenario)
    found = {}
    for name in dict.fromkeys(row["method"] for row in mine):
        cells = [mean_and_error([row["nmse"] for row in chosen(mine, method=name, observed=m)]) for m in s.observed]
        found[name] = (np.array([cell[0] for cell in cells]), np.array([cell[1] for cell in cells]))
    return found


def draw(s: Settings, rows: list[Row]) -> Any:
    """Both scenarios on the larger network, bars of two standard errors over subsets."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained", sharey=True)
    for axis, scenario in zip(axes, ("learned", "bounds"), strict=True):
        for name, (mean, error) in averages(s, rows, s.stations[0], scenario).items():
            style = ":" if name == LIMIT else "--" if name == KRR else "-"
            axis.errorbar(s.observed, mean, 2 * error, linestyle=style, marker="o", ms=3, capsize=2, label=name)
        axis.set(xlabel="observed stations", ylabel="NMSE over all stations", title=f"{s.stations[0]} stations, {scenario}")
        axis.set_yscale("log")
        axis.grid(alpha=0.3, which="both")
        axis.legend(fontsize=8)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    """The two claims about Figure 5; the numbers are those of the larger network."""
    a, b = (averages(s, rows, s.stations[0], scenario) for scenario in ("learned", "bounds"))
    ni, b_ni = a["one weight (NI rule)"][0], b["one weight (NI rule)"][0]
    prony = a["Prony, learned"][0] / ni
    sdr = a["relaxation, noise of one instance"][0] / ni
    equal = a["relaxation, signals of equal power"][0] / ni
    m_prony, m_sdr = b["min-max Prony"][0] / b_ni, b["min-max relaxation"][0] / b_ni
    against_krr = b["min-max Prony"][0] / b[KRR][0]
    worse = [(prony > 1).all(), (sdr > 1).all()]
    consistent, like = (m_prony < 1).all() and (against_krr < 1).all(), (np.abs(np.log(m_sdr)) < np.log(1.2)).all()
    best, exact = a["one weight, best"][0] / ni, a["exact"][0] / ni
    return [
        Verdict(
            "learned",
            Finding.REPRODUCED if all(worse) else Finding.IN_PART if (prony > 1).any() or (sdr > 1).any() else Finding.NOT,
            f"Learned Prony has {span(prony)} times the NMSE of NI, the relaxation {span(sdr)} with the noise of one recording "
            f"and {span(equal)} with signals of equal power.",
            f"The best single weight has {span(best)}, the exact design {span(exact)}.",
        ),
        Verdict(
            "minmax",
            Finding.REPRODUCED if consistent and like else Finding.IN_PART if consistent or like else Finding.NOT,
            f"Min-max Prony has {span(m_prony)} times the NMSE of NI and {span(against_krr)} times that of kernel ridge; the "
            f"min-max relaxation {span(m_sdr)} times that of NI.",
        ),
    ]


FIGURE = Figure(
    "fig5", "Interpolation on the Molene network", Settings(),
    Settings(stations=(37,), observed=(2, 10, 20, 30), subsets=4, draws=2, every=8), points, compute, draw, judge,
)  # fmt: skip
