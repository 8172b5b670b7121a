"""How a training ends: what its status, its losses and its gap say is so."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg import herta
from nareg.results import Status
from tests.herta.helpers import ONE_HOT, best_cross_entropy, best_squared, fit, problem, propagated


def test_stop_below_and_max_iterations_are_kept(rng):
    graph, X, labels, train = problem(rng)
    told = {"train": train, "optimizer": "gd", "preconditioner": "none", "learning_rate": 1e-3}
    short = fit(graph, X, labels, max_iterations=7, **told)
    assert (len(short.losses) - 1, short.status) == (7, Status.MAX_ITERATIONS)
    assert (np.diff(short.losses) < 0).all()
    half = fit(graph, X, labels, stop_below=0.9 * short.losses[0], **told)
    assert half.status is Status.TARGET_REACHED
    assert half.losses[-2] > 0.9 * short.losses[0] >= half.loss


@pytest.mark.parametrize("optimizer", ["pcg", "direct", "gd"])
def test_a_target_that_loose_solves_take_for_reached_is_not(optimizer, rng):
    graph, X, labels, train = problem(rng)
    best = best_squared(propagated(graph, X, 5.0)[train], ONE_HOT[labels[train]])
    told = {"lam": 5.0, "train": train, "optimizer": optimizer, "inner_tol": 3e-2}
    found = fit(graph, X, labels, stop_below=best * (1 + 1e-6), **told)
    assert found.loss > best * (1 + 1e-5)
    assert found.status is not Status.TARGET_REACHED


def test_a_step_too_long_is_told(rng):
    graph, X, labels, train = problem(rng)
    found = fit(graph, X, labels, train=train, optimizer="gd", learning_rate=50.0)
    assert found.status is Status.DIVERGED
    assert np.isfinite(found.weights).all()


def test_an_interrupt_keeps_what_was_reached(rng):
    graph, X, labels, train = problem(rng)

    def stop(progress):
        if progress.step == 3:
            raise KeyboardInterrupt

    found = fit(graph, X, labels, train=train, optimizer="gd", preconditioner="none", learning_rate=1e-3, progress=stop)
    assert found.status is Status.INTERRUPTED
    assert found.loss < found.losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["lbfgs", "gd"])
def test_a_plateau_does_not_count_as_converged(optimizer, rng):
    graph, X, labels, train = problem(rng, n=300, d=8)
    X[:, 0] *= 1e9
    found = fit(graph, X, labels, train=train, optimizer=optimizer, preconditioner="none")
    assert found.loss > 1.001 * fit(graph, X, labels, train=train).loss
    assert found.status in (Status.STALLED, Status.MAX_ITERATIONS)


@pytest.mark.parametrize("told", [{"optimizer": "direct"}, {"optimizer": "pcg", "preconditioner": "none"}])
def test_targets_far_from_zero_are_not_taken_for_reached(told, rng):
    graph, X, _, train = problem(rng, n=300, d=8)
    X[:, 0] = 1.0
    Y = 101325.0 + rng.standard_normal((300, 1))
    best = best_squared(propagated(graph, X, 2.0, "combinatorial")[train], Y[train])
    assert best < 1e-8 * 0.5 * (Y[train] ** 2).sum()
    found = fit(graph, X, Y, lam=2.0, train=train, kind="combinatorial", inner_tol=1e-12, **told)
    assert found.status is Status.CONVERGED
    assert found.loss == pytest.approx(best, rel=1e-7)


def test_separable_classes_are_named(rng):
    graph, X, labels, train = problem(rng, n=30, d=50)
    found = fit(graph, X, labels, train=train, loss="ce", tol=1e-6)
    assert found.status is Status.SEPARABLE
    assert "add weight_decay" in found.status.value
    bounded = fit(graph, X, labels, train=train, loss="ce", weight_decay=0.1)
    assert bounded.status is Status.CONVERGED


def test_one_wrong_label_is_not_separable(rng):
    """Two nodes with the same features and neighbors but different classes: nothing tells them apart."""
    graph = nareg.Graph(np.ones((60, 60)) - np.eye(60))
    labels = np.repeat([0, 1], 30)
    X = np.eye(2)[labels] * 1e3
    apart = fit(graph, X, labels, loss="ce", tol=1e-2)
    assert apart.status is Status.SEPARABLE
    labels[0] = 1
    mixed = fit(graph, X, labels, loss="ce", tol=1e-2, max_iterations=3000)
    assert mixed.status is not Status.SEPARABLE
    assert mixed.loss > np.log(2)


@pytest.mark.parametrize("loss", ["mse", "ce"])
@pytest.mark.parametrize("optimizer", ["direct", "pcg", "lbfgs", "gd", "adam", "algorithm-1"])
def test_features_of_zeros_leave_the_weights_at_zero(loss, optimizer, rng):
    graph, X, labels, train = problem(rng)
    if loss == "ce" and optimizer in ("direct", "pcg", "algorithm-1"):
        optimizer = "auto"
    found = fit(graph, 0 * X, labels, train=train, loss=loss, optimizer=optimizer)
    assert not found.weights.any()
    assert found.status is Status.CONVERGED
    assert herta.precondition(graph, 0 * X, lam=1.0).condition is None


@pytest.mark.parametrize("interrupted", [False, True])
def test_the_curves_are_of_one_length(interrupted, rng):
    graph, X, labels, train = problem(rng, n=200, d=60)
    held = np.setdiff1d(np.arange(200), train)

    def progress(report):
        if interrupted and report.step == 4:
            raise KeyboardInterrupt

    told = {"loss": "ce", "optimizer": "adam", "validation": held, "patience": 15, "progress": progress}
    found = fit(graph, X, labels, train=train, **told)
    assert found.status is (Status.INTERRUPTED if interrupted else Status.STOPPED_EARLY)
    assert found.losses.size == found.seconds.size == found.validation.size
    assert found.losses.size == (5 if interrupted else found.evaluations)
    best = found.validation.argmax()
    assert found.losses[best] == pytest.approx(found.loss, rel=1e-3)  # that of the weights that are returned
    assert (found.predict()[held] == labels[held]).mean() == found.validation[best]


def test_an_interrupt_before_the_first_step_is_passed_on(rng):
    graph, X, labels, train = problem(rng)

    def stop(*told):
        raise KeyboardInterrupt

    kept = fit(graph, X, labels, train=train, loss="ce", progress=stop)
    assert (kept.status, kept.losses.size, kept.weights.any()) == (Status.INTERRUPTED, 1, False)


def test_validation_returns_the_best_weights(rng):
    graph, X, labels, train = problem(rng, n=200, d=60)
    held = np.setdiff1d(np.arange(200), train)
    found = fit(graph, X, labels, train=train, loss="ce", optimizer="adam", validation=held, patience=15, rng=rng)
    accuracy = (found.outputs[held].argmax(1) == labels[held]).mean()
    assert accuracy == pytest.approx(found.validation.max())
    assert found.status is Status.STOPPED_EARLY
    assert len(found.validation) - 1 - found.validation.argmax() == 15


def test_validation_keeps_weights_that_are_not_the_last(rng):
    """What converged are the last weights; nothing is said of the kept ones."""
    graph, X, labels, train = problem(rng, n=200, d=20)
    held = np.setdiff1d(np.arange(200), train)
    found = fit(graph, X, labels, train=train, loss="ce", preconditioner="exact", validation=held, patience=100)
    assert found.validation.argmax() < len(found.validation) - 1
    assert found.status is Status.CONVERGED
    assert (found.predict()[held] == labels[held]).mean() == pytest.approx(found.validation.max())


def test_the_direct_solve_is_done_after_one_step(rng):
    graph, X, labels, train = problem(rng)
    assert fit(graph, X, labels, train=train, optimizer="direct", max_iterations=1).status is Status.CONVERGED


def test_gradient_descent_on_many_classes_never_rises(rng):
    graph, X, _, train = problem(rng, n=300, d=10)
    labels = rng.integers(0, 12, 300)
    found = fit(graph, 5 * X, labels, train=train, loss="ce", optimizer="gd", preconditioner="exact", max_iterations=60)
    assert (np.diff(found.losses[:-1]) <= 0).all()


@pytest.mark.parametrize("weight_decay", [1e-12, 1e-10, 1e-6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_conjugate_gradients_tell_true_losses(weight_decay, dtype, rng):
    """Far below rounding the recurred residual is noise: no loss is below zero, and none returned above the start."""
    graph, X, labels, train = problem(rng, d=80)
    found = fit(graph, X, labels, train=train, weight_decay=weight_decay, dtype=dtype, optimizer="pcg")
    assert (found.losses >= 0).all()
    assert found.loss < 1e-6 * found.losses[0]


@pytest.mark.parametrize("n_features", [8, 80])
@pytest.mark.parametrize("told", [{"optimizer": "direct"}, {"optimizer": "pcg", "preconditioner": "exact"}])
def test_the_gap_is_told_and_loose_inner_solves_are_noticed(n_features, told, rng):
    graph, X, labels, train = problem(rng, d=n_features)
    best = best_squared(propagated(graph, X, 5.0)[train], ONE_HOT[labels[train]])
    told = {"lam": 5.0, "train": train, "tol": 1e-8, **told}
    loose = fit(graph, X, labels, inner_tol=0.03, **told)
    assert loose.loss > best * (1 + 1e-5) + 1e-7
    assert loose.gap == pytest.approx(loose.loss - best, rel=0.3)
    assert loose.status is Status.STALLED
    tight = fit(graph, X, labels, **told)
    assert tight.status.ok
    assert tight.gap < 1e-7


def test_the_gap_of_cross_entropy_is_told(rng):
    graph, X, labels, train = problem(rng, n=200)
    best = best_cross_entropy(propagated(graph, X, 2.0)[train], labels[train], 3)
    found = fit(graph, X, labels, lam=2.0, train=train, loss="ce", preconditioner="exact", max_iterations=2)
    assert found.status is Status.MAX_ITERATIONS
    assert found.gap == pytest.approx(found.loss - best, rel=0.5)
    assert "above the minimum" in found.summary()


@pytest.mark.parametrize("n_features", [8, 80])
@pytest.mark.parametrize("weight_decay", [1e-3, 0.3])
def test_the_gap_counts_weight_decay(n_features, weight_decay, rng):
    graph, X, labels, train = problem(rng, d=n_features)
    best = best_squared(propagated(graph, X, 5.0)[train], ONE_HOT[labels[train]], weight_decay)
    told = {"lam": 5.0, "train": train, "weight_decay": weight_decay, "preconditioner": "exact"}
    found = fit(graph, X, labels, optimizer="gd", learning_rate=0.3, max_iterations=3, **told)
    assert found.gap == pytest.approx(found.loss - best, rel=0.1)
