"""Estimates as tables with names and times: pandas frames and xarray data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nareg.errors import MissingDependencyError

if TYPE_CHECKING:
    import pandas as pd

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
