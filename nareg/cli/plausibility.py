"""Checks of ``nareg design``: gaps, silent stations, and numbers that contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numpy as np
from rich.markup import escape

from nareg._core import checks
from nareg.cli.inputs import console, print_message
from nareg.errors import InputError
from nareg.io import stations_named

#: Readings whose standard deviation is less than this share of their level are taken as constant.
CONSTANT = 1e-9
#: A level is unlike the design's beyond so many standard deviations of its readings, a spread beyond so many times it.
LEVEL, SPREAD = 3.0, 4.0
#: Few readings have too uncertain a spread; at few times it is that of one moment.
ENOUGH_READINGS, ENOUGH_TIMES = 30, 10
#: A station is unlike its past beyond so many standard deviations, when the others are not.
STATION = 6.0


def check_readings(path: Any, names: Sequence[str], values: np.ndarray, seen: np.ndarray) -> None:
    """Report missing readings, silent stations and stuck stations; refuse constant tables."""
    live = np.asarray(seen.any(axis=1))
    if not seen.all():
        console.print(f"{int((~seen).sum())} of {seen.size} readings are missing; the design uses all others", soft_wrap=True)
    if not seen.any(axis=0).all():
        console.print(f"{int((~seen.any(axis=0)).sum())} times without any reading are left out", soft_wrap=True)
    if not live.all():
        console.print(
            f"no reading from {escape(stations_named(compress(names, ~live)))}: left out of the design; "
            "`nareg interpolate` estimates it from its neighbors",
            soft_wrap=True,
        )
    count = seen.sum(axis=1)
    low, high = (
        np.where(live, f(np.where(seen, values, fill), axis=1), 0.0) for f, fill in ((np.min, np.inf), (np.max, -np.inf))
    )
    size = float(np.abs(values[seen]).max())
    stuck = (count >= ENOUGH_TIMES) & (high - low <= CONSTANT * max(size, 1e-300))
    if stuck.any() and not (stuck | (count < 2)).all():
        which = stations_named(compress(names, stuck))
        text = f"the same reading at all times from {which}: if a sensor is stuck, empty its column in {path}."
        print_message("warning", text)
    if np.std(values[seen]) <= CONSTANT * size:
        raise InputError(f"{path}: all readings are (nearly) {values[seen].flat[0]:g}: pass readings that vary.")


def noise_line(variance: np.ndarray, how: str) -> None:
    """Print the noise as variance and as standard deviation: the two are easily confused."""
    middle = float(np.median(variance))
    what = "" if (variance == variance[0]).all() else ", median over stations"
    console.print(f"noise {how}: standard deviation {np.sqrt(middle):.4g}, variance {middle:.4g}{what}", soft_wrap=True)


def refuse_more_noise_than_readings(variance: np.ndarray, values: np.ndarray, seen: np.ndarray) -> None:
    """Refuse a noise variance above that of the noisy readings."""
    mine, theirs = float(np.mean(variance)), float(np.var(values[seen]))
    if mine >= theirs:
        raise InputError(
            f"the noise variance {mine:.4g} (standard deviation {np.sqrt(mine):.4g}) is not below the variance of the "
            f"readings, {theirs:.4g} (standard deviation {np.sqrt(theirs):.4g}): no signal would be left; pass a variance as "
            "--noise or a standard deviation as --noise-std, in the readings' unit."
        )


def from_history(
    design: Callable[[Any, np.ndarray, Any], Any], graph: Any, X: np.ndarray, seen: np.ndarray, variance: Any,
    names: Sequence[str], *, per_edge: bool,
) -> Any:  # fmt: skip
    """Design from a clean history with gaps, which are drawn from their distribution given the other readings.

    ``design(graph, signals, variance)`` designs for stations that all have readings.
    """
    from nareg._solvers.system import penalty
    from nareg.design import Completion, for_all_stations, reduced_penalty

    if seen.all():
        return design(graph, X, variance)
    base, rng = penalty(graph), np.random.default_rng(0)
    live = np.asarray(seen.any(axis=1))
    if not live.all() and per_edge:
        raise InputError(
            f"--method edge needs readings of every station, but there is none of "
            f"{stations_named(compress(names, ~live))}: drop it from the station file, or use --method blind or exact."
        )
    if live.sum() < 2:
        raise InputError("only one station has readings: pass readings of at least two neighbors.")
    checks.dense_size("a design from readings with gaps", base.n_nodes, copies=6, alternative="pass times without gaps")
    small, extension = (base, np.zeros((0, base.n_nodes))) if live.all() else reduced_penalty(base, live)
    filled = Completion(small.L.toarray(), X[live], seen[live], rng).draw(rng)
    designed = design(graph if live.all() else small, filled, variance if live.all() else variance[live])
    return designed if live.all() else for_all_stations(designed, base, extension, seen)


def facts(values: np.ndarray, seen: np.ndarray) -> dict[str, Any]:
    """Level and spread of the readings, over all and per station, as a design stores them."""
    count = seen.sum(axis=1)
    level = np.divide(np.where(seen, values, 0.0).sum(axis=1), count, out=np.zeros(len(values)), where=count > 0)
    square = np.where(seen, (values - level[:, None]) ** 2, 0.0).sum(axis=1)
    spread = np.sqrt(np.divide(square, count, out=np.zeros(len(values)), where=count > 0))

    def listed(numbers: np.ndarray, least: int) -> list[float | None]:
        return [float(v) if n >= least else None for v, n in zip(numbers, count, strict=True)]

    return {
        "level": float(np.mean(values[seen])),
        "spread": float(np.std(values[seen])),
        "station_level": listed(level, 1),
        "station_spread": listed(spread, 2),
    }


def compare_with_design(
    path: Any, weights: Any, stored: Any, names: Sequence[str], values: np.ndarray, seen: np.ndarray, allowed: bool
) -> None:
    """Refuse readings at another level, or with another spread, than those of the design; warn of single stations."""
    if not isinstance(stored, dict) or not {"level", "spread", "station_level", "station_spread"} <= set(stored):
        return
    then = np.array([np.nan if v is None else v for v in stored["station_level"]], dtype=float)
    own = np.array([np.nan if v is None else v for v in stored["station_spread"]], dtype=float)
    if then.shape != (len(names),) or own.shape != then.shape:
        return
    now, least = values[seen], 1e-12 * max(abs(float(stored["level"])), 1e-300)
    spread_then, spread_now = max(float(stored["spread"]), least), float(np.std(now))
    both = seen & np.isfinite(then)[:, None]
    # over the same stations: a part of the network may be warmer than the whole
    expected = float(np.mean(np.broadcast_to(then[:, None], seen.shape)[both])) if both.any() else float(stored["level"])
    off = abs(float(np.mean(values[both] if both.any() else now)) - expected)
    ratio, many = spread_now / spread_then, now.size >= ENOUGH_READINGS
    unlike = off > LEVEL * spread_then or (many and ratio > SPREAD)
    unlike |= many and seen.shape[1] >= ENOUGH_TIMES and ratio < 1 / SPREAD
    if unlike:
        sentence = (
            f"{path}: the readings are {np.mean(now):.4g} ± {spread_now:.3g} (mean, standard deviation), but {weights} was "
            f"designed for {expected:.4g} ± {float(stored['spread']):.3g}"
        )
        if not allowed:
            raise InputError(f"{sentence}: check the unit, design again for these readings, or pass --allow-unlike.")
        print_message("warning", f"{sentence}.")
        return
    count = seen.sum(axis=1)
    level = np.divide(np.where(seen, values, 0.0).sum(axis=1), count, out=np.full(len(names), np.nan), where=count > 0)
    shift = level - then
    usable = np.isfinite(shift) & np.isfinite(own)
    if usable.sum() < 3:
        return
    typical = float(np.median(own[usable]))
    far = usable & (np.abs(shift - np.median(shift[usable])) > STATION * np.maximum(np.nan_to_num(own), typical))
    for i in np.flatnonzero(far)[:5]:
        print_message(
            "warning",
            f"station {names[int(i)]!r} reads {level[i]:.4g} on average, but {then[i]:.4g} ± {own[i]:.3g} in the design's "
            "readings: its unit or its sensor may have changed.",
        )
