"""Columns that mark the quality of readings: known marks, marks that the user names, all or none."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from nareg import io
from nareg.cli.main import app
from nareg.errors import InputError
from nareg.io import Recipe

LABELS = ["ok", "ok", "gross value", "ok", "gap", "ok", "ok", "step", "ok", "ok"]


def write(tmp_path, marks, name="qc_label", header="time,station,value"):
    path = tmp_path / "readings.csv"
    rows = [f"2024-01-{d + 1:02d},A,{d},{mark}" for d, mark in enumerate(marks)]
    path.write_text("\n".join([f"{header},{name}", *rows]))
    return path


def left_out(path, **entries):
    table = io.read_readings(path, recipe=Recipe(**entries))
    assert table.counts.add_up
    return np.flatnonzero(np.isnan(table.values[0])).tolist(), " ".join(table.notes)


@pytest.mark.parametrize(
    ("name", "marks", "bad"),
    [
        ("is_suspect", ["0", "0", "1", "0"], [2]),
        ("outlier", ["False", "True", "False", "False"], [1]),
        ("valid", ["1", "1", "1", "0"], [3]),
        ("invalid", ["no", "yes", "no", "no"], [1]),
        ("Q-FLAG", ["", "", "", "I"], [3]),
        ("value_attributes", ['",,W"', '"T,,W"', '",I,W"', '",,S,0700"'], [2]),
        ("value_cd", ["A", "A:e", "P", "A"], []),
    ],
)
def test_more_scales_are_known(tmp_path, name, marks, bad):
    out, notes = left_out(write(tmp_path, marks, name))
    assert out == bad
    assert ("marks as bad" in notes) if bad else ("no reading as bad" in notes)


def test_marks_of_missing_readings_need_not_be_known(tmp_path):
    rows = [f"2024-01-{d + 1:02d},A,{d},{'suspect' if d == 7 else 'OK'}" for d in range(9)]
    rows[4] = "2024-01-05,A,,Ausfall"
    path = tmp_path / "readings.csv"
    path.write_text("\n".join(["time,station,value,Status", *rows]))
    out, notes = left_out(path)
    assert out == [4]
    assert "1 reading that column 'Status' marks as suspect is used" in notes


def test_unknown_marks_are_used_when_asked_for(tmp_path):
    path = write(tmp_path, LABELS, "qc_flags")
    out, notes = left_out(path)
    assert out == []
    assert "is not known, and not used: name those of bad readings by --bad, or pass --use-flags" in notes
    assert left_out(path, use_flags=True)[0] == [2, 4, 7]
    out, notes = left_out(path, bad=("step",))
    assert out == [7]
    assert "1 reading that column 'qc_flags' marks as bad ('step') is left out" in notes
    assert left_out(path, flag="qc_flags", bad=("Step", "gap"))[0] == [4, 7]


def test_all_but_good_marks_are_left_out_when_asked_for(tmp_path):
    """Doubtful and unchecked readings, too, which are used otherwise."""
    path = write(tmp_path, ["good", "suspect", "unknown", "bad"], "quality")
    assert left_out(path)[0] == [3]
    assert left_out(path, use_flags=True)[0] == [1, 2, 3]
    with pytest.raises(InputError, match="of which none is known as good"):
        left_out(write(tmp_path, ["suspect", "unknown", "unknown", "bad"], "quality"), use_flags=True)


def test_known_marks_are_not_used_when_asked_for(tmp_path):
    path = write(tmp_path, ["good", "good", "bad", "good"], "quality")
    assert left_out(path)[0] == [2]
    out, notes = left_out(path, use_flags=False)
    assert out == []
    assert "what column 'quality' marks is not used, as asked for" in notes


def test_a_column_of_any_name(tmp_path):
    path = write(tmp_path, list("YYNY"), "checked")
    assert left_out(path, value="value")[0] == []
    assert left_out(path, flag="checked", bad=("N",))[0] == [2]
    wide = tmp_path / "wide.csv"
    wide.write_text(
        "time,A,B,state\n" + "".join(f"2024-01-0{d},{d},{d + 1},{'off' if d == 3 else 'on'}\n" for d in range(1, 9))
    )
    table = io.read_readings(wide, recipe=Recipe(flag="state", bad=("off",)))
    assert table.names == ("A", "B")
    assert np.isnan(table.values).sum(axis=1).tolist() == [1, 1]
    assert dict(table.counts.beside) == {"marked as bad": 2}


def test_marks_are_about_their_own_quantity(tmp_path):
    rows = [f"2024-01-{d + 1:02d},A,{d},{4 if d == 1 else 1},{d + 50},{4 if d == 5 else 1}" for d in range(9)]
    path = tmp_path / "readings.csv"
    path.write_text("\n".join(["time,station,temp,temp_qc,hum,hum_qc", *rows]))
    assert left_out(path, value="temp")[0] == [1]
    assert left_out(path, value="hum")[0] == [5]
    notes = " ".join(io.inspect(path).notes)
    assert "column 'temp_qc' marks as bad ('4')" in notes
    assert "column 'hum_qc' marks as bad ('4')" in notes


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"use_flags": True}, "of which none is known as good: name those of bad readings by --bad"),
        ({"use_flags": False, "bad": ("x",)}, "omit one of them"),
        ({"use_flags": "yes"}, "pass true or false"),
        ({"flag": "note", "use_flags": True}, "there is no such column"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(tmp_path, entries, words):
    path = write(tmp_path, list("xyxy"), "flag")
    with pytest.raises(InputError, match=words):
        left_out(path, **entries)


def test_flags_of_a_table_without_marks(tmp_path):
    path = tmp_path / "readings.csv"
    path.write_text("time,A,B\n2024-01-01,1,2\n2024-01-02,1,2\n")
    with pytest.raises(InputError, match="name it by --flag-column"):
        left_out(path, use_flags=True)


def test_recipe_and_command_line(tmp_path):
    path, recipe = write(tmp_path, LABELS, "state"), tmp_path / "recipe.toml"
    options = ["--flag-column", "state", "--bad", "step", "--bad", "gap", "--out", str(recipe)]
    done = CliRunner().invoke(app, ["inspect", str(path), *options])
    assert done.exit_code == 0
    assert "2 readings that column 'state' marks as bad ('gap', 'step') are left out" in done.output
    assert "Of 10 cells, 8 are readings that are used; others: 2 marked as bad." in done.output
    loaded = Recipe.load(recipe)
    assert (loaded.flag, loaded.bad, loaded.use_flags) == ("state", ("step", "gap"), None)
    Recipe(use_flags=False).save(recipe)
    assert Recipe.load(recipe).use_flags is False


@pytest.mark.parametrize("mark", ["*", " *", "?", " e", "E", " E", " M", " r"])
@pytest.mark.parametrize("header", ["time,A,B", "time,station,value"])
def test_marks_behind_numbers(tmp_path, mark, header):
    """12.3E is no exponent but an estimated reading."""
    path = tmp_path / "r.csv"
    rows = [f"2024-01-{d:02d},{{}},{d}.25{mark if d % 5 == 3 else ''}" for d in range(1, 21)]
    cells = "A" if "station" in header else "1"
    path.write_text("\n".join([header, *(row.format(cells) for row in rows)]))
    table = io.read_readings(path)
    assert table.values[-1].tolist() == [d + 0.25 for d in range(1, 21)]
    shown = repr(f"3.25{mark}")
    assert any(f"4 readings such as {shown} are read without the mark {mark.strip()!r}" in note for note in table.notes)
    with pytest.raises(InputError, match="write the marks in a column of their own"):
        io.read_readings(path, strict=True)


@pytest.mark.parametrize("header", ["time,A", "time,station,value"])
def test_bad_marks_behind_numbers(tmp_path, header):
    path = tmp_path / "r.csv"
    own = "A," if "station" in header else ""
    cells = ["1.5", "2.5*", "3.5 e", "4.5", "5.5*", "6.5", "", "8.5"]
    path.write_text("\n".join([header, *(f"2024-01-0{d + 1},{own}{cell}" for d, cell in enumerate(cells))]))
    out, notes = left_out(path, bad=("*",))
    assert out == [1, 4, 6]
    assert "2 readings such as '2.5*' are left out, since '*' marks bad ones" in notes
    assert "1 reading such as '3.5 e' is read without the mark 'e'" in notes
    assert dict(io.read_readings(path, recipe=Recipe(bad=("*",))).counts.beside) == {"marked as bad": 2, "empty": 1}
    assert "no number has the mark '?' behind it" in left_out(path, bad=("?",))[1]
    with pytest.raises(InputError, match="name it by --flag-column"):
        left_out(path, bad=("wrong",))


@pytest.mark.parametrize(("mark", "every"), [(" C", 5), ("K", 5), (" N", 5), (" m", 5), (" M", 1), (" e", 1), ("e", 1)])
def test_units_behind_numbers_are_refused(tmp_path, mark, every):
    path = tmp_path / "r.csv"
    rows = [f"2024-01-{d:02d},1,{d}.5{mark if d % every == 0 else ''}" for d in range(1, 21)]
    path.write_text("\n".join(["time,A,B", *rows]))
    with pytest.raises(InputError, match="is a number with a"):
        io.read_readings(path)


def test_names_of_stations_are_no_numbers_with_marks(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("time,station,value\n" + "".join(f"2024-01-0{d},{s},{d}\n" for d in (1, 2) for s in ("101", "102E", "3 e")))
    assert io.read_readings(path).names == ("101", "102E", "3 e")
    path.write_text('time,A\n2024-01-01,"1,234*"\n2024-01-02,5\n2024-01-03,6\n')
    with pytest.raises(InputError, match="line 2, column 'A'"):
        io.read_readings(path)
