"""Figure 3: interpolation at 0 dB on Erdős-Rényi graphs, weights designed with the true signal known.

The weights are designed as for Figure 2 at 0 dB, on graphs of their own; the readings of the nodes that are not observed are
left out of the data term. Prony's method without the bound has zero weights, which say nothing about unobserved nodes. A
solver returns weights that are almost zero; equal ones stand for them here, and the estimate is then the harmonic extension of
the readings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments._figure import Figure, Point, Row, Verdict, chosen, grade, mean_and_error
from experiments._methods import bandlimited, best_ridge, compared, matrix, published_weight, random_nodes, ridge, span, wiener
from nareg import design, graphs


@dataclass(frozen=True)
class Settings:
    """Section V-A of the paper, second experiment."""

    n_nodes: int = 50
    p: float = 0.5
    frequencies: int = 20
    snr_db: float = 0.0
    observed: tuple[int, ...] = (10, 15, 20, 25, 30, 35, 40, 45, 50)
    n_graphs: int = 50
    draws: int = 100
    sigma2: float = 1.0
    mu: float = 1e-4
    almost_zero: float = 1e-4
    seed: int = 3


KRR_BEST = "kernel ridge, best parameters"
NI, RANDOM, KRR, FREE = "one weight (NI rule)", "random weights", "kernel ridge", "Prony, no bound"
BOUND, BEST, SDR, LIMIT = "Prony, at the bound", "Prony, scale by MSE", "relaxation (SDR)", "LMMSE limit"
NAMES = (NI, RANDOM, KRR, KRR_BEST, FREE, BOUND, BEST, SDR, LIMIT)


def points(s: Settings) -> list[Point]:
    """A point a graph."""
    return [{"graph": g} for g in range(s.n_graphs)]


def compute(s: Settings, point: Point) -> list[Row]:
    """All methods for every number of observed nodes on one graph."""
    rng = np.random.default_rng([s.seed, point["graph"]])
    graph = graphs.erdos_renyi(s.n_nodes, s.p, rng=rng)
    x = bandlimited(graph, s.frequencies)
    snr = 10 ** (s.snr_db / 10)
    noise = float(x @ x) / s.n_nodes / snr
    w0 = published_weight(graph, snr)
    known: dict[str, Any] = {"signals": x, "noise": noise}
    weights = {
        NI: np.sqrt(w0),
        RANDOM: np.sqrt(w0) + w0 * rng.random(s.n_nodes),
        FREE: s.almost_zero,
        BOUND: design.prony(graph, **known, scale="bound"),
        BEST: design.prony(graph, **known),
        SDR: design.relaxation(graph, **known),
    }
    rows = []
    for number in s.observed:
        seed = [s.seed, point["graph"], number]
        observed = random_nodes(s.n_nodes, number, seed)
        filters = {name: matrix(graph, w, observed) for name, w in weights.items()}
        filters[KRR] = ridge(graph, s.sigma2, s.mu, observed)
        filters[KRR_BEST] = best_ridge(graph, x[:, None], s.snr_db, observed)
        filters[LIMIT] = wiener(np.outer(x, x), noise, observed)
        rows += [{"observed": number, **row} for row in compared(filters, x[:, None], np.array([noise]), s.draws, seed)]
    return rows


def averages(s: Settings, rows: list[Row]) -> dict[str, dict[str, np.ndarray]]:
    """Method -> expected and sampled means over graphs for every number of observed nodes."""
    result: dict[str, dict[str, np.ndarray]] = {}
    for name in NAMES:
        cells = [[row["nmse"] for row in chosen(rows, method=name, observed=m)] for m in s.observed]
        sampled = [mean_and_error([row["sampled"] for row in chosen(rows, method=name, observed=m)]) for m in s.observed]
        result[name] = {
            "nmse": np.array([np.mean(cell) for cell in cells]),
            "sampled": np.array([pair[0] for pair in sampled]),
            "error": np.array([pair[1] for pair in sampled]),
        }
    return result


def draw(s: Settings, rows: list[Row]) -> Any:
    """NMSE against the number of observed nodes: expected values, sampled means with two standard errors."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 5), layout="constrained")
    styles = dict(zip(NAMES, ("C7-o", "C7--s", "C5-^", "C5--^", "C3:x", "C3-v", "C3--", "C0-d", "k:"), strict=True))
    for name, f in averages(s, rows).items():
        (line,) = axis.semilogy(s.observed, f["nmse"], styles[name], label=name, ms=4)
        axis.errorbar(s.observed, f["sampled"], 2 * f["error"], fmt="none", ecolor=line.get_color(), capsize=2)
    axis.set(xlabel=f"observed nodes of {s.n_nodes}", ylabel="NMSE over all nodes")
    axis.grid(alpha=0.3, which="both")
    axis.legend(fontsize=8, ncols=2)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    """The two claims about Figure 3."""
    f = averages(s, rows)
    others = np.minimum.reduce([f[name]["nmse"] for name in (NI, RANDOM, KRR, KRR_BEST, FREE)])
    ratio = {name: others / f[name]["nmse"] for name in (BOUND, BEST, SDR)}
    like = {name: f[name]["nmse"] / f[NI]["nmse"] for name in (RANDOM, FREE)}

    near = [(np.abs(np.log(r)) < np.log(1.5)).all() for r in like.values()]
    return [
        Verdict(
            "best",
            grade((ratio[name] > 2).all() for name in (BOUND, SDR)),
            f"The best other has {span(ratio[BOUND])} times the NMSE of Prony at the bound, {span(ratio[BEST])} times "
            f"that of Prony with its scale by the MSE, and {span(ratio[SDR])} times that of the relaxation.",
            "The designs know the signal, unobserved nodes included. The best other: of NI, random weights, kernel ridge (with "
            "its best parameters too), Prony without the bound.",
        ),
        Verdict(
            "others",
            grade(near),
            f"Random weights have {span(like[RANDOM])} times the NMSE of NI, almost zero weights {span(like[FREE])} times.",
            "With zero weights there is no estimate at all where nothing was observed; what a solver returns is its rounding. "
            "Equal tiny weights are assumed here; tiny ones in the proportions of 1 / x would extrapolate perfectly.",
        ),
    ]


FIGURE = Figure(
    "fig3", "Interpolation with the signal known", Settings(),
    Settings(n_graphs=4, draws=25, observed=(10, 20, 30, 40, 50)), points, compute, draw, judge,
)  # fmt: skip
