"""The certified last layer of a perceptron: what the hidden layer holds, what a certificate says, and what a request leaves."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

import nareg
from nareg.errors import CertificateError, InputError, SolverError
from nareg.unlearning import Certificate, _last_layer
from nareg.unlearning.deep import DeepGPR
from nareg.unlearning.head import CertifiedTraining
from tests.unlearning import reference

N, TRAIN = 80, np.arange(60)
HIDDEN = np.arange(0, 60, 2)
OPTIONS = {"hidden": 5, "epochs": 20}


@pytest.fixture
def data(rng):
    return nareg.datasets.node_classification.synthetic(N, 3, n_features=6, mean_degree=8, rng=rng)


def fitted(data, seed=3, *, hidden_nodes=HIDDEN, train=TRAIN, **options):
    model = DeepGPR(**OPTIONS | options, rng=np.random.default_rng(seed))
    return model.fit(data.graph, data.features, data.labels, train, hidden_nodes=hidden_nodes)


def pairs(A, where):
    """Edges whose two ends are hidden as often as ``where`` says."""
    edges = np.argwhere(np.triu(A))
    return edges[np.isin(edges, HIDDEN).sum(axis=1) == where]


def layer(model):
    return model._last_layer.layer.weights.copy(), model._last_layer.layer.biases.copy()


def assert_bitwise(one, other):
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def hidden_rows(model, A, X):
    """By the definitions, from the raw data."""
    weights, biases = layer(model)
    H = np.maximum(reference.embedding(A, X, model.weights) @ weights + biases, 0)
    return H / np.maximum(1, np.linalg.norm(H, axis=1, keepdims=True))


def gradient(model, A, X, y, train):
    last = model._last_layer
    H, signs = hidden_rows(model, A, X)[train], reference.signs(y[train], model.classes)
    return reference.gradient(H, signs, last.head.W, last.head.B, last.training.lam)


OUTSIDE = {
    "edges": lambda model, A: model.remove_edges(np.concatenate([pairs(A, 0)[:2], pairs(A, 1)[:2]])),
    "nodes": lambda model, A: model.remove_nodes([1, 3, 70]),
    "features": lambda model, A: model.remove_features([5, 71], labels=True),
    "edges between and outside": lambda model, A: model.add_edges(
        [next((u, v) for u in HIDDEN for v in range(60, N) if not A[u, v])]
    ),
}
INSIDE = {
    "edges": lambda model, A: model.remove_edges(pairs(A, 2)[:1]),
    "nodes": lambda model, A: model.remove_nodes([1, 4]),
    "features": lambda model, A: model.remove_features([6]),
    "labels": lambda model, A: model.remove_features([6], labels=True),
    "new edges": lambda model, A: model.add_edges([next((u, v) for u in HIDDEN for v in HIDDEN if u < v and not A[u, v])]),
}


def remaining(model):
    """Graph, features, labels and training nodes after requests."""
    data = model._data
    return nareg.Graph(data.graph.adjacency()), data.propagation.features.copy(), model.labels, model.train


@pytest.mark.slow
@pytest.mark.parametrize("hidden_nodes", [HIDDEN, None])
def test_the_hidden_layer_is_that_of_a_model_that_never_saw_the_other_nodes(hidden_nodes, data):
    """To the last bit, with new features, edges and labels of all nodes that are not hidden."""
    model, rng = fitted(data, hidden_nodes=hidden_nodes), np.random.default_rng(9)
    hidden = model.hidden_nodes
    assert 10 < hidden.size < 50
    others = np.setdiff1d(np.arange(N), hidden)
    A, X, y = data.graph.adjacency.toarray(), data.features.astype(float), data.labels.copy()
    A[np.ix_(others, others)] = A[np.ix_(others, hidden)] = A[np.ix_(hidden, others)] = 0
    X[others], y[others] = rng.standard_normal((others.size, 6)), rng.permutation(y[others])
    other = DeepGPR(**OPTIONS, rng=np.random.default_rng(3)).fit(A, X, y, TRAIN, hidden_nodes=hidden_nodes)
    assert_bitwise(layer(model), layer(other))
    X[hidden[0], 0] += 1
    other = DeepGPR(**OPTIONS, rng=np.random.default_rng(3)).fit(A, X, y, TRAIN, hidden_nodes=hidden_nodes)
    assert np.abs(layer(model)[0] - layer(other)[0]).max() > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("request_", OUTSIDE)
def test_a_request_on_other_data_leaves_the_hidden_layer(request_, data):
    model = fitted(data)
    before, noise = layer(model), model._last_layer.head.B
    certificate = OUTSIDE[request_](model, data.graph.adjacency.toarray())
    assert isinstance(certificate, Certificate)
    assert not certificate.retrained
    assert certificate.eps == 1
    assert_bitwise(layer(model), before)
    assert model._last_layer.head.B is noise
    graph, X, y, train = remaining(model)
    hidden = HIDDEN[np.isin(HIDDEN, train)]
    anew = DeepGPR(**OPTIONS, rng=np.random.default_rng(3)).fit(graph, X, y, train, hidden_nodes=hidden)
    assert_bitwise(layer(anew), before)


@pytest.mark.slow
def test_the_default_part_is_drawn_whatever_the_data_are(data):
    """Coins are those of the node numbers: without some nodes the others have the same ones."""
    hidden = fitted(data, hidden_nodes=None).hidden_nodes
    other = fitted(data, hidden_nodes=None, train=TRAIN[10:]).hidden_nodes
    np.testing.assert_array_equal(other, hidden[hidden >= 10])


@pytest.mark.slow
@pytest.mark.parametrize("request_", INSIDE)
def test_a_request_on_hidden_data_is_a_fit_to_what_remains(request_, data):
    model = fitted(data)
    rng = deepcopy(model._rng)
    before = layer(model)
    certificate = INSIDE[request_](model, data.graph.adjacency.toarray())
    assert certificate.retrained
    assert np.abs(layer(model)[0] - before[0]).max() > 1e-6
    graph, X, y, train = remaining(model)
    hidden = HIDDEN[np.isin(HIDDEN, train)]
    np.testing.assert_array_equal(model.hidden_nodes, hidden)
    anew = DeepGPR(**OPTIONS, rng=rng).fit(graph, X, y, train, hidden_nodes=hidden)
    assert_bitwise(layer(model), layer(anew))
    mine, theirs = model._last_layer, anew._last_layer
    # alpha is that of the number of training nodes at fit
    noise = mine.head.B / mine.training.alpha
    np.testing.assert_allclose(noise, theirs.head.B / theirs.training.alpha, rtol=1e-12)
    if train.size == TRAIN.size:
        np.testing.assert_allclose(mine.head.W, theirs.head.W, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(model.decision(), anew.decision(), rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_after_any_requests_the_certificate_is_what_the_raw_data_say(data, rng):
    """Residual and budget, densely from what remains; the hidden layer changes exactly if what it holds does."""
    model = fitted(data)
    A, X, y = data.graph.adjacency.toarray(), data.features.astype(float), data.labels.copy()
    train, gone, retrained = set(TRAIN.tolist()), set(), 0
    for number in range(40):
        hidden, before = model.hidden_nodes, layer(model)
        stored = A[np.ix_(hidden, hidden)].copy(), X[hidden].copy(), hidden.copy()
        here = np.setdiff1d(np.arange(len(X)), sorted(gone))
        match number % 5:
            case 0:
                edges = rng.permutation(np.argwhere(np.triu(A)))[:2]
                certificate = model.remove_edges(edges)
                A[edges[:, 0], edges[:, 1]] = A[edges[:, 1], edges[:, 0]] = 0
            case 1:
                free = [(u, v) for u in here for v in here if u < v and not A[u, v]]
                u, v = free[rng.integers(len(free))]
                certificate = model.add_edges([(u, v)])
                A[u, v] = A[v, u] = 1
            case 2:
                node = int(rng.choice(here))
                certificate = model.remove_nodes([node])
                A[node] = A[:, node] = X[node] = 0
                gone.add(node)
                train -= gone
            case 3:
                node, labels = int(rng.choice(here)), bool(rng.integers(2))
                certificate = model.remove_features([node], labels=labels)
                X[node] = 0
                train -= {node} if labels else set()
            case _:
                certificate = model.add_nodes(X[:1], labels=y[:1])
                train.add(len(X))
                A, X, y = np.pad(A, (0, 1)), np.concatenate([X, X[:1]]), np.append(y, y[0])
        trained = model._data.train
        assert sorted(trained) == sorted(train)
        hidden = model.hidden_nodes
        held = A[np.ix_(hidden, hidden)], X[hidden], hidden
        same = all(np.array_equal(*parts) for parts in zip(stored, held, strict=True))
        assert np.array_equal(layer(model)[0], before[0]) == same == (not certificate.retrained)
        retrained += certificate.retrained
        true = np.linalg.norm(gradient(model, A, X, y, trained))
        assert true == pytest.approx(certificate.residual, abs=1e-9)
        assert true <= certificate.spent <= certificate.budget
        assert certificate.spent == certificate.residual + certificate.approximation
        counts = len(X) - len(gone), A.sum() / 2, len(train)
        assert (certificate.n_nodes, certificate.n_edges, certificate.n_train) == counts
        np.testing.assert_allclose(model.decision(), hidden_rows(model, A, X) @ model._last_layer.head.W, atol=1e-9)
    assert 5 < retrained < 35


def test_the_last_layer_is_at_the_optimum_of_what_remains(data):
    """By a general minimizer from zero, with the same hidden layer and noise term."""
    model = fitted(data)
    model.remove_nodes([1, 3, 70])
    graph, X, y, train = remaining(model)
    last = model._last_layer
    H, signs = hidden_rows(model, graph.adjacency.toarray(), X)[train], reference.signs(y[train], model.classes)
    best = reference.optimum(H, signs, last.head.B, last.training.lam)
    left = np.linalg.norm(reference.gradient(H, signs, best, last.head.B, last.training.lam))
    # the objective is strongly convex
    distance = (last.head.residual + left) / (last.training.lam * train.size)
    assert np.linalg.norm(last.head.W - best) <= distance < 0.1 * np.linalg.norm(best)
    other = reference.optimum(H, signs, 2 * last.head.B, last.training.lam)
    assert np.linalg.norm(other - best) > distance


def test_rounding_of_the_units_is_within_its_bound(rng):
    """Beside extended precision: of the products, and behind an embedding that is off; near the sphere, where p bends, too."""
    hidden = _last_layer.HiddenLayer(rng.standard_normal((300, 16)), rng.standard_normal(16))
    for scale in (1e-3, 1e-1, 10.0, 1e4):
        Z = scale * rng.standard_normal((50, 300))
        exact, close = rows_in_extended_precision(hidden, Z), hidden.rows(Z)
        rounding = np.linalg.norm((close - exact).astype(float))
        assert 0 < rounding <= hidden.error(Z, 0.0) < 1e-8 * max(scale, 1)
        # along the direction that the layer stretches most
        direction = np.linalg.svd(hidden.weights)[0][:, 0]
        moved = Z + 1e-4 * np.outer(rng.choice([-1, 1], 50), direction)
        distance = np.linalg.norm((rows_in_extended_precision(hidden, moved) - close).astype(float))
        assert distance <= hidden.error(Z, float(np.linalg.norm(moved - Z)))
        assert np.linalg.norm(close, axis=1).max() <= 1 + 1e-15


def rows_in_extended_precision(hidden, Z):
    H = np.maximum(Z.astype(np.longdouble) @ hidden.weights.astype(np.longdouble) + hidden.biases, 0)
    return H / np.maximum(1, np.sqrt((H**2).sum(axis=1, keepdims=True)))


def state(model):
    last, data = model._last_layer, model._data
    return [*layer(model), last.head.W, last.head.B, model.embedding(), model.labels, model.train, data.gone.copy(),
            model.hidden_nodes, data.graph.adjacency().toarray()]  # fmt: skip


def assert_same(before, after):
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "part"),
    [
        *((act, "adjusted") for act in (*OUTSIDE.values(), *INSIDE.values())),
        *((act, "induced_embedding") for act in INSIDE.values()),
    ],
)
def test_an_interrupted_request_changes_nothing(act, part, data, monkeypatch):
    model, A = fitted(data), data.graph.adjacency.toarray()
    before, scores = state(model), model.decision()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(CertifiedTraining if part == "adjusted" else _last_layer, part, interrupted)
    with pytest.raises(KeyboardInterrupt):
        act(model, A)
    assert_same(before, state(model))
    np.testing.assert_allclose(model.decision(), scores, atol=1e-9)
    monkeypatch.undo()
    certificate = act(model, A)
    assert certificate.spent <= certificate.budget


def test_what_rounding_alone_puts_above_the_budget_is_refused(data):
    """A huge feature of any node may be in any row's rounding errors."""
    model = fitted(data)
    before = state(model)
    with pytest.raises(CertificateError, match=r"above the budget.*Nothing was changed"):
        model.add_nodes(np.full((1, 6), 1e12))
    assert_same(before, state(model))
    assert not model.remove_nodes([1]).retrained


def test_invalid_requests_change_nothing(data):
    model = fitted(data)
    before = state(model)
    for act in (
        lambda: model.remove_edges([(0, 0)]),
        lambda: model.remove_nodes([N]),
        lambda: model.remove_nodes(TRAIN),
        lambda: model.add_nodes(np.ones((1, 5))),
    ):
        with pytest.raises(InputError):
            act()
    assert_same(before, state(model))


def test_steps_that_do_not_reach_the_budget_are_followed_by_a_new_noise_term(data, monkeypatch):
    model = fitted(data)
    before, noise, adjusted = layer(model), model._last_layer.head.B, CertifiedTraining.adjusted

    def refusing(training, data, B, W, rows):
        if B is noise:
            raise CertificateError("no.")
        return adjusted(training, data, B, W, rows)

    monkeypatch.setattr(CertifiedTraining, "adjusted", refusing)
    certificate = model.remove_nodes([1])
    assert certificate.retrained
    assert certificate.spent <= certificate.budget
    assert_bitwise(layer(model), before)
    assert np.abs(model._last_layer.head.B - noise).min() > 0


def test_a_renewed_model_has_a_new_noise_term_on_the_same_hidden_layer(data):
    """What two versions share cancels between their gradients, and tells whose rows changed (Notes); a new term hides it."""
    model = fitted(data)
    before, noise, scores = layer(model), model._last_layer.head.B.copy(), model.decision()
    certificate = model.renew()
    assert (certificate.request, certificate.retrained, certificate.count) == ("renew", True, N)
    assert certificate.spent <= certificate.budget
    assert_bitwise(layer(model), before)
    last = model._last_layer
    assert np.abs(last.head.B - noise).min() > 0
    assert np.abs(model.decision() - scores).max() > 0
    A, X = data.graph.adjacency.toarray(), data.features.astype(float)
    assert np.linalg.norm(gradient(model, A, X, data.labels, TRAIN)) == pytest.approx(certificate.residual, abs=1e-9)
    model.remove_nodes([70])
    assert model.renew().count == N - 1


def test_hidden_nodes_by_a_mask_all_of_them_or_none(data):
    mask = np.isin(np.arange(N), HIDDEN)
    assert_bitwise(layer(fitted(data)), layer(fitted(data, hidden_nodes=mask)))
    assert fitted(data, hidden_nodes=TRAIN).remove_nodes([1]).retrained
    random = fitted(data, hidden_nodes=[])
    before = layer(random)
    assert not random.remove_nodes([1, 4]).retrained
    assert_bitwise(layer(random), before)


def test_the_last_hidden_node_can_leave(data):
    model = fitted(data, hidden_nodes=[4])
    assert model.remove_nodes([4]).retrained
    assert model.hidden_nodes.size == 0
    assert not model.remove_nodes([5]).retrained


@pytest.mark.slow
def test_it_learns_and_two_classes_have_one_column(rng):
    data = nareg.datasets.node_classification.synthetic(300, 2, n_features=8, rng=rng)
    model = DeepGPR(rng=rng).fit(data.graph, data.features, data.labels, np.arange(200))
    test = np.arange(200, 300)
    assert model.decision(test).shape == (100, 1)
    assert (model.predict(test) == data.labels[test]).mean() > 0.75


def test_a_default_generator_is_not_known_to_others(data):
    noise = [DeepGPR(**OPTIONS).fit(data.graph, data.features, data.labels, TRAIN)._last_layer.head.B for _ in range(2)]
    assert np.abs(noise[0] - noise[1]).min() > 0


def test_divergence_is_named(data):
    with pytest.raises(SolverError, match="training diverged at learning_rate"):
        fitted(data, learning_rate=1e37)


@pytest.mark.parametrize(
    ("options", "arguments", "words"),
    [
        ({"eps": 0}, {}, "eps"),
        ({"delta": 1}, {}, "delta is 1"),
        ({}, {"hidden_nodes": [0, 70]}, "hidden_nodes holds 70, which is not in train"),
        ({}, {"hidden_nodes": [N]}, "hidden_nodes"),
        ({}, {"hidden_nodes": [0.5]}, "hidden_nodes"),
    ],
)
def test_what_is_refused(options, arguments, words, data):
    with pytest.raises(InputError, match=words):
        DeepGPR(**OPTIONS | options).fit(data.graph, data.features, data.labels, TRAIN, **arguments)
