"""NOAA's normals at 109 stations, a year of noisy readings and nothing else: a climatology, hardly more than two modes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _us as u
from experiments import time_us
from experiments._figure import Figure, Point, Row, Verdict, grade

METHODS = u.METHODS | u.LOW_RANK


@dataclass(frozen=True)
class Settings(time_us.Settings):
    """``draws`` of the noise."""

    methods: tuple[str, ...] = tuple(METHODS)


def compute(s: Settings, point: Point) -> list[Row]:
    t = u.task(point["snr_db"], point["draw"], "noaa-109")
    begun = time.perf_counter()
    x, more = METHODS[point["method"]](t)
    energy = np.linalg.svd(t.truth, compute_uv=False) ** 2
    modes = float(energy[:2].sum() / energy.sum())
    return [{"nmse": t.nmse(x), **more, "seconds": time.perf_counter() - begun, "two_modes": modes}]


def draw(s: Settings, rows: list[Row]) -> Any:
    """NMSE by method, a column an SNR."""
    return time_us.draw(s, rows, {})


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    pairs = {snr: [time_us.nmse(rows, method, snr) for method in (u.TWO_MODES, u.BEST)] for snr in s.snr_db}
    said = "; ".join(f"{snr:g} dB: {modes:.4f}, best single weight {weight:.4f}" for snr, (modes, weight) in pairs.items())
    holds = [modes <= weight for modes, weight in pairs.values()]
    text = f"{said}. They hold {100 * rows[0]['two_modes']:.1f} % of the energy."
    return [Verdict("modes", grade(holds, aim=True), text), time_us.beside_peers(s, rows)]


FIGURE = Figure(
    "time-noaa", "A year of NOAA's normals with noise", Settings(),
    Settings(snr_db=(0.0,), methods=(u.BEST, u.GCV, u.KRIGING, u.WIENER, u.GP, u.TWO_MODES, u.OURS), draws=1), time_us.points,
    compute, draw, judge, **u.PARTS,
)  # fmt: skip
