"""Exports of dashboards, databases and citizens' stations, as their owners get them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nareg import io
from nareg.errors import InputError
from nareg.io import Recipe


def write(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def rows_of(line, number=24):
    """A line per hour, of which ``line`` makes the text from the hour."""
    return "".join(f"{line(hour)}\n" for hour in range(number))


def hourly(number=24):
    return np.datetime64("2024-05-01", "ns") + np.arange(number) * np.timedelta64(1, "h")


def test_weatherlink_has_its_header_in_two_lines(tmp_path):
    """Its clock, in a column without a name, was left out, and the readings of each day averaged."""
    header = "\t\tTemp\tHi\tLow\tOut\nDate\tTime\tOut\tTemp\tTemp\tHum\n"
    path = write(tmp_path, "davis.txt", header + rows_of(lambda h: f" 1.05.24\t{h:2d}:00\t{h}.5\t{h}.9\t{h}.1\t{60 - h}"))
    table = io.read_readings(path, recipe=Recipe(value="Temp Out"))
    np.testing.assert_array_equal(table.timestamps, hourly())
    np.testing.assert_array_equal(table.values, [np.arange(24) + 0.5])
    assert list(io.inspect(path).quantities.index) == ["Temp Out", "Hi Temp", "Low Temp", "Out Hum"]


def test_a_header_of_three_lines(tmp_path):
    """Port, sensor and quantity of a METER logger."""
    head = "z6-01234,Port 1,Port 1,Port 2\nRecords: 24,TEROS 12,TEROS 12,TEROS 12\nTimestamp,m³/m³ Water,°C Soil,m³/m³ Water\n"
    path = write(tmp_path, "z.csv", head + rows_of(lambda h: f"2024-05-01 {h:02}:00,.{h:02},{h},.9"))
    names = ["Port 1 TEROS 12 m³/m³ Water", "Port 1 TEROS 12 °C Soil", "Port 2 TEROS 12 m³/m³ Water"]
    assert list(io.inspect(path).quantities.index) == names
    np.testing.assert_array_equal(io.read_readings(path, recipe=Recipe(value=names[1])).values, [np.arange(24)])


def test_a_clock_without_a_name_beside_dates_without_one(tmp_path):
    text = ",,A,B\n" + rows_of(lambda h: f"2024-05-01,{h:02}:00,{h},{-h}")
    table = io.read_readings(write(tmp_path, "r.csv", text))
    np.testing.assert_array_equal(table.timestamps, hourly())
    np.testing.assert_array_equal(table.values, [np.arange(24), -np.arange(24)])


def test_a_small_table_above_the_readings(tmp_path):
    """The name and the place of a station of Netatmo."""
    above = 'Name;Lat;Long;ModuleName;ModuleType;\n"Haus";"9.1";"48.7";"Garten";"Outdoor";\n'
    header = 'Timestamp;"Timezone : Europe/Berlin";Temperature;Humidity\n'
    start = 1714521600
    body = rows_of(lambda h: f'{start + 3600 * h};"2024/05/01 {h:02}:00:00";{h}.5;{60 - h}')
    table = io.read_readings(write(tmp_path, "n.csv", above + header + body), recipe=Recipe(value="Temperature"))
    np.testing.assert_array_equal(table.timestamps, hourly())
    np.testing.assert_array_equal(table.values, [np.arange(24) + 0.5])
    assert any("2 lines above the header are left out" in note for note in table.notes)


def test_units_in_the_cells(tmp_path):
    text = '"Time","A","B"\n' + rows_of(lambda h: f'"2024-05-01 {h:02}:00:00","{h}.5 °C","-{h} °C"')
    table = io.read_readings(write(tmp_path, "g.csv", text))
    np.testing.assert_array_equal(table.values, [np.arange(24) + 0.5, -np.arange(24)])
    assert any("readings of 2 columns such as '0.5 °C' have their unit in the cell" in note for note in table.notes)
    for other in (text.replace("7.5 °C", "45 °F"), text.replace(" °C", "").replace("7.5", "7.5 °C")):
        with pytest.raises(InputError, match=r"column 'A': '(45 °F|7\.5 °C)' is a number with a unit"):
            io.read_readings(write(tmp_path, "h.csv", other))


def test_units_in_the_cells_of_a_long_table(tmp_path):
    """Without a number the cell was refused, and to inspect no column held readings."""
    rows = "".join(f"2024-05-01 {h:02}:00;{name};{'---' if h == 3 else 60 + h} %\n" for h in range(24) for name in "AB")
    path = write(tmp_path, "g.csv", "time;station;rel. Feuchte\n" + rows)
    expected = np.where(np.arange(24) == 3, np.nan, 60.0 + np.arange(24))
    np.testing.assert_array_equal(io.read_readings(path).values, [expected] * 2)
    assert list(io.inspect(path).quantities.index) == ["rel. Feuchte"]


def test_tables_of_influxdb(tmp_path):
    above = "#group,false,true\n#datatype,string,long\n#default,_result,\n,result,table,_start,_time,_value,_field,host\n"

    def one(host, field, sign):
        return rows_of(lambda h: f",,0,2024-05-01T00:00:00Z,2024-05-01T{h:02}:00:00Z,{sign}{h},{field},{host}")

    path = write(
        tmp_path, "i.csv", above + one("n1", "temp", "") + one("n2", "temp", "-") + "\n" + above + one("n1", "hum", "5")
    )
    table = io.read_readings(path, recipe=Recipe(value="temp"))
    assert table.names == ("n1", "n2")
    np.testing.assert_array_equal(table.timestamps, hourly())
    np.testing.assert_array_equal(table.values, [np.arange(24), -np.arange(24)])
    np.testing.assert_array_equal(
        io.read_readings(path, recipe=Recipe(value="hum")).values[0], [int(f"5{h}") for h in range(24)]
    )
    with pytest.raises(InputError, match="columns _time, _value and _field: do not pivot them"):
        io.read_readings(write(tmp_path, "p.csv", "#group,false\n,result,_time,temp\n,,2024-05-01T00:00:00Z,3\n"))


def test_a_record_per_line(tmp_path):
    text = rows_of(lambda h: f'{{"at": "2024-05-01T{h:02}:00:00Z", "device": {{"id": "a"}}, "T": {h}}}')
    table = io.read_readings(write(tmp_path, "r.jsonl", text), recipe=Recipe(value="T", station="device.id"))
    assert (table.names, table.zone) == (("a",), "UTC")
    np.testing.assert_array_equal(table.values, [np.arange(24)])


def test_numbers_of_rows_and_of_places_are_no_quantities(tmp_path):
    """ThingSpeak and Sensor.Community."""
    text = "created_at,entry_id,field1,field2\n" + rows_of(lambda h: f"2024-05-01 {h:02}:00:00 UTC,{h + 1},{h}.5,{60 - h}")
    places = "latitude,longitude".join([",", "\n"])
    header, _, rows = text.partition("\n")
    channel = write(tmp_path, "channel.csv", header + places + rows.replace("\n", ",,\n"))
    assert list(io.inspect(channel).quantities.index) == ["field1", "field2"]
    header = "sensor_id;sensor_type;location;lat;lon;timestamp;P1;durP1;P2\n"
    text = header + "".join(
        rows_of(lambda h, s=s: f"{s};SDS;{s + 50};48.{s};9.{s};2024-05-01T{h:02}:00:00;{h};;{h}.5") for s in (1, 2)
    )
    path = write(tmp_path, "sc.csv", text)
    assert list(io.inspect(path).quantities.index) == ["P1", "P2"]


def test_what_home_assistant_writes_for_a_silent_sensor_is_missing(tmp_path):
    cells = ["sensor.a,5.5", "sensor.b,unavailable", "sensor.a,unknown", "sensor.b,6.5"]
    rows = [f"{cell},2025-06-02T00:{10 * (k // 2):02}:00.123Z\n" for k, cell in enumerate(cells)]
    path = write(tmp_path, "history.csv", "entity_id,state,last_changed\n" + "".join(rows))
    np.testing.assert_array_equal(io.read_readings(path).values, [[5.5, np.nan], [np.nan, 6.5]])


@pytest.mark.parametrize("mark", ["n.v.", "N.v.t.", "k.A.", "fehlt", "s/d", "sin dato"])
def test_marks_of_other_languages_are_missing(mark, tmp_path):
    path = write(tmp_path, "soil.csv", f"time,A,B\n2024-05-01 00:00,19.1,{mark}\n2024-05-01 00:30,{mark},23.4\n")
    np.testing.assert_array_equal(io.read_readings(path).values, [[19.1, np.nan], [np.nan, 23.4]])


@pytest.mark.parametrize("form", ["{0}_{1}", "{1}_{0}", "{0} {1}", "{0}-{1}"])
def test_stations_and_quantities_in_names(tmp_path, form):
    """They were eight quantities of one station."""
    names = [form.format(station, kind) for station in ("Weir", "Mill", "B3") for kind in ("temp", "rh")]
    path = write(tmp_path, "r.csv", "\n".join([",".join(["time", *names]), *(f"{stamp},1,50,2,60,3,70" for stamp in hourly())]))
    found = io.inspect(path)
    assert [*found.quantities.index] == ["temp", "rh"]
    np.testing.assert_array_equal(io.read_readings(path, recipe=io.Recipe(value="rh")).values[:, 0], [50, 60, 70])


@pytest.mark.parametrize("parts", ["min max", "air soil", "2m 10m", "raw qc", "1_1_1 1_2_1"])
def test_statistics_and_heights_are_no_stations(tmp_path, parts):
    names = [f"{kind}_{part}" for kind in ("temp", "rh") for part in parts.split()]
    path = write(tmp_path, "r.csv", "\n".join([",".join(["time", *names]), *(f"{stamp},1,2,50,60" for stamp in hourly())]))
    assert "are read as stations" not in " ".join(io.inspect(path).notes)


def test_numbers_of_entries_are_no_station(tmp_path):
    rows = [f"{stamp},{k},{20 + k % 3},{60 + k % 5}" for k, stamp in enumerate(hourly(), 7)]
    path = write(tmp_path, "r.csv", "\n".join(["created_at,entry_id,field1,field2", *rows]))
    assert io.read_readings(path).names == ("field1", "field2")


@pytest.mark.parametrize("suffix", [".json", ".geojson"])
def test_points_of_geojson_with_a_reading_each(tmp_path, suffix):
    """Each point was a station with one reading, and had no place."""
    features = [
        {
            "type": "Feature", "id": f"x{hour}-{number}", "geometry": {"type": "Point", "coordinates": [-105.2 + number, 40.1]},
            "properties": {
                "monitoring_location_id": f"USGS-{number}", "parameter_code": "00010", "statistic_id": "00011",
                "time": f"{stamp}+00:00", "value": f"{10 * number + hour / 2}", "unit_of_measure": "degC", "qualifier": None,
                "last_modified": "2024-06-01T00:00:00+00:00",
            },
        }
        for number in (1, 2) for hour, stamp in enumerate(hourly())
    ]  # fmt: skip
    text = json.dumps({"type": "FeatureCollection", "features": features})
    path = write(tmp_path, f"usgs{suffix}", text)
    table = io.read_readings(path)
    assert table.names == ("USGS-1", "USGS-2")
    np.testing.assert_array_equal(table.values, [[10 * number + hour / 2 for hour in range(24)] for number in (1, 2)])
    np.testing.assert_allclose(io.inspect(path).placed.coordinates, [[40.1, -104.2], [40.1, -103.2]])
    with_system = text.replace('"features"', '"crs": {"properties": {"name": "urn:ogc:def:crs:EPSG::25832"}}, "features"', 1)
    with pytest.raises(InputError, match="another reference system"):
        io.read_readings(write(tmp_path, f"other{suffix}", with_system))


@pytest.mark.parametrize("by_thing", [True, False])
def test_sensor_things(tmp_path, by_thing):
    """Two stations with two quantities: streams in things, or things in streams."""
    streams = {
        (station, kind): {
            "name": f"{station} {kind}", "ObservedProperty": {"name": kind},
            "unitOfMeasurement": {"name": "unit", "symbol": unit},
            "Observations": [
                {"phenomenonTime": f"{stamp}Z/{stamp}Z", "result": None if hour == 5 else base + hour}
                for hour, stamp in enumerate(hourly())
            ],
        }
        for station, offset in (("Weir", 0), ("Mill", 100))
        for kind, unit, base in (("temperature", "°C", offset), ("pH", "", 1))
    }  # fmt: skip
    things = {
        station: {"name": station, "Locations": [{"location": {"type": "Point", "coordinates": [8.5, 50.1 + k]}}]}
        for k, station in enumerate(("Weir", "Mill"))
    }
    if by_thing:
        value = [
            thing | {"Datastreams": [s for (one, _), s in streams.items() if one == name]} for name, thing in things.items()
        ]
    else:
        value = [stream | {"Thing": things[name]} for (name, _), stream in streams.items()]
    path = write(tmp_path, "things.json", json.dumps({"@iot.count": 2, "value": value}))
    table = io.read_readings(path, recipe=Recipe(value="temperature"))
    assert table.names == ("Weir", "Mill")
    expected = np.where(np.arange(24) == 5, np.nan, np.arange(24.0))
    np.testing.assert_array_equal(table.values, [expected, expected + 100])
    np.testing.assert_allclose(io.inspect(path).placed.coordinates, [[50.1, 8.5], [51.1, 8.5]])
    assert [*io.inspect(path).quantities.index] == ["temperature", "pH"]


def test_records_of_a_service(tmp_path):
    value = [{"time": str(stamp), "station": name, "level": k} for k, stamp in enumerate(hourly()) for name in "AB"]
    path = write(tmp_path, "odata.json", json.dumps({"@odata.context": "levels", "value": value}))
    np.testing.assert_array_equal(io.read_readings(path).values, [np.arange(24)] * 2)
