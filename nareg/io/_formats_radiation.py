"""Files of radiation and reference networks of the United States: long tables of pandas, as in :mod:`._formats`."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from nareg.io._notes import as_numbers, count, tidy, without

if TYPE_CHECKING:
    import pandas as pd

SURFRAD = (
    "dw_solar", "uw_solar", "direct_n", "diffuse", "dw_ir", "dw_casetemp", "dw_dometemp", "uw_ir", "uw_casetemp", "uw_dometemp",
    "uvb", "par", "netsolar", "netir", "totalnet", "temp", "rh", "windspd", "winddir", "pressure",
)  # fmt: skip
SURFRAD_UNITS = {name: "W/m²" for name in SURFRAD[:15]} | {
    "dw_casetemp": "", "dw_dometemp": "", "uw_casetemp": "", "uw_dometemp": "", "uvb": "mW/m²",
    "temp": "°C", "rh": "%", "windspd": "m/s", "winddir": "°", "pressure": "hPa",
}  # fmt: skip
#: USCRN, five-minute and hourly lines: place of the value, missing, place of its flag, unit.
CRN = {
    "air temperature": (8, -9999.0, None, "°C"), "precipitation": (9, -9999.0, None, "mm"),
    "solar radiation": (10, -99999.0, 11, "W/m²"), "surface temperature": (12, -9999.0, 14, "°C"),
    "relative humidity": (15, -9999.0, 16, "%"), "soil moisture": (17, -99.0, None, "m³/m³"),
    "soil temperature": (18, -9999.0, None, "°C"), "wetness": (19, -9999.0, 20, "Ω"), "wind speed": (21, -99.0, 22, "m/s"),
}  # fmt: skip
#: Elements of Oregon's Solar Radiation Monitoring Laboratory, by the first three digits of their number.
SOLAR = {
    "100": "ghi",
    "201": "dni",
    "300": "dhi",
    "930": "temp_air",
    "933": "relative_humidity",
    "921": "wind_speed",
    "920": "wind_dir",
}


def read_surfrad(text: str, stem: str) -> pd.DataFrame:
    """NOAA's radiation network: name, place, then readings each with a flag. Its longitudes count west."""
    import pandas as pd

    name, place, rows = text.lstrip("\n").split("\n", 2)
    latitude, longitude, altitude = map(float, place.split()[:3])
    table = pd.read_csv(io.StringIO(rows), sep=r"\s+", header=None)
    time = pd.to_datetime(table[[0, 2, 3, 4, 5]].set_axis(["year", "month", "day", "hour", "minute"], axis=1), utc=True)
    base = {"station": name.strip(), "time": time, "latitude": latitude, "longitude": -abs(longitude), "altitude": altitude}
    base |= {quantity: table[8 + 2 * k].replace(-9999.9, np.nan) for k, quantity in enumerate(SURFRAD)}
    failed = without(base, {quantity: table[9 + 2 * k] == 1 for k, quantity in enumerate(SURFRAD)})
    return tidy(base, SURFRAD_UNITS, "longitudes of this format count west", failed=failed, why="with flag 1 (bad)")


def read_reference_network(text: str, stem: str) -> pd.DataFrame:
    """A five-minute file of the U.S. Climate Reference Network."""
    import pandas as pd

    rows = [line.split() for line in text.split("\n") if line.strip()]
    odd = sum(len(row) != 23 for row in rows)
    table = pd.DataFrame([row for row in rows if len(row) == 23])
    time = pd.to_datetime(table[1] + table[2], format="%Y%m%d%H%M", utc=True)
    base = {"station": table[0], "time": time, "latitude": as_numbers(table[7]), "longitude": as_numbers(table[6])}
    for name, (place, missing, _, _) in CRN.items():
        base[name] = as_numbers(table[place]).astype(float).replace(missing, np.nan)
    failed = without(base, {name: table[flag] != "0" for name, (_, _, flag, _) in CRN.items() if flag is not None})
    units = {name: unit for name, (*_, unit) in CRN.items()}
    lost = f"{count(odd, 'line')} without 23 cells {'is' if odd == 1 else 'are'} left out" if odd else ""
    return tidy(base, units, lost, failed=failed, why="with a flag other than 0")


def read_solar_laboratory(text: str, stem: str) -> pd.DataFrame:
    """SRML: day of the year and HHMM, then elements by their numbers, each with a flag; 99 is missing."""
    import pandas as pd

    head, rows = text.lstrip("\n").split("\n", 1)
    station, year, *elements = head.split()
    table = pd.read_csv(io.StringIO(rows), sep=r"\s+", header=None)
    minutes = table[1] // 100 * 60 + table[1] % 100  # 2400 is the midnight that ends the day
    time = pd.Timestamp(f"{year}-01-01") + pd.to_timedelta(table[0] - 1, "D") + pd.to_timedelta(minutes, "min")
    base: dict[str, Any] = {"station": station, "time": time}
    bad = {}
    for k, element in enumerate(elements[::2]):
        known = SOLAR.get(element[:3])
        name = f"{known}_{element[3]}" if known else element
        base[name], bad[name] = table[2 + 2 * k], table[3 + 2 * k] == 99
    return tidy(base, {}, "times are local standard time", failed=without(base, bad), why="with flag 99")
