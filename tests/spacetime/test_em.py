"""EM: the penalized likelihood rises, and where EM rests its gradient is zero."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.spacetime._dense import em, smoother
from nareg.spacetime._dense.em import DYNAMICS, MU, Refinement, refine
from nareg.spacetime._dense.filter import Dynamics
from nareg.spacetime._dense.smoother import run
from nareg.spacetime._readings.space import Space
from tests.spacetime.reference import parameters, slopes, with_gaps


def problem(order=1, n=5, T=60, seed=0):
    """Readings (T, n) of a process with a full A, and the parametric dynamics to start from."""
    rng = np.random.default_rng(seed)
    graph = nareg.Graph.from_knn(3 * rng.random((n, 2)), 2)
    start = parameters(n, phi=(0.7, -0.2)[:order]).dynamics(Space.of(graph))
    A = 0.85 * np.linalg.qr(rng.standard_normal((n, n)))[0]
    y, x = np.empty((T, n)), np.zeros(n)
    for t in range(T):
        x = A @ x + 0.5 * rng.standard_normal(n)
        y[t] = x + 0.4 * rng.standard_normal(n)
    y = with_gaps(rng, y, 0.1)
    basis = np.linalg.eigh(start.Q)[1]
    support = (graph.adjacency.toarray() > 0) | np.eye(n, dtype=bool)
    return y, start, {"basis": basis, "support": support}


def prior(dynamics, r, start, r0, how, scales):
    """The penalty of the module's docstring, term by term."""
    precision, gap = np.linalg.inv(dynamics.Q), dynamics.matrix() - start.matrix()
    value = -how.nu / 2 * (np.linalg.slogdet(dynamics.Q)[1] + np.trace(precision @ start.Q))
    value -= how.kappa / 2 * np.trace(precision @ gap @ start.P0 @ gap.T)
    value -= MU / 2 * np.sum(np.log(r) + r0 / r)
    if how.df:
        value -= sum(np.sum((how.df / 2 + 1) * np.log(s[1:]) + how.df / (2 * s[1:])) for s in scales)
    return value


@pytest.mark.parametrize("dynamics", DYNAMICS)
@pytest.mark.parametrize("df", [None, 4.0])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.slow
def test_penalized_likelihood_never_falls(dynamics, df, order):
    y, start, extra = problem(order)
    r0 = np.full(5, 0.3)
    how = Refinement(dynamics, 20.0, 10.0, df)
    estimate = refine([y[:30], y[30:]], start, r0, how, iterations=8, fixed_noise=False, tol=0.0, **extra)
    rise = np.diff(estimate.objective)
    assert (rise >= -1e-9 * np.abs(estimate.objective[-1])).all()
    assert estimate.objective[-1] > estimate.objective[0] + 1
    passes = [
        run(w, estimate.dynamics, estimate.r, scale=s, smooth=False)
        for w, s in zip((y[:30], y[30:]), estimate.scales, strict=True)
    ]
    value = sum(p.log_likelihood for p in passes)
    assert estimate.log_likelihood == pytest.approx(value, rel=1e-9)
    assert estimate.objective[-1] == pytest.approx(
        value + prior(estimate.dynamics, estimate.r, start, r0, how, estimate.scales), rel=1e-9
    )


@pytest.mark.parametrize("dynamics", ["scalar", "modes", "full"])
@pytest.mark.parametrize("df", [None, 4.0])
def test_seven_long_iterations_come_as_far_as_twelve(dynamics, df, monkeypatch):
    y, start, extra = problem(order=2, T=200)
    how = Refinement(dynamics, 20.0, 10.0, df)
    long = refine([y], start, np.full(5, 0.3), how, iterations=7, fixed_noise=False, tol=0.0, **extra)
    monkeypatch.setattr(em, "LENGTH", 1.0)
    plain = refine([y], start, np.full(5, 0.3), how, iterations=12, fixed_noise=False, tol=0.0, **extra)
    assert plain.objective[-1] > plain.objective[-2] > plain.objective[0] + 1
    assert long.objective[-1] > plain.objective[-3]


@pytest.mark.parametrize("df", [None, 4.0])
def test_an_iteration_that_overshoots_is_taken_back(df, monkeypatch):
    y, start, extra = problem()
    monkeypatch.setattr(em, "LENGTH", 6.0)
    how = Refinement("full", 20.0, 10.0, df)
    estimate = refine([y], start, np.full(5, 0.3), how, iterations=8, fixed_noise=False, tol=0.0, **extra)
    assert (np.diff(estimate.objective) >= 0).all()


@pytest.mark.parametrize("dynamics", DYNAMICS)
@pytest.mark.parametrize("order", [1, 2])
def test_dynamics_are_of_the_kind_that_was_asked_for(dynamics, order):
    y, start, extra = problem(order)
    estimate = refine([y], start, np.full(5, 0.3), Refinement(dynamics, 20.0, 10.0), iterations=4, fixed_noise=True, **extra)
    np.testing.assert_array_equal(estimate.r, 0.3)
    np.testing.assert_allclose(estimate.dynamics.Q, estimate.dynamics.Q.T)
    for block in estimate.dynamics.blocks:
        assert block.shape == {"scalar": (), "diagonal": (5,)}.get(dynamics, (5, 5))
        if dynamics == "graph":
            assert not block[~extra["support"]].any()
        if dynamics == "modes":
            turned = extra["basis"].T @ block @ extra["basis"]
            np.testing.assert_allclose(turned, np.diag(turned.diagonal()), atol=1e-10)


@pytest.mark.parametrize("df", [None, 4.0])
@pytest.mark.parametrize("dynamics", ["scalar", "full"])
def test_where_em_rests_the_gradient_is_zero(dynamics, df):
    """Finite differences of filter plus penalty in log r, in A's scale and in Q's scale."""
    y, start, extra = problem(n=3, T=25)
    r0, how = np.full(3, 0.3), Refinement(dynamics, 60.0, 60.0, df)
    estimate = refine([y], start, r0, how, iterations=60, fixed_noise=False, tol=1e-6, **extra)
    assert estimate.converged
    assert estimate.gradient <= 1e-6

    def value(A=1.0, Q=1.0, r=estimate.r, scales=estimate.scales):
        moved = Dynamics(tuple(A * block for block in estimate.dynamics.blocks), Q * estimate.dynamics.Q, estimate.dynamics.P0)
        return run(y, moved, r, scale=scales[0], smooth=False).log_likelihood + prior(moved, r, start, r0, how, scales)

    gradient = [slopes(lambda t: value(r=estimate.r * np.exp(t)), np.zeros(3))]
    gradient += [slopes(lambda t: value(A=t[0]), np.ones(1)), slopes(lambda t: value(Q=t[0]), np.ones(1))]
    if df:
        gradient.append(slopes(lambda t: value(scales=[estimate.scales[0] * np.exp(t)]), np.zeros(len(y)))[1:])
    np.testing.assert_allclose(np.concatenate(gradient), 0.0, atol=1e-3)


@pytest.mark.parametrize("dynamics", ["scalar", "modes", "full"])
@pytest.mark.parametrize("order", [1, 2])
def test_dynamics_do_not_grow_where_the_readings_do(dynamics, order):
    _, start, extra = problem(order)
    rng = np.random.default_rng(1)
    growing = 0.1 * 1.05 ** np.arange(60)[:, None] * (1 + rng.random(5)) + 0.05 * rng.standard_normal((60, 5))
    how = Refinement(dynamics, 20.0, 0.01)
    estimate = refine([growing], start, np.full(5, 0.01), how, iterations=8, fixed_noise=False, tol=0.0, **extra)
    assert (np.diff(estimate.objective) >= -1e-9 * np.abs(estimate.objective[-1])).all()
    A, silent = estimate.dynamics, np.full((1500, 5), np.nan)
    radius = np.abs(np.linalg.eigvals(np.vstack([A.matrix(), np.eye(5 * order)[: 5 * (order - 1)]]))).max()
    assert 0.9 < radius < 1
    # a long silence between readings is passed
    done = run(np.concatenate([growing, silent, growing]), A, estimate.r)
    assert np.isfinite(done.x).all()
    assert done.var.max() < 1e6


def test_strong_prior_leaves_everything_where_it_was():
    y, start, extra = problem()
    estimate = refine([y], start, np.full(5, 0.3), Refinement("full", 1e9, 1e9), iterations=3, fixed_noise=True, **extra)
    np.testing.assert_allclose(estimate.dynamics.matrix(), start.matrix(), atol=1e-6)
    np.testing.assert_allclose(estimate.dynamics.Q, start.Q, rtol=1e-6)


@pytest.mark.parametrize("stop", [None, 1])
def test_watch_sees_every_expectation_step_and_stops_when_told(stop):
    y, start, extra = problem()
    seen = []

    def watch(means, now):
        again = run(y, now.dynamics, now.r)
        np.testing.assert_allclose(means[0], again.x, rtol=1e-9, atol=1e-12)  # made with this estimate
        seen.append(len(means))
        return stop is not None and len(seen) > stop

    estimate = refine(
        [y], start, np.full(5, 0.3), Refinement("scalar", 20.0, 10.0), iterations=3, fixed_noise=False, watch=watch, **extra
    )
    assert seen == [1] * len(estimate.objective)
    assert estimate.iterations == len(estimate.objective) - 1
    assert estimate.iterations == (3 if stop is None else stop)


def test_known_passes_are_not_made_again(monkeypatch):
    y, start, extra = problem()
    how, r0, made = Refinement("modes", 20.0, 10.0), np.full(5, 0.3), []
    plain = refine([y], start, r0, how, iterations=2, fixed_noise=False, **extra)
    known = [run(y, start, r0, moments=True)]
    spy = lambda *args, **options: made.append(options) or smoother.filter_each(*args, **options)  # noqa: E731
    monkeypatch.setattr(em, "filter_each", spy)
    again = refine([y], start, r0, how, iterations=2, fixed_noise=False, known=known, **extra)
    assert [options["smooth"] for options in made] == [True, False]  # nobody looks at the last estimates
    np.testing.assert_array_equal(again.objective, plain.objective)
    np.testing.assert_array_equal(again.dynamics.matrix(), plain.dynamics.matrix())


def test_moments_are_for_steps_that_are_taken_alone(monkeypatch):
    """A path that its watch ends takes no step from where it ends, and a step too far is not smoothed."""
    y, start, extra = problem()
    how, r0, made = Refinement("modes", 20.0, 10.0), np.full(5, 0.3), []
    spy = lambda records, *args: made.append(len(records)) or smoother.moments_each(records, *args)  # noqa: E731
    monkeypatch.setattr(em, "moments_each", spy)
    seen = []
    refine(
        [y], start, r0, how, iterations=5, fixed_noise=False, watch=lambda *args: seen.append(args) or len(seen) == 3, **extra
    )
    assert (len(seen), made) == (3, [1, 1])


def test_diagonal_and_full_find_a_known_matrix():
    """Long records and no prior: A is found."""
    rng = np.random.default_rng(0)
    A = np.array([[0.8, 0.15], [-0.3, 0.6]])
    x, y = np.zeros(2), np.empty((1500, 2))
    for t in range(len(y)):
        x = A @ x + rng.standard_normal(2)
        y[t] = x + 0.3 * rng.standard_normal(2)
    start = Dynamics((np.asarray(0.5),), np.eye(2), np.eye(2))
    estimate = refine([y], start, np.full(2, 0.09), Refinement("full", 1e-6, 1e-6), iterations=15, fixed_noise=True)
    np.testing.assert_allclose(estimate.dynamics.matrix(), A, atol=0.06)
    np.testing.assert_allclose(estimate.dynamics.Q, np.eye(2), atol=0.12)
