"""Figure 4: denoising on the Molene network, weights from half of the data or from the lowest and highest values.

(a) "learned": a random half of the 744 hours gives the second moment, the other half tests. Each signal has noise of its own
power; the paper takes the noise covariance of the relaxation from one recording (here: one of median power). Beside it: every
signal scaled to the same power, so that the design minimizes what the figure shows, the mean of the signals' NMSE. So do
"exact" and "one weight, best".
(b) "bounds": corner min-max from the range of every station, all hours test. One range for all, as the text can be read,
makes both corners constant: every constant weight scores zero in Prony's criterion, and the design is one weight again.
Prony's criterion leaves the scale open here too: three times the bound is shown beside the bound. The relaxation with one
range for all sees two constant signals and smooths as if every signal were one.

One mean, over stations and hours, is removed (others: ``choices``). The paper does not say in which unit the distance d of
``exp(-5 d^2)`` is: here the largest distance is one, and the other units are tried at one SNR. "oracle Prony" is designed for
every fourth test signal from that very signal, at the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments._figure import Figure, Point, Row, Verdict, check_snr, chosen, column, elsewhere, grade
from experiments._methods import compared, matrix, span
from experiments._stations import (
    BEST,
    EXACT,
    KRR,
    KRR_BEST,
    LIMIT,
    MM_PRONY,
    MM_SDR,
    MM_THREE,
    NI,
    NI_THREE,
    ORACLE,
    PAIR,
    PRONY,
    SDR,
    SDR_EQUAL,
    STYLES,
    UNITS,
    limit,
    molene,
    of_scenario,
    oracle_prony,
    ridges,
    variances,
)  # fmt: skip
from nareg.errors import InputError


@dataclass(frozen=True)
class Settings:
    """Section V-B of the paper. The verdicts are those of the first network."""

    stations: tuple[int, ...] = (32, 37)
    unit: str = "largest distance"
    other_units: tuple[str, ...] = UNITS[1:]
    snr_db: tuple[float, ...] = (-10.0, -5.0, 0.0, 5.0, 10.0)
    unit_snr_db: float = 0.0
    draws: int = 50
    sigma2: float = 5.0
    mu: float = 1e-4
    every: int = 1
    oracle_every: int = 4
    seed: int = 4

    def __post_init__(self) -> None:
        check_snr(self.snr_db)
        if self.unit_snr_db not in self.snr_db or self.unit in self.other_units:
            raise InputError("unit_snr_db must be one of snr_db, and other_units must not hold unit.")


SCENARIOS = ("learned", "bounds")


def points(s: Settings) -> list[Point]:
    """A point a network, scenario and SNR; the other units on the first network."""
    result: list[Point] = []
    for scenario in SCENARIOS:
        result += [{"stations": n, "unit": s.unit, "scenario": scenario, "snr_db": x} for n in s.stations for x in s.snr_db]
        other = {"stations": s.stations[0], "scenario": scenario, "snr_db": s.unit_snr_db}
        result += [{**other, "unit": unit} for unit in s.other_units]
    return result


def compute(s: Settings, point: Point) -> list[Row]:
    """All methods of a scenario at one SNR, on the test signals."""
    stations = molene(point["stations"], point["unit"])
    graph, snr_db = stations.graph, point["snr_db"]
    weights, test = of_scenario(stations, point["scenario"], snr_db, s.seed)
    X = stations.signals[:, test[:: s.every]]
    filters = {name: matrix(graph, w) for name, w in weights.items()}
    filters |= ridges(graph, X, snr_db, s.sigma2, s.mu) | {LIMIT: limit(X, snr_db)}
    seed = [s.seed, point["stations"], int(10 * snr_db) + 1000]
    rows = compared(filters, X, variances(X, snr_db), s.draws, seed)
    return [*rows, {"method": ORACLE, **oracle_prony(graph, X[:, :: s.oracle_every], snr_db, s.draws, seed)}]


def draw(s: Settings, rows: list[Row]) -> Any:
    """Both scenarios on the first network: expected values, sampled means with two standard errors; below, other units."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(12, 10), layout="constrained", sharey="row", height_ratios=(3, 2))
    units = (s.unit, *s.other_units)
    for (axis, below), scenario in zip(axes.T, SCENARIOS, strict=True):
        mine = chosen(rows, stations=s.stations[0], scenario=scenario)
        names = list(dict.fromkeys(row["method"] for row in mine))
        at_one = chosen(mine, snr_db=s.unit_snr_db)
        for number, name in enumerate(names):
            shown = chosen(mine, unit=s.unit, method=name)
            sampled, error = (np.array(column(shown, key)) for key in ("sampled", "sampled_error"))
            (line,) = axis.semilogy(s.snr_db, column(shown, "nmse"), STYLES[name], marker="o", ms=3, label=name)
            axis.errorbar(s.snr_db, sampled, 2 * error, fmt="none", ecolor=line.get_color(), capsize=2)
            if name == ORACLE:
                continue  # far below all others
            place = np.arange(len(units)) + 0.07 * (number - len(names) / 2)
            values = [column(at_one, "nmse", method=name, unit=unit)[0] for unit in units]
            filled = {} if STYLES[name].endswith("-") and not STYLES[name].endswith("--") else {"markerfacecolor": "white"}
            below.semilogy(place, values, "o", color=line.get_color(), ms=5, **filled)
        axis.set(xlabel="SNR (dB)", title=f"{s.stations[0]} stations, {scenario}")
        below.set(title=f"unit of the distance, {s.unit_snr_db:g} dB (filled: solid lines above)")
        below.set_xticks(range(len(units)), [f"d / ({unit})" for unit in units], fontsize=8)
        axis.legend(fontsize=8)
    for axis in axes.flat:
        axis.grid(alpha=0.3, which="both")
    for axis in axes[:, 0]:
        axis.set_ylabel("NMSE")
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    """The claims about Figure 4 on the first network, and whether the others agree."""
    return elsewhere({f"{n} stations": _judge(s, chosen(rows, unit=s.unit, stations=n)) for n in s.stations})


def _judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    low, top = np.array(s.snr_db) < 0, int(np.argmax(s.snr_db))
    f, b = ({name: np.array(column(rows, "nmse", scenario=scenario, method=name)) for name in STYLES} for scenario in SCENARIOS)
    behind = {"Prony": f[PRONY] / f[ORACLE], "relaxation": f[SDR] / f[ORACLE], MM_PRONY: b[MM_PRONY] / b[ORACLE]}
    far = np.array(list(behind.values())) >= np.sqrt(10)
    ours = {"Prony": f[PRONY], "relaxation": f[SDR], MM_PRONY: b[MM_PRONY], MM_SDR: b[MM_SDR]}
    ridge_of = {"Prony": f, "relaxation": f, MM_PRONY: b, MM_SDR: b}
    over = {key: np.concatenate([v / ridge_of[name][key] for name, v in ours.items()]) for key in (KRR, KRR_BEST)}
    over_ni = {name: v / ridge_of[name][NI] for name, v in ours.items()}
    alike = np.abs(np.log(list(over_ni.values()))) < np.log(1.3)
    like = np.abs(np.log(f[PRONY] / f[NI])) < np.log(1.3)
    worse = f[PRONY][top] > 1.05 * f[NI][top]
    better = f[SDR] < f[PRONY]
    pair = f"{MM_SDR}, {PAIR}"
    peers = np.minimum(b[NI], b[KRR])
    wins = {name: (b[name] / peers)[low] for name in (MM_PRONY, MM_SDR, pair, NI_THREE, BEST)}
    fall = {name: b[name][top - 1] / b[name][top] for name in (MM_PRONY, MM_SDR, pair, MM_THREE, NI_THREE, NI, BEST)}
    flat = [fall[name] < 0.8 * fall[NI] for name in (MM_PRONY, MM_SDR, pair)]
    return [
        Verdict(
            "oracle",
            grade(far.ravel()),
            f"NMSE over that of oracle Prony: learned Prony {span(behind['Prony'])}, relaxation {span(behind['relaxation'])}, "
            f"min-max Prony {span(behind[MM_PRONY])} over the SNRs, more at high SNR.",
            "The oracle knows the signal that it denoises; no linear filter for all test signals has less than "
            f"{span(f[LIMIT] / f[ORACLE])} times its NMSE.",
        ),
        Verdict(
            "krr",
            grade(over[KRR] < 1),
            f"Learned and min-max designs have {span(over[KRR])} times the NMSE of kernel ridge with the published parameters.",
            f"With its best ones {span(over[KRR_BEST])} times.",
        ),
        Verdict(
            "krr-best",
            grade(f[KRR] < 1.05 * f[KRR_BEST]),
            f"NMSE of kernel ridge at {', '.join(f'{x:g}' for x in s.snr_db)} dB: {_listed(f[KRR])} with the published "
            f"parameters, {_listed(f[KRR_BEST])} with those that suit these signals best.",
        ),
        Verdict(
            "like-ni",
            grade(alike.ravel()),
            "NMSE over that of NI: " + ", ".join(f"{name} {span(v)}" for name, v in over_ni.items()) + ".",
            "Alike is within a factor of 1.3.",
        ),
        Verdict(
            "ni-high-snr",
            grade(v[top] > 0.95 for v in over_ni.values()),
            f"At {s.snr_db[top]:g} dB, over the NMSE of NI: "
            + ", ".join(f"{name} {v[top]:.3g}" for name, v in over_ni.items()) + ".",
            f"The best single weight has {f[BEST][top] / f[NI][top]:.3g} times that of NI.",
        ),
        Verdict(
            "prony-like-ni",
            grade([*like[:-1], worse]),
            f"Learned Prony has {span(f[PRONY] / f[NI])} times the NMSE of NI over the SNRs, {f[PRONY][top] / f[NI][top]:.3g} "
            f"times at {s.snr_db[top]:g} dB.",
        ),
        Verdict(
            "sdr-better",
            grade(better),
            f"The relaxation with the noise of one recording has {span(f[SDR] / f[PRONY])} times the NMSE of learned Prony, "
            f"with signals of equal power {span(f[SDR_EQUAL] / f[PRONY])}.",
            f"Over the best single weight: relaxation {span(f[SDR] / f[BEST])}, with signals of equal power "
            f"{span(f[SDR_EQUAL] / f[BEST])}, the exact design {span(f[EXACT] / f[BEST])}.",
        ),
        Verdict(
            "minmax-low-snr",
            grade([*(wins[MM_PRONY] < 1), *(wins[MM_SDR] < 1)]),
            f"Below 0 dB, over the better of NI and kernel ridge: min-max Prony {span(wins[MM_PRONY])}, min-max relaxation "
            f"{span(wins[MM_SDR])}; with one range for all stations the relaxation {span(wins[pair])}, and Prony is NI "
            f"({span(b[f'{MM_PRONY}, {PAIR}'] / b[NI])} times its NMSE).",
            "The NI rule smooths too little there: one weight of three times the rule has "
            f"{span(wins[NI_THREE])}, the best single weight {span(wins[BEST])}.",
        ),
        Verdict(
            "minmax-saturates",
            grade(flat),
            f"The last step of SNR divides the NMSE by {fall[MM_PRONY]:.2f} for min-max Prony, {fall[MM_SDR]:.2f} for the "
            f"min-max relaxation, {fall[pair]:.2f} for it with one range for all stations, and {fall[NI]:.2f} for NI.",
            f"So can the scale alone: {fall[MM_THREE]:.2f} for min-max Prony at three times the bound, {fall[NI_THREE]:.2f} "
            f"for one weight of three times the rule; the best single weight, {fall[BEST]:.2f}, does not saturate.",
        ),
    ]  # fmt: skip


def _listed(values: np.ndarray) -> str:
    """Values in the order of the SNRs."""
    return ", ".join(f"{value:#.3g}" for value in values)


FIGURE = Figure(
    "fig4", "Denoising on the Molene network", Settings(),
    Settings(stations=(32,), other_units=("100 km",), snr_db=(-10.0, 0.0, 5.0, 10.0), draws=5, every=8),
    points, compute, draw, judge,
)  # fmt: skip
