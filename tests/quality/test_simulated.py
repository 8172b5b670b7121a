"""From readings alone: dead, stuck and spiking sensors of simulated networks, and healthy days left alone."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.quality import Flag, check
from tests.helpers import at_night

DRAWS = 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *at_night(range(1, DRAWS))])
def test_faults_are_found_and_healthy_days_are_not(seed):
    network = nareg.datasets.simulated(20, 288, step_minutes=15, rng=np.random.default_rng(seed))
    model = nareg.spacetime.fit(network.graph(), network.readings, times=network.times)
    quality = check(model)
    result = {suspect.name: suspect.kind for suspect in quality.suspects}
    expected = {name: "spikes" if kind == "spiking" else kind for name, kind in network.faults.items()}
    assert expected.items() <= result.items()
    wrong = network.bad & network.observed
    for name, kind in network.faults.items():
        flags = quality.flags[network.names.index(name)]
        if kind == "dead":
            assert (flags == Flag.MISSING).all()
        else:
            assert np.isin(flags[wrong[network.names.index(name)]], (Flag.SUSPECT, Flag.BAD)).mean() >= 0.5
    days = network.times.astype("datetime64[D]")
    bad = quality.flags[network.healthy] == Flag.BAD
    flagged = np.array([bad[:, days == day].any(axis=1) for day in np.unique(days)])
    assert flagged.mean() < 0.05  # one in a hundred over many draws; of the 51 here at most two


@pytest.mark.slow
def test_a_short_record_in_fahrenheit_is_told_from_a_factor_of_ten():
    """Levels differ by altitude, so that the level alone would take any conversion that makes readings small."""
    network = nareg.datasets.simulated(12, 60, faults=(), rng=np.random.default_rng(0))
    readings = network.readings.copy()
    readings[4, 30:] = 1.8 * readings[4, 30:] + 32
    model = nareg.spacetime.fit(network.graph(), readings, times=network.times)
    (suspect,) = nareg.quality.check(model).suspects
    assert (suspect.station, suspect.kind) == (4, "unit")
    assert "°F instead of °C" in suspect.evidence


@pytest.mark.nightly
@pytest.mark.parametrize(("n", "times", "step", "seed"), [(10, 105_120, 300, 0), (8, 43_800, 3600, 1)])
def test_what_no_model_knows_of_a_long_record_is_no_exchange(n, times, step, seed):
    """Gains of .4 and 2 % of the squares were 19 and 38 standard deviations, and all readings of two stations bad."""
    stamps = np.datetime64("2023-03-01", "s") + np.arange(times) * np.timedelta64(step, "s")
    network = nareg.datasets.simulated(n, times, faults=(), rng=np.random.default_rng(seed))
    assert check(nareg.spacetime.fit(network.graph(), network.readings.round(2), times=stamps)).suspects == ()
