"""Write a network as two tables: stations.csv and readings.csv."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nareg.datasets.registry import DatasetInfo
from nareg.errors import InputError
from nareg.graph import Graph, node_indices
from nareg.io import write_rows
from nareg.typing import ArrayLike


def shortest(value: float) -> str:
    """The fewest digits that give the value back; those of single precision where it came from there."""
    single = np.float32(value)
    return str(single) if float(single) == value else repr(float(value))


def write_tables(
    folder: str | os.PathLike[str],
    names: tuple[str, ...],
    columns: dict[str, list[str]],
    times: list[str],
    readings: np.ndarray,
    number: Callable[[float], str] = shortest,
) -> Path:
    """Write both tables; ``columns`` are those of the stations beside their names, an empty cell is a missing reading."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    write_rows(target / "stations.csv", ["station", *columns], zip(names, *columns.values(), strict=True))
    rows = (
        [time, *("" if np.isnan(value) else number(value) for value in column)]
        for time, column in zip(times, readings.T, strict=True)
    )
    write_rows(target / "readings.csv", ["time", *names], rows)
    return target


@dataclass(frozen=True, eq=False)
class SensorNetwork:
    """Readings of N stations at T times, and the graph that joins the stations.

    Attributes
    ----------
    name : str
    graph : Graph
        Each station joined with its ``neighbors`` nearest on the sphere, Gaussian kernel of the mean
        neighbor distance (:meth:`Graph.from_knn` with its defaults).
    signals : (N, T) float64 array
        Readings in ``units``; NaN where there is none.
    observed : (N, T) bool array
        Whether there is a reading.
    times : (T,) array
        ISO dates as strings, or running numbers where the source has no time stamps.
    units : str
    source, license, citation : str
    neighbors : int
    reference : (N, T) float64 array or None
        All measured values, for data sets whose authors hide some readings; ``signals`` has only the others.
    held_out : (N, T) bool array or None
        Hidden readings on which published results are scored, against ``reference``.
    """

    name: str
    graph: Graph
    signals: np.ndarray
    observed: np.ndarray
    times: np.ndarray
    units: str
    source: str
    license: str
    citation: str
    neighbors: int
    reference: np.ndarray | None = None
    held_out: np.ndarray | None = None

    @property
    def coordinates(self) -> np.ndarray:
        """(N, 2) latitude and longitude in degrees; the graph's."""
        assert self.graph.coordinates is not None
        return self.graph.coordinates

    @property
    def names(self) -> tuple[str, ...]:
        """N station names; the graph's."""
        assert self.graph.names is not None
        return self.graph.names

    @property
    def n_nodes(self) -> int:
        """Number of stations N."""
        return int(self.signals.shape[0])

    @property
    def n_times(self) -> int:
        """Number of times T."""
        return int(self.signals.shape[1])

    def select(self, stations: ArrayLike) -> SensorNetwork:
        """The network of some stations, each joined again with its nearest neighbors.

        Parameters
        ----------
        stations : (N,) bool array or sequence of distinct int

        Returns
        -------
        SensorNetwork

        Examples
        --------
        >>> import nareg
        >>> nareg.datasets.load("us-weather").select(range(20)).n_nodes
        20
        """
        index = node_indices("stations", stations, self.n_nodes)
        if index.size <= self.neighbors:
            raise InputError(f"stations selects {index.size}: select more than {self.neighbors}, to join neighbors.")
        names = tuple(self.names[i] for i in index)
        return replace(
            self,
            graph=Graph.from_knn(self.coordinates[index], self.neighbors, metric="haversine", names=names),
            signals=self.signals[index],
            observed=self.observed[index],
            reference=None if self.reference is None else self.reference[index],
            held_out=None if self.held_out is None else self.held_out[index],
        )

    def complete(self) -> SensorNetwork:
        """The network of the stations without a missing reading.

        Examples
        --------
        >>> import nareg
        >>> nareg.datasets.load("us-weather").complete()
        SensorNetwork('us-weather', 140 stations, 365 times, 0 missing, °C)
        """
        return self.select(self.observed.all(axis=1))

    def to_csv(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``stations.csv`` and ``readings.csv``, as :func:`nareg.clean` reads them.

        Returns
        -------
        pathlib.Path
            The folder.

        Examples
        --------
        >>> import tempfile, nareg
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = nareg.datasets.load("us-weather").to_csv(folder)
        ...     print(*sorted(path.name for path in written.iterdir()))
        readings.csv stations.csv
        """
        latitude, longitude = (list(map(shortest, axis)) for axis in self.coordinates.T)
        columns = {"latitude": latitude, "longitude": longitude}
        return write_tables(folder, self.names, columns, [str(time) for time in self.times], self.signals)

    def __repr__(self) -> str:
        missing = int((~self.observed).sum())
        return f"SensorNetwork({self.name!r}, {self.n_nodes} stations, {self.n_times} times, {missing} missing, {self.units})"


def build(
    entry: DatasetInfo, readings: np.ndarray, times: np.ndarray | None, units: str, places: np.ndarray, names: list[str],
    *, neighbors: int = 7,
) -> SensorNetwork:  # fmt: skip
    """Assemble a network from readings (T, N), as files store them, NaN where missing, and places in degrees (N, 2)."""
    graph = Graph.from_knn(places.astype(np.float64), neighbors, metric="haversine", names=names)
    signals = readings.T.astype(np.float64)
    return SensorNetwork(
        name=entry.name,
        graph=graph,
        signals=signals,
        observed=np.ascontiguousarray(np.isfinite(signals)),
        times=np.arange(len(readings)) if times is None else times,
        units=units,
        source=entry.source,
        license=entry.license,
        citation=entry.citation,
        neighbors=neighbors,
    )
