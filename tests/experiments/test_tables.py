"""Tables of the documentation: every cell from its rows, what was not run or diverged said, ties by a paired test."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from experiments import _docs, _engine, _main, _tables, gnn_adaptive, gnn_filters, gnn_products

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


def test_what_diverged_once_is_not_the_best():
    pairs = {
        "X": rows("X", 1.0, (80.0, None, None)),
        "Y": rows("Y", 1.0, (79.0, 79.5, 79.2)),
        "Z": rows("Z", 1.0, (1.0, 2.0, 3.0)),
    }
    assert _tables.leaders(pairs) == {"Y"}


def accuracy(rng):
    return {"test": float(rng.uniform(50, 60)), "val": 1.0, "seconds": 1.0, "refused": ""}


def made_up(name, settings):
    """Rows of an experiment as it would write them, accuracies drawn."""
    rng = np.random.default_rng(0)
    for point in _engine.load(name).points(settings):
        if name == "gnn-filters":
            for method in (*gnn_filters.DESIGNED, *gnn_filters.TRAINED):
                yield {**point, "method": method, "nmse": 0.5, "parameters": 3, "signals": 10, "seconds": 1.0}
        elif name == "gnn-products":
            for way in gnn_products.WAYS:
                yield {**point, "model": way, "edges": 10, "seconds": 1.0, "test": None, "refused": ""}
        elif name == "gnn-tuned":
            for what, runs in (("tuning", settings.draws), ("test", settings.runs)):
                for run in range(runs):
                    yield {**point, "what": what, "run": run, "configuration": "decay 1", **accuracy(rng)}
        elif name == "gnn-adaptive":
            for pipeline in (gnn_adaptive.FIRST, gnn_adaptive.LAST):
                yield from ({**point, "pipeline": pipeline, "model": way, **accuracy(rng)} for way in gnn_adaptive.WAYS)
        else:
            yield from ({**point, "model": model, **accuracy(rng)} for model in settings.models)


def test_every_mark_of_the_pages_has_a_part_and_every_part_a_mark(tmp_path):
    """On rows made up for the full settings of every experiment, through a CSV; all cells that are run are found again."""
    figures, found = {}, {}
    for name in _main.GNN:
        settings = _engine.load(name).full
        _engine.write_csv(list(made_up(name, settings)), tmp_path / f"{name}.csv")
        figures[name] = {"figure": name, "settings": json.loads(json.dumps(asdict(settings))), "commit": "0123abc"}
        found[name] = _docs.numbers(tmp_path / f"{name}.csv")
    parts = _tables.parts(figures, found)
    docs = Path(__file__).resolve().parents[2] / "docs"
    marks = [mark for page in _docs.PAGES["gnn"] for mark in re.findall(r"<!-- begin ([\w-]+) -->", (docs / page).read_text())]
    assert len(marks) == len(set(marks))
    assert set(marks) == {*parts, *_main.GNN, "overview"}
    empty = {name: text.count("not run") for name, text in parts.items() if "not run" in text}
    assert empty == {"rows-table": 18}  # the control is run at the largest noise only
    assert not any("nan" in text or "diverge" in text for text in parts.values())
