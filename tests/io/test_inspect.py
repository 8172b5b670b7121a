"""What a table is said to hold is what it holds, and the recipe that is proposed reads it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nareg import io
from nareg.errors import InputError
from nareg.io import Recipe

STATIONS = "station,latitude,longitude,altitude\nA,50,4,10\nB,51,5,20\n"


@pytest.fixture
def long(tmp_path):
    rows = [f"2024-01-31 {t // 4:02}:{15 * (t % 4):02},{s},{t / 10},{50 + t},w" for t in range(24) for s in "AB"]
    rows[3] = rows[3].replace(",0.1,", ",,")
    path = tmp_path / "r.csv"
    path.write_text("\n".join(["time,station,temperature (°C),humidity [%],weather", *rows]))
    (tmp_path / "s.csv").write_text(STATIONS)
    return path


def test_quantities_times_and_places(long):
    seen = io.inspect(long, long.with_name("s.csv"))
    assert list(seen.quantities.index) == ["temperature (°C)", "humidity [%]"]
    row = seen.quantities.loc["temperature (°C)"]
    assert (row["unit"], row["stations"], row["readings"], row["low"], row["high"]) == ("°C", 2, 47, 0.0, 2.3)
    assert row["missing"] == pytest.approx(1 / 48)
    assert row["resolution"] == 0.1
    assert seen.quantities.loc["humidity [%]", "resolution"] == 1.0
    assert (seen.step, seen.regular) == (900.0, 1.0)
    stations, places, times = seen.lines()
    assert stations == "stations: 2 with readings ('A', 'B')"
    assert places == "places: 2 stations, latitude 50 to 51, longitude 4 to 5, with altitudes"
    assert times.endswith("a reading every 15 minutes (100 % of steps)")


def test_its_recipe_with_a_quantity_reads_the_table_without_a_guess(long):
    seen = io.inspect(long, recipe=Recipe(value="humidity [%]"))
    assert seen.recipe == Recipe(station="station", time="time", value="humidity [%]")
    table = io.read_readings(long, recipe=seen.recipe, strict=True)
    assert np.isfinite(table.values).all()


def test_a_wide_table_is_one_quantity(tmp_path):
    frame = pd.DataFrame(
        {"A": [1.5, 2.0, np.nan], "B": [4, 5, 6]}, index=pd.date_range("2024", periods=3, freq="D", name="time")
    )
    frame.to_csv(tmp_path / "level.csv")
    for source, name in ((tmp_path / "level.csv", "level"), (frame, "readings")):
        seen = io.inspect(source)
        assert list(seen.quantities.index) == [name]
        assert seen.stations == ("A", "B")
        assert seen.quantities.loc[name, "resolution"] == 0.5
        assert "a reading every day" in seen.lines()[-1]
        assert "pass the table of stations, too" in seen.lines()[1]


def test_a_station_with_a_step_or_times_of_its_own_is_named(tmp_path):
    rows, late = ["time,station,level"], np.random.default_rng(0).integers(0, 5, 48)
    for t in range(48):
        rows += [f"2024-01-01T{t // 2:02}:{30 * (t % 2):02}:00,{s},{t}" for s in ("A", "B", "E")]
        rows += [f"2024-01-01T{t // 2:02}:{30 * (t % 2) + 2:02}:00,C,{t}"]
        rows += [f"2024-01-01T{t // 2:02}:00:00,D,{t}"] * (t % 2 == 0)
        rows += [f"2024-01-01T{t // 2:02}:{30 * (t % 2) + late[t]:02}:00,F,{t}"]
    (tmp_path / "r.csv").write_text("\n".join(rows))
    seen = io.inspect(tmp_path / "r.csv")
    assert seen.cadences.loc["A"].tolist() == [1800, 0, 0]
    assert seen.cadences.loc["C"].tolist() == pytest.approx([1800, 0, 120])
    assert seen.cadences.loc["D"].tolist() == [3600, 0, 0]
    assert seen.lines()[3:] == [
        "station 'C': a reading every 30 minutes, 2 minutes after whole steps, with a jitter of 0 seconds",
        "station 'D': a reading every hour, 0 seconds after whole steps, with a jitter of 0 seconds",
        seen.lines()[5],
    ]
    assert seen.lines()[5].startswith("station 'F': a reading every ")
    assert seen.cadences.loc["F", "jitter"] == pytest.approx(120, abs=15)


def test_at_most_ten_stations_with_times_of_their_own_are_named(tmp_path):
    rows = [f"2024-01-01T{t:02}:{i:02}:00,S{i:02},{t}" for t in range(24) for i in (*range(13), 0)]
    (tmp_path / "r.csv").write_text("\n".join(["time,station,level", *rows]))
    lines = io.inspect(tmp_path / "r.csv").lines()[3:]
    assert len(lines) == 11
    assert lines[-1] == "2 more stations differ from the usual times"


@pytest.mark.parametrize(
    ("header", "values", "expected"),
    [
        ("wind_direction", [350, 10, 20], ("direction", "name")),
        ("heading [°]", [350, 10, 20], ("direction", "unit")),
        ("RH", [40, 50, 100], ("bounded", "name")),
        ("RH", [0.4, 0.5, 1.0], ("number", "values")),
        ("share (%)", [1, 2, 60], ("bounded", "unit")),
        ("gain (%)", [90, 120, 130], ("number", "values")),
        ("rain", [0, 0, 5], ("nonnegative", "name")),
        ("flow (mm/h)", [0, 1, 5], ("nonnegative", "unit")),
        ("rain", [-1, 0, 5], ("number", "values")),
        ("temperature", [-1, 2, 3], ("number", "name")),
        ("z9", [1, 2, 3], ("number", "values")),
    ],
)
def test_a_kind_and_what_shows_it(tmp_path, header, values, expected):
    rows = [f"2024-01-0{t + 1},A,{value}" for t, value in enumerate(values)]
    (tmp_path / "r.csv").write_text("\n".join([f"time,station,{header}", *rows]))
    row = io.inspect(tmp_path / "r.csv").quantities.loc[header]
    assert (row["kind"], row["shown_by"]) == expected


def test_stations_without_a_place_are_named(long):
    long.with_name("s.csv").write_text(STATIONS.replace("B,", "C,"))
    assert "no place for 'B'" in io.inspect(long, long.with_name("s.csv")).lines()[1]


def test_jittered_times_are_not_regular(tmp_path):
    rows = [f"2024-01-31 10:{m:02}:{s:02},{m}" for m, s in ((0, 0), (10, 3), (20, 1), (30, 0), (40, 0))]
    (tmp_path / "r.csv").write_text("\n".join(["time,A", *rows]))
    assert io.inspect(tmp_path / "r.csv").regular == 0.25


def test_a_table_of_stations_is_refused(long):
    with pytest.raises(InputError, match="no times where the readings are expected"):
        io.inspect(long.with_name("s.csv"))


def test_the_only_column_of_words_names_the_stations(long):
    long.write_text(
        long.read_text().replace("station", "Meetpunt").replace(",weather", "").replace(",w\n", "\n").removesuffix(",w")
    )
    seen = io.inspect(long)
    assert seen.recipe.station == ("Meetpunt",)
    assert len(seen.quantities) == 2
    with pytest.raises(InputError, match=r"'Meetpunt' holds words .*--station-column"):
        io.read_readings(long)


def test_what_clean_would_refuse_is_said(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("time,station,temp,hum\n" + "".join(f"2024-01-0{d}T00:00Z,A,{d},5\n" for d in range(1, 9)))
    seen = io.inspect(path, recipe=io.Recipe(zone="Europe/Brussels"))
    assert dict(seen.counts) == {}
    for name in ("temp", "hum"):
        assert any(note.startswith(f"{name}: the readings cannot be cleaned as they are (zone is") for note in seen.notes)


@pytest.mark.parametrize(
    "header", ["time,station,value (kWh),temp", "time,station,value (kWh)", "time,station,total", "time,A"]
)
def test_what_clean_says_of_meters_is_said(tmp_path, header):
    """They were numbers like others, and clean refused them."""
    times = np.datetime64("2024-01-01") + np.arange(250) * np.timedelta64(1, "h")
    rows = [f"{time},A,{10 + t},{t % 7}".split(",") for t, time in enumerate(times)]
    columns = [0, 2] if header == "time,A" else list(range(header.count(",") + 1))
    (tmp_path / "r.csv").write_text("\n".join([header, *(",".join(row[c] for c in columns) for row in rows)]))
    seen = io.inspect(tmp_path / "r.csv")
    only = [note for note in seen.notes if "only rise" in note]
    assert len(only) == 1
    assert only[0].startswith(
        f"{seen.quantities.index[0]}: The readings only rise{', in kWh, as' if 'kWh' in header else '. If'}"
    )
    assert "clean the differences of successive readings" in only[0]
    assert not any("only rise" in note for note in io.inspect(tmp_path / "r.csv", recipe=io.Recipe(kind="number")).notes)


def test_a_column_of_numbers_with_an_unknown_mark_is_named(tmp_path):
    """METAR tables: M and VRB are missing; of another mark the option is said."""
    rows = [f"{station},2023-06-0{h + 1},7{h},{'M' if h == 1 else 60 + h},{'VRB' if h == 2 else 10 * h},{'x7' if h == 3 else h}"
            for h in range(5) for station in ("AMW", "DSM")]  # fmt: skip
    path = tmp_path / "metar.csv"
    path.write_text("\n".join(["station,valid,tmpf,dwpf,drct,odd", *rows]), encoding="utf-8")
    seen = io.inspect(path)
    assert list(seen.quantities.index) == ["tmpf", "dwpf", "drct"]
    assert any("'odd' is left out: it holds 'x7' among numbers" in note and "--missing" in note for note in seen.notes)


def test_rows_of_another_kind_are_not_missing(tmp_path):
    pairs = [(d, kind, value) for d in (1, 2, 3) for kind, value in (("no2", d), ("pm25", "" if d == 2 else 7))]
    rows = [f"2024-01-0{d},{station},{kind},{value}" for d, kind, value in pairs for station in "AB"]
    path = tmp_path / "kinds.csv"
    path.write_text("\n".join(["time,station,parameter,value", *rows]), encoding="utf-8")
    assert io.inspect(path).quantities["missing"].round(6).to_dict() == {"no2": 0.0, "pm25": 0.333333}
    assert io.inspect([path, path]).quantities["missing"].round(6).to_dict() == {"no2": 0.0, "pm25": 0.333333}


def test_stations_have_the_spelling_of_their_table_and_times_the_zone_of_the_recipe(tmp_path):
    (tmp_path / "s.csv").write_text("station,latitude,longitude\nBad Tölz,47.7,11.5\nOst,47.8,11.9\n", encoding="utf-8")
    rows = [f"2024-01-0{day} 10:00,{name},{day}" for day in range(1, 5) for name in (["Bad Tölz", "bad  tölz"][day % 2], "Ost")]
    (tmp_path / "r.csv").write_text("\n".join(["time,station,value", *rows]), encoding="utf-8")
    seen = io.inspect(tmp_path / "r.csv", tmp_path / "s.csv", recipe=io.Recipe(zone="Europe/Berlin"))
    assert seen.stations == ("Bad Tölz", "Ost")
    assert seen.quantities["stations"].tolist() == [2]
    assert "no place" not in seen.lines()[1]
    assert "to 2024-01-04T10:00:00, Europe/Berlin;" in seen.lines()[2]


def test_a_unit_in_brackets_is_no_part_of_a_station_that_has_a_place(tmp_path):
    places, readings = tmp_path / "s.csv", tmp_path / "r.csv"
    places.write_text("station,latitude,longitude\nA,52.1,9.1\nB,52.2,9.3\n")
    readings.write_text("time,A [m/s],B [m/s]\n" + "".join(f"2024-01-0{day},4.5,5.5\n" for day in range(1, 6)))
    seen = io.inspect(readings, places)
    assert seen.stations == ("A", "B")
    assert "no place" not in str(seen)


def test_directions_on_one_side_of_north_are_directions_too(tmp_path):
    rows = "".join(f"2024-06-01 {t:02}:00,{200 + 3 * t},{400 + t}\n" for t in range(24))
    (tmp_path / "r.csv").write_text("time,wind direction,other direction\n" + rows)
    kinds = io.inspect(tmp_path / "r.csv", recipe=Recipe(value="wind direction")).quantities
    assert kinds.loc["wind direction", ["kind", "shown_by"]].tolist() == ["direction", "name"]


def test_the_step_of_a_wide_table_is_that_of_its_stations(tmp_path):
    """Stations that read hourly at minutes of their own were said to read every few minutes."""
    minutes = {0: 3, 1: 17, 2: 41}
    rows = [(60 * t + minutes[i], i, t) for t in range(24) for i in minutes]
    lines = [
        f"2024-06-0{1 + m // 1440} {m // 60 % 24:02}:{m % 60:02},{','.join(str(t) if k == i else '' for k in range(3))}"
        for m, i, t in sorted(rows)
    ]
    (tmp_path / "r.csv").write_text("\n".join(["time,A,B,C", *lines]))
    seen = io.inspect(tmp_path / "r.csv")
    assert (seen.step, seen.regular) == (3600.0, 1.0)
    assert "a reading every hour (100 % of steps)" in " ".join(seen.lines())


def test_times_between_readings_are_in_their_unit(tmp_path):
    days = [f"2024-0{m}-{d:02},{m},{d}" if d == 14 else f"2024-0{m}-{d:02},{m}," for m in range(1, 7) for d in range(1, 29)]
    (tmp_path / "r.csv").write_text("\n".join(["time,A,B", *days]))
    (line,) = [one for one in io.inspect(tmp_path / "r.csv").lines() if "station 'B'" in one]
    assert "minutes" not in line
    assert "days" in line


def test_quantities_in_rows_of_their_own_have_one_step(tmp_path):
    """As boxes of citizens are downloaded: their step was the second between temperature and humidity."""
    rows = ["createdAt,value,lat,lon,boxName,sensorId,phenomenon"]
    for hour in range(30):
        for box in range(3):
            for k, (name, value) in enumerate((("Temperatur", 5), ("PM10", 20))):
                time = f"2024-01-{10 + hour // 24}T{hour % 24:02}:00:{10 * box + 3 * k:02}Z"
                rows.append(f"{time},{value + hour % 7}.{box},{51.9 + box / 100},7.6,Box {box},s{box}{k},{name}")
    (tmp_path / "boxes.csv").write_text("\n".join(rows))
    found = io.inspect(tmp_path / "boxes.csv")
    assert found.step == pytest.approx(3600, rel=1e-3)
    assert found.stations == ("Box 0", "Box 1", "Box 2")
    assert found.quantities.index.tolist() == ["Temperatur", "PM10"]
