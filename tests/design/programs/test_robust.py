"""The worst second moment in a ball: attained, bounded by its dual, never exceeded by a sample; and the programs over it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm

import nareg
from nareg.design import programs
from nareg.design._convex.filter_fit import dense_step_one
from nareg.design._risk.problem import problem
from nareg.design.programs.robust import worst_moment
from nareg.errors import InputError

BALLS = ["frobenius", "wasserstein"]


def distance(R, M, ball: str) -> float:
    """Frobenius, or Wasserstein's between Gaussians of mean zero."""
    if ball == "frobenius":
        return float(np.linalg.norm(R - M))
    root = np.real(sqrtm(R))
    return float(np.sqrt(max(np.trace(R) + np.trace(M) - 2 * np.trace(np.real(sqrtm(root @ M @ root))), 0.0)))


def psd(rng, n, rank):
    F = rng.standard_normal((n, rank))
    return F @ F.T


@pytest.fixture(scope="module")
def small():
    g = nareg.graphs.sensor(8, 3, rng=np.random.default_rng(0))
    return g, np.random.default_rng(1).standard_normal((8, 5)).cumsum(axis=0)


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("radius", [0.0, 0.1, 3.0])
def test_the_worst_moment_is_in_the_ball_and_attains_the_dual(ball, radius, rng):
    X, R = psd(rng, 6, 6), psd(rng, 6, 4)
    worst, bound = worst_moment(X, R, radius, ball)
    assert np.linalg.eigvalsh(worst)[0] >= -1e-9
    assert distance(R, worst, ball) <= radius + 1e-6
    assert np.sum(X * worst) == pytest.approx(bound, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("ball", BALLS)
def test_no_sample_exceeds_the_bound(ball, rng):
    X, R, radius = psd(rng, 5, 5), psd(rng, 5, 5), 1.0
    bound = worst_moment(X, R, radius, ball)[1]
    largest = 0.0
    for _ in range(300):
        step = psd(rng, 5, int(rng.integers(1, 6))) * rng.choice([-0.2, 1.0])
        low, high = 0.0, 1e3
        for _ in range(60):  # as far as the ball reaches in this direction
            middle = (low + high) / 2
            M = R + middle * step
            inside = np.linalg.eigvalsh(M)[0] >= 0 and distance(R, M, ball) <= radius
            low, high = (middle, high) if inside else (low, middle)
        largest = max(largest, float(np.sum(X * (R + low * step))))
    assert largest <= bound * (1 + 1e-9)
    assert largest >= np.sum(X * R) + 0.3 * (bound - np.sum(X * R))


@pytest.mark.parametrize("ball", BALLS)
def test_eigenvalues_alone_give_the_program_in_matrices(small, ball):
    g, X = small
    values = [
        programs.robust(g, signals=X, noise=noise, radius=2.0, ball=ball).optimum().value
        for noise in (0.5, np.r_[np.full(7, 0.5), 0.5 + 1e-9])
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_a_radius_of_zero_is_the_relaxation(small):
    g, X = small
    for noise in (0.5, np.linspace(0.2, 1, 8)):
        value = dense_step_one(problem(g, signals=X, noise=noise, needs="test")).value
        assert programs.robust(g, signals=X, noise=noise, radius=0.0).optimum().value == pytest.approx(value, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("ball", BALLS)
def test_weights_are_bounded_by_the_filter_and_by_their_dual(small, ball, rng):
    g, X = small
    program = programs.robust(g, signals=X, noise=0.5, radius=2.0, ball=ball)
    d = program.solve()
    details = d.certificate.details
    assert d.status.ok
    assert details["worst_mse"] <= details["worst_case_lower"] * (1 + 1e-6)
    assert details["worst_case_lower"] == pytest.approx(details["worst_case_upper"], rel=1e-8)
    for _ in range(20):  # no other weights near it, and not those of the sample alone, are better in the worst case
        assert program.worst(d.weights * np.exp(0.1 * rng.standard_normal(8)))[1] >= d.objective * (1 - 1e-9)
    assert program.worst(nareg.design.exact(g, signals=X, noise=0.5).weights)[1] >= d.objective * (1 - 1e-9)


def test_gradient_of_the_worst_error(small, rng):
    g, X = small
    for ball in BALLS:
        function = programs.robust(g, signals=X, noise=0.5, radius=2.0, ball=ball).objective()
        w, step = rng.uniform(0.5, 1.5, 8), rng.standard_normal(8)
        difference = (function(w + 1e-6 * step)[0] - function(w - 1e-6 * step)[0]) / 2e-6
        assert function(w)[1] @ step == pytest.approx(difference, rel=1e-5)


def test_noise_in_an_interval_is_worst_at_an_end(small, rng):
    g, X = small
    Y = X + 0.7 * rng.standard_normal(X.shape)
    program = programs.robust(g, measurements=Y, noise=0.3, noise_high=0.7, radius=1.0)
    w = rng.uniform(0.2, 1.0, 8)
    ends = [programs.robust(g, measurements=Y, noise=s, radius=1.0).worst(w)[1] for s in (0.3, 0.7)]
    assert program.worst(w)[1] == pytest.approx(max(ends))
    clean = programs.robust(g, signals=X, noise=0.3, noise_high=0.7, radius=1.0)
    assert clean.worst(w)[1] == pytest.approx(programs.robust(g, signals=X, noise=0.7, radius=1.0).worst(w)[1])


def test_the_filter_attains_the_optimum_at_both_ends_of_the_noise(small, rng):
    """Three times of eight stations: directions without power have no basis of their own."""
    g, X = small
    Y = X + 0.7 * rng.standard_normal(X.shape)
    program = programs.robust(g, measurements=Y, noise=0.1, noise_high=4.0, radius=1.0)
    solved = program.optimum()
    E = solved.H - np.eye(8)
    ends = [worst_moment(E @ E.T, s.R, 1.0, "frobenius")[1] + np.sum(solved.H**2 * s.Sigma) for s in program.scenarios]
    assert max(ends) == pytest.approx(solved.value, rel=1e-6)


def test_set_refuses_noise_of_another_kind(small):
    g, X = small
    program = programs.robust(g, signals=X, noise=0.5, radius=1.0)
    with pytest.raises(InputError, match="build another"):
        program.set(noise=np.linspace(0.2, 1, 8))
    assert program.set(noise=0.7).optimum().value == pytest.approx(
        programs.robust(g, signals=X, noise=0.7, radius=1.0).optimum().value, rel=1e-6
    )


def test_bad_arguments_are_refused(small):
    g, X = small
    with pytest.raises(InputError, match="exactly one of signals"):
        programs.robust(g, noise=1.0, radius=1.0)
    with pytest.raises(InputError, match="radius is -1"):
        programs.robust(g, signals=X, noise=1.0, radius=-1.0)
    with pytest.raises(InputError, match="ball is 'cube'"):
        programs.robust(g, signals=X, noise=1.0, radius=1.0, ball="cube")
    with pytest.raises(InputError, match="use filter_step"):
        programs.robust(g, signals=X, noise=1.0, radius=1.0).add()
    big = nareg.graphs.grid((8, 8))
    with pytest.raises(InputError, match="matrices of 128 rows"):
        programs.robust(big, signals=np.ones(64), noise=np.linspace(1, 2, 64), radius=1.0)
