from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st

from nareg.errors import InputError
from nareg.herta._build import SRHT, transform


@given(st.integers(0, 7), st.integers(1, 4), st.integers(0, 2**31))
def test_it_is_the_hadamard_matrix_and_orthonormal(power, columns, seed):
    m = 2**power
    Q = np.random.default_rng(seed).standard_normal((m, columns))
    found = transform(torch.as_tensor(Q))
    np.testing.assert_allclose(found, scipy.linalg.hadamard(m) @ Q / np.sqrt(m), atol=1e-12)
    np.testing.assert_allclose(transform(found), Q, atol=1e-12)
    found = found.numpy()
    np.testing.assert_allclose(found.T @ found, Q.T @ Q, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_keeps_the_dtype_and_the_argument(dtype, rng):
    Q = torch.as_tensor(rng.standard_normal((64, 3)).astype(dtype))
    before = Q.clone()
    assert transform(Q).dtype == SRHT(64, 20, rng=rng)(Q).dtype == before.dtype
    assert torch.equal(Q, before)


def test_all_rows_keep_the_gram_matrix_and_few_keep_it_on_average(rng):
    Q = rng.standard_normal((100, 4))
    G = Q.T @ Q
    whole = SRHT(100, 128, rng=rng)(torch.as_tensor(Q)).numpy()
    np.testing.assert_allclose(whole.T @ whole, G, atol=1e-10)
    draws = [SRHT(100, 32, rng=rng)(torch.as_tensor(Q)).numpy() for _ in range(400)]
    mean = np.mean([q.T @ q for q in draws], axis=0)
    assert np.linalg.norm(mean - G) < 0.05 * np.linalg.norm(G)


def test_rows_are_spread_evenly(rng):
    """One row holds everything: uniform sampling would miss it most of the time, the sketch never does."""
    Q = torch.zeros((128, 1), dtype=torch.float64)
    Q[17] = 1
    for _ in range(20):
        assert float(SRHT(128, 16, rng=rng)(Q).norm()) == pytest.approx(1.0)


def test_what_cannot_work_is_refused(rng):
    with pytest.raises(InputError, match="Q has 6 rows: the transform needs a power of two"):
        transform(torch.ones((6, 2)))
    with pytest.raises(InputError, match="size is 9, but a sketch of 5 rows has at most 8"):
        SRHT(5, 9, rng=rng)
    with pytest.raises(InputError, match="Q has 4 rows, but this sketch is for 5"):
        SRHT(5, 4, rng=rng)(torch.ones((4, 1)))
    with pytest.raises(InputError, match="rng is 0"):
        SRHT(5, 4, rng=0)
