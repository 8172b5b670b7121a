"""Models and streams in files: plain arrays and one JSON text in an .npz, no pickle; and what all models have in them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp

from nareg._storage import array_files
from nareg.errors import UNREADABLE, InputError, NaregError, brief
from nareg.graph import Graph
from nareg.results import Status, atomic_write
from nareg.spacetime._dense.filter import factor
from nareg.spacetime._model.results import Bands, FitDetails
from nareg.spacetime._readings import times as _times
from nareg.spacetime._readings import transforms as _transforms
from nareg.spacetime._readings.covariates import Covariates, Regression
from nareg.spacetime._readings.cycles import CYCLES, WEEK_WAVES, Cycles
from nareg.spacetime._readings.repeats import Bounds
from nareg.spacetime._readings.series import Series
from nareg.spacetime._readings.station_series import StationSeries
from nareg.spacetime._readings.times import TimeGrid

if TYPE_CHECKING:
    from nareg.spacetime._model.base import BaseModel

Made = TypeVar("Made")
#: Makes a model or a stream from the arrays and facts of a file.
Maker = Callable[[dict[str, np.ndarray], dict[str, Any]], Made]


def write(path: str | os.PathLike[str], arrays: dict[str, Any], facts: dict[str, Any]) -> None:
    """Write arrays and facts; whole or not at all."""
    text = np.array(json.dumps(facts))
    with atomic_write(path) as handle:
        np.savez_compressed(handle, allow_pickle=False, facts=text, **arrays)


def read(path: str | os.PathLike[str], makers: Mapping[str, Maker[Made]], writer: str) -> Made:
    """What a file holds, by the format that it names; the first of ``makers`` is the usual one."""
    try:
        arrays = array_files.read_npz(path)
        facts = json.loads(str(arrays["facts"]))
        if facts["format"] not in makers:
            raise ValueError(f"its format is {facts['format']!r}, not {next(iter(makers))!r}")
        return makers[facts["format"]](arrays, facts)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except (*UNREADABLE, NaregError, RecursionError, MemoryError) as error:
        raise InputError(f"{path} cannot be used ({brief(error).rstrip('.')}): pass a file that {writer} wrote.") from None


def shared_arrays(model: BaseModel[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays and plain facts that models of every size have."""
    if model.transform.name == "custom":
        raise InputError("the model's transform is a pair of functions, which cannot be saved: fit with 'sqrt', 'log' or None.")
    coo = model.graph.adjacency.tocoo()
    c, g = model.cycles, model.grid
    facts = {
        "names": model.graph.names, "metric": model.graph.metric, "transform": model.transform.name,
        "shift": model.transform.shift, "low": model.transform.low, "unit": model.unit, "status": model.status.name,
        "log_likelihood": model.log_likelihood, "step": g.step, "length": g.length, "cycles": c.names,
        "harmonics": c.harmonics, "band_stds": list(model.bands.stds),
        "factors": [[level, *each] for level, each in model.bands.factors.items()],
        "details": asdict(model.details), "timings": model.timings,
        "bounds": [end if np.isfinite(end) else None for end in (model.bounds.low, model.bounds.high)],
    }  # fmt: skip
    arrays: dict[str, Any] = {
        "shape": np.array(model.graph.adjacency.shape), "row": coo.coords[0], "col": coo.coords[1],
        "weight": coo.data, "times": g.values, "rows": g.rows, "noise": model.unit_noise, "level": c.level,
        "common": c.common, "ranges": c.ranges, "dual": c.dual, "variance": c.variance, "spread": c.spread, "errors": c.errors,
        "readings": model.readings, "excluded": model.excluded,
    }  # fmt: skip
    if c.regression is not None:
        facts["covariates"] = c.regression.covariates.names
        arrays |= {f"covariate_{name}": value for name, value in c.regression.arrays().items()}
    for what, own in (("series", c.series), ("station_series", c.local)):
        if own is not None:
            facts[what] = own.names
            arrays |= {f"{what}_{entry.name}": getattr(own, entry.name) for entry in fields(own) if entry.name != "names"}
    optional = {
        "own": c.own, "coordinates": model.graph.coordinates, "noise_error": model.noise_error,
        "noise_shares": model.noise_shares,
    }  # fmt: skip
    return arrays | {name: values for name, values in optional.items() if values is not None}, facts


def shared_fields(a: dict[str, np.ndarray], facts: dict[str, Any]) -> dict[str, Any]:
    """Checked arguments that models of every size take."""
    n, T = int(a["noise"].size), int(a["times"].size)
    names, harmonics = tuple(facts["cycles"]), tuple(map(int, facts["harmonics"]))
    need(tuple(a["shape"]) == (n, n), "its sizes contradict each other")
    need(len(names) == len(harmonics) <= len(CYCLES) and set(names) <= set(CYCLES), f"its cycles are {names}")
    need(all(1 <= count <= len(WEEK_WAVES) for count in harmonics), f"its harmonics are {harmonics}")
    series = _series(a, tuple(facts.get("series", ())))
    K = 1 + 2 * sum(harmonics) + (0 if series is None else int(series.used.sum()))
    floats = {
        "noise": (n,), "readings": (n, T), "level": (K, n), "common": (K,), "ranges": (K,), "dual": (K, n), "variance": (K,),
        "spread": (K, n), "errors": (K, n, a["errors"].shape[-1]),
    }  # fmt: skip
    optional = {"own": (K,), "noise_error": (2, n), "noise_shares": (n, T)}
    floats |= {name: shape for name, shape in optional.items() if name in a}
    for name, shape in floats.items():
        array(a, name, shape)
    variances = all((a[name] >= 0).all() for name in ("ranges", "variance", "spread"))
    noises = all((a[name] > 0).all() for name in {"noise", "noise_shares"} & a.keys())
    need(variances and noises, "it has negative variances")
    need(a["excluded"].shape == (n, T) and a["excluded"].dtype == bool, "excluded is not a mask of its readings")
    need(all(a[end].dtype.kind in "iu" for end in ("row", "col")), "the ends of its edges are not whole numbers")
    graph = Graph(
        sp.coo_array((a["weight"], (a["row"], a["col"])), shape=(n, n)),
        coordinates=a.get("coordinates"), names=facts["names"], metric=facts["metric"],
    )  # fmt: skip
    shift, low, log_likelihood = (number(facts, name) for name in ("shift", "low", "log_likelihood"))
    unit, step = number(facts, "unit"), number(facts, "step")
    need(min(unit, step) > 0, "its unit or step are not positive")
    return {
        "graph": graph, "transform": _transforms.restore(facts["transform"], shift, low), "unit": unit,
        "cycles": Cycles(
            names, harmonics, a["level"], a["common"], a["ranges"], a["dual"], a["variance"], a["spread"], a["errors"],
            _regression(a, tuple(facts.get("covariates", ())), n, K), a.get("own"), series,
            _station_series(a, tuple(facts.get("station_series", ())), n),
        ),
        "unit_noise": a["noise"], "grid": _grid(a, T, step), "status": Status[facts["status"]],
        "log_likelihood": log_likelihood, "bands": _bands(facts), "bounds": _bounds(facts),
        "readings": a["readings"], "excluded": a["excluded"],
        "noise_error": a.get("noise_error"), "noise_shares": a.get("noise_shares"), "details": _details(facts["details"]),
        "timings": {str(name): float(seconds) for name, seconds in facts["timings"].items()},
    }  # fmt: skip


def _regression(a: dict[str, np.ndarray], names: tuple[str, ...], n: int, K: int) -> Regression | None:
    if not names:
        return None
    C = len(names)
    shapes = {"values": (n, C), "center": (C,), "scale": (C,), "slopes": (K, C), "variances": (K, C), "gains": (C,)}
    parts = {name: array(a, f"covariate_{name}", shape)[f"covariate_{name}"] for name, shape in shapes.items()}
    need((parts["scale"] > 0).all() and (parts["variances"] >= 0).all(), "its covariates have no valid scale or variance")
    covariates = Covariates(names, parts["values"], parts["center"], parts["scale"])
    return Regression(covariates, parts["slopes"], parts["variances"], parts["gains"])


def _series(a: dict[str, np.ndarray], names: tuple[str, ...]) -> Series | None:
    if not names:
        return None
    S, C = a["series_seconds"].size, len(names)
    shapes = {"seconds": (S,), "values": (S, C), "center": (C,), "scale": (C,), "gains": (C,)}
    return Series(names, **_over_time(a, "series", shapes))


def _station_series(a: dict[str, np.ndarray], names: tuple[str, ...], n: int) -> StationSeries | None:
    if not names:
        return None
    S, C = a["station_series_seconds"].size, len(names)
    shapes = {
        "seconds": (S,), "own": (S, n, C), "shared": (S, C), "center": (n, C), "scale": (C,), "slopes": (2, C), "gains": (2, C),
    }  # fmt: skip
    return StationSeries(names, **_over_time(a, "station_series", shapes))


def _over_time(a: dict[str, np.ndarray], what: str, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    parts = {name: array(a, f"{what}_{name}", shape)[f"{what}_{name}"] for name, shape in shapes.items()}
    rises = parts["seconds"].size > 1 and (np.diff(parts["seconds"]) > 0).all()
    need(rises and (parts["scale"] > 0).all() and (parts["gains"] >= 0).all(), "its series have no valid times or scale")
    return parts


def _details(facts: dict[str, Any]) -> FitDetails:
    choices = tuple((str(name), float(value), float(error)) for name, value, error in facts["choices"])
    objective = tuple(map(float, facts["objective"]))
    notes = tuple(map(str, facts.get("notes", ())))
    return FitDetails(str(facts["chosen"]), choices, objective, float(facts["gradient"]), int(facts["hidden"]), notes)


def _grid(a: dict[str, np.ndarray], T: int, step: float) -> TimeGrid:
    rows, times = a["rows"], _times.checked(a["times"], T)
    need(
        rows.shape == (T,) and rows.dtype.kind == "i" and rows[0] == 0 and (np.diff(rows) > 0).all(),
        "rows do not rise from 0",
    )
    length = int(rows[-1]) + 1
    need(length <= max(_times.MAX_ROWS * T, _times.FEW_ROWS), f"its grid has {length} rows for {T} times")
    return TimeGrid(times[0], step, times.dtype.kind == "M", rows, length, times)


def _bands(facts: dict[str, Any]) -> Bands:
    stds = tuple(float(std) for std in facts["band_stds"])
    factors = {float(level): tuple(float(each) for each in row) for level, *row in facts["factors"]}
    values = np.array([*stds, *factors, *(each for row in factors.values() for each in row)])
    need(bool(np.isfinite(values).all() and (values > 0).all()), "its bands have a number that is not positive")
    need(bool((np.diff(stds) > 0).all()) and bool(stds) == bool(factors), "the strata of its bands do not increase")
    need(all(len(row) == len(stds) for row in factors.values()), "its bands have another number of strata")
    return Bands(stds, factors)


def _bounds(facts: dict[str, Any]) -> Bounds:
    low, high = facts.get("bounds", (None, None))
    ends = Bounds(-np.inf if low is None else float(low), np.inf if high is None else float(high))
    need(ends.low < ends.high, "its bounds are not a lower and an upper one")
    return ends


def need(holds: bool | np.bool_, otherwise: str) -> None:
    """Refuse a file that does not hold what it must."""
    if not holds:
        raise ValueError(otherwise)


def number(facts: dict[str, Any], name: str) -> float:
    """A finite number among the facts."""
    value = facts[name]
    finite = isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))
    need(finite, f"{name} is not a number")
    return float(value)


def array(a: dict[str, np.ndarray], name: str, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The arrays, after a check of one of them."""
    given = a[name]
    need(given.shape == shape and given.dtype == float, f"{name} has shape {given.shape} of {given.dtype}, not {shape}")
    bad = np.isinf(given) if name == "readings" else ~np.isfinite(given)
    need(not bad.any(), f"{name} has a value that is not finite")
    return a


def covariance(a: dict[str, np.ndarray], name: str, size: int, *, definite: bool = True) -> np.ndarray:
    """A symmetric matrix (size, size) of them, positive definite or with a diagonal that is not negative."""
    matrix = array(a, name, (size, size))[name]
    largest = float(np.abs(matrix).max())
    need(float(np.abs(matrix - matrix.T).max()) <= 1e-8 * largest, f"{name} is not symmetric")
    if definite:
        factor(matrix, name)
    else:
        need(float(matrix.diagonal().min()) >= -1e-8 * largest, f"{name} is not a covariance")
    return matrix
