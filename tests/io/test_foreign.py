"""Tables of polars, xarray and geopandas, and the files that they write, give the readings that a pandas frame gives."""

from __future__ import annotations

import builtins

import numpy as np
import pandas as pd
import pytest

from nareg import io
from nareg.errors import InputError, MissingDependencyError
from nareg.io import SeveralQuantities

polars = pytest.importorskip("polars")
xarray = pytest.importorskip("xarray")
geopandas = pytest.importorskip("geopandas")

NAMES = ["A", "B", "C"]
TIMES = pd.date_range("2025-03-30 00:00", periods=6, freq="h", name="time")
VALUES = np.array([[1.5, 2.0, np.nan, 4.0, 5.0, 6.0], [0.0, -1.0, 2.0, 3.0, 1.0, 2.0], [7.0, 8.0, 9.0, 8.0, 7.0, np.nan]])
PLACES = np.array([[46.5, 6.6], [46.8, 7.1], [47.0, 8.3]])


def frame() -> pd.DataFrame:
    return pd.DataFrame(VALUES.T, index=TIMES, columns=NAMES)


def long() -> pd.DataFrame:
    return frame().stack().rename("value").rename_axis(["time", "station"]).reset_index()


def array(**attributes: str):
    places = {"latitude": ("station", PLACES[:, 0]), "longitude": ("station", PLACES[:, 1])}
    return xarray.DataArray(
        VALUES, dims=("station", "time"), coords={"station": NAMES, "time": TIMES, **places}, attrs=attributes, name="t2m"
    )


def check(table: io.Readings) -> None:
    assert table.names == tuple(NAMES)
    np.testing.assert_array_equal(table.values, VALUES)
    np.testing.assert_array_equal(table.timestamps, TIMES.to_numpy())


def test_polars_wide():
    table = polars.DataFrame({"time": TIMES.to_numpy(), **{name: frame()[name].to_numpy() for name in NAMES}})
    check(io.readings_from_frame(table))


def test_polars_long_in_any_order():
    rows = long().sample(frac=1, random_state=0)
    check(io.readings_from_frame(polars.from_dicts(rows.to_dict("records")), NAMES))


def test_polars_null_is_missing():
    table = polars.DataFrame({"time": TIMES.to_numpy(), "A": [1, None, 3, 4, 5, 6]})
    np.testing.assert_array_equal(io.readings_from_frame(table).values, [[1, np.nan, 3, 4, 5, 6]])


def test_polars_zone_becomes_utc():
    table = polars.DataFrame({"time": TIMES.to_numpy(), "A": VALUES[1]}).with_columns(
        polars.col("time").dt.replace_time_zone("UTC").dt.convert_time_zone("America/New_York")
    )
    readings = io.readings_from_frame(table)
    assert readings.zone == "UTC"
    np.testing.assert_array_equal(readings.timestamps, TIMES.to_numpy())


def test_polars_lazy_frame_is_refused():
    with pytest.raises(InputError, match="collect"):
        io.readings_from_frame(polars.DataFrame({"time": [1], "A": [2.0]}).lazy())


@pytest.mark.parametrize("transposed", [False, True])
def test_xarray_in_either_order_with_its_unit(transposed):
    table = array(units="°C")
    readings = io.readings_from_frame(table.T if transposed else table)
    check(readings)
    assert readings.unit == "°C"


def test_the_unit_of_a_pint_quantity():
    pytest.importorskip("pint_xarray")
    readings = io.readings_from_frame(array(units="degC").pint.quantify())
    check(readings)
    assert readings.unit == "degree_Celsius"


def test_xarray_dataset_with_one_variable_of_readings():
    data = array().to_dataset()
    data["altitude"] = ("station", [400.0, 500.0, 600.0])
    check(io.readings_from_frame(data))
    stations = io.stations_from_frame(data)
    np.testing.assert_array_equal(stations.coordinates, PLACES)
    np.testing.assert_array_equal(stations.altitude, [400.0, 500.0, 600.0])


@pytest.mark.parametrize(
    ("name", "attributes"),
    [("qc", {}), ("t2m_state", {"flag_values": [0, 1]}), ("mark", {"standard_name": "air_temperature status_flag"})],
)
def test_quality_flags_beside_the_readings_are_not_readings(name, attributes):
    data = array().to_dataset()
    data[name] = (data.t2m.dims, np.ones(data.t2m.shape, dtype="int8"), attributes)
    check(io.readings_from_frame(data))


def test_xarray_dataset_with_two_variables():
    """It was refused; flags beside a variable were not used."""
    data = array().to_dataset()
    data["wind"] = data.t2m * 2
    data["t2m_qc"] = xarray.where(data.t2m == 4.0, 4, 1).assign_attrs(flag_values=[1, 4])
    with pytest.raises(InputError, match=r"not 2 \('t2m', 'wind'\): name the one to read by --value"):
        io.readings_from_frame(data)
    wind, warm = (io.readings_from_frame(data, recipe=io.Recipe(value=name)) for name in ("wind", "t2m"))
    assert wind.names == tuple(NAMES)
    np.testing.assert_array_equal(wind.values, 2 * VALUES)
    np.testing.assert_array_equal(warm.values, np.where(VALUES == 4.0, np.nan, VALUES))
    assert list(io.inspect(data).quantities.index) == ["t2m", "wind"]


@pytest.mark.parametrize("indexed", [True, False])
def test_ragged_arrays_of_the_cf_conventions(tmp_path, indexed):
    """Rows of all stations in one dimension: with the station of each, or the number of each station's."""
    rows = [(station, t) for station in range(3) for t in range(6) if np.isfinite(VALUES[station, t])]
    station, t = np.array(rows).T
    link = (
        ("obs", station, {"instance_dimension": "station"}) if indexed
        else ("station", np.bincount(station), {"sample_dimension": "obs"})
    )  # fmt: skip
    data = xarray.Dataset(
        {
            "temp": ("obs", VALUES[station, t], {"units": "degC"}), "link": link, "time": ("obs", TIMES[t]),
            "label": ("station", np.array(NAMES, dtype="S1"), {"cf_role": "timeseries_id"}),
            "lat": ("station", PLACES[:, 0]), "lon": ("station", PLACES[:, 1]),
        }
    )  # fmt: skip
    data.to_netcdf(tmp_path / "r.nc", engine="h5netcdf")
    table = io.read_readings(tmp_path / "r.nc")
    assert (table.names, table.unit) == (tuple(NAMES), "degC")
    np.testing.assert_array_equal(table.values, VALUES)
    np.testing.assert_array_equal(io.read_stations(tmp_path / "r.nc").coordinates, PLACES)


def test_xarray_names_in_another_coordinate():
    """As in files by the CF conventions: the dimension has no coordinate, a text variable names the stations."""
    table = xarray.DataArray(
        VALUES, dims=("obs", "time"), coords={"time": TIMES, "station_id": ("obs", np.array(NAMES, dtype="S1"))}
    )
    check(io.readings_from_frame(table))


def test_xarray_without_a_time_dimension_is_refused():
    with pytest.raises(InputError, match="one of them 'time'"):
        io.readings_from_frame(xarray.DataArray(VALUES, dims=("a", "b")))


def test_xarray_without_places_is_refused():
    with pytest.raises(InputError, match="assign_coords"):
        io.stations_from_frame(array().drop_vars(["latitude", "longitude"]))


@pytest.mark.parametrize("table", [frame, long], ids=["wide", "long"])
def test_parquet(tmp_path, table):
    table().to_parquet(tmp_path / "readings.parquet")
    check(io.read_readings(tmp_path / "readings.parquet", NAMES))


def test_netcdf_has_readings_places_and_unit(tmp_path):
    array(units="m/s").to_netcdf(tmp_path / "readings.nc", engine="h5netcdf")
    readings = io.read_readings(tmp_path / "readings.nc")
    check(readings)
    assert readings.unit == "m/s"
    np.testing.assert_array_equal(io.read_stations(tmp_path / "readings.nc").coordinates, PLACES)


def test_points_in_another_reference_system_become_degrees():
    points = geopandas.GeoDataFrame({"station": NAMES}, geometry=geopandas.points_from_xy(PLACES[:, 1], PLACES[:, 0]), crs=4326)
    stations = io.stations_from_frame(points.to_crs(3857))
    assert stations.metric == "haversine"
    np.testing.assert_allclose(stations.coordinates, PLACES, atol=1e-9)


def test_points_without_a_reference_system_are_x_and_y():
    points = geopandas.GeoDataFrame({"station": NAMES}, geometry=geopandas.points_from_xy([0, 1, 2], [5, 6, 7]))
    stations = io.stations_from_frame(points)
    assert stations.metric == "euclidean"
    np.testing.assert_array_equal(stations.coordinates, [[0, 5], [1, 6], [2, 7]])


def test_shapes_that_are_no_points_are_refused():
    points = geopandas.GeoDataFrame({"station": ["A"]}, geometry=geopandas.points_from_xy([0], [0]).buffer(1))
    with pytest.raises(InputError, match="Polygon"):
        io.stations_from_frame(points)


def test_map_file(tmp_path):
    points = geopandas.GeoDataFrame({"station": NAMES}, geometry=geopandas.points_from_xy(PLACES[:, 1], PLACES[:, 0]), crs=4326)
    points.to_file(tmp_path / "stations.geojson")
    np.testing.assert_allclose(io.read_stations(tmp_path / "stations.geojson").coordinates, PLACES)


@pytest.mark.parametrize("name", ["readings.parquet", "readings.nc", "stations.geojson"])
def test_damaged_and_absent_files_are_refused_in_one_sentence(tmp_path, name):
    read = io.read_stations if name.startswith("stations") else io.read_readings
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / name)
    (tmp_path / name).write_bytes(b"PAR1 this is not it")
    with pytest.raises(InputError, match="cannot be read by"):
        read(tmp_path / name)


def test_a_library_that_is_absent_is_named_with_its_extra(tmp_path, monkeypatch):
    frame().to_parquet(tmp_path / "readings.parquet")
    real = builtins.__import__

    def without(name, *args, **options):
        if name.partition(".")[0] == "pyarrow":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr("importlib.import_module", lambda name: without(name))
    with pytest.raises(MissingDependencyError, match=r"pip install 'nareg\[tables\]'"):
        io.read_readings(tmp_path / "readings.parquet")


@pytest.mark.parametrize("what", ["readings", "stations"])
def test_a_table_is_no_file(what):
    """Its columns were taken for names of files: "A does not exist."."""
    for table, name in ((frame(), "DataFrame"), (xarray.Dataset({"t": ("x", [1.0])}), "Dataset")):
        with pytest.raises(InputError, match=f"path is a {name}: pass the files' names, or this table to nareg.io.{what}_from"):
            getattr(io, f"read_{what}")(table)


LEVELS = pd.concat({"temperature": frame(), "humidity": frame() + 50}, axis=1)
UNCLEAR = LEVELS.rename(columns={"temperature": "p1", "humidity": "p2"})


@pytest.mark.parametrize(
    ("table", "value", "stations"),
    [
        (LEVELS, "temperature", None),
        (LEVELS.swaplevel(axis=1), "temperature", None),
        (LEVELS.rename_axis("time").reset_index(), "temperature", None),
        (LEVELS[["temperature"]], None, None),
        (UNCLEAR.rename_axis(columns=[None, "station"]), "p1", None),
        (UNCLEAR.rename_axis(columns=["variable", None]), "p1", None),
        (UNCLEAR, "p1", NAMES),
    ],
)
def test_columns_of_two_levels_are_stations_and_quantities(table, value, stations):
    """They were refused."""
    recipe = io.Recipe(value=value)
    read = io.readings_from_frame(table, stations, recipe=recipe)
    check(read)
    assert read.quantity == value or value is None
    if stations is None:
        assert len(io.inspect(table).quantities) == (1 if value is None else 2)
    if value is not None:
        with pytest.raises(SeveralQuantities, match="name the one to read by --value"):
            io.readings_from_frame(table, stations)


def test_columns_of_two_levels_of_which_none_is_that_of_the_stations_are_refused():
    for table in (UNCLEAR, pd.concat({"z": LEVELS}, axis=1), pd.concat([LEVELS, LEVELS], axis=1)):
        with pytest.raises(InputError, match=r"levels of columns: give it one name .* or two levels of which one is called"):
            io.readings_from_frame(table)
    with pytest.raises(InputError, match="level 2 of the columns has the names of the stations"):
        io.readings_from_frame(LEVELS, strict=True)
    numbered = io.readings_from_frame(LEVELS.reset_index(drop=True), recipe=io.Recipe(value="humidity"))
    assert any("rows are taken as evenly spaced" in note for note in numbered.notes)
