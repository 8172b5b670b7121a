"""The perturbed training problem and what bounds it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nareg.errors import SolverError
from nareg.unlearning.objective import LOSSES, ClassifierObjective, spectral_norm_bound
from tests.unlearning import reference


def objective(rng, *, loss="logistic", lam=0.01, shape=(40, 6), classes=3, noise=0.1):
    S, s = rng.standard_normal(shape), rng.uniform(0.2, 1, shape[0])
    Y = np.where(rng.integers(0, classes, shape[0])[:, None] == np.arange(classes), 1.0, -1.0)
    return ClassifierObjective(S, s, Y, LOSSES[loss], lam, noise * rng.standard_normal((shape[1], classes)))


@pytest.mark.parametrize("loss", LOSSES)
def test_derivatives(loss, rng):
    problem = objective(rng, loss=loss)
    Z, W, h = problem.s[:, None] * problem.S, rng.standard_normal((6, 3)), 1e-5
    at = problem.evaluate(W)

    def value(w):
        return reference.value(Z, problem.Y, w, problem.B, 0.01, loss)

    for step in h * np.eye(18).reshape(18, 6, 3):
        assert (value(W + step) - value(W - step)) / 2 / h == pytest.approx(at.gradient[step > 0].item(), abs=1e-6)
    np.testing.assert_allclose(at.gradient, reference.gradient(Z, problem.Y, W, problem.B, 0.01, loss), atol=1e-12)
    assert at.residual == pytest.approx(np.linalg.norm(at.gradient))
    slope, curvature = LOSSES[loss].derivatives(Z @ W, problem.Y)
    assert at.slope == pytest.approx(np.linalg.norm(slope))
    np.testing.assert_allclose(at.curvature, curvature, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_derivatives_of_a_loss_and_their_bounds(loss, y):
    t, h, it = np.linspace(-8, 8, 4001), 1e-5, LOSSES[loss]
    slope, curvature = it.derivatives(t, y)
    (above, bent_above), (below, bent_below) = it.derivatives(t + h, y), it.derivatives(t - h, y)
    np.testing.assert_allclose((above - below) / 2 / h, curvature, atol=1e-9)
    assert (abs(slope) <= it.c1).all()
    assert (curvature <= it.gamma1 + 1e-15).all()
    assert abs(bent_above - bent_below).max() / 2 / h == pytest.approx(it.gamma2, abs=1e-6)  # and no smaller one would do


@pytest.mark.parametrize("shape", [(40, 6), (15, 30)])
@pytest.mark.parametrize("lam", [1e-6, 1e-2, 10.0])
def test_newton_finds_the_optimum(shape, lam, rng):
    problem = objective(rng, shape=shape, lam=lam)
    at, Z = problem.minimize(np.zeros((shape[1], 3)), 1e-8), problem.s[:, None] * problem.S
    assert at.residual <= 1e-8
    result = np.linalg.norm(reference.gradient(Z, problem.Y, at.W, problem.B, lam))
    assert result == pytest.approx(at.residual, rel=1e-6, abs=1e-12)
    if lam > 1e-6:  # a general minimizer does not get there without a ridge
        wanted = reference.optimum(Z, problem.Y, problem.B, lam)
        np.testing.assert_allclose(at.W, wanted, atol=1e-6 / min(lam, 1))


def test_least_squares_in_closed_form(rng):
    problem = objective(rng, loss="squared", lam=0.1)
    W = problem.minimize(np.zeros((6, 3)), 1e-10).W
    Z = problem.s[:, None] * problem.S
    np.testing.assert_allclose(W, np.linalg.solve(Z.T @ Z + 4 * np.eye(6), Z.T @ problem.Y - problem.B), atol=1e-10)


def test_far_from_the_optimum_newton_is_damped(rng):
    problem = objective(rng, lam=1e-4)
    far, nearby = problem.minimize(1e3 * rng.standard_normal((6, 3)), 1e-8), problem.minimize(np.zeros((6, 3)), 1e-8)
    assert far.residual <= 1e-8
    np.testing.assert_allclose(far.W, nearby.W, atol=1e-3)


def test_the_last_step_may_be_the_one_that_arrives(rng, monkeypatch):
    """Least squares is one Newton step."""
    problem = objective(rng, loss="squared", lam=0.1)
    monkeypatch.setattr("nareg.unlearning.objective.STEPS", 1)
    assert problem.minimize(np.zeros((6, 3)), 1.0).residual <= 1.0


@pytest.mark.slow
def test_slopes_that_are_saturated_take_many_steps(rng):
    """Counts of thirty and more, all labels alike, and a large noise term."""
    S, Y = rng.poisson(30, (300, 40)).astype(float), np.tile([1.0, -1.0, -1.0], (300, 1))
    for seed in range(4):
        B = 10 * np.random.default_rng(seed).standard_normal((40, 3))
        at = ClassifierObjective(S, np.ones(300), Y, LOSSES["logistic"], 1e-4, B).minimize(np.zeros((40, 3)), 0.228)
        assert np.linalg.norm(reference.gradient(S, Y, at.W, B, 1e-4)) <= 0.228 * (1 + 1e-9)


def test_what_is_no_number_is_not_gone_on_with(rng, monkeypatch):
    problem, steps, solve = objective(rng), [], ClassifierObjective.solve
    problem.S[3, 2] = np.nan
    monkeypatch.setattr(ClassifierObjective, "solve", lambda *given: steps.append(0) or solve(*given))
    with pytest.raises(SolverError, match="gradient of nan"):
        problem.minimize(np.zeros((6, 3)), 1e-8)
    assert len(steps) == 1


def test_what_rounding_does_not_allow_is_said(rng):
    with pytest.raises(SolverError, match=r"stopped at a gradient of .*, above the required 1e-30"):
        objective(rng).minimize(np.zeros((6, 3)), 1e-30)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_the_bound_of_the_spectral_norm_is_one(n, d, rank, seed):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, min(rank, n, d))) @ rng.standard_normal((min(rank, n, d), d)) * 10.0 ** rng.integers(-6, 7)
    norm = np.linalg.norm(Z, 2)
    assert norm <= spectral_norm_bound(Z) <= min(n, d) ** (1 / 64) * norm * (1 + 1e-9)
