"""What is to be said of each station: gaps, noise, resolution, level beside its neighbors, faults; and when all are silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nareg.cleaning._words import plural
from nareg.io import resolution
from nareg.quality import Flag, events

if TYPE_CHECKING:
    import pandas as pd

    from nareg.cleaning._results import CleanedTables

#: Neighbors that are named.
NAMED = 4


def station_table(cleaned: CleanedTables) -> pd.DataFrame:
    """A row per station; see :attr:`nareg.cleaning.Cleaned.stations`."""
    import pandas as pd

    readings, flags = cleaned.network.readings, cleaned.flags.to_numpy().T
    y = readings.values
    seen = np.isfinite(y)
    good = np.where(seen & (flags != Flag.BAD), y, np.nan)
    adjacency = cleaned.network.graph.adjacency.tocsr()
    faults: dict[str, list[str]] = {}
    for suspect in events(cleaned.quality.suspects) if cleaned.quality is not None else ():
        faults.setdefault(suspect.name, []).append(suspect.kind)
    near = []
    for i in range(len(y)):
        row = slice(*adjacency.indptr[i : i + 2])
        order = np.argsort(-adjacency.data[row], kind="stable")[:NAMED]
        near.append(", ".join(readings.names[j] for j in adjacency.indices[row][order]))
    return pd.DataFrame(
        {
            "readings": seen.sum(axis=1),
            "missing": 1 - seen.mean(axis=1),
            "longest_gap": [_longest_run(~row) for row in seen],
            "resolution": [resolution(row[np.isfinite(row)]) for row in y],
            "noise": np.full(len(y), np.nan) if cleaned.model is None else np.sqrt(cleaned.model.noise),
            "above_neighbors": _above_neighbors(good, adjacency, around=cleaned.kind == "direction"),
            "suspect": (flags == Flag.SUSPECT).sum(axis=1),
            "bad": (flags == Flag.BAD).sum(axis=1),
            "faults": [", ".join(faults.get(name, ())) for name in readings.names],
            "neighbors": near,
        },
        index=pd.Index(readings.names, name="station"),
    )


def silence(cleaned: CleanedTables) -> str:
    """When no station at all has a reading; empty where that never happens."""
    readings = cleaned.network.readings
    silent = np.isnan(readings.values).all(axis=0)
    if not silent.any():
        return ""
    starts, stops = _runs(silent)
    k = int(np.argmax(stops - starts))
    first, last = readings.times[starts[k]], readings.times[stops[k] - 1]
    stretches = "" if len(starts) == 1 else f"in {len(starts)} stretches, the longest "
    return f"At {plural(int(silent.sum()), 'time')} no station has a reading, {stretches}from {first} to {last}."


def _above_neighbors(y: np.ndarray, adjacency: object, *, around: bool) -> np.ndarray:
    """(N,) median of the differences between readings (N, T) and the mean of the neighbors' at the time; NaN without any."""
    seen = np.isfinite(y)
    weights = adjacency @ seen.astype(float)  # type: ignore[operator]
    with np.errstate(invalid="ignore", divide="ignore"):
        if around:
            turned = np.where(seen, np.exp(1j * np.radians(np.where(seen, y, 0.0))), 0.0)
            mean = np.degrees(np.angle(adjacency @ turned))  # type: ignore[operator]
            apart = (y - mean + 180) % 360 - 180
        else:
            apart = y - (adjacency @ np.where(seen, y, 0.0)) / weights  # type: ignore[operator]
    apart[~(weights > 0)] = np.nan
    return np.array([np.median(row[np.isfinite(row)]) if np.isfinite(row).any() else np.nan for row in apart])


def _runs(marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and stops of runs of True."""
    edges = np.diff(np.concatenate([[0], marks.astype(np.int8), [0]]))
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)


def _longest_run(marks: np.ndarray) -> int:
    starts, stops = _runs(marks)
    return int((stops - starts).max(initial=0))
