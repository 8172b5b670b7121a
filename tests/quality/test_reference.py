"""Sensors beside a station of known quality: calibrated by it, unless their times or units differ."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import nareg
from nareg.cleaning._parts import neighborhoods
from nareg.errors import InputError
from nareg.quality import Rules, check
from tests.command_line import run

NAMES = ("A", "B", "C", "D", "MONITOR")
#: A to C and the monitor stand at one place, D 20 km away.
PLACES = np.array([[50.0, 8.0]] * 3 + [[50.18, 8.0]] + [[50.0, 8.0005]])
T = 600


@pytest.fixture(scope="module")
def truth():
    """(T,) hourly particles, around 12 µg/m³."""
    rng = np.random.default_rng(3)
    slow = np.zeros(T)
    for t in range(1, T):
        slow[t] = 0.95 * slow[t - 1] + 0.15 * rng.standard_normal()
    return 12 * np.exp(slow + 0.3 * np.sin(2 * np.pi * np.arange(T) / 24))


@pytest.fixture(scope="module")
def table(truth):
    """A reads 1.9 times too much, B is right, C 1.4 times and 4 more; what D reads is its own affair."""
    rng = np.random.default_rng(4)
    readings = np.array([1.9 * truth, truth, 1.4 * truth + 4, 1.3 * np.roll(truth, 3) + 6, truth])
    readings += rng.normal(0, 0.8, readings.shape)
    return pd.DataFrame(readings.T, pd.date_range("2025-01-01", periods=T, freq="1h"), NAMES)


@pytest.fixture(scope="module")
def places():
    return pd.DataFrame(PLACES, pd.Index(NAMES, name="station"), ["latitude", "longitude"])


def gains(quality):
    return {suspect.name: suspect for suspect in quality.suspects if suspect.kind == "gain"}


def checked(table, rules):
    graph = nareg.Graph.from_knn(PLACES, 3, metric="haversine", names=NAMES)
    times = table.index.to_numpy()
    model = nareg.spacetime.fit(graph, table.to_numpy().T, times=times, rng=np.random.default_rng(0))
    return check(model, rules=rules)


def error(values, truth):
    return float(np.sqrt(np.nanmean((values - truth) ** 2)))


@pytest.mark.slow
def test_sensors_are_corrected_by_the_reference(table, places, truth):
    cleaned = nareg.clean(table, places, quality={"reference": "MONITOR", "correct": True})
    assert set(gains(cleaned.quality)) == {"A", "C"}  # B is right, and D is too far away to tell
    for k in (0, 2):
        assert error(table.to_numpy()[:, k], truth) > 8
        assert error(cleaned.readings[k], truth) < 1.0
    assert "differ from those of MONITOR beside it by" in gains(cleaned.quality)["A"].evidence
    assert not any(suspect.name == "MONITOR" for suspect in cleaned.quality.suspects)
    # the correction holds the reference's own noise, and that of the sensor
    inside = np.abs(cleaned.readings[0] - truth) <= 1.645 * gains(cleaned.quality)["A"].corrected_std
    assert inside.mean() > 0.9


@pytest.mark.slow
def test_without_a_reference_nobody_says_who_is_right(table, places):
    cleaned = nareg.clean(table, places, quality={"correct": True})
    assert not gains(cleaned.quality)


@pytest.mark.slow
def test_a_correction_holds_when_the_reference_is_gone(table, places, truth):
    half = table.copy()
    half.loc[half.index[T // 2 :], "MONITOR"] = np.nan
    cleaned = nareg.clean(half, places, quality={"reference": "MONITOR", "correct": True})
    low, high = (getattr(half["A"].iloc[: T // 2], name)() for name in ("min", "max"))
    known = ((half["A"] >= low) & (half["A"] <= high)).to_numpy() & (np.arange(T) >= T // 2)
    assert error(cleaned.readings[0][known], truth[known]) < 1.3
    beyond = ~known & (np.arange(T) >= T // 2)
    assert beyond.any()  # and what the reference never saw is not extrapolated
    np.testing.assert_array_equal(cleaned.readings[0][beyond], half["A"].to_numpy()[beyond])
    evidence = gains(cleaned.quality)["A"].evidence
    assert f"{beyond.sum()} reading" in evidence
    assert "stay as they are." in evidence


@pytest.mark.slow
def test_another_clock_is_said_and_nothing_corrected(table):
    moved = table.copy()
    moved["MONITOR"] = np.roll(moved["MONITOR"], -5)
    for suspect in gains(checked(moved, Rules(reference="MONITOR"))).values():
        assert "if the clock of MONITOR is 5 h behind" in suspect.evidence
        assert suspect.corrected is None


def test_another_unit_is_said_and_nothing_corrected(truth):
    rng = np.random.default_rng(5)
    celsius = np.array([truth] * 5) + rng.normal(0, 0.3, (5, T))
    celsius[4] = 1.8 * celsius[4] + 32
    table = pd.DataFrame(celsius.T, pd.date_range("2025-01-01", periods=T, freq="1h"), NAMES)
    suspects = gains(checked(table, Rules(reference="MONITOR")))
    assert set(suspects) == {"A", "B", "C"}
    for suspect in suspects.values():
        assert "MONITOR looks in °F instead of °C" in suspect.evidence
        assert suspect.corrected is None


def test_a_reference_that_is_stuck_is_a_suspect(table):
    still = table.copy()
    still.iloc[100:200, 4] = still.iloc[100, 4]
    assert {("MONITOR", "stuck")} <= {(s.name, s.kind) for s in checked(still, Rules(reference="MONITOR")).suspects}


@pytest.mark.slow
def test_names_and_places_are_asked_for(table, places):
    with pytest.raises(InputError, match=r"quality.reference has 'M', but no station has that name"):
        nareg.clean(table, places, quality={"reference": "M"})
    assert (
        "No station is within 100 m of D: nothing is compared with a reference."
        in nareg.clean(table, places, quality={"reference": "D"}).notes
    )
    with pytest.raises(InputError, match=r"quality.reference is MONITOR, but stations have no places"):
        nareg.clean(table, quality={"reference": "MONITOR"})


@pytest.mark.slow
def test_tomorrow_is_corrected_too(table, places, truth):
    rules = {"reference": "MONITOR", "correct": True}
    model = nareg.clean(table.iloc[:-24], places, quality=rules).model
    last = table.iloc[-24:].assign(MONITOR=np.nan)
    applied = nareg.cleaning.apply(model, last, recipe=nareg.io.Recipe(quality=rules))
    assert "A: 24 of 24 new readings corrected by the reference beside it." in applied.notes
    assert error(last["A"], truth[-24:]) > 4
    for name in ("A", "B", "C", "MONITOR"):
        assert error(applied.x[name].to_numpy(), truth[-24:]) < 1.0, name


@pytest.mark.slow
def test_what_does_not_follow_the_reference_is_not_corrected(table, places, truth):
    rng = np.random.default_rng(9)
    for own in (60 + 20 * rng.standard_normal(T), 100 - 1.5 * truth):
        rules = {"reference": "MONITOR", "correct": True}
        cleaned = nareg.clean(table.assign(A=own), places, quality=rules)
        assert "do not rise and fall with those of MONITOR" in gains(cleaned.quality)["A"].evidence
        assert [suspect.name for suspect in cleaned.corrected] == ["C"]


def test_a_sensor_that_is_exchanged_for_a_right_one_is_not_corrected(table, truth):
    exchanged = table.copy()
    exchanged.iloc[-60:, 0] = exchanged.iloc[-60:, 1]
    suspect = gains(checked(exchanged, Rules(reference="MONITOR")))["A"]
    assert suspect.corrected is None
    assert "in a part of the record, that is much farther off. One of the two changed." in suspect.evidence


def test_a_calm_does_not_refute_a_correction(table):
    calm = table.copy()
    calm.iloc[120:180, [0, 4]] = np.random.default_rng(6).normal(0, 0.01, (60, 2))
    assert gains(checked(calm, Rules(reference="MONITOR")))["A"].corrected is not None


@pytest.mark.slow
def test_a_law_that_changes_is_said(table, truth):
    changed = table.copy()
    changed.iloc[T // 2 :, 0] = 1.1 * truth[T // 2 :] + 8
    assert "one of the two changes" in gains(checked(changed, Rules(reference="MONITOR")))["A"].evidence
    assert "changes" not in gains(checked(table, Rules(reference="MONITOR")))["A"].evidence


@pytest.mark.slow
def test_a_reference_with_enough_readings_is_taken(table, places, truth):
    both = table.assign(D=truth)
    both.iloc[30:, 4] = np.nan
    beside = places.copy()
    beside.loc["D"] = [50.0002, 8.0006]
    cleaned = nareg.clean(both, beside, quality={"reference": ["MONITOR", "D"], "correct": True})
    assert {suspect.name for suspect in cleaned.corrected} == {"A", "C"}
    assert "those of D beside it" in gains(cleaned.quality)["A"].evidence
    few = nareg.clean(both, places, quality={"reference": "MONITOR"})
    assert "MONITOR has too few times in common with stations 'A', 'B', 'C' beside it to be compared." in few.notes


@pytest.mark.parametrize("effort", ["fast", "normal"])
def test_what_is_compared_with_no_reference_is_said(table, places, effort):
    rain = table.clip(lower=0).mul(np.random.default_rng(0).random(T) > 0.7, axis=0)
    notes = nareg.clean(rain, places, quality={"reference": "MONITOR"}, effort=effort).notes
    assert any(note.startswith("Nothing is compared with MONITOR: ") for note in notes)


@pytest.mark.slow
def test_directions_are_compared_with_no_reference(table, places):
    rng = np.random.default_rng(2)
    wind = 200 + np.cumsum(6 * rng.standard_normal((T, 1)), axis=0) + np.array([60, 0, 0, 0, 0])
    turned = pd.DataFrame((wind + rng.normal(0, 4, (T, 5))) % 360, table.index, NAMES)
    rules = {"reference": "MONITOR"}
    cleaned = nareg.clean(turned, places, kind="direction", quality=rules)
    assert "Directions are not compared with a reference." in cleaned.notes
    plain = nareg.clean(
        turned, places, kind="direction", quality={"dismiss": [f"MONITOR: {kind}" for kind in ("level", "drift")]}
    )
    pd.testing.assert_frame_equal(cleaned.flags, plain.flags)


def test_a_sensor_is_checked_in_the_part_of_its_reference():
    rng = np.random.default_rng(0)
    graph = nareg.Graph.from_knn(np.sort(rng.random((300, 2)), axis=0), 3)
    apart = next((i, j) for one, two in itertools.pairwise(neighborhoods(graph)) for i, j in [(int(one[-1]), int(two[0]))])
    assert not any({*apart} <= {*part} for part in neighborhoods(graph))
    parts = neighborhoods(graph, [apart])
    assert any({*apart} <= {*part} for part in parts)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(300))


@pytest.mark.slow
def test_tomorrow_is_not_corrected_where_that_would_be_farther_off(table, places, truth):
    rules = {"reference": "MONITOR", "correct": True}
    model = nareg.clean(table.iloc[:-24], places, quality=rules).model
    repaired = table.iloc[-24:].assign(A=truth[-24:] + 0.3)
    applied = nareg.cleaning.apply(model, repaired, recipe=nareg.io.Recipe(quality=rules))
    assert "A: new readings are not corrected, for they are nearer to the reference as they are." in applied.notes
    assert "C: 24 of 24 new readings corrected by the reference beside it." in applied.notes
    assert applied.std["A"].mean() < 0.6


@pytest.mark.slow
def test_corrections_stay_within_the_bounds(places, truth):
    rng = np.random.default_rng(4)
    humidity = np.clip(75 + 18 * np.sin(2 * np.pi * np.arange(T) / 24) + 7 * np.log(truth / 12), 5, 100)
    readings = np.array([0.8 * humidity + 5, humidity, 0.6 * humidity + 30, np.roll(humidity, 3), humidity])
    table = pd.DataFrame(
        np.clip(readings + rng.normal(0, 0.8, readings.shape), 0, 100).T,
        pd.date_range("2025-01-01", periods=T, freq="1h"),
        NAMES,
    )
    cleaned = nareg.clean(table, places, quality={"reference": "MONITOR", "correct": True})
    assert {suspect.name for suspect in cleaned.corrected} == {"A", "C"}
    assert cleaned.corrections["corrected"].max() == 100
    assert cleaned.x.to_numpy().max() <= 100


@pytest.mark.slow
def test_the_command(table, places, tmp_path):
    table.rename_axis("time").to_csv(tmp_path / "readings.csv")
    places.to_csv(tmp_path / "stations.csv")
    done = run(
        "clean", tmp_path / "stations.csv", tmp_path / "readings.csv", "--reference", "MONITOR", "--correct", "--out",
        tmp_path / "clean",
    )  # fmt: skip
    assert "A, gain: 600 readings corrected." in done.stdout + done.stderr
    assert set(pd.read_csv(tmp_path / "clean" / "corrections.csv")["station"]) == {"A", "C"}
