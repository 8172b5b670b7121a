"""Tolerances look at the entries that they judge, not at the largest of the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from nareg._core import checks
from nareg._solvers.system import _is_dominant, is_laplacian, penalty
from nareg.design import node_invariant, risk
from nareg.errors import InputError
from nareg.filters import denoise, uncertainty

PATH = nareg.graphs.grid((4,))


def beside(large: float, block: list[list[float]]) -> np.ndarray:
    """A block next to two large diagonal entries."""
    M = np.diag([large, large, 0.0, 0.0])
    M[2:, 2:] = block
    return M


@pytest.mark.parametrize("large", [1.0, 1e9, 1e16])
def test_an_asymmetric_block_is_refused_whatever_else_is_in_the_matrix(large):
    S = beside(large, [[2.0, -1.0], [-0.5, 2.0]])
    for given in (S, sp.csr_array(S)):
        with pytest.raises(InputError, match="not symmetric"):
            denoise(PATH, given, np.ones(4))
        with pytest.raises(InputError, match="not symmetric"):
            denoise(given, 1.0, np.ones(4))
    with pytest.raises(InputError, match="not symmetric"):
        checks.psd_matrix("noise", S, 4)


@pytest.mark.parametrize("large", [1.0, 1e9, 1e16])
def test_a_negative_variance_or_an_indefinite_block_is_refused(large):
    for bad in (
        beside(large, [[-5.0, 0.0], [0.0, 1.0]]),
        beside(large, [[1.0, 2.0], [2.0, 1.0]]),
        beside(large, [[0.0, 1e-3], [1e-3, 1.0]]),
    ):
        with pytest.raises(InputError, match="noise"):
            uncertainty(PATH, 1.0, noise=bad)
        with pytest.raises(InputError, match="semidefinite"):
            denoise(bad, 1.0, np.ones(4))
    with pytest.raises(InputError, match=r"noise\[1, 1\] is -5"):
        uncertainty(nareg.graphs.grid((3,)), 1.0, noise=np.diag([1e9, -5.0, 1.0]))


def test_an_indefinite_block_of_a_large_operator_is_refused():
    big = nareg.graphs.grid((60, 60)).laplacian().tolil()
    big[0, 0], big[0, 1], big[1, 0], big[1, 1] = 1e-3, 2e-3, 2e-3, 1e-3
    big[0, 60] = big[60, 0] = big[1, 2] = big[2, 1] = big[1, 61] = big[61, 1] = 0.0
    operator = sp.csr_array(big) + sp.diags_array(np.where(np.arange(3600) > 1, 1e9, 0.0))
    with pytest.raises(InputError, match="semidefinite"):
        denoise(sp.csr_array(operator), 1.0, np.ones(3600))


def test_rounding_is_forgiven_on_every_scale(rng):
    for scale in (np.ones(6), 10.0 ** np.arange(-9, 9, 3)):
        F = scale[:, None] * rng.standard_normal((6, 3))
        R = F @ F.T  # rank 3
        R *= 1 + 1e-13 * rng.standard_normal((6, 6))
        assert np.array_equal(*(lambda M: (M, M.T))(checks.psd_matrix("second_moment", R, 6)))
        penalty(R)
    single = (F @ F.T).astype(np.float32)
    checks.psd_matrix("second_moment", single * (1 + 1e-7 * rng.standard_normal((6, 6))).astype(np.float32), 6)


def test_a_faint_part_of_a_laplacian_is_judged_by_itself():
    L = sp.csr_array(np.array([[1e12, -1e12, 0, 0], [-1e12, 1e12, 0, 0], [0, 0, 1.0, -0.5], [0, 0, -0.5, 1.0]]))
    assert not is_laplacian(L)
    assert _is_dominant(L)
    assert not _is_dominant(
        sp.csr_array(np.array([[1e12, -1e12, 0, 0], [-1e12, 1e12, 0, 0], [0, 0, 1.0, -1.5], [0, 0, -1.5, 3.0]]))
    )


@pytest.mark.slow
def test_a_graded_positive_definite_block_without_data_is_solved():
    S = beside(1.0, [[1e-7, 0.0], [0.0, 1e7]])
    S[0, 2] = S[2, 0] = 0.0
    c = np.array([1.0, 1.0, 0.0, 0.0])
    S[2, 3] = S[3, 2] = 0.5
    assert denoise(PATH, S, np.ones(4), data_weight=c).status.ok


def test_the_best_linear_filter_on_a_network_of_two_units(rng):
    """Half of the stations in volts, half in microvolts: the error of the faint half counts by itself."""
    unit = np.array([1.0, 1e-7, 1.0, 1e-7])
    R = np.diag(unit**2)
    result = risk(PATH, 1e-3, second_moment=R, noise=0.25 * R)
    assert result.lmmse == pytest.approx(0.2)
    faint = nareg.baselines.lmmse(PATH, unit, second_moment=R, noise=0.25 * R)
    np.testing.assert_allclose(faint, 0.8 * unit)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "direct", "cg", "jacobi", "chebyshev", "multigrid"])
@pytest.mark.parametrize("unit", [1e-100, 1e-160, 1e-200, 1e-300])
def test_readings_whose_squares_underflow_are_denoised(us, rng, method, unit):
    y = rng.standard_normal((us.n_nodes, 2))
    y[:, 1] *= 1e30
    first, second = (denoise(us.graph, 0.5, scale * y, method=method) for scale in (1.0, unit))
    assert second.status.ok
    np.testing.assert_allclose(second.x / unit, first.x, rtol=1e-6, atol=1e-7)


def test_training_signals_whose_squares_underflow_are_refused():
    with pytest.raises(InputError, match="underflow"):
        node_invariant(PATH, rule="oracle", signals=np.full(4, 1e-158), noise=1e-300)


@pytest.mark.parametrize("noise", [1e-6, 1e-9, 1e-12])
def test_the_oracle_looks_as_far_as_it_pays(noise, rng):
    X = rng.standard_normal((4, 3))
    d = node_invariant(PATH, rule="oracle", signals=X, noise=noise)
    values, Q = np.linalg.eigh(PATH.laplacian().toarray())
    power = np.mean((Q.T @ X) ** 2, axis=1)
    grid = np.geomspace(1e-20, 1e10, 20001)[:, None]
    mse = np.sum(power * (grid * values / (1 + grid * values)) ** 2 + noise / (1 + grid * values) ** 2, axis=1)
    assert d.objective <= mse.min() * (1 + 1e-9)
    assert d.certificate.details["at_search_bound"] is False


def test_a_weight_at_the_end_of_its_search_is_named():
    d = node_invariant(PATH, rule="oracle", signals=np.ones(4), noise=1.0)
    assert d.certificate.details["at_search_bound"] is True
    assert d.objective == pytest.approx(1.0, rel=1e-6)
