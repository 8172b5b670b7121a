"""Results of a space-time model, also as pandas frames and xarray data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from nareg._core import checks
from nareg.errors import MissingDependencyError
from nareg.results import Status
from nareg.spacetime._model.bands import Bands
from nareg.spacetime._transforms import Transform

if TYPE_CHECKING:
    import pandas as pd
    import xarray

    from nareg.graph import Graph


def station_names(graph: Graph, rows: int) -> list[str]:
    """Names of the stations; numbers where there are none, or for places that are no stations."""
    return list(graph.names) if graph.names is not None and rows == graph.n_nodes else [str(i) for i in range(rows)]


def frame_of(values: np.ndarray, times: np.ndarray, graph: Graph) -> pd.DataFrame:
    """Values (N, T) with a row per time and a column per station."""
    import pandas as pd

    return pd.DataFrame(values.T.copy(), index=pd.Index(times, name="time"), columns=station_names(graph, len(values)))


def dataset_of(variables: dict[str, np.ndarray], times: np.ndarray, graph: Graph, names: Sequence[str] | None = None) -> Any:
    """Variables (N, T) as an xarray Dataset, with the places of the stations as coordinates."""
    try:
        import xarray as xr
    except ModuleNotFoundError:
        raise MissingDependencyError("to_xarray needs xarray: pip install 'nareg[tables]'.") from None
    rows = len(next(iter(variables.values())))
    coordinates: dict[str, Any] = {"station": list(names or station_names(graph, rows)), "time": times}
    if graph.coordinates is not None and rows == graph.n_nodes and graph.coordinates.shape[1] == 2:
        axes = ("latitude", "longitude") if graph.metric == "haversine" else ("x", "y")
        coordinates |= {name: ("station", axis) for name, axis in zip(axes, graph.coordinates.T, strict=True)}
    return xr.Dataset({name: (("station", "time"), values) for name, values in variables.items()}, coordinates)


@dataclass(frozen=True)
class FitDetails:
    """How a space-time model was chosen.

    Attributes
    ----------
    chosen : str
        The model, in a few words.
    choices : tuple of (str, float, float)
        What was compared: its name, its log-likelihood or its gain at hidden readings, and the standard error of a gain (NaN
        for a log-likelihood).
    objective : tuple of float
        Penalized log-likelihood after each iteration of the last fit.
    gradient : float
        Its scaled gradient at the end.
    hidden : int
        Number of readings that were hidden to compare models.
    notes : tuple of str
        A sentence on each oddity of the readings: a likelihood without a maximum, a constant station, a single reading.
    """

    chosen: str = "parametric model"
    choices: tuple[tuple[str, float, float], ...] = ()
    objective: tuple[float, ...] = ()
    gradient: float = float("inf")
    hidden: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Estimate and standard deviation for every station and time, with all gaps filled.

    Attributes
    ----------
    x : (N, T) array
        Mean of the field given all readings, in the unit of the readings.
    std : (N, T) array
        Standard deviation of the field, in the unit of the readings.
    noise : (N,) array
        Noise variances of the transformed readings, which :meth:`interval` adds for ``of="reading"``.
    status : Status
    log_likelihood : float
        Log-likelihood of the readings, in their unit.
    times : (T,) array
    timings : dict of seconds
        ``"total"``.
    """

    x: np.ndarray
    std: np.ndarray
    status: Status
    log_likelihood: float
    times: np.ndarray
    noise: np.ndarray = field(repr=False)
    _center: np.ndarray = field(repr=False)
    _var: np.ndarray = field(repr=False)
    _transform: Transform = field(repr=False)
    _bands: Bands = field(repr=False)
    _graph: Graph = field(repr=False)
    timings: dict[str, float] = field(default_factory=dict, repr=False)

    @property
    def median(self) -> np.ndarray:
        """(N, T) median of the field. It minimizes the absolute error; with a transform it is below the mean."""
        return np.asarray(self._transform.backward(self._center))

    def interval(self, level: float = 0.9, *, of: str = "field", calibrated: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end (N, T) of the band with this probability.

        Parameters
        ----------
        level : float
            Between 0 and 1.
        of : {"field", "reading"}
            Quantity in the band: the field, or a new reading with its noise.
        calibrated : bool
            Multiply the width by the factor for which the readings' band covers this share of hidden readings (split
            conformal).
        """
        level = checks.number("level", level, low=0, high=1, strict=True)
        checks.choice("of", of, ("field", "reading"))
        var = self._var + self.noise[:, None] if of == "reading" else self._var
        reach = norm.ppf(0.5 + min(level, 1 - 1e-12) / 2) * np.sqrt(var)
        if calibrated:
            reach = reach * self._bands.at(level, np.sqrt(self._var + self.noise[:, None]))
        lower, upper = (np.asarray(self._transform.backward(self._center + sign * reach)) for sign in (-1, 1))
        return lower, upper

    def to_frame(self, of: str = "x") -> pd.DataFrame:
        """The estimate (``"x"``) or its standard deviation (``"std"``): a row per time and a column per station."""
        return frame_of(getattr(self, checks.choice("of", of, ("x", "std"))), self.times, self._graph)

    def to_xarray(self, level: float = 0.9) -> xarray.Dataset:
        """``estimate``, ``std``, and ``lower`` and ``upper`` of the band with this probability; places are coordinates."""
        lower, upper = self.interval(level)
        return dataset_of({"estimate": self.x, "std": self.std, "lower": lower, "upper": upper}, self.times, self._graph)


@dataclass(frozen=True, eq=False)
class Update:
    """Result of one step of a stream.

    Attributes
    ----------
    x, std : (N,) arrays
        Estimate of the field at this time and its standard deviation, in the unit of the readings.
    innovations : (N,) array
        Reading minus its prediction from the past, in the unit of the readings; NaN without a reading.
    scores : (N,) array
        Innovations in standard deviations, in the model's unit.
    clipped : (N,) bool array
        Readings beyond the limit ``robust``, which were moved to it or ignored.
    log_likelihood : float
        Log-likelihood of the readings of this step.
    """

    x: np.ndarray
    std: np.ndarray
    innovations: np.ndarray
    scores: np.ndarray
    clipped: np.ndarray
    log_likelihood: float
