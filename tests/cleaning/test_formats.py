"""Cleaned tables in other formats."""

from __future__ import annotations

import base64
import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

import nareg
from nareg.cleaning._report import _encoded, parts
from nareg.errors import InputError
from nareg.quality import Flag, Rules


@pytest.fixture(scope="module")
def cleaned():
    network = nareg.datasets.simulated(8, 120, faults=("stuck",), rng=np.random.default_rng(0))
    index = pd.DatetimeIndex(network.times, name="time").tz_localize("Europe/Paris")
    readings = pd.DataFrame(network.readings.T, index=index, columns=network.names)
    places = pd.DataFrame(network.coordinates, index=network.names, columns=["latitude", "longitude"])
    return nareg.clean(readings, places, unit="°C")


@pytest.mark.slow
def test_parquet_keeps_every_digit_and_the_times(cleaned, tmp_path):
    folder = cleaned.save(tmp_path, format="parquet")
    assert {path.name for path in folder.iterdir()} == {f"{name}.parquet" for name in ("clean", "std", "flags")} | {
        "report.html",
        "model.npz",
    }
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "clean.parquet"), cleaned.x, check_freq=False)
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "flags.parquet"), cleaned.flags, check_freq=False)
    again = nareg.io.read_readings(folder / "clean.parquet")
    np.testing.assert_array_equal(again.values, cleaned.x.to_numpy().T)
    assert again.zone == "UTC"


@pytest.mark.slow
def test_netcdf_has_places_units_and_flags(cleaned, tmp_path):
    xarray = pytest.importorskip("xarray")
    folder = cleaned.save(tmp_path, format="netcdf")
    assert {path.name for path in folder.iterdir()} == {"clean.nc", "report.html", "model.npz"}
    data = xarray.load_dataset(folder / "clean.nc")
    assert data["estimate"].attrs["units"] == "°C"
    np.testing.assert_array_equal(data["estimate"].sel(station=cleaned.x.columns[3]), cleaned.x.iloc[:, 3])
    np.testing.assert_array_equal(data["latitude"], cleaned.network.graph.coordinates[:, 0])
    assert (data["lower"] <= data["estimate"]).all()
    assert (data["estimate"] <= data["upper"]).all()
    np.testing.assert_array_equal(data["flags"].values, cleaned.flags.to_numpy().T)
    assert data["flags"].attrs["flag_meanings"].split()[list(data["flags"].attrs["flag_values"]).index(Flag.BAD)] == "bad"
    np.testing.assert_array_equal(data["time"].values, cleaned.x.index.tz_convert("UTC").tz_localize(None).values)
    # what it reads back cleans again, with its own places
    table = nareg.io.readings_from_frame(data["reading"])
    np.testing.assert_array_equal(table.values, cleaned.network.readings.values)


@pytest.mark.parametrize("scheme", ["labels", "binary"])
def test_netcdf_has_flags_as_the_rules_want_them(cleaned, tmp_path, scheme):
    xarray = pytest.importorskip("xarray")
    own = replace(cleaned, rules=Rules(flags=scheme))
    parts(own, "netcdf")["clean.nc"](tmp_path / "clean.nc")  # without a report
    data = xarray.load_dataset(tmp_path / "clean.nc")
    np.testing.assert_array_equal(data["flags"].values, own.written_flags.to_numpy().T)
    assert data["flags"].attrs.get("flag_meanings") == (None if scheme == "labels" else "good_or_not_checked suspect_or_bad")


def test_another_format_is_refused_before_anything_is_written(cleaned, tmp_path):
    with pytest.raises(InputError, match="format"):
        cleaned.save(tmp_path / "new", format="xlsx")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("cropped", [False, True])
def test_only_maps_lose_their_margins(cropped):
    figure = Figure(figsize=(4, 3))
    figure.add_axes((0.4, 0.4, 0.2, 0.2))
    size = Image.open(io.BytesIO(base64.b64decode(_encoded(figure, cropped=cropped)))).size
    assert (size == (520, 390)) != cropped


def test_a_tidy_table_comes_out_tidy(tmp_path):
    rng = np.random.default_rng(0)
    index = pd.date_range("2024", periods=50, freq="h", name="time")
    wide = pd.DataFrame(rng.standard_normal((50, 3)).round(2), index, ["B", "A", "C"])
    wide.iloc[4:7, 1] = np.nan
    tidy = wide.rename_axis(columns="station").stack(future_stack=True).rename("level").reset_index().dropna()
    cleaned = nareg.clean(tidy, effort="fast")
    for form, read in (("csv", pd.read_csv), ("parquet", pd.read_parquet)):
        for name, own in (("clean", cleaned.x), ("std", cleaned.std), ("flags", cleaned.flags)):
            parts(cleaned, form)[f"{name}.{form}"](tmp_path / f"{name}.{form}")
            frame = read(tmp_path / f"{name}.{form}")
            assert list(frame.columns) == ["time", "station", "level"]
            assert len(frame) == 150
            back = frame.pivot(index="time", columns="station", values="level")[list(own.columns)]
            np.testing.assert_allclose(back, own, atol=1e-3)
    assert list(pd.read_csv(nareg.clean(wide, effort="fast").save(tmp_path / "wide") / "std.csv")) == ["time", "B", "A", "C"]
