"""Readings that say where the number lies: limits of detection, traces of rain."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nareg import io
from nareg.errors import InputError


def read(tmp_path, text, *arguments, **options):
    path = tmp_path / "r.csv"
    path.write_text(text, encoding="utf-8")
    return io.read_readings(path, *arguments, **options)


def column(*cells: str, separator: str = ",") -> str:
    rows = "\n".join(f"2024-01-{d + 1:02d}{separator}{cell}{separator}1.5" for d, cell in enumerate(cells))
    return f"time{separator}A{separator}B\n{rows}\n"


@pytest.mark.parametrize(
    ("cell", "value", "side"),
    [
        ("<2", 2, "below"),
        ("< 0.05", 0.05, "below"),
        (">2420", 2420, "above"),
        ("> 1e3", 1000, "above"),
        ("≤2", 2, "below"),
        ("<=2", 2, "below"),
    ],
)
def test_a_limit_is_read_as_itself_and_counted(tmp_path, cell, value, side):
    table = read(tmp_path, column("3", cell, "4", cell))
    np.testing.assert_array_equal(table.values[0], [3, value, 4, value])
    (note,) = table.notes
    assert f"2 readings such as {cell!r} are read as the limit itself: the true values lie {side} it" in note
    with pytest.raises(InputError, match=f"line 3, column 'A': .* {side} it; write the limit"):
        read(tmp_path, column("3", cell), strict=True)
    frame = pd.read_csv(tmp_path / "r.csv", index_col=0)
    np.testing.assert_array_equal(io.readings_from_frame(frame).values[0], [3, value])


def test_a_limit_with_a_decimal_comma(tmp_path):
    table = read(tmp_path, column("3,5", "<0,5", separator=";").replace("1.5", "1,5"))
    np.testing.assert_array_equal(table.values, [[3.5, 0.5], [1.5, 1.5]])


@pytest.mark.parametrize("word", ["ND", "n.d.", "Not Detected", "BDL", "<LOD"])
def test_not_detected_is_the_limit_that_other_cells_name_or_refused(tmp_path, word):
    table = read(tmp_path, column("<0.5", word, "2.5", "<0.5"))
    np.testing.assert_array_equal(table.values[0], [0.5, 0.5, 2.5, 0.5])
    assert any(f"1 reading {word!r} is read as the limit of detection" in note for note in table.notes)
    with pytest.raises(
        InputError, match=r"line 3, column 'A': .* may mean not detected or no data: write the limit of detection, such as"
    ) as refusal:
        read(tmp_path, column("3", word))
    assert f"--missing {word!r}" in str(refusal.value)


def test_the_limit_of_a_station_is_its_own(tmp_path):
    table = read(tmp_path, "time,A,B\n2024-01-01,<0.5,<2\n2024-01-02,ND,ND\n2024-01-03,1,3\n")
    np.testing.assert_array_equal(table.values, [[0.5, 0.5, 1], [2, 2, 3]])


@pytest.mark.parametrize("word", ["T", "t", "Trace", "tr"])
def test_a_trace_of_rain_is_zero(tmp_path, word):
    table = read(tmp_path, column("0.0", word, "12.4", word))
    np.testing.assert_array_equal(table.values[0], [0, 0, 12.4, 0])
    assert any(f"2 readings {word!r} are read as 0: a trace" in note for note in table.notes)


@pytest.mark.parametrize("others", [("-1", "0"), ("3", "4")])
def test_a_trace_among_readings_that_are_no_rain_is_refused(tmp_path, others):
    with pytest.raises(InputError, match="line 4, column 'A': 'T' is not a number; write 0 if it is a trace of rain"):
        read(tmp_path, column(*others, "T"))


def test_limits_in_a_long_table_with_words_beside(tmp_path):
    rows = [f"2024-01-{d + 1:02d},{s},<2,lab" for d in range(30) for s in "AB"]
    table = read(tmp_path, "time,station,count,source\n" + "\n".join(rows) + "\n2024-02-01,A,7,lab\n")
    assert table.values[0, -1] == 7
    assert (table.values[:, :30] == 2).all()
    assert any("60 readings such as '<2'" in note for note in table.notes)


def test_a_column_of_weights_has_no_limits(tmp_path):
    (tmp_path / "w.csv").write_text("station,weight\nA,<2\n")
    with pytest.raises(InputError, match="'<2' is not a number"):
        io.read_weights(tmp_path / "w.csv", ["A"])
