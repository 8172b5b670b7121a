"""Indoor and sun-lit sensors among citizens' weather stations: `nareg.quality` beside the levels of CrowdQC.

    python benchmarks/citizens.py [--draws 5] [--month 1 6]         150 stations of Berlin, ten minutes on one core

Faults are injected into stations that both methods call good in the file as it is: indoors, 21 °C and a tenth of the weather's
changes; in the sun, up to 6 to 10 °C more at noon of clear days. What matters are whole stations, not single readings.

The levels M2 to M4 are written from Napoly, Grassmann, Meier, Fenner (2018), Frontiers in Earth Science 6:118: readings whose
robust z-score, by the Qn estimator and after 0.0065 °C/m for altitude, is below the normal law's quantile .01 or above .95;
then stations with more than a fifth of such readings in a month; then those that correlate by less than .9 with the median of
all. NAREG_DATA names the folder of the data sets.
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.stats import norm

import nareg

FOLDER = Path(os.environ.get("NAREG_DATA", "")) / "files" / "netatmo-berlin"
#: Kinds of suspects that mean a whole station.
WHOLE = ("unit", "level", "sunlit", "drift", "clock", "swapped", "noisy")
#: Stations of each fault in a draw, and the least share of the hours that a station reads.
FAULTY, READS = 4, 0.7
LAPSE, SHARE, ALIKE = 0.0065, 0.2, 0.9


def month(number: int) -> tuple[nareg.Graph, np.ndarray, np.ndarray, np.ndarray]:
    """Graph, readings (N, T), times and altitudes of a month of 2017, of stations at places of their own."""
    table = pd.read_csv(FOLDER / "readings_150.csv", index_col=0, parse_dates=True).loc[f"2017-{number:02d}"]
    places = pd.read_csv(FOLDER / "stations_150.csv").set_index("station").loc[table.columns]
    usable = (table.notna().mean() > READS) & places["elevation"].notna() & ~places.duplicated(["latitude", "longitude"])
    table, places = table.loc[:, usable], places[usable]
    graph = nareg.Graph.from_knn(places[["latitude", "longitude"]].to_numpy(), 7, metric="haversine")
    return graph, table.to_numpy().T, table.index.to_numpy().astype("datetime64[s]"), places["elevation"].to_numpy()


def spread(values: np.ndarray) -> float:
    """Qn of Rousseeuw and Croux: a low quantile of all differences."""
    n = values.size
    differences = np.sort(np.abs(values[:, None] - values)[np.triu_indices(n, 1)])
    h = n // 2 + 1
    return 2.2219 * float(differences[h * (h - 1) // 2 - 1])


def crowd(altitude: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(N,) True for stations that M3 or M4 takes out."""
    level = y + LAPSE * (altitude - altitude.mean())[:, None]
    z = np.full(y.shape, np.nan)
    for t in range(y.shape[1]):
        seen = np.isfinite(level[:, t])
        if seen.sum() > 2:
            values = level[seen, t]
            z[seen, t] = (values - np.median(values)) / max(spread(values), 1e-9)
    off = (z < norm.ppf(0.01)) | (z > norm.ppf(0.95))
    often = off.sum(axis=1) > SHARE * np.isfinite(z).sum(axis=1)
    rest = np.where(off | often[:, None], np.nan, level)
    median = pd.DataFrame(rest[~often]).median()
    alike = np.array([pd.Series(row).corr(median) for row in rest])
    return often | ~(alike >= ALIKE)


def checked(graph: nareg.Graph, times: np.ndarray, altitude: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(N,) True for stations that nareg suspects as a whole."""
    model = nareg.spacetime.fit(graph, y, times=times, covariates={"elevation": altitude})
    result = np.zeros(len(y), dtype=bool)
    result[[s.station for s in nareg.quality.check(model, rules={"checks": WHOLE}).suspects]] = True
    return result


def injected(y: np.ndarray, times: np.ndarray, stations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Readings with the first half of some stations indoors, and the others in the sun."""
    result = y.copy()
    days, hours = times.astype("datetime64[D]"), (times - times.astype("datetime64[D]")).astype(float) / 3600
    clear = rng.random(days.size)[np.unique(days, return_inverse=True)[1]]
    noon = np.maximum(np.cos((hours - 12) * np.pi / 10), 0.0) * (np.abs(hours - 12) < 5)  # hours are UTC, Berlin's noon 11:10
    for i in stations[:FAULTY]:
        room = 21 + 0.1 * (y[i] - np.nanmean(y[i])) + np.cumsum(rng.normal(0, 0.1, days.size))
        result[i] = np.where(np.isfinite(y[i]), np.round(np.clip(room, 15, 27), 1), np.nan)
    for i in stations[FAULTY:]:
        result[i] += np.round(rng.uniform(6, 10) * noon * clear, 1)
    return result


def compared(number: int, draws: int) -> list[list[str]]:
    """A row per method for a month."""
    graph, y, times, altitude = month(number)
    methods = {"nareg": partial(checked, graph, times, altitude), "CrowdQC, M2 to M4": partial(crowd, altitude)}
    before = {name: method(y) for name, method in methods.items()}
    good = np.flatnonzero(~np.logical_or.reduce(list(before.values())))
    counts, seconds = {name: np.zeros(3, dtype=int) for name in methods}, dict.fromkeys(methods, 0.0)
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        stations = rng.choice(good, 2 * FAULTY, replace=False)
        faulty, rest = injected(y, times, stations, rng), np.setdiff1d(good, stations)
        for name, method in methods.items():
            start = time.process_time()
            suspect = method(faulty)
            seconds[name] += time.process_time() - start
            counts[name] += [suspect[part].sum() for part in (stations[:FAULTY], stations[FAULTY:], rest)]
    of, healthy = FAULTY * draws, (good.size - 2 * FAULTY) * draws
    return [
        [
            f"2017-{number:02d}", name, f"{int((~before[name]).sum())} of {len(y)}", f"{counts[name][0]} of {of}",
            f"{counts[name][1]} of {of}", f"{counts[name][2]} of {healthy}", f"{seconds[name] / draws:.1f}",
        ]
        for name in methods
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--month", type=int, nargs="+", default=[1, 6], choices=(1, 6))
    options = parser.parse_args()
    shown = Table("month", "method", "good as published", "indoors", "in the sun", "others suspected", "seconds")
    for number in options.month:
        for row in compared(number, options.draws):
            shown.add_row(*row)
    Console(width=140).print(shown)


if __name__ == "__main__":
    main()
