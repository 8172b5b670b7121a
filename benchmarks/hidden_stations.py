"""Stations that are left out, one at a time: the space-time model with and without their altitude, against kriging.

    python benchmarks/hidden_stations.py            36 stations of each network, 5 minutes
    python benchmarks/hidden_stations.py --quick    8 stations and a third of the times
    python benchmarks/hidden_stations.py --networks molene us-weather australia

A model with scalar dynamics, from which a station can be taken out exactly, is fitted to all stations. Its own functions take
one out and estimate its place from the others. Kriging is that of
the readings at one time, around one mean, or around a mean that is linear in the altitude (kriging with external drift). It
has an exponential covariance with a nugget, both of largest restricted likelihood. Printed are the root mean squared and the
mean absolute difference from the readings that were left out, noise included, and the share of them in bands of 90 %.
NAREG_DATA names the folder of the data sets; by default ../shared/data beside the checkout.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

import nareg
from nareg.spacetime._readings.space import between

DATA = Path(os.environ.get("NAREG_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
#: Reaches as shares of the largest distance, and nuggets as shares of the variance, that kriging chooses among.
REACHES, NUGGETS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0), (0.01, 0.03, 0.1, 0.3, 0.6)
#: Times by which it chooses.
CHOOSING = 60
#: Coordinates, altitude, readings (N, T), times.
Network = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def molene() -> Network:
    z = np.load(DATA / "molene" / "molene.npz")
    places = np.column_stack([z["temp_lat"], z["temp_lon"]])
    return places, z["temp_altitude_m"], z["temperature_K"].T - 273.15, z["timestamps"].astype("datetime64[s]")


def ghcnd(name: str) -> Network:
    z = np.load(DATA / "ghcnd_2025" / f"{name}_weather_2025.npz")
    y = np.where(z["observation_mask"], z["daily_temperature_midrange_c"], np.nan).T.astype(float)
    some = np.isfinite(z["elevation_m"])
    return z["coordinates"][some], z["elevation_m"][some], y[some], z["dates"].astype("datetime64[s]")


def berlin() -> Network:
    folder = DATA / "files" / "netatmo-berlin"
    table = pd.read_csv(folder / "readings_150.csv", index_col=0, parse_dates=True).loc["2017-01-01":"2017-01-10"]
    places = pd.read_csv(folder / "stations_150.csv").set_index("station").loc[table.columns]
    coordinates = places[["latitude", "longitude"]].to_numpy()
    return coordinates, places["elevation"].to_numpy(), table.to_numpy().T, table.index.to_numpy().astype("datetime64[s]")


NETWORKS: dict[str, Callable[[], Network]] = {
    "molene": molene, "us-weather": lambda: ghcnd("us"), "australia": lambda: ghcnd("australia"), "netatmo-berlin": berlin,
}  # fmt: skip


def restricted(covariance: np.ndarray, drift: np.ndarray) -> tuple[np.ndarray, float]:
    """Inverse covariance without what the drift explains, and the log determinants of the restricted likelihood."""
    inverse = np.linalg.inv(covariance)
    loads = inverse @ drift
    inner = drift.T @ loads
    determinants = float(np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(inner)[1])
    return inverse - loads @ np.linalg.solve(inner, loads.T), determinants


def kriging(places: np.ndarray, y: np.ndarray, drift: np.ndarray, stations: np.ndarray) -> np.ndarray:
    """Estimates (S, T) of stations, each from the others' readings (N, T) at the same time."""
    distances = between(places, places, "haversine")

    def covariance(reach: float, nugget: float) -> np.ndarray:
        return (1 - nugget) * np.exp(-distances / (reach * distances.max())) + nugget * np.eye(len(places))

    some = np.unique(np.linspace(0, y.shape[1] - 1, CHOOSING).astype(int))

    def score(reach: float, nugget: float) -> float:
        C, total, squares, count = covariance(reach, nugget), 0.0, 0.0, 0
        for t in some:
            seen = np.isfinite(y[:, t])
            if seen.sum() > drift.shape[1] + 2:
                P, determinants = restricted(C[np.ix_(seen, seen)], drift[seen])
                total += determinants
                squares += float(y[seen, t] @ P @ y[seen, t])
                count += int(seen.sum()) - drift.shape[1]
        return total + count * np.log(squares / count)

    C = covariance(*min(product(REACHES, NUGGETS), key=lambda pair: score(*pair)))
    x = np.full((stations.size, y.shape[1]), np.nan)
    for t in range(y.shape[1]):
        seen = np.isfinite(y[:, t])
        there = np.flatnonzero(seen[stations])
        if seen.sum() > drift.shape[1] + 2 and there.size:
            P, _ = restricted(C[np.ix_(seen, seen)], drift[seen])
            rows = (np.cumsum(seen) - 1)[stations[there]]
            x[there, t] = y[stations[there], t] - (P @ y[seen, t])[rows] / P.diagonal()[rows]
    return x


def hindsight(network: Network, off: np.ndarray, stations: np.ndarray) -> np.ndarray:
    """Errors (S, T) of stations without what a line in the altitude can tell of them, chosen by these errors themselves.

    It goes by how much higher a place is than the others' altitudes say, by kriging of any reach, at each hour of the day.
    """
    places, heights, _, times = network
    distances, hours = between(places, places, "haversine"), times.astype("datetime64[h]").astype(int) % 24
    least = off
    for reach in REACHES:
        P, _ = restricted(np.exp(-distances / (reach * distances.max())), np.ones((len(places), 1)))
        higher = ((P @ heights) / P.diagonal())[stations][:, None]
        left = off.copy()
        for hour in np.unique(hours):
            now = off[:, hours == hour]
            slope = np.nansum(higher * now) / np.sum(higher**2 * np.isfinite(now))
            left[:, hours == hour] = now - slope * higher
        least = min(least, left, key=lambda errors: float(np.nanmean(errors**2)))
    return least


def model(network: Network, stations: np.ndarray, altitude: bool) -> tuple[np.ndarray, float, str]:
    """Estimates (S, T) of stations by models without them, share of the readings in bands of 90 %, and what was said."""
    places, heights, y, times = network
    graph = nareg.Graph.from_knn(places, 7, metric="haversine")
    covariates = {"altitude": heights} if altitude else None
    fitted = nareg.spacetime.fit(graph, y, times=times, dynamics="scalar", covariates=covariates)
    x, inside = np.empty((stations.size, y.shape[1])), []
    for k, i in enumerate(stations):
        beside = {"altitude": heights[[i]]} if altitude else None
        result = fitted.without(int(i)).interpolate_at(places[[i]], covariates=beside)
        low, high = result.interval(0.9, of="reading")
        seen = np.isfinite(y[i])
        inside.append(((low[0] <= y[i]) & (y[i] <= high[0]))[seen])
        x[k] = result.x[0]
    return x, float(np.concatenate(inside).mean()), "; ".join(fitted.covariate_lines)


def measure(name: str, count: int, every: int) -> None:
    """Print a line per method."""
    places, heights, y, times = NETWORKS[name]()
    if every > 1:
        y, times = y[:, : y.shape[1] // every], times[: y.shape[1] // every]
    live = np.isfinite(y).any(axis=1)
    places, heights, y = places[live], heights[live], y[live]
    stations = np.unique(np.linspace(0, len(y) - 1, min(count, len(y))).astype(int))
    one, height = np.ones((len(y), 1)), ((heights - heights.mean()) / heights.std())[:, None]
    print(f"{name}: {stations.size} of {len(y)} stations left out, {y.shape[1]} times, {np.ptp(heights):.0f} m of relief")
    said, rms = "", {}

    def line(method: str, x: np.ndarray, begin: float, share: float | None = None) -> None:
        off = np.abs(x - y[stations])
        off = off[np.isfinite(off)]
        rms[method] = float(np.sqrt(np.mean(off**2)))
        bands = "" if share is None else f"   in bands {100 * share:3.0f} %"
        print(
            f"  {method:28} RMSE {rms[method]:.4f}   MAE {off.mean():.4f}{bands}   {time.perf_counter() - begin:.0f} s",
            flush=True,
        )

    for method, drift in (("kriging", one), ("kriging, external drift", np.hstack([one, height]))):
        begin = time.perf_counter()
        line(method, kriging(places, y, drift, stations), begin)
    network = places, heights, y, times
    for method, altitude in (("model", False), ("model, altitude", True)):
        begin = time.perf_counter()
        x, share, said = model(network, stations, altitude)
        line(method, x, begin, share)
        if not altitude:
            line("and a line by hindsight", y[stations] - hindsight(network, y[stations] - x, stations), begin)
    own = np.nanmean(x - y[stations], axis=1, keepdims=True)  # by what its site is warmer or colder, which others cannot tell
    line("the same, own means known", x - own, begin)
    print(f"  {said}")
    best = rms["model, altitude"]
    print(f"  {best / rms['kriging, external drift']:.3f} of external drift, {best / rms['model']:.3f} of the model without it")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=tuple(NETWORKS), default=["molene", "us-weather", "netatmo-berlin"])
    parser.add_argument("--stations", type=int, default=36, help="left out of each network, spread over its list")
    parser.add_argument("--quick", action="store_true", help="8 stations and the first third of the times")
    options = parser.parse_args()
    for name in options.networks:
        measure(name, 8 if options.quick else options.stations, 3 if options.quick else 1)


if __name__ == "__main__":
    main()
