"""Sensor networks: GraphTRSS's ``.mat`` files (Giraldo et al. 2022) and PriSTI's text files of AQI-36 (Liu et al. 2023)."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import scipy.io

from nareg._storage.array_files import refuse_expanding
from nareg.datasets._sources.graphs import Arrays

#: Prepared name of the readings -> the file and the variable of it.
MAT = {"temperature_C": ("sea_surface_temperature.mat", "Data"), "pm25": ("PM2_5_concentration.mat", "myDataPM")}
POSITION = "Position"
#: Both networks lie west of this longitude, which is no latitude: it tells the columns of their positions apart.
WEST = -90
PLACES, MEASURED, SHOWN = "pm25_latlng.txt", "pm25_ground.txt", "pm25_missing.txt"


def graph_trss(readings: str, raw: Path) -> Arrays:
    """Readings (times x stations), latitudes and longitudes of a MATLAB file, whose readings are stations x times."""
    file, variable = MAT[readings]
    declared = {name: shape for name, shape, _ in scipy.io.whosmat(raw / file)}
    for name in (variable, POSITION):
        refuse_expanding(raw / file, 8 * math.prod(declared.get(name, ())))
    content = scipy.io.loadmat(raw / file, variable_names=[variable, POSITION])
    values, places = (np.asarray(content[name]) for name in (variable, POSITION))
    if values.dtype.kind not in "fiu" or places.shape != (values.shape[0], 2):
        raise ValueError(f"{variable} is {values.dtype} {values.shape} and {POSITION} {places.shape}")
    places = places.astype(np.float64)
    west = (places < WEST).all(axis=0)
    if west.sum() != 1:
        raise ValueError(f"{POSITION} has {west.sum()} columns of longitudes below {WEST}, one is expected")
    return {
        "lat": places[:, ~west].ravel(),
        "lon": places[:, west].ravel(),
        readings: np.ascontiguousarray(values.T, dtype=np.float64),
    }


def aqi36(raw: Path) -> Arrays:
    """Hours, stations, what was measured and what methods see (hours x stations), NaN where missing."""
    import pandas as pd  # takes half a second, which nothing else here needs

    places = pd.read_csv(raw / PLACES, dtype={"sensor_id": str})
    tables = {name: pd.read_csv(raw / name, index_col=0, parse_dates=True) for name in (MEASURED, SHOWN)}
    names = places["sensor_id"].to_numpy(dtype="U6")
    for file, table in tables.items():
        if list(table.columns) != names.tolist() or not table.index.equals(tables[MEASURED].index):
            raise ValueError(f"{file} has other stations than {PLACES}, or other hours than {MEASURED}")
    return {
        "time": np.datetime_as_string(tables[MEASURED].index.to_numpy(dtype="datetime64[s]"), unit="s"),
        "station": names,
        "lat": places["latitude"].to_numpy(np.float64),
        "lon": places["longitude"].to_numpy(np.float64),
        "pm25": tables[MEASURED].to_numpy(np.float32),
        "pm25_missing": tables[SHOWN].to_numpy(np.float32),
    }
