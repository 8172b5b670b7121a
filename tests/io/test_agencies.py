"""Files of agencies as they publish them: a few rows of each, which need no option but the quantity."""

from __future__ import annotations

import numpy as np
import pytest

from nareg import io
from nareg.errors import InputError
from nareg.io import Recipe

HOURS = range(1, 24)
AQS = (
    '"State Code","County Code","Site Num","Latitude","Longitude","Parameter Name","Date Local","Time Local","Date GMT",'
    '"Time GMT","Sample Measurement","Units of Measure"\n'
)
EEA = "Countrycode,AirQualityStation,AirQualityStationEoICode,AirPollutant,Concentration,DatetimeBegin,Validity,Verification\n"
KNMI = "# Vrij te gebruiken.\n#\n# T : temperatuur\n#\n# STN,YYYYMMDD,   HH,    T,    U\n\n"
SMHI = (
    "Stationsnamn;Stationsnummer\nAbisko;188790\n\nParameternamn;Enhet\nLufttemperatur;celsius\n\n"
    "Datum;Tid (UTC);Lufttemperatur;Kvalitet;;Tidsutsnitt:\n"
)
BADC = (
    'Conventions,G,BADC-CSV,1\nlocation,G,52.1,-1.2,m\nlong_name,T,"Air",degC\nlong_name,ob_time,"Time",\ndata\nob_time,id,T\n'
)
#: What is read, the file's beginning, and a row by the station's number, the hour and the reading.
FILES = {
    "AQS": ("Ozone", AQS, lambda s, h, y: f'"06","{s}","0002",34.{s},-118.{s},"Ozone","2024-04-30","{h:02}:00",'
                                          f'"2024-05-01","{h:02}:00",{y},"ppm"'),
    "EEA": ("PM10", EEA, lambda s, h, y: f"DE,STA{s},DE{s},PM10,{y},2024-05-01 {h:02}:00:00 +00:00,1,1"),
    "KNMI": ("T", KNMI, lambda s, h, y: f"  {s},20240501,{h:5},{y:5},   80"),
    "DWD": ("TT_TU", "STATIONS_ID;MESS_DATUM;QN_9;TT_TU;RF_TU;eor\n",
            lambda s, h, y: f"{s:>11};20240501{h:02};    3;{y:7.1f};   80.0;eor"),
    "Météo-France": ("T", "NUM_POSTE;NOM_USUEL;LAT;LON;ALTI;AAAAMMJJHH;RR1;QRR1;T;QT\n",
                     lambda s, h, y: f"{s};P {s};48.{s};2.{s};100;20240501{h:02};0.0;1;{y};1"),
    "Hub'Eau": ("resultat_obs", "code_station;libelle_station;longitude;latitude;date_obs;resultat_obs;grandeur_hydro\n",
                lambda s, h, y: f"{s};La Seine;2.{s};48.{s};2024-05-01T{h:02}:00:00Z;{y};H"),
    "SMHI": ("Lufttemperatur", SMHI, lambda s, h, y: f"2024-05-01;{h:02}:00:00;{y};G;;"),
    "CO-OPS": ("water level", "Date Time, Water Level, Sigma, O or I (for verified), F, R, L, Quality \n",
               lambda s, h, y: f"2024-05-01 {h:02}:00,{y},0.012,0,0,0,0,p"),
    "BADC": ("T", BADC, lambda s, h, y: f"2024-05-01 {h:02}:00:00,{s},{y}"),
}  # fmt: skip
#: Of one station each.
ALONE = ("SMHI", "CO-OPS", "BADC")


@pytest.mark.parametrize("agency", FILES)
def test_its_file_is_read_without_an_option(tmp_path, agency):
    quantity, text, row = FILES[agency]
    stations = (37,) if agency in ALONE else (37, 59)
    rows = [row(station, hour, station * 10 + hour) for station in stations for hour in HOURS]
    path = tmp_path / "f.csv"
    path.write_text(text + "\n".join(rows) + "\n" + ("end data\n" if agency == "BADC" else ""), encoding="utf-8")
    several = len(io.inspect(path).quantities) > 1
    table = io.read_readings(path, recipe=Recipe(value=quantity) if several else None)
    np.testing.assert_array_equal(table.values, [[station * 10 + hour for hour in HOURS] for station in stations])
    start = np.datetime64("2024-05-01", "ns")
    np.testing.assert_array_equal(table.timestamps, [start + np.timedelta64(hour, "h") for hour in HOURS])
    if agency in ("AQS", "Météo-France", "Hub'Eau"):
        assert io.inspect(path).placed.coordinates.shape == (2, 2)


def test_a_file_without_a_header_is_refused(tmp_path):
    """Its first row was taken as names of stations, and the readings of each day averaged."""
    path = tmp_path / "r.csv"
    path.write_text("".join(f"2024-05-01,{h},{h}.5,80\n" for h in HOURS))
    with pytest.raises(InputError, match=r"the first line is a row of readings .*: write a header above it"):
        io.read_readings(path)
