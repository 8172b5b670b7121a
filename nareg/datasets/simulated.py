"""A simulated sensor network with known truth: moving waves, a daily cycle, altitude, noise, gaps and faulty sensors.

The field at station i and time t, in °C::

    15 - 6.5 * altitude_i / 1000 + a_i * cos(2 pi (hour_t - 15) / 24) + sum_k b_k cos(q_k . p_i - w_k t + f_k)

with ``p_i`` in kilometers and waves that cross the network at weather's speed (some 10 to 60 km/h). A reading is the field
plus white noise, rounded to a hundredth of a degree, unless the sensor is faulty or the reading is missing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nareg._core import checks
from nareg.datasets.network import write_tables
from nareg.errors import InputError
from nareg.graph import Graph

#: Kinds of faults that :func:`simulated` knows.
FAULTS = ("dead", "stuck", "spiking")

_START = np.datetime64("2025-06-02T00:00", "m")
_SIDE_KM = 300.0
_CENTER = (46.5, 7.0)
_N_WAVES = 8
_WAVE_KM = (120.0, 400.0)
_PERIOD_HOURS = (5.5, 16.0)
_WAVES_STD = 2.0
_DAILY = 4.0
_SPIKE_SHARE = 0.1
_OUTAGE_HOURS = 2.0


@dataclass(frozen=True, eq=False)
class SimulatedNetwork:
    """Readings of N stations at T times whose truth is known.

    Attributes
    ----------
    readings : (N, T) float64 array
        In °C; NaN where missing.
    truth : (N, T) float64 array
        The field without noise.
    coordinates : (N, 2) array
        Latitude and longitude in degrees.
    altitude : (N,) array
        Meters above the sea.
    names : tuple of str
    times : (T,) datetime64 array
    faults : dict of str to str
        Station name to kind: ``"dead"``, ``"stuck"`` or ``"spiking"``.
    bad : (N, T) bool array
        Readings that a fault changed, and everything that a dead sensor did not read.
    noise : float
        Standard deviation of the noise.
    """

    readings: np.ndarray
    truth: np.ndarray
    coordinates: np.ndarray
    altitude: np.ndarray
    names: tuple[str, ...]
    times: np.ndarray
    faults: dict[str, str]
    bad: np.ndarray
    noise: float
    units: str = "°C"

    @property
    def n_nodes(self) -> int:
        """Number of stations N."""
        return int(self.readings.shape[0])

    @property
    def n_times(self) -> int:
        """Number of times T."""
        return int(self.readings.shape[1])

    @property
    def observed(self) -> np.ndarray:
        """(N, T) True where there is a reading, right or wrong."""
        return np.isfinite(self.readings)

    @property
    def healthy(self) -> np.ndarray:
        """(N,) True for stations without a fault."""
        return np.array([name not in self.faults for name in self.names])

    def graph(self, neighbors: int = 7) -> Graph:
        """Each station joined with its nearest neighbors on the sphere, all where there are fewer."""
        neighbors = min(neighbors, self.n_nodes - 1)
        return Graph.from_knn(self.coordinates, neighbors, metric="haversine", names=self.names)

    def to_csv(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``stations.csv`` and ``readings.csv``, without the truth; returns the folder."""
        latitude, longitude = ([f"{degrees:.5f}" for degrees in axis] for axis in self.coordinates.T)
        columns = {"latitude": latitude, "longitude": longitude, "altitude": [f"{meters:.0f}" for meters in self.altitude]}
        whole = bool((self.times == self.times.astype("datetime64[m]")).all())
        times = np.datetime_as_string(self.times, unit="m" if whole else "s").tolist()
        return write_tables(folder, self.names, columns, times, self.readings, lambda value: f"{value:.2f}")

    def __repr__(self) -> str:
        gaps = int((~self.observed).sum())
        return f"SimulatedNetwork({self.n_nodes} stations, {self.n_times} times, {gaps} missing, {len(self.faults)} faulty)"


def simulated(
    n_stations: int = 60,
    n_times: int = 432,
    *,
    step_minutes: float = 10,
    noise: float = 1.5,
    missing: float = 0.05,
    faults: Sequence[str] = ("dead", "stuck", "spiking"),
    rng: np.random.Generator,
) -> SimulatedNetwork:
    """Simulate a sensor network: temperature on a square of 300 km, with noise, gaps and faulty sensors.

    Parameters
    ----------
    n_stations, n_times : int
        N and T; the defaults are three days.
    step_minutes : float
        Time between two readings, at least a second; times are whole seconds.
    noise : float
        Standard deviation of the noise in °C.
    missing : float
        Share of missing readings. Half of them are single readings, half lie in outages of two hours on average.
    faults : sequence of {"dead", "stuck", "spiking"}
        One entry per faulty station. A dead sensor never reads; a stuck one repeats its reading from some time in the
        first half on; a spiking one is off by 8 to 20 °C in 10 % of its readings.
    rng : numpy.random.Generator

    Returns
    -------
    SimulatedNetwork

    Examples
    --------
    >>> import numpy as np, nareg
    >>> network = nareg.datasets.simulated(rng=np.random.default_rng(0))
    >>> network
    SimulatedNetwork(60 stations, 432 times, ... missing, 3 faulty)
    >>> sorted(network.faults.values())
    ['dead', 'spiking', 'stuck']
    """
    n = checks.integer("n_stations", n_stations, low=2)
    t = checks.integer("n_times", n_times, low=2)
    step = checks.number("step_minutes", step_minutes, low=1 / 60)
    sigma = checks.number("noise", noise, low=0)
    share = checks.number("missing", missing, low=0, high=0.9)
    rng = checks.generator(rng)
    kinds = [checks.choice("faults", kind, FAULTS) for kind in faults]
    if len(kinds) >= n:
        raise InputError(f"faults lists {len(kinds)} stations of {n}: leave at least one healthy.")

    places = rng.uniform(-_SIDE_KM / 2, _SIDE_KM / 2, (n, 2))
    altitude = _altitude(places, rng)
    hours = np.arange(t) * step / 60
    truth = _field(places, altitude, hours, rng)
    readings = truth + sigma * rng.standard_normal((n, t))
    gaps = _gaps(n, t, share, step / 60, rng)

    bad = np.zeros((n, t), dtype=bool)
    stations = rng.choice(n, len(kinds), replace=False)
    for i, kind in zip(stations.tolist(), kinds, strict=True):
        if kind == "dead":
            readings[i], bad[i] = np.nan, True
        elif kind == "stuck":
            onset = int(rng.integers(t // 10, max(t // 2, t // 10 + 1)))
            readings[i, onset:], bad[i, onset + 1 :] = readings[i, onset], True
        else:
            hit = rng.random(t) < _SPIKE_SHARE
            readings[i, hit] += (rng.choice([-1.0, 1.0], t) * rng.uniform(8, 20, t))[hit]
            bad[i] = hit
    readings[gaps] = np.nan
    names = tuple(f"S{i:0{len(str(n - 1))}d}" for i in range(n))
    return SimulatedNetwork(
        readings=np.round(readings, 2),
        truth=truth,
        coordinates=_degrees(places),
        altitude=altitude,
        names=names,
        times=_START + np.round(np.arange(t) * step * 60).astype("timedelta64[s]"),
        faults={names[i]: kind for i, kind in zip(stations.tolist(), kinds, strict=True)},
        bad=bad,
        noise=sigma,
    )


def _field(places: np.ndarray, altitude: np.ndarray, hours: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    n = len(places)
    daily = _DAILY * rng.uniform(0.8, 1.2, n)
    field = 15 - 6.5 * altitude[:, None] / 1000 + daily[:, None] * np.cos(2 * np.pi * (hours - 15) / 24)
    direction = rng.uniform(0, 2 * np.pi, _N_WAVES)
    wavenumber = 2 * np.pi / rng.uniform(*_WAVE_KM, _N_WAVES)
    speed = 2 * np.pi / rng.uniform(*_PERIOD_HOURS, _N_WAVES)
    phase = rng.uniform(0, 2 * np.pi, _N_WAVES)
    along = places @ (wavenumber * np.array([np.cos(direction), np.sin(direction)]))
    waves = np.cos(along[:, None] - speed * hours[None, :, None] + phase)
    return field + _WAVES_STD * np.sqrt(2 / _N_WAVES) * waves.sum(axis=2)


def _altitude(places: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Plains and hills: two broad ridges and a station's own height above them, rounded to meters."""
    ridge = np.sin(2 * np.pi * places[:, 0] / 400 + rng.uniform(0, 6)) * np.cos(
        2 * np.pi * places[:, 1] / 300 + rng.uniform(0, 6)
    )
    return np.round(500 + 300 * ridge + rng.uniform(0, 400, len(places)))


def _gaps(n: int, t: int, share: float, step_hours: float, rng: np.random.Generator) -> np.ndarray:
    """Half of the missing readings alone, half in outages of geometric length, which may begin before the first time."""
    part = 1 - np.sqrt(1 - share)  # of either kind, so that both together make the share
    gaps = rng.random((n, t)) < part
    mean = max(_OUTAGE_HOURS / step_hours, 1.0)
    before = int(np.ceil(8 * mean))
    begun = rng.random((n, t + before)) < 1 - (1 - part) ** (1 / mean)
    for i, first in np.argwhere(begun):
        last = first + int(rng.geometric(1 / mean)) - before
        gaps[i, max(first - before, 0) : max(last, 0)] = True
    return gaps


def _degrees(places: np.ndarray) -> np.ndarray:
    """Latitude and longitude of points in kilometers from the center."""
    latitude = _CENTER[0] + places[:, 1] / 111.2
    longitude = _CENTER[1] + places[:, 0] / (111.2 * np.cos(np.radians(_CENTER[0])))
    return np.round(np.column_stack([latitude, longitude]), 5)
