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


def test_isd_lite(tmp_path):
    """It was refused. Tenths, -9999, calm (0) and traces of rain (-1) are what NOAA says; times are UTC."""
    path = tmp_path / "725300-94846-2019"
    path.write_text(
        "2019 01 01 00    28   -17 10142   360    15     8 -9999    -1\n"
        "2019 01 01 03   -11 -9999 10150     0     0 -9999     5    12\n"
    )
    seen = io.inspect(path)
    expected = {
        "temperature": [2.8, -1.1], "dew point": [-1.7, np.nan], "pressure": [1014.2, 1015.0],
        "wind direction": [360, np.nan], "wind speed": [1.5, 0], "precipitation of 1 h": [np.nan, 0.5],
        "precipitation of 6 h": [0, 1.2],
    }  # fmt: skip
    assert list(seen.quantities.index) == [*expected]
    assert list(seen.quantities["unit"]) == ["°C", "°C", "hPa", "°", "m/s", "mm", "mm"]
    for name, values in expected.items():
        read = io.read_readings(path, recipe=Recipe(value=name))
        assert (read.names, read.zone) == (("725300-94846",), "UTC")
        np.testing.assert_array_equal(read.values, [values])
    assert [str(t)[:13] for t in seen.times] == ["2019-01-01T00", "2019-01-01T03"]
    assert any("1 trace of precipitation (-1) taken as 0" in note for note in seen.notes)


METEOSTAT = "date,hour,temp,dwpt,rhum,prcp,snow,wdir,wspd,wpgt,pres,tsun,coco"
IMGW = "code,station,year,month,day,tmax,tmax_qc,snow,snow_qc"


@pytest.mark.parametrize(
    ("header", "name", "row", "quantity"),
    [
        (METEOSTAT, "{}.csv", "2024-05-01,{1},{2},1.5,80,0.0,,210,11.2,,1013.2,,", "temp"),
        (IMGW, "k_d.csv", '249190560,"{0}","2024","05","{1:02}",{2},"",0,""', "tmax"),
        ("year,month,day,hour,A b,B", "{}.txt", "2024 05  01 {1:02}  {2}  {2}", None),
        ("time,A", "{}.csv", "2024-05-01 {1:02}:00;{2},5;", None),
    ],
)
def test_names_of_columns_of_a_file_without_a_header(tmp_path, header, name, row, quantity):
    """Such files were refused with a remedy by hand alone. The names go to every command by the recipe."""
    for station in ("S37", "S59"):
        with open(tmp_path / name.format(station), "a") as file:
            file.writelines(row.format(station, hour, hour + int(station[1:])) + "\n" for hour in HOURS)
    paths = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"--header \(header= of a recipe\)"):
        io.read_readings(paths[0], recipe=Recipe(value=quantity))
    recipe = io.inspect(paths[0], recipe=Recipe(header=header, value=quantity)).recipe
    recipe.save(tmp_path / "recipe.toml")
    recipe = Recipe.load(tmp_path / "recipe.toml")
    table = io.read_readings(paths[0], recipe=recipe)
    half = 0.5 if header == "time,A" else 0
    np.testing.assert_array_equal(table.values[0], [hour + 37 + half for hour in HOURS])
    assert len(table.timestamps) == len(HOURS)
    assert len(paths) == 1 or io.alike(*paths)
    with pytest.raises(InputError, match=r"line 1: \d+ cells, but header names 1 column \('time'\): name each"):
        io.read_readings(paths[0], recipe=Recipe(header="time"))


def test_lines_of_a_file_without_a_header_keep_their_numbers(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("# by hand\n2024-05-01 00:00,1,2\n2024-05-01 01:00,1,x9\n")
    with pytest.raises(InputError, match="line 3, column 'B'"):
        io.read_readings(path, recipe=Recipe(header="time,A,B"))
    (tmp_path / "s.csv").write_text("station,lat,lon\nA,48,11\nB,48.1,11\n")  # keeps its own
    assert io.read_stations(tmp_path / "s.csv", recipe=Recipe(header="time,A,B")).names == ("A", "B")


def test_three_headers_of_japan(tmp_path):
    """They were refused: stations, quantities and what stands beside them; JMA's quality 2 is questionable, 8 normal."""
    each = ",気温(℃),気温(℃),気温(℃),風速(m/s),風速(m/s),風速(m/s),風速(m/s)"
    text = [
        "ダウンロードした時刻：2024/06/01 10:00:00", "", "," + ",".join(["東京"] * 7 + ["横浜"] * 7),
        "年月日時" + each[:1] + ",".join([each[1:]] * 2), "," + ",".join([",,,,,風向,風向"] * 2),
        "," + ",".join([",品質情報,均質番号,,品質情報,,品質情報"] * 2),
        *(f"2024/5/1 {h}:00:00,{h}.5,{2 if h == 3 else 8},1,{h}.25,8,北,8,{h},8,1,{h + 1},8,南,8" for h in HOURS),
    ]  # fmt: skip
    path = tmp_path / "data.csv"
    path.write_bytes("\n".join(text).encode("cp932"))
    seen = io.inspect(path)
    assert [*seen.quantities.index[:2]] == ["気温(℃)", "風速(m/s)"]
    assert [*seen.quantities["unit"][:2]] == ["°C", "m/s"]
    air, wind = (io.read_readings(path, recipe=Recipe(value=name)) for name in seen.quantities.index[:2])
    assert air.names == ("東京", "横浜")
    np.testing.assert_array_equal(air.values, [[np.nan if h == 3 else h + 0.5 for h in HOURS], HOURS])
    np.testing.assert_array_equal(wind.values, [[h + 0.25 for h in HOURS], [h + 1 for h in HOURS]])
    assert any("columns that the last header calls '均質番号' are left out" in note for note in seen.notes)
