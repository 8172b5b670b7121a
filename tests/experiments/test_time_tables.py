"""Tables of the page "who wins where": what was run is named, and no row mixes who chose the parameters."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from experiments import _graphtrss as g
from experiments import _time_tables, time_us
from experiments._claims import PAGES
from experiments._engine import load
from experiments._main import GROUPS


def test_a_run_with_other_settings_is_named_with_them():
    record = {"settings": asdict(replace(time_us.FIGURE.full, draws=1, snr_db=(0.0, 10.0))), "commit": "abc"}
    record["settings"]["snr_db"] = [0.0, 10.0]  # as JSON has it
    record["settings"]["methods"] = list(record["settings"]["methods"])
    said = _time_tables.runs("time-us", record)
    assert said.startswith("`nareg reproduce time-us --set snr_db=0.0,10.0 --set draws=1` at commit `abc`.")
    assert "full protocol" in said
    full = {"settings": asdict(time_us.FIGURE.full), "commit": "abc"}
    full["settings"] = {key: list(value) if isinstance(value, tuple) else value for key, value in full["settings"].items()}
    assert _time_tables.runs("time-us", full) == "`nareg reproduce time-us` at commit `abc`."


def test_every_time_experiment_has_a_table_and_the_page():
    assert set(_time_tables.TABLES) == set(GROUPS["time"]) == set(GROUPS["time-all"])
    assert PAGES["time"] == "who-wins-where.md"
    assert all(load(name).title for name in GROUPS["time"])


@pytest.mark.parametrize("name", ["time-graphtrss", "time-snapshots", "time-forecast"])
def test_parameters_by_the_true_error_and_from_samples_are_in_rows_of_their_own(name, data_root):
    dataset, kind = "pm25-california", _time_tables.KINDS[name]
    at = g.levels(dataset, kind)
    rows = [
        {"dataset": dataset, "method": method, "level": level, "mask": mask, "rmse": 1.0 + k, "seconds": 2.0}
        for k, method in enumerate((g.ORACLE, *g.METHODS)) for level in at for mask in range(3 if method == g.ORACLE else 2)
    ]  # fmt: skip
    text = _time_tables.TABLES[name]({"datasets": [dataset], "every": 1}, rows)[dataset]
    assert text.startswith("RMSE; 2 masks, of GraphTRSS by the true error 3.\n")
    for method, who, first in (
        ("GraphTRSS", "true error", 1), ("linear in time", "none", 2), ("GraphTRSS", "samples alone", 3),
        ("nareg.spacetime", "samples alone", 4),
    ):  # fmt: skip
        assert f"| {method} | {who} | {first} | " in text
    published = g.printed(dataset, kind, 1, "GraphTRSS")
    assert f"| published: GraphTRSS | true error | {published[0]:.3g} |" in text
    assert f"| nareg.spacetime over published GraphTRSS |  | {4 / published[0]:.3g} |" in text
    assert "| nareg.spacetime over GraphTRSS by the true error, same masks |  | 4 | " in text
