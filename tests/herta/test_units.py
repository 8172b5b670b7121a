"""Columns of any units, of deficient rank, nearly equal; more of them than nodes; single precision."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.results import Status
from tests.herta.helpers import ONE_HOT, UNITS, best_squared, fit, problem, propagated


@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float64, 1e-7), (np.float32, 1e-3)])
@pytest.mark.parametrize("told", UNITS)
def test_columns_may_have_any_units(told, dtype, accuracy, rng):
    """A column of timestamps (of large numbers: single precision cannot tell them apart), one of ones, one of tiny numbers."""
    graph, X, labels, train = problem(rng, n=300, d=8)
    times = 1.7e9 + 3600.0 * np.arange(300)
    X[:, 0], X[:, 1], X[:, 2] = times if dtype is np.float64 else 1e9 * X[:, 0], 1.0, 1e-6 * X[:, 2]
    F = propagated(graph, X, 2.0)[train]
    best = best_squared(F / np.linalg.norm(F, axis=0), ONE_HOT[labels[train]])
    found = fit(graph, X, labels, lam=2.0, train=train, dtype=dtype, rng=rng, **told)
    assert found.status is Status.CONVERGED
    assert found.loss == pytest.approx(best, rel=accuracy)


@pytest.mark.parametrize("scale", [1e4, 1e9])
@pytest.mark.parametrize("told", [{}, *UNITS[:2], {"optimizer": "gd", "preconditioner": "exact"}])
def test_units_and_weight_decay_with_more_features_than_nodes(scale, told, rng):
    graph, X, labels, train = problem(rng, d=80)
    X[:, 0] *= scale
    F = propagated(graph, X, 1.0)[train]
    lengths = np.linalg.norm(F, axis=0)
    stacked = np.vstack([F / lengths, np.sqrt(0.1) * np.diag(1 / lengths)])
    Y = np.vstack([ONE_HOT[labels[train]], np.zeros((80, 3))])
    best = 0.5 * ((stacked @ np.linalg.lstsq(stacked, Y, rcond=None)[0] - Y) ** 2).sum()
    found = fit(graph, X, labels, train=train, weight_decay=0.1, **told)
    assert found.status is Status.CONVERGED
    assert found.loss == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("told", UNITS[:2])
def test_nearly_equal_columns_are_told_apart(told, rng):
    graph, X, labels, train = problem(rng, n=300, d=4)
    X = np.column_stack([X, X[:, 0] + 1e-7 * rng.random(300)])
    best = best_squared(propagated(graph, X, 0.5)[train], ONE_HOT[labels[train]])
    found = fit(graph, X, labels, lam=0.5, train=train, **told)
    assert found.loss == pytest.approx(best, rel=1e-7)
    assert found.status is Status.CONVERGED


@pytest.mark.parametrize("optimizer", ["direct", "pcg", "lbfgs"])
def test_features_of_deficient_rank_reach_the_optimum(optimizer, rng):
    graph, X, labels, train = problem(rng)
    X = np.hstack([X, X[:, :4] + X[:, 4:], np.zeros((60, 2))])
    best = best_squared(propagated(graph, X, 1.0)[train], ONE_HOT[labels[train]])
    found = fit(graph, X, labels, train=train, optimizer=optimizer, rng=rng)
    assert found.loss == pytest.approx(best, rel=1e-6)
    assert np.isfinite(found.weights).all()


@pytest.mark.parametrize("told", [{"optimizer": "direct"}, *UNITS[1:], {"loss": "ce", "weight_decay": 0.1}])
@pytest.mark.parametrize("d", [8, 60])
def test_deficient_rank_in_single_precision(told, d, rng):
    graph, X, labels, train = problem(rng, d=d)
    X = np.hstack([X, X[:, :4] + X[:, 4:8], np.zeros((60, 2))])
    single, double = (fit(graph, X, labels, train=train, dtype=dtype, **told) for dtype in (np.float32, np.float64))
    assert single.status.ok
    assert single.loss == pytest.approx(double.loss, rel=1e-3, abs=1e-4 * double.losses[0])


@pytest.mark.parametrize("optimizer", ["direct", "pcg"])
def test_more_features_than_nodes_interpolate(optimizer, rng):
    graph, X, labels, train = problem(rng, n=30, d=50)
    found = fit(graph, X, labels, train=train, optimizer=optimizer, rng=rng)
    assert found.loss < 1e-7 * found.losses[0]
    assert (found.predict()[train] == labels[train]).all()


def test_the_direct_solution_is_the_shortest(rng):
    graph, X, labels, train = problem(rng, n=30, d=50)
    found = fit(graph, X, labels, train=train, optimizer="direct", inner_tol=1e-12)
    shortest = np.linalg.pinv(propagated(graph, X, 1.0)[train]) @ ONE_HOT[labels[train]]
    np.testing.assert_allclose(found.weights, shortest, atol=1e-6)
