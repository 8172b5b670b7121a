"""Answers of web services, as JSON or XML: long tables of pandas, as in :mod:`._formats`."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from nareg.errors import InputError
from nareg.io._notes import count, verb

if TYPE_CHECKING:
    import pandas as pd


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


def read_records(text: str, stem: str) -> pd.DataFrame:
    """A list of records, a row of a table each."""
    import pandas as pd

    frame = pd.json_normalize(json.loads(text))
    if len(frame.columns) < 2:
        raise InputError("the file is JSON, whose records need a time and a reading: export the readings as a table of commas.")
    frame.attrs = {"units": {}, "notes": []}
    return frame


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
