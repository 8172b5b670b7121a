"""Forgetting on request: what is promised holds, what cannot be is refused, and then nothing has changed."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import nareg
from nareg.errors import InputError
from nareg.unlearning import CertificateError, CertifiedGPR, head
from tests.unlearning import reference


def problem(rng, n=60, classes=3):
    data = nareg.datasets.node_classification.synthetic(n, classes, n_features=6, rng=rng)
    return data.graph, data.features.astype(float), data.labels.copy()


def fitted(rng, *, classes=3, **settings):
    graph, X, y = problem(rng, classes=classes)
    return CertifiedGPR(rng=rng, **settings).fit(graph, X, y, np.arange(40)), graph, X, y


def true_gradient(model, A, X, y, train):
    """Norm of the perturbed gradient at the model's coefficients on what remains."""
    Z = reference.embedding(A, X, model.weights)[train]
    signs = reference.signs(y[train], model.classes)
    return np.linalg.norm(reference.gradient(Z, signs, model.coefficients, model._head.B, model.lam, model.loss.name))


class Requests(RuleBasedStateMachine):
    """Any mixture of requests: embedding and gradient are those of the raw data that remain."""

    r_max = 0.0

    @initialize(seed=st.integers(0, 2**16), loss=st.sampled_from(["logistic", "squared"]), classes=st.integers(2, 3))
    def start(self, seed, loss, classes):
        self.rng = np.random.default_rng(seed)
        graph, self.X, self.y = problem(self.rng, n=24, classes=classes)
        self.A = graph.adjacency.toarray()
        self.train = set(range(16))
        self.gone = set()
        stated = {"weights": [0.1, 0.3, 0.6], "loss": loss, "r_max": self.r_max, "alpha": 5.0 if self.r_max else 0.1}
        self.model = CertifiedGPR(rng=self.rng, **stated, **self.options()).fit(graph, self.X, self.y, sorted(self.train))
        self.certificate = self.model.certificate()
        self.begun()

    def options(self):
        """More arguments of the model."""
        return {}

    def begun(self):
        """For machines with more to start."""

    def some(self, candidates, most):
        picked = self.rng.permutation(np.asarray(candidates))
        return picked[: self.rng.integers(1, most + 1)]

    def keeps_classes(self, nodes):
        left = self.train - set(nodes)
        return {int(self.y[i]) for i in left} == set(self.model.classes.tolist())

    @precondition(lambda self: self.A.any())
    @rule()
    def remove_edges(self):
        pairs = self.some(np.argwhere(np.triu(self.A)), 4)
        self.certificate = self.model.remove_edges(pairs)
        self.A[pairs[:, 0], pairs[:, 1]] = self.A[pairs[:, 1], pairs[:, 0]] = 0

    @rule()
    def add_edges(self):
        here = [i for i in range(len(self.X)) if i not in self.gone]
        free = [(u, v) for u in here for v in here if u < v and not self.A[u, v]]
        if free:
            pairs = self.some(free, 4)
            self.certificate = self.model.add_edges(pairs)
            self.A[pairs[:, 0], pairs[:, 1]] = self.A[pairs[:, 1], pairs[:, 0]] = 1

    @rule()
    def remove_nodes(self):
        nodes = self.some([i for i in range(len(self.X)) if i not in self.gone] or [0], 2)
        if self.gone.intersection(nodes.tolist()) or not self.keeps_classes(nodes.tolist()):
            with pytest.raises(InputError):
                self.model.remove_nodes(nodes)
            return
        self.certificate = self.model.remove_nodes(nodes)
        self.A[nodes] = self.A[:, nodes] = self.X[nodes] = 0
        self.gone |= set(nodes.tolist())
        self.train -= self.gone

    @rule(labels=st.booleans())
    def remove_features(self, labels):
        nodes = self.some([i for i in range(len(self.X)) if i not in self.gone] or [0], 2)
        if self.gone.intersection(nodes.tolist()) or (labels and not self.keeps_classes(nodes.tolist())):
            with pytest.raises(InputError):
                self.model.remove_features(nodes, labels=labels)
            return
        self.certificate = self.model.remove_features(nodes, labels=labels)
        self.X[nodes] = 0
        if labels:
            self.train -= set(nodes.tolist())

    @rule()
    def add_nodes(self):
        count, n = int(self.rng.integers(1, 3)), len(self.X)
        new, labels = self.rng.standard_normal((count, 6)), self.rng.choice([-1, *self.model.classes], count)
        self.certificate = self.model.add_nodes(new, labels=labels)
        self.X, self.y = np.concatenate([self.X, new]), np.concatenate([self.y, labels])
        self.A = np.pad(self.A, (0, count))
        self.train |= {n + k for k in range(count) if labels[k] >= 0}

    @rule()
    def renew(self):
        before = self.model._head.B
        self.certificate = self.model.renew()
        assert self.certificate.retrained
        assert np.abs(self.model._head.B - before).min() > 0

    @invariant()
    def what_is_promised_holds(self):
        model, stated = self.model, self.certificate
        Z = reference.embedding(self.A, self.X, model.weights)
        train = sorted(self.train)
        assert model.train.tolist() == train
        if not self.r_max:
            np.testing.assert_allclose(model.embedding(), Z, atol=1e-12)
        assert true_gradient(model, self.A, self.X, self.y, train) <= stated.spent <= stated.budget
        assert stated.spent == stated.residual + stated.approximation
        assert (stated.n_nodes, stated.n_edges, stated.n_train) == (len(self.X) - len(self.gone), self.A.sum() / 2, len(train))


class ResidueRequests(Requests):
    """The same with residues."""

    r_max = 1e-3


TestRequests = Requests.TestCase
TestRequests.settings = settings(max_examples=60, stateful_step_count=25)
TestResidueRequests = ResidueRequests.TestCase
TestResidueRequests.settings = settings(max_examples=20, stateful_step_count=20)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_model_is_that_of_training_anew(classes, rng):
    """With the same noise term: within what the strong convexity makes of the gradient that is left."""
    model, graph, X, y = fitted(rng, classes=classes)
    A = graph.adjacency.toarray()
    pairs = np.argwhere(np.triu(A))[:10]
    model.remove_edges(pairs)
    A[pairs[:, 0], pairs[:, 1]] = A[pairs[:, 1], pairs[:, 0]] = 0
    Z = reference.embedding(A, X, model.weights)
    W = reference.optimum(Z[:40], reference.signs(y[:40], model.classes), model._head.B, model.lam)
    assert np.linalg.norm(model.coefficients - W) <= model.certificate().spent / (model.lam * 40)
    scores = Z @ model.coefficients
    best = (scores[:, 0] > 0).astype(int) if classes == 2 else scores.argmax(1)
    np.testing.assert_array_equal(model.predict(), model.classes[best])
    np.testing.assert_allclose(model.decision([3, 50]), scores[[3, 50]], atol=1e-12)


@pytest.mark.parametrize("renewed", [False, True])
def test_versions_with_one_random_term_tell_what_was_removed_between_them(renewed, rng):
    """Why a version is renewed before it is published: who knows the data before finds the edge among all without B."""
    model, graph, X, y = fitted(rng, alpha=2.0)
    A, edges = graph.adjacency.toarray(), np.argwhere(np.triu(graph.adjacency.toarray()))

    def without_term(model, A):
        Z = reference.embedding(A, X, model.weights)[:40]
        return reference.gradient(Z, reference.signs(y[:40], model.classes), model.coefficients, 0.0, model.lam)

    shown = without_term(model, A)
    certificate = model.remove_edges(edges[7])
    if renewed:
        certificate = model.renew()
    left = []
    for u, v in edges:
        guess = A.copy()
        guess[u, v] = guess[v, u] = 0
        left.append(np.linalg.norm(without_term(model, guess) - shown))
    if renewed:
        assert np.ptp(left) < 0.1 * min(left)  # a new term's size, whatever is guessed
    else:
        assert left[7] < 2 * certificate.budget
        assert np.argmin(left) == 7


def state(model):
    live = model._data.graph.adjacency()
    embedding = model.embedding(), model.labels, model.train, model.coefficients, model._data.gone, live.toarray()
    return [part.copy() for part in embedding]


def assert_same(before, after):
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def pairs(model, present):
    return np.argwhere(np.triu(model._data.graph.adjacency().toarray() == present, 1))[:3]


REQUESTS = {
    "remove_edges": lambda model: model.remove_edges(pairs(model, 1)),
    "remove_nodes": lambda model: model.remove_nodes([0, 50]),
    "remove_features": lambda model: model.remove_features([1, 51], labels=True),
    "add_edges": lambda model: model.add_edges(np.argwhere(np.triu(model._data.graph.adjacency().toarray() == 0, 1))[:3]),
    "add_nodes": lambda model: model.add_nodes(np.ones((2, 6)), labels=[1, -1]),
    "renew": lambda model: model.renew(),
}


@pytest.mark.parametrize("r_max", [0.0, 1e-4])
@pytest.mark.parametrize("request_of", REQUESTS.values(), ids=list(REQUESTS))
@pytest.mark.parametrize("fault", [KeyboardInterrupt, MemoryError, CertificateError])
def test_a_request_that_fails_changes_nothing(request_of, fault, r_max, rng, monkeypatch):
    model, *_ = fitted(rng, r_max=r_max, alpha=2.0)
    before, certificate = state(model), model.certificate()

    def fail(*_, **__):
        raise fault("now")

    with monkeypatch.context() as patch:
        patch.setattr(head, "solve", fail)
        with pytest.raises(fault):
            request_of(model)
    assert_same(before, state(model))
    assert model.certificate() is certificate
    assert request_of(model) is model.certificate() is not certificate  # it goes through after that


def test_what_newton_steps_cannot_certify_is_trained_anew(rng, monkeypatch):
    model, graph, X, y = fitted(rng)
    B, solve, calls = model._head.B, head.solve, []

    def first_fails(*arguments, **options):
        calls.append(1)
        if len(calls) == 1:
            raise CertificateError("now")
        return solve(*arguments, **options)

    monkeypatch.setattr(head, "solve", first_fails)
    certificate = model.remove_features([7])
    X[7] = 0
    assert certificate.retrained
    assert abs(model._head.B - B).max() > 0.01  # with a noise term of its own
    assert true_gradient(model, graph.adjacency.toarray(), X, y, np.arange(40)) <= certificate.spent <= certificate.budget


def test_a_budget_that_residues_exceed_gives_no_certificate(rng):
    with pytest.raises(CertificateError, match=r"the embedding's error can add .* to the gradient, above the budget 0.0228"):
        fitted(rng, r_max=1.0)


def test_without_a_random_term_there_is_no_certificate(rng):
    model, *_ = fitted(rng, alpha=0.0)
    with pytest.raises(CertificateError, match="alpha is 0"):
        model.certificate()
    with pytest.raises(CertificateError, match="alpha is 0"):
        model.remove_nodes([3])


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda m: m.remove_nodes([]), "nodes is empty"),
        (lambda m: m.remove_nodes([3, 3]), "nodes lists a node twice"),
        (lambda m: m.remove_nodes([60]), "nodes holds 60 but there are 60 nodes"),
        (lambda m: m.remove_nodes([59]), "nodes holds 59, which was removed before"),
        (lambda m: m.remove_features([59]), "nodes holds 59, which was removed before"),
        (lambda m: m.add_edges([(1, 59)]), "edges holds 59, which was removed before"),
        (lambda m: m.remove_edges([(2, 2)]), "a self-loop is not an edge"),
        (lambda m: m.remove_nodes(np.flatnonzero(m.labels == 1)), "the last training node of class 1"),
        (lambda m: m.remove_nodes(np.arange(40)), "nodes holds all training nodes: keep at least one to train on"),
        (lambda m: m.remove_features(np.arange(40), labels=True), "nodes holds all training nodes"),
        (lambda m: m.add_nodes(np.ones((1, 5))), "features has 5 columns but the model was fitted to 6"),
        (lambda m: m.add_nodes(np.full((1, 6), np.nan)), r"features\[0, 0\] is nan"),
        (lambda m: m.add_nodes(np.ones((1, 6)), labels=[3]), r"labels holds 3, not a class of the model"),
        (lambda m: m.add_nodes(np.ones((1, 6)), labels=[-5]), r"labels holds -5, not a class of the model: .*, or -1"),
        (lambda m: m.add_nodes(np.ones((1, 6)), labels=[1, 2]), r"labels have shape \(2,\)"),
    ],
)
def test_requests_that_cannot_work_are_refused_and_change_nothing(act, message, rng):
    model, *_ = fitted(rng)
    model.remove_nodes([59])
    before = state(model)
    with pytest.raises(InputError, match=message):
        act(model)
    assert_same(before, state(model))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": -1}, "order is -1"),
        ({"weights": []}, "weights have 0 values"),
        ({"weights": [0.8, 0.3]}, r"absolute values sum to 1\.1"),
        ({"loss": "hinge"}, "loss is 'hinge'"),
        ({"lam": 0.0}, "lam is 0.0, it must be above 0"),
        ({"alpha": -1}, "alpha is -1"),
        ({"eps": 0}, "eps is 0"),
        ({"delta": 0}, "delta is 0"),
        ({"delta": 1}, "delta is 1, which guarantees nothing"),
        ({"r_max": -1}, "r_max is -1"),
        ({"alpha": 1e-300, "eps": 1e-10}, "alpha is 1e-300, eps 1e-10 and delta 0.0001: their budget, .*, is below rounding"),
        ({"rng": 0}, "rng is 0, a numpy generator"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        CertifiedGPR(**settings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.ones((59, 6))}, r"features has shape \(59, 6\): \(60, F\) is expected"),
        ({"features": np.ones((60, 0))}, "F at least 1"),
        ({"features": np.full((60, 6), np.inf)}, r"features\[0, 0\] is inf"),
        ({"labels": np.zeros(60)}, "dtype float64"),
        ({"labels": np.zeros(59, int)}, r"\(60,\) integers are expected"),
        ({"labels": np.full(60, -1)}, r"labels\[0\] is -1, not a class"),
        ({"labels": np.zeros(60, int)}, "are all 0: at least two classes are needed"),
        ({"train": []}, "train"),
        ({"train": [60]}, "train holds 60"),
        ({"graph": np.ones((60, 60)) - np.eye(60) * 2}, "adjacency"),
    ],
)
def test_data_that_cannot_work_are_refused(change, message, rng):
    graph, X, y = problem(rng)
    given = {"graph": graph, "features": X, "labels": y, "train": np.arange(40), **change}
    with pytest.raises(InputError, match=message):
        CertifiedGPR(rng=rng).fit(**given)


def test_masked_arrays_are_refused(rng):
    model, graph, X, y = fitted(rng)
    with pytest.raises(InputError, match="nodes is a masked array, whose mask would be lost"):
        model.remove_nodes(np.ma.array([17, 30], mask=[False, True]))
    with pytest.raises(InputError, match="labels is a masked array"):
        CertifiedGPR().fit(graph, X, np.ma.array(y, mask=y == 1), np.arange(40))


@pytest.mark.parametrize("r_max", [0.0, 1e-3])
def test_of_removed_nodes_not_even_rounding_is_left(r_max, rng):
    model, *_ = fitted(rng, r_max=r_max, alpha=1.0, weights=[0.2, 0.3, 0.5])
    for node in range(30, 60):
        model.remove_nodes([node])
    assert not model.embedding()[30:].any()
    assert not model.decision(np.arange(30, 60)).any()


@pytest.mark.parametrize("other", [None, np.ones(400), np.arange(400) % 2])
def test_features_that_were_scaled_by_columns_are_pointed_out(other, rng):
    graph, X, y = problem(rng, n=400)
    scaled = (X - X.mean(0)) / X.std(0)
    if other is not None:  # one column that is not centered hides no others
        scaled[:, 0] = other
    with pytest.warns(UserWarning, match="columns of features have mean zero") as caught:
        CertifiedGPR().fit(graph, scaled, y, np.arange(40))
    assert caught[0].filename == __file__
    for fine in (X / np.linalg.norm(X, axis=1, keepdims=True), np.zeros_like(X)):
        CertifiedGPR().fit(graph, fine, y, np.arange(40))


def test_a_class_that_was_told_beforehand_may_lose_its_last_node(rng):
    graph, X, y = problem(rng)
    model = CertifiedGPR(rng=rng).fit(graph, X, y, np.arange(40), classes=[0, 1, 2, 7])
    assert model.coefficients.shape == (6, 4)
    last = np.flatnonzero(y[:40] == 1)
    certificate = model.remove_features(last, labels=True)
    X[last] = 0
    train = np.setdiff1d(np.arange(40), last)
    assert true_gradient(model, graph.adjacency.toarray(), X, y, train) <= certificate.spent <= certificate.budget
    assert model.add_nodes(np.ones((1, 6)), labels=[7]).n_train == train.size + 1


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([0, 1], "labels of training nodes hold class 2, which is not among classes"),
        ([0], "classes is .*: two or more integers"),
        ([-1, 0, 1, 2], "two or more integers of at least 0"),
        ([0.0, 1.0, 2.0], "two or more integers"),
    ],
)
def test_classes_that_cannot_be_are_refused(classes, message, rng):
    graph, X, y = problem(rng)
    with pytest.raises(InputError, match=message):
        CertifiedGPR(rng=rng).fit(graph, X, y, np.arange(40), classes=classes)


def test_arguments_are_not_changed_and_sparse_features_are_taken(rng):
    graph, X, y = problem(rng)
    original = X.copy(), y.copy(), graph.adjacency.toarray()
    model = CertifiedGPR(rng=np.random.default_rng(3)).fit(graph, X, y, np.arange(40))
    other = CertifiedGPR(rng=np.random.default_rng(3)).fit(graph.adjacency, sp.csr_array(X), y, np.arange(60) < 40)
    np.testing.assert_array_equal(model.coefficients, other.coefficients)
    model.remove_nodes([1, 2])
    for before, after in zip(original, (X, y, graph.adjacency.toarray()), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("r_max", [0.0, 1e-12])
def test_what_is_held_is_what_the_documentation_says(r_max, order, rng):
    # L + 1 matrices of n F numbers, 2 L + 3 where residues wait, and the graph; nothing a request leaves behind
    matrices = 2 * order + 3 if r_max else order + 1
    graph, _, y = problem(rng, n=1000)
    X = rng.standard_normal((1000, 200)) / 20

    def served():
        model = CertifiedGPR(order=order, r_max=r_max, rng=rng).fit(graph, X, y, np.arange(600))
        model.remove_nodes(np.arange(5, 15))
        model.remove_features([30])
        return model

    served()  # once for what is compiled and imported
    gc.collect()
    tracemalloc.start()
    try:
        model = served()
        gc.collect()
        stored = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert model.embedding().shape == X.shape
    A = graph.adjacency
    few = 2 * (A.data.nbytes + A.indices.nbytes + A.indptr.nbytes) + 100 * A.shape[0]
    assert matrices * X.nbytes < stored <= matrices * X.nbytes + few < (matrices + 0.3) * X.nbytes


def test_an_isolated_node_is_removed(rng):
    X, y = rng.standard_normal((10, 6)), np.arange(10) % 2
    A = np.zeros((10, 10))
    A[0, 1] = A[1, 0] = 1
    model = CertifiedGPR(rng=rng).fit(A, X, y, np.arange(10))
    assert model.remove_nodes([7]).n_edges == 1
    assert not model.embedding()[7].any()


def test_the_certificate_reads_well(rng):
    model, *_ = fitted(rng)
    text = model.remove_features([3]).summary()
    assert text.startswith("(1, 0.0001)-certified: remove_features of 1\n  gradient ")
    assert "remaining: 60 nodes" in text
