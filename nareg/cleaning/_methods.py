"""The methods that are compared, behind one interface: the space-time model, edge weights and simple methods.

Edge weights filter each time in space, with a weight for every edge and station. The fit of the space-time model gives what
single times do not tell: a transform, means and cycles to remove, noise variances, and gross outliers to leave out. Its field
and its dynamics are not used.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from nareg import baselines
from nareg.cleaning._compare import Hidden, spread
from nareg.cleaning._plan import Effort
from nareg.cleaning._simple import complete, last_reading, one_weight
from nareg.cleaning._words import plural
from nareg.errors import AmplificationWarning, NaregError, TooLargeError
from nareg.graph import Graph
from nareg.progress import ProgressCallback
from nareg.results import Status, WeightDesign
from nareg.spacetime import Smoothed, SpaceTimeModel, SparseSpaceTimeModel, on_grid

MODEL, EDGES = "space-time model", "edge weights"
#: Readings in the window of the rolling mean.
WINDOW = 13
#: Kriging factors a dense covariance for every pattern of gaps.
MAX_KRIGED = 500
LAST, LINE, MEDIAN, ROLLING, WEIGHT, KRIGING = (
    "last reading", "straight line in time", "neighbors' median", f"rolling mean of {WINDOW}", "one weight", "kriging"
)  # fmt: skip
#: Those of little effort.
QUICK = (LINE, MEDIAN, ROLLING)
#: Edges and stations together: 250 stations with seven neighbors have 1,300. The design takes two minutes there, and its time
#: grows faster than the square.
MOST_WEIGHTS = 1500
#: Times that weights are designed from, evenly spread: with gaps each costs a factor per step. 365 instead of 120 days of the
#: US network lower the error at hidden readings by 2 %.
MOST_TIMES = 120
#: Fewer times than this tell too little of so many weights.
FEWEST_TIMES = 20


class Method(ABC):
    """Fills a table of readings (N, T), NaN where missing."""

    #: (N, T) what it estimates from the readings that were not hidden; :meth:`fit` sets it.
    predicted: np.ndarray

    def __init__(self, name: str, graph: Graph) -> None:
        self.name, self.graph = name, graph

    @abstractmethod
    def fit(self, seen: np.ndarray, progress: ProgressCallback) -> None:
        """Learn from readings that are not hidden.

        Raises
        ------
        NaregError
            Where the method cannot work, with the reason.
        """

    @abstractmethod
    def estimate(self, y: np.ndarray, progress: ProgressCallback) -> np.ndarray:
        """Estimate from readings."""

    def band(self, y: np.ndarray, hidden: Hidden) -> np.ndarray:
        """(N, T) standard deviation of the last estimate: here by the errors of what was predicted."""
        return spread(self.graph, y, self.predicted, hidden)


class SpaceTimeMethod(Method):
    """The space-time model; it was fitted before, with the check of the readings."""

    prediction: Smoothed
    smoothed: Smoothed | None = None

    def __init__(self, model: SpaceTimeModel | SparseSpaceTimeModel, times: np.ndarray | None, *, checked: bool) -> None:
        super().__init__(MODEL, model.graph)
        self.model, self.times, self.checked = model, times, checked

    def fit(self, seen: np.ndarray, progress: ProgressCallback) -> None:
        self.prediction = self.model.smooth()
        self.predicted = self.prediction.x

    def estimate(self, y: np.ndarray, progress: ProgressCallback) -> np.ndarray:
        # a check that calls a reading good, or whose finding was dismissed, decides: none is left out in silence
        self.smoothed = self.model.smooth(y, times=self.times, robust=not self.checked, progress=progress)
        return self.smoothed.x

    def band(self, y: np.ndarray, hidden: Hidden) -> np.ndarray:
        assert self.smoothed is not None
        # as wide as the band of 90 %: a few large errors, as in one flood, would widen all by their mean square
        return self.smoothed.std * self.smoothed.factors()


class SimpleMethod(Method):
    """A function of the readings alone."""

    def __init__(self, name: str, graph: Graph, function: Callable[[np.ndarray], np.ndarray]) -> None:
        super().__init__(name, graph)
        self.function = function

    def fit(self, seen: np.ndarray, progress: ProgressCallback) -> None:
        self.predicted = self.estimate(seen, progress)

    def estimate(self, y: np.ndarray, progress: ProgressCallback) -> np.ndarray:
        x = self.function(y)
        return x if np.isfinite(x).all() else complete(x, y, baselines.neighbor_median(self.graph, y))


def simple_methods(graph: Graph, times: np.ndarray | None, rng: np.random.Generator, effort: Effort) -> list[Method]:
    """The simple methods for readings at some times; with effort "fast" only the quick ones."""
    functions: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        LAST: last_reading,
        LINE: lambda y: baselines.interpolate_in_time(y, times=times),
        MEDIAN: lambda y: np.where(np.isfinite(y), y, baselines.neighbor_median(graph, y)),
        ROLLING: lambda y: baselines.interpolate_in_time(baselines.rolling_mean(y, WINDOW), times=times),
        WEIGHT: lambda y: one_weight(graph, y, rng),
    }
    if graph.coordinates is not None and 1 < graph.n_nodes <= MAX_KRIGED:
        functions[KRIGING] = _kriging(graph)
    return [SimpleMethod(name, graph, functions[name]) for name in (QUICK if effort == "fast" else functions)]


def _kriging(graph: Graph) -> Callable[[np.ndarray], np.ndarray]:
    """Kriging whose parameters the first readings tell: later ones are the same and those that were hidden."""
    parameters: tuple[float, float, float] | None = None

    def function(y: np.ndarray) -> np.ndarray:
        nonlocal parameters
        result = baselines.kriging(graph, y, metric=graph.metric, parameters=parameters)
        parameters = result.noise, result.variance, result.length
        return result.x

    return function


class EdgeWeights(Method):
    """Edge weights for the anomalies of a model: its readings in its unit, without mean and cycles."""

    design: WeightDesign
    n_times: int  # that the weights were designed from

    def __init__(self, model: SpaceTimeModel | SparseSpaceTimeModel, times: np.ndarray | None = None) -> None:
        super().__init__(EDGES, model.graph)
        self.model, self.times = model, times

    def fit(self, seen: np.ndarray | None = None, progress: ProgressCallback | None = None) -> None:
        """Design weights from the readings of the model's fit.

        Raises
        ------
        KeyboardInterrupt
            Ctrl-C ends the design and everything else.
        """
        from nareg import design  # and what it needs: when first needed

        graph = self.graph
        unknowns = graph.n_nodes + graph.adjacency.nnz // 2
        if unknowns > MOST_WEIGHTS:
            raise TooLargeError(
                f"it takes networks of at most {MOST_WEIGHTS:,} stations and edges together, and this one has {unknowns:,}."
            )
        z, _ = anomalies(self.model)
        useful = np.flatnonzero(np.isfinite(z).sum(axis=0) >= 2)
        if useful.size < FEWEST_TIMES:
            raise NaregError(f"it needs {FEWEST_TIMES} times with two readings or more, and there are {useful.size}.")
        some = useful[np.linspace(0, useful.size - 1, min(useful.size, MOST_TIMES)).astype(int)]
        observed = np.isfinite(z[:, some])
        self.n_times = some.size
        self.design = design.edge(
            graph, measurements=np.where(observed, z[:, some], 0.0), observed=observed, noise=self.model.unit_noise,
            data_weight="noise", progress=progress,
        )  # fmt: skip
        if self.design.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        self.predicted = self.estimate()

    def estimate(self, y: np.ndarray | None = None, progress: ProgressCallback | None = None) -> np.ndarray:
        """Estimate (N, T) from readings with NaN where missing, by default those of the model's fit."""
        from nareg import filters

        z, offset = anomalies(self.model, y, None if y is None else self.times)
        seen = np.isfinite(z)
        # a part of the network without any reading at a time is at its means and cycles
        given = seen | _silent_parts(self.graph, seen)
        with warnings.catch_warnings():
            # hidden readings show what large estimates are worth, and whether another method is better
            warnings.simplefilter("ignore", AmplificationWarning)
            x = filters.interpolate(self.graph, self.design, np.where(seen, z, 0.0), given).x
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
    return given.rows[given.grid.rows].T, offset


def _silent_parts(graph: Graph, seen: np.ndarray) -> np.ndarray:
    """(N, T) True at stations whose connected part of the network has no reading at a time."""
    parts = graph.components
    members = sp.csr_array((np.ones(parts.size), (parts, np.arange(parts.size))))
    return (members @ seen.astype(float) == 0)[parts]
