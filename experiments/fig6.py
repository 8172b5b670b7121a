"""Figure 6: denoising and interpolation on a large network with corner min-max designs.

The paper's 109 hourly stations run where they are at hand (``nareg datasets fetch noaa-109``); a user's own copy with
coordinates runs with ``nareg reproduce fig6 --set dataset=noaa-hourly``. The 140 complete stations of the daily US network of
2025 stand in for them: a substitute, on which the paper's numbers cannot be expected, only its statements.

Seven nearest neighbors with the Gaussian kernel of the data set (the paper names none), one mean removed. The range of every
station gives the corners; a single range for all gives one weight (Figure 4). The scale that Prony's criterion leaves open is
the smallest that meets the bound, and three times it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments._figure import (
    Figure,
    Finding,
    Point,
    Row,
    Verdict,
    check_snr,
    chosen,
    column,
    elsewhere,
    grade,
    instead,
    mean_and_error,
)
from experiments._methods import compared, matrix, random_nodes, span
from experiments._stations import (
    BEST,
    KRR,
    KRR_BEST,
    LIMIT,
    MM_PRONY,
    MM_THREE,
    NI,
    NI_THREE,
    STYLES,
    bounded,
    large,
    limit,
    minmax_once,
    ridges,
    variances,
)  # fmt: skip
from nareg import datasets

#: The network of the paper, and a user's own copy of it.
PAPERS, OWN = "noaa-109", "noaa-hourly"
#: Part of a verdict on any other.
SUBSTITUTE = "on a substitute, not run on NOAA's own file"


@dataclass(frozen=True)
class Settings:
    """Section V-C of the paper."""

    dataset: str = "us-weather"
    snr_db: tuple[float, ...] = (-10.0, -7.5, -5.0, -2.5, 0.0, 2.5, 5.0, 7.5, 10.0)
    observed: tuple[int, ...] = tuple(range(10, 100, 5))
    subsets: int = 10
    draws: int = 50
    sigma2: float = 5.0
    mu: float = 1e-4
    every: int = 1
    seed: int = 6

    def __post_init__(self) -> None:
        check_snr(self.snr_db)


def points(s: Settings) -> list[Point]:
    """Denoising at all SNRs, and interpolation for every number of observed stations.

    The paper's network comes last, if it is here, so that points that were computed before it was fetched keep their numbers.
    """
    parts: list[Point] = [{"part": "denoising"}, {"part": "interpolation"}]
    if s.dataset == PAPERS or not datasets.available(PAPERS):
        return parts
    return parts + [{"dataset": PAPERS, **part} for part in parts]


def compute(s: Settings, point: Point) -> list[Row]:
    """All methods at every SNR or for every subset."""
    stations = large(point.get("dataset", s.dataset))
    graph, X = stations.graph, stations.signals
    once = minmax_once(stations)
    shown = X[:, :: s.every]
    rows = []
    if point["part"] == "denoising":
        for snr_db in s.snr_db:
            filters = {name: matrix(graph, w) for name, w in bounded(stations, snr_db, once).items()}
            filters |= ridges(graph, shown, snr_db, s.sigma2, s.mu) | {LIMIT: limit(shown, snr_db)}
            seed = [s.seed, int(10 * snr_db) + 1000]
            rows += [{"snr_db": snr_db, **r} for r in compared(filters, shown, variances(shown, snr_db), s.draws, seed)]
        return rows
    weights = bounded(stations, 0.0, once)
    for number in s.observed:
        for subset in range(s.subsets):
            seed = [s.seed, number, subset]
            observed = random_nodes(stations.n, number, seed)
            filters = {name: matrix(graph, w, observed) for name, w in weights.items()}
            filters |= ridges(graph, shown, 0.0, s.sigma2, s.mu, observed) | {LIMIT: limit(shown, 0.0, observed)}
            compared_rows = compared(filters, shown, variances(shown, 0.0), 0, seed)
            rows += [{"observed": number, "subset": subset, **row} for row in compared_rows]
    return rows


def saved(snr_db: np.ndarray, reference: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Decibels of SNR that the reference needs more than the other for the NMSE that the other has at each SNR.

    Curves fall with SNR and are joined in the logarithm; NaN where the reference does not reach that NMSE in its range.
    """
    falling = np.minimum.accumulate(reference)[::-1]
    inside = (other >= falling[0]) & (other <= falling[-1])
    reached = np.interp(np.log(other), np.log(falling), snr_db[::-1])
    gains: np.ndarray = np.where(inside, reached - snr_db, np.nan)
    return gains


def averages(s: Settings, rows: list[Row]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Method -> mean NMSE of interpolation over subsets and its standard error."""
    mine = chosen(rows, part="interpolation")
    result = {}
    for name in dict.fromkeys(row["method"] for row in mine):
        cells = [mean_and_error(column(mine, "nmse", method=name, observed=m)) for m in s.observed]
        result[name] = (np.array([cell[0] for cell in cells]), np.array([cell[1] for cell in cells]))
    return result


def networks(s: Settings, rows: list[Row]) -> dict[str, list[Row]]:
    """Rows of every network, the paper's first."""
    extra = chosen(rows, dataset=PAPERS)
    own = [row for row in rows if row.get("dataset") in (None, "")]
    return ({PAPERS: extra} if extra else {}) | {s.dataset: own}


def draw(s: Settings, rows: list[Row]) -> Any:
    """Denoising against SNR, interpolation against the number of observed stations; a row of pictures per network."""
    import matplotlib.pyplot as plt

    of_each = networks(s, rows)
    figure, axes = plt.subplots(len(of_each), 2, figsize=(12, 5 * len(of_each) + 1), layout="constrained", squeeze=False)
    for (name, mine), pair in zip(of_each.items(), axes, strict=True):
        _draw_network(s, name, mine, pair)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _draw_network(s: Settings, network: str, rows: list[Row], axes: Any) -> None:
    mine = chosen(rows, part="denoising")
    for name in dict.fromkeys(row["method"] for row in mine):
        (line,) = axes[0].semilogy(s.snr_db, column(mine, "nmse", method=name), STYLES[name], marker="o", ms=3, label=name)
        sampled, error = (np.array(column(mine, key, method=name)) for key in ("sampled", "sampled_error"))
        axes[0].errorbar(s.snr_db, sampled, 2 * error, fmt="none", ecolor=line.get_color(), capsize=2)
    for name, (mean, error) in averages(s, rows).items():
        axes[1].errorbar(s.observed, mean, 2 * error, fmt=STYLES[name], marker="o", ms=3, capsize=2, label=name)
    axes[1].set_yscale("log")
    axes[0].set(xlabel="SNR (dB)", ylabel="NMSE", title=f"denoising, {network}")
    axes[1].set(xlabel="observed stations", ylabel="NMSE over all stations", title=f"interpolation, 0 dB, {network}")
    for axis in axes:
        axis.grid(alpha=0.3, which="both")


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    """The two claims about Figure 6, on the paper's network first."""
    verdicts = {name: _judge_network(s, name, mine) for name, mine in networks(s, rows).items()}
    if PAPERS in verdicts or s.dataset == OWN:
        return elsewhere(verdicts)
    absent = f" Not run on NOAA: needs `nareg datasets fetch {PAPERS}`."
    return [instead(replace(v, why=v.why + absent), SUBSTITUTE) for v in verdicts[s.dataset]]


def _judge_network(s: Settings, network: str, rows: list[Row]) -> list[Verdict]:
    mine, snr = chosen(rows, part="denoising"), np.array(s.snr_db)
    nmse = {name: np.array(column(mine, "nmse", method=name)) for name in (NI, MM_PRONY, MM_THREE, NI_THREE, BEST)}
    gain = {name: saved(snr, nmse[NI], nmse[name]) for name in (MM_PRONY, MM_THREE, NI_THREE, BEST)}
    low, high = gain[MM_PRONY][snr < 0], gain[MM_PRONY][snr >= 0]
    finding = grade([(low >= 2.5).all(), low[0] > high[0]])
    if not (low >= 1).any():  # less than a third of what is claimed, at every SNR
        finding = Finding.NOT
    f = averages(s, rows)
    ratio = {name: f[MM_PRONY][0] / f[name][0] for name in (NI, KRR, KRR_BEST, BEST)}
    growing = (ratio[NI] < 1).any() and ratio[NI][-1] < ratio[NI][0]
    substitute = f" {network} is a substitute for the paper's network." * (network not in (PAPERS, OWN))

    def gains(name: str) -> str:
        return ", ".join(f"{g:+.1f} at {x:g} dB" for g, x in zip(gain[name], snr, strict=True) if np.isfinite(g))

    return [
        Verdict(
            "three-db",
            finding,
            f"For the NMSE of min-max Prony at the bound NI needs, in dB of SNR, {gains(MM_PRONY)}.",
            f"For that at three times the bound: {gains(MM_THREE)}; but for that of one weight of three times the rule: "
            f"{gains(NI_THREE)}, and of the best single weight: {gains(BEST)}. The gain at low SNR is the scale's.{substitute}",
        ),
        Verdict(
            "interpolation",
            grade([(ratio[NI] < 1).all(), (ratio[KRR] < 1).all(), growing]),
            f"Min-max Prony has {span(ratio[NI])} times the NMSE of NI ({ratio[NI][0]:.3g} with {s.observed[0]} observed "
            f"stations, {ratio[NI][-1]:.3g} with {s.observed[-1]}) and {span(ratio[KRR])} times that of kernel ridge.",
            f"Over kernel ridge with its best parameters {span(ratio[KRR_BEST])}, over the best single weight for denoising "
            f"{span(ratio[BEST])}.{substitute}",
        ),
    ]


FIGURE = Figure(
    "fig6", "Min-max designs on a large network", Settings(),
    Settings(snr_db=(-10.0, -5.0, 0.0, 5.0, 10.0), observed=(10, 50, 95), subsets=2, draws=3, every=4),
    points, compute, draw, judge,
)  # fmt: skip
