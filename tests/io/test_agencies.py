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
    "SMHI": ("Lufttemperatur", SMHI, lambda s, h, y: f"2024-05-01;{h:02}:00:00;{y};G;;" + "Remarks" * (h == 0)),
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
    path.write_text("time,101,102\n2024-05-01 00:00,1,2\n2024-05-01 01:00,1,2\n")
    assert io.read_readings(path, recipe=Recipe(header="station,lat,lon,alt")).names == ("101", "102")
    path.write_text("2024-05-01 00:00\t1\t\n2024-05-01 01:00\t1\t2\n")
    assert io.read_readings(path, recipe=Recipe(header="time,A,B")).names == ("A", "B")


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


def of_two(row, stations=("S37", "S59"), hours=HOURS):
    """Rows by station's name and number, hour and reading, as of FILES."""
    return "".join(row(name, int(name[-2:]), h, int(name[-2:]) * 10 + h) + "\n" for name in stations for h in hours)


#: What was misread or refused, by agency: what is read and by which name, the file's beginning, a row, and its end.
MISREAD = {
    "numbers of rows, and codes of what is read (Catalonia)": (
        "32", "ID,CODI_ESTACIO,CODI_VARIABLE,DATA_LECTURA,DATA_EXTREM,VALOR_LECTURA,CODI_ESTAT\n",
        lambda n, s, h, y: "\n".join(f"{n}{v}{h:02},{n},{v},2024-05-01 {h:02}:00,,{y + v - 32},V" for v in (32, 33)), "",
    ),
    "a colon behind the date, a zone in its name (New Zealand)": (
        None, "Station information:\nName,Agent,Number,Height\nS37,1,2,4\n\nTemperature\nStation,Date(UTC),Temperature(C)\n",
        lambda n, s, h, y: f"{n},20240501:{h:02}00,{y}", "",
    ),
    "a word without a separator below (Norway)": (
        None, "Navn;Stasjon;Tid(UTC);Lufttemperatur\n", lambda n, s, h, y: f"Oslo - By;{n};01.05.2024 {h:02}:00;{y},0",
        "Data er gyldig per 01.02.2024 (CC BY 4.0), Meteorologisk institutt (MET);;;\n",
    ),
    "the middle of the year in front": ("v", "date,hour,station,v\n", lambda n, s, h, y: f"01052024,{h},{n},{y}", ""),
    "nothing beside the name and the value but marks and dates (England)": (
        None, "measure,dateTime,date,value,completeness,quality,qcode\n",
        lambda n, s, h, y: f"{n},2024-05-01T{h:02}:00:00,2024-05-01,{y},,Good,", "",
    ),
    "a kind, and other numbers (Norway's Frost)": (
        "air_temperature", "sourceId,referenceTime,elementId,value,timeSeriesId,level\n",
        lambda n, s, h, y: f"{n},2024-05-01T{h:02}:00Z,air_temperature,{y},0,2\n{n},2024-05-01T{h:02}:00Z,wind_speed,1,0,2", "",
    ),
    "codes of validity (EEA)": (
        None, "Samplingpoint,Pollutant,Start,End,Value,Unit,Validity\n",
        lambda n, s, h, y: f"{n},8,2024-05-01 {h:02}:00:00,2024-05-01 {h:02}:59:00,{y},ug.m-3,1\n"
                           f"{n},8,2024-05-02 {h:02}:00:00,2024-05-02 {h:02}:59:00,{y + 500},ug.m-3,-1", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MISREAD)
def test_what_was_misread_or_refused(tmp_path, what):
    quantity, text, row, end = MISREAD[what]
    path = tmp_path / "f.csv"
    if what.startswith("the middle"):  # a day above 12 shows the order
        end = "13052024,0,S37,370\n13052024,0,S59,590\n"
    path.write_text(text + of_two(row) + end)
    recipe = Recipe(value=quantity, time=("date", "hour") if what.startswith("the middle") else ())
    table = io.read_readings(path, recipe=recipe)
    assert table.names == ("S37", "S59")
    start = np.datetime64("2024-05-01", "ns")
    np.testing.assert_array_equal(table.timestamps[: len(HOURS)], [start + np.timedelta64(h, "h") for h in HOURS])
    np.testing.assert_array_equal(table.values[:, : len(HOURS)], [[s * 10 + h for h in HOURS] for s in (37, 59)])
    assert not np.isfinite(table.values[:, len(HOURS) :]).any() or end
    assert quantity is None or what.startswith("the middle") or quantity in io.inspect(path).quantities.index


def test_files_of_gauges_are_not_averaged_for_an_empty_column(tmp_path):
    """Two rivers of the GRDC were one station 'Value', beside a station 'hh:mm'."""
    for k in (1, 2):
        rows = "".join(f"2024-05-{d:02};--:--;{k * 10 + d}.5\n" for d in range(1, 20))
        head = f"# Station:   REES {k}\n# Latitude (DD):  51.{k}\n# Longitude (DD): 6.3\n# DATA\nYYYY-MM-DD;hh:mm; Value\n"
        (tmp_path / f"{k}_Q_Day.txt").write_text(head + rows)
    paths = sorted(tmp_path.iterdir())
    table = io.read_readings(paths)
    assert table.names == ("REES 1", "REES 2")
    np.testing.assert_array_equal(table.values, [[k * 10 + d + 0.5 for d in range(1, 20)] for k in (1, 2)])
    np.testing.assert_array_equal(io.inspect(paths).placed.coordinates, [[51.1, 6.3], [51.2, 6.3]])


def test_columns_of_different_units_are_no_stations(tmp_path):
    """Rain and temperature of Mexico's stations were four stations; NULO is missing, Ip (Spain) a trace of rain."""
    rows = "".join(f"2024-05-{d:02}\t{'Ip' if d == 3 else 0}\t{'NULO' if d == 4 else 2}\t{d}\n" for d in range(1, 20))
    head = "ESTACION  : 9048\nLATITUD   : 19.404 Grados\nLONGITUD  : -99.196 Grados\n\n"
    head += "FECHA\tPRECIP\tEVAP\tTMAX\n\t(MM)\t(MM)\t(C)\n"
    path = tmp_path / "dia.txt"
    path.write_text(head + rows)
    seen = io.inspect(path)
    assert list(seen.quantities.index) == ["PRECIP", "EVAP", "TMAX"]
    assert list(seen.quantities["readings"]) == [19, 18, 19]
    assert (seen.stations, seen.placed.names) == (("9048",), ("9048",))


def test_altitudes_in_feet_are_no_meters(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("station,lat,lon,Elevation (ft)\nA,48,11,1000\nB,48.1,11,\n")
    np.testing.assert_array_equal(io.read_stations(path).altitude, [304.8, np.nan])
    head = "# LATITUDE: 40.5\n# LONGITUDE: -111.9\n# ELEVATION [ft]: 4226\nStation_ID,Date_Time,temp\n"
    path.write_text(head + "".join(f"K,2024-05-01 {h:02}:00,{h}\n" for h in HOURS))
    placed = io.inspect(path).placed
    assert (placed.names, placed.altitude) == (("K",), None)


def test_decimal_commas_in_records(tmp_path):
    """Of a Spanish answer the direction alone was read, the only one without a comma."""
    records = [
        f'{{"fecha": "2024-05-{d:02}", "indicativo": "{s}", "tmed": "{d},5", "dir": "25"}}' for d in range(1, 20) for s in "AB"
    ]
    path = tmp_path / "f.json"
    path.write_text(f"[{', '.join(records)}]")
    assert list(io.inspect(path).quantities.index) == ["tmed", "dir"]
    table = io.read_readings(path, recipe=Recipe(value="tmed"))
    np.testing.assert_array_equal(table.values, [[d + 0.5 for d in range(1, 20)]] * 2)
    assert any("numbers of 'tmed' such as '1,5' are read with a decimal comma" in note for note in table.notes)


@pytest.mark.parametrize("code", [-999.99, 999999999])
def test_one_unmistakable_code(tmp_path, code):
    path = tmp_path / "f.csv"
    path.write_text("time,A\n" + "".join(f"2024-05-01 {h:02}:00,{code if h == 5 else h}\n" for h in HOURS))
    np.testing.assert_array_equal(io.read_readings(path).values, [[np.nan if h == 5 else h for h in HOURS]])


def test_a_quoted_comma_in_a_title(tmp_path):
    path = tmp_path / "f.csv"
    head = 'CENTRAL BOARD,,,\nStation,"Anand Vihar, Delhi - DPCC",,\nFrom Date,To Date,PM2.5 (ug/m3),PM10 (ug/m3)\n'
    path.write_text(head + "".join(f"13-05-2024 {h:02}:00,13-05-2024 {h + 1:02}:00,{h},{h + 9}\n" for h in HOURS))
    np.testing.assert_array_equal(io.read_readings(path, recipe=Recipe(value="PM10")).values, [[h + 9 for h in HOURS]])


@pytest.mark.parametrize("series", [("149640", "69928"), ("149640", "149640")])
def test_a_table_per_site_of_the_survey(tmp_path, series):
    """The header of the second site was refused, as a reading."""
    text = ["# Some of the data"]
    for site, own in zip(("05587450", "05587498"), series, strict=True):
        text += [f"# Data for {site}", f"agency_cd\tsite_no\tdatetime\ttz_cd\t{own}_00065\t{own}_00065_cd\t7{own}_00010"]
        text += ["5s\t15s\t20d\t6s\t14n\t10s\t14n"]
        text += [f"USGS\t{site}\t2024-05-01 {h:02}:00\tCST\t{h}.{site[-1]}\tP\t4" for h in HOURS]
    path = tmp_path / "sites.rdb"
    path.write_text("\n".join(text))
    assert {*io.inspect(path).quantities.index} == {"00065", "00010"}
    table = io.read_readings(path, recipe=Recipe(value="00065"))
    assert (table.names, table.zone) == (("05587450", "05587498"), "UTC")
    np.testing.assert_allclose(table.values, [[h for h in HOURS], [h + 0.8 for h in HOURS]])
    path.write_text("\n".join(text).replace("22.8", "22.8x9"))
    with pytest.raises(InputError, match="line 52, column '00065'"):
        io.read_readings(path, recipe=Recipe(value="00065"))


def test_quantities_in_rows_beside_a_column_per_station(tmp_path):
    """The words of China's column type were the stations, and the stations quantities."""
    rows = [f"20240501,{h},{kind},{h + add},,{h + add + 20}" for h in HOURS for kind, add in (("PM2.5", 0), ("NO2", 200))]
    path = tmp_path / "china.csv"
    path.write_text("\n".join(["date,hour,type,1001A,1002A,1003A", *rows]))
    assert list(io.inspect(path).quantities.index) == ["PM2.5", "NO2"]
    table = io.read_readings(path, recipe=Recipe(value="NO2"))
    assert (table.names, table.quantity) == (("1001A", "1002A", "1003A"), "NO2")
    np.testing.assert_array_equal(table.values[[0, 2]], [[h + 200 for h in HOURS], [h + 220 for h in HOURS]])
    assert str(table.timestamps[0])[:16] == "2024-05-01T01:00"


def test_dates_in_apostrophes(tmp_path):
    """They were no times, in files of Germany's environment agency."""
    text = "Stationscode;Datum;Uhrzeit;Messwert (in µg/m³)\n"
    path = tmp_path / "uba.csv"
    path.write_text(text + of_two(lambda n, s, h, y: f"{n};'13.05.2024';'{h:02}:00';{y}"))
    table = io.read_readings(path, recipe=Recipe(station="Stationscode"))
    np.testing.assert_array_equal(table.values, [[s * 10 + h for h in HOURS] for s in (37, 59)])
    assert (str(table.timestamps[0])[:16], table.unit) == ("2024-05-13T01:00", "µg/m³")


@pytest.mark.parametrize(
    ("header", "cells", "quantities"),
    [
        ("time,tempMean,tempMinimum,tempMaximum,tempNumPts,finalQF", "{h},{h},{h},1800,0", 4),  # NEON
        ("YEAR,MO,DY,HR,T2M,RH2M", "{h},{h}", 2),  # NASA's POWER
        ("Datum/Zeit,O3 [ug/m3],NO2 [ug/m3]", "{h},{h}", 2),  # NABEL
    ],
)
def test_quantities_that_were_stations(tmp_path, header, cells, quantities):
    path = tmp_path / "f.csv"
    time = "2024,5,13,{h}" if header.startswith("YEAR") else "2024-05-13 {h:02}:00"
    path.write_text(header + "\n" + "".join(f"{time},{cells}\n".format(h=h) for h in HOURS))
    seen = io.inspect(path)
    assert (seen.stations, len(seen.quantities)) == (("f",), quantities)


def test_a_column_of_marks_names_no_stations(tmp_path):
    """Bavaria's levels were of a station 'raw data'."""
    path = tmp_path / "f.csv"
    head = 'Quelle:;"LfU"\nMessstellen-Name:;"München"\nMessstellen-Nr.:;16005701\n\nDatum;"Wasserstand [cm]";"Prüfstatus"\n'
    path.write_text(head + "".join(f'2024-05-13 {h:02}:00;"{h},5";Rohdaten\n' for h in HOURS))
    table = io.read_readings(path)
    assert (table.names, table.unit) == (("München",), "cm")
    np.testing.assert_array_equal(table.values, [[h + 0.5 for h in HOURS]])


def test_explanations_below_the_rows(tmp_path):
    """PVGIS explains its columns, with commas."""
    path = tmp_path / "f.csv"
    end = "\n\nP: PV system power (W)\nT2m: 2-m air temperature (degree)\n\nPVGIS (c) European Union, 2001-2024\n"
    path.write_text("time,P,T2m,WS10m,Int\n" + "".join(f"20240513:{h:02}10,{h},{h},2.0,0.0\n" for h in HOURS) + end)
    np.testing.assert_array_equal(io.read_readings(path, recipe=Recipe(value="T2m")).values, [[*HOURS]])


def test_a_station_in_many_rows_of_year_month_and_day(tmp_path):
    """GHCNh was refused as a table of stations, one of which appears twice."""
    path = tmp_path / "f.psv"
    head = "Station_ID|Year|Month|Day|Hour|Minute|Latitude|Longitude|temperature\n"
    path.write_text(head + of_two(lambda n, s, h, y: f"{n}|2024|05|13|{h:02}|51|41.{s}|-87.9|{y}"))
    seen = io.inspect(path)
    assert (seen.placed.names, list(seen.quantities.index)) == (("S37", "S59"), ["temperature"])
    assert str(seen.times[0])[:16] == "2024-05-13T01:51"


@pytest.mark.parametrize("clock", ["HE", "Hour Ending", "Std."])
def test_the_hours_of_dates_are_not_averaged(tmp_path, clock):
    """Beside dates, 'HE' was a station, and the day's 24 readings of the others their mean."""
    path = tmp_path / "f.csv"
    path.write_text(f"Date,{clock},A,B\n" + "".join(f"2024-05-{d},{h},{d + h},{h}\n" for d in (13, 14) for h in range(1, 25)))
    if clock != "Hour Ending":
        with pytest.raises(InputError, match="if a column has the rest of the time, by --time-column"):
            io.read_readings(path)
    table = io.read_readings(path, recipe=None if clock == "Hour Ending" else Recipe(time=("Date", clock)))
    assert table.names == ("A", "B")
    np.testing.assert_array_equal(table.values[0], [d + h for d in (13, 14) for h in range(1, 25)])
    assert [str(table.timestamps[k])[:16] for k in (0, 23)] == ["2024-05-13T01:00", "2024-05-14T00:00"]


@pytest.mark.parametrize("names", [[f"{h:02}:00" for h in range(24)], [f"H{h}" for h in range(1, 25)]])
@pytest.mark.parametrize("station", ["", "A,"])
@pytest.mark.parametrize("clock", ["", " 00:00:00"])
def test_a_column_per_hour_is_refused(tmp_path, names, station, clock):
    """They were 24 stations, or quantities. H1 to H24 may be wells."""
    path = tmp_path / "f.csv"
    rows = [f"{station}2024-05-{d}{clock},{','.join(map(str, range(24)))}" for d in range(11, 31)]
    path.write_text("\n".join([f"{'station,' if station else ''}Date,{','.join(names)}", *rows]))
    if "H1" in names and not station:
        assert io.read_readings(path).names == (*names,)
        return
    for read in (io.read_readings, io.inspect):
        with pytest.raises(InputError, match=r"has a column per hour of the day .*: write one row per hour"):
            read(path)


def test_a_column_per_month_by_its_number_is_refused(tmp_path):
    path = tmp_path / "f.csv"
    for months in ([*range(1, 13)], [11, 12, *range(1, 11)]):  # of hydrological years, too
        header = "Year," + ",".join(map(str, months))
        path.write_text("\n".join([header, *(f"{y}{',5' * 12}" for y in range(1990, 2000))]))
        with pytest.raises(InputError, match="has a column per month"):
            io.read_readings(path)


def test_universal_times_go_before_local_ones_and_dates_with_colons(tmp_path):
    path = tmp_path / "f.csv"
    rows = "".join(f"2024-05-13 {h:02}:30,2024-05-13 {h - 1:02}:30,{h}\n" for h in HOURS)
    path.write_text("start_local,start_utc,A\n" + rows)
    table = io.read_readings(path)
    assert (str(table.timestamps[0])[:16], table.zone) == ("2024-05-13T00:30", "UTC")
    path.write_text("Date(dd:mm:yyyy),Time(hh:mm:ss),A,B\n" + "".join(f"13:05:2024,{h:02}:00:00,{h},{h}\n" for h in HOURS))
    assert str(io.read_readings(path).timestamps[0])[:16] == "2024-05-13T01:00"  # AERONET
    path.write_text(" SOUID,    DATE,   TG, Q_TG\n" + "".join(f" 35381,202405{d},  {d},    0\n" for d in range(11, 31)))
    table = io.read_readings(path)  # ECA&D: the source and the mark were stations
    assert (table.names, table.quantity) == (("35381",), "TG")


def test_stations_numbered_to_24_are_no_hours(tmp_path):
    path = tmp_path / "f.csv"
    numbers = [*map(str, range(1, 25))]
    path.write_text("\n".join(["Date," + ",".join(numbers), *(f"2024-05-{d}{',5' * 24}" for d in range(11, 31))]))
    assert io.read_readings(path).names == (*numbers,)


@pytest.mark.parametrize(
    ("first", "header", "value"),
    [
        ("2024-05-01 00:00,ERR,1\n", "time,A,B", np.nan),
        ("2024-05-01 00:00,<0.5,1\n", "time,A,B", 0.5),
        ("1714521600,ERR,1\n", "time,A,B", np.nan),
        ("sep=;\n2024-05-01 00:00;0.25;1\n", "time,A,B", 0.25),
        ("2024-05-01 00:00 0,25 1,0\n", "date,time,A,B", 0.25),
    ],
)
def test_first_rows_that_looked_like_headers(tmp_path, first, header, value):
    """They were taken as one, and refused with --header as the remedy."""
    mark = ";" if "sep" in first else " " if "0,25" in first else ","
    time = "171452{}".format if first[0] == "1" else "2024-05-01 {:02}:00".format
    rows = [mark.join([str(time(1600 + 600 * h if first[0] == "1" else h)), str(h), str(h)]) for h in range(1, 10)]
    path = tmp_path / "f.csv"
    path.write_text(first + "\n".join(rows))
    table = io.read_readings(path, recipe=Recipe(header=header, missing=("ERR",)))
    assert table.names == ("A", "B")
    np.testing.assert_array_equal(table.values, [[value, *range(1, 10)], [1, *range(1, 10)]])


@pytest.mark.parametrize("names", ["begin,end (UTC)", "measured,received UTC", "day,installed_gmt"])
def test_universal_times_of_something_else_are_left_alone(tmp_path, names):
    """The end was read, when it was received, or all rows were averaged at one date."""
    path = tmp_path / "f.csv"
    path.write_text(f"{names},A,B\n" + "".join(f"2024-05-{d} 00:00,2020-01-01 00:0{d % 3},{d},{d}\n" for d in range(11, 30)))
    assert str(io.read_readings(path).timestamps[0])[:10] == "2024-05-11"
    path.write_text(
        "start_local,start_utc,A\n" + "".join(f"2024-05-13 {h:02}:00,2024-05-13 {h - 1:02}:00,{h}\n" for h in HOURS)
    )
    table = io.read_readings(path, recipe=Recipe(zone="+02:00"))  # which was refused
    assert str(table.timestamps[0])[:16] == "2024-05-12T23:00"
    path.write_text(path.read_text() + "2024-05-13 23:00,,23\n")  # which refused the row
    assert str(io.read_readings(path).timestamps[-1])[:16] == "2024-05-13T23:00"


def test_hours_of_dates_without_a_clock_are_averaged(tmp_path):
    """Readings without the hour were refused for a column that is not there; those of 31012024 with one were averaged."""
    path = tmp_path / "f.csv"
    path.write_text("date,A,B\n" + "".join(f"2024-05-{d},{d + h * 7 % 24},{h % 5}.5\n" for d in (13, 14) for h in range(24)))
    np.testing.assert_array_equal(io.read_readings(path).values[0], [24.5, 25.5])
    path.write_text("date,hour,A,B\n" + "".join(f"{d}012024,{h},{h % 7},2\n" for d in range(11, 31) for h in range(24)))
    with pytest.raises(InputError, match="if a column has the rest of the time, by --time-column"):
        io.read_readings(path)
    assert io.read_readings(path, recipe=Recipe(time=("date", "hour"))).values.shape == (2, 480)


def test_commas_between_thousands_are_no_decimal_ones_in_records(tmp_path):
    """1,250 beside 980.5 was read as 1.25."""
    path = tmp_path / "f.json"
    for cells in (("1,250", "980.5"), ("1,250", "1,125")):
        rows = [f'{{"time": "2024-05-{d}", "station": "A", "v": "{cells[d % 2]}", "w": {d}}}' for d in range(11, 30)]
        path.write_text(f"[{', '.join(rows)}]")
        assert [*io.inspect(path).quantities.index] == ["w"]


def test_spaces_between_numbers_make_no_isd_lite(tmp_path):
    """Twelve numbers of any file were read as its tenths of degrees."""
    path = tmp_path / "f.txt"
    path.write_text("".join(f"2024 05 01 {h:02} 1 2 3 4 5 6 7 8\n" for h in HOURS))
    with pytest.raises(InputError, match="separated by spaces"):
        io.read_readings(path)


def test_years_and_months_of_stations_are_no_times(tmp_path):
    """A station that is there twice was taken where the year and month of its begin stand beside it."""
    path = tmp_path / "s.csv"
    path.write_text("name,lat,lon,year,month\nA,48,11,2010,1\nB,48.1,11,2011,2\nA,48,11,2015,3\n")
    with pytest.raises(InputError, match="'A' appears twice"):
        io.read_stations(path)


def test_what_every_column_has_in_the_last_header_is_read(tmp_path):
    """All columns were left out for it, and the table refused with an option that it does not take."""
    path = tmp_path / "f.csv"
    rows = "".join(f"2024-05-13 {h:02}:00,{h},{h + 9},{h + 1},{h + 8}\n" for h in HOURS)
    path.write_text(",A,A,B,B\ntime,temp,temp,temp,temp\n,mean,max,mean,max\n" + rows)
    table = io.read_readings(path, recipe=Recipe(value="temp max"))
    assert table.names == ("A", "B")
    np.testing.assert_array_equal(table.values, [[h + 9 for h in HOURS], [h + 8 for h in HOURS]])
