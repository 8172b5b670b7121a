"""Rules: which checks are made, how clear a finding must be, and which findings are dismissed."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.errors import InputError
from nareg.quality import Rules, check, dismissals

DAYS = np.datetime64("2025-01-01") + np.arange(10)
FAULTY = {"spikes": 2, "stuck": 5}


@pytest.fixture(scope="module")
def model():
    """Nine stations: number 2 has spikes, number 5 is stuck."""
    rng = np.random.default_rng(0)
    graph = nareg.graphs.grid((3, 3))
    readings = np.cumsum(0.1 * rng.standard_normal(300)) + 0.5 * rng.standard_normal((9, 300))
    readings[2, [40, 90, 200, 250]] += 8
    readings[5, 100:150] = readings[5, 100]
    return nareg.spacetime.fit(graph, readings, rng=np.random.default_rng(0))


def kinds(quality):
    return {(suspect.station, suspect.kind) for suspect in quality.suspects}


@pytest.mark.parametrize(("kind", "station"), FAULTY.items())
@pytest.mark.slow
def test_a_dismissed_finding_flags_nothing_and_is_listed_apart(model, kind, station):
    plain = check(model)
    assert (plain.flags[station] == 4).sum() >= 4
    for entry in (f"{station}: {kind}", str(station), f"{station}: {kind} from 0 to 299", f"{station}:{kind}"):
        quality = check(model, rules=Rules(dismiss=(entry,)))
        assert kinds(quality) == kinds(plain) - {(station, kind)}
        assert [(s.station, s.kind) for s in quality.dismissed] == [(station, kind)]
        assert not (quality.flags[station] == 4).any()
        others = np.arange(9) != station
        np.testing.assert_array_equal(quality.flags[others], plain.flags[others])
        assert f"dismissed {station}, {kind}: " in quality.summary()


def test_a_dismissal_of_other_times_or_kinds_leaves_a_finding(model):
    for entry in ("5: stuck from 200", "5: stuck to 110", "5: drift"):
        quality = check(model, rules=Rules(dismiss=entry))
        assert (5, "stuck") in kinds(quality)
        assert not quality.dismissed


def test_checks_and_threshold_leave_findings_out(model):
    assert kinds(check(model, rules=Rules(checks="stuck"))) == {(5, "stuck")}
    without = check(model, rules=Rules(checks=("dead", "drift")))
    assert not kinds(without)
    assert set(np.unique(without.flags)) <= {1, 3, 9}
    plain = check(model)
    clearest = plain.suspects[0]
    assert kinds(check(model, rules=Rules(threshold=clearest.score))) == {(clearest.station, clearest.kind)}


def test_days_last_to_their_end():
    (entry,) = dismissals(Rules(dismiss="A: drift from 2025-01-03 to 2025-01-05"), ["A", "B"], DAYS)
    assert np.flatnonzero(entry.during).tolist() == [2, 3, 4]


def test_the_longest_name_that_fits_is_the_station():
    names = ["A", "A: east", "B"]
    assert [d.station for d in dismissals(Rules(dismiss=("A", "A: east", "A: east: drift", "A: drift")), names, DAYS)] == [
        0,
        1,
        1,
        0,
    ]


def test_times_with_an_offset_are_taken_in_utc():
    (entry,) = dismissals(Rules(dismiss="A: drift from 2025-01-03 02:00+02:00 to 2025-01-05 01:59+02:00"), ["A"], DAYS)
    assert np.flatnonzero(entry.during).tolist() == [2, 3]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("C: drift", "no station has that name"),
        ("A: drfit", "with a kind of dead, stuck"),
        ("A: drift from May", "'May' is no time"),
        ("A drift", "no station has that name"),
    ],
)
def test_a_dismissal_that_cannot_be_understood_says_what_to_pass(entry, said):
    with pytest.raises(InputError, match=said):
        dismissals(Rules(dismiss=entry), ["A", "B"], DAYS)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"check": ["drift"]}, "'check': it may have checks, threshold, dismiss, ranges, reference, correct, flags"),
        ({"checks": ["drfit"]}, "choose one of"),
        ({"threshold": -1}, "at least 0"),
        ({"dismiss": [3]}, "texts in quotes"),
        ({"correct": "yes"}, "true or false"),
        ({"flags": "words"}, "'qartod', 'labels', 'binary'"),
        (["drift"], "a mapping"),
    ],
)
def test_a_table_of_rules_with_errors_names_the_entry(table, said):
    with pytest.raises(InputError, match=said):
        Rules.of(table)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("A: drift from 2025-01-05 to 2025-01-03", "ends before it begins"),
        ("A: drift from NaT", "is no time"),
        ("A: drift from now", "is no time"),
    ],
)
def test_times_of_a_dismissal_that_cannot_be_are_refused(entry, words):
    with pytest.raises(InputError, match=words):
        dismissals(Rules(dismiss=entry), ["A", "B"], DAYS)


def test_a_space_may_stand_before_the_colon():
    (entry,) = dismissals(Rules(dismiss=" A : drift"), ["A", "A2"], DAYS)
    assert (entry.station, entry.kind) == (0, "drift")


def test_readings_beyond_a_range_are_bad_and_listed(model):
    low, high = np.nanquantile(model.readings, [0.01, 0.99])
    plain, quality = check(model), check(model, rules={"ranges": f"{low} to {high}"})
    outside = (model.readings < low) | (model.readings > high)
    assert outside.sum() > 20
    assert (quality.flags[outside] == 4).all()
    assert {s.station for s in quality.suspects if s.kind == "range"} == set(np.flatnonzero(outside.any(axis=1)))
    assert not any(s.kind == "range" for s in plain.suspects)
    own = check(model, rules=Rules(ranges=(f"3: {low} to", "2: to 1e3"), dismiss="3: range")).flags
    np.testing.assert_array_equal(own, plain.flags)
    own = check(model, rules={"ranges": f"3: {low} to"})
    assert (own.flags[3, model.readings[3] < low] == 4).all()
    assert {s.station for s in own.suspects if s.kind == "range"} == {3}


@pytest.mark.parametrize("text", ["5 to 3", "to", "hot", "1 to 2 to 3", "nan to 3", "3", ": 1 to 2 deg"])
def test_a_range_that_is_none_is_refused(text):
    with pytest.raises(InputError, match="pass a lower and an upper end, as '-30 to 50'"):
        Rules(ranges=text)


def test_a_range_of_a_station_that_is_none_is_refused(model):
    with pytest.raises(InputError, match="'Vernal: 0 to 5', but no station has that name"):
        check(model, rules={"ranges": "Vernal: 0 to 5"})
