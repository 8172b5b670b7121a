from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg.baselines import interpolate_in_time, neighbor_median, network_mean, rolling_mean
from nareg.baselines._simple import median
from nareg.errors import InputError


@given(seed=st.integers(0, 2**32 - 1), t=st.integers(1, 40), window=st.integers(1, 60), gaps=st.floats(0, 1))
def test_rolling_mean_equals_pandas(seed, t, window, gaps):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    y = 280 + rng.standard_normal((3, t))
    y[rng.random((3, t)) < gaps] = np.nan
    theirs = pd.DataFrame(y.T).rolling(window, center=True, min_periods=1).mean().to_numpy().T
    np.testing.assert_allclose(rolling_mean(y, window), theirs, rtol=1e-12)


@given(seed=st.integers(0, 2**32 - 1), t=st.integers(1, 40), window=st.integers(1, 60), gaps=st.floats(0, 1))
def test_rolling_mean_equals_a_loop(seed, t, window, gaps):
    rng = np.random.default_rng(seed)
    y = rng.standard_normal((2, t))
    y[rng.random((2, t)) < gaps] = np.nan
    result, after = rolling_mean(y, window), (window - 1) // 2
    for i in range(2):
        for k in range(t):
            inside = y[i, max(0, k + after + 1 - window) : k + after + 1]
            inside = inside[np.isfinite(inside)]
            expected = inside.mean() if inside.size else np.nan
            np.testing.assert_allclose(result[i, k], expected, atol=1e-12)


def test_interpolation_in_time_by_irregular_clocks(rng):
    y = np.array([[1.0, np.nan, 4.0, np.nan], [np.nan] * 4, [np.nan, 2.0, np.nan, 3.0]])
    filled = interpolate_in_time(y, times=np.array([0.0, 1.0, 3.0, 9.0]))
    np.testing.assert_allclose(filled, [[1, 2, 4, 4], [np.nan] * 4, [2, 2, 2.25, 3]])
    dates = np.array(["2025-01-01T00", "2025-01-01T01", "2025-01-01T03", "2025-01-01T09"], dtype="datetime64[h]")
    np.testing.assert_allclose(interpolate_in_time(y, times=dates), filled)
    assert np.isnan(y[0, 1])
    for times, message in (
        ([0, 1, 1, 2], "times does not rise at index 2"),
        ([0, 1], r"times has shape \(2,\) but y has 4 times: pass"),
    ):
        with pytest.raises(InputError, match=message):
            interpolate_in_time(y, times=times)


def test_network_mean_counts_who_reads():
    y = np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan]])
    np.testing.assert_array_equal(network_mean(y), [[2, 5, np.nan]] * 2)
    seen = np.isfinite(y) & np.array([[True], [False]])
    np.testing.assert_array_equal(network_mean(y, observed=seen), [[1, np.nan, np.nan]] * 2)


def test_neighbor_median_against_numpy(rng):
    g = nareg.graphs.sensor(30, rng=rng)
    y = rng.standard_normal((30, 20)) + rng.uniform(-9, 9, 30)[:, None]
    seen = rng.random(y.shape) < 0.8
    seen[3] = False
    result = neighbor_median(g, y, seen)
    stored = np.where(seen, y, np.nan)
    A = g.adjacency.toarray()
    level = np.array([np.nan if i == 3 else np.nanmedian(stored[i]) for i in range(30)])
    level[3] = np.median(level[A[3] > 0])
    for i in range(30):
        for t in range(20):
            others = (stored[:, t] - level)[(A[i] > 0) & seen[:, t]]
            expected = level[i] + np.median(others) if others.size else np.nan
            np.testing.assert_allclose(result[i, t], expected, atol=1e-12)


def test_median_ignores_nan(rng):
    values = rng.standard_normal((5, 40))
    values[rng.random((5, 40)) < 0.5] = np.nan
    values[:, 0] = np.nan
    for axis in (0, 1):
        rows = values.T if axis == 0 else values
        expected = [np.median(r[np.isfinite(r)]) if np.isfinite(r).any() else np.nan for r in rows]
        np.testing.assert_allclose(median(values, axis), expected)


@pytest.mark.parametrize(
    ("observed", "message"),
    [
        (np.ones((2, 3)), "observed has dtype float64"),
        (np.ones((3, 3), bool), r"shape \(3, 3\), a boolean mask of shape \(2, 3\)"),
        (np.ones((2, 3), bool), r"y\[1, 2\] is nan but observed is True there"),
    ],
)
def test_masks_are_checked(observed, message):
    y = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, np.nan]])
    for call in (lambda: rolling_mean(y, 3, observed=observed), lambda: network_mean(y, observed=observed)):
        with pytest.raises(InputError, match=message):
            call()


def test_neighbors_need_a_graph():
    with pytest.raises(InputError, match=r"a nareg\.Graph is expected"):
        neighbor_median(np.eye(3), np.ones((3, 2)))
    with pytest.raises(InputError, match="y has 4 rows but the graph has 3 nodes"):
        neighbor_median(nareg.graphs.grid((3,)), np.ones((4, 2)))


@pytest.mark.parametrize("unit", ["Y", "M", "D", "ms", "ns"])
def test_dates_of_any_unit_and_span(unit):
    times = np.array(["1700-01-01", "1950-01-01", "2200-01-01"], dtype=f"datetime64[{unit}]")
    x = interpolate_in_time(np.array([[0.0, np.nan, 500.0]]), times=times)
    assert x[0, 1] == pytest.approx(250, abs=0.01)
