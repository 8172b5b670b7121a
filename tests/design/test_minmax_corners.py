"""Min-max designs for two corners by a low-rank factor, against Clarabel and against their own optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.design import _minmax, minmax
from nareg.design._convex.corners import find_zero
from nareg.design._convex.criteria import worst_corner
from nareg.errors import InputError, TooLargeError
from nareg.results import Status
from tests.helpers import at_night, sensor_case


def corners(n, seed):
    g, low, high = sensor_case(seed, n)
    return g, {"signal_low": low, "signal_high": high}


def values(d, graph, bounds, data_weight=1.0):
    """``||C^-1/2 S x||^2`` at both corners."""
    L = graph.laplacian().toarray()
    S = d.weights[:, None] * L * d.weights
    return [float(np.sum((S @ x) ** 2 / data_weight)) for x in bounds.values()]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "seed"), [(8, 0), (14, 1), (30, 2), *at_night([(80, 3)])])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_optimum_is_clarabels_and_the_bound_is_below(n, seed, weighted):
    g, bounds = corners(n, seed)
    data_weight = np.linspace(0.5, 2, n) if weighted else np.ones(n)
    options = {**bounds, "noise": 0.3, "data_weight": data_weight}
    ours, reference = minmax(g, **options), minmax(g, **options, solver="clarabel")
    details, optimum = ours.certificate.details, reference.certificate.relaxed_objective
    assert ours.status is Status.CONVERGED
    assert details["low_rank_objective"] == pytest.approx(optimum, rel=6e-4)
    assert details["dual_bound"] <= optimum * (1 + 1e-7)
    assert details["dual_bound"] == pytest.approx(optimum, rel=6e-4)
    assert details["gap"] <= 5e-4
    assert ours.certificate.relaxed_objective == details["dual_bound"] <= ours.objective
    assert ours.objective <= reference.objective * (1 + 1e-9)
    assert ours.objective == pytest.approx(max(values(ours, g, bounds, data_weight)))
    L, root = g.laplacian().toarray(), np.sqrt(data_weight)
    omega = ours.omega / root[:, None] / root
    S = omega * L
    extremes = root[:, None] * np.column_stack(list(bounds.values()))
    assert np.max(np.sum((S @ extremes) ** 2, axis=0)) == pytest.approx(details["low_rank_objective"], rel=1e-9)


@pytest.mark.slow
def test_weights_are_a_stationary_point_of_the_larger_corner():
    """No small feasible change lowers both corners, and the corners balance."""
    g, bounds = corners(60, 4)
    d = minmax(g, **bounds, lower=0.5)
    L, x = g.laplacian().toarray(), np.column_stack(list(bounds.values()))
    first, second = values(d, g, bounds)
    assert first == pytest.approx(second, rel=1e-6)
    assert d.certificate.gradient_norm < 1e-6
    rng = np.random.default_rng(0)
    for _ in range(200):
        w = d.weights * (1 + 1e-4 * rng.standard_normal(60))
        w = np.where(w < 0, -1, 1) * np.maximum(np.abs(w), np.sqrt(0.5))
        assert worst_corner(L, x, w) >= d.objective * (1 - 1e-9)


@pytest.mark.slow
def test_without_dense_matrices_the_design_is_the_same(monkeypatch):
    g, bounds = corners(60, 5)
    options = {**bounds, "noise": 0.2, "data_weight": np.linspace(1, 3, 60)}
    dense = minmax(g, **options)
    monkeypatch.setattr(_minmax, "DENSE_NODES", 10)
    sparse = minmax(g, **options)
    np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-5)
    assert sparse.certificate.relaxed_objective == pytest.approx(dense.certificate.relaxed_objective, rel=1e-3)
    assert sparse.certificate.details["box_worst_case_upper"] == pytest.approx(
        dense.certificate.details["box_worst_case_upper"], rel=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, pytest.param(410, marks=pytest.mark.nightly)])
def test_the_default_works_on_hundreds_of_nodes(n):
    rng = np.random.default_rng(0)
    g = nareg.graphs.sensor(n, rng=rng)
    X = nareg.graphs.heterogeneous_field(g, 30, rng=rng).signals
    bounds = {"signal_low": X.min(axis=1), "signal_high": X.max(axis=1)}
    d = minmax(g, **bounds, noise=0.5)
    assert d.status is Status.CONVERGED
    assert d.certificate.details["gap"] <= 1e-3
    assert d.certificate.relaxed_objective <= d.objective <= 2 * d.certificate.relaxed_objective


def test_what_stays_impossible_names_what_works():
    g = nareg.graphs.grid((61, 50))
    with pytest.raises(TooLargeError, match="use criterion='prony'"):
        minmax(g, signal_low=0.0, signal_high=1.0, noise=0.1, criterion="mse")
    d = minmax(g, signal_low=0.0, signal_high=1.0, noise=0.1, criterion="prony")
    assert d.objective < 1e-12  # one range for all stations: zero, as on small networks


@pytest.mark.slow
def test_one_corner_may_decide_alone():
    """A corner that is zero has no error: the design is that for the other one."""
    g, bounds = corners(20, 6)
    high = np.abs(bounds["signal_high"]) + np.where(np.arange(20) % 3 == 0, 0.0, 1.0)
    d = minmax(g, signal_low=np.zeros(20), signal_high=high, lower=1.0, upper=4.0, solver="low-rank")
    alone = minmax(g, signal_low=high, signal_high=high, lower=1.0, upper=4.0, solver="low-rank")
    assert d.status.ok
    assert d.objective == pytest.approx(alone.objective, rel=1e-5)
    assert d.certificate.details["dual_bound"] == pytest.approx(alone.certificate.details["dual_bound"], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_groups_get_a_proven_bound_of_their_own(weighted):
    g, bounds = corners(24, 7)
    options = {**bounds, "lower": 0.5, "data_weight": np.linspace(0.5, 2, 24) if weighted else None}
    labels = np.arange(24) // 4
    tied, free = minmax(g, groups=labels, **options), minmax(g, **options)
    details = tied.certificate.details
    assert details["degrees_of_freedom"] == 6
    assert details["gap"] <= 1e-3
    assert free.certificate.relaxed_objective <= details["dual_bound"] * (1 + 1e-9) <= tied.objective * (1 + 1e-9)
    assert free.objective <= tied.objective
    for group in range(6):
        assert np.ptp(tied.weights[labels == group]) < 1e-12


def test_an_interrupt_keeps_feasible_weights():
    g, bounds = corners(40, 8)
    seen = []

    def stop(now):
        seen.append(now.step)
        if len(seen) > 25:
            raise KeyboardInterrupt

    d = minmax(g, **bounds, lower=0.5, progress=stop)
    assert d.status is Status.INTERRUPTED
    assert (d.weights**2 >= 0.5 * (1 - 1e-9)).all()


@pytest.mark.parametrize(
    ("criterion", "solver", "words"),
    [("prony", "closed-form", "use 'low-rank' here"), ("mse", "low-rank", "use 'closed-form' here")],
)
def test_solvers_of_the_other_criterion_are_named(criterion, solver, words):
    g, bounds = corners(8, 9)
    with pytest.raises(InputError, match=words):
        minmax(g, **bounds, noise=0.1, criterion=criterion, solver=solver)


@pytest.mark.parametrize("zero", [-13.0, -0.4, 0.0, 0.02, 6.0])
@pytest.mark.parametrize("slope", [0.1, 1.0, 7.0])
def test_a_zero_is_found_whatever_the_slope(zero, slope):
    calls = []

    def function(t):
        calls.append(t)
        return slope * np.sinh(zero - t) / np.cosh(0.5 * (zero - t))

    find_zero(function, 0.0, done=lambda: False)
    assert calls[-1] == pytest.approx(zero, abs=1e-5)
