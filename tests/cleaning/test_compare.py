from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nareg
from nareg.cleaning import _compare, _simple, _steps
from nareg.cleaning._compare import Hidden, scales, table
from nareg.cleaning._methods import KRIGING, MODEL, simple_methods
from nareg.cleaning._simple import RIDGE, _solve, one_weight
from nareg.cleaning._steps import choose
from nareg.cleaning._words import number


def everything(y: np.ndarray, gap: np.ndarray | bool = False) -> Hidden:
    """All readings hidden, each for itself."""
    none = np.zeros(y.shape, dtype=bool)
    return Hidden(np.isfinite(y), none, none | gap, 1.0, np.arange(y.size).reshape(y.shape))


def test_hidden_readings_are_single_where_both_neighbors_in_time_read():
    observed = np.array([[True, True, True, True, True, True, False, True]])
    hidden = np.array([[False, True, False, True, True, False, False, True]])
    measured = Hidden.of(hidden, np.where(observed, 1.0, np.nan), np.zeros_like(hidden))
    np.testing.assert_array_equal(measured.single[0], [False, True] + [False] * 6)
    np.testing.assert_array_equal(measured.in_gaps[0], [False, False, False, True, True, False, False, True])
    bad = np.array([[False, True, False, False, False, False, False, False]])
    assert not Hidden.of(hidden, np.where(observed, 1.0, np.nan), bad).single.any()


def test_the_better_method_is_used_only_beyond_the_standard_error(rng):
    y = rng.standard_normal((10, 60))
    hidden = everything(y)
    mine = y + rng.standard_normal(y.shape)
    better = y + 0.5 * rng.standard_normal(y.shape)
    more, error = _compare.excess(y, mine, better, hidden)
    assert more > 5 * error > 0
    name, why = _steps.choose(y, {_steps.MODEL: mine, "last reading": better}, hidden)
    assert name == "last reading"
    assert why.startswith("another method wins: RMSE 0.498 at hidden readings, against 1.00")
    name, why = _steps.choose(y, {_steps.MODEL: better, "last reading": mine}, hidden)
    assert name == _steps.MODEL
    assert "chance" not in why
    hardly = mine.copy()
    hardly[0, 0] = y[0, 0]  # one error less is no evidence
    name, why = _steps.choose(y, {_steps.MODEL: mine, "last reading": hardly}, hidden)
    assert name == _steps.MODEL
    assert why.endswith("last reading, which is not clearly better")


def test_errors_in_gaps_are_capped_among_themselves(rng):
    """At a step of minutes those at single readings are tiny: a line in time won by a hair there, and lost gaps threefold."""
    y = np.zeros((7, 400))
    gap = np.zeros(y.shape, dtype=bool)
    gap[:, ::2] = True
    hidden = everything(y, gap)
    error = rng.standard_normal(y.shape)
    model, line = (np.where(gap, wide * error, narrow * error) for wide, narrow in ((0.7, 0.079), (1.8, 0.078)))
    assert _steps.choose(y, {_steps.MODEL: model, "straight line in time": line}, hidden)[0] == _steps.MODEL


def test_far_behind_is_measured_without_the_noise(rng):
    y = np.zeros((10, 200))
    noise, field = rng.standard_normal(y.shape), rng.standard_normal(y.shape)
    mine, other = noise + 0.2 * field, noise + 0.6 * field
    assert _compare.far_behind(y, other, mine, everything(y), np.ones(10))
    assert not _compare.far_behind(y, noise + 0.25 * field, mine, everything(y), np.ones(10))  # hardly more in all
    assert not _compare.far_behind(y, 1.1 * field, field, everything(y), np.full(10, 0.1))
    assert not _compare.far_behind(y, mine, other, everything(y), np.ones(10))


def test_excess_equals_its_formula_and_one_absurd_error_does_not_decide(rng):
    y = np.zeros((9, 40))
    a, b = rng.standard_normal((2, 9, 40))
    mean, error = _compare.excess(y, a, b, everything(y))
    d = a**2 - b**2
    assert mean == pytest.approx(d.mean(), abs=1e-12)
    rest = d - d.mean()
    few, many = (1 + _compare.FEW_GROUPS * np.sum(s**4) / np.sum(s**2) ** 2 for s in (rest.sum(axis=1), rest.ravel()))
    by_station, alone = np.sqrt(9 / 8 * np.sum(rest.sum(axis=1) ** 2)) / d.size, d.std(ddof=1) / np.sqrt(d.size)
    assert error == pytest.approx(max(few * by_station, many * alone))
    b[0, 0] = 1e6
    shifted, _ = _compare.excess(y, a, b, everything(y))
    assert abs(shifted - mean) < 0.5


def test_standard_errors_are_those_of_any_unit(rng):
    deviations, groups = rng.standard_normal(60), rng.integers(0, 9, 60)
    usual = _compare._group_error(deviations, groups)
    for size in (1e-150, 1e-85, 1e85, 1e150):
        assert _compare._group_error(size * deviations, groups) == pytest.approx(size * usual)
    assert _compare._group_error(0 * deviations, groups) == 0
    assert _compare._group_error(deviations, 0 * groups) == np.inf


def test_two_gaps_of_the_whole_network_do_not_choose(rng):
    """A line is as good at 400 single readings and much better in one of two gaps, which may be by chance."""
    y = rng.standard_normal((7, 2000))
    mask = rng.random(y.shape) < 0.03
    mask[:, 500:560] = mask[:, 1500:1560] = True
    hidden = Hidden.of(mask, y, np.zeros_like(mask))
    model, line = (y + 0.5 * rng.standard_normal(y.shape) for _ in range(2))
    for start, mine, other in ((500, 2.0, 1.0), (1500, 1.5, 1.4)):
        model[:, start : start + 60] += mine
        line[:, start : start + 60] += other
    assert _steps.choose(y, {_steps.MODEL: model, "straight line in time": line}, hidden)[0] == _steps.MODEL
    many = rng.random(y.shape) < 0.2  # single readings tell
    line, model = (y + size * rng.standard_normal(y.shape) for size in (0.8, 1.0))
    hidden = Hidden.of(many, y, np.zeros_like(many))
    assert _steps.choose(y, {_steps.MODEL: model, "straight line in time": line}, hidden)[0] == "straight line in time"


def test_errors_of_one_gap_are_one_error(rng):
    """Three gaps of 50 hours, in which a line was better by a tenth of what it differs from gap to gap."""
    y = rng.standard_normal((7, 800))
    mask = np.zeros(y.shape, dtype=bool)
    for station in range(3):
        mask[station, 200 * station : 200 * station + 50] = True
    hidden = Hidden.of(mask, y, np.zeros_like(mask))
    model, line = y.copy(), y.copy()
    for station, (mine, other) in enumerate([(2.0, 1.0), (1.0, 2.0), (2.0, 1.8)]):
        model[station] += mine
        line[station] += other
    mean, error = _compare.excess(y, model, line, hidden)
    assert 0 < mean < error
    assert _steps.choose(y, {_steps.MODEL: model, "straight line in time": line}, hidden)[0] == _steps.MODEL


def test_a_method_of_single_times_does_not_fill_single_gaps(rng):
    """Weights were better in two long gaps, and 20 times worse where a reading is missing between two others."""
    y = rng.standard_normal((7, 800))
    mask = np.zeros(y.shape, dtype=bool)
    for station in range(7):
        mask[station, 100 * station : 100 * station + 60] = True
    mask[:, 61::20] = True
    hidden = Hidden.of(mask, y, np.zeros_like(mask))
    error = rng.standard_normal(y.shape)
    model, weights = y + np.where(hidden.gap, 2.0, 0.05) * error, y + 1.0 * error
    assert _steps.choose(y, {_steps.MODEL: model, "one weight": weights}, hidden)[0] == _steps.MODEL


def test_a_method_that_is_far_better_in_gaps_may_lose_by_a_hair_beside_readings(rng):
    """A line had half the model's error in gaps of a quantity that leaps, and 4 % more at single readings."""
    y = rng.standard_normal((7, 800))
    mask = np.zeros(y.shape, dtype=bool)
    for station in range(7):
        for gap in range(5):
            mask[station, 100 * station + 20 * gap : 100 * station + 20 * gap + 8] = True
    mask[:, 15::20] = True
    hidden = Hidden.of(mask, y, np.zeros_like(mask))
    error = rng.standard_normal(y.shape)
    model, line = (y + np.where(hidden.gap, far, near) * error for far, near in ((1.0, 0.250), (0.5, 0.260)))
    more, chance = _compare.excess(y, model, line, hidden, hidden.single)
    assert more < -chance
    assert _steps.choose(y, {_steps.MODEL: model, "straight line in time": line}, hidden)[0] == "straight line in time"
    assert _steps.choose(y, {_steps.MODEL: line, "straight line in time": model}, hidden)[0] == _steps.MODEL


def test_table_of_errors(rng):
    y = rng.standard_normal((5, 30))
    x = {"one": y + 1.0, "two": y - 0.5}
    table = _compare.table(y, x, everything(y))
    assert list(table.index) == ["two", "one"]
    assert table.loc["one", "rmse"] == pytest.approx(1.0)
    assert table.loc["two", "mae_single"] == pytest.approx(0.5)
    assert np.isnan(table.loc["two", "rmse_gaps"])
    assert list(_compare.table(y, {}, everything(y)).columns) == list(table.columns)


def test_last_reading_is_forward_then_backward_fill(rng):
    y = np.where(rng.random((6, 40)) < 0.4, np.nan, rng.standard_normal((6, 40)))
    y[2] = np.nan
    expected = pd.DataFrame(y.T).ffill().bfill().to_numpy().T
    np.testing.assert_array_equal(_simple.last_reading(y), expected)


def test_every_method_fills_every_cell(rng):
    network = nareg.datasets.simulated(12, 60, faults=("dead",), rng=rng)
    y = network.readings.copy()
    y[:, 10:12] = np.nan
    methods = simple_methods(network.graph(4), network.times, rng, "normal")
    assert len(methods) == 6
    for method in methods:
        assert np.isfinite(method.estimate(y, lambda _: None)).all(), method.name


def test_kriging_learns_its_parameters_once(rng):
    network = nareg.datasets.simulated(8, 60, rng=rng)
    graph, y = network.graph(4), network.readings
    method = next(m for m in simple_methods(graph, network.times, rng, "normal") if m.name == KRIGING)
    first = nareg.baselines.kriging(graph, y[:, :30], metric=graph.metric)
    np.testing.assert_array_equal(method.estimate(y[:, :30], lambda _: None), first.x)
    learned = first.noise, first.variance, first.length
    expected = nareg.baselines.kriging(graph, y, metric=graph.metric, parameters=learned).x
    np.testing.assert_array_equal(method.estimate(y, lambda _: None), expected)


def test_simple_solves_its_system(rng):
    graph = nareg.graphs.grid((4, 5))
    z = np.where(rng.random((20, 3)) < 0.4, np.nan, rng.standard_normal((20, 3)))
    L = graph.laplacian()
    x = _solve(L.tocsc(), 2.0, z)
    for t in range(3):
        seen = np.isfinite(z[:, t])
        c = np.where(seen, 1.0, RIDGE)
        expected = np.linalg.solve(np.diag(c) + 2.0 * L.toarray(), np.where(seen, z[:, t], 0.0))
        np.testing.assert_allclose(x[:, t], expected, atol=1e-10)


def test_sparse_and_dense_factors_agree(rng, monkeypatch):
    graph = nareg.graphs.grid((5, 5))
    z = np.where(rng.random((25, 4)) < 0.4, np.nan, rng.standard_normal((25, 4)))
    dense = _solve(graph.laplacian().tocsc(), 0.7, z)
    monkeypatch.setattr(_simple, "DENSE", 0)
    np.testing.assert_allclose(_solve(graph.laplacian().tocsc(), 0.7, z), dense, atol=1e-10)


def test_simple_denoises_and_fills_parts_without_a_reading(rng):
    import scipy.sparse as sp

    adjacency = sp.block_diag([nareg.graphs.grid((4, 4)).adjacency] * 2, format="csr")
    graph = nareg.Graph(sp.csr_array(adjacency))
    level = np.repeat([10.0, -10.0], 16)[:, None]
    truth = level + 2 * rng.standard_normal((1, 80))
    y = truth + rng.standard_normal(truth.shape)
    y[3] = np.nan  # silent
    y[16:, 5] = np.nan  # nothing in a whole part
    x = one_weight(graph, y, rng)
    assert np.isfinite(x).all()
    seen = np.isfinite(y)
    assert np.mean((x - truth)[seen] ** 2) < 0.5 * np.mean((y - truth)[seen] ** 2)
    assert abs(x[3].mean() - 10) < 1
    assert abs(x[16:, 5].mean() + 10) < 1


def test_spread_is_the_error_of_cells_of_the_same_kind(rng):
    graph = nareg.graphs.grid((3, 3))
    y = rng.standard_normal((9, 200))
    x = y + np.where(np.arange(200) % 2, 1.0, 3.0)
    gap = np.broadcast_to(np.arange(200) % 2 == 0, y.shape)
    y[:, 0] = np.nan
    hidden = everything(y, gap)
    std = _compare.spread(graph, y, x, hidden)
    np.testing.assert_allclose(std[:, 1:], 1.0, rtol=0.01)
    np.testing.assert_allclose(std[:, 0], 3.0, rtol=0.01)
    y[4] = np.nan
    silent = everything(y, gap)
    assert (_compare.spread(graph, y, x, silent)[4] > std[4, 0] - 0.1).all()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.66, "1.7"),
        (0.999, "1.0"),
        (9.94, "9.9"),
        (99.96, "100"),
        (1234.0, "1230"),
        (1.234e7, "1.23e+07"),
        (3e-6, "3.0e-06"),
        (0.0, "0"),
    ],
)
def test_numbers_as_sentences_have_them(value, text):
    assert number(value) == text


def test_a_giant_station_does_not_choose_the_method_for_all(rng):
    """The first method is three times better at nine of ten stations, and worse at one that reads a thousand times more."""
    size = np.r_[np.ones(9), np.full(2, 1e3)][:, None]
    y = size * rng.standard_normal((11, 80))
    noise = size * rng.standard_normal(y.shape)
    share = np.r_[np.full(9, 0.1), np.full(2, 0.35)][:, None]
    estimates = {MODEL: y + share * noise, "other": y + 0.3 * noise}
    hidden = Hidden.of(np.ones(y.shape, dtype=bool), y, np.zeros(y.shape, dtype=bool))
    assert choose(y, estimates, hidden)[0] == MODEL
    frame = table(y, estimates, hidden)
    assert list(frame.index) == [MODEL, "other"]
    assert frame["rmse"][MODEL] > frame["rmse"]["other"]  # in the unit of the readings the giants are all


def test_stations_of_one_size_are_compared_in_the_unit_of_the_readings(rng):
    y = 7 * rng.standard_normal((10, 80)) * rng.uniform(1, 3, (10, 1))
    assert scales(y) == 1.0
