"""Bytes: encodings, line ends, and files that are no text."""

from __future__ import annotations

import bz2

import numpy as np
import pytest

from nareg import io
from nareg.errors import InputError

STATIONS = "station,x,y\nBréhat,1,2\nÎle de Sein,2,3\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_unicode_needs_no_note(tmp_path, encoding, end):
    (tmp_path / "s.csv").write_bytes(STATIONS.replace("\n", end).encode(encoding))
    stations = io.read_stations(tmp_path / "s.csv", strict=True)
    assert stations.names == ("Bréhat", "Île de Sein")
    np.testing.assert_array_equal(stations.coordinates, [[1, 2], [2, 3]])


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_latin_1_is_noted(tmp_path, encoding):
    (tmp_path / "s.csv").write_bytes(STATIONS.encode(encoding))
    stations = io.read_stations(tmp_path / "s.csv")
    assert stations.names == ("Bréhat", "Île de Sein")
    assert "the text is not UTF-8 and is read as Latin-1" in stations.notes[0]
    with pytest.raises(InputError, match="the text is not UTF-8; save it as CSV UTF-8"):
        io.read_stations(tmp_path / "s.csv", strict=True)


@pytest.mark.parametrize(
    ("encoding", "names"),
    [("cp949", ("서울", "인천")), ("cp932", ("東京", "横浜")), ("gb18030", ("北京", "上海")), ("cp1251", ("Москва", "Тверь"))],
)
def test_words_of_other_letters_are_read_in_their_encoding(tmp_path, encoding, names):
    """They were read as Latin-1, in letters that nobody wrote."""
    rows = [f"{name},2024-01-{day:02},{day}.5" for day in range(1, 9) for name in names]
    (tmp_path / "r.csv").write_bytes("\n".join(["station,time,value", *rows]).encode(encoding))
    readings = io.read_readings(tmp_path / "r.csv")
    assert readings.names == names
    assert f"the text is not UTF-8 and is read as {encoding}" in readings.notes[0]


def test_a_text_that_is_damaged_later_is_not_said_to_be_of_other_letters(tmp_path):
    rows = [f"서울,2024-01-{day:02},{day}.5" for day in range(1, 9)]
    (tmp_path / "r.csv").write_bytes("\n".join(["station,time,value", *rows]).encode("cp949") + b"\n\xff\xff,2024-01-09,1\n")
    notes = io.read_readings(tmp_path / "r.csv").notes
    assert "is read as Latin-1" in notes[0]


@pytest.mark.parametrize("text", ["Temp (°C)", "PM10 (µg/m³)", "Düsseldorf", "Öl-Förderung"])
def test_single_letters_beyond_ascii_are_latin(tmp_path, text):
    (tmp_path / "r.csv").write_bytes(f"time,{text}\n2024-01-01,3\n2024-01-02,4\n".encode("cp1252"))
    assert text in io.read_readings(tmp_path / "r.csv", recipe=io.Recipe(value=text)).quantity or text == "Düsseldorf"


def test_damaged_text_is_refused(tmp_path):
    (tmp_path / "s.csv").write_bytes(STATIONS.encode("utf-16")[:-1])
    with pytest.raises(InputError, match="starts like UTF-16 text but is damaged"):
        io.read_stations(tmp_path / "s.csv")
    (tmp_path / "s.csv").write_bytes(STATIONS.encode("utf-16-le"))
    with pytest.raises(InputError, match="holds zero bytes"):
        io.read_stations(tmp_path / "s.csv")


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("s.xlsx", b"PK\x03\x04....", "an archive"),
        ("s.csv", b"PK\x03\x04....", "an archive"),
        ("s.csv", b"PAR1....", "a Parquet file"),
        ("s.feather", b"hello", "a .feather file by its name"),
        ("s.csv.bz2", bz2.compress(b"station,x,y\n"), "compressed"),
        ("s.csv", b"CDF\x01", "a NetCDF file"),
    ],
)
def test_what_is_no_text_is_refused_with_the_way_out(tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    for read in (io.read_stations, io.read_readings):
        with pytest.raises(InputError, match=f"is {words}.* export it as CSV, or read it with pandas and pass the frame"):
            read(tmp_path / name)


@pytest.mark.parametrize("start", [b"\x89PNG\r\n\x1a\n\0", b"\xff\xd8\xff\xe0\0", b"%PDF-1.7\n"])
def test_a_picture_has_no_table(tmp_path, start):
    path = tmp_path / "readings.csv"
    path.write_bytes(start + bytes(range(100)))
    with pytest.raises(InputError, match="of which no table can be made: export the readings as CSV"):
        io.read_readings(path)


def test_letters_of_central_europe(tmp_path):
    """The stations were '£ódŸ' and '¯ywiec'."""
    names, rows = ("Łódź", "Żywiec", "Braşov"), [f"2024-01-{day:02},{day},{day},{day}" for day in range(1, 9)]
    (tmp_path / "r.csv").write_bytes("\n".join([",".join(("time", *names)), *rows]).encode("cp1250"))
    table = io.read_readings(tmp_path / "r.csv")
    assert table.names == names
    assert "is read as cp1250" in "".join(table.notes)
    units = "time,Flow m³/s,Temperatura ºC,Price £5"
    (tmp_path / "u.csv").write_bytes("\n".join([units, *rows]).encode("cp1252"))
    assert "read as Latin-1" in "".join(io.inspect(tmp_path / "u.csv").notes)
