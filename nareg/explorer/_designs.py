"""Designs for the page: three methods at several noise levels, learned from every other tenth of the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nareg import design
from nareg.graph import Graph
from nareg.results import WeightDesign

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
