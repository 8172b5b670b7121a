"""Arrays as text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nareg.explorer._payload import encode, pack
from tests.explorer.page_data import decode, unpack


@given(arrays(np.float64, (3, 5), elements=st.floats(-1e6, 1e6) | st.just(np.nan)))
def test_packed_values_are_within_half_a_step(values):
    packed = pack(values)
    back = unpack(packed, values.shape)
    np.testing.assert_array_equal(np.isnan(back), np.isnan(values))
    there = np.isfinite(values)
    assert np.all(np.abs(back - values)[there] <= 0.5 * packed["step"] * (1 + 1e-6) + 1e-9 * np.abs(values[there]))
    spread = np.ptp(values[there]) if there.any() else 0.0
    assert packed["step"] <= max(spread / 65534, 1.0) * (1 + 1e-12)


@pytest.mark.parametrize("decimals", [0, 1, 2, 3])
def test_readings_with_few_decimals_are_exact(decimals, rng):
    values = np.round(rng.uniform(-20, 20, (4, 50)), decimals)
    packed = pack(values)
    assert packed["step"] == 10.0**-decimals
    np.testing.assert_allclose(unpack(packed, values.shape), values, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "float32", "float64"])
def test_bytes_come_back(dtype, rng):
    values = (1000 * rng.random(17)).astype(dtype)
    np.testing.assert_array_equal(decode(encode(values, dtype), dtype), values)


def test_nothing_but_gaps_and_one_value():
    assert np.isnan(unpack(pack(np.full((2, 3), np.nan)), (2, 3))).all()
    np.testing.assert_array_equal(unpack(pack(np.full((2, 3), 7.123456789)), (2, 3)), 7.123456789)
