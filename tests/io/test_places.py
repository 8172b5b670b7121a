"""Places as people and receivers write them, and stations that lie where no other does."""

from __future__ import annotations

import numpy as np
import pytest

from nareg import io
from nareg.errors import InputError


def read(tmp_path, rows: list[tuple[str, str]], names=("latitude", "longitude"), **options):
    path = tmp_path / "s.csv"
    lines = [f'S{i},"{a}","{b}"' for i, (a, b) in enumerate(rows)]
    path.write_text("\n".join([f"station,{names[0]},{names[1]}", *lines]) + "\n", encoding="utf-8")
    return io.read_stations(path, **options)


@pytest.mark.parametrize(
    ("latitude", "longitude", "expected"),
    [
        ("49° 23' N", "11° 46' E", (49 + 23 / 60, 11 + 46 / 60)),
        ("49°23'30''N", "11°46'15.5''W", (49.391666667, -11.770972222)),
        ("49º 23′ 30″ S", "011º 46′ 00″ W", (-49.391666667, -11.766666667)),
        ("N 49 23.5", "W 11 46.25", (49.391666667, -11.770833333)),
        ("49:23:30", "-11:46:15", (49.391666667, -11.770833333)),
        ("49d23m30sN", "11d46m15sE", (49.391666667, 11.770833333)),
        ("41.9N", "87.65W", (41.9, -87.65)),
        ("41.9°", "-87.65°", (41.9, -87.65)),
        ("33,9° S", "18,4° E", (-33.9, 18.4)),
    ],
)
def test_angles(tmp_path, latitude, longitude, expected):
    stations = read(tmp_path, [(latitude, longitude), ("41.5", "-87.5")])
    np.testing.assert_allclose(stations.coordinates[0], expected, atol=1e-8)
    assert any("such as" in note and "read as degrees" in note for note in stations.notes)
    with pytest.raises(InputError, match="write decimal degrees, west and south with a minus"):
        read(tmp_path, [(latitude, longitude), ("41.5", "-87.5")], strict=True)


@pytest.mark.parametrize(
    "cell", ["49° 75' N", "49° 23' E", "49.5° 23' N", "-49° 23' N", "north", "49 N 11 E", "49° 23' 61'' N"]
)
def test_what_is_no_angle_of_its_axis_is_refused(tmp_path, cell):
    with pytest.raises(InputError, match="line 2, column 'latitude'"):
        read(tmp_path, [(cell, "11")])


def test_positions_as_receivers_pack_them(tmp_path):
    rows = [("4923.456", "-01146.5"), ("4932.1", "-01127.0"), ("4928.0", "-01117.25")]
    stations = read(tmp_path, rows)
    np.testing.assert_allclose(stations.coordinates[0], [49 + 23.456 / 60, -(11 + 46.5 / 60)])
    assert any("ddmm.mmm" in note for note in stations.notes)
    with pytest.raises(InputError, match="minutes divided by 60"):
        read(tmp_path, rows[:1])  # one place may be anything


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("116.4", "39.9"), "exchanged: name the columns the other way round"),
        (("5468346.7", "519229.8"), "name columns in meters x and y"),
        (("492330", "114615"), "ddmmss"),
    ],
)
def test_a_latitude_beyond_90_is_refused_with_what_it_may_be(tmp_path, row, words):
    with pytest.raises(InputError, match=words):
        read(tmp_path, [row])


def test_minutes_behind_a_point_are_noted(tmp_path, rng):
    minutes = rng.integers(0, 60, (9, 2))
    stations = read(tmp_path, [(f"49.{a:02d}", f"11.{b:02d}") for a, b in minutes])
    assert any("divide the minutes by 60" in note for note in stations.notes)
    for rows in (rng.integers(0, 100, (9, 2)), np.full((9, 2), 99)):
        rows[0] = 77
        stations = read(tmp_path, [(f"49.{a:02d}", f"11.{b:02d}") for a, b in rows])
        assert not any("divide the minutes" in note for note in stations.notes)


def around(rng, latitude=60.3, longitude=24.9, n=10):
    return np.column_stack([latitude + rng.uniform(-0.3, 0.3, n), longitude + rng.uniform(-0.3, 0.3, n)])


@pytest.mark.parametrize(
    ("slip", "words"),
    [
        (lambda p: (p[0], -p[1]), "with the other sign of its longitude it would be among them"),
        (lambda p: (-p[0], p[1]), "with the other sign of its latitude it would be among them"),
        (lambda p: (p[1], p[0]), "with latitude and longitude exchanged it would be among them"),
        (lambda p: (24.0, 25.3), "check the coordinates, their signs and their order"),
    ],
)
def test_a_station_far_from_all_others_is_named_with_its_slip(tmp_path, rng, slip, words):
    places = around(rng)
    places[3] = slip(places[3])
    (note,) = read(tmp_path, places.round(5).astype(str).tolist()).notes
    assert "station 'S3' is " in note
    assert " km from all others: " + words in note


def test_stations_across_the_date_line_and_wide_networks_are_not_far(tmp_path, rng):
    places = around(rng, -17.0, 180.0)
    places[:, 1] = (places[:, 1] + 180) % 360 - 180
    wide = np.column_stack([rng.uniform(25, 49, 60), rng.uniform(-124, -67, 60)])
    for rows in (places, wide, np.full((8, 2), 11.0)):
        assert not any("from all others" in note for note in read(tmp_path, rows.round(5).astype(str).tolist()).notes)


def test_a_far_station_in_the_plane(tmp_path, rng):
    places = rng.uniform(0, 1000, (12, 2))
    places[5] = [5e6, 3.0]
    stations = read(tmp_path, places.round(2).astype(str).tolist(), ("x", "y"))
    assert any("station 'S5' is 4,9" in note and "check the coordinates" in note for note in stations.notes)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e300, 1e-300, 0.0])
def test_coordinates_whose_squares_are_no_numbers(tmp_path, rng, size):
    places = size * rng.uniform(-1, 1, (12, 2))
    assert read(tmp_path, [(repr(float(x)), repr(float(y))) for x, y in places], ("x", "y")).notes == ()


def test_two_far_stations_are_both_named(tmp_path, rng):
    places = around(rng, n=12)
    places[[2, 7], 1] *= -1
    notes = " ".join(read(tmp_path, places.round(5).astype(str).tolist()).notes)
    assert "'S2'" in notes
    assert "'S7'" in notes


@pytest.mark.parametrize(
    ("header", "altitude"),
    [("station_id,lat_deg,lon_deg,elevation_m", True), ("logger_id,site_lat,site_lon,height_m", True),
     ("SerialNumber,latitude_wgs84,longitude_wgs84,height", False), ("Name,Breite,Länge,Höhe ü. M.", True),
     ("Name,Breite,Länge,Hoehe ueber NN", True)],
)  # fmt: skip
def test_words_of_places_with_their_units(tmp_path, header, altitude):
    path = tmp_path / "s.csv"
    path.write_text(f"{header}\n7000,51.1,6.1,20\n7013,51.2,6.2,120\n7026,51.3,6.0,320\n")
    stations = io.read_stations(path)
    assert stations.names == ("7000", "7013", "7026")
    np.testing.assert_allclose(stations.coordinates[1], (51.2, 6.2))
    assert (None if stations.altitude is None else stations.altitude.tolist()) == ([20, 120, 320] if altitude else None)


@pytest.mark.parametrize(
    ("more", "cells"),
    [("lat_deg,lon_deg,elevation", "51,6,20"), ("height_m,elevation", "2,20"), ("elevation_ft,elevation_m", "66,20")],
)
def test_the_plainest_words_of_places_are_taken(tmp_path, more, cells):
    """Others beside them were refused as a column that appears twice, or the height of a sensor was the place's."""
    path = tmp_path / "s.csv"
    path.write_text(f"station,lat,lon,{more}\nA,51.1,6.1,{cells}\nB,51.2,6.2,{cells}\n")
    stations = io.read_stations(path)
    np.testing.assert_allclose(stations.coordinates, [(51.1, 6.1), (51.2, 6.2)])
    assert stations.altitude.tolist() == [20, 20]


def test_heights_of_waves_are_no_altitudes(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("time,station,lat,lon,height_m\n2024-01-01,A,48.1,2.2,1.5\n2024-01-01,B,48.5,3.3,1.7\n")
    assert io.read_stations(path).altitude is None


def test_whole_degrees_beside_minutes_are_no_places(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("station,lat_deg,lat_min,lon_deg,lon_min\nA,48,30,2,15\nB,48,12,3,45\n")
    with pytest.raises(InputError, match="no columns latitude and longitude"):
        io.read_stations(path)


@pytest.mark.parametrize(
    ("header", "options"),
    [
        ("Messstelle;Ostwert;Nordwert;Geländehöhe [m ü. NN]", {}),
        ("Messstelle;Rechts;Hoch;Geländehöhe [m ü. NN]", {"latitude": "Hoch", "longitude": "Rechts"}),
    ],
)
def test_meters_of_a_grid(tmp_path, header, options):
    """They were refused as degrees beyond 90, with the edit of the file as the remedy."""
    text = f"{header}\nA;484150;5406390;301,5\nB;489950;5398040;320,0\n"
    (tmp_path / "s.csv").write_text(text, encoding="utf-8")
    stations = io.read_stations(tmp_path / "s.csv", recipe=io.Recipe(**options))
    np.testing.assert_array_equal(stations.coordinates, [[484150, 5406390], [489950, 5398040]])
    np.testing.assert_array_equal(stations.altitude, [301.5, 320])
    placed = io.read_stations(tmp_path / "s.csv", recipe=io.Recipe(**options, crs="EPSG:25832"))
    np.testing.assert_allclose(placed.coordinates, [[48.8095, 8.7842], [48.7345, 8.8634]], atol=1e-3)


def test_degrees_minutes_and_seconds_are_no_meters(tmp_path):
    (tmp_path / "s.csv").write_text("station,N,E\nA,483012,110500\nB,484525,112000\n")
    with pytest.raises(InputError, match="degrees, minutes and seconds"):
        io.read_stations(tmp_path / "s.csv", recipe=io.Recipe(latitude="N", longitude="E"))
