"""Running figures: resumed after a kill, the same numbers whatever the workers, a verdict on every claim."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from experiments import _engine, _main, _methods
from experiments._figure import claims
from nareg import graphs
from nareg.errors import InputError, NaregError
from tests.helpers import at_night

ROOT = Path(__file__).resolve().parents[2]
TINY = {
    "fig1": {"n_graphs": 2, "n_scales": 5},
    "fig2": {"n_graphs": 2, "draws": 40, "snr_db": (-5.0, 0.0, 5.0), "n_nodes": 30, "frequencies": 10, "solved": 1},
    "fig3": {"n_graphs": 2, "draws": 40, "observed": (10, 20, 30), "n_nodes": 30, "frequencies": 10},
    "fig4": {"stations": (32,), "snr_db": (-5.0, 0.0), "other_units": ("50 km",), "draws": 4, "every": 40, "oracle_every": 2},
    "fig5": {"stations": (32,), "observed": (4, 30), "subsets": 2, "draws": 8, "every": 40},
    "fig6": {"snr_db": (-5.0, 0.0, 5.0), "observed": (10, 30), "subsets": 2, "draws": 4, "every": 10},
    "example": {"n_graphs": 2, "n_nodes": 60, "draws": 4, "snr_db": (0.0, 5.0)},
    "choices": {"networks": ("molene",), "few": True, "repeats": 2},
    "beyond": {
        "networks": ("molene",),
        "snr_db": (0.0,),
        "blocks": 10,
        "most_times": 80,
        "repeats": 2,
        "tv_signals": 2,
        "kriging_signals": 4,
    },
    "theory": {"n_points": 2, "cases": 40, "boxes": 2, "programs": 1, "known": 1, "known_nodes": 12, "known_frequencies": 5},
    "gnn-clean": {"datasets": ("cora",), "models": ("MLP", "GCN", "SGC"), "runs": 1, "epochs": 3},
    "gnn-rows": {"datasets": ("cora",), "levels": (1.0,), "models": ("NGC", "RNGC"), "runs": 1, "epochs": 3},
    "gnn-noise": {"datasets": ("cora",), "levels": (0.3,), "models": ("GCN", "S2GC", "NGC", "RNGC"), "runs": 2, "epochs": 3},
    "gnn-noise-signed": {
        "datasets": ("cora",),
        "levels": (0.3,),
        "models": ("GCN", "S2GC", "NGC", "RNGC"),
        "runs": 2,
        "epochs": 3,
        "rows": "signed-sum",
    },
    "gnn-dependent": {"datasets": ("cora",), "models": ("MLP", "AirGNN", "NGC"), "runs": 2, "epochs": 3},
    "gnn-tuned": {
        "datasets": ("cora",),
        "models": ("MLP", "GCN", "NGC", "RNGC"),
        "budget": 1,
        "draws": 1,
        "runs": 2,
        "epochs": 3,
    },
    "gnn-adaptive": {"datasets": ("cora",), "levels": (0.3,), "columns": 20, "lams": (8.0, 32.0), "runs": 1, "epochs": 3},
    "gnn-flips": {
        "datasets": ("cora",),
        "levels": (0.4,),
        "models": ("MLP", "GCN", "NGC", "RNGC"),
        "runs": 2,
        "epochs": (3, 3),
    },
    "gnn-depth": {"datasets": ("cora",), "depths": (1, 3), "levels": (0.0, 1.0), "models": ("NGC",), "runs": 1, "epochs": 3},
    "gnn-attack": {"datasets": ("cora",), "attacks": ("clean", "gadc-25"), "runs": 2, "epochs": 3},
    "gnn-heterophily": {"datasets": ("cornell",), "runs": 2, "epochs": 3, "filter_epochs": 3},
    "gnn-heterophily-long": {"datasets": ("wisconsin",), "runs": 2, "epochs": 3, "filter_epochs": 5},
    "gnn-coauthor": {
        "datasets": ("coauthor-cs",),
        "levels": (0.1,),
        "rows": ("l2",),
        "models": ("MLP", "NGC"),
        "runs": 1,
        "epochs": (2, 2, 2),
    },
    "gnn-products": {"nodes": (500, 2000), "order": 2, "levels": (0.1,), "runs": 1},
    "gnn-filters": {"networks": ("molene",), "snr_db": (0.0,), "training": (10,), "epochs": 10, "repeats": 1},
    "gnn-interpolation": {
        "networks": ("molene",),
        "training": (10,),
        "epochs": 10,
        "blocks": 4,
        "most_times": 40,
        "repeats": 1,
    },
    "herta-loss": {"datasets": ("cora",), "lams": (1.0,), "masks": 1, "slow": 1, "most": 3},
    "herta-large": {"features": (6, 8), "nodes": 300, "classes": 3, "lams": (1.0,), "most": 5},
    "herta-accuracy": {
        "datasets": ("cora",),
        "losses": ("ce",),
        "lams": (1.0,),
        "rates": (0.1,),
        "epochs": 3,
        "gcn_epochs": 3,
        "masks": 1,
    },
    "herta-decay": {"datasets": ("cora",), "losses": ("mse",), "lams": (1.0,), "decays": (0.0, 1.0), "masks": 1},
    "herta-effects": {"datasets": ("cora",), "lams": (1.0,), "masks": 1, "most": 10},
    "herta-sparsifier": {
        "graphs": ("two cliques and a bridge", "cora"),
        "lams": (1.0,),
        "draws": (1.0,),
        "repeats": 1,
        "checks": 2,
    },
    "herta-cost": {"edges": (2000, 4000)},
    "herta-solver": {"graphs": ("made up",), "lams": (1.0, 100.0), "nodes": 500, "features": 8},
    "unlearning-efficacy": {
        "methods": ("nareg", "retrained"),
        "edges": 4,
        "batch": 1,
        "parts": 2,
        "scale": 0.003,
        "nodes": 10,
        "trials": 1,
        "members": 2,
    },
    "unlearning-requests": {
        "methods": ("nareg", "ScaleGUN", "retrained"),
        "removals": 3,
        "timed": 1,
        "alphas": (0.1,),
        "trials": 1,
    },
    "unlearning-bounds": {"kinds": ("features", "nodes"), "r_max": (0.0, 1e-2), "removals": 2},
    "unlearning-cost": {"nodes": (20, 40), "degrees": (2, 4), "orders": (1, 2), "residues": (1.0, 0.1)},
    "unlearning-large": {"batches": 1, "larger": (1000,), "of_most": 25, "scale": 0.005},
    "unlearning-residues": {"r_max": (1e-5, 1e-12, 0.0), "timed": 2, "removals": 2, "scale": 0.005},
    "unlearning-deep": {"kinds": ("ChebNetII",), "batches": 1, "hidden": 8, "epochs": 2, "more": 1, "scale": 0.005},
    "unlearning-last-layer": {"datasets": ("cora",), "trials": 1, "hidden": 8, "epochs": 2},
    "unlearning-benchmark": {
        "datasets": ("cora",),
        "workloads": ("random", "second class"),
        "batches": 2,
        "repeats": 1,
        "epochs": 3,
        "iterations": 2,
    },
    "unlearning-edges": {"datasets": ("cora",), "removals": 4, "every": 2, "clocked": 2, "trials": 1},
    "time-graphtrss": {"datasets": ("pm25-california",), "masks": 1, "peer_masks": 2, "every": 100},
    "time-snapshots": {"datasets": ("pm25-california",), "masks": 1, "peer_masks": 2, "every": 100},
    "time-forecast": {"datasets": ("pm25-california",), "masks": 1, "peer_masks": 2, "every": 100},
    "time-aqi36": {"methods": ("linear in time", "network mean")},
    "time-tsi": {"patterns": ("90 % points",), "hours": 240},
    "time-noaa": {"snr_db": (0.0,), "methods": ("best single weight", "two modes", "nareg.spacetime"), "draws": 1},
    "time-us": {"snr_db": (0.0,), "methods": ("best single weight", "one weight, GCV", "nareg.spacetime"), "draws": 1},
    "time-learning": {
        "snr_db": (0.0,),
        "days": (10, 20),
        "methods": ("best single weight", "kriging", "nareg.spacetime"),
        "draws": 1,
    },
    "time-stream": {"snr_db": (0.0,), "fitted": 60, "draws": 1},
    "time-edges": {"networks": ("molene",), "snr_db": (0.0,), "blocks": 10, "most_times": 80, "repeats": 1},
}
#: Many points of a second, to be cut short between them.
LITTLE = ["--set", "n_graphs=12", "--set", "n_nodes=20", "--set", "frequencies=8", "--set", "draws=10"]
NEEDS_DATA = {"fig4", "fig5", "choices", "beyond", *_main.GNN, *_main.HERTA, *_main.UNLEARNING, *_main.TIME} - {
    "time-us",
    "time-noaa",
    "time-learning",
    "time-stream",
    "gnn-products",
    "herta-large",
    "herta-cost",
    "herta-solver",
    "unlearning-large",
    "unlearning-residues",
    "unlearning-deep",
}


#: Seconds each, some of every kind; the others run at night.
SHORT = [
    "fig1", "fig3", "fig5", "example", "theory", "gnn-clean", "gnn-dependent", "gnn-depth", "gnn-products", "gnn-filters",
    "herta-accuracy", "herta-decay", "herta-cost", "unlearning-cost", "unlearning-deep", "unlearning-last-layer",
    "time-aqi36", "time-learning",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SHORT, *at_night(name for name in TINY if name not in SHORT)])
def test_figures_give_numbers_a_picture_and_a_verdict_on_every_claim(name, tmp_path, request):
    if name in NEEDS_DATA:
        request.getfixturevalue("data_root")
    figure = _engine.load(name)
    settings = replace(figure.full, **TINY[name])
    rows = _engine.run(figure, settings, tmp_path)
    for row in rows:
        assert all(np.isfinite(value) for value in row.values() if isinstance(value, float))
        assert row.get("test", 0.0) is not None or row["refused"] or "seconds" in row
    # Closed form and draws agree. Figure 6's .1651 and .1674 are 2.9 standard errors apart: an error from the means of four
    # draws, with three degrees of freedom, was .4 of the true one there, and read as 7.
    for row in (row for row in rows if "sampled" in row):
        assert abs(row["sampled"] - row["nmse"]) < 6 * row["sampled_error"]
    assert {v.claim for v in figure.judge(settings, rows)} == set(claims(name))
    assert all(v.measured for v in figure.judge(settings, rows))
    drawing = figure.draw(settings, rows)
    drawing.savefig(tmp_path / "picture.png")
    plt.close(drawing)


@pytest.mark.slow
def test_rows_do_not_depend_on_the_workers(tmp_path):
    figure = _engine.load("fig1")
    settings = replace(figure.full, **TINY["fig1"])
    tables = []
    for jobs in (1, 2):
        rows = _engine.run(figure, settings, tmp_path / str(jobs), jobs=jobs)
        _engine.write_csv(rows, tmp_path / f"{jobs}.csv")
        tables.append((tmp_path / f"{jobs}.csv").read_bytes())
    assert tables[0] == tables[1]


def test_a_finished_point_is_not_computed_again_unless_the_settings_change(tmp_path, monkeypatch):
    figure = _engine.load("fig1")
    settings = replace(figure.full, **TINY["fig1"])
    rows = _engine.run(figure, settings, tmp_path)
    seen: list[tuple[int, int]] = []

    def forbidden(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr(_engine, "_compute", forbidden)
    assert _engine.run(figure, settings, tmp_path, progress=lambda k, n: seen.append((k, n))) == rows
    assert seen == [(2, 2)]
    with pytest.raises(AssertionError, match="computed again"):
        _engine.run(figure, replace(settings, seed=99), tmp_path)


@pytest.mark.nightly
def test_a_killed_run_ends_with_the_same_table(tmp_path):
    def start(out: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "nareg", "reproduce", "fig3", "--quick", *LITTLE, "--jobs", "1", "--out", str(out)]
        command += ["--set", "n_graphs=4", "--set", "observed=10,15"]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def finished(out: Path) -> list[Path]:
        return sorted((out / "cache").glob("fig3/*/0*.json"))

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert start(whole).wait(300) == 0
    running = start(cut)
    deadline = time.monotonic() + 120
    while not finished(cut):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    running.wait()
    remaining = finished(cut)
    assert 1 <= len(remaining) < len(finished(whole))
    stamps = [file.stat().st_mtime_ns for file in remaining]
    assert not (cut / "fig3-quick.csv").exists()
    assert start(cut).wait(300) == 0
    assert [file.stat().st_mtime_ns for file in remaining] == stamps
    assert (cut / "fig3-quick.csv").read_bytes() == (whole / "fig3-quick.csv").read_bytes()


@pytest.mark.slow
def test_command_writes_table_picture_verdicts_and_page(tmp_path, monkeypatch):
    quick = replace(_engine.load("fig1"), quick=replace(_engine.load("fig1").full, **TINY["fig1"]))
    monkeypatch.setattr(_engine, "load", lambda name: quick)
    done, failed = _main.reproduce(["fig1"], tmp_path, quick=True)
    assert not failed
    page = _main.page(done, failed, tmp_path).read_text()
    stated = json.loads((tmp_path / "fig1-quick.json").read_text())
    assert stated["quick"] is True
    assert stated["commit"] == _main.commit()
    assert stated["verdicts"][0]["finding"] in page
    assert "Quick settings" in page
    assert (tmp_path / "fig1-quick.csv").read_text().startswith("graph,w0,method,bias,variance,nmse\n")
    assert (tmp_path / "fig1-quick.png").read_bytes().startswith(b"\x89PNG")


def test_settings_are_changed_by_name_and_checked():
    settings = _engine.load("fig4").full
    new = _main.changed(settings, ["unit=10 km", "snr_db=-5,0.5", "unit_snr_db=0.5", "draws=3"])
    assert (new.unit, new.snr_db, new.draws, new.seed) == ("10 km", (-5.0, 0.5), 3, settings.seed)
    assert _main.changed(_engine.load("choices").full, ["few=true"]).few is True
    for wrong, said in [("drawz=3", "draws"), ("draws", "name=value"), ("draws=many", "int"), ("snr_db=a,b", "list of float")]:
        with pytest.raises(InputError, match=said):
            _main.changed(settings, [wrong])
    with pytest.raises(InputError, match=r"write --set fig1\.seed=1"):
        _main.reproduce(["fig1", "fig2"], Path("nowhere"), assignments=["seed=1"])


def test_unknown_figures_are_named():
    with pytest.raises(InputError, match="'fig9' is not an experiment: choose from fig1"):
        _main.wanted(["fig9"])
    assert _main.wanted(["fig2", "all"]) == list(_main.FIGURES)
    assert _main.wanted(["gnn", "fig1"]) == ["fig1", *_main.GNN]
    assert all((ROOT / "experiments" / f"{name.replace('-', '_')}.py").is_file() for name in _main.FIGURES)
    assert set(TINY) == set(_main.FIGURES)


def test_a_change_in_one_part_of_the_library_leaves_the_results_of_the_others(monkeypatch):
    figures = [_engine.load(name) for name in ("fig1", "gnn-clean", "gnn-filters")]

    def prints():
        return [_engine.fingerprint(figure, figure.full) for figure in figures]

    before = prints()
    stated = _engine.sources()
    for part, changed in (("_noise", (False, True, True)), ("nareg/design/_node/exact.py", (True, False, True)),
                          ("nareg/graph.py", (True, True, True)), ("_nodes", (False, True, True)),
                          ("nareg/herta/fit.py", (False, False, False))):  # fmt: skip
        monkeypatch.setattr(_engine, "sources", lambda part=part: {**stated, part: "other"})
        assert tuple(a != b for a, b in zip(before, prints(), strict=True)) == changed


def test_expected_error_is_the_mean_over_draws(rng):
    g = graphs.sensor(12, rng=rng)
    X = rng.standard_normal((12, 5))
    row = _methods.errors(_methods.matrix(g, 0.7), X, np.linspace(0.1, 1.0, 5), 4000, rng)
    assert row["bias"] + row["variance"] == pytest.approx(row["nmse"])
    assert abs(row["sampled"] - row["nmse"]) < 4 * row["sampled_error"] < 0.02 * row["nmse"]


def test_four_draws_tell_how_far_their_mean_may_be_off(rng):
    """Means of four draws over all signals would: the quotient of two such errors has three degrees of freedom."""
    g = graphs.sensor(12, rng=rng)
    H, X, variance = _methods.matrix(g, 0.7), _methods.equal_power(rng.standard_normal((12, 2000))), np.full(2000, 0.5)
    # ||b + H z||^2 of Gaussian z of variance v has the variance 4 v ||H' b||^2 + 2 v^2 ||H' H||_F^2
    of_each = 4 * variance * np.sum((H.T @ (H @ X - X)) ** 2, axis=0) + 2 * variance**2 * np.sum((H.T @ H) ** 2)
    exact = np.sqrt(np.mean(of_each / np.sum(X**2, axis=0) ** 2) / (4 * 2000))
    for _ in range(20):
        assert _methods.errors(H, X, variance, 4, rng)["sampled_error"] == pytest.approx(exact, rel=0.1)
    assert np.isnan(_methods.errors(H, X, variance, 1, rng)["sampled_error"])


@dataclass(frozen=True)
class _Other:
    """Settings that no figure has."""

    number: int = 1


def test_the_hash_sees_settings_and_figure():
    first, second = _engine.load("fig1"), _engine.load("fig2")
    hashes = {_engine.fingerprint(f, s) for f in (first, second) for s in (_Other(), _Other(2))}
    assert len(hashes) == 4


@pytest.mark.slow
def test_a_figure_that_cannot_be_run_here_is_named_and_left_out(tmp_path, monkeypatch):
    figure = replace(_engine.load("fig4"), compute=no_data)
    load = _engine.load
    monkeypatch.setattr(_engine, "load", lambda name: figure if name == "fig4" else load(name))
    done, failed = _main.reproduce(["fig1", "fig4"], tmp_path, quick=True)
    assert [d.figure.name for d in done] == ["fig1"]
    assert str(failed["fig4"]) == "molene is not here."
    assert "Not run: fig4.</b> molene is not here." in _main.page(done, failed, tmp_path).read_text()
    with pytest.raises(NaregError, match="molene"):
        _main.reproduce(["fig4"], tmp_path, quick=True)


def no_data(settings, point):
    raise NaregError("molene is not here.")


def interrupted_point(settings, point):
    """A design that keeps its best point on Ctrl-C, as those of the library do."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        return [{"value": 1.0}]
    raise AssertionError("Ctrl-C was not delivered")


def test_a_point_cut_short_by_ctrl_c_is_not_kept(tmp_path, monkeypatch):
    figure = replace(_engine.load("fig1"), compute=interrupted_point)
    monkeypatch.setattr(_engine, "load", lambda name: figure)
    settings = replace(figure.full, **TINY["fig1"])
    with pytest.raises(KeyboardInterrupt):
        _engine.run(figure, settings, tmp_path)
    assert not list(tmp_path.rglob("0*.json"))


@pytest.mark.slow
def test_ctrl_c_keeps_points_and_says_how_to_go_on(tmp_path):
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # a job in the background ignores it
    program = [sys.executable, "-c", f"{heed}; from nareg.cli import run; run()"]
    command = [*program, "reproduce", "fig2", "--quick", *LITTLE, "--jobs", "2", "--out", str(tmp_path)]
    run = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while run.poll() is None and not list(tmp_path.rglob("0*.json")):
        time.sleep(0.1)
    os.killpg(run.pid, signal.SIGINT)
    _, stated = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "run it again to continue" in " ".join(stated.split())
    assert list(tmp_path.rglob("0*.json"))


def test_source_that_changes_while_running_is_refused(tmp_path):
    figure = _engine.load("fig1")
    settings = replace(figure.full, **TINY["fig1"])
    with pytest.raises(NaregError, match="start it again"):
        _engine._compute("fig1", settings, {"graph": 0}, tmp_path / "0.json", "another mark")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("fig2", "snr_db=0,5"), ("fig4", "snr_db=5,-5"), ("fig4", "unit_snr_db=3"), ("fig6", "snr_db=-5"),
        ("beyond", "blocks=1"), ("fig1", "__doc__=x"),
    ],
)  # fmt: skip
def test_settings_that_no_figure_can_be_drawn_from_are_refused(name, wrong):
    with pytest.raises(InputError):
        _main.changed(_engine.load(name).full, [wrong])


def test_settings_of_one_of_several_experiments_carry_its_name():
    both = ("time-us", "time-edges")
    assert _main.assigned(["time-edges.repeats=1", "time-us.snr_db=0.5,1"], both) == {
        "time-us": ["snr_db=0.5,1"],
        "time-edges": ["repeats=1"],
    }
    assert _main.assigned(["snr_db=0.5"], ["time-us"]) == _main.assigned(["time-us.snr_db=0.5"], ["time-us"])
    with pytest.raises(InputError, match=r"write --set time-us\.draws=3"):
        _main.assigned(["draws=3"], both)
    with pytest.raises(InputError, match="'fig1', which is not run: choose from time-us, time-edges"):
        _main.assigned(["fig1.draws=3"], both)


def test_a_wrong_setting_of_the_last_experiment_stops_all_before_any_is_run(tmp_path):
    with pytest.raises(InputError, match="not name=value with one of the names"):
        _main.reproduce(["example", "fig1"], tmp_path, quick=True, assignments=["fig1.no_such=1"])
    assert not list(tmp_path.glob("*.csv"))
