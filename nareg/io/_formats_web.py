"""Answers of web services and databases, as JSON, XML or annotated tables: long tables of pandas, as in :mod:`._formats`."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from nareg.errors import InputError
from nareg.io._dates import parse
from nareg.io._notes import as_numbers, count, listed, tidy, verb
from nareg.io._numbers import COMMA, NUMBER

if TYPE_CHECKING:
    import pandas as pd

#: Milliseconds since 1970, as pandas writes times; or seconds, microseconds or nanoseconds of this century.
SINCE = re.compile(r"-?\d{11,13}|1\d{9}(?:\d{6}|\d{9})?")
#: A comma that may stand between thousands.
GROUPED = re.compile(r"[+-]?\d{1,3},\d{3}", re.ASCII)


#: Properties of the Geological Survey's features, by what they are.
OF_SURVEY = {"monitoring_location_id": "station", "parameter_code": "parameter", "unit_of_measure": "unit"}


def read_water_services(text: str, stem: str) -> pd.DataFrame:
    """Series of the U.S. Geological Survey: WaterServices as JSON, or WaterML 1.1."""
    import pandas as pd

    series = _of_xml(text) if text.lstrip().startswith("<") else json.loads(text)["value"]["timeSeries"]
    parts, units, missing = [], {}, 0
    for one in series:
        site, variable = one["sourceInfo"], one["variable"]
        place = site["geoLocation"]["geogLocation"]
        rows = [row for group in one["values"] for row in group["value"]]
        name = html.unescape(variable["variableName"])
        units[name] = html.unescape(variable["unit"]["unitCode"])
        part = pd.DataFrame({"time": [row["dateTime"] for row in rows], name: [row["value"] for row in rows]})
        part[name] = pd.to_numeric(part[name])
        code = part[name] == float(variable.get("noDataValue", "nan"))
        missing += int(code.sum())
        part.loc[code, name] = float("nan")
        part.insert(0, "station", site["siteCode"][0]["value"])
        part["latitude"], part["longitude"] = float(place["latitude"]), float(place["longitude"])
        parts.append(part)
    if not any(len(part) for part in parts):
        raise InputError("the answer of the web service has no readings: ask for another time or station.")
    frame = pd.concat(parts, ignore_index=True)
    offsets = frame["time"].str.contains(r"(?:Z|[+-]\d\d:\d\d)$")
    frame["time"] = pd.to_datetime(frame["time"], utc=bool(offsets.all()), format="ISO8601")
    coded = f"{count(missing, 'reading')} with the code of no data {verb(missing)} taken as missing"
    frame.attrs = {"units": units, "notes": [coded] if missing else []}
    return frame


def read_air_quality(text: str, stem: str) -> pd.DataFrame:
    """Rows of the Air Quality System of the United States: a site is a number within a county of a state."""
    import pandas as pd

    frame = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    what, value = frame["Parameter Name"], as_numbers(frame["Sample Measurement"])
    keys = {
        "station": frame[["State Code", "County Code", "Site Num"]].agg("-".join, axis=1),
        "time": pd.to_datetime(frame["Date GMT"] + " " + frame["Time GMT"], utc=True),
        "latitude": as_numbers(frame["Latitude"]), "longitude": as_numbers(frame["Longitude"]),
    }  # fmt: skip
    units = dict(zip(what, frame["Units of Measure"], strict=True))
    return tidy(keys | {name: value.where(what == name) for name in units}, units)


def read_tides(text: str, stem: str) -> pd.DataFrame:
    """Water levels of the National Ocean Service of the United States, one station each."""
    import pandas as pd

    frame = pd.read_csv(io.StringIO(text), skipinitialspace=True)
    return tidy({"station": stem, "time": frame["Date Time"], "water level": as_numbers(frame["Water Level"])}, {})


def read_archived(text: str, stem: str) -> pd.DataFrame:
    """BADC-CSV: names, units and places first, then a table between "data" and "end data"."""
    import pandas as pd

    above, _, table = text.partition("\ndata\n")
    frame = pd.read_csv(io.StringIO(table.partition("\nend data")[0]))
    facts = [row for row in csv.reader(above.splitlines()) if len(row) > 3]
    units = {column: unit for name, column, *_, unit in facts if name == "long_name"}
    place = next((row[2:4] for row in facts if row[:2] == ["location", "G"]), None)
    if place is not None:
        frame["latitude"], frame["longitude"] = map(float, place)
    return tidy({str(name): frame[name] for name in frame.columns}, {name: unit for name, unit in units.items() if unit})


#: Columns of InfluxDB that are no tags.
FLUX = ("", "result", "table", "_start", "_stop", "_time", "_value", "_field", "_measurement")


def read_flux(text: str, stem: str) -> pd.DataFrame:
    """Tables of InfluxDB, each below lines of annotations: a quantity per field, a station per combination of tags."""
    import pandas as pd

    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.strip(", ") and not line.startswith("#"):
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    tables = [pd.read_csv(io.StringIO("\n".join(block)), dtype=str, keep_default_na=False) for block in blocks if block]
    frame = pd.concat(tables, ignore_index=True).fillna("")
    if not {"_time", "_value", "_field"} <= {*frame.columns}:
        raise InputError("the tables need the columns _time, _value and _field: do not pivot them.")
    tags = [name for name in frame.columns if name not in FLUX and not name.startswith("Unnamed")]
    several = [name for name in tags if frame[name].nunique() > 1] or tags[:1]
    station = frame[several].agg(" ".join, axis=1) if several else stem
    keys = ["_measurement", "_field"] if "_measurement" in frame and frame["_measurement"].nunique() > 1 else ["_field"]
    long = pd.DataFrame(
        {
            "station": station,
            "time": frame["_time"],
            "what": frame[keys].agg(" ".join, axis=1),
            "value": as_numbers(frame["_value"]),
        }
    )
    words = long[long["value"].isna() & (frame["_value"] != "")]
    wide = long.pivot_table(index=["station", "time"], columns="what", values="value", aggfunc="mean").reset_index()
    said = f"{count(len(words), 'value')} of {listed(sorted({*words['what']}))} that {verb(len(words))} no number left out"
    return tidy({str(name): wide[name] for name in wide.columns}, {}, said if len(words) else "")


def read_records(text: str, stem: str) -> pd.DataFrame:
    """A list of records, a row of a table each; or a record per line."""
    import pandas as pd

    records = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines() if line]
    frame = pd.json_normalize(records)
    if len(frame.columns) < 2:
        raise InputError("the file is JSON, whose records need a time and a reading: export the readings as a table of commas.")
    notes = []
    for name in frame.columns:
        cells = [cell.strip() for cell in frame[name] if isinstance(cell, str)]
        commas = [cell for cell in cells if COMMA.fullmatch(cell)]
        if (
            commas
            and all(
                COMMA.fullmatch(cell) or (NUMBER.fullmatch(cell) and "." not in cell) or not any(map(str.isdigit, cell))
                for cell in cells
            )
            and not all(map(GROUPED.fullmatch, commas))
        ):
            frame[name] = frame[name].str.replace(",", ".")
            notes.append(f"numbers of {name!r} such as {commas[0]!r} are read with a decimal comma")
    frame.attrs = {"units": {}, "notes": notes}
    return frame


def read_features(text: str, stem: str) -> pd.DataFrame:
    """Points of GeoJSON with a reading each among their properties, such as those of the U.S. Geological Survey."""
    import pandas as pd

    collection = json.loads(text)
    features, system = collection["features"], str(collection.get("crs") or "CRS84")
    if not re.search(r"CRS84|\b4326\b", system):
        raise InputError("the points are in another reference system than longitude and latitude: write them in these.")
    frame = pd.json_normalize([feature.get("properties") or {} for feature in features])
    frame = frame.rename(columns={own: name for own, name in OF_SURVEY.items() if name not in frame})
    places = [feature.get("geometry") or {} for feature in features]
    if all(place.get("type") == "Point" for place in places) and not {"latitude", "longitude"} & {*frame.columns}:
        frame["longitude"], frame["latitude"] = ([float(place["coordinates"][axis]) for place in places] for axis in (0, 1))
    tables = [name for name in frame if frame[name].map(lambda cell: isinstance(cell, (dict, list))).any()]
    frame = frame.drop(columns=tables)
    frame.attrs = {"units": {}, "notes": []}
    return frame


def read_things(text: str, stem: str) -> pd.DataFrame:
    """Observations of the OGC's SensorThings, in data streams, which may be in things, whose places they have."""
    import pandas as pd

    entities = json.loads(text)["value"]
    if not {"Datastreams", "Observations"} & {*entities[0]}:
        return read_records(json.dumps(entities), stem)  # of another service of the kind
    streams = [(one, stream) for one in entities for stream in one["Datastreams"]] if "Datastreams" in entities[0] else [
        (one.get("Thing") or {}, one) for one in entities
    ]  # fmt: skip
    parts, units = [], {}
    for thing, stream in streams:
        name = (stream.get("ObservedProperty") or stream["unitOfMeasurement"])["name"]
        units[name] = stream["unitOfMeasurement"].get("symbol") or ""
        rows = stream["Observations"]
        part = pd.DataFrame({"time": [row["phenomenonTime"].partition("/")[0] for row in rows]})
        part.insert(0, "station", thing.get("name") or stream["name"])
        place = next((one["location"] for one in thing.get("Locations", ())), stream.get("observedArea")) or {}
        place = place.get("geometry", place)  # some have a feature there
        if place.get("type") == "Point":
            part["longitude"], part["latitude"] = map(float, place["coordinates"][:2])
        part[name] = as_numbers(pd.Series([row["result"] for row in rows], dtype=object))
        parts.append(part)
    frame = pd.concat(parts, ignore_index=True)
    if frame.empty:
        raise InputError("the answer has no observations: ask for them by $expand=Observations.")
    return tidy({str(name): frame[name] for name in frame}, units)


def read_data_frame(text: str, stem: str) -> pd.DataFrame:
    """A frame as ``pandas.DataFrame.to_json`` writes it: by columns, by rows, or split into names and rows."""
    import pandas as pd

    table = json.loads(text)
    if isinstance(table.get("data"), list) and isinstance(table.get("columns"), list):
        keys = [str(key) for key in table.get("index", range(len(table["data"])))]
        frame = pd.DataFrame(table["data"], keys, [str(name) for name in table["columns"]])
    else:
        inner = list(next(iter(table.values()), {}))
        if not all(isinstance(one, dict) and list(one) == inner for one in table.values()):
            raise InputError("the file is JSON, but no frame as pandas writes it: export the readings as a table of commas.")
        likely = _like_rows(inner) - _like_rows(list(table))
        if not likely:
            raise InputError(
                "the file is JSON in which columns and rows have names of one kind: write it by to_json(orient='records')."
            )
        frame = pd.DataFrame.from_dict(table, orient="columns" if likely > 0 else "index")
    if frame.map(lambda cell: isinstance(cell, (dict, list))).to_numpy().any():
        raise InputError("the file is JSON with tables in cells: export the readings as a table of commas.")
    keys = [str(key) for key in frame.index]
    frame = frame.reset_index(drop=True)
    if keys != [str(row) for row in range(len(keys))]:  # else they count the rows
        frame.insert(0, "time" if _like_rows(keys) == DATED else "index", keys)
    frame.attrs = {"units": {}, "notes": []}
    return frame


#: How sure keys are those of rows: as whole numbers, or as dates and times since 1970.
NUMBERED, DATED = 1, 2


def _like_rows(keys: list[str]) -> int:
    if all(SINCE.fullmatch(key) or parse(key) for key in keys):
        return DATED
    return NUMBERED if all(map(str.isdecimal, keys)) else 0


def _of_xml(text: str) -> list[dict[str, Any]]:
    """The series of a WaterML answer in the shape of the JSON."""

    def find(node: Any, *names: str) -> Any:
        return next(iter(node.iterfind("./" + "/".join(f"{{*}}{name}" for name in names))), None)

    def words(node: Any, *names: str) -> str:
        inner = find(node, *names)
        return "" if inner is None or inner.text is None else str(inner.text)

    series = []
    for one in ElementTree.fromstring(text).iterfind("./{*}timeSeries"):
        place = find(one, "sourceInfo", "geoLocation", "geogLocation")
        series.append({
            "sourceInfo": {
                "siteCode": [{"value": words(one, "sourceInfo", "siteCode")}],
                "geoLocation": {"geogLocation": {axis: words(place, axis) for axis in ("latitude", "longitude")}},
            },
            "variable": {
                "variableName": words(one, "variable", "variableName"),
                "unit": {"unitCode": words(one, "variable", "unit", "unitCode")},
                "noDataValue": words(one, "variable", "noDataValue") or "nan",
            },
            "values": [{"value": [
                {"dateTime": row.get("dateTime"), "value": row.text} for row in one.iterfind("./{*}values/{*}value")
            ]}],
        })  # fmt: skip
    return series


def read_case_counts(text: str, stem: str) -> pd.DataFrame:
    """Counts ``y`` of regions (a row per day) beside a graph per day, which is not read."""
    import pandas as pd

    table = json.loads(text)
    if "y" not in table:
        raise InputError("the file has no counts 'y': pass a CSV table.")
    frame = pd.DataFrame(table["y"]).rename_axis("time").stack().rename("count").rename_axis(["time", "station"]).reset_index()
    frame["station"] = frame["station"].astype(str)
    frame.attrs = {"units": {}, "notes": ["regions are numbered from 0, days too; the graph of each day is not read"]}
    return frame
