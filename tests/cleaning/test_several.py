"""Several quantities in one table and on one page."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import nareg
from nareg.cleaning import several_files, several_parts
from nareg.io import Recipe


@pytest.fixture(scope="module")
def results():
    """Two quantities, the second of fewer stations, from a later time on."""
    network = nareg.datasets.simulated(6, 60, faults=(), rng=np.random.default_rng(0))
    index = pd.DatetimeIndex(network.times, name="time")
    table = pd.DataFrame(network.readings.T, index, network.names)
    places = pd.DataFrame(network.coordinates, network.names, ["latitude", "longitude"])
    humid = 50 + table[list(network.names[::-1][:5])][20:]
    return {"temp": nareg.clean(table, places), "humidity (%)": nareg.clean(humid, places, unit="%")}


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
