"""Files of other libraries are read for what they hold, not for what they point at."""

from __future__ import annotations

import http.server
import sqlite3
import threading

import numpy as np
import pandas as pd
import pytest

from nareg import io
from nareg.errors import InputError

xarray = pytest.importorskip("xarray")
geopandas = pytest.importorskip("geopandas")
h5py = pytest.importorskip("h5py")

VRT = (
    "<OGRVRTDataSource><OGRVRTLayer name='secret'><SrcDataSource>{}</SrcDataSource><SrcLayer>secret</SrcLayer>"
    "<GeometryType>wkbPoint</GeometryType><LayerSRS>EPSG:4326</LayerSRS>"
    "<GeometryField encoding='PointFromColumns' x='lon' y='lat'/></OGRVRTLayer></OGRVRTDataSource>"
)


@pytest.fixture
def address():
    """An address on this machine, and what was asked of it."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *arguments):
            return

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)  # a test that ends does not wait
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


def points():
    return geopandas.GeoDataFrame(
        {"station": ["A", "B"]}, geometry=geopandas.points_from_xy([6.6, 7.1], [46.5, 46.8]), crs=4326
    )


@pytest.mark.parametrize("suffix", [".geojson", ".gpkg", ".shp", ".fgb"])
@pytest.mark.parametrize(
    "text", [VRT, '{{"type": "FeatureCollection", "features": [], "x": "' + VRT + '"}}'], ids=["vrt", "both"]
)
def test_a_map_file_opens_no_other_file_and_no_address(tmp_path, address, suffix, text):
    (tmp_path / "secret.csv").write_text("station,lat,lon\nalice,48,2\nbob,49,3\n")
    server, asked = address
    for source in (tmp_path / "secret.csv", f"/vsicurl/{server}/secret.csv"):
        path = tmp_path / f"stations{suffix}"
        path.write_text(text.format(source))
        with pytest.raises(InputError):
            io.read_stations(path)
    assert asked == []


def test_a_reference_system_behind_a_link_is_not_fetched(tmp_path, address):
    server, asked = address
    feature = '{"type": "Feature", "properties": {"station": "A"}, "geometry": {"type": "Point", "coordinates": [6.6, 46.5]}}'
    for crs in (
        f'{{"type": "link", "properties": {{"href": "{server}/crs", "type": "proj4"}}}}',
        f'{{"type": "name", "properties": {{"name": "{server}/crs"}}}}',
        '{"type": "name", "properties": {"name": "/etc/passwd"}}',
    ):
        path = tmp_path / "stations.geojson"
        path.write_text(f'{{"type": "FeatureCollection", "crs": {crs}, "features": [{feature}]}}')
        with pytest.raises(InputError, match="its reference system is"):
            io.read_stations(path)
    assert asked == []


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["geojson", "gpkg", "shp", "fgb"])
@pytest.mark.parametrize("crs", [4326, 3857])
def test_every_kind_of_map_file_gives_its_points(tmp_path, suffix, crs):
    points().to_crs(crs).to_file(tmp_path / f"stations.{suffix}")
    stations = io.read_stations(tmp_path / f"stations.{suffix}")
    places = dict(zip(stations.names, stations.coordinates.tolist(), strict=True))  # in some files in another order
    np.testing.assert_allclose([places["A"], places["B"]], [[46.5, 6.6], [46.8, 7.1]], atol=1e-6)


def test_the_number_of_a_feature_may_name_its_station(tmp_path):
    feature = '{"type": "Feature", "id": "A7", "properties": null, "geometry": {"type": "Point", "coordinates": [6.6, 46.5]}}'
    (tmp_path / "s.geojson").write_text(f'{{"type": "FeatureCollection", "features": [{feature}]}}')
    assert io.read_stations(tmp_path / "s.geojson").names == ("A7",)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE VIRTUAL TABLE other USING VirtualOGR('/etc/passwd')",
        "CREATE VIEW other AS SELECT ogr_geocode('Bern') AS place",
    ],
)
def test_tables_of_a_map_file_that_lie_elsewhere_are_refused(tmp_path, sql):
    path = tmp_path / "stations.gpkg"
    points().to_file(path)
    with sqlite3.connect(path) as database:
        if "VIRTUAL" in sql:  # this library has no such module: write the row that one that has it would
            database.execute("PRAGMA writable_schema = ON")
            database.execute("INSERT INTO sqlite_master VALUES ('table', 'other', 'other', 0, ?)", (sql,))
        else:
            database.execute(sql)
    database.close()
    with pytest.raises(InputError, match="from elsewhere: export the layer"):
        io.read_stations(path)


def netcdf(path):
    index = pd.date_range("2024-01-01", periods=10)
    array = xarray.DataArray(np.zeros((10, 2), "i1"), dims=("time", "station"), coords={"time": index, "station": ["a", "b"]})
    array.rename("t").to_netcdf(path, engine="h5netcdf")


@pytest.mark.parametrize("kind", ["storage", "virtual", "link", "nested"])
def test_arrays_of_a_netcdf_file_that_lie_in_other_files_are_refused(tmp_path, kind):
    path, secret = tmp_path / "r.nc", tmp_path / "secret.bin"
    secret.write_bytes(bytes(range(65, 85)))
    netcdf(path)
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["t"] = np.arange(20, dtype="i1").reshape(10, 2)
    with h5py.File(path, "r+") as file:
        name = "t"
        if kind == "nested":
            name = file.create_group("part").name + "/t"
        else:
            del file["t"]
        if kind in ("storage", "nested"):
            array = file.create_dataset(name, (10, 2), "i1", external=[(str(secret), 0, 20)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((10, 2), "i1")
            layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "t", (10, 2))
            array = file.create_virtual_dataset(name, layout)
        else:
            file[name] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/t")
            array = None
        if array is not None and kind != "nested":
            array.dims[0].attach_scale(file["time"])
            array.dims[1].attach_scale(file["station"])
    with pytest.raises(InputError, match=r"'(part/)?t' lies in another file: write the file again"):
        io.read_readings(path)


def test_netcdf_of_both_formats_is_read(tmp_path):
    netcdf(tmp_path / "r.nc")
    assert io.read_readings(tmp_path / "r.nc").names == ("a", "b")
    array = xarray.DataArray(np.ones((3, 2)), dims=("time", "station"), coords={"time": [0.0, 1.0, 2.0]}, name="t")
    array.to_netcdf(tmp_path / "old.nc", engine="scipy")
    assert (tmp_path / "old.nc").read_bytes().startswith(b"CDF")
    np.testing.assert_array_equal(io.read_readings(tmp_path / "old.nc").values, np.ones((2, 3)))
