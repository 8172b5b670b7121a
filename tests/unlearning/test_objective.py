"""The perturbed training problem and what bounds it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nareg.errors import SolverError
from nareg.unlearning.objective import LOSSES, Objective, spectral_norm_bound
from tests.unlearning import reference


def objective(rng, *, loss="logistic", lam=0.01, shape=(40, 6), classes=3, noise=0.1):
    S, s = rng.standard_normal(shape), rng.uniform(0.2, 1, shape[0])
    Y = np.where(rng.integers(0, classes, shape[0])[:, None] == np.arange(classes), 1.0, -1.0)
    return Objective(S, s, Y, LOSSES[loss], lam, noise * rng.standard_normal((shape[1], classes)))


@pytest.mark.parametrize("loss", LOSSES)
def test_derivatives(loss, rng):
    problem = objective(rng, loss=loss)

    def value(w):
        return problem.value(w.reshape(6, 3), problem.forward(w.reshape(6, 3)))

    def gradient(w):
        return problem.gradient(w.reshape(6, 3), problem.forward(w.reshape(6, 3))).ravel()

    w, h = rng.standard_normal(18), 1e-5
    for step in h * np.eye(18):
        assert (value(w + step) - value(w - step)) / 2 / h == pytest.approx(gradient(w)[step > 0].item(), abs=1e-6)
    Z = problem.s[:, None] * problem.S
    wanted = reference.gradient(Z, problem.Y, w.reshape(6, 3), problem.B, 0.01, loss)
    np.testing.assert_allclose(gradient(w).reshape(6, 3), wanted, atol=1e-12)
    t = np.linspace(-8, 8, 4001)
    for y in (-1.0, 1.0):
        it = LOSSES[loss]
        np.testing.assert_allclose((it.slope(t + h, y) - it.slope(t - h, y)) / 2 / h, it.curvature(t, y), atol=1e-9)
        assert (abs(it.slope(t, y)) <= it.c1).all()
        assert (it.curvature(t, y) <= it.gamma1 + 1e-15).all()
        third = abs(it.curvature(t + h, y) - it.curvature(t - h, y)).max() / 2 / h
        assert third == pytest.approx(it.gamma2, abs=1e-6)  # and no smaller one would do


@pytest.mark.parametrize("shape", [(40, 6), (15, 30)])
@pytest.mark.parametrize("lam", [1e-6, 1e-2, 10.0])
def test_newton_finds_the_optimum(shape, lam, rng):
    problem = objective(rng, shape=shape, lam=lam)
    W, size = problem.minimise(np.zeros((shape[1], 3)), 1e-8)
    assert size <= 1e-8
    assert np.linalg.norm(problem.gradient(W, problem.forward(W))) == pytest.approx(size, rel=1e-6, abs=1e-12)
    if lam > 1e-6:  # a general minimiser does not get there without a ridge
        wanted = reference.optimum(problem.s[:, None] * problem.S, problem.Y, problem.B, lam)
        np.testing.assert_allclose(W, wanted, atol=1e-6 / min(lam, 1))


def test_least_squares_in_closed_form(rng):
    problem = objective(rng, loss="squared", lam=0.1)
    W, _ = problem.minimise(np.zeros((6, 3)), 1e-10)
    Z = problem.s[:, None] * problem.S
    np.testing.assert_allclose(W, np.linalg.solve(Z.T @ Z + 4 * np.eye(6), Z.T @ problem.Y - problem.B), atol=1e-10)


def test_far_from_the_optimum_newton_is_damped(rng):
    problem = objective(rng, lam=1e-4)
    W, size = problem.minimise(1e3 * rng.standard_normal((6, 3)), 1e-8)
    nearby, _ = problem.minimise(np.zeros((6, 3)), 1e-8)
    assert size <= 1e-8
    np.testing.assert_allclose(W, nearby, atol=1e-3)


def test_what_rounding_does_not_allow_is_said(rng):
    with pytest.raises(SolverError, match=r"stays at a gradient of .* where 1e-30 is needed"):
        objective(rng).minimise(np.zeros((6, 3)), 1e-30)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_the_bound_of_the_spectral_norm_is_one(n, d, rank, seed):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, min(rank, n, d))) @ rng.standard_normal((min(rank, n, d), d)) * 10.0 ** rng.integers(-6, 7)
    norm = np.linalg.norm(Z, 2)
    assert norm <= spectral_norm_bound(Z) <= min(n, d) ** (1 / 64) * norm * (1 + 1e-9)
