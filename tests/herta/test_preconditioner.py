"""What a preconditioner is worth, when it is renewed, and which is chosen."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

import nareg
from nareg import herta
from nareg.errors import InputError
from nareg.herta import _build as build
from nareg.herta import _method as method
from nareg.herta import _plan as cost_model
from nareg.herta._objective import form
from nareg.results import Status
from tests.herta.helpers import ONE_HOT, best_cross_entropy, best_squared, fit, problem, propagated


def test_the_preconditioner_makes_it_a_handful_of_iterations(rng):
    """Features of very different sizes, all but dependent: hopeless without, the same as ever with."""
    graph, X, labels, train = problem(rng, n=400, d=20)
    X = X @ np.diag(10.0 ** np.linspace(-3, 3, 20))
    X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    told = {"lam": 5.0, "train": train, "optimizer": "pcg", "tol": 1e-9}
    best = best_squared(propagated(graph, X, 5.0)[train], ONE_HOT[labels[train]])
    quick = fit(graph, X, labels, preconditioner="sketched", inner_tol=1e-11, rng=rng, **told)
    assert quick.loss == pytest.approx(best, rel=1e-6)
    assert quick.hessian_products < 40
    slow = fit(graph, X, labels, preconditioner="none", max_iterations=40, **told)
    assert slow.loss > 1.01 * best


@pytest.mark.parametrize("told", [{"optimizer": "pcg"}, {"optimizer": "gd"}])
def test_the_condition_number_is_told(told, rng):
    graph, X, labels, train = problem(rng, n=200, d=6)
    F = propagated(graph, X, 2.0)[train]
    values = np.linalg.eigvalsh(F.T @ F)
    found = fit(graph, X, labels, lam=2.0, train=train, preconditioner="none", max_iterations=20000, **told)
    assert found.condition == pytest.approx(values[-1] / values[0], rel=0.01)
    assert "condition number" in found.summary()
    near = fit(graph, X, labels, lam=2.0, train=train, preconditioner="exact", **told)
    assert 1 <= near.condition < 1.1


@pytest.mark.parametrize("lam", [1.0, 20.0])
def test_separable_classes_take_a_few_dozen_evaluations_with_a_preconditioner_too(lam, rng):
    """Renewed to the end it would follow a curvature that vanishes, and take Newton's constant share a step."""
    graph, X, labels, train = problem(rng, n=200, d=150)
    found = fit(graph, X, labels, lam=lam, train=train, loss="ce", preconditioner="exact", tol=1e-6)
    assert found.status is Status.SEPARABLE
    assert found.evaluations < 60


def test_a_preconditioner_of_cross_entropy_is_renewed_as_its_weights_change(rng):
    """Rows of very different lengths: the curvature at the optimum is another one than at W = 0."""
    graph = nareg.graphs.erdos_renyi(600, 0.007, rng=rng)
    X = rng.standard_normal((600, 10)) * np.exp(rng.standard_normal((600, 1)))
    chances = softmax(X @ rng.standard_normal((10, 3)), axis=1)
    labels = (rng.random((600, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    found = fit(graph, X, labels, lam=0.2, loss="ce", preconditioner="exact", tol=1e-10)
    assert found.loss == pytest.approx(best_cross_entropy(propagated(graph, X, 0.2), labels, 3), rel=1e-8)
    assert found.evaluations <= 22  # 15 to 17 on three such problems; 32 to 39 with the first preconditioner alone


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "most"), [("gd", 250), ("adam", 500)])
def test_simple_steps_follow_a_preconditioner_that_is_renewed(optimizer, most, rng):
    """With the first one alone neither is there after 500 steps."""
    graph = nareg.graphs.erdos_renyi(600, 0.007, rng=rng)
    X = rng.standard_normal((600, 10)) * np.exp(rng.standard_normal((600, 1)))
    labels = (rng.random((600, 1)) > softmax(X @ rng.standard_normal((10, 3)), axis=1).cumsum(axis=1)).sum(axis=1)
    told = {"lam": 0.2, "loss": "ce", "optimizer": optimizer, "max_iterations": most}
    found = fit(graph, X, labels, preconditioner="exact", **told)
    assert found.status is Status.CONVERGED
    assert found.loss == pytest.approx(best_cross_entropy(propagated(graph, X, 0.2), labels, 3), rel=1e-7)
    fixed = fit(graph, X, labels, preconditioner=herta.precondition(graph, X, lam=0.2), **told)
    assert fixed.status is Status.MAX_ITERATIONS


def test_a_learning_rate_that_was_told_is_kept_to(rng):
    """Damped Newton steps of one length: they come near, each with its own preconditioner."""
    graph, X, labels, train = problem(rng, n=300)
    told = {"lam": 1.0, "train": train, "loss": "ce", "preconditioner": "exact", "learning_rate": 0.5}
    found = fit(graph, X, labels, optimizer="gd", **told)
    assert found.evaluations == found.losses.size  # no trials
    assert found.loss == pytest.approx(best_cross_entropy(propagated(graph, X, 1.0)[train], labels[train], 3), rel=1e-7)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [12, 24, 35, 38])
def test_a_sketch_of_fewer_rows_than_the_rank_is_refused_with_the_rank(size, seed):
    """A Hadamard sketch of 38 of 64 rows has a rank of 37 now and then: its own rank says nothing of the features'."""
    rng = np.random.default_rng(seed)
    graph, X = nareg.graphs.erdos_renyi(60, 0.1, rng=rng), rng.standard_normal((60, 40))
    told = {"train": np.arange(45), "preconditioner": "sketched", "rows": size}
    for loss in ("mse", "ce"):
        with pytest.raises(InputError, match=f"the sketch has {size} rows but the propagated features have rank 40"):
            fit(graph, X, np.arange(60) % 3, loss=loss, optimizer="gd", **told)


def test_a_sketch_of_as_many_rows_as_the_rank_is_taken(rng):
    graph, X, labels, train = problem(rng, n=200)
    X = X[:, :6] @ rng.standard_normal((6, 30))
    told = {"lam": 2.0, "train": train, "optimizer": "pcg"}
    best = best_squared(propagated(graph, X, 2.0)[train], ONE_HOT[labels[train]])
    assert fit(graph, X, labels, preconditioner="sketched", rows=12, **told).loss == pytest.approx(best, rel=1e-7)
    remedy = r"sees 5: take Sketched\(rows\) with rows of at least 12"
    with pytest.raises(InputError, match="rank 6, of which such a sketch " + remedy):
        fit(graph, X, labels, preconditioner="sketched", rows=5, **told)
    with pytest.raises(InputError, match="rank 6, of which such a sketch " + remedy):
        herta.precondition(graph, X, lam=2.0, train=train, how=herta.Sketched(5))
    assert herta.precondition(graph, X, lam=2.0, train=train, how=herta.Sketched(12)).rows == 12


@pytest.mark.parametrize(
    "told",
    [
        {"optimizer": "direct"}, {"optimizer": "pcg", "preconditioner": "exact"}, {"loss": "ce", "preconditioner": "exact"},
        {"optimizer": "pcg", "preconditioner": "sketched"}, {"loss": "ce", "preconditioner": "blocks"},
    ],
)  # fmt: skip
def test_features_of_deficient_rank_are_reported(told, rng):
    graph, X, labels, train = problem(rng, n=200)
    whole = fit(graph, X, labels, train=train, **told)
    assert whole.rank == 8
    assert "rank" not in whole.summary()
    found = fit(graph, np.hstack([X, X[:, :2], 0 * X[:, :1]]), labels, train=train, **told)
    assert found.rank == 8
    assert "features of rank 8, less than their number 11: more than one W has this loss" in found.summary()
    assert found.loss == pytest.approx(whole.loss, rel=1e-6)
    few = fit(graph, X, labels, train=train[:5], **{**told, "preconditioner": "auto"}, max_iterations=50)
    assert few.rank in (5, None)  # None: plain L-BFGS
    assert fit(graph, X, labels, train=train, weight_decay=0.1, **told).rank is None


def test_the_reason_of_a_choice_is_told_in_names_that_can_be_asked_for(rng):
    graph, X, labels, train = problem(rng, n=300)
    assert herta.precondition(graph, X, lam=1.0, train=train).reason.startswith("estimated on one core: exact ")
    assert herta.precondition(graph, X, lam=1.0, train=train, how="exact").reason == ""
    squared = fit(graph, X, labels, train=train).reason
    assert squared.startswith("estimated on one core: direct ")
    assert "formed" not in squared
    assert "exact (by solves)" in fit(graph, X, labels, train=train, loss="ce").reason


def test_a_matrix_a_class_takes_fewer_evaluations_to_the_same_minimum(rng):
    graph = nareg.graphs.erdos_renyi(600, 0.007, rng=rng)
    X = np.column_stack([rng.standard_normal((600, 9)) * np.exp(rng.standard_normal((600, 1))), np.ones(600)])
    weights = rng.standard_normal((10, 3))
    weights[9] = 0, -2, -4  # classes of different sizes
    labels = (rng.random((600, 1)) > softmax(X @ weights, axis=1).cumsum(axis=1)).sum(axis=1)
    told = {"lam": 0.2, "loss": "ce", "tol": 1e-10}
    one, blocks = (fit(graph, X, labels, preconditioner=how, **told) for how in ("exact", "blocks"))
    best = best_cross_entropy(propagated(graph, X, 0.2), labels, 3)
    assert one.loss == pytest.approx(best, rel=1e-8) == blocks.loss
    assert blocks.evaluations < one.evaluations
    assert (one.preconditioner, blocks.preconditioner) == ("exact", "blocks")


@pytest.mark.parametrize("weight_decay", [1e-4, 1e-2, 1.0])
def test_blocks_leave_the_mean_over_classes_alone(weight_decay, rng):
    graph, X, _, _ = problem(rng, n=400, d=10)
    shifted = X @ rng.standard_normal((10, 4)) - np.arange(4)
    labels = (rng.random((400, 1)) > softmax(shifted, axis=1).cumsum(axis=1)).sum(axis=1)
    best = best_cross_entropy(propagated(graph, X, 1.0), labels, 4, weight_decay)
    told = {"loss": "ce", "weight_decay": weight_decay, "preconditioner": "blocks"}
    found = fit(graph, X, labels, **told)
    assert found.loss - best < 1e-8 * best
    assert found.evaluations < 20
    np.testing.assert_allclose(found.weights.sum(axis=1), 0, atol=1e-10)
    early = fit(graph, X, labels, max_iterations=4, **told)
    assert early.gap == pytest.approx(early.loss - best, rel=0.5)


@pytest.mark.parametrize("told", [{"weight_decay": 0.1}, {"optimizer": "adam"}])
def test_few_nodes_a_feature_are_left_without_a_preconditioner_only_where_they_need_none(told, rng):
    graph, X, labels, train = problem(rng, n=120, d=60)
    plain = fit(graph, X, labels, train=train, loss="ce")
    assert plain.preconditioner == "none"
    told = {"loss": "ce", "max_iterations": 60, **told}
    found = fit(graph, X * np.geomspace(1e-3, 1e3, 60), labels, train=train, **told)
    assert found.preconditioner != "none"
    if "weight_decay" in told:
        assert found.status is Status.CONVERGED


def test_propagated_features_that_do_not_fit_are_not_formed(rng, monkeypatch):
    monkeypatch.setattr(cost_model, "MEMORY", 5000)
    graph, X, labels, train = problem(rng, n=300)

    def formed(system, features, nodes, *, tol):
        assert nodes.numel() * features.shape[1] * 8 <= 5000
        return form(system, features, nodes, tol=tol)

    monkeypatch.setattr(build, "form", formed)
    monkeypatch.setattr(method, "form", formed)
    for loss in ("mse", "ce"):
        found = fit(graph, X, labels, train=train, loss=loss)
        assert found.preconditioner in ("sketched", "none")
        assert "propagated features would take" in found.reason
        assert not found.reason.endswith("; ")
        assert found.status is Status.CONVERGED
