"""The words that tables use for stations, places, times and missing readings.

Column names are compared by :func:`plain`: case, spaces, hyphens, underscores and a unit in brackets do not matter.
"""

from __future__ import annotations

import re

#: Column of station names, the first of these that the table has.
STATION = ("station", "stationid", "stationname", "id", "name")
#: Columns that name stations where none of these is there.
SENSOR = (
    "sensor", "sensorid", "site", "siteid", "node", "nodeid", "device", "deviceid", "location",
    "messstelle", "standort", "estación", "estacion",
)  # fmt: skip
LATITUDE = ("latitude", "lat", "latitud", "breite", "breitengrad")
LONGITUDE = ("longitude", "lon", "lng", "long", "longitud", "länge", "laenge", "längengrad", "laengengrad")
ALTITUDE = ("altitude", "elevation", "alt", "elev", "altitud", "höhe", "hoehe", "seehöhe", "seehoehe")
TIME = (
    "datetime", "timestamp", "time", "date", "obsdatetime", "obstime", "obsdate", "observationtime", "observationdate",
)  # fmt: skip
#: Column of the times of day beside one of dates, where hours may stand alone.
CLOCK = ("time", "timeofday", "hour", "hh", "uhrzeit", "zeit", "stunde", "heure", "hora")
#: What spreadsheets and pandas call a column without a name.
UNNAMED = ("", "index", "unnamed:0", "level0")
VALUE = ("value", "values", "reading", "readings", "measurement", "observation", "temperature", "temp")
UNIT = ("unit", "units", "einheit")
FLAG = ("quality", "flag", "flags", "qc")
#: What long tables carry beside time, station and value.
BESIDE = (*LATITUDE, *LONGITUDE, *ALTITUDE, "x", "y", *UNIT, *FLAG)

#: Cells that mean that there is no reading, in lower case.
MISSING = frozenset(
    ("", "na", "n/a", "#n/a", "#na", "n.a.", "nan", "-nan", "null", "#null!", "none", "nil", "-", "--", "---", "missing",
     "nodata", "no data", "#value!", "#div/0!", "#num!", "<na>", "nat")
)  # fmt: skip

#: Numbers that by convention mean that there is no reading.
SENTINELS = (
    -99.0, -99.9, -99.99, -999.0, -999.9, -999.99, -9999.0, -9999.9, -9999.99, -99999.0, -32768.0,
    999.0, 999.9, 999.99, 9999.0, 9999.9, 9999.99, 99999.0, 32767.0, 9.969209968386869e36, 1e20, -1e20,
)  # fmt: skip
#: Those of them that mean it even where they occur once.
UNMISTAKABLE = (-999.0, -9999.0, -99999.0)


def plain(name: str) -> str:
    """A column name without case, spaces, hyphens, underscores and a unit in brackets."""
    return re.sub(r"[\s_\-]+", "", re.sub(r"[(\[][^)\]]*[)\]]\s*$", "", name)).lower()
