"""The words that tables use for stations, places, times and missing readings; and names of columns matched with stations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from nareg.errors import InputError
from nareg.io._notes import NoReadings, Notes, count, listed, verb

#: Column of station names, the first of these that the table has.
STATION = ("station", "stationid", "stationname", "boxname", "boxid", "id", "name")
#: Columns that name stations where none of these is there.
SENSOR = (
    "sensor", "sensorid", "site", "siteid", "node", "nodeid", "device", "deviceid", "location",
    "messstelle", "standort", "stazione", "stasjon", "estación", "estacion", "siteno", "sitenumber", "sitecode",
    "stationcode", "stationno", "stationnumber", "stationsid", "gauge", "gaugeid", "gaugeno", "wmo", "wmoid", "stid",
    "numersta", "numposte", "poste", "stn", "sitenum", "codestation", "airqualitystationeoicode", "climateid",
    "bureauofmeteorologystationnumber", "지점명", "stnid", "stnname", "samplingpoint", "sourceid", "indicativo", "idsensore",
    "codiestacio", "codigoestacion", "meetpuntidentificatie", "locationid", "staid", "souid",
)  # fmt: skip
LATITUDE = (
    "latitude", "lat", "latitud", "breite", "breitengrad", "declatva", "gaugelat", "latdd", "geobreite",
    "coordinates.latitude", "sitelatitude", "stationlatitude",
    "breedtegraad", "latitudine", "breddegrad",
)  # fmt: skip
LONGITUDE = (
    "longitude", "lon", "lng", "long", "longitud", "länge", "laenge", "längengrad", "laengengrad", "declongva", "gaugelon",
    "londd", "longdd", "geolaenge", "geolänge", "coordinates.longitude", "sitelongitude", "stationlongitude",
    "lengtegraad", "longitudine", "længdegrad", "lengdegrad",
)  # fmt: skip
ALTITUDE = (
    "altitude", "elevation", "alt", "elev", "altitud", "höhe", "hoehe", "seehöhe", "seehoehe", "altva", "stationshoehe",
    "stationshöhe", "geländehöhe", "gelaendehoehe", "hoogte", "altitudine", "højde", "høyde", "alti",
)  # fmt: skip
#: What comments above a header say of the one station of a table.
STATED = {
    "station": ("station", "stationname", "stationid", "stationcode", "stationnumber", "messstelle", "messstellenname",
                "estación", "estacion"),
    "site": ("site", "sitename", "siteid", "sitecode", "sitenumber", "gauge", "gaugeid", "standort", "poste"),
    "latitude": LATITUDE, "longitude": LONGITUDE, "altitude": (*ALTITUDE, "height"),
}  # fmt: skip
#: Coordinates in the plane, in one unit.
EAST = (
    "x", "easting", "eastings", "rechtswert", "ostwert", "utmx", "utmeasting", "utme", "xutm", "xcoord", "xcoordinate",
    "coordx", "xkoordinate",
)  # fmt: skip
NORTH = (
    "y", "northing", "northings", "hochwert", "nordwert", "utmy", "utmnorthing", "utmn", "yutm", "ycoord", "ycoordinate",
    "coordy", "ykoordinate",
)  # fmt: skip
TIME = (
    "datetime", "timestamp", "time", "date", "obsdatetime", "obstime", "obsdate", "observationtime", "observationdate",
    "tmstamp", "date.utc", "date.local", "timestampstart", "unixtime", "unixtimestamp", "epochtime", "zeitstempel",
)  # fmt: skip
#: Column of the times of day beside one of dates, where hours may stand alone.
CLOCK = (
    "time",
    "timeofday",
    "hour",
    "hourending",
    "hh",
    "uhrzeit",
    "zeit",
    "stunde",
    "heure",
    "hora",
    "ora",
    "uur",
    "tijd",
    "hhmm",
    "hh:mm",
    "hrmn",
    "hhmmss",
    "timehhmm",
)
#: Days of the year beside a column of years, or behind the year.
DAY_OF_YEAR = ("doy", "dayofyear", "yday", "jday", "julian", "julianday", "julday", "yearday", "yeardoy", "yyyyddd", "yyyydoy")
#: Columns of the parts of a time, the largest first; what is not there is 0.
CALENDAR = (
    ("year", "yyyy", "yy", "yr", "jahr", "année", "annee", "año", "jaar", "anno"),
    ("month", "mo", "mon", "mth", "monat", "mois", "mes", "maand", "mm"),
    ("day", "dd", "dy", "tag", "jour", "día", "dia", "dag"),
    ("hour", "hh", "hr", "stunde", "heure", "hora", "uur"),
    ("minute", "min", "mn", "mi", "mm"),  # buoys have MM for the month and mm for the minute
    ("second", "sec", "ss"),
)
QUARTER = ("quarter", "qtr", "quartal", "trimestre", "trimester", "kwartaal")
#: What spreadsheets and pandas call a column without a name.
UNNAMED = ("", "index", "unnamed:0", "level0")
VALUE = ("value", "values", "reading", "readings", "measurement", "observation", "resultmeasure", "valorlectura")
UNIT = ("unit", "units", "einheit")
#: What only units have, and units without any. A letter alone may be a channel, or the first of a word.
UNIT_SIGN = re.compile(r"[%°℃℉²³µμ]|[a-z] ?\^?-[1-4]\b|/(s|min|h|hr|d|day|l|m|cm|km|ha|ft)\^?[23]?\b", re.IGNORECASE)
DEGREES = re.compile(r"[Dd]eg(?:rees?|\.)? ([CF])(?:elsius|ahrenheit)?$")
ONE_SIGN = str.maketrans({"℃": "°C", "℉": "°F", "º": "°"})
SYMBOLS = frozenset((
    "c", "f", "k", "degc", "degf", "deg", "celsius", "fahrenheit", "kelvin", "m", "cm", "mm", "km", "ft", "hpa", "kpa", "pa",
    "mbar", "bar",
    "mmhg", "inhg", "kt", "kts", "knots", "mph", "ppm", "ppb", "mv", "kw", "kwh", "psi", "ntu", "psu", "lux", "db", "hz",
))  # fmt: skip
FLAG = (
    "quality", "flag", "flags", "qc", "qcflag", "qcflags", "qualityflag", "qualitycode", "qualitycontrol", "flagprimary",
    "qflag", "qa", "qaqc", "validity", "qualifier", "qualifiers", "status", "qualität", "qualitaet", "qualité", "calidad",
    "kvalitet", "kwaliteit", "qualità", "stato", "prüfstatus", "verification", *(f"qn{level}" for level in range(1, 10)),
)  # fmt: skip
#: Zones of the times, by name: those of the United States are unambiguous in the column that its agencies call tz_cd.
ZONE = ("tzcd",)
#: Columns of offsets, or of zones by names that mean one.
OWN_ZONE = ("tz", "timezone", "utcoffset", "gmtoffset", "zeitzone")
ZONES = {
    "UTC": 0, "GMT": 0, "AST": -4, "ADT": -3, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8,
    "PDT": -7, "AKST": -9, "AKDT": -8, "HST": -10, "HDT": -9, "SST": -11, "ChST": 10,
}  # fmt: skip
#: Zones behind times that mean one offset without doubt, in minutes. IST, BST, AST and CST are several.
OFFSETS = {
    zone: 60 * hours
    for hours, zones in (
        (0, "UTC GMT WET"), (1, "CET MEZ WEST"), (2, "CEST MESZ EET"), (3, "EEST"), (-4, "EDT"), (-5, "EST CDT"), (-6, "MDT"),
        (-7, "MST PDT"), (-8, "PST AKDT"), (-9, "AKST"), (-10, "HST"), (9, "JST"), (10, "AEST"), (11, "AEDT"), (12, "NZST"),
        (13, "NZDT"),
    )
    for zone in zones.split()
}  # fmt: skip
#: Columns that only count rows, what spreadsheets do not name, and loggers do; or milliseconds beside times.
COUNTERS = (*UNNAMED, "record", "recnbr", "ms")
#: And what may: it counts where its numbers follow one another. NO is a gas, too.
NUMBERED = ("no", "nr", "#", "row", "rownumber", "entryid", "recordid", "recordnumber", "rowid")
#: Columns in which HOBOware marks what happened to the logger.
EVENTS = frozenset(
    ("hostconnected", "endoffile", "couplerattached", "couplerdetached", "started", "stopped", "buttonup", "buttondown",
     "goodbattery", "badbattery", "newbattery")
)  # fmt: skip
POSITION = (*LATITUDE, *LONGITUDE, *ALTITUDE, *EAST, *NORTH)
#: Latitudes and longitudes by words with what they are of, and their unit: site_lat, lat_deg, longitude_wgs84.
OF_PLACE = re.compile(
    r"(?:site|station|stn|sensor|gps|geo|dec)?(lat|latitude|lon|long|lng|longitude)(?:deg|degrees|dd|dec|decimal|wgs84)?"
)
#: And altitudes: elevation_m, site_height_m, Höhe ü. M. A height alone may be that of a sensor above the ground.
OF_HEIGHT = re.compile(
    r"(?:site|station|stn)?(alt|altitude|elev|elevation)(?:m|masl|meters)?|(?:site|station)?height(?:m|masl)"
    r"|h(?:ö|oe)hem?(?:ü|ue|über|ueber)\.?(?:m|nn|nhn|meer)\.?"
)
#: Minutes of places, beside which degrees are whole.
OF_MINUTES = re.compile(r"(?:site|station)?(?:lat|lon|long|lng)(?:itude)?(?:m|min|minutes?)")
#: Words in names of columns that say what is read, by kind: columns of two kinds or more are of one station.
QUANTITIES = {
    "temperature": "temp temperature temperatur temperatuur temperatura tair ta t2m airt airtc atmp wtmp dewp dew tmp modtemp "
                   "pnt",
    "humidity": "rh hum humidity humedad umidità relhum humidite humidité vochtigheid feuchte luftfeuchte relh rh2m",
    "pressure": "pressure pa pres press baro barompres pression luchtdruk luftdruck mslp slp bar barometer ps",
    "wind": "wind ws wspd gst spd windspeed windspd vent viento windsnelheid ws2m ws10m",
    "direction": "dir wd wdir winddir direction richting",
    "snow": "snow swe",
    "rain": "rain rainfall precip prcp precipitation neerslag niederschlag pluie lluvia pioggia prectotcorr",
    "ozone": "o3 ozone ozon", "nitrogen oxides": "no no2 nox",
    "sulfur dioxide": "so2", "carbon monoxide": "co", "methane": "ch4",
    "fine particles": "pm2.5 pm25", "particles": "pm10 pm10.0",
    "carbon dioxide": "co2 fc nee", "radiation": "netrad ghi dni dhi ppfd swin global direct diffuse solar",
    "water": "cond ph turb do odo turbidity conductivity", "level": "stage discharge streamflow level",
    "electricity": "batt vdc idc vac wac battery",
}  # fmt: skip
#: Columns that name the kind of each reading of a long table.
KIND = (
    "parameter", "variable", "quantity", "element", "datatype", "measurand", "pollutant", "observedproperty", "parametername",
    "resultcharacteristic", "characteristicname", "airpollutant", "phenomenon", "codivariable", "elementid",
    "grootheidomschrijving",
)  # fmt: skip
#: Ends of names of numbers about readings, not readings: codes, counts of observations, indices of air quality.
ABOUT = ("code", "entryid", "recordid", "poc", "obscount", "percentcomplete", "aqivalue", "epoch", "cd")
#: What long tables carry beside time, station and value.
BESIDE = (*POSITION, *UNIT, *FLAG, *ZONE, "z", "depth")

#: Cells that mean that there is no reading, in lower case.
MISSING = frozenset(
    ("", "na", "n/a", "#n/a", "#na", "n.a.", "nan", "-nan", "null", "#null!", "none", "nil", "-", "--", "---", "missing",
     "mq", "m", "mm", "vrb", "nodata", "no data", "#value!", "#div/0!", "#num!",
     "<na>", "nat", "--:--", "unavailable", "unknown",
     "n.v.", "n.v.t.", "k.a.", "fehlt", "s/d", "sin dato", "nulo")  # German, Dutch, Spanish; "n.d." may be below detection
)  # fmt: skip

#: Numbers that by convention mean that there is no reading.
SENTINELS = (
    -99.0, -99.9, -99.99, -999.0, -999.9, -999.99, -9999.0, -9999.9, -9999.99, -99999.0, -32768.0,
    999.0, 999.9, 999.99, 9999.0, 9999.9, 9999.99, 99999.0, 32767.0, 999999999.0, 9.969209968386869e36, 1e20, -1e20,
)  # fmt: skip
#: Those of them that mean it even where they occur once.
UNMISTAKABLE = (-999.0, -999.9, -999.99, -9999.0, -9999.9, -9999.99, -99999.0, 999999999.0)


def plain(name: str) -> str:
    """A column name without case, spaces, hyphens, underscores and a unit in brackets."""
    return re.sub(r"[\s_\-]+", "", re.sub(r"[(\[][^)\]]*[)\]]\s*$", "", name)).lower()


def place_words(header: Sequence[str]) -> list[str]:
    """What the columns of a station table are, as :func:`plain` says it, or a place with its unit where one alone is.

    >>> place_words(["name", "lat_deg", "lng", "Elevation_m", "height"])
    ['name', 'lat', 'lng', 'elevation', 'height']
    """
    words = [plain(name) for name in header]
    if any(map(OF_MINUTES.fullmatch, words)):
        return words
    matches = [OF_PLACE.fullmatch(word) or OF_HEIGHT.fullmatch(word) for word in words]
    height = None if {*words} & {*TIME} else "altitude"  # beside times it may be that of waves
    meant = [(match and (match[1] or height)) or word for word, match in zip(words, matches, strict=True)]
    for role in (LATITUDE, LONGITUDE, ALTITUDE):
        which = [i for i, word in enumerate(meant) if word in role]
        if len(which) == 1:
            words[which[0]] = meant[which[0]]
    return words


def kinds_in(name: str) -> set[str]:
    """Kinds of quantities, of :data:`QUANTITIES`, that words of a name say."""
    known = {word: kind for kind, words in QUANTITIES.items() for word in words.split()}
    spelled = f"{name} " + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    words = re.split(r"[\s_\-]+", spelled.casefold())
    return {known[word] for word in (*words, *(w.rstrip("0123456789") for w in words)) if word in known}


BRACKETS = re.compile(r"\s*[(\[][^)\]]*[)\]]\s*$")
WHOLE = re.compile(r"0*(\d+)(?:\.0*)?", re.ASCII)


def match(
    columns: Sequence[str], stations: Sequence[str], notes: Notes, what: str = "column", *, merge: bool = False
) -> dict[str, str]:
    """Map columns to stations; other columns are noted, or refused. With ``merge``, one station may have many spellings."""
    known = {station.strip(): station for station in stations}
    matched = {column: known[column.strip()] for column in columns if column.strip() in known}
    taken = set(matched.values())
    forms: tuple[tuple[Callable[[str], str], str, bool], ...] = (
        (loose, "case, spaces or leading zeros", merge),
        (lambda name: loose(BRACKETS.sub("", name)), "a unit in brackets", False),
    )
    for form, ignored, spellings in forms:
        loose_stations = _unique((station for station in stations if spellings or station not in taken), form)
        others = [column for column in columns if column not in matched]
        if not spellings:
            others = list(_unique(others, form).values())
        close = {column: loose_stations[form(column)] for column in others if form(column) in loose_stations}
        if close:
            _refuse_units(close, notes)
            column, station = next(iter(close.items()))
            notes.guess(
                f"{count(len(close), f'{what} is', f'{what}s are')} matched with a station by ignoring {ignored}: "
                f"{column!r} is taken as {station!r}",
                "write the names as in the station table",
            )
            matched |= close
            taken |= set(close.values())
    if not matched and (matched := between(columns, stations, notes)):
        column, station = next(iter(matched.items()))
        notes.guess(
            f"{count(len(matched), f'{what} is', f'{what}s are')} matched with a station by what is between the same words: "
            f"{column!r} is taken as {station!r}",
            "write the names as in the station table",
        )
    unknown = [column for column in columns if column not in matched]
    if columns and not matched:
        raise NoReadings(
            f"{notes.source}: no {what} has a station's name; it has {listed(columns)}, but the stations are "
            f"{listed(stations)}: write them alike, or name their column: --station-column, or station= of a recipe."
        )
    if unknown:
        many = f"{count(len(unknown), f'{what} is', f'{what}s are')} not in the station table and left out: {listed(unknown)}"
        remedy = f"the {what}s must be the names in the station file"
        notes.guess(many, remedy, refusal=f"{what} {unknown[0]!r} is not a station")
    return matched


def _refuse_units(columns: Iterable[str], notes: Notes) -> None:
    """Refuse columns of stations with units in brackets that differ, however they are spelled."""
    units = {re.sub("deg|[° ]", "", unit.casefold()): column for column in columns if (unit := unit_in(column))}
    if len(units) > 1:
        first, second, *_ = units.values()
        raise InputError(
            f"{notes.source}: columns {first!r} and {second!r} have different units: write the readings of all stations in one."
        )


def between(columns: Sequence[str], stations: Sequence[str], notes: Notes) -> dict[str, str]:
    """Columns that have the names of two stations or more between the same words, as ``sensor.weir_temperature``.

    Those between several words, as of two quantities, are refused. Letters and digits are no words beside a name.
    """
    around: dict[tuple[str, str], dict[str, str]] = {}
    names = {station.strip().casefold(): station for station in stations}
    for column in columns:
        for name, station in names.items():
            before, here, after = column.casefold().partition(name)
            if here and name and not before[-1:].isalnum() and not after[:1].isalnum():
                around.setdefault((before, after), {})[column] = station
    several = [matched for matched in around.values() if len(matched) > 1]
    if len(several) > 1:
        one, other = (next(iter(matched)) for matched in several[:2])
        raise InputError(
            f"{notes.source}: stations have several columns each, such as {one!r} and {other!r}: pass a table per quantity, or "
            "one with the columns time, station and one per quantity."
        )
    return several[0] if several else {}


def absent(stations: Sequence[str], present: Iterable[str], notes: Notes, *, keep: bool, what: str = "column") -> list[str]:
    """The stations to use, in their order; those without a column are noted, and left out unless ``keep``."""
    names = set(present)
    missing = [station for station in stations if station not in names]
    if missing:
        number, end = len(missing), "taken as missing" if keep else "left out"
        notes.guess(
            f"{count(number, 'station has', 'stations have')} no {what} and {verb(number)} {end}: {listed(missing)}",
            f"the {what}s must be the names in the station file",
            refusal=f"no {what} for station {missing[0]!r}",
        )
    return list(stations) if keep else [station for station in stations if station in names]


def distinct(source: str, names: Sequence[str], what: str = "station", remedy: str = "keep one of its rows") -> None:
    """Refuse a list in which a name occurs twice."""
    twice = next((name for name, number in Counter(names).items() if number > 1), None)
    if twice is not None:
        raise InputError(f"{source}: {what} {twice!r} appears twice: {remedy}.")


def _unique(names: Iterable[str], form: Callable[[str], str]) -> dict[str, str]:
    """Names by their loose form, without those that share one."""
    by_form: dict[str, list[str]] = {}
    for name in names:
        by_form.setdefault(form(name), []).append(name)
    return {key: same[0] for key, same in by_form.items() if len(same) == 1}


def loose(name: str) -> str:
    """A name without differences of case, spaces and leading zeros."""
    spelled = re.sub(r"\s+", " ", name.strip()).casefold()
    number = WHOLE.fullmatch(spelled)
    return number[1] if number else spelled


def unit_in(name: str) -> str:
    """The unit in brackets at the end of a name; empty where what they hold is none, as ``(raw)``."""
    brackets = BRACKETS.search(name)
    text = DEGREES.sub(r"°\1", brackets.group().strip(" ()[]").removeprefix("in ").translate(ONE_SIGN)) if brackets else ""
    return text if UNIT_SIGN.search(text) or text.casefold() in SYMBOLS else ""
