"""Designs for the page: three methods at several noise levels, learned from the first half of the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nareg import design
from nareg.graph import Graph
from nareg.results import WeightDesign

#: Noise that the page adds, as signal-to-noise ratio in dB; None adds none.
SNRS: tuple[float | None, ...] = (None, 20.0, 15.0, 10.0, 5.0, 0.0, -5.0, -10.0)
#: From so many times on, the first half designs and the second half shows the errors.
FEWEST_TO_SPLIT = 20


@dataclass(frozen=True, eq=False)
class DesignGrid:
    """Designs per noise level, and what they were learned from.

    Attributes
    ----------
    history : int
        Times that the designs saw, the first ones.
    levels : (N,) array
        Station means over the history, which are removed before a filter and put back after it.
    moment : (N, N) array
        Second moment of the history.
    power : float
        Its mean square: the signal power of the SNR.
    variances : list of float
        Noise variance per level: that of the readings, and what is added.
    designs : dict of str to list of WeightDesign
        ``"one"``, ``"node"`` and ``"edge"``.
    """

    history: int
    levels: np.ndarray
    moment: np.ndarray
    power: float
    variances: list[float]
    designs: dict[str, list[WeightDesign]]


def design_grid(graph: Graph, field: np.ndarray, own_noise: float, tick: Callable[[str, float], None]) -> DesignGrid:
    """Design at every noise level for a field (N, T) without gaps, whose readings have the variance ``own_noise``."""
    n_times = field.shape[1]
    history = n_times // 2 if n_times >= FEWEST_TO_SPLIT else n_times
    levels = field[:, :history].mean(axis=1)
    past = field[:, :history] - levels[:, None]
    power = float(np.mean(past**2))
    variances = [own_noise + (0.0 if snr is None else power / 10 ** (snr / 10)) for snr in SNRS]
    designs: dict[str, list[WeightDesign]] = {"one": [], "node": [], "edge": []}
    for k, noise in enumerate(variances):
        tick(f"designing filters, noise level {k + 1} of {len(variances)}", k / len(variances))
        designs["one"].append(design.node_invariant(graph, rule="oracle", signals=past, noise=noise))
        designs["node"].append(design.exact(graph, signals=past, noise=noise))
        designs["edge"].append(design.edge(graph, signals=past, noise=noise))
    return DesignGrid(history, levels, past @ past.T / history, power, variances, designs)
