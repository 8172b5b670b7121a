"""Every cell of a table is used, empty, averaged with another or left out: the numbers add up."""

from __future__ import annotations

import collections
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nareg
from nareg import io
from nareg.io import Recipe

CELLS = st.sampled_from(["", "1.5", "2", "-3.25", "NA", "M", "-77", "4"])
LONG = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 5), CELLS, st.sampled_from(["good", "bad"])), min_size=1, max_size=30
)
WIDE = st.lists(st.tuples(st.integers(0, 5), CELLS, CELLS, CELLS), min_size=1, max_size=12)
CODED = Recipe(missing=("M", "-77"))
PLACES = "station,latitude,longitude\nA,50,4\nB,50.1,4\nC,50.2,4\n"


def read(text, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "readings.csv"
        path.write_text(text)
        return io.read_readings(path, own_order=True, **options)


def check(table, cells):
    counts = table.counts
    assert counts.cells == cells
    assert counts.used == table.observed.sum()
    assert counts.add_up
    assert min(counts.beside.values(), default=0) >= 0


def is_reading(cell):
    return cell not in ("", "NA", "M", "-77")


@given(rows=LONG)
@settings(max_examples=60, deadline=None)
def test_long_tables(rows):
    full = [*rows, (0, 0, "1", "good"), (1, 0, "1", "good")]
    text = "time,station,value,quality\n" + "".join(f"2024-01-01 0{t}:00,{'ABCX'[s]},{c},{q}\n" for s, t, c, q in full)
    table = read(text, stations=["A", "B", "C"], recipe=CODED)
    check(table, len(full))
    beside = table.counts.beside
    known = [(s, t, c, q) for s, t, c, q in full if s < 3]
    assert beside["of stations that the table of stations lacks"] == len(full) - len(known)
    assert beside["empty"] == sum(c in ("", "NA", "M") for *_, c, _ in known)
    assert beside["with a number that means missing"] == sum(c == "-77" for *_, c, _ in known)
    assert beside["marked as bad"] in (0, sum(is_reading(c) and q == "bad" for *_, c, q in known))


@given(rows=WIDE)
@settings(max_examples=60, deadline=None)
def test_wide_tables(rows):
    text = "time,A,B,X\n" + "".join(f"2024-01-01 0{t}:00,{','.join(cells)}\n" for t, *cells in [*rows, (0, "1", "2", "3")])
    table = read(text, stations=["A", "B"], recipe=CODED)
    check(table, 3 * (len(rows) + 1))
    times = [(t, k) for t, *cells in [*rows, (0, "1", "2", "3")] for k in (0, 1) if is_reading(cells[k])]
    merged = sum(number - 1 for number in collections.Counter(times).values())
    assert table.counts.beside["averaged with another of their station and time"] == merged


@given(rows=WIDE, minutes=st.lists(st.integers(-4, 4), min_size=12, max_size=12))
@settings(max_examples=40, deadline=None)
def test_a_common_step(rows, minutes):
    lines = [f"2024-01-01 {10 + t}:{30 + m}:00,{','.join(c)}\n" for (t, *c), m in zip(rows, minutes, strict=False)]
    table = read("time,A,B,C\n" + "".join([*lines, "2024-01-02 00:30:00,1,2,3\n"]), recipe=CODED)
    check(io.on_grid(table, "1h"), 3 * (len(rows) + 1))


def test_several_files(tmp_path):
    (tmp_path / "1.csv").write_text("time,A,B\n2024-01-01,1,\n2024-01-02,2,3\n")
    (tmp_path / "2.csv").write_text("time,A,B\n2024-01-02,4,5\n2024-01-03,6,7\n")
    counts = io.read_readings([tmp_path / "1.csv", tmp_path / "2.csv"]).counts
    assert (counts.cells, counts.used) == (8, 5)
    assert dict(counts.beside) == {"empty": 1, "averaged with another of their station and time": 2}


def test_codes_that_no_one_named():
    values = np.tile(np.linspace(10, 20, 30), 2)
    values[[3, 40]] = -9999
    rows = [f"2024-01-01 00:{t % 30:02},{'AB'[t // 30]},{v}" for t, v in enumerate(values)]
    table = read("\n".join(["time,station,value", *rows]))
    assert table.counts.beside["with a number that means missing"] == 2
    check(table, 60)


def test_frames_and_archives(tmp_path):
    frame = pd.DataFrame({"A": [1.0, np.inf], "B": [None, 2.0]}, index=pd.date_range("2024-01-01", periods=2))
    table = io.readings_from_frame(frame)
    check(table, 4)
    io.write_readings(tmp_path / "table.npz", table)
    check(io.read_readings(tmp_path / "table.npz", ["A"]), 4)


def test_inspect_and_clean_say_it(tmp_path):
    (tmp_path / "stations.csv").write_text(PLACES)
    times = pd.date_range("2024-01-01", periods=40, freq="h")
    rows = [f"{time},{station},{k % 7 + len(station)},70" for k, time in enumerate(times) for station in "ABC"]
    rows += [f"{times[5]},A,3,71", f"{times[6]},X,3,72", f"{times[7]},Y,,73"]
    (tmp_path / "readings.csv").write_text("\n".join(["time,station,temperature,humidity", *rows]))
    sentence = (
        "Of 123 cells, 120 are readings that are used; others: 2 of stations that the table of stations lacks, 1 averaged with "
        "another of their station and time."
    )
    seen = io.inspect(tmp_path / "readings.csv", tmp_path / "stations.csv")
    assert {name: counts.sentence() for name, counts in seen.counts.items()} == {"temperature": sentence, "humidity": sentence}
    table = io.read_readings(tmp_path / "readings.csv", ["A", "B", "C"], recipe=Recipe(value="temperature"))
    cleaned = nareg.clean(table, tmp_path / "stations.csv")
    assert sentence in cleaned.notes


@pytest.mark.parametrize("cell", ["5", ""])
def test_tidy_tables_need_no_note(tmp_path, cell):
    table = read("time,A,B\n" + "".join(f"2024-01-0{d},{d},{cell}\n" for d in range(1, 8)) + "2024-01-09,1,2\n")
    assert table.counts.all_used
    assert table.notes == ()
