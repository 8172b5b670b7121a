"""Other packages for ``cleaning.py``: check and fill a table; runs with a Python that has them, without nareg.

Without arguments it names the packages that are here. Else the first is one of them, and the second a folder that has
readings.csv and stations.csv.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd


def saqc(folder: Path) -> None:
    """Local outliers and constants flagged, flagged and missing readings interpolated, column by column."""
    from saqc import SaQC

    checked = SaQC(pd.read_csv(folder / "readings.csv", index_col=0, parse_dates=True))
    for name in list(checked.data.columns):
        with contextlib.suppress(IndexError, ValueError):  # SaQC 2.9.1 cannot score some series
            checked = checked.flagUniLOF(name)
        checked = checked.flagConstants(name, window=8, thresh=0)
        checked = checked.processGeneric(name, func=lambda y: y).interpolateByRolling(name, window=13, min_periods=1)
    checked.data.to_pandas().to_csv(folder / "saqc.csv")


def metobs(folder: Path) -> None:
    """Its checks with their defaults, and gaps interpolated."""
    import metobs_toolkit

    readings = pd.read_csv(folder / "readings.csv", index_col=0, parse_dates=True)
    long = readings.rename_axis(columns="station").stack().rename("value").reset_index()
    long["time"] = long["time"].dt.strftime("%Y-%m-%d %H:%M:%S")
    long.to_csv(folder / "long.csv", index=False)
    description = {
        "data_related": {
            "obstype_mapping": [
                {"tlk_obstype": "temp", "columnname": "value", "unit": "degC", "description": "temperature",
                 "original_obstype": "temp"}
            ],
            "timestamp": {"datetime_column": "time", "datetime_fmt": "%Y-%m-%d %H:%M:%S", "date_column": None, "date_fmt": None,
                          "time_column": None, "time_fmt": None, "timezone": "UTC"},
            "structure": "long", "columns_to_include": [], "name_column": "station",
        },
        "metadata_related": {
            "name_column": "station", "lat_column": "latitude", "lon_column": "longitude", "altitude_column": None,
            "columns_to_include": [],
        },
        "single_station_name": None,
    }  # fmt: skip
    (folder / "template.json").write_text(json.dumps(description))
    data = metobs_toolkit.Dataset()
    data.import_data_from_file(
        template_file=str(folder / "template.json"), input_data_file=str(folder / "long.csv"),
        input_metadata_file=str(folder / "stations.csv"),
    )  # fmt: skip
    for check in ("gross_value_check", "persistence_check", "repetitions_check", "step_check", "window_variation_check"):
        getattr(data, check)(obstype="temp", use_mp=False)
    data.convert_outliers_to_gaps()
    data.interpolate_gaps(obstype="temp", max_gap_duration_to_fill=pd.Timedelta("10D"))
    data.df.to_csv(folder / "metobs.csv")


def pypots(folder: Path) -> None:
    """SAITS of two layers, ten epochs, a sample per 24 times."""
    from pypots.imputation import SAITS

    table = pd.read_csv(folder / "readings.csv", index_col=0)
    y = ((table - table.mean()) / table.std()).to_numpy()
    windows = y[: len(y) // 24 * 24].reshape(-1, 24, y.shape[1])
    model = SAITS(
        n_steps=24, n_features=y.shape[1], n_layers=2, d_model=64, n_heads=4, d_k=16, d_v=16, d_ffn=128, epochs=10, device="cpu"
    )  # fmt: skip
    model.fit({"X": windows})
    np.save(folder / "pypots.npy", model.predict({"X": windows})["imputation"])


PACKAGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "SaQC": ("saqc", saqc), "MetObs": ("metobs_toolkit", metobs), "PyPOTS": ("pypots", pypots)
}  # fmt: skip


def main() -> None:
    """Run a package, or name those that are here."""
    if len(sys.argv) == 1:
        print(*(name for name, (module, _) in PACKAGES.items() if importlib.util.find_spec(module)))
    else:
        PACKAGES[sys.argv[1]][1](Path(sys.argv[2]))


if __name__ == "__main__":
    main()
