"""The paper's conditions: what holds, and a counterexample to each statement that does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg.design import conditions
from nareg.errors import InputError


@given(st.integers(0, 100_000))
def test_lemma_1_holds_for_white_noise(seed):
    rng = np.random.default_rng(seed)
    g = nareg.graphs.erdos_renyi(6, 0.6, rng=rng)
    w0 = 10 ** rng.uniform(-2, 1)
    w = np.sqrt(w0) * (1 + 5 * rng.random(6)) * rng.choice([-1, 1], 6)
    c = conditions(g, w, strength=w0, signal=rng.standard_normal(6), noise=rng.random() + 0.1)
    assert c.lemma1
    assert c.variance <= c.variance_scalar * (1 + 1e-10)


def test_lemma_1_fails_for_unequal_noise():
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(300):
        g = nareg.graphs.erdos_renyi(5, 0.7, rng=rng)
        w0 = 10 ** rng.uniform(-1, 1)
        c = conditions(
            g, np.sqrt(w0) * (1 + 3 * rng.random(5)), strength=w0, signal=np.ones(5), noise=10 ** rng.uniform(-2, 2, 5)
        )
        assert c.lemma1
        ratios.append(c.variance / c.variance_scalar)
    assert max(ratios) > 1.01


def test_theorem_1_fails_on_two_nodes_with_white_noise():
    g = nareg.Graph([[0, 7.12], [7.12, 0]])
    c = conditions(g, [0.74, 4.12], strength=0.23, signal=[-0.5, -2.9], noise=66.1)
    assert c.lemma1
    assert c.theorem1
    assert (c.left, c.right) == pytest.approx((0.2317, 0.2380), abs=1e-4)
    assert (c.mse, c.mse_scalar) == pytest.approx((73.633, 71.407), abs=1e-3)
    assert "larger all the same" in c.summary()


def test_conditions_are_the_printed_formulas(rng):
    g = nareg.graphs.erdos_renyi(7, 0.6, rng=rng)
    x, noise = rng.standard_normal(7), rng.random(7) + 0.5
    w = 0.01 * (1 + rng.random(7))
    c = conditions(g, w, strength=1e-5, signal=x, noise=noise)
    largest = np.linalg.eigvalsh(g.laplacian().toarray())[-1]
    rho = np.max(np.linalg.eigvals(np.outer(x, x) @ np.diag(1 / noise)).real)
    gamma = np.max(np.linalg.eigvals(np.outer(x, x / noise) @ np.linalg.inv(np.eye(7) + np.outer(x, x / noise))).real)
    assert c.left == pytest.approx(2 * gamma)
    assert c.right == pytest.approx(1 / (1 + 1e-5 * largest) + 1 / (1 + np.max(w**2) * largest))
    assert c.corollary1 == bool(np.max(w**2) <= 1 / (rho * largest))


def test_singular_noise_is_refused():
    with pytest.raises(InputError, match="noise is singular"):
        conditions(nareg.graphs.grid((3,)), np.ones(3), strength=1.0, signal=np.ones(3), noise=[1.0, 0.0, 1.0])


def test_corollary_1_fails_on_two_nodes_with_white_noise():
    g = nareg.Graph([[0, 37.119118], [37.119118, 0]])
    c = conditions(
        g, [0.29843163, 0.37485108], strength=0.088526846, signal=[-6.71647592e-05, 4.60837923e-02], noise=0.022181789
    )
    assert c.lemma1
    assert c.corollary1
    assert c.mse / c.mse_scalar == pytest.approx(1.00424, abs=1e-5)


def test_the_solution_of_25_need_not_have_rank_one():
    g = nareg.graphs.erdos_renyi(8, 0.5, rng=np.random.default_rng(3))
    smooth = np.linalg.inv(np.eye(8) + g.laplacian().toarray())
    X = smooth @ np.random.default_rng(4).standard_normal((8, 24))
    solved = nareg.design.prony(g, signals=X, lower=1.0, scale="bound", solver="clarabel")
    values, vectors = np.linalg.eigh(solved.omega)
    assert values[-2] > 0.01 * values[-1]
    assert (values[-1] * vectors[:, -1] ** 2).min() < 0.99  # the rank-one part violates the bound


@given(st.integers(0, 100_000))
def test_15a_and_16_give_15b(seed):
    rng = np.random.default_rng(seed)
    g = nareg.graphs.erdos_renyi(5, 0.7, rng=rng)
    w0 = 10 ** rng.uniform(-2, 0)
    w = np.sqrt(w0) * (1 + rng.random(5))
    x = rng.standard_normal(5)
    largest = np.linalg.eigvalsh(g.laplacian().toarray())[-1]
    noise = x @ x * largest * np.max(w**2) * 10 ** rng.uniform(-0.5, 1)  # about the edge of (16)
    c = conditions(g, w, strength=w0, signal=x, noise=noise)
    if c.corollary1:
        assert c.left <= c.right * (1 + 1e-12)
        assert c.theorem1
