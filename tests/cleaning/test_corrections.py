"""Corrected sensors, dismissed findings and schemes of flags, from clean to the files and to tomorrow's readings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import nareg
from nareg.cleaning._learn import CleanSettings, Job, _correctable
from nareg.cleaning._report import parts
from nareg.errors import InputError
from nareg.io import Recipe
from nareg.quality import Rules

DRIFTING, FAHRENHEIT = "S03", "S05"


@pytest.fixture(scope="module")
def network():
    return nareg.datasets.simulated(12, 400, faults=(), rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def places(network):
    return pd.DataFrame(network.coordinates, network.names, ["latitude", "longitude"])


@pytest.fixture(scope="module")
def drift(network):
    """(N, T) what one station reads too much."""
    result = np.zeros(network.readings.shape)
    result[3, 150:350] = np.linspace(0, 8, 200)
    return result


@pytest.fixture(scope="module")
def table(network, drift):
    """A station that drifts for half of the record, and another one in °F."""
    readings = network.readings + drift
    readings[5] = 1.8 * readings[5] + 32
    return pd.DataFrame(readings.T, pd.DatetimeIndex(network.times, name="time"), network.names)


@pytest.fixture(scope="module")
def plain(table, places):
    return nareg.clean(table, places)


@pytest.fixture(scope="module")
def corrected(table, places):
    return nareg.clean(table, places, quality={"correct": True})


def rms(values):
    return float(np.sqrt(np.nanmean(np.square(values))))


def test_corrections_are_returned_and_not_applied_without_being_asked_for(plain, table):
    assert {(r.station, r.kind) for r in plain.corrections.itertuples()} == {(DRIFTING, "drift"), (FAHRENHEIT, "unit")}
    np.testing.assert_array_equal(plain.readings, table.to_numpy().T)
    assert any("not applied" in note for note in plain.notes)


def test_corrected_readings_are_near_the_truth(corrected, network, drift):
    rows = corrected.corrections
    own = rows[rows.station == FAHRENHEIT]
    right = dict(zip(corrected.network.readings.times, network.readings[5], strict=True))
    np.testing.assert_allclose(own.corrected, [right[time] for time in own.time], atol=1e-9)
    assert (own["std"] == 0).all()
    (suspect,) = (s for s in corrected.corrected if s.kind == "drift")
    before = drift[3, suspect.columns]
    after = suspect.corrected - network.readings[3, suspect.columns]
    assert rms(after) < 0.25 * rms(before)
    assert np.nanmean(np.abs(after) <= 1.645 * suspect.corrected_std) > 0.8


def test_the_estimate_follows_corrected_readings_and_its_band_has_the_corrections_error(plain, corrected, network):
    errors = [(cleaned.x.to_numpy().T - network.truth)[[3, 5]] for cleaned in (plain, corrected)]
    assert rms(errors[1]) < 0.4 * rms(errors[0])
    (suspect,) = (s for s in corrected.corrected if s.kind == "drift")
    assert (corrected.std.to_numpy()[suspect.columns, 3] >= suspect.corrected_std).all()
    assert set(corrected.flags.to_numpy()[:, 5]) <= {3, 9}
    assert all("Corrected." in s.evidence for s in corrected.quality.suspects)


def test_a_correction_is_not_extrapolated(corrected, table):
    (suspect,) = (s for s in corrected.corrected if s.kind == "drift")
    outside = np.setdiff1d(np.arange(400), suspect.columns)
    np.testing.assert_array_equal(corrected.readings[3, outside], table.to_numpy()[outside, 3])
    assert any("a correction is not extrapolated" in note for note in corrected.notes if note.startswith(DRIFTING))


def test_no_method_is_judged_by_what_a_correction_gives(plain, corrected):
    """It is fitted to the hidden readings too; a conversion of the unit is not."""
    (suspect,) = (s for s in corrected.corrected if s.kind == "drift")
    assert plain.hidden[3, suspect.columns].any()
    assert not corrected.hidden[3, suspect.columns].any()
    assert corrected.hidden[5].any()


def test_nothing_is_corrected_where_most_stations_would_be(corrected):
    """The others are to say what is right: all stations bad is no case for a correction."""
    for count, expected in ((6, 6), (7, 0), (12, 0)):
        job = Job.of(corrected.network, CleanSettings(quality={"correct": True}), None)
        suspects = tuple(replace(corrected.corrected[0], station=station) for station in range(count))
        assert len(_correctable(job, replace(corrected.quality, suspects=suspects))) == expected
        assert any("others are too few" in note for note in job.notes) == (expected == 0)


@pytest.mark.slow
def test_a_dismissed_unit_is_neither_flagged_nor_left_out(plain, table, places):
    assert (plain.flags[FAHRENHEIT] == 4).any()
    cleaned = nareg.clean(table, places, quality={"dismiss": [f"{FAHRENHEIT}: unit", "S01: stuck"]})
    assert not (cleaned.flags[FAHRENHEIT] == 4).any()
    assert FAHRENHEIT not in cleaned.suspects
    assert [(s.name, s.kind) for s in cleaned.quality.dismissed] == [(FAHRENHEIT, "unit")]
    assert any(note.startswith("No finding matches the dismissal 'S01: stuck'") for note in cleaned.notes)
    assert not any("fitted again" in note for note in cleaned.notes)


@pytest.mark.slow
def test_what_is_below_the_threshold_is_used(network, places):
    readings = network.readings.copy()
    readings[4, 50:90] = readings[4, 49] + 3
    table = pd.DataFrame(readings.T, pd.DatetimeIndex(network.times, name="time"), network.names)
    plain, lenient = (nareg.clean(table, places, quality={"threshold": limit}) for limit in (0, 1000))
    assert (plain.flags["S04"].iloc[55:85] == 4).mean() > 0.9
    assert not (lenient.flags == 4).any(axis=None)
    value = readings[4, 50]
    distance = [float(np.abs(cleaned.x["S04"].iloc[55:85] - value).mean()) for cleaned in (plain, lenient)]
    assert distance[1] < 0.5 * distance[0]


def test_a_dismissal_of_an_unknown_station_is_an_error(table, places):
    with pytest.raises(InputError, match=r"'Vernal: drift', but no station has that name"):
        nareg.clean(table, places, quality={"dismiss": "Vernal: drift"})


@pytest.mark.slow
def test_the_report_names_what_is_dismissed(table, places, tmp_path):
    cleaned = nareg.clean(table, places, quality={"dismiss": DRIFTING})
    page = cleaned.report(tmp_path / "report.html").read_text()
    assert f"<p>Dismissed: {DRIFTING}, drift: " in page


@pytest.mark.slow
def test_files_have_the_corrections_and_the_flags_of_the_scheme(corrected, plain, tmp_path):
    corrected.save(tmp_path)
    written = pd.read_csv(tmp_path / "corrections.csv")
    assert len(written) == len(corrected.corrections)
    assert list(written.columns) == ["time", "station", "kind", "reading", "corrected", "std"]
    replace(plain, quality=replace(plain.quality, suspects=())).save(tmp_path)
    assert not (tmp_path / "corrections.csv").exists()  # nothing is left of an earlier run
    for scheme, words in (("labels", {"ok", "gap", "not checked", "drift suspect", "unit outlier"}), ("binary", {0, 1})):
        parts(replace(plain, rules=Rules(flags=scheme)), "csv")["flags.csv"](tmp_path / "flags.csv")  # without a report
        flags = pd.read_csv(tmp_path / "flags.csv", index_col=0)
        assert set(np.unique(flags.to_numpy())) == words
        np.testing.assert_array_equal(flags.isin(["drift suspect", "unit outlier", 1]), plain.flags.isin([3, 4]))


@pytest.mark.slow
def test_tomorrow_keeps_what_is_dismissed_and_corrects_nothing(table, places, tmp_path):
    today = nareg.clean(table[:330], places, quality={"dismiss": [FAHRENHEIT], "flags": "labels"})
    today.save(tmp_path)
    model = nareg.spacetime.load(tmp_path / "model.npz")
    recipe = Recipe(quality={"dismiss": [FAHRENHEIT, DRIFTING], "flags": "labels"})
    applied = nareg.cleaning.apply(model, table, recipe=recipe)
    assert not (applied.flags[FAHRENHEIT] == 4).any()
    assert {s.name for s in applied.dismissed} >= {FAHRENHEIT}
    assert not {s.name for s in applied.suspects} & {FAHRENHEIT, DRIFTING}
    applied.append(tmp_path)
    flags = pd.read_csv(tmp_path / "flags.csv", index_col=0)
    assert len(flags) == len(table)
    assert set(np.unique(flags.drop(columns=DRIFTING).to_numpy())) <= {"ok", "gap", "not checked", "suspect"}
    assert (flags[DRIFTING].iloc[270:320] == "drift suspect").mean() > 0.8  # it was dismissed later
    with pytest.raises(InputError, match="has other flags than 'qartod'"):
        nareg.cleaning.apply(model, table).append(tmp_path)
    drifting = nareg.cleaning.apply(model, table, recipe=Recipe(quality={"correct": True}))
    assert any("not corrected" in note for note in drifting.notes)


@pytest.mark.slow
def test_directions_take_the_rules_too(network, places):
    turns = np.cumsum(np.random.default_rng(0).normal(0, 10, 150)) + np.random.default_rng(1).normal(0, 10, (12, 150))
    turns[2, 50:110] = 7.0
    table = pd.DataFrame((turns % 360).T, pd.DatetimeIndex(network.times[:150], name="time"), network.names)
    plain = nareg.clean(table, places, kind="direction", hidden=0)
    assert (plain.flags["S02"] == 4).sum() > 50
    rules = Rules(dismiss=("S02: stuck", "S03: drift"), correct=True)
    cleaned = nareg.clean(table, places, kind="direction", hidden=0, quality=rules)
    assert not (cleaned.flags["S02"] == 4).any()
    assert cleaned.corrections.empty
    assert any(note.startswith("No finding matches the dismissal 'S03: drift'") for note in cleaned.notes)
    assert not any("S02: stuck" in note for note in cleaned.notes)


@pytest.mark.slow
def test_tomorrow_of_a_sensor_that_still_drifts_has_a_wide_band(network, places):
    """Corrected or not, the model goes on from the sensor's own readings: corrected ones would end in a step."""
    readings = network.readings.copy()
    readings[3, 200:] += np.append(np.linspace(0, 8, 150), np.full(50, 8.0))
    whole = pd.DataFrame(readings.T, pd.DatetimeIndex(network.times, name="time"), network.names)
    past, new = whole[:376], whole[376:]
    for rules in (None, {"correct": True}):
        cleaned = nareg.clean(past, places, quality=rules)
        assert bool(cleaned.corrected) == (rules is not None)
        applied = nareg.cleaning.apply(cleaned.model, new)
        assert [(s.name, s.kind) for s in applied.suspects] == [(DRIFTING, "drift")]
        errors = np.abs(applied.x[DRIFTING] - network.truth[3, 376:])
        assert (errors < 2 * applied.std[DRIFTING]).mean() > 0.9
        assert rms(applied.std["S04"]) < 1.0
        assert any("drifts" in note for note in applied.notes)


@pytest.mark.slow
def test_tomorrow_in_another_unit_is_refused(network, places):
    whole = pd.DataFrame(network.readings.T, pd.DatetimeIndex(network.times, name="time"), network.names)
    model = nareg.clean(whole[:376], places).model
    with pytest.raises(InputError, match=r"mostly far from the model's.*check the unit"):
        nareg.cleaning.apply(model, 1.8 * whole[376:] + 32)


def test_without_a_check_bad_readings_are_outliers_of_no_kind_and_dismissals_are_not_doubted(network, places):
    readings = network.readings.copy()
    readings[4, 100:160] = 8.0
    readings[5, 200:260] = 9.0
    table = pd.DataFrame(readings.T, pd.DatetimeIndex(network.times, name="time"), network.names)
    cleaned = nareg.clean(table, places, effort="fast", quality={"dismiss": "S05: stuck", "flags": "labels"})
    labels = cleaned.written_flags
    assert (labels["S04"].iloc[110:150] == "outlier").all()
    assert (labels["S05"].iloc[210:250] != "outlier").all()
    assert not any("No finding matches" in note for note in cleaned.notes)


@pytest.mark.slow
def test_a_large_network_spares_what_is_dismissed(network, places, monkeypatch):
    monkeypatch.setattr("nareg.spacetime._model.fit.LARGEST", 11)
    readings = network.readings[:, :170].copy()
    readings[[4, 5], 100:160] = 8.0
    table = pd.DataFrame(readings.T, pd.DatetimeIndex(network.times[:170], name="time"), network.names)
    cleaned = nareg.clean(table, places, quality={"dismiss": "S05: stuck", "correct": True})
    share = (cleaned.flags.iloc[105:155] == 4).mean()
    assert share["S04"] > 0.9
    assert share["S05"] == 0
    assert "Nothing is corrected: no station was checked." in cleaned.notes


@pytest.mark.slow
def test_two_dismissed_findings_of_one_kind_are_both_listed(network, places):
    readings = network.readings.copy()
    readings[4, 50:110] = 8.0
    readings[4, 200:260] = 9.0
    readings[5] = 1.8 * readings[5] + 32  # so that the model is fitted again
    table = pd.DataFrame(readings.T, pd.DatetimeIndex(network.times, name="time"), network.names)
    cleaned = nareg.clean(table, places, quality={"dismiss": "S04: stuck"})
    assert [(s.name, s.kind) for s in cleaned.quality.dismissed] == [("S04", "stuck")] * 2


@pytest.mark.slow
def test_tomorrow_keeps_the_threshold(network, places):
    whole = pd.DataFrame(network.readings.T, pd.DatetimeIndex(network.times, name="time"), network.names)
    model = nareg.clean(whole[:340], places).model
    whole.iloc[345:385, 4] = whole.iloc[345, 4]
    flags = nareg.cleaning.apply(model, whole[340:], recipe=Recipe(quality={"threshold": 1000.0})).flags
    assert not (flags["S04"].iloc[5:45] == 4).any()
    assert hash(Recipe(quality={"threshold": 1000.0})) == hash(Recipe(quality={"threshold": 5.0}))


@pytest.mark.parametrize("how", ["few", "muted", "dismissed"])
def test_only_a_check_that_decides_lets_spikes_into_the_estimate(how):
    """A spike at a station of nine readings, or where spikes were not looked for, was in the estimate of all stations."""
    network = nareg.datasets.simulated(8, 120, faults=(), rng=np.random.default_rng(0))
    readings = network.truth.T + 0.2 * np.random.default_rng(1).standard_normal((120, 8))
    table = pd.DataFrame(readings, pd.DatetimeIndex(network.times, name="time"), network.names)
    if how == "few":
        table.iloc[np.arange(120) % 13 != 6, 3] = np.nan
    table.iloc[58, 3] = network.truth[3, 58] + 15
    places = pd.DataFrame(network.coordinates, network.names, ["latitude", "longitude"])
    quality = {"muted": {"checks": ["drift"]}, "dismissed": {"dismiss": "S3: spikes"}}.get(how)
    x = nareg.clean(table, places, quality=quality).x.iloc[58, 3] - network.truth[3, 58]
    assert x > 2 if how == "dismissed" else abs(x) < 1.5
