"""What the protocols call in nareg.spacetime, nareg.clean and nareg.quality: the one place that knows these names."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import nareg
from _spacetime.points import NotThere


@dataclass(frozen=True)
class Estimate:
    """An estimate (N, T), its standard deviation, flags by QARTOD's codes, the model and what it gave, seconds, suspects."""

    x: np.ndarray
    std: np.ndarray | None = None
    flags: np.ndarray | None = None
    model: Any = None
    smoothed: Any = None
    seconds: float = 0.0
    suspects: frozenset[tuple[str, str]] = frozenset()  # names and kinds


def _function(module: str, name: str) -> Any:
    """A function of a part of the library; :class:`NotThere` where this version lacks either."""
    try:
        part = importlib.import_module(f"nareg.{module}")
    except ModuleNotFoundError as error:
        if error.name != f"nareg.{module}":
            raise
        raise NotThere(f"nareg.{module}") from None
    if not hasattr(part, name):
        raise NotThere(f"nareg.{module}.{name}")
    return getattr(part, name)


def spacetime(graph: nareg.Graph, readings: np.ndarray, times: Any = None, **options: Any) -> Estimate:
    """``nareg.spacetime.fit(...).smooth()``."""
    fit = _function("spacetime", "fit")
    start = time.perf_counter()
    model = fit(graph, readings, times=times, **options)
    smoothed = model.smooth()
    return Estimate(np.asarray(smoothed.x), np.asarray(smoothed.std), None, model, smoothed, time.perf_counter() - start)


def reading_band(estimate: Estimate, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper end (N, T) of the band that holds a new reading with this probability."""
    low, high = estimate.smoothed.interval(level, of="reading")
    return np.asarray(low), np.asarray(high)


def clean(readings: np.ndarray, names: Any, coordinates: np.ndarray, times: np.ndarray, altitude: Any = None) -> Estimate:
    """``nareg.clean(readings, stations)``, frames in and out."""
    function = getattr(nareg, "clean", None)
    if function is None:
        raise NotThere("nareg.clean")
    import pandas as pd

    stations = pd.DataFrame({"station": list(names), "latitude": coordinates[:, 0], "longitude": coordinates[:, 1]})
    if altitude is not None:
        stations["altitude"] = altitude
    frame = pd.DataFrame(readings.T, index=pd.DatetimeIndex(times, name="time"), columns=list(names))
    start = time.perf_counter()
    cleaned = function(frame, stations)
    seconds = time.perf_counter() - start
    x, std, flags = (_rows(getattr(cleaned, part), names) for part in ("x", "std", "flags"))
    suspects = frozenset((suspect.name, suspect.kind) for suspect in cleaned.quality.suspects)
    return Estimate(x, std, flags, cleaned, None, seconds, suspects)


def _rows(table: Any, names: Any) -> np.ndarray:
    """A (T, N) frame as an (N, T) array in the stations' order."""
    return table[list(names)].to_numpy().T if hasattr(table, "columns") else np.asarray(table)


def stream(model: Any) -> Any:
    """``model.stream()``."""
    return model.stream()


def quality(graph: nareg.Graph, readings: np.ndarray, times: Any = None) -> np.ndarray:
    """A score per reading (N, T), larger for worse readings."""
    return np.asarray(_function("quality", "scores")(graph, readings, times=times))
