"""Products of a tall array with a few columns."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from nareg._solvers import tall_products
from nareg._solvers.tall_products import ORDER, ROWS, WIDE, times, transposed_times


@pytest.mark.slow
@pytest.mark.parametrize("columns", [0, 1, 2, 3, 7, WIDE - 1, WIDE])
@pytest.mark.parametrize("width", [0, 1, 5, 64])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 5, ROWS - 1, ROWS, ROWS + 3, 3 * ROWS + 6])
def test_as_numpy_has_it(rows, width, columns, rng):
    S, D, R = (rng.standard_normal(shape) for shape in ((rows, width), (width, columns), (rows, columns)))
    np.testing.assert_allclose(times(S, D), S @ D, atol=1e-11)
    np.testing.assert_allclose(transposed_times(S, R), S.T @ R, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, ">f8", np.longdouble, complex, object])
def test_other_types_are_as_numpy_has_them(dtype, rng):
    S, D = rng.integers(-9, 9, (50, 6)).astype(dtype), rng.integers(-9, 9, (6, 3)).astype(dtype)
    for result, wanted in ((times(S, D), S @ D), (transposed_times(S, S @ D), S.T @ (S @ D))):
        np.testing.assert_array_equal(result, wanted)
        assert result.dtype == wanted.dtype


@pytest.mark.slow
def test_views_and_threads(rng, monkeypatch):
    """Every other row of a larger array, transposed factors, and the same to the last digit whatever the threads."""
    monkeypatch.setattr(tall_products, "PER_ELEMENT", 1)  # threads for these small ones, too
    S = rng.standard_normal((4 * ROWS, 40))[::2, 3:]
    D, R = rng.standard_normal((5, 37)).T, rng.standard_normal((5, 2 * ROWS)).T
    np.testing.assert_allclose(times(S, D), S @ D, atol=1e-12)
    np.testing.assert_allclose(transposed_times(S, R), S.T @ R, atol=1e-12)
    before, threads, result = numba.get_num_threads(), numba.config.NUMBA_NUM_THREADS, []
    if threads == 1:
        pytest.skip("one thread only")
    try:
        for count in range(1, threads + 1):
            numba.set_num_threads(count)
            result.append((times(S, D), transposed_times(S, R)))
    finally:
        numba.set_num_threads(before)
    for product, transposed in result[1:]:
        np.testing.assert_array_equal(product, result[0][0])
        np.testing.assert_array_equal(transposed, result[0][1])


def test_what_is_not_finite_stays_so(rng):
    S, D = rng.standard_normal((10, 4)), rng.standard_normal((4, 3))
    S[3, 2] = np.nan
    S[5, 0] = np.inf
    result = times(S, D)
    assert np.isnan(result[3]).all()
    assert np.isinf(result[5]).all()
    assert np.isfinite(np.delete(result, [3, 5], axis=0)).all()
    assert np.isnan(transposed_times(S, np.ones((10, 2)))[2]).all()
    assert ORDER.isdisjoint({"fast", "nnan", "ninf"})  # under these it may hold or not
