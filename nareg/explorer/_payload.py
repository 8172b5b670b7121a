"""Designs for the page, and its data as one JSON object."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nareg import __version__, design
from nareg.cleaning import MODEL, number
from nareg.datasets import coast
from nareg.explorer._advice import ADVICE, QUESTIONS
from nareg.explorer._source import Scene
from nareg.graph import Graph
from nareg.quality import Flag
from nareg.results import WeightDesign, upper_edges

#: Noise that the page adds, as signal-to-noise ratio in dB; None adds none.
SNRS: tuple[float | None, ...] = (None, 20.0, 15.0, 10.0, 5.0, 0.0, -5.0, -10.0)
#: From so many times on, every other block of times designs, and the rest shows the errors: blocks share no weather, as random
#: times would, and both halves see all seasons.
FEWEST_TO_SPLIT, BLOCKS = 20, 10


@dataclass(frozen=True, eq=False)
class DesignGrid:
    """Designs per noise level, and what they were learned from.

    Attributes
    ----------
    learned : (T,) bool array
        Times that the designs saw.
    levels : (N,) array
        Station means over these times, which are removed before a filter and put back after it.
    moment : (N, N) array
        Second moment of these times.
    power : float
        Its mean square: the signal power of the SNR.
    variances : list of float
        Noise variance per level: that of the readings, and what is added.
    designs : dict of str to list of WeightDesign
        ``"one"``, ``"node"`` and ``"edge"``.
    """

    learned: np.ndarray
    levels: np.ndarray
    moment: np.ndarray
    power: float
    variances: list[float]
    designs: dict[str, list[WeightDesign]]


def design_grid(graph: Graph, field: np.ndarray, own_noise: float, tick: Callable[[str, float], None]) -> DesignGrid:
    """Design at every noise level for a field (N, T) without gaps, whose readings have the variance ``own_noise``."""
    learned = learned_times(field.shape[1])
    levels = field[:, learned].mean(axis=1)
    past = field[:, learned] - levels[:, None]
    power = float(np.mean(past**2))
    variances = [own_noise + (0.0 if snr is None else power / 10 ** (snr / 10)) for snr in SNRS]
    designs: dict[str, list[WeightDesign]] = {"one": [], "node": [], "edge": []}
    for k, noise in enumerate(variances):
        tick(f"designing filters, noise level {k + 1} of {len(variances)}", k / len(variances))
        designs["one"].append(design.node_invariant(graph, rule="oracle", signals=past, noise=noise))
        designs["node"].append(design.exact(graph, signals=past, noise=noise))
        designs["edge"].append(design.edge(graph, signals=past, noise=noise))
    return DesignGrid(learned, levels, past @ past.T / past.shape[1], power, variances, designs)


def learned_times(n_times: int) -> np.ndarray:
    """Which of the times designs learn from, (T,)."""
    if n_times < FEWEST_TO_SPLIT:
        return np.ones(n_times, dtype=bool)
    return np.arange(n_times) * BLOCKS // n_times % 2 == 0


#: Code of a missing value, and the largest code of a value.
MISSING, LARGEST = 65535, 65534
#: Decimals that sensors write; values with no more of them are stored exactly.
DECIMALS = 4

#: The page's bands hold the true value with this probability.
LEVEL = 0.9
#: Scores above this are drawn the same.
LARGEST_SCORE = 100.0
#: Five decimals of a degree are a meter.
COORDINATE_DECIMALS = 5


def payload(scene: Scene, grid: DesignGrid) -> dict[str, Any]:
    """Everything that the page computes with; no time stamp, so that the same inputs give the same page."""
    cleaned, graph = scene.cleaned, scene.cleaned.network.graph
    table = cleaned.network.readings
    flags = cleaned.flags.to_numpy().T
    low, high = cleaned.band(LEVEL)
    i, j = upper_edges(graph.adjacency)
    errors = [[str(name), number(float(row["rmse"]), 3)] for name, row in cleaned.errors.iterrows()]  # best first
    matrices = [one.matrix.toarray() for one in grid.designs["edge"]]
    assert graph.coordinates is not None
    return {
        "version": __version__,
        "title": scene.title,
        "source": scene.source,
        "unit": cleaned.unit or "",
        "record": scene.record,
        "names": list(table.names),
        "times": list(table.times),
        "places": np.round(graph.coordinates, COORDINATE_DECIMALS).tolist(),
        "geographic": geographic(graph),
        "coast": coast(graph.coordinates) if geographic(graph) else {"land": [], "borders": []},
        "edges": {
            "from": encode(i, "uint16"), "to": encode(j, "uint16"),
            "weight": encode(np.asarray(graph.adjacency[i, j]).ravel(), "float64"),
        },
        "readings": pack(table.values),
        "truth": None if scene.truth is None else pack(scene.truth),
        "scores": None if cleaned.quality is None else pack(np.minimum(cleaned.quality.badness, LARGEST_SCORE)),
        "bad": encode(np.flatnonzero(flags == Flag.BAD), "uint32"),
        "suspicious": encode(np.flatnonzero(flags == Flag.SUSPECT), "uint32"),
        "cleaned": {
            "method": cleaned.method, "model": cleaned.method == MODEL, "x": pack(cleaned.x.to_numpy().T),
            "low": pack(low), "high": pack(high), "errors": errors, "headline": cleaned.headline(),
            "notes": list(cleaned.notes),
        },
        "suspects": suspects(scene),
        "learned": grid.learned.astype(int).tolist(),
        "levels": encode(grid.levels, "float64"),
        "moment": encode(grid.moment[np.tril_indices(graph.n_nodes)], "float64" if graph.n_nodes <= 200 else "float32"),
        "momentType": "float64" if graph.n_nodes <= 200 else "float32",
        "power": grid.power,
        "snrs": list(SNRS),
        "variances": grid.variances,
        "designs": {
            "one": [float(d.weights[0]) for d in grid.designs["one"]],
            "node": [encode(d.weights, "float64") for d in grid.designs["node"]],
            "edge": [encode(np.concatenate([np.diagonal(S), S[i, j]]), "float64") for S in matrices],
        },
        "questions": QUESTIONS,
        "advice": ADVICE,
    }  # fmt: skip


def geographic(graph: Graph) -> bool:
    """Whether coordinates are latitude and longitude in degrees."""
    return graph.metric == "haversine"


def suspects(scene: Scene) -> list[dict[str, Any]]:
    """Suspect stations with kind, span as columns, score and evidence; worst first."""
    cleaned = scene.cleaned
    names = cleaned.network.readings.names
    if cleaned.quality is None:
        last = cleaned.x.shape[0] - 1
        text = "Many of its readings are flagged bad, or it has none. Other faults need a space-time model."
        return [
            {"station": names.index(name), "kind": "flagged", "score": None, "start": 0, "stop": last, "evidence": text}
            for name in cleaned.suspects
        ]
    times = cleaned.quality.times
    return [
        {
            "station": s.station, "kind": s.kind, "score": round(s.score, 1) if np.isfinite(s.score) else None,
            "start": int(np.searchsorted(times, s.start)), "stop": int(np.searchsorted(times, s.stop)), "evidence": s.evidence,
        }
        for s in cleaned.quality.suspects
    ]  # fmt: skip


def encode(array: np.ndarray, dtype: str) -> str:
    """The little-endian bytes of an array as base64."""
    return base64.b64encode(np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()).decode("ascii")


def pack(values: np.ndarray) -> dict[str, Any]:
    """Values as ``low + step * code``, NaN where missing.

    The step is a power of ten where that stores every value exactly; else the range over 65,534.
    """
    finite = np.isfinite(values)
    if not finite.any():
        return {"low": 0.0, "step": 1.0, "codes": encode(np.full(values.shape, MISSING), "uint16")}
    low, high = float(values[finite].min()), float(values[finite].max())
    step = next((10.0**-k for k in range(DECIMALS + 1) if _exact(values[finite], k, high - low)), (high - low) / LARGEST or 1.0)
    codes = np.full(values.shape, MISSING, dtype=np.int64)
    codes[finite] = np.clip(np.rint((values[finite] - low) / step), 0, LARGEST)
    return {"low": low, "step": step, "codes": encode(codes, "uint16")}


def _exact(values: np.ndarray, decimals: int, spread: float) -> bool:
    scaled = values * 10.0**decimals
    return spread * 10**decimals <= LARGEST and bool(np.abs(scaled - np.rint(scaled)).max() < 1e-6)
