"""Results of a space-time model, and bands that cover their nominal share of readings: split conformal factors.

Where a reading is, the estimate's error is mostly noise; in a gap it is the field's. A model may be right about one and wrong
about the other, so hidden readings are split into strata by their predicted standard deviation, and each stratum has a factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from nareg._core import checks
from nareg._core.arrays import briefly_shown
from nareg.errors import MissingDependencyError
from nareg.results import Status
from nareg.spacetime._readings.holdout import HeldOut
from nareg.spacetime._readings.repeats import Bounds
from nareg.spacetime._readings.transforms import Transform

if TYPE_CHECKING:
    import pandas as pd
    import xarray

    from nareg.graph import Graph


#: Levels of the bands that are calibrated.
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
#: Fewer hidden readings than this calibrate nothing.
FEWEST = 50
#: Hidden readings that the Gaussian band counts for.
PRIOR = 200
#: Bands whose standard deviation is so many times below those of the hidden readings are Gaussian.
UNLIKE = 2.0
#: Hidden readings that a stratum has at least, and the most strata.
PER_STRATUM, MAX_STRATA = 500, 5


@dataclass(frozen=True)
class Bands:
    """Factors for the width of Gaussian bands, by level and by the predicted standard deviation of a reading."""

    stds: tuple[float, ...] = ()  # typical standard deviation of every stratum, increasing
    factors: dict[float, tuple[float, ...]] = field(default_factory=dict)  # level to a factor per stratum; empty: all 1

    def at(self, level: float, std: np.ndarray) -> np.ndarray:
        """Factors for standard deviations ``std``: linear between levels, in log(std) between strata, and from them to 1."""
        if not self.factors:
            return np.ones_like(std)
        levels = sorted(self.factors)
        known = np.array([self.factors[each] for each in levels])
        # errors in gaps say nothing of far smaller ones, which are those of the noise
        per_stratum = [1.0, *(np.interp(level, levels, column) for column in known.T)]
        stds = np.log([self.stds[0] / UNLIKE, *self.stds])
        return np.interp(np.log(np.maximum(std, 1e-300)), stds, per_stratum)

    def in_unit(self, unit: float) -> Bands:
        """The same for standard deviations in another unit."""
        return Bands(tuple(unit * std for std in self.stds), self.factors)


def calibrate(held_out: HeldOut) -> Bands:
    """Bands from hidden readings.

    A factor is the split conformal quantile, of H scores the ``ceil((H + 1) level)``-th smallest, over the Gaussian one,
    drawn towards 1 as if that had been seen in :data:`PRIOR` readings: a few dozen hidden readings know less than the model.
    """
    scores = np.abs(held_out.errors) / held_out.std
    if scores.size < FEWEST:
        return Bands()
    order = np.argsort(held_out.std, kind="stable")
    strata = np.array_split(order, int(np.clip(scores.size // PER_STRATUM, 1, MAX_STRATA)))
    stds: list[float] = []
    columns: list[list[float]] = []
    for stratum in strata:
        typical = float(np.exp(np.log(held_out.std[stratum]).mean()))
        if stds and typical <= stds[-1] * (1 + 1e-9):  # all errors are expected to be the same
            continue
        stds.append(typical)
        columns.append([_factor(np.sort(scores[stratum]), level) for level in LEVELS])
    return Bands(tuple(stds), {level: tuple(column[k] for column in columns) for k, level in enumerate(LEVELS)})


def _factor(scores: np.ndarray, level: float) -> float:
    H = scores.size
    rank = min(int(np.ceil((H + 1) * level)), H) - 1
    raw = float(scores[rank] / ndtri(0.5 + level / 2))
    return 1 + H / (H + PRIOR) * (raw - 1)


def station_names(graph: Graph, rows: int) -> list[str]:
    """Names of the stations; numbers where there are none, or for places that are no stations."""
    return list(graph.names) if graph.names is not None and rows == graph.n_nodes else [str(i) for i in range(rows)]


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


@briefly_shown
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
    _bounds: Bounds = field(repr=False)
    _graph: Graph = field(repr=False)
    timings: dict[str, float] = field(default_factory=dict, repr=False)

    @property
    def median(self) -> np.ndarray:
        """(N, T) median of the field. It minimizes the absolute error; with a transform it is below the mean."""
        return self._bounds.clip(self._transform.backward(self._center))

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
        reach = ndtri(0.5 + min(level, 1 - 1e-12) / 2) * np.sqrt(var)
        if calibrated:
            reach = reach * self.factors(level)
        lower, upper = (self._bounds.clip(self._transform.backward(self._center + sign * reach)) for sign in (-1, 1))
        return lower, upper

    def factors(self, level: float = 0.9) -> np.ndarray:
        """Factors (N, T) by which the calibrated band with this probability is wider than a normal distribution's."""
        return self._bands.at(level, np.sqrt(self._var + self.noise[:, None]))

    def to_frame(self, of: str = "x") -> pd.DataFrame:
        """The estimate (``"x"``) or its standard deviation (``"std"``): a row per time and a column per station."""
        import pandas as pd

        values = getattr(self, checks.choice("of", of, ("x", "std")))
        names = station_names(self._graph, len(values))
        return pd.DataFrame(values.T.copy(), index=pd.Index(self.times, name="time"), columns=names)

    def to_xarray(self, level: float = 0.9) -> xarray.Dataset:
        """``estimate``, ``std``, and ``lower`` and ``upper`` of the band with this probability; places are coordinates."""
        lower, upper = self.interval(level)
        return dataset_of({"estimate": self.x, "std": self.std, "lower": lower, "upper": upper}, self.times, self._graph)


@briefly_shown
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
