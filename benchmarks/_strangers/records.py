"""Healthy records whose truth is known: every kind of field is drawn by a stated formula.

Places are uniform on a square of 200 km. ``G`` is a Gaussian field of variance 1: its covariance falls as
exp(-distance / reach) in space and as exp(-time / memory) in time. ``m_i`` is a station's own level. A reading is the truth
plus white noise, rounded; 3 % of the readings are missing alone, and each station has two outages of 1 % of the record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

SIDE_KM = 200.0
START = np.datetime64("2024-03-04T00:00:00", "s")


@dataclass(frozen=True)
class Record:
    """Stations in rows, times in columns; NaN where a reading is missing."""

    coordinates: np.ndarray
    times: np.ndarray
    truth: np.ndarray
    readings: np.ndarray

    @property
    def names(self) -> list[str]:
        return [f"S{i:03d}" for i in range(len(self.coordinates))]

    @property
    def station_months(self) -> float:
        hours = (self.times[-1] - self.times[0]) / np.timedelta64(1, "h")
        return len(self.coordinates) * float(hours) / 730.5

    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Readings and stations as ``nareg.clean`` takes them."""
        index = pd.DatetimeIndex(self.times, name="time")
        places = pd.DataFrame(self.coordinates, index=self.names, columns=["latitude", "longitude"])
        return pd.DataFrame(self.readings.T, index=index, columns=self.names), places


@dataclass(frozen=True)
class Draw:
    """What a kind of field is drawn with: places in km, hours since midnight, a generator."""

    places: np.ndarray
    hours: np.ndarray
    rng: np.random.Generator

    @property
    def n(self) -> int:
        return len(self.places)

    def field(self, reach: float, memory: float) -> np.ndarray:
        """G with a reach in km and a memory in hours."""
        distances = np.linalg.norm(self.places[:, None] - self.places[None], axis=2)
        root = np.linalg.cholesky(np.exp(-distances / reach) + 1e-9 * np.eye(self.n))
        rho = np.exp(-(self.hours[1] - self.hours[0]) / memory)
        shocks = root @ self.rng.standard_normal((self.n, self.hours.size))
        x = np.empty_like(shocks)
        x[:, 0] = shocks[:, 0]
        for t in range(1, self.hours.size):
            x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * shocks[:, t]
        return x

    def day(self, amplitude: np.ndarray, late: np.ndarray | float = 0.0) -> np.ndarray:
        """A daily cycle that peaks at 15 h, or so many hours later."""
        return amplitude[:, None] * np.cos(2 * np.pi * (self.hours - 15 - np.reshape(late, (-1, 1))) / 24)

    def levels(self, spread: float) -> np.ndarray:
        return spread * self.rng.standard_normal((self.n, 1))

    def noise(self, std: float) -> np.ndarray:
        return std * self.rng.standard_normal((self.n, self.hours.size))


Pair = tuple[np.ndarray, np.ndarray]


def smooth(draw: Draw, noise: float = 0.3, step: float = 0.01) -> Pair:
    """10 + m_i + 2 G(80 km, 24 h), noise .3."""
    truth = 10 + draw.levels(1.0) + 2 * draw.field(80, 24)
    return truth, np.round((truth + draw.noise(noise)) / step) * step


def tenths(draw: Draw) -> Pair:
    """As smooth, noise .05, rounded to .1."""
    return smooth(draw, 0.05, 0.1)


def whole(draw: Draw) -> Pair:
    """As smooth, noise .3, rounded to 1."""
    return smooth(draw, 0.3, 1.0)


def fronts(draw: Draw) -> Pair:
    """Changes of 2 to 8 that cross the square within hours, one in 36 h, + G(80 km, 24 h), noise .3, rounded to .1."""
    truth = 10 + draw.levels(1.0) + draw.field(80, 24)
    for start in np.arange(draw.hours[0], draw.hours[-1], 36.0):
        angle, speed = draw.rng.uniform(0, 2 * np.pi), draw.rng.uniform(20, 60)
        arrival = start + draw.rng.uniform(0, 36) + draw.places @ [np.cos(angle), np.sin(angle)] / speed
        size = draw.rng.choice([-1, 1]) * draw.rng.uniform(1, 4)
        truth = truth + size * np.tanh((draw.hours - arrival[:, None]) / draw.rng.uniform(0.5, 3))
    return truth, np.round(truth + draw.noise(0.3), 1)


def cycle(draw: Draw) -> Pair:
    """m_i + a day of amplitude 1 to 6, up to 1.5 h early or late, + 1.2 G(80 km, 24 h), noise .3, rounded to .1."""
    day = draw.day(draw.rng.uniform(1, 6, draw.n), draw.rng.uniform(-1.5, 1.5, draw.n))
    truth = 12 + draw.levels(1.0) + day + 1.2 * draw.field(80, 24)
    return truth, np.round(truth + draw.noise(0.3), 1)


def humidity(draw: Draw) -> Pair:
    """80 + m_i - a day of amplitude 4 to 12 + 14 G(80 km, 24 h), at most 100, noise 1, rounded to 1."""
    raw = 80 + draw.levels(3.0) - draw.day(draw.rng.uniform(4, 12, draw.n)) + 14 * draw.field(80, 24)
    truth = np.clip(raw, 5, 100)
    return truth, np.clip(np.round(truth + draw.noise(1.0)), 0, 100)


def rain(draw: Draw) -> Pair:
    """8 (G(60 km, 12 steps of an hour or .7 days) - .6)^1.6 where positive, else 0; gauges 8 % off, rounded to .1."""
    step = draw.hours[1] - draw.hours[0]
    latent = draw.field(60, 12.0 if step < 24 else 17.0)
    truth = 8 * np.maximum(latent - 0.6 - draw.levels(0.1), 0) ** 1.6
    return truth, np.round(truth * (1 + draw.noise(0.08)), 1)


def irradiance(draw: Draw) -> Pair:
    """900 sin(elevation) at day times .25 to 1 by clouds, sigmoid of 2 G(40 km, 2 h), 2 % off, rounded to 1; 0 at night."""
    sun = np.maximum(np.sin(2 * np.pi * (draw.hours - 6) / 24), 0)
    truth = 900 * sun * (0.25 + 0.75 / (1 + np.exp(-2 * draw.field(40, 2))))
    return truth, np.round(truth * (1 + draw.noise(0.02)))


def flood(draw: Draw) -> Pair:
    """A river of gauges 12 km apart: waves of 1 to 2 m that rise in 8 h, travel at 4 km/h and lose 3 % per gauge, noise .01."""
    truth = 0.8 + 0.1 * np.arange(draw.n)[:, None] + np.zeros(draw.hours.size)
    for start in np.arange(24.0, draw.hours[-1], 150.0):
        since = draw.hours - start - draw.rng.uniform(0, 80) - 3.0 * np.arange(draw.n)[:, None]
        shape = np.where(since > 0, (since / 8) * np.exp(1 - since / 8), 0.0)
        truth = truth + draw.rng.uniform(1, 2) * 0.97 ** np.arange(draw.n)[:, None] * shape
    return truth, np.round(truth + draw.noise(0.01), 2)


def showers(draw: Draw) -> Pair:
    """A dose rate of 110 + 20 m_i: a shower in 100 h, at 7 of 10 stations, each hour's fall decays in 1.1 h, noise 2, in 1."""
    fall, left = np.zeros((draw.n, draw.hours.size)), np.zeros((draw.n, draw.hours.size))
    for _ in range(int(draw.hours[-1] / 100)):
        start, sizes = (
            draw.rng.integers(0, draw.hours.size - 8),
            draw.rng.exponential(0.8, draw.n) * (draw.rng.random(draw.n) < 0.7),
        )
        for hour in range(draw.rng.integers(2, 7)):
            fall[:, start + hour] += 7 * sizes * draw.rng.exponential(1.0)
    for t in range(1, draw.hours.size):
        left[:, t] = np.exp(-(draw.hours[t] - draw.hours[t - 1]) / 1.1) * left[:, t - 1] + fall[:, t]
    truth = 110 + draw.levels(20.0) + left
    return truth, np.round(truth + draw.noise(2.0))


def quake(draw: Draw) -> Pair:
    """Displacements: 8 mm a year, .8 G(300 km, 4 days), a quake of 40 exp(-distance / 60 km) that creeps on; noise 1.3."""
    days = (draw.hours - draw.hours[0]) / 24
    since = np.maximum(days - 0.6 * days[-1], 0)
    jump = 40 * np.exp(-np.linalg.norm(draw.places, axis=1, keepdims=True) / 60)
    truth = 8 * days / 365 + 0.8 * draw.field(300, 96) + jump * np.where(since > 0, 1 + 0.4 * np.log1p(since / 15), 0.0)
    return truth, np.round(truth + draw.noise(1.3), 2)


def gate(draw: Draw) -> Pair:
    """A level below a gate, opened at 6:30 and 17 h for 2 to 5 h: 1.4 m, later, smoother and less at each gauge; noise .006."""
    x, opened = np.zeros((draw.n, draw.hours.size)), np.zeros(draw.hours.size)
    for day in range(int(draw.hours[-1] / 24)):
        for hour in (6.5, 17.0):
            start = 24 * day + hour + draw.rng.normal(0, 0.3)
            opened[(draw.hours >= start) & (draw.hours < start + draw.rng.uniform(2, 5))] = draw.rng.uniform(0.6, 1)
    step = draw.hours[1] - draw.hours[0]
    for i in range(draw.n):
        flow = np.interp(draw.hours - 0.5 * i, draw.hours, opened)
        for t in range(1, draw.hours.size):
            x[i, t] = x[i, t - 1] + (flow[t] - x[i, t - 1]) * min(step / (0.05 + 0.3 * i), 1.0)
    truth = 1.2 + 0.2 * np.arange(draw.n)[:, None] + 1.4 * 0.92 ** np.arange(draw.n)[:, None] * x
    return truth, np.round(truth + draw.noise(0.006), 3)


def catchments(draw: Draw) -> Pair:
    """Discharges of areas from 20 to 1,500 km2: the larger, the later and slower a flood, and 3 % off."""
    area = np.geomspace(20, 1500, draw.n)[:, None]
    rain = np.zeros(draw.hours.size)
    for _ in range(int(draw.hours[-1] / 160)):
        start = draw.rng.integers(0, draw.hours.size - 24)
        rain[start : start + draw.rng.integers(4, 24)] += draw.rng.exponential(2.5)
    truth = np.full((draw.n, draw.hours.size), 0.012 * area)
    since = draw.hours[:, None] - draw.hours
    for i in range(draw.n):
        late, quick = area[i] ** 0.35, 3 + area[i] ** 0.45
        for decay, share in ((quick, 0.17), (150.0, 0.06)):
            after = since - late
            truth[i] += share * area[i] / decay * np.where(after >= 0, np.exp(-np.maximum(after, 0) / decay), 0.0) @ rain
    return truth, np.round(truth * (1 + draw.noise(0.03)), 2)


KINDS: dict[str, Callable[[Draw], Pair]] = {
    kind.__name__: kind
    for kind in (smooth, fronts, cycle, humidity, rain, irradiance, flood, tenths, whole, showers, quake, gate, catchments)
}


def draw(kind: str, minutes: float, n_stations: int, n_times: int, seed: int) -> Record:
    """A healthy record of one of :data:`KINDS`."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind), int(minutes), n_stations])
    places = rng.uniform(-SIDE_KM / 2, SIDE_KM / 2, (n_stations, 2))
    if kind == "flood":
        places = 12.0 * np.c_[np.arange(n_stations), 0.1 * np.arange(n_stations)]
    hours = np.arange(n_times) * minutes / 60
    truth, readings = KINDS[kind](Draw(places, hours, rng))
    readings = readings.astype(float)
    readings[rng.random(readings.shape) < 0.03] = np.nan
    outage = max(n_times // 100, 1)
    for i in range(n_stations):
        for first in rng.integers(0, n_times - outage, 2):
            readings[i, first : first + outage] = np.nan
    times = START + (np.arange(n_times) * minutes * 60).astype("timedelta64[s]")
    coordinates = np.c_[50 + places[:, 1] / 111.2, 5 + places[:, 0] / (111.2 * np.cos(np.radians(50)))]
    return Record(coordinates, times, truth, readings)
