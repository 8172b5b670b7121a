"""Where weights or edges span many decades ``direct`` is right to the last digits, or does not say CONVERGED."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import nareg
from nareg.errors import InputError
from nareg.filters import denoise, interpolate
from nareg.results import Status
from tests.filters.exact import ExactSystem, rational_solve


def exact_solution(A: np.ndarray, w: np.ndarray, c: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``(C + diag(w) L diag(w))^-1 C y`` in rational arithmetic, L the exact Laplacian of the given adjacency."""
    return ExactSystem(A, w, c, y).x


def solved(K: list[list[Fraction]], b: list[Fraction]) -> np.ndarray:
    return np.array([float(row[0]) for row in rational_solve(K, [[value] for value in b])])


def dense_random(n: int, rng: np.random.Generator) -> np.ndarray:
    A = np.triu(rng.random((n, n)), 1)
    return A + A.T


def connected(n: int, rng: np.random.Generator, decades: float) -> np.ndarray:
    """A random tree and a few more edges, their weights over so many decades."""
    A = np.zeros((n, n))
    for i in range(1, n):
        A[i, rng.integers(i)] = 10 ** rng.uniform(0, decades)
    extra = np.triu(rng.random((n, n)) < 0.2, 1)
    A = np.where((A + A.T == 0) & (extra | extra.T), 10 ** rng.uniform(0, decades, (n, n)), A + A.T)
    A = np.triu(A, 1)
    return A + A.T


def error(x: np.ndarray, reference: np.ndarray, y: np.ndarray) -> float:
    """Largest error of an entry against its own size and the readings'."""
    return float(np.max(np.abs(x - reference) / np.maximum(np.abs(reference), 1e-3 * np.abs(y).max())))


@pytest.mark.parametrize(("n", "w"), [(10, 1e6), (20, 3e7), (5, 1e10), (12, 1e3), (12, 3e4)])
def test_one_huge_weight_on_a_dense_graph(n, w, rng):
    A = dense_random(n, rng)
    y = 10 + rng.standard_normal(n)
    for method in ("direct", "auto"):
        solution = denoise(nareg.Graph(A), w, y, method=method)
        assert solution.status is Status.CONVERGED
        assert solution.residual <= 1e-8
        assert error(solution.x, exact_solution(A, np.full(n, w), np.ones(n), y), y) < 1e-10


@pytest.mark.parametrize("w", [1e13, 1e20, 1e60, 1e150])
def test_beyond_what_can_be_proved_the_mean_is_returned_and_not_called_converged(w, rng):
    A = dense_random(8, rng)
    y = 10 + rng.standard_normal(8)
    solution = denoise(nareg.Graph(A), w, y)
    np.testing.assert_allclose(solution.x, y.mean(), rtol=1e-12)
    assert solution.status is Status.STALLED


def test_weights_whose_squares_overflow_are_refused(rng):
    with pytest.raises(InputError, match="overflow"):
        denoise(nareg.Graph(dense_random(4, rng)), 1e160, np.ones(4))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), decades=st.floats(0, 12), n=st.integers(2, 12))
def test_node_weights_over_many_decades(seed, decades, n):
    rng = np.random.default_rng(seed)
    A = connected(n, rng, 2.0)
    w = 10 ** rng.uniform(-decades / 3, decades, n) * rng.choice([-1.0, 1.0], n)
    c, y = 10 ** rng.uniform(-2, 2, n), rng.standard_normal(n)
    solution = denoise(nareg.Graph(A), w, y, data_weight=c, method="direct")
    assert solution.status is Status.CONVERGED
    # an entry is a sum of signed parts, each right to rounding
    size = exact_solution(A, np.abs(w), c, np.abs(y))
    assert np.all(np.abs(solution.x - exact_solution(A, w, c, y)) <= 1e-10 * size.max())


@pytest.mark.filterwarnings("ignore::nareg.errors.AmplificationWarning")
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), decades=st.floats(0, 14), n=st.integers(2, 12))
def test_interpolation_with_edges_over_many_decades(seed, decades, n):
    rng = np.random.default_rng(seed)
    A = connected(n, rng, decades)
    y = 10 + rng.standard_normal(n)
    seen = rng.random(n) < 0.5
    seen[rng.integers(n)] = True
    solution = interpolate(nareg.Graph(A), 1.0, np.where(seen, y, np.nan), seen)
    assert solution.status is Status.CONVERGED
    assert solution.residual <= 1e-8
    assert error(solution.x, exact_solution(A, np.ones(n), seen.astype(float), np.where(seen, y, 0)), y) < 1e-10


def test_faint_edges_hold_a_strong_group(rng):
    """Residuals are tiny here whatever the group's level is: only its faint edge decides."""
    A = np.zeros((4, 4))
    A[0, 1], A[1, 2], A[2, 3] = 1e-13, 1.0, 1.0
    A += A.T
    seen = np.array([True, False, False, False])
    solution = interpolate(nareg.Graph(A), 1.0, np.array([7.0, 0, 0, 0]), seen)
    np.testing.assert_allclose(solution.x, 7.0, rtol=1e-12)


def test_many_signals_columns_of_zeros_and_nodes_without_a_weight(rng):
    A = connected(9, rng, 3.0)
    w = np.array([0.0, 1e8, 2e8, 0.0, 1e5, 1e9, 1e7, 3.0, 1e8])
    y = np.column_stack([rng.standard_normal(9), np.zeros(9), 1e6 * rng.standard_normal(9)])
    solution = denoise(nareg.Graph(A), w, y, method="direct")
    assert solution.status is Status.CONVERGED
    assert not solution.x[:, 1].any()
    for t in (0, 2):
        assert error(solution.x[:, t], exact_solution(A, w, np.ones(9), y[:, t]), y[:, t]) < 1e-12
    assert np.array_equal(solution.x[[0, 3]], y[[0, 3]])


@pytest.mark.parametrize("w", [1e5, 1e8, 1e12])
def test_huge_weights_on_a_mesh_tend_to_the_mean(w, rng):
    g = nareg.graphs.grid((40, 45))
    y = 10 + rng.standard_normal((g.n_nodes, 3))
    solution = denoise(g, w, y)
    assert solution.status is Status.CONVERGED
    # the deviation from the mean is at most ||y|| / (w^2 lambda_2)
    np.testing.assert_allclose(solution.x, np.broadcast_to(y.mean(axis=0), y.shape), rtol=1e-12 + 1e3 / w**2 * 1800)


def test_an_operator_that_is_no_laplacian(rng):
    """The last row sum of ``L + 1e-9 E`` is what holds the level where no data term does."""
    A = dense_random(6, rng)
    L = np.diag(A.sum(axis=1)) - A
    operator = L @ L + 0.1 * np.eye(6)
    w, y = 1e6 * np.ones(6), rng.standard_normal(6)
    solution = denoise(operator, w, y, method="direct")
    K = [[Fraction(float(operator[i, j])) * Fraction(10**12) + (i == j) for j in range(6)] for i in range(6)]
    reference = solved(K, [Fraction(float(v)) for v in y])
    assert solution.status is Status.CONVERGED
    assert np.linalg.norm(solution.x - reference) <= 1e-9 * np.linalg.norm(reference)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), decades=st.floats(0, 20))
def test_converged_means_both_residuals_for_a_users_own_matrix(seed, decades):
    rng = np.random.default_rng(seed)
    n = 7
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    S = (Q * 10 ** rng.uniform(0, decades, n)) @ Q.T
    S, y = (S + S.T) / 2, rng.standard_normal(n)
    solution = denoise(nareg.Graph(dense_random(n, rng)), S, y, method="direct")
    K = [[Fraction(float(S[i, j])) + (i == j) for j in range(n)] for i in range(n)]
    reference = solved(K, [Fraction(float(v)) for v in y])
    if solution.status is Status.CONVERGED:
        assert solution.residual <= 1e-8
        assert np.linalg.norm(solution.x - reference) <= 1e-7 * np.linalg.norm(y)
    if decades < 10:
        assert solution.status is Status.CONVERGED


def test_a_laplacian_given_as_the_matrix_is_solved_as_one(rng):
    A = dense_random(8, rng)
    y = 10 + rng.standard_normal(8)
    S = sp.csr_array(1e14 * nareg.Graph(A).laplacian())
    solution = denoise(nareg.Graph(A), S, y)
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(solution.x, y.mean(), rtol=1e-10)
