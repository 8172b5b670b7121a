"""Files of one agency or logger that have no header to go by: each becomes a long table of pandas.

A reader gets the text and the name of the file. It returns the columns station, time, latitude, longitude, altitude as far as
the file has them, then one column per quantity. Units and what was left out are in the frame's ``attrs``.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nareg.errors import InputError
from nareg.io._formats_radiation import read_reference_network, read_solar_laboratory, read_surfrad
from nareg.io._formats_web import (
    read_air_quality,
    read_archived,
    read_case_counts,
    read_data_frame,
    read_features,
    read_flux,
    read_records,
    read_things,
    read_tides,
    read_water_services,
)
from nareg.io._notes import as_numbers, count, listed, tidy, without

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Format:
    """A kind of file: its name, how it begins, and its reader."""

    name: str
    begins: re.Pattern[str]
    read: Callable[[str, str], pd.DataFrame]


def named_format(text: str) -> Format | None:
    """The format of a text, by its first lines."""
    start = text[:4096].lstrip("\n")
    return next((form for form in FORMATS if form.begins.match(start)), None)


#: Elements of GHCN-Daily that are stored in tenths, and their units; the others are whole.
TENTHS = {"TMAX": "°C", "TMIN": "°C", "TAVG": "°C", "TOBS": "°C", "PRCP": "mm", "EVAP": "mm", "WESD": "mm", "AWND": "m/s"}
ALSO_TENTHS = re.compile(r"WSF|M[NX]PN|S[NX]\d\d")
WHOLE = {"SNOW": "mm", "SNWD": "mm"}


def _ghcn_daily(text: str, stem: str) -> pd.DataFrame:
    """GHCN-Daily: a line per station, month and element, 31 days of a number and three flags."""
    import pandas as pd

    lines = [line.ljust(269)[:269] for line in text.split("\n") if line.strip()]
    days = np.array(lines, dtype="S269").view("S1").reshape(-1, 269)[:, 21:].reshape(-1, 31, 8)
    values = np.ascontiguousarray(days[:, :, :5]).view("S5")[..., 0].astype(float)
    values[values == -9999] = np.nan
    failed = np.isfinite(values) & (days[:, :, 6] != b" ") & (days[:, :, 6] != b"")
    values[failed] = np.nan
    key = pd.DataFrame(
        {
            "station": [line[:11] for line in lines],
            "month": [line[11:17] for line in lines],
            "name": [line[17:21] for line in lines],
        }
    )
    frame = key.loc[key.index.repeat(31)].reset_index(drop=True)
    frame["value"] = values.ravel()
    frame["time"] = pd.to_datetime(
        frame["month"] + np.tile([f"{d:02}" for d in range(1, 32)], len(lines)), "coerce", format="%Y%m%d"
    )
    frame["failed"] = failed.ravel()
    frame = frame[(frame["value"].notna() | frame["failed"]) & frame["time"].notna()]
    lost = frame.groupby("name")["failed"].sum().to_dict()
    wide = frame.groupby(["station", "time", "name"])["value"].mean().unstack().reset_index()
    quantities = [name for name in wide.columns[2:] if not str(name).startswith(("WT", "WV", "DA", "MD"))]
    for name in quantities:
        wide[name] /= 10.0 if name in TENTHS or ALSO_TENTHS.match(name) else 1.0
    others = [name for name in wide.columns[2:] if name not in quantities]
    out = {name: wide[name] for name in ["station", "time", *quantities]}
    said = f"{count(len(others), 'element')} of weather and of several days left out: {listed(others)}" if others else ""
    return tidy(out, TENTHS | WHOLE, said, failed=lost, why="that failed the agency's checks")


def _diver(text: str, stem: str) -> pd.DataFrame:
    """Van Essen Divers (MON): settings, then lines of date, time and a number per channel."""
    import pandas as pd

    settings, _, table = text.partition("[Data]")
    names = re.findall(r"Identification\s*=(.*)", settings)
    rows = [line.split() for line in table.splitlines() if re.match(r"\d{4}/\d\d/\d\d ", line)]
    numbers = [row[-len(names) :] for row in rows] if names else []
    if not numbers or any(len(row) != len(names) + 2 for row in rows):
        raise InputError("the lines below [Data] need a date, a time and a number per channel: export it as CSV.")
    place = re.search(r"Location\s*=(.*)", settings)
    station = place[1].strip() if place and place[1].strip() else stem
    columns = {
        name.strip().lower(): as_numbers(pd.Series(column))
        for name, column in zip(names, zip(*numbers, strict=True), strict=True)
    }
    return tidy({"station": station, "time": [f"{date} {clock}" for date, clock, *_ in rows], **columns}, {})


#: ISD: place of the number, place of its quality, code of missing, factor, unit.
ISD_FIELDS = {
    "wind direction": (60, 63, 63, 999, 1.0, "°"),
    "wind speed": (65, 69, 69, 9999, 0.1, "m/s"),
    "temperature": (87, 92, 92, 9999, 0.1, "°C"),
    "dew point": (93, 98, 98, 9999, 0.1, "°C"),
    "pressure": (99, 104, 104, 99999, 0.1, "hPa"),
}
#: The same in the CSV files: the column, and the part of its cells.
ISD_CELLS = {
    "wind direction": ("WND", 0),
    "wind speed": ("WND", 3),
    "temperature": ("TMP", 0),
    "dew point": ("DEW", 0),
    "pressure": ("SLP", 0),
}
#: Quality codes of ISD for erroneous readings; suspect ones (2 and 6) are used.
ISD_ERRONEOUS = ("3", "7")


def _isd(base: dict[str, Any], cells: dict[str, tuple[Any, Any]], said: str = "") -> pd.DataFrame:
    for name, (numbers, _) in cells.items():
        *_, missing, factor, _ = ISD_FIELDS[name]
        base[name] = (as_numbers(numbers).astype(float).replace(missing, np.nan) * factor).round(1)
    failed = without(base, {name: quality.isin(ISD_ERRONEOUS) for name, (_, quality) in cells.items()})
    nowhere = (base["latitude"] == 0) & (base["longitude"] == 0)
    for name in ("latitude", "longitude"):
        base[name] = base[name].mask(nowhere | (base[name].abs() > 360))
    units = {name: field[-1] for name, field in ISD_FIELDS.items()}
    notes = (
        "latitude and longitude 0, 0 mean no place" * bool(nowhere.any()),
        said,
    )
    return tidy(base, units, *notes, failed=failed, why="with a quality code of 3 or 7 (erroneous)")


def _isd_lines(text: str, stem: str) -> pd.DataFrame:
    """NOAA's Integrated Surface Data, fixed width."""
    import pandas as pd

    every = [line for line in text.split("\n") if line.strip()]
    lines = pd.Series([line for line in every if len(line) >= 105])
    short = len(every) - len(lines)
    base = {
        "station": lines.str[4:15],
        "time": pd.to_datetime(lines.str[15:27], format="%Y%m%d%H%M", utc=True),
        "latitude": as_numbers(lines.str[28:34]) / 1000,
        "longitude": as_numbers(lines.str[34:41]) / 1000,
        "altitude": as_numbers(lines.str[46:51]).replace(9999, np.nan),
    }
    cells = {name: (lines.str[a:b], lines.str[q]) for name, (a, b, q, *_) in ISD_FIELDS.items()}
    return _isd(base, cells, f"{count(short, 'line')} of less than 105 characters left out" if short else "")


def _isd_table(text: str, stem: str) -> pd.DataFrame:
    """The same as a CSV table, with number and quality in one cell."""
    import pandas as pd

    table = pd.read_csv(io.StringIO(text), dtype=str)
    base = {
        "station": table["STATION"],
        "time": pd.to_datetime(table["DATE"], utc=True),
        "latitude": as_numbers(table["LATITUDE"]),
        "longitude": as_numbers(table["LONGITUDE"]),
        "altitude": as_numbers(table["ELEVATION"]),
    }
    cells = {}
    for name, (column, part) in ISD_CELLS.items():
        if column in table:
            parts = table[column].str.split(",", expand=True)
            cells[name] = parts[part], parts[part + 1]
    return _isd(base, cells)


#: Columns of ISD-Lite behind year, month, day and hour: factor and unit; what the sky is like is a code.
LITE = {
    "temperature": (0.1, "°C"), "dew point": (0.1, "°C"), "pressure": (0.1, "hPa"), "wind direction": (1.0, "°"),
    "wind speed": (0.1, "m/s"), "sky": (1.0, ""), "precipitation of 1 h": (0.1, "mm"), "precipitation of 6 h": (0.1, "mm"),
}  # fmt: skip


def _isd_lite(text: str, stem: str) -> pd.DataFrame:
    """NOAA's ISD-Lite: a line per hour in UTC, of the station that the file is named after."""
    import pandas as pd

    table = pd.read_csv(io.StringIO(text), sep=r"\s+", header=None)
    values = table.iloc[:, 4:].replace(-9999, np.nan).set_axis([*LITE], axis=1)
    rain, calm = list(LITE)[6:], values["wind direction"] == 0
    traces = int((values[rain] == -1).to_numpy().sum())
    values[rain] = values[rain].replace(-1, 0)
    values["wind direction"] = values["wind direction"].mask(calm)
    columns = {name: (values[name] * factor).round(1) for name, (factor, _) in LITE.items() if name != "sky"}
    time = pd.to_datetime(table.iloc[:, :4].set_axis(["year", "month", "day", "hour"], axis=1), utc=True)
    notes = (
        "the codes of the sky are left out",
        f"{count(int(calm.sum()), 'wind direction')} of 0 (calm) taken as missing" if calm.any() else "",
        f"{count(traces, 'trace')} of precipitation (-1) taken as 0" if traces else "",
    )
    units = {name: unit for name, (_, unit) in LITE.items()}
    return tidy({"station": re.sub(r"-(19|20)\d\d$", "", stem), "time": time, **columns}, units, *notes)


#: Variables in the names of ISMN files.
SOIL = {
    "sm": ("soil moisture", "m³/m³"),
    "ts": ("soil temperature", "°C"),
    "ta": ("air temperature", "°C"),
    "p": ("precipitation", "mm"),
}


def _soil_moisture(text: str, stem: str) -> pd.DataFrame:
    """A file of the International Soil Moisture Network, with the place in every row or in the first line."""
    import pandas as pd

    first = text.split("\n", 1)[0].split()
    if first[0][:4].isdecimal() and first[0][4:5] == "/":
        table = pd.read_csv(io.StringIO(text), sep=r"\s+", header=None, dtype=str).iloc[:, [0, 1, 6, 7, 8, 9, 12, 13]]
        table.columns = pd.Index(["date", "clock", "station", "latitude", "longitude", "altitude", "value", "flag"])
    else:
        table = pd.read_csv(io.StringIO(text.split("\n", 1)[1]), sep=r"\s+", header=None, dtype=str).iloc[:, :4]
        table.columns = pd.Index(["date", "clock", "value", "flag"])
        table = table.assign(station=first[2], latitude=first[3], longitude=first[4], altitude=first[5])
    name, unit = next((known for code, known in SOIL.items() if f"_{code}_" in stem), ("value", ""))
    time = pd.to_datetime(table["date"] + " " + table["clock"], format="%Y/%m/%d %H:%M", utc=True)
    places = {column: as_numbers(table[column]) for column in ("latitude", "longitude", "altitude")}
    columns = {"station": table["station"], "time": time, **places, name: as_numbers(table["value"])}
    failed = without(columns, {name: table["flag"].str.match("[CD]")})
    return tidy(columns, {name: unit}, failed=failed, why="with a flag C or D (implausible, dubious)")


def _groundwater(text: str, stem: str) -> pd.DataFrame:
    """A well of the Dutch DINO archive: lines about it, a table of its places, and one of its levels."""
    import pandas as pd

    tables = [match.start() for match in re.finditer(r"^LOCATIE,", text, re.MULTILINE | re.IGNORECASE)]
    if len(tables) < 2:
        raise InputError("the well has no readings in the archive: leave the file out.")
    places = pd.read_csv(io.StringIO(text[tables[0] : tables[1]]), dtype=str, skip_blank_lines=True).dropna(how="all")
    header, *rows = [line.split(",") for line in text[tables[1] :].split("\n") if line.strip(", ")]
    names = [name.strip() for name in header]
    names = names[: next(k for k, name in enumerate(names) if name.upper() == "BIJZONDERHEID")]
    levels = pd.DataFrame([row[: len(names)] for row in rows], columns=names)  # remarks follow, with commas of their own
    level = next(name for name in levels if name.upper().startswith("STAND") and ("NAP" in name or name.endswith("(MV)")))
    when = next(name for name in levels if name.upper().startswith("PEIL"))
    cells = levels[when].str.strip()
    time = pd.to_datetime(cells, format=_date_format(cells.iloc[0]) if len(cells) else None)
    base = {"station": levels.iloc[:, 0] + "-" + levels.iloc[:, 1], "time": time}
    for name, column in (("x", "X-COORDINAAT"), ("y", "Y-COORDINAAT")):
        own = next((c for c in places if c.upper().strip() == column), None)
        base[name] = np.nan if own is None or places.empty else float(places[own].iloc[-1])
    base[level] = as_numbers(levels[level])
    others = [name for name in levels if name.upper().startswith("STAND") and name != level]
    said = f"of the levels {level!r} is read, and not {', '.join(map(repr, others))}" if others else ""
    return tidy(base, {level: "cm"}, said, "x and y are meters of the Dutch grid, RD New (--crs EPSG:28992)")


def _date_format(cell: str) -> str:
    """``28-11-1972`` or ``1972/11/28 00:00:00``, with or without the time of day."""
    date = "%d-%m-%Y" if cell[2:3] == "-" else "%Y/%m/%d"
    return date + (" %H:%M:%S" if cell.count(":") == 2 else " %H:%M" if ":" in cell else "")


def _streamflow(text: str, stem: str) -> pd.DataFrame:
    """Daily streamflow of CAMELS: gauge, year, month, day, flow, mark."""
    import pandas as pd

    table = pd.read_csv(io.StringIO(text), sep=r"\s+", header=None, dtype=str)
    flow = as_numbers(table[4]).replace(-999, np.nan)
    estimated = int((flow.notna() & table[5].str.endswith(":e")).sum())
    time = pd.to_datetime(table[1] + table[2] + table[3], format="%Y%m%d")
    note = (
        f"{count(estimated, 'reading')} that the agency estimated (A:e) {'is' if estimated == 1 else 'are'} used"
        if estimated
        else ""
    )
    return tidy({"station": table[0], "time": time, "streamflow": flow}, {"streamflow": "ft³/s"}, note)


STAMP = r"\d{4}/\d\d/\d\d \d\d:\d\d"
FORMATS = (
    Format("GHCN-Daily", re.compile(r"[A-Z0-9]{11}\d{6}[A-Z0-9]{4}[ \-\d]{5}.{240}"), _ghcn_daily),
    Format("ISD", re.compile(r"\d{4}[0-9A-Z]{6}\d{5}\d{12}.[+-]\d{5}[+-]\d{6}"), _isd_lines),
    Format("ISD as CSV", re.compile(r'"?STATION"?,"?DATE"?,.*"?WND"?,.*"?TMP"?,'), _isd_table),
    Format("ISD-Lite", re.compile(r"(19|20)\d\d \d\d \d\d \d\d(?=.{48} *\n)( +-?\d+){8} *\n"), _isd_lite),
    Format("ISMN", re.compile(rf"{STAMP} {STAMP}\s+\S+\s+\S+\s+\S+(\s+-?\d+\.\d+){{3}}"), _soil_moisture),
    Format("ISMN", re.compile(rf"\S+\s+\S+\s+\S+(\s+-?\d+\.\d+){{5}}[^\n]*\n{STAMP}\s+\S+\s+\S+"), _soil_moisture),
    Format("SURFRAD", re.compile(r"[^\n]+\n\s*-?\d+\.\d+\s+-?\d+\.\d+\s+\d+ m version \d"), read_surfrad),
    Format("USCRN", re.compile(r"\d{5} \d{8} \d{4} \d{8} \d{4}\s+\S+\s+-?\d+\.\d+\s+-?\d+\.\d+"), read_reference_network),
    Format("SRML", re.compile(r"\d+\s+(19|20)\d\d(\s+\d{4}\s+\d+)+\s*\n\d{1,3}\s+\d{1,4}\s"), read_solar_laboratory),
    Format("DINO", re.compile(r"Titel:[ ,]*\nGebruikersnaam:"), _groundwater),
    Format("CAMELS", re.compile(r"\d{8} \d{4} \d\d \d\d\s+-?[\d.]+ \S+\n"), _streamflow),
    Format("USGS WaterServices", re.compile(r'\{\s*"name"\s*:\s*"ns1:timeSeriesResponseType"'), read_water_services),
    Format("WaterML", re.compile(r"<\?xml[^>]*>\s*<(\w+:)?timeSeriesResponse.*timeSeries", re.DOTALL), read_water_services),
    Format("records in JSON", re.compile(r"\[\s*\{|\{[^\n]*\}\n\{[^\n]*\}"), read_records),
    Format("points of GeoJSON", re.compile(r'\{\s*"type"\s*:\s*"FeatureCollection"'), read_features),
    Format("SensorThings", re.compile(r'\{\s*("@[^"]*"\s*:\s*[^,]*,\s*)*"value"\s*:\s*\[\s*\{'), read_things),
    Format("AQS", re.compile(r'"?State Code"?,"?County Code"?,"?Site Num"?,.*"?Date GMT"?,"?Time GMT"?'), read_air_quality),
    Format("Diver", re.compile(r"Data file for DataLogger"), _diver),
    Format("CO-OPS", re.compile(r"Date Time, ?Water Level, ?Sigma"), read_tides),
    Format("BADC-CSV", re.compile(r"Conventions,G,BADC-CSV"), read_archived),
    Format("InfluxDB", re.compile(r"#(group|datatype|default),"), read_flux),
    Format("counts per region and day", re.compile(r'\{\s*"edge_mapping"'), read_case_counts),
    Format("a frame in JSON", re.compile(r'\{\s*"(columns|index|data)"\s*:\s*\['), read_data_frame),
    Format("a frame in JSON", re.compile(r'\{\s*"[^"]*"\s*:\s*\{\s*"[^"]*"\s*:\s*(?![\[{\s])'), read_data_frame),
)  # fmt: skip
