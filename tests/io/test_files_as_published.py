"""Real files of station networks, unedited: the commands of the guide "Your file", and values read off the files by hand."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from nareg import io
from nareg.cli import inputs
from nareg.errors import InputError
from nareg.io import Recipe

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "your-file.md"
ROW = re.compile(
    r"^\| [^|]+ \| `nareg clean (?P<words>[^`]+)` \| (?P<stations>[\d,]+) \| (?P<times>[\d,]+) \| (?P<quantity>.*) \|$"
)
ROWS = {match["words"].split("/")[0].split()[0]: match for match in map(ROW.match, PAGE.read_text().split("\n")) if match}
LARGE = (
    "beijing-multisite", "dino-groundwater", "england-covid", "ghcn-dly", "isd", "ismn", "logan-river-2019", "metrla-week",
    "noaa-cdo",
)  # fmt: skip
LISTS = ("station_column", "time_column", "value", "missing")
MIDC = "Temperature @ 2m [deg C]"
AMERIFLUX, PECOS = "ameriflux-us-crt/AMF_US-CRT_BASE-BADM_2-5.zip", "pecos-pv/Baseline6kW_2015_11_11.dat"
#: By folder: station, time and reading, as they stand in the file; times in UTC where the file says an offset.
BY_HAND = {
    "ameriflux-us-crt": ("AMF_US-CRT_BASE_HH_2-5", "2011-01-01T00:00", 11.17954),
    "beijing-multisite": ("Dongsi", "2013-03-01T01:00", -0.7),
    "camels-us": ("01022500", "2000-01-02T00:00", 272.0),
    "campbell-toa5": ("Station_Daily", "2014-06-06T00:00", 21.55),
    "dino-groundwater": ("B33F0080-001", "1972-11-28T00:00", 576.0),
    "england-covid": ("128", "60.0", 2.0),
    "epa-aqs": ("270031002", "2023-01-06T00:00", 10.05),  # two monitors: 19.5 and 0.6
    "ghcn-dly": ("USC00411885", "1912-01-26T00:00", 22.2),
    "imputegap": ("4", "2000-01-01T00:00", 94.0),
    "ioos-waterlevel": ("water_level_example", "2019-07-10T19:00", 0.054864),
    "isd": ("02413099999", "2016-04-21T08:00", 8.4),
    "ismn": ("CST_01", "2008-07-01T00:00", np.nan),  # 0.5 is flagged C03
    "logan-river-2019": ("TonyGrove", "2019-01-01T00:15", -0.01),
    "meteofrance": ("7005", "2017-08-01T00:00", 17.4),
    "metobs-breaking": ("Fictional", "2020-09-14T22:10", 4.1),
    "metobs-demo": ("vlinder01", "2022-09-01T00:00", 18.8),
    "metobs-wide": ("QuattroCoronati - Temperatuur (°C)", "2023-04-17T16:59", 14.6),
    "metrla-week": ("773869", "2012-03-07T23:55", 66.0),
    "ndbc-buoy": ("46097", "2019-02-16T00:00", 12.0),
    "netatmo-berlin": ("N0326", "2017-01-01T00:00", 22.4),
    "noaa-cdo": ("USC00218450", "2018-01-08T00:00", 30.0),
    "openaq-pandas": ("FR04014", "2019-06-20T22:00", 26.5),
    "pecos-pv": ("B", "2015-01-01T00:15", 0.510237161),
    "purpleair": ("159997", "2023-07-25T23:50", 91.0),
    "radiation-loggers": ("Alamosa", "2016-01-01T23:59", -0.9),
    "usgs-rdb": ("02177000", "2012-09-01T00:00", 191.0),
}
#: What cannot be read without an option, and what no guess can know.
NEED_OPTIONS = {
    "imputegap": "numbers alone have no times: their step and start",
    "metobs-breaking": "columns 'namen', 'link' and 'noord' are the stations' names, latitudes and longitudes",
    "metrla-week": "a table without times: its step and start",
}
#: Rows of the file, or rows times columns, as counted by other tools.
CELLS = {
    "epa-aqs": 1795, "metobs-breaking": 330, "metobs-demo": 18_131, "metrla-week": 2016 * 207, "netatmo-berlin": 1464 * 150,
    "noaa-cdo": 42_778, "openaq-pandas": 5272, "meteofrance": 58, "metobs-wide": 3 * 199,
}  # fmt: skip


@pytest.fixture
def files(data_root):
    return data_root / "files"


def parsed(words, folder):
    """Readings, the table of stations and the recipe of a command of the page."""
    paths, options, rest = [], {}, iter(shlex.split(words))
    for word in rest:
        if word.startswith("--"):
            options.setdefault(word[2:].replace("-", "_"), []).append(next(rest))
        else:
            paths += sorted(folder.glob(word))
    columns = inputs.Columns(**{name: given if name in LISTS else given[0] for name, given in options.items()})
    return *inputs.tables(paths[0], paths[1:]), columns.recipes()[0]


def at(table, station, time):
    column = next(t for t, stamp in enumerate(table.timestamps) if str(stamp).startswith(time))
    return table.values[table.names.index(station), column]


def is_as_the_page_says(table, name):
    row = ROWS[name]
    shape = f"{len(table.names):,}", f"{len(table.times):,}"
    assert shape == (row["stations"], row["times"])
    assert (table.quantity or "&nbsp;") == row["quantity"].removesuffix(f", {table.unit}")
    station, time, value = BY_HAND[name]
    np.testing.assert_allclose(at(table, station, time), value, rtol=1e-12, equal_nan=True)


def test_the_page_has_a_command_for_every_folder():
    assert set(ROWS) == set(BY_HAND)
    assert sum("--" not in row["words"] for row in ROWS.values()) >= 10


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in BY_HAND])
def test_the_commands_of_the_page(files, name):
    readings, stations, recipe = parsed(ROWS[name]["words"], files)
    seen = io.inspect(readings, stations, recipe=recipe)
    assert len(seen.quantities) == 1
    known = None if seen.placed is None else seen.placed.names
    table = io.read_readings(readings, known, own_order=True, recipe=recipe)
    is_as_the_page_says(table, name)
    counts = io.on_grid(table, recipe.step).counts
    assert counts.add_up
    assert list(seen.counts.values()) == [counts]
    assert counts.cells == CELLS.get(name, counts.cells)


def without_options(words):
    """The files of a command of the page alone."""
    return re.sub(r" --[a-z-]+ \S+", "", words)


#: Files whose command has an option; those of the others are read without one above.
SAID = [name for name in BY_HAND if " --" in ROWS[name]["words"]]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in SAID])
def test_no_option_is_needed_to_read_the_quantity_of_the_page(files, name):
    """As `nareg clean` reads them: of several quantities each."""
    words, recipe = ROWS[name]["words"], parsed(ROWS[name]["words"], files)[2]
    readings, stations, silent = parsed(without_options(words), files)
    assert silent == Recipe()
    if name in NEED_OPTIONS:
        with pytest.raises(InputError, match=r"--station-column|--step and --start"):
            io.inspect(readings, stations)
        return
    known = None
    with contextlib.suppress(InputError):  # a table without places
        known = io.read_stations(stations or readings).names
    with pytest.raises(io.SeveralQuantities) as several:
        io.read_readings(readings, known, own_order=True)
    assert recipe.value in several.value.names
    table = io.read_readings(readings, known, own_order=True, recipe=Recipe(value=recipe.value))
    is_as_the_page_says(table, name)


def test_the_page_says_how_many_need_no_option():
    assert f"{len(BY_HAND) - len(NEED_OPTIONS)} of these files need no option" in PAGE.read_text()


@pytest.mark.parametrize(
    ("name", "recipe", "station", "time", "value"),
    [
        ("ioos-waterlevel/attenuated_salinity_example.csv", {}, "sandi.790.A.CTD [psu]", "2001-08-16T03:06:55", 27.37),
        ("ioos-waterlevel/20363_1000427.csv.gz", {}, "20363_1000427", "2015-08-21T00:00", 1139.4),
        ("isd/014160-99999-2016.gz", {"value": "dew point"}, "01416099999", "2016-01-01T00:00", 2.9),
        ("isd/00702699999.csv", {"value": "temperature"}, "00702699999", "2017-02-10T14:19", 3.0),
        ("radiation-loggers/CRN_with_problems.txt", {"value": "air temperature"}, "92821", "2020-07-06T13:10", 26.9),
        ("radiation-loggers/SRML-day-EUPO1801.txt", {"value": "7008"}, "94255", "2018-01-02T00:00", -9.7),
        ("radiation-loggers/midc_20181014.txt", {"value": MIDC}, "midc_20181014", "2018-10-14T07:00", -4.669),
        ("ghcn-dly/USW00003870.dly", {"value": "TMAX"}, "USW00003870", "1962-10-15T00:00", 28.9),
        ("ismn", {}, "ARM-1", "2018-08-09T23:00", 0.11),
        ("usgs-rdb/USGS_08313000_Jan2019_instantaneous.json", {}, "08313000", "2019-02-01T06:45", 610.0),
        ("usgs-rdb/WaterML1Example.xml", {}, "01491000", "2012-05-12T05:00", 83.0),
        (AMERIFLUX, {"value": "TA"}, "AMF_US-CRT_BASE_HH_2-5", "2011-01-01T00:00", 11.17954),
        ("noaa-cdo/3396352.csv", {"value": "PRCP"}, "US1MNRM0163", "2022-01-05T00:00", 0.12),
        ("purpleair/deq_data_merge.csv", {"value": "PM10"}, "deq_data_merge", "2023-06-16T00:01", 24.1),
        (PECOS, {"value": "Sys1Vac_Avg"}, "Baseline6kW_2015_11_11", "2015-11-11T00:00", 245.5577),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_other_files_of_the_same_folders(files, name, recipe, station, time, value):
    path = files / name
    table = io.read_readings(sorted(path.glob("*.stm")) if path.is_dir() else path, recipe=Recipe(**recipe))
    np.testing.assert_allclose(at(table, station, time), value, rtol=1e-12)


def test_places_of_dutch_wells(files):
    paths = sorted((files / "dino-groundwater").glob("B33F0080*_1.csv"))
    plane, degrees = io.read_stations(paths), io.read_stations(paths, recipe=Recipe(crs="EPSG:28992"))
    np.testing.assert_array_equal(plane.coordinates, [[213260, 473900]] * 2)
    np.testing.assert_allclose(degrees.coordinates, [[52.25, 6.24]] * 2, atol=0.01)  # Deventer
    assert (plane.metric, degrees.metric) == ("euclidean", "haversine")
