"""A network too large for one check of its stations, in neighborhoods, and what was found there in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse.csgraph import breadth_first_order

from nareg.graph import Graph
from nareg.quality import Flag, Quality, Suspect

#: Stations of a neighborhood, at most: enough to tell a fault from weather, and checked in seconds.
NEIGHBORHOOD = 64


def neighborhoods(graph: Graph, pairs: Sequence[tuple[int, int]] = ()) -> list[np.ndarray]:
    """Stations in groups of about the same size, by halves: of the map, or of the graph where there are no places.

    The first of each pair is in the group of the second.
    """

    def halved(stations: np.ndarray) -> list[np.ndarray]:
        if stations.size <= NEIGHBORHOOD:
            return [np.sort(stations)]
        order = _along_edges(graph, stations) if graph.coordinates is None else _along_map(graph.coordinates, stations)
        return [part for half in np.array_split(order, 2) for part in halved(half)]

    group = np.empty(graph.n_nodes, dtype=int)
    for k, part in enumerate(halved(np.arange(graph.n_nodes))):
        group[part] = k
    for i, j in pairs:
        group[i] = group[j]
    return [np.flatnonzero(group == k) for k in np.unique(group)]


def _along_map(coordinates: np.ndarray, stations: np.ndarray) -> np.ndarray:
    """Stations from one end of the longer side to the other."""
    places = coordinates[stations]
    return stations[np.argsort(places[:, np.ptp(places, axis=0).argmax()], kind="stable")]


def _along_edges(graph: Graph, stations: np.ndarray) -> np.ndarray:
    """Stations from one that is far from others on; those that no edge leads to last."""
    part = graph.subgraph(stations).adjacency
    far = breadth_first_order(part, 0, directed=False, return_predecessors=False)[-1]
    reached = breadth_first_order(part, far, directed=False, return_predecessors=False)
    return stations[np.concatenate([reached, np.setdiff1d(np.arange(stations.size), reached)])]


def in_network(suspects: Sequence[Suspect], stations: np.ndarray) -> list[Suspect]:
    """Suspects of a neighborhood with the whole network's indices."""
    return [replace(suspect, station=int(stations[suspect.station])) for suspect in suspects]


def unevaluated(y: np.ndarray, times: np.ndarray) -> Quality:
    """Of readings (N, T) that no model could be fitted to."""
    unknown = np.full(y.shape, np.nan)
    return Quality(np.where(np.isfinite(y), Flag.UNKNOWN, Flag.MISSING).astype(np.int8), unknown, unknown, (), times)


def merged(parts: Sequence[np.ndarray], checked: Sequence[Quality]) -> Quality:
    """The checks of all neighborhoods as that of the network."""
    order = np.argsort(np.concatenate(parts))
    rows = {name: np.concatenate([getattr(q, name) for q in checked])[order] for name in ("flags", "scores", "badness")}
    suspects, dismissed = (
        [suspect for part, q in zip(parts, checked, strict=True) for suspect in in_network(getattr(q, name), part)]
        for name in ("suspects", "dismissed")
    )
    seconds = sum(q.timings.get("total", 0.0) for q in checked)
    return Quality(
        **rows, suspects=tuple(sorted(suspects, key=lambda s: -s.score)), times=checked[0].times, dismissed=tuple(dismissed),
        timings={"total": seconds},
    )  # fmt: skip
