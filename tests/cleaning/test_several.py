"""Several quantities in one table and on one page."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import nareg
from nareg.cleaning import append_several, apply, several_files, several_parts
from nareg.errors import InputError
from nareg.io import Recipe


@pytest.fixture(scope="module")
def tables():
    """Readings of two quantities, the second of fewer stations, from a later time on; and places."""
    network = nareg.datasets.simulated(6, 60, faults=(), rng=np.random.default_rng(0))
    index = pd.DatetimeIndex(network.times, name="time")
    table = pd.DataFrame(network.readings.T, index, network.names)
    places = pd.DataFrame(network.coordinates, network.names, ["latitude", "longitude"])
    return {"temp": table, "humidity (%)": 50 + table[list(network.names[::-1][:5])][20:]}, places


@pytest.fixture(scope="module")
def results(tables):
    frames, places = tables
    return {"temp": nareg.clean(frames["temp"], places), "humidity (%)": nareg.clean(frames["humidity (%)"], places, unit="%")}


@pytest.fixture
def folder(results, tmp_path):
    for form in ("csv", "parquet", "netcdf"):
        written = several_parts(results, {"temp": "temp", "humidity (%)": "humidity_"}, form)
        assert tuple(written) == several_files(form)
        for name, write in written.items():
            write(tmp_path / name)
    return tmp_path


def test_the_table_has_a_row_per_time_and_station(results, folder):
    frame = pd.read_csv(folder / "clean.csv")
    ends = ("", " estimate", " std", " flag")
    assert list(frame.columns) == ["time", "station", *(q + end for q in results for end in ends)]
    assert len(frame) == 6 * 60
    assert frame["humidity (%) estimate"].count() == frame["humidity (%) flag"].count() == 5 * 40
    assert (frame["time"][:6] == frame["time"][0]).all()
    for name, cleaned in results.items():
        for column, own in (("", cleaned.network.readings.values.T), (" estimate", cleaned.x), (" flag", cleaned.flags)):
            back = frame.pivot_table(index="time", columns="station", values=name + column)
            expected = pd.DataFrame(
                np.asarray(own, dtype=float), index=list(cleaned.network.readings.times), columns=cleaned.x.columns
            )
            np.testing.assert_allclose(back.loc[expected.index, expected.columns], expected, atol=1e-3)


def test_the_table_is_read_again(results, folder):
    table = nareg.io.read_readings(folder / "clean.csv", recipe=Recipe(value="temp estimate"))
    np.testing.assert_allclose(table.values.T, results["temp"].x[list(table.names)], atol=1e-3)
    typed = pd.read_parquet(folder / "clean.parquet")
    assert typed["time"].dtype.kind == "M"
    assert typed["temp estimate"].tolist() == pd.read_csv(folder / "clean.csv")["temp estimate"].tolist()


def test_netcdf_has_all_quantities(results, folder):
    xarray = pytest.importorskip("xarray")
    data = xarray.load_dataset(folder / "clean.nc")
    assert list(data["station"].values) == list(results["temp"].x.columns)
    for own, (name, cleaned) in zip(("temp", "humidity_"), results.items(), strict=True):
        alone = cleaned.to_xarray()
        there = data.sel(station=alone["station"], time=alone["time"])
        for variable in ("reading", "estimate", "std", "lower", "upper", "flags"):
            np.testing.assert_array_equal(there[f"{own}_{variable}"], alone[variable])
            assert data[f"{own}_{variable}"].attrs["long_name"] == f"{name}, {variable}"
        np.testing.assert_array_equal(data["latitude"].sel(station=alone["station"]), alone["latitude"])
    assert data["humidity__flags"].dtype.kind == "i"
    assert (data["humidity__flags"][:, :20] == 9).all()
    assert data["humidity__estimate"].isnull().sum() == 6 * 60 - 5 * 40
    assert data["humidity__std"].attrs["units"] == "%"


def test_the_page_leads_to_every_report(results, folder):
    page = (folder / "report.html").read_text()
    assert "2 quantities, cleaned" in page
    assert re.findall(r'<td><a href="([^"]+)">', page) == ["temp/report.html", "humidity_/report.html"]
    assert results["temp"].headline() in page


def test_times_without_dates(results, tmp_path):
    values = results["temp"].x.to_numpy()
    table = nareg.io.Readings(("a", "b", "c"), tuple(f"row {t}" for t in range(60)), values[:, :3].T)
    cleaned = nareg.clean(table)
    several_parts({"q": cleaned}, {"q": "q"}, "csv")["clean.csv"](tmp_path / "clean.csv")
    assert pd.read_csv(tmp_path / "clean.csv")["time"][3] == "row 1"


@pytest.mark.slow
def test_tomorrow_is_added_in_the_order_of_a_new_cleaning(tables, results, tmp_path):
    """Of one quantity after the other, the later times first."""
    frames, places = tables
    before = {name: nareg.clean(frame[frame.index < frame.index[-14]], places) for name, frame in frames.items()}
    places_of = {"temp": "temp", "humidity (%)": "humidity_"}
    several_parts(before, places_of, "csv")["clean.csv"](tmp_path / "clean.csv")
    several_parts(results, places_of, "csv")["clean.csv"](tmp_path / "new.csv")
    old = (tmp_path / "clean.csv").read_text().splitlines()
    applied = {name: apply(one.model, frames[name]) for name, one in before.items()}
    for name in ("humidity (%)", "temp", "temp"):
        append_several(tmp_path / "clean.csv", {name: applied[name]})
    after, fresh = (pd.read_csv(tmp_path / f"{name}.csv", dtype=str) for name in ("clean", "new"))
    columns = ["time", "station", *frames]
    pd.testing.assert_frame_equal(after[columns], fresh[columns])
    assert (tmp_path / "clean.csv").read_text().splitlines()[: len(old)] == old
    for name, one in applied.items():
        for end, values in zip((" estimate", " std", " flag"), one.written, strict=True):
            rows = after[after["time"].isin(one.readings.times) & after[name + end].notna()]
            back = rows.pivot(index="time", columns="station", values=name + end)[list(one.x.columns)]
            np.testing.assert_array_equal(back.astype(float), values)
    assert set(after["temp flag"].dropna()) <= {"1", "2", "3", "4", "9"}
    with pytest.raises(InputError, match=r"clean.csv has no column 'wind'"):
        append_several(tmp_path / "clean.csv", {"wind": applied["temp"]})


@pytest.mark.slow
def test_times_of_bad_readings_and_of_no_reading_stay_in_order(tables, tmp_path):
    frames, places = tables
    frame = frames["temp"].copy()
    frame.iloc[:50:7] = np.nan
    frame.iloc[3, 0] += 900
    before = nareg.clean(frame[:50], places)
    several_parts({"q": before, "r": nareg.clean(frames["temp"][:50], places)}, {"q": "q", "r": "r"}, "csv")["clean.csv"](
        tmp_path / "clean.csv"
    )
    append_several(tmp_path / "clean.csv", {"q": apply(before.model, frame)})
    after = pd.read_csv(tmp_path / "clean.csv")
    assert len(after) == 60 * 6
    assert after["time"].is_monotonic_increasing
    assert after["q flag"].eq(4).any()
    assert after["r estimate"].notna().sum() == 50 * 6
