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
    "messstelle", "standort", "estación", "estacion", "siteno", "sitenumber", "sitecode", "stationcode", "stationno",
    "stationnumber", "stationsid", "gauge", "gaugeid", "gaugeno", "wmo", "wmoid", "stid", "numersta", "numposte", "poste",
)  # fmt: skip
LATITUDE = (
    "latitude", "lat", "latitud", "breite", "breitengrad", "declatva", "gaugelat", "latdd", "geobreite",
    "coordinates.latitude",
)  # fmt: skip
LONGITUDE = (
    "longitude", "lon", "lng", "long", "longitud", "länge", "laenge", "längengrad", "laengengrad", "declongva", "gaugelon",
    "londd", "longdd", "geolaenge", "geolänge", "coordinates.longitude",
)  # fmt: skip
ALTITUDE = (
    "altitude", "elevation", "alt", "elev", "altitud", "höhe", "hoehe", "seehöhe", "seehoehe", "altva", "stationshoehe",
    "stationshöhe",
)  # fmt: skip
#: Coordinates in the plane, in one unit.
EAST = ("x", "easting", "eastings", "rechtswert", "utmx", "utmeasting", "utme", "xutm")
NORTH = ("y", "northing", "northings", "hochwert", "utmy", "utmnorthing", "utmn", "yutm")
TIME = (
    "datetime", "timestamp", "time", "date", "obsdatetime", "obstime", "obsdate", "observationtime", "observationdate",
    "tmstamp", "date.utc", "date.local",
)  # fmt: skip
#: Column of the times of day beside one of dates, where hours may stand alone.
CLOCK = ("time", "timeofday", "hour", "hh", "uhrzeit", "zeit", "stunde", "heure", "hora")
#: What spreadsheets and pandas call a column without a name.
UNNAMED = ("", "index", "unnamed:0", "level0")
VALUE = ("value", "values", "reading", "readings", "measurement", "observation", "temperature", "temp")
UNIT = ("unit", "units", "einheit")
FLAG = (
    "quality", "flag", "flags", "qc", "qcflag", "qcflags", "qualityflag", "qualitycode", "qualitycontrol", "flagprimary",
    "qflag", "qa", "qaqc", "validity", "qualifier", "qualifiers", "status", "qualität", "qualitaet", "qualité", "calidad",
)  # fmt: skip
#: Zones of the times, by name: those of the United States are unambiguous in the column that its agencies call tz_cd.
ZONE = ("tzcd",)
ZONES = {
    "UTC": 0, "GMT": 0, "AST": -4, "ADT": -3, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8,
    "PDT": -7, "AKST": -9, "AKDT": -8, "HST": -10, "HDT": -9, "SST": -11, "ChST": 10,
}  # fmt: skip
#: Columns that only count rows: what spreadsheets do not name, and loggers do.
COUNTERS = (*UNNAMED, "record", "recnbr")
POSITION = (*LATITUDE, *LONGITUDE, *ALTITUDE, *EAST, *NORTH)
#: What long tables carry beside time, station and value.
BESIDE = (*POSITION, *UNIT, *FLAG, *ZONE)

#: Cells that mean that there is no reading, in lower case.
MISSING = frozenset(
    ("", "na", "n/a", "#n/a", "#na", "n.a.", "nan", "-nan", "null", "#null!", "none", "nil", "-", "--", "---", "missing",
     "mq", "nodata", "no data", "#value!", "#div/0!", "#num!",
     "<na>", "nat")
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
