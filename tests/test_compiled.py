"""Loops that share rows among threads, or run in the calling one: the same numbers, and the caller's threads kept."""

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from nareg._compiled import SHARED
from nareg.design._risk import kernels


@pytest.mark.parametrize("columns", [3, 40_000])
def test_small_and_large_arguments_give_the_formula(columns, rng):
    pattern = sp.csr_array((rng.random((20, 20)) < 0.3).astype(float))
    A, B = rng.standard_normal((2, 20, columns))
    assert (2 * A.size + pattern.indices.size + pattern.indptr.size >= SHARED) == (columns == 40_000)
    result = kernels.pair_products(pattern.indptr, pattern.indices, A, B)
    rows = np.repeat(np.arange(20), np.diff(pattern.indptr))
    np.testing.assert_allclose(result, (A @ B.T + B @ A.T)[rows, pattern.indices], rtol=1e-12, atol=1e-10)


@pytest.mark.slow
def test_threads_of_the_caller_are_kept(rng):
    before = numba.get_num_threads()
    A = rng.standard_normal((4, 2))
    kernels.pair_products(np.array([0, 1, 1, 1, 1]), np.array([0]), A, A)
    assert numba.get_num_threads() == before
    with pytest.raises(numba.TypingError):
        kernels.pair_products("not an array", None, A, A)
    assert numba.get_num_threads() == before
