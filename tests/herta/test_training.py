from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.special import softmax

import nareg
from nareg import herta
from nareg.errors import InputError
from nareg.herta import TrainingStatus, build, choice, trainer
from nareg.herta.unfolded import form
from tests.herta.helpers import best_cross_entropy, best_squared, cross_entropy, laplacian, problem, propagated

ONE_HOT = np.eye(3)


@pytest.mark.parametrize("kind", ["normalized", "combinatorial"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize(
    "told",
    [
        {},
        {"optimizer": "direct"},
        {"optimizer": "pcg", "preconditioner": "exact"},
        {"optimizer": "pcg", "preconditioner": "sketched", "sketch_size": 40},
        {"optimizer": "pcg", "preconditioner": "none"},
        {"optimizer": "lbfgs", "preconditioner": "exact"},
        {"optimizer": "gd", "preconditioner": "exact"},
        {"optimizer": "gd", "preconditioner": "sketched", "max_iterations": 300},
        {"optimizer": "adam", "preconditioner": "exact", "max_iterations": 600},
    ],
)
def test_the_squared_error_reaches_the_dense_optimum(kind, weight_decay, told, rng):
    graph, X, labels, train = problem(rng)
    F = propagated(graph, X, 2.0, kind)[train]
    best = best_squared(F, ONE_HOT[labels[train]], weight_decay)
    found = herta.fit(graph, X, labels, lam=2.0, train=train, kind=kind, weight_decay=weight_decay, rng=rng, **told)
    assert found.loss == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(found.outputs, propagated(graph, X @ found.weights, 2.0, kind), atol=1e-6)
    true = 0.5 * ((found.outputs[train] - ONE_HOT[labels[train]]) ** 2).sum() + 0.5 * weight_decay * (found.weights**2).sum()
    assert found.loss == pytest.approx(true, rel=1e-9)
    assert found.losses[0] == pytest.approx(0.5 * len(train))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize(
    "told",
    [
        {},
        {"preconditioner": "exact"},
        {"preconditioner": "sketched", "sketch_size": 100},
        {"preconditioner": "none"},
        {"optimizer": "gd", "preconditioner": "exact", "max_iterations": 400},
        {"optimizer": "adam", "preconditioner": "exact", "max_iterations": 600},
    ],
)
def test_cross_entropy_reaches_the_optimum(weight_decay, told, rng):
    graph, X, labels, train = problem(rng, n=200)
    F = propagated(graph, X, 2.0)[train]
    best = best_cross_entropy(F, labels[train], 3, weight_decay)
    found = herta.fit(graph, X, labels, lam=2.0, train=train, loss="ce", weight_decay=weight_decay, rng=rng, **told)
    assert found.loss == pytest.approx(best, rel=1e-6)
    value, gradient = cross_entropy(F, labels[train], found.weights, weight_decay)
    assert found.loss == pytest.approx(value, rel=1e-8)
    assert found.gradient_norm == pytest.approx(np.linalg.norm(gradient), abs=1e-6)
    assert found.losses[0] == pytest.approx(len(train) * np.log(3))


def test_the_preconditioner_makes_it_a_handful_of_iterations(rng):
    """Features of very different sizes, all but dependent: hopeless without, the same as ever with."""
    graph, X, labels, train = problem(rng, n=400, d=20)
    X = X @ np.diag(10.0 ** np.linspace(-3, 3, 20))
    X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    told = {"lam": 5.0, "train": train, "optimizer": "pcg", "tol": 1e-9}
    best = best_squared(propagated(graph, X, 5.0)[train], ONE_HOT[labels[train]])
    quick = herta.fit(graph, X, labels, preconditioner="sketched", inner_tol=1e-11, rng=rng, **told)
    assert quick.loss == pytest.approx(best, rel=1e-6)
    assert quick.hessian_products < 40
    slow = herta.fit(graph, X, labels, preconditioner="none", max_iterations=40, **told)
    assert slow.loss > 1.01 * best


def test_lam_zero_is_least_squares_without_a_graph(rng):
    graph, X, labels, train = problem(rng)
    found = herta.fit(graph, X, labels, lam=0.0, train=train)
    assert found.loss == pytest.approx(best_squared(X[train], ONE_HOT[labels[train]]), rel=1e-9)


@pytest.mark.parametrize("optimizer", ["direct", "pcg", "lbfgs"])
def test_features_of_deficient_rank_reach_the_optimum(optimizer, rng):
    graph, X, labels, train = problem(rng)
    X = np.hstack([X, X[:, :4] + X[:, 4:], np.zeros((60, 2))])
    best = best_squared(propagated(graph, X, 1.0)[train], ONE_HOT[labels[train]])
    found = herta.fit(graph, X, labels, train=train, optimizer=optimizer, rng=rng)
    assert found.loss == pytest.approx(best, rel=1e-6)
    assert np.isfinite(found.weights).all()


@pytest.mark.parametrize("optimizer", ["direct", "pcg"])
def test_more_features_than_nodes_interpolate(optimizer, rng):
    graph, X, labels, train = problem(rng, n=30, d=50)
    found = herta.fit(graph, X, labels, train=train, optimizer=optimizer, rng=rng)
    assert found.loss < 1e-7 * found.losses[0]
    assert (found.predict()[train] == labels[train]).all()


def test_the_direct_solution_is_the_shortest(rng):
    graph, X, labels, train = problem(rng, n=30, d=50)
    found = herta.fit(graph, X, labels, train=train, optimizer="direct", inner_tol=1e-12)
    shortest = np.linalg.pinv(propagated(graph, X, 1.0)[train]) @ ONE_HOT[labels[train]]
    np.testing.assert_allclose(found.weights, shortest, atol=1e-6)


def test_separable_classes_are_named(rng):
    graph, X, labels, train = problem(rng, n=30, d=50)
    found = herta.fit(graph, X, labels, train=train, loss="ce", tol=1e-6)
    assert found.status is TrainingStatus.SEPARABLE
    assert "add weight_decay" in found.status.value
    bounded = herta.fit(graph, X, labels, train=train, loss="ce", weight_decay=0.1)
    assert bounded.status is TrainingStatus.CONVERGED


def test_arrays_come_back_in_kind(rng):
    graph, X, labels, train = problem(rng)
    dense = herta.fit(graph, X, labels, train=train)
    for features in (sp.csr_array(X), torch.as_tensor(X)):
        for nodes in (train, torch.as_tensor(train), np.isin(np.arange(60), train)):
            found = herta.fit(graph, features, labels, train=nodes)
            np.testing.assert_allclose(np.asarray(found.weights), dense.weights, atol=1e-8)
            assert isinstance(found.weights, torch.Tensor) == isinstance(features, torch.Tensor)
    single = herta.fit(graph, X, labels, train=train, dtype=np.float32)
    assert single.weights.dtype == np.float32
    assert single.loss == pytest.approx(dense.loss, rel=1e-3)
    edge_index, _ = graph.to_edge_index()
    np.testing.assert_allclose(herta.fit(edge_index, X, labels, train=train).weights, dense.weights, atol=1e-8)


def test_sparse_and_dense_features_agree(rng):
    graph, X, labels, train = problem(rng, n=200, d=30)
    X *= rng.random(X.shape) < 0.05
    dense, sparse = (herta.fit(graph, x, labels, train=train, loss="ce", weight_decay=0.1) for x in (X, sp.csr_array(X)))
    np.testing.assert_allclose(dense.weights, sparse.weights, atol=1e-8)


def test_targets_may_be_numbers_and_unknown_where_not_trained_on(rng):
    graph, X, labels, train = problem(rng)
    Y = rng.standard_normal((60, 2))
    best = best_squared(propagated(graph, X, 1.0)[train], Y[train])
    rest = np.setdiff1d(np.arange(60), train)
    Y[rest] = np.nan
    assert herta.fit(graph, X, Y, train=train).loss == pytest.approx(best, rel=1e-6)
    labels[rest] = -1
    assert herta.fit(graph, X, labels, train=train).weights.shape == (8, 3)


def test_validation_returns_the_best_weights(rng):
    graph, X, labels, train = problem(rng, n=200, d=60)
    held = np.setdiff1d(np.arange(200), train)
    found = herta.fit(graph, X, labels, train=train, loss="ce", optimizer="adam", validation=held, patience=15, rng=rng)
    accuracy = (found.outputs[held].argmax(1) == labels[held]).mean()
    assert accuracy == pytest.approx(found.validation.max())
    assert found.status is TrainingStatus.EARLY_STOP
    assert len(found.validation) - 1 - found.validation.argmax() == 15


def test_stop_below_and_max_iterations_are_kept(rng):
    graph, X, labels, train = problem(rng)
    told = {"train": train, "optimizer": "gd", "preconditioner": "none", "learning_rate": 1e-3}
    short = herta.fit(graph, X, labels, max_iterations=7, **told)
    assert (len(short.losses) - 1, short.status) == (7, TrainingStatus.MAX_ITERATIONS)
    assert (np.diff(short.losses) < 0).all()
    half = herta.fit(graph, X, labels, stop_below=0.9 * short.losses[0], **told)
    assert half.status is TrainingStatus.TARGET
    assert half.losses[-2] > 0.9 * short.losses[0] >= half.loss


def test_a_step_too_long_is_told(rng):
    graph, X, labels, train = problem(rng)
    found = herta.fit(graph, X, labels, train=train, optimizer="gd", learning_rate=50.0)
    assert found.status is TrainingStatus.DIVERGED
    assert np.isfinite(found.weights).all()


def test_an_interrupt_keeps_what_was_reached(rng):
    graph, X, labels, train = problem(rng)

    def stop(step, loss):
        if step == 3:
            raise KeyboardInterrupt

    found = herta.fit(graph, X, labels, train=train, optimizer="gd", preconditioner="none", learning_rate=1e-3, progress=stop)
    assert found.status is TrainingStatus.INTERRUPTED
    assert found.loss < found.losses[0]


def test_work_is_counted(rng):
    graph, X, labels, train = problem(rng)
    found = herta.fit(
        graph, X, labels, train=train, optimizer="gd", preconditioner="none", max_iterations=5, learning_rate=1e-3
    )
    assert found.evaluations == 6
    assert found.products >= 2 * 3 * 6
    assert "6 evaluations, 0 Hessian products" in found.summary()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"lam": -1.0}, "lam is -1.0, it must be at least 0"),
        ({"train": []}, "train is empty: name at least one node"),
        ({"train": [0, 60]}, "train holds 60 but there are 60 nodes"),
        ({"train": [1, 1]}, "train lists a node twice"),
        ({"train": np.ones(4, bool)}, r"train has shape \(4,\) and dtype bool: a mask \(60,\) or indices"),
        ({"targets": np.full(60, -1)}, r"targets\[0\] is -1, no class, but node 0 is trained on"),
        ({"targets": np.ones(59, int)}, r"targets have shape \(59,\) but there are 60 nodes"),
        ({"targets": np.full((60, 2), np.nan)}, r"targets\[0\] is not finite but node 0 is trained on"),
        ({"targets": np.zeros(60, int), "loss": "ce"}, "targets hold a single class"),
        ({"targets": np.ones((60, 2)), "loss": "ce"}, "are expected for loss='ce'"),
        ({"features": np.full((60, 3), np.inf)}, r"features\[0, 0\] is inf"),
        ({"features": sp.csr_array(np.diag(np.full(60, np.nan)))}, "features hold a value that is not finite"),
        ({"features": np.ones((59, 3))}, "graph has 60 nodes but"),
        ({"loss": "mae"}, "loss is 'mae'; choose one of"),
        ({"optimizer": "sgd"}, "optimizer is 'sgd'; choose one of"),
        ({"optimizer": "pcg", "loss": "ce"}, "optimizer is 'pcg', which needs loss='mse'"),
        ({"optimizer": "direct", "preconditioner": "exact"}, "optimizer='direct' takes no preconditioner"),
        ({"preconditioner": "blocks"}, "preconditioner is .blocks., but with loss=.mse. those of all outputs are alike"),
        ({"preconditioner": "sketched", "sketch_size": 5}, "sketch_size is 5 but the propagated features have a rank"),
        ({"dtype": np.int64}, "dtype is .*: float32 or float64 is expected"),
        ({"device": "gpu"}, "device is 'gpu', no device of torch"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0, it must be at least 0"),
        ({"rng": 3}, "rng is 3, a numpy generator is expected"),
        ({"validation": []}, "validation is empty: name at least one node"),
        ({"dropout": 0.5}, "dropout is 0.5 but 'auto' needs the same loss at every step"),
        ({"dropout": 1.0, "optimizer": "adam"}, "dropout is 1.0: it must be below 1"),
        ({"kind": "operator", "graph": -np.eye(60)}, "has a negative diagonal entry"),
        ({"kind": "operator", "graph": np.eye(59)}, "there are 60 rows of features"),
        ({"kind": "operator", "graph": np.eye(60), "optimizer": "algorithm-1"}, "kind='operator' has none: take 'pcg'"),
        ({"validation": [0], "targets": np.eye(60)[:, :3] * 2}, "validation needs classes"),
        ({"unrolled": 0}, "unrolled is 0, an integer of at least 1"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0, it must be above 0"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(told, message, rng):
    graph, X, labels, _ = problem(rng)
    told = dict(told)
    arguments = [told.pop("graph", graph), told.pop("features", X), told.pop("targets", labels)]
    with pytest.raises(InputError, match=message):
        herta.fit(*arguments, **told)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused(rng):
    graph, X, labels, _ = problem(rng)
    with pytest.raises(InputError, match="torch finds no GPU here: take device='cpu'"):
        herta.fit(graph, X, labels, device="cuda")


def test_isolated_nodes_see_their_own_features_only(rng):
    A = np.zeros((20, 20))
    A[:10, :10] = np.ones((10, 10)) - np.eye(10)
    X, Y = rng.standard_normal((20, 3)), rng.standard_normal((20, 2))
    found = herta.fit(nareg.Graph(A), X, Y, lam=4.0)
    np.testing.assert_allclose(found.outputs[10:], X[10:] @ found.weights, atol=1e-8)
    assert found.loss == pytest.approx(best_squared(propagated(nareg.Graph(A), X, 4.0), Y), rel=1e-8)


def test_algorithm_1_converges_when_corrected_and_to_another_place_as_printed(rng):
    graph, X, labels, _ = problem(rng, n=150, d=6)
    best = best_squared(propagated(graph, X, 2.0), ONE_HOT[labels])
    told = {"lam": 2.0, "max_iterations": 150}
    corrected, printed = (
        herta.fit(graph, X, labels, optimizer=name, rng=np.random.default_rng(0), **told)
        for name in ("algorithm-1", "algorithm-1-as-printed")
    )
    assert corrected.loss == pytest.approx(best, rel=1e-6)
    assert printed.loss > best * (1 + 1e-5)
    # its curve is that of the true loss
    true = 0.5 * ((propagated(graph, X @ printed.weights, 2.0) - ONE_HOT[labels]) ** 2).sum()
    assert printed.loss == pytest.approx(true, rel=1e-6)


@pytest.mark.parametrize("told", [{"optimizer": "pcg"}, {"optimizer": "gd"}])
def test_the_condition_number_is_told(told, rng):
    graph, X, labels, train = problem(rng, n=200, d=6)
    F = propagated(graph, X, 2.0)[train]
    values = np.linalg.eigvalsh(F.T @ F)
    found = herta.fit(graph, X, labels, lam=2.0, train=train, preconditioner="none", max_iterations=20000, **told)
    assert found.condition == pytest.approx(values[-1] / values[0], rel=0.01)
    assert "condition number" in found.summary()
    near = herta.fit(graph, X, labels, lam=2.0, train=train, preconditioner="exact", **told)
    assert 1 <= near.condition < 1.1


@pytest.mark.parametrize("sparse", [False, True])
def test_dropout_is_a_ridge_on_average(sparse, rng):
    """The mean of the squared error over dropped features is the squared error and a quadratic form in W."""
    graph, X, labels, train = problem(rng, n=100, d=5)
    if sparse:
        X *= rng.random(X.shape) < 0.09
        X[0] = 1.0
    K = propagated(graph, np.eye(100), 2.0)[train]
    F, rate = K @ X, 0.4
    ridge = np.diag(((K**2).sum(0)[:, None] * X**2).sum(0)) * rate / (1 - rate)
    W = np.linalg.solve(F.T @ F + ridge, F.T @ ONE_HOT[labels[train]])
    best = 0.5 * ((F @ W - ONE_HOT[labels[train]]) ** 2).sum() + 0.5 * np.einsum("fc,fg,gc->", W, ridge, W)
    x = sp.csr_array(X) if sparse else X
    told = {"lam": 2.0, "train": train, "optimizer": "adam", "preconditioner": "exact", "learning_rate": 0.03, "dropout": rate}
    found = herta.fit(graph, x, labels, max_iterations=1500, rng=rng, **told)
    assert found.losses[1000:1500].mean() == pytest.approx(best, rel=0.05)
    plain = herta.fit(graph, x, labels, lam=2.0, train=train)
    assert np.linalg.norm(found.weights) < np.linalg.norm(plain.weights)


@pytest.mark.parametrize("told", [{}, {"optimizer": "direct"}, {"loss": "ce", "preconditioner": "none"}])
def test_unrolled_steps_are_those_of_twirls(told, rng):
    graph, X, labels, train = problem(rng, n=200)
    lam, steps = 3.0, 4
    A = np.eye(200) - laplacian(graph)
    F = X
    for _ in range(steps):
        F = (lam * A @ F + X) / (1 + lam)
    F = F[train]
    cross = told.get("loss") == "ce"
    best = best_cross_entropy(F, labels[train], 3) if cross else best_squared(F, ONE_HOT[labels[train]])
    found = herta.fit(graph, X, labels, lam=lam, train=train, unrolled=steps, **told)
    assert found.loss == pytest.approx(best, rel=1e-6)
    many = herta.fit(graph, X, labels, lam=lam, train=train, unrolled=200, **told)
    assert many.loss == pytest.approx(herta.fit(graph, X, labels, lam=lam, train=train, **told).loss, rel=1e-6)


def test_a_designed_matrix_takes_the_place_of_the_laplacian(rng):
    """diag(w) L diag(w) from a design of node weights."""
    graph, X, labels, train = problem(rng)
    design = nareg.design.exact(graph, signals=rng.standard_normal((60, 20)), noise=0.5)
    S = design.matrix.toarray()
    F = np.linalg.solve(np.eye(60) + S, X)[train]
    found = herta.fit(design.matrix, X, labels, lam=1.0, train=train, kind="operator")
    assert found.loss == pytest.approx(best_squared(F, ONE_HOT[labels[train]]), rel=1e-6)


@pytest.mark.parametrize("n_features", [8, 80])
@pytest.mark.parametrize("told", [{"optimizer": "direct"}, {"optimizer": "pcg", "preconditioner": "exact"}])
def test_the_gap_is_told_and_loose_inner_solves_are_noticed(n_features, told, rng):
    graph, X, labels, train = problem(rng, d=n_features)
    best = best_squared(propagated(graph, X, 5.0)[train], ONE_HOT[labels[train]])
    told = {"lam": 5.0, "train": train, "tol": 1e-8, **told}
    loose = herta.fit(graph, X, labels, inner_tol=0.03, **told)
    assert loose.loss > best * (1 + 1e-5) + 1e-7
    assert loose.gap == pytest.approx(loose.loss - best, rel=0.3)
    assert loose.status is TrainingStatus.STALLED
    tight = herta.fit(graph, X, labels, **told)
    assert tight.status.ok
    assert tight.gap < 1e-7


def test_the_gap_of_cross_entropy_is_told(rng):
    graph, X, labels, train = problem(rng, n=200)
    best = best_cross_entropy(propagated(graph, X, 2.0)[train], labels[train], 3)
    found = herta.fit(graph, X, labels, lam=2.0, train=train, loss="ce", preconditioner="exact", max_iterations=2)
    assert found.status is TrainingStatus.MAX_ITERATIONS
    assert found.gap == pytest.approx(found.loss - best, rel=0.5)
    assert "above the minimum" in found.summary()


UNITS = [
    {"optimizer": "direct"},
    {"optimizer": "pcg", "preconditioner": "exact"},
    {"optimizer": "pcg", "preconditioner": "sketched"},
    {"optimizer": "lbfgs", "preconditioner": "exact"},
    {"optimizer": "gd", "preconditioner": "exact"},
]


@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float64, 1e-7), (np.float32, 1e-3)])
@pytest.mark.parametrize("told", UNITS)
def test_columns_may_have_any_units(told, dtype, accuracy, rng):
    """A column of timestamps (of large numbers: single precision cannot tell them apart), one of ones, one of tiny numbers."""
    graph, X, labels, train = problem(rng, n=300, d=8)
    times = 1.7e9 + 3600.0 * np.arange(300)
    X[:, 0], X[:, 1], X[:, 2] = times if dtype is np.float64 else 1e9 * X[:, 0], 1.0, 1e-6 * X[:, 2]
    F = propagated(graph, X, 2.0)[train]
    best = best_squared(F / np.linalg.norm(F, axis=0), ONE_HOT[labels[train]])
    found = herta.fit(graph, X, labels, lam=2.0, train=train, dtype=dtype, rng=rng, **told)
    assert found.status is TrainingStatus.CONVERGED
    assert found.loss == pytest.approx(best, rel=accuracy)


@pytest.mark.parametrize("optimizer", ["lbfgs", "gd"])
def test_a_plateau_does_not_count_as_converged(optimizer, rng):
    graph, X, labels, train = problem(rng, n=300, d=8)
    X[:, 0] *= 1e9
    found = herta.fit(graph, X, labels, train=train, optimizer=optimizer, preconditioner="none")
    assert found.loss > 1.001 * herta.fit(graph, X, labels, train=train).loss
    assert found.status in (TrainingStatus.STALLED, TrainingStatus.MAX_ITERATIONS)


@pytest.mark.parametrize("told", [{"optimizer": "direct"}, {"optimizer": "pcg", "preconditioner": "none"}])
def test_targets_far_from_zero_are_not_taken_for_reached(told, rng):
    graph, X, _, train = problem(rng, n=300, d=8)
    X[:, 0] = 1.0
    Y = 101325.0 + rng.standard_normal((300, 1))
    best = best_squared(propagated(graph, X, 2.0, "combinatorial")[train], Y[train])
    assert best < 1e-8 * 0.5 * (Y[train] ** 2).sum()
    found = herta.fit(graph, X, Y, lam=2.0, train=train, kind="combinatorial", inner_tol=1e-12, **told)
    assert found.status is TrainingStatus.CONVERGED
    assert found.loss == pytest.approx(best, rel=1e-7)


def test_one_wrong_label_is_not_separable(rng):
    """Two nodes with the same features and neighbours but different classes: nothing tells them apart."""
    graph = nareg.Graph(np.ones((60, 60)) - np.eye(60))
    labels = np.repeat([0, 1], 30)
    X = np.eye(2)[labels] * 1e3
    apart = herta.fit(graph, X, labels, loss="ce", tol=1e-2)
    assert apart.status is TrainingStatus.SEPARABLE
    labels[0] = 1
    mixed = herta.fit(graph, X, labels, loss="ce", tol=1e-2, max_iterations=3000)
    assert mixed.status is not TrainingStatus.SEPARABLE
    assert mixed.loss > np.log(2)


@pytest.mark.parametrize("told", [{"optimizer": "direct"}, *UNITS[1:], {"loss": "ce", "weight_decay": 0.1}])
@pytest.mark.parametrize("d", [8, 60])
def test_deficient_rank_in_single_precision(told, d, rng):
    graph, X, labels, train = problem(rng, d=d)
    X = np.hstack([X, X[:, :4] + X[:, 4:8], np.zeros((60, 2))])
    single, double = (herta.fit(graph, X, labels, train=train, dtype=dtype, **told) for dtype in (np.float32, np.float64))
    assert single.status.ok
    assert single.loss == pytest.approx(double.loss, rel=1e-3, abs=1e-4 * double.losses[0])


@pytest.mark.parametrize("loss", ["mse", "ce"])
@pytest.mark.parametrize("optimizer", ["direct", "pcg", "lbfgs", "gd", "adam", "algorithm-1"])
def test_features_of_zeros_leave_the_weights_at_zero(loss, optimizer, rng):
    graph, X, labels, train = problem(rng)
    if loss == "ce" and optimizer in ("direct", "pcg", "algorithm-1"):
        optimizer = "auto"
    found = herta.fit(graph, 0 * X, labels, train=train, loss=loss, optimizer=optimizer)
    assert not found.weights.any()
    assert found.status is TrainingStatus.CONVERGED
    assert herta.precondition(graph, 0 * X, lam=1.0).condition is None


def test_validation_keeps_weights_that_are_not_the_last(rng):
    """What converged are the last weights; nothing is said of the kept ones."""
    graph, X, labels, train = problem(rng, n=200, d=20)
    held = np.setdiff1d(np.arange(200), train)
    found = herta.fit(graph, X, labels, train=train, loss="ce", preconditioner="exact", validation=held, patience=100)
    assert found.validation.argmax() < len(found.validation) - 1
    assert found.status is TrainingStatus.CONVERGED
    assert (found.predict()[held] == labels[held]).mean() == pytest.approx(found.validation.max())


def test_one_hot_rows_are_classes_and_rows_of_nan_unknown(rng):
    graph, X, labels, train = problem(rng)
    Y = np.eye(3)[labels]
    held = np.setdiff1d(np.arange(60), train)
    Y[held[5:]] = np.nan
    told = {"train": train, "optimizer": "adam", "max_iterations": 5}
    found = herta.fit(graph, X, Y, validation=held[:5], **told)
    np.testing.assert_array_equal(found.validation, herta.fit(graph, X, labels, validation=held[:5], **told).validation)
    with pytest.raises(InputError, match="validation names a node whose label is not known"):
        herta.fit(graph, X, Y, validation=held, **told)


@pytest.mark.parametrize("n_features", [8, 80])
@pytest.mark.parametrize("weight_decay", [1e-3, 0.3])
def test_the_gap_counts_weight_decay(n_features, weight_decay, rng):
    graph, X, labels, train = problem(rng, d=n_features)
    best = best_squared(propagated(graph, X, 5.0)[train], ONE_HOT[labels[train]], weight_decay)
    told = {"lam": 5.0, "train": train, "weight_decay": weight_decay, "preconditioner": "exact"}
    found = herta.fit(graph, X, labels, optimizer="gd", learning_rate=0.3, max_iterations=3, **told)
    assert found.gap == pytest.approx(found.loss - best, rel=0.1)


@pytest.mark.parametrize("lam", [1e4, 1e8])
def test_a_very_strong_graph_is_solved_too(lam, rng):
    graph, X, labels, train = problem(rng, n=40, d=4)
    found = herta.fit(graph, X, labels, lam=lam, train=train, kind="combinatorial", tol=1e-4, weight_decay=1e-3)
    F = propagated(graph, X, lam, "combinatorial")[train]
    assert found.loss == pytest.approx(best_squared(F, ONE_HOT[labels[train]], 1e-3), rel=1e-3)
    np.testing.assert_allclose(found.outputs, propagated(graph, X @ found.weights, lam, "combinatorial"), atol=1e-3)


def test_gradient_descent_on_many_classes_never_rises(rng):
    graph, X, _, train = problem(rng, n=300, d=10)
    labels = rng.integers(0, 12, 300)
    found = herta.fit(graph, 5 * X, labels, train=train, loss="ce", optimizer="gd", preconditioner="exact", max_iterations=60)
    assert (np.diff(found.losses[:-1]) <= 0).all()


def test_the_direct_solve_is_done_after_one_step(rng):
    graph, X, labels, train = problem(rng)
    assert herta.fit(graph, X, labels, train=train, optimizer="direct", max_iterations=1).status is TrainingStatus.CONVERGED


def test_tensors_of_any_kind_are_taken(rng):
    graph, X, labels, train = problem(rng)
    X = np.round(X)  # exact in bfloat16
    plain = herta.fit(graph, X, labels, train=train).weights
    tensor = torch.as_tensor(X)
    kinds = [tensor.to_sparse(), tensor.to_sparse_csr(), tensor.bfloat16(), tensor.half(), tensor.float(), tensor.int()]
    for features in kinds:
        found = herta.fit(graph, features, torch.as_tensor(labels), train=torch.as_tensor(train))
        np.testing.assert_allclose(found.weights.numpy(), plain, atol=1e-8)
    L = torch.as_tensor(laplacian(graph))
    for operator in (L, L.to_sparse()):
        np.testing.assert_allclose(herta.fit(operator, X, labels, train=train, kind="operator").weights, plain, atol=1e-8)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"tol": 1.0}, r"tol is 1\.0: it must be below 1"),
        ({"inner_tol": 1e-17}, "inner_tol is 1e-17 but rounding in torch.float64 allows"),
        ({"lam": 1e300}, r"lam is 1e\+300 and the largest eigenvalue of L"),
        ({"lam": 1e7, "dtype": np.float32}, "take a smaller lam, smaller edge weights, or dtype float64"),
        ({"stop_below": "low"}, "stop_below is 'low', a number is expected"),
        ({"patience": 1.5}, r"patience is 1\.5, an integer of at least 1"),
        ({"progress": True}, "progress is True: a function of steps and loss is expected"),
        ({"features": np.full((60, 2), 1e160)}, r"features hold 1e\+160, whose square leaves the range"),
        ({"features": np.full((60, 2), 1e-160)}, "features hold 1e-160, whose square leaves the range"),
        ({"features": np.full((60, 2), 1e15), "dtype": np.float32}, r"range of torch\.float32: choose another unit"),
        ({"targets": np.full((60, 2), 1e160)}, r"targets hold 1e\+160, whose square leaves the range"),
        ({"features": np.ones((60, 2), complex)}, "features has dtype complex128, real numbers are expected"),
        ({"optimizer": "algorithm-1", "sketch_size": 3}, "sketch_size is 3 but the propagated features have a rank"),
        (
            {"loss": "ce", "preconditioner": "sketched", "sketch_size": 3},
            "sketch_size is 3 but the propagated features have a rank",
        ),
    ],
)
def test_numbers_out_of_range_are_refused(told, message, rng):
    graph, X, labels, _ = problem(rng)
    told = dict(told)
    arguments = [told.pop("graph", graph), told.pop("features", X), told.pop("targets", labels)]
    with pytest.raises(InputError, match=message):
        herta.fit(*arguments, **told)


def test_a_single_output_is_no_class(rng):
    graph, X, _, train = problem(rng)
    with pytest.raises(InputError, match="outputs have a single column"):
        herta.fit(graph, X, rng.standard_normal((60, 1)), train=train).predict()


@pytest.mark.parametrize("lam", [1.0, 20.0])
def test_separable_classes_take_a_few_dozen_evaluations_with_a_preconditioner_too(lam, rng):
    """Renewed to the end it would follow a curvature that vanishes, and take Newton's constant share a step."""
    graph, X, labels, train = problem(rng, n=200, d=150)
    found = herta.fit(graph, X, labels, lam=lam, train=train, loss="ce", preconditioner="exact", tol=1e-6)
    assert found.status is TrainingStatus.SEPARABLE
    assert found.evaluations < 60


def test_a_preconditioner_of_cross_entropy_is_renewed_as_its_weights_change(rng):
    """Rows of very different lengths: the curvature at the optimum is another one than at W = 0."""
    graph = nareg.graphs.erdos_renyi(600, 0.007, rng=rng)
    X = rng.standard_normal((600, 10)) * np.exp(rng.standard_normal((600, 1)))
    chances = softmax(X @ rng.standard_normal((10, 3)), axis=1)
    labels = (rng.random((600, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    found = herta.fit(graph, X, labels, lam=0.2, loss="ce", preconditioner="exact", tol=1e-10)
    assert found.loss == pytest.approx(best_cross_entropy(propagated(graph, X, 0.2), labels, 3), rel=1e-8)
    assert found.evaluations <= 22  # 15 to 17 on three such problems; 32 to 39 with the first preconditioner alone


def test_a_matrix_a_class_takes_fewer_evaluations_to_the_same_minimum(rng):
    graph = nareg.graphs.erdos_renyi(600, 0.007, rng=rng)
    X = np.column_stack([rng.standard_normal((600, 9)) * np.exp(rng.standard_normal((600, 1))), np.ones(600)])
    weights = rng.standard_normal((10, 3))
    weights[9] = 0, -2, -4  # classes of different sizes
    labels = (rng.random((600, 1)) > softmax(X @ weights, axis=1).cumsum(axis=1)).sum(axis=1)
    told = {"lam": 0.2, "loss": "ce", "tol": 1e-10}
    one, blocks = (herta.fit(graph, X, labels, preconditioner=how, **told) for how in ("exact", "blocks"))
    best = best_cross_entropy(propagated(graph, X, 0.2), labels, 3)
    assert one.loss == pytest.approx(best, rel=1e-8) == blocks.loss
    assert blocks.evaluations < one.evaluations
    assert (one.preconditioner, blocks.preconditioner) == ("exact", "blocks")


def test_propagated_features_that_do_not_fit_are_not_formed(rng, monkeypatch):
    monkeypatch.setattr(choice, "MEMORY", 5000)
    graph, X, labels, train = problem(rng, n=300)

    def formed(system, features, nodes, *, tol):
        assert nodes.numel() * features.shape[1] * 8 <= 5000
        return form(system, features, nodes, tol=tol)

    monkeypatch.setattr(build, "form", formed)
    monkeypatch.setattr(trainer, "form", formed)
    for loss in ("mse", "ce"):
        found = herta.fit(graph, X, labels, train=train, loss=loss)
        assert found.preconditioner in ("sketched", "none")
        assert "propagated features would take" in found.reason
        assert found.status is TrainingStatus.CONVERGED


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
@pytest.mark.parametrize(
    "told",
    [
        {"optimizer": "direct"},
        {"optimizer": "pcg", "preconditioner": "sketched"},
        {"optimizer": "gd", "preconditioner": "exact"},
        {"optimizer": "adam", "preconditioner": "exact", "dropout": 0.2, "max_iterations": 5},
        {"optimizer": "algorithm-1"},
        {"loss": "ce"},
        {"loss": "ce", "preconditioner": "blocks"},
        {"loss": "ce", "preconditioner": "sketched"},
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_gpu_gives_the_same(told, sparse, rng):
    graph, X, labels, train = problem(rng, n=300)
    X = sp.csr_array(X * (rng.random(X.shape) < 0.08)) if sparse else X
    here, there = (
        herta.fit(graph, X, labels, train=train, device=device, rng=np.random.default_rng(0), **told)
        for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(there.weights, here.weights, rtol=1e-4, atol=1e-6)
    assert there.status is here.status


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
    found = herta.fit(graph, X, labels, train=train, weight_decay=0.1, **told)
    assert found.status is TrainingStatus.CONVERGED
    assert found.loss == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("told", UNITS[:2])
def test_nearly_equal_columns_are_told_apart(told, rng):
    graph, X, labels, train = problem(rng, n=300, d=4)
    X = np.column_stack([X, X[:, 0] + 1e-7 * rng.random(300)])
    best = best_squared(propagated(graph, X, 0.5)[train], ONE_HOT[labels[train]])
    found = herta.fit(graph, X, labels, lam=0.5, train=train, **told)
    assert found.loss == pytest.approx(best, rel=1e-7)
    assert found.status is TrainingStatus.CONVERGED


@pytest.mark.parametrize("weight_decay", [1e-12, 1e-10, 1e-6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_conjugate_gradients_tell_true_losses(weight_decay, dtype, rng):
    """Far below rounding the recurred residual is noise: no loss is below zero, and none returned above the start."""
    graph, X, labels, train = problem(rng, d=80)
    found = herta.fit(graph, X, labels, train=train, weight_decay=weight_decay, dtype=dtype, optimizer="pcg")
    assert (found.losses >= 0).all()
    assert found.loss < 1e-6 * found.losses[0]


@pytest.mark.parametrize("weight_decay", [1e-4, 1e-2, 1.0])
def test_blocks_leave_the_mean_over_classes_alone(weight_decay, rng):
    graph, X, _, _ = problem(rng, n=400, d=10)
    shifted = X @ rng.standard_normal((10, 4)) - np.arange(4)
    labels = (rng.random((400, 1)) > softmax(shifted, axis=1).cumsum(axis=1)).sum(axis=1)
    best = best_cross_entropy(propagated(graph, X, 1.0), labels, 4, weight_decay)
    told = {"loss": "ce", "weight_decay": weight_decay, "preconditioner": "blocks"}
    found = herta.fit(graph, X, labels, **told)
    assert found.loss - best < 1e-8 * best
    assert found.evaluations < 20
    np.testing.assert_allclose(found.weights.sum(axis=1), 0, atol=1e-10)
    early = herta.fit(graph, X, labels, max_iterations=4, **told)
    assert early.gap == pytest.approx(early.loss - best, rel=0.5)


@pytest.mark.parametrize("optimizer", ["pcg", "direct", "gd"])
def test_a_target_that_loose_solves_take_for_reached_is_not(optimizer, rng):
    graph, X, labels, train = problem(rng)
    best = best_squared(propagated(graph, X, 5.0)[train], ONE_HOT[labels[train]])
    told = {"lam": 5.0, "train": train, "optimizer": optimizer, "inner_tol": 3e-2}
    found = herta.fit(graph, X, labels, stop_below=best * (1 + 1e-6), **told)
    assert found.loss > best * (1 + 1e-5)
    assert found.status is not TrainingStatus.TARGET


@pytest.mark.parametrize("told", [{"weight_decay": 0.1}, {"optimizer": "adam"}])
def test_few_nodes_a_feature_are_left_without_a_preconditioner_only_where_they_need_none(told, rng):
    graph, X, labels, train = problem(rng, n=120, d=60)
    plain = herta.fit(graph, X, labels, train=train, loss="ce")
    assert plain.preconditioner == "none"
    told = {"loss": "ce", "max_iterations": 60, **told}
    found = herta.fit(graph, X * np.geomspace(1e-3, 1e3, 60), labels, train=train, **told)
    assert found.preconditioner != "none"
    if "weight_decay" in told:
        assert found.status is TrainingStatus.CONVERGED
