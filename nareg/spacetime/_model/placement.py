"""Where the next sensor lowers the error most, and which one costs least when it goes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg._core.arrays import briefly_shown
from nareg._solvers.threads import few_threads
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.io import write_rows
from nareg.progress import Progress, ProgressCallback
from nareg.spacetime._model.dense import SpaceTimeModel
from nareg.spacetime._model.sparse import SparseSpaceTimeModel
from nareg.spacetime._model.spectrum import FEWEST, ErrorSpectrum, SensorChange, greedy, mean_information

#: Sites that a summary lists.
SHOWN = 5


@briefly_shown
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
        return 100 * self.reduction / self.mse

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


#: Nodes whose squared errors are averaged.
AverageOver: TypeAlias = Literal["stations", "all"]


def placement(
    model: SpaceTimeModel | SparseSpaceTimeModel,
    *,
    stations: Sequence[str | int] | None = None,
    coordinates: ArrayLike | None = None,
    covariates: Mapping[str, ArrayLike] | None = None,
    names: Sequence[str] | None = None,
    count: int = 1,
    noise: ArrayLike | None = None,
    average_over: AverageOver = "stations",
    progress: ProgressCallback | None = None,
) -> SensorRanking:
    """Rank sites for new sensors by how much each lowers the expected squared error of the smoother.

    Parameters
    ----------
    model : SpaceTimeModel
    stations : sequence of names or positions, optional
        Nodes of the graph where a sensor may go; one that reads already gets a second sensor. Default: the nodes without a
        reading, or all if every one reads; none if ``coordinates`` are given.
    coordinates : (M, d) array, optional
        Further places.
    covariates : mapping of str to (M,) array, optional
        Values at ``coordinates`` of what the model's means follow, such as the altitude.
    names : sequence of M texts, optional
        Names of these places; default "place 1", "place 2", ...
    count : int
        Number of sensors to choose. Each is the best one given those before.
    noise : number or array with one entry per site, optional
        Noise variance of a new sensor, in the squared unit of the readings. Default: the median of the model's.
    average_over : {"stations", "all"}
        What the error is averaged over: the nodes of the graph, or these and the further places.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per frequency.

    Returns
    -------
    SensorRanking

    Raises
    ------
    InputError
        If an argument has no valid value, or the model's dynamics are not stable.
    TooLargeError
        If the spectra of all sites do not fit into memory.

    Notes
    -----
    The error is that of the smoother, which sees all readings before and after, in its steady state, where the Riccati
    equations have converged. A new sensor reads at all times. A station that reads at a share s of the times counts as one
    that always reads, with the information ``s / (r + (1 - s) c)``. There r is its noise variance, and c is the field's
    variance given all other readings. That is exact for s of 0 and 1, and nearly so between if readings are missing at random.
    Steps are Gaussian. With a transform, an error of the transformed field counts in proportion to the field's variance in the
    unit of the readings.

    Several sensors are chosen greedily. The reduction of the error is not submodular: a sensor that says nothing alone may
    say much beside another (Das and Kempe, Algorithms for subset selection in linear regression, STOC 2008). So the usual
    guarantee of 1 - 1/e does not hold.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> network = nareg.datasets.simulated(9, 200, faults=(), rng=np.random.default_rng(0))
    >>> readings = network.readings.copy()
    >>> readings[[2, 5]] = np.nan
    >>> model = nareg.spacetime.fit(network.graph(), readings, times=network.times)
    >>> ranking = nareg.spacetime.placement(model, count=2)
    >>> sorted(ranking.names) == sorted(network.names[i] for i in (2, 5)), bool((ranking.reduction > 0).all())
    (True, True)
    """
    started = perf_counter()
    model = _checked(model)
    checks.choice("average_over", average_over, ("stations", "all"))
    graph, n = model.graph, model.n_nodes
    information = _information(model)
    reads = information > 0
    if stations is not None:
        at = _positions(model, stations)
    elif coordinates is not None:
        at = np.empty(0, dtype=int)
    else:
        at = np.flatnonzero(~reads) if not reads.all() else np.arange(n)
    labels = [_name(model, int(i)) for i in at]
    if coordinates is not None:
        points = model.checked_places(coordinates)
        places = [f"place {k + 1}" for k in range(len(points))] if names is None else [str(name) for name in names]
        if len(places) != len(points):
            raise InputError(f"names has {len(places)} entries for {len(points)} places: pass one per place.")
        if model.kernel.family == "graph" and len(points) > 1:
            raise InputError(
                f"coordinates has {len(points)} places, but this model's correlation is that of the graph, which each place "
                "changes for the others: rank one place per call."
            )
        whole = n + len(points)
        checks.memory(
            f"a model of {n} stations and {len(points)} places", 8.0 * (8 + 2 * FEWEST) * (whole * model.dynamics.order) ** 2,
            alternative="pass fewer places",
        )  # fmt: skip
        model = model.extended(points, covariates=covariates)
        at = np.concatenate([at, np.arange(n, n + len(points))])
        labels += places
    elif names is not None:
        raise InputError("names is given without coordinates: stations have the names of the graph; omit it.")
    count = _checked_count(count, at.size)
    slopes = _slopes(model)
    variances = np.full(at.size, float(np.median(model.unit_noise[:n][reads] if reads.any() else model.unit_noise)))
    if noise is not None:
        given = checks.node_vector("noise", noise, at.size)
        if (given <= 0).any():
            i = int(np.argmin(given))
            raise InputError(f"noise[{i}] is {given[i]:g}: pass variances above 0, in the squared unit of the readings.")
        variances = given / slopes[at]
    scored = n if average_over == "stations" else model.n_nodes
    change = SensorChange(at, 1.0 / variances, np.where(np.arange(model.n_nodes) < scored, slopes / scored, 0.0))
    return _rank(model, graph, information, change, labels, count, progress, started)


def removal(
    model: SpaceTimeModel | SparseSpaceTimeModel,
    *,
    stations: Sequence[str | int] | None = None,
    count: int = 1,
    progress: ProgressCallback | None = None,
) -> SensorRanking:
    """Rank stations by how little the expected squared error of the smoother grows when they stop reading.

    Parameters
    ----------
    model : SpaceTimeModel
    stations : sequence of names or positions, optional
        Stations that may go. Default: all that read.
    count : int
        Number of stations to choose. Each costs least given those that went before.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per frequency.

    Returns
    -------
    SensorRanking
        Its reductions are negative: the error grows.

    Raises
    ------
    InputError
        If an argument has no valid value, a station has no reading, or the model's dynamics are not stable.

    Notes
    -----
    As for :func:`placement`. The error is averaged over all nodes of the graph, those that went included.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> network = nareg.datasets.simulated(9, 200, faults=(), rng=np.random.default_rng(0))
    >>> model = nareg.spacetime.fit(network.graph(), network.readings, times=network.times)
    >>> ranking = nareg.spacetime.removal(model, count=2)
    >>> len(ranking.names), bool((ranking.reduction < 0).all())
    (9, True)
    """
    started = perf_counter()
    model = _checked(model)
    information = _information(model)
    reads = information > 0
    at = np.flatnonzero(reads) if stations is None else _positions(model, stations)
    if not reads[at].all():
        i = int(at[np.argmin(reads[at])])
        raise InputError(f"station {_name(model, i)!r} has no reading: pass stations that read.")
    count = _checked_count(count, at.size)
    labels = [_name(model, int(i)) for i in at]
    change = SensorChange(at, -information[at], _slopes(model) / model.n_nodes)
    return _rank(model, model.graph, information, change, labels, count, progress, started)


def _rank(
    model: SpaceTimeModel, graph: Graph, information: np.ndarray, change: SensorChange, names: list[str], count: int,
    progress: ProgressCallback | None, started: float,
) -> SensorRanking:  # fmt: skip
    """Rank what changes at the nodes of these names. The model may have further places, which ``graph`` has not."""
    report: Callable[[int, int], None] | None = None
    if progress is not None:
        report = lambda done, total: progress(Progress("ranking sites", done, total, done / total))  # noqa: E731
    with few_threads(model.n_nodes):
        W = np.concatenate([information, np.zeros(model.n_nodes - information.size)])
        spectrum = ErrorSpectrum.of(model.dynamics, W, change, report)
        order, gains = greedy(spectrum, change, count)
    mse = float(change.importance @ spectrum.errors)
    coordinates = model.graph.coordinates
    return SensorRanking(
        "remove" if (change.information < 0).any() else "add", tuple(names),
        None if coordinates is None else coordinates[change.nodes], mse, spectrum.gains, order,
        mse - np.cumsum(gains), graph, (spectrum.errors * _slopes(model))[: graph.n_nodes],
        information > 0, {"total": perf_counter() - started},
    )  # fmt: skip


def _checked(model: SpaceTimeModel | SparseSpaceTimeModel) -> SpaceTimeModel:
    if not isinstance(model, SpaceTimeModel):
        remedy = "pass a model that nareg.spacetime.fit or load returned, of at most 500 stations with engine='dense'"
        raise InputError(f"model is a {type(model).__name__}: {remedy}.")
    return model


def _positions(model: SpaceTimeModel, stations: Sequence[str | int]) -> np.ndarray:
    at = model.station_indices(stations)
    if not at:
        raise InputError("stations is empty: pass at least one station, or omit it.")
    if len(set(at)) < len(at):
        i = next(i for k, i in enumerate(at) if i in at[:k])
        raise InputError(f"station {_name(model, i)!r} appears twice in stations: pass each one once.")
    return np.array(at)


def _checked_count(count: int, sites: int) -> int:
    count = checks.integer("count", count, low=1)
    if count > sites:
        raise InputError(f"count is {count} but there are {sites} sites: pass at most {sites}.")
    return count


def _name(model: SpaceTimeModel, i: int) -> str:
    return str(i) if model.graph.names is None else model.graph.names[i]


def _information(model: SpaceTimeModel) -> np.ndarray:
    """(N,) information of the readings, per time."""
    shares = (np.isfinite(model.readings) & ~model.excluded).sum(axis=1) / model.grid.length
    with few_threads(model.n_nodes):
        return mean_information(model.dynamics, shares, model.unit_noise)


def _slopes(model: SpaceTimeModel) -> np.ndarray:
    """(N,) squared unit of the readings per squared unit of the model: with a transform, the ratio of the field's variances."""
    var = model.dynamics.P0.diagonal()[: model.n_nodes]
    return model.to_mean(model.cycles.level[0], var)[1] ** 2 / var
