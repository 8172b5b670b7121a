"""The order of the columns, the zero of the readings, their unit and the stations' names change nothing."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nareg
from tests.helpers import examples

N, T = 6, 120


@lru_cache
def table(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Readings with a spike, a stuck run, a drift and gaps."""
    rng = np.random.default_rng(seed)
    places = 47 + 2 * rng.random((N, 2))
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    root = np.linalg.cholesky(np.exp(-apart) * 4 + 1e-9 * np.eye(N))
    x = np.zeros((N, T))
    for t in range(1, T):
        x[:, t] = 0.9 * x[:, t - 1] + 0.45 * (root @ rng.standard_normal(N))
    y = np.round(x + 10 + rng.standard_normal((N, 1)) + 0.5 * rng.standard_normal((N, T)), 1)
    y[rng.random(y.shape) < 0.08] = np.nan
    y[1, 50] += 12
    y[3, 60:90] = 9.9
    y[5, 80:] += np.linspace(0, 6, T - 80)
    names = [f"S{i}" for i in range(N)]
    index = pd.date_range("2024-03-01", periods=T, freq="h", name="time")
    return pd.DataFrame(y.T, index=index, columns=names), pd.DataFrame(places, index=names, columns=["latitude", "longitude"])


@lru_cache
def plain(seed: int) -> nareg.cleaning.Cleaned:
    return nareg.clean(*table(seed))


@pytest.mark.slow
@examples(2, 4)
@given(
    st.integers(0, 1),
    st.permutations(range(N)),
    st.sampled_from([(1.8, 32.0), (1.0, 273.15), (1e3, 0.0), (1.0, 1e5), (0.1, -7.0)]),
)
def test_clean_is_equivariant(seed, order, unit):
    factor, zero = unit
    readings, stations = table(seed)
    other = {name: f"station {name[::-1]}" for name in readings.columns}
    moved = (factor * readings + zero).iloc[:, list(order)].rename(columns=other)
    before, after = plain(seed), nareg.clean(moved, stations.rename(index=other))
    back = {new: old for old, new in other.items()}
    x, std, flags = (
        getattr(after, name).rename(columns=back)[list(readings.columns)].to_numpy() for name in ("x", "std", "flags")
    )
    scale = before.std.to_numpy()
    assert after.method == before.method
    # a change of zero rounds the readings, which an iterative fit enlarges
    np.testing.assert_allclose((x - zero) / factor / scale, before.x.to_numpy() / scale, atol=0.02)
    np.testing.assert_allclose(std / factor, scale, rtol=0.01)
    np.testing.assert_array_equal(flags, before.flags.to_numpy())
    assert {(back[s.name], s.kind) for s in after.quality.suspects} == {(s.name, s.kind) for s in before.quality.suspects}
