"""Tables of the documentation: every cell from its rows, what was not run or diverged said, ties by a paired test."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from experiments import (
    _docs,
    _engine,
    _herta_tables,
    _main,
    _nodes,
    _pages,
    _record,
    _tables,
    gnn_adaptive,
    gnn_filters,
    gnn_interpolation,
    gnn_products,
    herta_accuracy,
    herta_effects,
    herta_loss,
    herta_sparsifier,
)

COLUMNS = {"a": {"level": 1.0}, "b": {"level": 2.0}}


def rows(model, level, values):
    return [
        {"model": model, "level": level, "run": float(run), "test": value, "refused": "" if value is not None else "diverges"}
        for run, value in enumerate(values)
    ]


def line(text, model):
    (result,) = (line for line in text.splitlines() if line.startswith(f"| {model} |"))
    return [cell.strip() for cell in result.strip("|").split("|")][1:]


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


def test_two_runs_are_too_few_for_a_test():
    pairs = {
        m: [{"run": k, "test": v} for k, v in enumerate(values)] for m, values in {"X": (3.0, 1.0), "Y": (1.0, 2.0)}.items()
    }
    assert _tables.leaders(pairs) == {"X"}


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
        elif name == "gnn-interpolation":
            for method, needs in gnn_interpolation.NEEDS.items():
                for count in (None,) if needs == "test readings" else settings.training:
                    yield {**point, "method": method, "training": count, "nmse": 0.5, "seconds": 1.0}
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


def trained(name, settings):
    """Rows of an experiment on training as it would write them; what is slow is run on one mask, and one did not get there."""
    for point in _engine.load(name).points(settings):
        if name == "herta-loss":
            for k, method in enumerate(herta_loss.METHODS[point["loss"]]):
                if method in herta_loss.QUICK_ONES or point["mask"] < settings.slow:
                    counts = {f"{what} {gap:g}": 7.0 + k for what in ("iterations", "seconds") for gap in herta_loss.GAPS}
                    if method == "Adam":
                        counts = dict.fromkeys(counts)
                    stated = {"method": method, "kind": "run", "optimizer": "pcg", "preconditioner": "exact", "products": 1000}
                    yield {**point, **stated, **counts, "final": 1e-7, "last": 1e-7}
        elif name == "herta-large":
            if point["features"]:
                for k, method in enumerate(("auto", "sketched PCG", "L-BFGS")):
                    stated = {"kind": "run", "method": method, "iterations 1e-06": 7.0 + k, "seconds 1e-06": 2.0 + k}
                    yield {**point, **stated} if k < 2 else {**point, **stated, "iterations 1e-06": None, "seconds 1e-06": None}
            else:
                yield {**point, "kind": "absent"}
        elif name == "herta-accuracy":
            for loss, (k, method) in itertools.product(settings.losses, enumerate(herta_accuracy.METHODS)):
                wild = {**point, "loss": loss, "method": method, "test": 0.99, "validation": 0.99, "epoch": 3, "oscillates": 1}
                yield from ({**wild, "test": 0.1 * k, "validation": 0.2, "oscillates": 0}, wild)
        elif name == "herta-decay":
            for loss, (k, decay) in itertools.product(settings.losses, enumerate(settings.decays)):
                yield {**point, "loss": loss, "decay": decay, "validation": 0.2 + 0.1 * (k == 2), "test": 0.1 * k}
        elif name == "herta-effects":
            values = {"mask": (herta_effects.MASKED, herta_effects.UNMASKED), "ridge": herta_effects.RIDGES,
                      "sketch": herta_effects.SIZES}  # fmt: skip
            for effect, some in values.items():
                for value in some:
                    yield {**point, "effect": effect, "value": value, "condition": 2.0, "iterations": None, "rank": 5}
            for draws in herta_effects.DRAWS:
                yield {**point, "effect": "edges", "value": 0.5, "draws": draws, "condition": 3.0, "iterations": 9, "rank": 5}
        elif name == "herta-sparsifier" and point["what"] == "compared":
            for scores, draws in itertools.product(herta_sparsifier.SCORES, settings.draws):
                yield {**point, "scores": scores, "draws": draws, "kept": 0.25, "error": 0.4}
        else:
            yield {**point, "scores": "auto"}


def written(names, rows, folder):
    """What the full runs of experiments would leave, their numbers through a CSV as for the pages."""
    figures, result = {}, {}
    for name in names:
        settings = _engine.load(name).full
        _engine.write_csv(list(rows(name, settings)), folder / f"{name}.csv")
        figures[name] = {"figure": name, "settings": json.loads(json.dumps(asdict(settings))), "commit": "0123abc"}
        result[name] = _docs.numbers(folder / f"{name}.csv")
    return figures, result


def included(page):
    """Names of what a page of results includes."""
    return _pages.INCLUDE.findall((Path(__file__).resolve().parents[2] / "docs" / "results" / page).read_text())


def test_the_page_on_training_has_every_part_and_no_other(tmp_path):
    figures, result = written(_main.HERTA, trained, tmp_path)
    parts = _herta_tables.parts(figures, result)
    marks = included("herta.md")
    assert len(marks) == len(set(marks))
    assert set(marks) == {*parts, *_main.HERTA, "overview-herta"}
    assert not any("nan" in text or "inf" in text for text in parts.values())
    assert line(parts["loss-mse"], "auto") == ["7 / 7"] * 6
    assert line(parts["loss-mse"], "Adam") == ["– / –"] * 6
    cells = ["pcg, exact", "7.00", "1,000", "direct 13.00 (0.54), 1,000", "sketched PCG 8.00 (0.88), 1,000"]
    assert line(parts["loss-seconds"], "cora, mse, λ = 1") == cells
    assert line(parts["large-mse"], "sketched PCG") == ["3 s (1.50), 8"] * 3
    assert line(parts["large-ce"], "L-BFGS") == ["not in 300"] * 3
    assert line(parts["decay-table"], "0.01") == ["10.0 ± 0.0"] * 6
    assert line(parts["decay-table"], "by validation") == ["20.0 ± 0.0"] * 6
    assert line(parts["effects-table"], "sparsified, 2 draws an edge") == ["3: 9"] * 6
    # what oscillates is left out, unless it is "auto", which has no learning rate to blame
    assert line(parts["accuracy-table"], "Adam") == ["10.0 ± 0.0 (3)"] * 6
    assert line(parts["accuracy-table"], "auto") == ["99.0 ± 0.0 (3)"] * 6


@pytest.mark.slow
def test_the_pages_include_every_part_and_no_other(tmp_path):
    """On rows made up for the full settings of every experiment, through a CSV; all cells that are run are found again."""
    figures, result = written(_main.GNN, made_up, tmp_path)
    parts = _tables.parts(figures, result)
    marks = included("gnn.md") + included("gnn-reproduction.md")
    assert len(marks) == len(set(marks))
    of_scripts = _record.read()["gnn"]["tables"]
    assert set(marks) == {*parts, *_main.GNN, "overview-gnn", *of_scripts}
    empty = {name: text.count("not run") for name, text in parts.items() if "not run" in text}
    assert empty == {"rows-table": 18}  # the control is run at the largest noise only
    assert not any("nan" in text or "diverge" in text for text in parts.values())


@pytest.mark.parametrize(
    ("rngc", "finding"), [(80.0, "REPRODUCED"), (70.0, "IN_PART"), (50.0, "NOT"), (None, "NOT_RUN")]
)  # fmt: skip
def test_the_verdict_on_ogbn_products_follows_from_its_accuracies(rngc, finding):
    s = gnn_products.FIGURE.quick
    rows = [
        {"what": "cost", "nodes": s.nodes[-1], "edges": 10, "model": way, "seconds": 1.0, "test": None}
        for way in gnn_products.WAYS
    ]
    if rngc is not None:
        for model, test in (
            (_nodes.MLP, 60.0),
            (_nodes.GCN, 62.0),
            (_nodes.S2GC, 75.0),
            (_nodes.NGC, 76.0),
            (_nodes.RNGC, rngc),
        ):
            rows.append({"what": "accuracy", "model": model, "level": s.levels[0], "run": 0, "test": test})
    masked, accuracy = gnn_products.judge(s, rows)
    assert masked.measured.startswith("On a made-up graph")
    assert accuracy.finding.name == finding
