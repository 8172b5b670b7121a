"""Every kind of fault is found, healthy networks are left alone, bad input gets an answer or a sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nareg
from nareg.errors import InputError
from nareg.quality import Flag, check, scores
from nareg.quality._clock import lags_of
from nareg.spacetime import leaps
from nareg.spacetime._readings import times as _times

from ..spacetime.reference import model_of, parameters
from .conftest import N, T, drawn, known_model


def kinds(quality, station: int) -> set[str]:
    return {suspect.kind for suspect in quality.suspects if suspect.station == station}


@pytest.mark.slow
def test_a_healthy_network_has_no_suspects_and_hardly_a_bad_reading(rng):
    bad = []
    for _ in range(3):
        coordinates, readings = drawn(rng)
        quality = check(known_model(readings, coordinates))
        assert quality.suspects == ()
        bad.append((quality.flags == Flag.BAD).mean())
    assert np.mean(bad) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("minutes", "memory"), [(5, 0.995), (10, 0.99), (60, 0.9), (1440, 0.6)])
@pytest.mark.parametrize("n", [4, 5, 20])
def test_slow_fields_have_no_suspects(rng, n, minutes, memory):
    """Readings of the model itself, as dense in time as loggers give them: hundreds of readings say what one would."""
    T = 600
    times = np.datetime64("2024-03-01", "s") + np.arange(T) * np.timedelta64(60 * minutes, "s")
    for noise in (0.0025, 0.1):
        process = parameters(n, phi=(memory,), reach=120.0, noise=noise, eta=1e-6)
        coordinates = np.column_stack([47 + 2 * rng.random(n), 2 + 3 * rng.random(n)])
        graph = nareg.Graph.from_knn(coordinates, min(4, n - 1), metric="haversine")
        readings = model_of(graph, np.zeros((n, T)), process=process, times=times).simulate(rng)[1]
        quality = check(model_of(graph, readings, process=process, times=times, level=readings.mean(axis=1)))
        assert [suspect for suspect in quality.suspects if suspect.kind != "spikes"] == []


def test_a_clock_is_off_by_what_clocks_are_off_by():
    """Half hours and whole hours of zones and daylight saving, half a day and a day, where steps allow them."""
    for minutes, expected in ((5, 6), (10, 3), (60, 1), (180, 1), (1440, 1)):
        lags = lags_of(_times.grid(np.datetime64("2024-03-01", "s") + np.arange(50) * np.timedelta64(60 * minutes, "s")))
        assert lags[lags > 0].min() == expected
        assert lags.max() == 1440 // minutes
        np.testing.assert_array_equal(lags, -lags[::-1])
        hours = np.abs(lags) * minutes / 60
        assert set(hours[hours < 24] * 2 % 1) <= {0.0}
        assert hours[hours < 24].max(initial=0) <= 14


def test_spikes(case, rng):
    coordinates, readings = case
    at = rng.choice(T, 12, replace=False)
    readings[5, at] += rng.choice([-1.0, 1.0], 12) * 3.0
    quality = check(known_model(readings, coordinates))
    assert (quality.flags[5, at] == Flag.BAD).mean() > 0.9
    assert kinds(quality, 5) == {"spikes"}
    suspect = quality.suspects[0]
    assert suspect.name == "S5"
    assert suspect.score > 5
    assert "readings are" in suspect.evidence
    flagged = np.flatnonzero(quality.flags[5] == Flag.BAD)
    assert suspect.start == flagged[0]
    assert suspect.stop == flagged[-1]


def test_scores_of_readings_are_standard_normal(case):
    coordinates, readings = case
    values = check(known_model(readings, coordinates)).scores
    assert abs(values.mean()) < 0.05
    assert 0.85 < values.std() < 1.05


def test_stuck(case):
    coordinates, readings = case
    readings[3, 100:130] = readings[3, 100]
    quality = check(known_model(readings, coordinates))
    assert (quality.flags[3, 101:130] == Flag.BAD).all()
    assert quality.flags[3, 100] == Flag.GOOD  # the reading that is repeated was right
    assert kinds(quality, 3) == {"stuck"}
    assert "at 30 times in a row, from 100 to 129" in quality.suspects[0].evidence


def test_a_frozen_network_is_one_finding_and_accuses_nobody(rng):
    """A healthy station drifted afterwards, and its correction made it worse."""
    coordinates, readings = drawn(rng)
    readings = np.round(readings, 1)
    readings[:, 101:141] = readings[:, [100]]
    quality = check(known_model(readings, coordinates))
    assert {(suspect.kind, suspect.shared) for suspect in quality.suspects} == {("stuck", True)}
    (event,) = nareg.quality.events(quality.suspects)
    assert event.name == f"S0 and {N - 1} more"
    assert event.evidence == f"{N} of {N} stations repeat their values, from 101 to 140: the logger or the link stood still."
    np.testing.assert_array_equal(quality.flags[:, 101:141], Flag.BAD)
    assert (quality.flags[:, :101] == Flag.GOOD).mean() > 0.99


def test_dead_from_the_start_and_from_some_time_on(case):
    coordinates, readings = case
    readings[1] = np.nan
    readings[2, 150:] = np.nan
    quality = check(known_model(readings, coordinates))
    assert kinds(quality, 1) == {"dead"}
    assert kinds(quality, 2) == {"dead"}
    assert (quality.flags[1] == Flag.MISSING).all()
    assert (quality.flags[2, 150:] == Flag.MISSING).all()
    assert "last 150 times" in next(s for s in quality.suspects if s.station == 2).evidence


def test_most_stations_without_a_reading_are_one_finding(case):
    coordinates, readings = case
    readings[3:] = np.nan
    silent = [suspect for suspect in check(known_model(readings, coordinates)).suspects if suspect.kind == "dead"]
    assert len(silent) == N - 3
    assert {suspect.evidence for suspect in silent} == {
        f"{N - 3} of {N} stations have no reading: do they read another quantity?"
    }
    assert all(suspect.shared for suspect in silent)


def test_noisy(case, rng):
    coordinates, readings = case
    readings[7] += 1.5 * rng.standard_normal(T)
    quality = check(known_model(readings, coordinates))
    assert "noisy" in kinds(quality, 7)
    assert (quality.flags[7] != Flag.GOOD).all()


@pytest.mark.parametrize("start", [0, 120])
def test_drift(case, start):
    coordinates, readings = case
    readings[4, start:] += np.linspace(0, 4, T - start)
    quality = check(known_model(readings, coordinates))
    assert kinds(quality, 4) == {"drift"}
    assert (quality.flags[4, -20:] >= Flag.SUSPECT).all()
    assert {suspect.station for suspect in quality.suspects} == {4}
    assert quality.badness[4, -60:].min() > np.quantile(quality.badness[np.arange(N) != 4], 0.99)


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "constant", "name"), [(1.8, 32.0, "°F instead of °C"), (10.0, 0.0, "10 times too large")])
@pytest.mark.parametrize("start", [0, 140])
def test_unit(case, factor, constant, name, start):
    coordinates, readings = case
    readings[6, start:] = factor * readings[6, start:] + constant
    level = np.full(N, 15.0)
    level[6] = readings[6].mean()  # a fit takes the mean of what was read
    quality = check(known_model(readings, coordinates, level=level))
    assert kinds(quality, 6) == {"unit"}
    assert name in quality.suspects[0].evidence
    assert (quality.flags[6, start:] == Flag.BAD).all()
    assert {suspect.station for suspect in quality.suspects} == {6}


@pytest.mark.parametrize(
    ("factor", "constant", "name"),
    [(1.8, 32.0, "°F instead of °C"), (1.0, 273.15, "K instead of °C"), (100.0, 0.0, "100 times too large"), (1.0, 20.0, None)],
)
def test_a_unit_for_a_while(case, factor, constant, name):
    """Its readings were spikes, and nothing was corrected; what is off by a constant has no other unit."""
    coordinates, readings = case
    right = readings[6, 90:130].copy()
    readings[6, 90:130] = factor * right + constant
    quality = check(known_model(readings, coordinates), quantity=("°C",))
    if name is None:
        assert "unit" not in kinds(quality, 6)
        return
    assert {(suspect.station, suspect.kind) for suspect in quality.suspects} == {(6, "unit")}
    assert name in quality.suspects[0].evidence
    assert np.array_equal(np.flatnonzero(quality.flags[6] == Flag.BAD), np.arange(90, 130))
    np.testing.assert_allclose(quality.suspects[0].corrected, right)


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 140])
@pytest.mark.parametrize("steps", [-7, 5])
def test_clock(rng, steps, start):
    coordinates = rng.uniform(0, 0.5, (N, 2))  # so near that neighbors tell most of what a station reads
    _, readings = known_model(np.full((N, T), 15.0), coordinates).simulate(rng, n_times=T)
    late = readings.copy()
    late[6, start:] = np.roll(readings[6], steps)[start:]
    quality = check(known_model(late, coordinates))
    assert kinds(quality, 6) == {"clock"}
    assert f"if its clock is {abs(steps)} {'ahead' if steps > 0 else 'behind'}" in quality.suspects[0].evidence
    assert {suspect.station for suspect in quality.suspects} == {6}
    assert (quality.flags[6, start + 20 : -10] >= Flag.SUSPECT).all()
    assert quality.suspects[0].size == pytest.approx(np.std((late - readings)[6, start + 7 : -7]), rel=0.35)


def test_no_clock_is_wrong_in_a_field_that_moves(rng):
    """A front reaches one station a step after another, and there is no fault."""
    coordinates = np.stack([np.linspace(0, 3, N), rng.uniform(0, 0.3, N)], axis=1)
    _, readings = drawn(rng)
    wave = np.cumsum(rng.standard_normal(T + 40))
    readings = (
        15 + 0.3 * wave[20 + np.arange(T)[None] - np.rint(coordinates[:, [0]]).astype(int)] + 0.3 * rng.standard_normal((N, T))
    )
    assert "clock" not in {suspect.kind for suspect in check(known_model(readings, coordinates)).suspects}


def test_flags_and_scores_are_missing_where_readings_are(case):
    coordinates, readings = case
    readings[:, 50] = np.nan
    readings[9, 9:] = np.nan
    quality = check(known_model(readings, coordinates))
    missing = ~np.isfinite(readings)
    assert ((quality.flags == Flag.MISSING) == missing).all()
    assert (np.isnan(quality.scores) == missing).all()
    assert (np.isnan(quality.badness) == missing).all()
    assert (quality.flags[9, :9] == Flag.UNKNOWN).all()
    assert quality.flags.dtype == np.int8


def test_other_readings_than_those_of_the_fit(case, rng):
    coordinates, readings = case
    model = known_model(readings, coordinates)
    later = model.simulate(rng, n_times=80)[1]
    later[2, 40] += 5
    quality = check(model, later, times=np.arange(80.0) + T)
    assert quality.flags[2, 40] == Flag.BAD
    assert quality.flags.shape == (N, 80)


@pytest.mark.slow
def test_scores_are_the_badness_of_a_check(case):
    coordinates, readings = case
    model = known_model(readings, coordinates)
    np.testing.assert_array_equal(scores(model.graph, readings, model=model), check(model, readings).badness)


@pytest.mark.slow
def test_nothing_depends_on_the_order_of_the_stations(case, rng):
    coordinates, readings = case
    readings[4, 120:] += np.linspace(0, 4, T - 120)
    readings[3, 100:130] = readings[3, 100]
    order = rng.permutation(N)
    one, two = check(known_model(readings, coordinates)), check(known_model(readings[order], coordinates[order]))
    np.testing.assert_array_equal(one.flags[order], two.flags)
    np.testing.assert_allclose(one.badness[order], two.badness, rtol=1e-6)


def test_a_constant_station_is_stuck_and_twins_are_no_fault(rng):
    coordinates = rng.uniform(0, 3, (N, 2))
    coordinates[11] = coordinates[10]
    readings = known_model(np.full((N, T), 15.0), coordinates).simulate(rng, n_times=T)[1]
    readings[8] = 3.0
    quality = check(known_model(readings, coordinates))
    assert {suspect.station for suspect in quality.suspects} == {8}
    assert "stuck" in kinds(quality, 8)
    assert np.isfinite(quality.badness).all()


def test_two_stations_are_enough(rng):
    coordinates, readings = drawn(rng, 2, 100)
    readings[1, 50] += 6
    quality = check(known_model(readings, coordinates))
    assert quality.flags[1, 50] == Flag.BAD


def test_readings_that_are_all_missing_are_all_missing(case):
    coordinates, readings = case
    quality = check(known_model(readings, coordinates), np.full((N, T), np.nan))
    assert (quality.flags == Flag.MISSING).all()
    assert {s.kind for s in quality.suspects} <= {"dead"}


def test_bad_input_gets_a_sentence(case):
    coordinates, readings = case
    model = known_model(readings, coordinates)
    with pytest.raises(InputError, match=r"model is a ndarray: pass the result of nareg\.spacetime\.fit"):
        check(readings)
    with pytest.raises(InputError, match="transposed"):
        check(model, readings.T)
    with pytest.raises(InputError, match="pass times as well"):
        check(model, readings[:, :50])
    with pytest.raises(InputError, match="is infinite"):
        check(model, np.where(readings == readings[0, 0], np.inf, readings))
    with pytest.raises(InputError, match="not fitted to this graph"):
        scores(nareg.graphs.grid((3, 3)), readings, model=model)


def test_summary_counts_and_names(case):
    coordinates, readings = case
    readings[3, 100:130] = readings[3, 100]
    readings[1] = np.nan
    text = check(known_model(readings, coordinates)).summary()
    assert "29 bad" in text
    assert "300 missing" in text
    assert "S3, stuck:" in text
    assert "S1, dead:" in text


def test_a_sensor_stuck_at_an_absurd_value_is_stuck_and_has_no_spikes():
    """Its frozen readings had no scores, and its spikes were 'nan standard deviations' off."""
    network = nareg.datasets.simulated(8, 400, faults=(), rng=np.random.default_rng(1))
    readings = network.readings.copy()
    readings[2, 60:90] = 7999.0
    times = np.array(network.times, dtype="datetime64[ns]")
    found = check(nareg.spacetime.fit(network.graph(), readings, times=times, rng=np.random.default_rng(0)))
    mine = [suspect for suspect in found.suspects if suspect.name == network.names[2]]
    assert [suspect.kind for suspect in mine] == ["stuck"]
    assert not any("nan" in suspect.evidence for suspect in found.suspects)
    assert (found.flags[2, 60:90] == Flag.BAD).all()


@pytest.mark.slow
def test_stations_with_the_readings_of_others_say_nothing_of_the_noise():
    """Sites that take the nearest weather station's readings are many copies of few: the others are not noisy for it."""
    rng = np.random.default_rng(0)
    coordinates, readings = drawn(rng)
    readings[:8], readings[8:14] = readings[0], readings[8]
    coordinates[:8] = coordinates[0] + 0.01 * rng.random((8, 2))
    coordinates[8:14] = coordinates[8] + 0.01 * rng.random((6, 2))
    table = np.round(readings, 1)
    model = nareg.spacetime.fit(nareg.Graph.from_knn(coordinates, 5), table, rng=rng)
    ratio = np.sqrt(model.noise[14:] / np.median(model.noise))
    assert ratio.max() > 3
    assert not any("noisy" in kinds(check(model), i) for i in range(14, N))


def test_noise_within_a_step_of_the_instrument_is_no_fault(rng):
    """Four times the noise of the others is 0.08 °C: in readings to tenths nobody sees it."""
    coordinates, readings = drawn(rng, noise=0.01)
    readings[4] += 0.07 * rng.standard_normal(T)
    for decimals, expected in ((1, set()), (4, {"noisy"})):
        model = known_model(np.round(readings, decimals), coordinates, noise=0.02)
        unit_noise = np.where(np.arange(N) == 4, 0.08**2, model.unit_noise)
        assert kinds(check(replace(model, unit_noise=unit_noise)), 4) == expected


def test_noise_that_no_residual_shows_makes_no_noisy_station(rng):
    """Lasting faults enlarge the noise of a fit."""
    coordinates, readings = drawn(rng)
    noise = np.where(np.arange(N) == 3, 2.1, 0.3)
    assert kinds(check(known_model(readings, coordinates, noise=noise)), 3) == set()
    readings[3] += rng.normal(0, 2.1, T)
    assert kinds(check(known_model(readings, coordinates, noise=noise)), 3) == {"noisy"}


def test_a_well_that_is_pumped_every_day_is_not_noisy(rng):
    """Its level falls and recovers within hours, smoothly, as no other does: a fit takes that for noise."""
    coordinates, readings = drawn(rng)
    noise = np.where(np.arange(N) == 3, 3.0, 0.3)
    drawdown = np.zeros(T)
    for t in range(1, T):
        drawdown[t] = 0.75 * drawdown[t - 1] - 4.0 * (6 <= t % 24 < 20)
    pumped = np.where(np.arange(N)[:, None] == 3, readings + drawdown - drawdown.mean(), readings)
    assert kinds(check(known_model(pumped, coordinates, noise=noise)), 3) == set()
    readings[3] += rng.normal(0, 3.0, T)
    assert kinds(check(known_model(readings, coordinates, noise=noise)), 3) == {"noisy"}


@pytest.mark.parametrize(("unlike", "expected"), [(0.0, {"noisy"}), (0.3, set())])
def test_a_place_as_rough_as_others_is_not_noisy(rng, unlike, expected):
    """Two places of a cold sea tongue were noisy in a network whose places are rougher and calmer by nature."""
    coordinates, readings = drawn(rng, noise=0.02)
    natural = np.exp(unlike * np.linspace(-1.5, 1.5, N))
    natural[3] = 1.0
    readings = 15 + natural[:, None] * (readings - 15)
    readings[3] += rng.normal(0, 0.3, T)
    noise = np.where(np.arange(N) == 3, 0.3, 0.02)
    assert kinds(check(known_model(readings, coordinates, noise=noise)), 3) == expected


def test_a_noisy_station_that_alone_reads_at_every_step(rng):
    """Nobody else has third differences to compare it with."""
    coordinates, readings = drawn(rng)
    readings[3] += rng.normal(0, 2.1, T)
    readings[:, 1::2] = np.where(np.arange(N) == 3, readings[:, 1::2].T, np.nan).T
    noise = np.where(np.arange(N) == 3, 2.1, 0.3)
    assert kinds(check(known_model(readings, coordinates, noise=noise)), 3) == {"noisy"}


def test_noise_far_below_the_error_of_predictions_makes_no_noisy_station(rng):
    """Beside a lasting fault some noise was .0032, that of others .0005, and all predictions were off by .03."""
    coordinates, readings = drawn(rng, noise=0.002)
    noise = np.where(np.arange(N) == 3, 0.02, 0.002)
    assert kinds(check(known_model(readings, coordinates, noise=noise)), 3) == set()
    readings[3] += rng.normal(0, 0.5, T)
    assert kinds(check(known_model(readings, coordinates, noise=np.where(np.arange(N) == 3, 0.5, 0.002))), 3) == {"noisy"}


@pytest.mark.slow
def test_a_leap_that_returns_is_bad_and_one_that_stays_is_suspect(rng):
    """Five sensors at 15 minutes in hundredths, and what a visit to one leaves: a reading in the air, a slow return."""
    t = np.arange(1440)
    steps = rng.standard_t(3, (5, t.size)) * 0.005 + rng.standard_t(3, t.size) * 0.01
    readings = np.round(8.5 + 0.3 * np.sin(2 * np.pi * t / 96) + np.cumsum(steps, axis=1), 2)
    readings[1, 700] += 1.0
    readings[2, 900:960] += 0.6 * np.exp(-np.arange(60) / 20)
    coordinates = np.column_stack([47 + rng.random(5), 2 + rng.random(5)])
    graph = nareg.Graph.from_knn(coordinates, 4, metric="haversine")
    flags = check(nareg.spacetime.fit(graph, readings, rng=rng)).flags
    assert flags[1, 700] == Flag.BAD
    assert flags[2, 900] == Flag.SUSPECT
    assert (flags != Flag.GOOD).sum() < 20


@pytest.mark.parametrize("seed", [1, 2])
def test_a_leap_that_all_others_expect_is_not_bad(seed):
    """As a thaw that lasts longer elsewhere: it was bad, by as little as one standard deviation."""
    rng = np.random.default_rng(seed)
    coordinates = rng.uniform(0, 0.3, (N, 2))
    readings = known_model(np.full((N, T), 15.0), coordinates).simulate(rng, n_times=T)[1]
    readings[:, 146:158] += 8 * np.array([0.1, 0.3, 0.6, 1, 1, 1, 1, 1, 1, 0.6, 0.3, 0.1])
    readings[7, 147:150] -= 8 * np.array([0.1, 0.4, 0.8])
    readings[7, 154:157] -= 8 * np.array([0.8, 0.4, 0.1])
    assert leaps(readings.T)[0][150:154, 7].all()
    quality = check(known_model(readings, coordinates))
    assert (quality.flags[7, 150:154] == Flag.GOOD).all()
    assert np.abs(quality.scores[7, 150:154]).max() < 3
    readings[7, 200] += 8
    assert check(known_model(readings, coordinates)).flags[7, 200] == Flag.BAD


def test_readings_beside_usual_changes_of_level_are_no_spikes(case):
    """The last one before a window was opened was bad: what is expected of it falls too early."""
    coordinates, readings = case
    starts = np.arange(30, 280, 45)
    for start in starts:
        readings[7, start : start + 20] += 12

    def flags(spike: float = 0.0) -> np.ndarray:
        readings[7, 100] += spike
        return check(known_model(readings, coordinates, level=np.nanmean(readings, axis=1))).flags[7]

    near = np.concatenate([edge + np.arange(-3, 3) for edge in (*starts, *(starts + 20))])
    assert not (flags()[near] == Flag.BAD).any()
    assert flags(spike=12.0)[100] == Flag.BAD
    readings[7, 120:] = 15 + readings[6, 120:] - readings[6, 120:].mean()  # four changes are no usual ones
    assert (flags()[near[near < 110]] == Flag.BAD).any()
