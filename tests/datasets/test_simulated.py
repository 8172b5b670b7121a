from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nareg.datasets import inject, simulated
from nareg.datasets.faults import KINDS, noise_scale
from nareg.errors import InputError
from nareg.io import read_readings, read_stations


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def test_a_strangers_file_is_as_hard_as_stated():
    """Errors over ten seeds: white noise at healthy stations, more where the faulty ones count."""
    healthy, every, gaps = [], [], []
    for seed in range(10):
        s = simulated(rng=np.random.default_rng(seed))
        error = s.readings - s.truth
        healthy.append(rms(error[s.healthy][s.observed[s.healthy]]))
        every.append(rms(error[s.observed]))
        gaps.append((~s.observed[s.healthy]).mean())
    assert np.mean(healthy) == pytest.approx(1.5, abs=0.01)
    assert np.mean(every) == pytest.approx(1.71, abs=0.05)
    assert np.mean(gaps) == pytest.approx(0.05, abs=0.005)


def test_few_stations_are_all_neighbors():
    assert simulated(5, 20, rng=np.random.default_rng(0)).graph().n_edges == 10


def test_each_fault_is_where_it_is_said_to_be():
    s = simulated(rng=np.random.default_rng(3))
    index = {kind: s.names.index(name) for name, kind in s.faults.items()}
    assert not s.observed[index["dead"]].any()
    stuck = s.readings[index["stuck"]][s.bad[index["stuck"]] & s.observed[index["stuck"]]]
    assert stuck.size > 150
    assert (stuck == stuck[0]).all()
    spikes = np.abs(s.readings - s.truth)[s.bad & s.observed & (np.arange(60) == index["spiking"])[:, None]]
    assert spikes.min() > 8 - 5 * 1.5
    assert spikes.mean() > 10
    assert not s.bad[s.healthy].any()
    assert s.healthy.sum() == 57


def test_the_same_seed_gives_the_same_network_and_another_one_another():
    first, again, other = (simulated(20, 30, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.readings, again.readings)
    assert (first.names, first.faults) == (again.names, again.faults)
    assert not np.array_equal(first.truth, other.truth)


def test_sizes_steps_and_options_are_kept():
    s = simulated(5, 10, step_minutes=7.5, noise=0.0, missing=0.0, faults=(), rng=np.random.default_rng(0))
    np.testing.assert_allclose(s.readings, s.truth, atol=0.005001)
    assert np.diff(s.times).astype(int).tolist() == [450] * 9
    assert s.faults == {}
    assert s.graph(2).n_nodes == 5
    assert simulated(5, 10, faults=["stuck", "stuck"], rng=np.random.default_rng(0)).healthy.sum() == 3


@pytest.mark.parametrize(("missing", "step"), [(0.05, 10), (0.5, 10), (0.3, 360)])
@pytest.mark.slow
def test_the_share_of_missing_readings(missing, step):
    s = simulated(300, 2000, step_minutes=step, missing=missing, faults=(), rng=np.random.default_rng(0))
    # some 1,250 outages of geometric length at 5 %: a relative standard error of 2 % for the whole
    assert (~s.observed).mean() == pytest.approx(missing, rel=0.06)
    # outages that began before the first time count from the first time on
    assert (~s.observed[:, :100]).mean() == pytest.approx(missing, rel=0.3)


def test_files_with_seconds(tmp_path):
    s = simulated(3, 5, step_minutes=0.5, faults=(), rng=np.random.default_rng(0))
    table = read_readings(s.to_csv(tmp_path) / "readings.csv", s.names)
    assert np.array(table.times, dtype="datetime64[s]").tolist() == s.times.tolist()
    with pytest.raises(InputError, match=r"step_minutes is 0\.001, it must be at least"):
        simulated(3, 5, step_minutes=0.001, rng=np.random.default_rng(0))


def test_files_give_back_what_was_written(tmp_path):
    s = simulated(8, 20, rng=np.random.default_rng(0))
    assert s.to_csv(tmp_path / "file") == tmp_path / "file"
    stations = read_stations(tmp_path / "file" / "stations.csv")
    table = read_readings(tmp_path / "file" / "readings.csv", stations.names)
    np.testing.assert_array_equal(table.values, s.readings)
    np.testing.assert_allclose(stations.coordinates, s.coordinates, atol=1e-9)
    assert np.array(table.times, dtype="datetime64[s]").tolist() == s.times.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_stations": 1}, "n_stations is 1"),
        ({"missing": 1.0}, "missing is 1.0"),
        ({"faults": ["broken"]}, "choose one of 'dead', 'stuck', 'spiking'"),
        ({"n_stations": 3, "faults": ["dead"] * 3}, "leave at least one healthy"),
        ({"rng": 0}, "a numpy generator is expected"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        simulated(**{"rng": np.random.default_rng(0), **options})


# -- faults in any readings -------------------------------------------------------------------------------


@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 2**32 - 1), gaps=st.floats(0, 0.4))
def test_nothing_changes_but_what_is_marked(kind, seed, gaps):
    rng = np.random.default_rng(seed)
    readings = rng.standard_normal((6, 80))
    readings[rng.random((6, 80)) < gaps] = np.nan
    before = readings.copy()
    changed, bad = inject(readings, kind, [1, 4], rng=rng)
    np.testing.assert_array_equal(readings, before)
    np.testing.assert_array_equal(changed[~bad & np.isfinite(changed)], before[~bad & np.isfinite(changed)])
    assert bad.any()
    assert not bad[[0, 2, 3, 5]].any()
    assert np.isfinite(changed[bad]).all()
    assert (changed[bad] != before[bad]).all()
    if kind != "swapped":
        np.testing.assert_array_equal(np.isnan(changed), np.isnan(before))


def test_sizes_of_the_faults(rng):
    readings = rng.standard_normal((3, 24 * 14))
    spiked, bad = inject(readings, "spikes", 0, sigma=2.0, share=0.05, rng=rng)
    assert bad.sum() == 17
    np.testing.assert_allclose(np.abs(spiked - readings)[bad], 10.0)
    stuck, bad = inject(readings, "stuck", [2], rng=rng)
    assert bad.sum() == 12
    assert np.unique(stuck[bad]).size == 1
    drifted, bad = inject(np.zeros((3, 24 * 14)), "drift", 1, sigma=[0.0, 2.0, 0.0], rng=rng)
    assert abs(drifted[1, -1]) == pytest.approx(6 * (bad.sum()) / (24 * 7))
    fahrenheit, bad = inject(readings, "unit", 1, rng=rng)
    np.testing.assert_allclose(fahrenheit[bad], 1.8 * readings[bad] + 32)
    assert bad[1, -1]
    swapped, bad = inject(readings, "swapped", [0, 2], rng=rng)
    np.testing.assert_array_equal(swapped[0][bad[0]], readings[2][bad[0]])
    np.testing.assert_array_equal(swapped[2][bad[2]], readings[0][bad[2]])


def test_the_scale_of_the_noise_is_found_under_a_slow_signal(rng):
    slow = 10 * np.sin(np.arange(2000) / 100)
    np.testing.assert_allclose(
        noise_scale(slow + rng.standard_normal((4, 2000)) * [[1], [2], [3], [4]]), [1, 2, 3, 4], rtol=0.15
    )
    assert noise_scale(np.zeros((2, 9))).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("kind", "stations", "message"),
    [
        ("broken", 0, "choose one of"),
        ("stuck", 9, "stations contains 9, but readings has rows 0 to 2"),
        ("stuck", [1, 1], "lists a station twice: name each once"),
        ("swapped", 1, "pass an even number"),
        ("stuck", [0.5], "an index or a sequence of indices"),
        ("spikes", 2, "fewer than 3 readings"),
    ],
)
def test_impossible_faults_are_refused(kind, stations, message, rng):
    readings = np.ones((3, 10))
    readings[2, 1:] = np.nan
    with pytest.raises(InputError, match=message):
        inject(readings, kind, stations, rng=rng)
