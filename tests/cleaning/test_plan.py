"""What cleaning says before it begins, and cleaning with little effort."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import nareg
from nareg.cleaning import _plan
from nareg.cleaning._plan import plan
from nareg.errors import InputError
from tests.cleaning.conftest import frames


@pytest.mark.parametrize(
    ("n", "n_times", "seconds"),
    [(7, 2_593, 2.3), (60, 432, 7.6), (20, 8_760, 14.6), (140, 365, 15.9), (36, 8_759, 39.2), (300, 1_000, 120.0)],
)
def test_seconds_are_right_within_a_factor_of_two(n, n_times, seconds):
    """Processor seconds that nareg.clean took of these tables."""
    said, unit = plan(n, n_times, "normal").split("about ")[1].rstrip(".").split(" ")
    assert seconds / 2 <= float(said) * {"s": 1, "minutes": 60}[unit] <= 2 * seconds


def test_a_long_job_is_said_with_what_makes_it_shorter(monkeypatch):
    monkeypatch.setattr(_plan, "room", lambda: (float("inf"), ""))
    said = plan(500, 80_000, "normal", 2)
    assert "hours" in said
    assert "effort fast" in said
    assert "memory" not in said
    monkeypatch.setattr(_plan, "room", lambda: (2.0**30, "1.0 GiB of this machine's memory are free"))
    said = plan(300, 80_000, "fast")
    assert "GiB of memory, and 1.0 GiB" in said
    assert "effort fast" not in said


def test_the_plan_is_said_before_the_work(network, caplog):
    steps = []
    caplog.set_level(logging.INFO, logger="nareg")

    def progress(step):
        steps.append(caplog.messages[:])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nareg.clean(*frames(network), progress=progress)
    assert steps[0][0].startswith("10 stations x 160 times: about 1 s.")


def test_fast_fills_gaps_without_a_model_and_says_what_it_left_out(network, cleaned):
    fast = nareg.clean(*frames(network), effort="fast")
    assert fast.model is None
    assert fast.quality is None
    assert np.isfinite(fast.x.to_numpy()).all()
    assert set(fast.errors.index) < set(cleaned.errors.index)
    assert any("No model is fitted" in note for note in fast.notes)


def test_fast_keeps_good_readings_where_the_neighbors_predict_best(network):
    readings = network.truth + np.random.default_rng(0).normal(0, 3, (1, 160))  # what all stations share, at a time
    table, places = frames(network)
    table.iloc[:] = np.where(table.notna(), readings.T, np.nan)
    cleaned = nareg.clean(table, places, effort="fast", quality={"correct": True})
    assert cleaned.method == "neighbors' median"
    good = cleaned.flags.to_numpy() == 2
    np.testing.assert_array_equal(cleaned.x.to_numpy()[good], readings.T[good])
    assert "Nothing is corrected: no station was checked." in cleaned.notes


def test_an_effort_that_is_none(network):
    with pytest.raises(InputError, match="effort"):
        nareg.clean(*frames(network), effort="much")
