"""Tables of the documentation: every cell from its rows, what was not run or diverged said, ties by a paired test."""

from __future__ import annotations

import pytest

from experiments import _tables

COLUMNS = {"a": {"level": 1.0}, "b": {"level": 2.0}}


def rows(model, level, values):
    return [
        {"model": model, "level": level, "run": float(run), "test": value, "refused": "" if value is not None else "diverges"}
        for run, value in enumerate(values)
    ]


def line(text, model):
    (found,) = (line for line in text.splitlines() if line.startswith(f"| {model} |"))
    return [cell.strip() for cell in found.strip("|").split("|")][1:]


def test_cells_are_means_of_their_own_rows():
    mine = rows("X", 1.0, (80.0, 82.0)) + rows("Y", 1.0, (50.0, 52.0)) + rows("X", 2.0, (60.0,))
    text = _tables.table(mine, _tables.models(("X", "Y")), COLUMNS)
    assert line(text, "X") == ["**81.0 ± 1.4**", "60.0"]
    assert line(text, "Y") == ["51.0 ± 1.4", "not run"]


def test_what_diverged_is_said():
    mine = rows("X", 1.0, (None, None)) + rows("Y", 1.0, (70.0, None, 72.0))
    text = _tables.table(mine, _tables.models(("X", "Y")), COLUMNS)
    assert line(text, "X") == ["diverges", "not run"]
    assert line(text, "Y")[0] == "71.0 ± 1.4 (1 of 3 diverge)"


@pytest.mark.parametrize(("second", "tied"), [((79.0, 81.5, 78.9, 81.3), True), ((79.0, 80.9, 79.1, 80.8), False)])
def test_bold_is_the_best_and_what_a_paired_test_cannot_tell_from_it(second, tied):
    """The runs differ by more than the models do: only the pairs tell them apart."""
    first = (80.0, 82.0, 80.1, 81.0)
    pairs = {"X": rows("X", 1.0, first), "Y": rows("Y", 1.0, second), "Z": rows("Z", 1.0, (30.0, 31.0, 30.0, 31.0))}
    assert _tables.leaders(pairs) == ({"X", "Y"} if tied else {"X"})
    assert _tables.leaders({"X": pairs["X"]}) == set()
