"""Filter each time in space with a weight for every edge and station, designed from the training readings alone.

The fit of the space-time model gives what single times do not tell: a transform, means and cycles to remove, noise variances,
and gross outliers to leave out. Its field and its dynamics are not used.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from nareg import design, filters
from nareg.cleaning._words import plural
from nareg.errors import AmplificationWarning, NaregError, TooLargeError
from nareg.graph import Graph
from nareg.progress import ProgressCallback
from nareg.results import Status, WeightDesign
from nareg.spacetime import SpaceTimeModel, SparseSpaceTimeModel
from nareg.spacetime._model.base import on_grid

EDGES = "edge weights"
#: Edges and stations together: 250 stations with seven neighbors have 1,300. The design takes two minutes there, and its time
#: grows faster than the square.
MOST_WEIGHTS = 1500
#: Times that weights are designed from, evenly spread: with gaps each costs a factor per step. 365 instead of 120 days of the
#: US network lower the error at hidden readings by 2 %.
MOST_TIMES = 120
#: Fewer times than this tell too little of so many weights.
FEWEST_TIMES = 20


@dataclass(frozen=True, eq=False)
class EdgeWeights:
    """Edge weights for the anomalies of a model: its readings in its unit, without mean and cycles."""

    model: SpaceTimeModel | SparseSpaceTimeModel
    design: WeightDesign
    n_times: int  # that the weights were designed from

    def estimate(self, readings: np.ndarray | None = None, times: np.ndarray | None = None) -> np.ndarray:
        """Estimate (N, T) from readings with NaN where missing, by default those of the model's fit."""
        z, offset = anomalies(self.model, readings, times)
        seen = np.isfinite(z)
        # a part of the network without any reading at a time is at its means and cycles
        given = seen | _silent_parts(self.model.graph, seen)
        with warnings.catch_warnings():
            # hidden readings show what large estimates are worth, and whether another method is better
            warnings.simplefilter("ignore", AmplificationWarning)
            x = filters.interpolate(self.model.graph, self.design, np.where(seen, z, 0.0), given).x
        return self.model.to_readings(x + offset)

    def __str__(self) -> str:
        n_all = self.model.readings.shape[1]
        n_edges = self.model.graph.adjacency.nnz // 2
        amount = self.design.certificate.details["shrink"]
        return (
            f"{plural(n_edges, 'edge')} and {plural(self.model.n_nodes, 'station')}, designed from {self.n_times:,} of "
            f"{plural(n_all, 'time')}, shrunk by {amount:.2g} to one weight"
        )


def anomalies(
    model: SpaceTimeModel | SparseSpaceTimeModel, readings: np.ndarray | None = None, times: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Readings (N, T) in the model's unit without mean and cycles, NaN where missing or left out; mean and cycles (N, T)."""
    given = on_grid(model, readings, times, exclude=True)
    offset = given.offset[given.grid.rows].T
    return given.rows[given.grid.rows].T - offset, offset


def learn(
    model: SpaceTimeModel | SparseSpaceTimeModel, notes: list[str], progress: ProgressCallback | None = None
) -> EdgeWeights | None:
    """Design weights from the readings of the model's fit, or None with a note that gives the reason.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C ends the design and everything else.
    """
    graph = model.graph
    if graph.n_nodes == 1:
        return None
    try:
        unknowns = graph.n_nodes + graph.adjacency.nnz // 2
        if unknowns > MOST_WEIGHTS:
            raise TooLargeError(
                f"it takes networks of at most {MOST_WEIGHTS:,} stations and edges together, and this one has {unknowns:,}."
            )
        z, _ = anomalies(model)
        useful = np.flatnonzero(np.isfinite(z).sum(axis=0) >= 2)
        if useful.size < FEWEST_TIMES:
            raise NaregError(f"it needs {FEWEST_TIMES} times with two readings or more, and there are {useful.size}.")
        some = useful[np.linspace(0, useful.size - 1, min(useful.size, MOST_TIMES)).astype(int)]
        part = z[:, some]
        seen = np.isfinite(part)
        weights = design.edge(
            graph, measurements=np.where(seen, part, 0.0), observed=seen, noise=model.unit_noise, fit="noise", progress=progress
        )
    except NaregError as error:
        notes.append(f"The method {EDGES!r} was left out of the comparison: {error}")
        return None
    if weights.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return EdgeWeights(model, weights, some.size)


def _silent_parts(graph: Graph, seen: np.ndarray) -> np.ndarray:
    """(N, T) True at stations whose connected part of the network has no reading at a time."""
    parts = graph.components
    members = sp.csr_array((np.ones(parts.size), (parts, np.arange(parts.size))))
    silent: np.ndarray = (members @ seen.astype(float) == 0)[parts]
    return silent
