"""Result of ranking sites for sensors."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from nareg.graph import Graph
from nareg.io import write_rows

#: Sites that a summary lists.
SHOWN = 5


@dataclass(frozen=True, eq=False)
class SensorRanking:
    """Sites for a new sensor, or stations that may go, with what each changes in the expected squared error.

    :func:`placement` and :func:`removal` make it; :func:`nareg.plotting.ranking` draws it.

    Attributes
    ----------
    action : {"add", "remove"}
    names : tuple of M texts
        Names of the sites.
    coordinates : (M, d) array or None
    mse : float
        Expected squared error of the smoother today, averaged over the nodes, in the squared unit of the readings.
    reduction : (M,) array
        By how much a sensor at each site alone lowers it; negative where it grows, as a station stops reading.
    order : (K,) int array
        The sites that were chosen one after the other, as indices of ``names``.
    mse_after : (K,) array
        Expected squared error after each of these.
    graph : Graph
        The model's network.
    station_mse : (N,) array
        Expected squared error at each of its nodes today.
    reads : (N,) bool array
        Whether it has readings.
    timings : dict of seconds
        ``"total"``.
    """

    action: Literal["add", "remove"]
    names: tuple[str, ...]
    coordinates: np.ndarray | None
    mse: float
    reduction: np.ndarray
    order: np.ndarray
    mse_after: np.ndarray
    graph: Graph = field(repr=False)
    station_mse: np.ndarray = field(repr=False)
    reads: np.ndarray = field(repr=False)
    timings: dict[str, float] = field(default_factory=dict, repr=False)

    @property
    def percent(self) -> np.ndarray:
        """(M,) reduction in percent of today's error."""
        percent: np.ndarray = 100 * self.reduction / self.mse
        return percent

    @property
    def best(self) -> str:
        """Name of the site that was chosen first."""
        return self.names[self.order[0]]

    @property
    def rank(self) -> np.ndarray:
        """(M,) 1 for the site with the largest reduction, then 2, ..."""
        return np.argsort(np.argsort(-self.reduction, kind="stable"), kind="stable") + 1

    def summary(self) -> str:
        """Today's error, the best sites alone, and the order for several, in a few lines."""
        adds = self.action == "add"
        title = f"{len(self.names)} sites for a new sensor" if adds else f"{len(self.names)} stations that may stop reading"
        lines = [title, f"  expected root mean squared error of the smoother today: {np.sqrt(self.mse):.4g}"]
        best = np.argsort(self.rank)
        for i in best[:SHOWN]:
            lines.append(f"  {self.names[i]} alone: {self._effect(-self.percent[i])}")
        if best.size > SHOWN:
            lines.append(f"  ... and {best.size - SHOWN} more")
        if self.order.size > 1:
            shares = 100 * (self.mse_after / self.mse - 1)
            lines.append("  one after the other:")
            lines += [f"    {self.names[i]}: {self._effect(share)} so far" for i, share in zip(self.order, shares, strict=True)]
        return "\n".join(lines)

    def _effect(self, percent: float) -> str:
        return f"mean squared error {percent:+.2f} %"

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a line per site, the largest reduction first: name, coordinates, reduction, percent, place in the order.

        Parameters
        ----------
        path : path
        """
        axes = ("latitude", "longitude") if self.graph.metric == "haversine" else ("x", "y", "z")
        d = 0 if self.coordinates is None else self.coordinates.shape[1]
        headings = axes[:d] if d <= len(axes) else tuple(f"x{k + 1}" for k in range(d))
        chosen = {int(i): k + 1 for k, i in enumerate(self.order)}
        rows = (
            [
                self.names[i], *(() if self.coordinates is None else self.coordinates[i].tolist()),
                float(self.reduction[i]), float(self.percent[i]), chosen.get(int(i), ""),
            ]
            for i in np.argsort(self.rank)
        )  # fmt: skip
        write_rows(path, ["site", *headings, "reduction", "percent", "chosen"], rows)
