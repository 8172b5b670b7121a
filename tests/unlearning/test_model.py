"""Forgetting on request: what is promised holds, and what fails has changed nothing."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

from nareg.unlearning import CertificateError, CertifiedGPR
from nareg.unlearning.head import CertifiedTraining
from tests.helpers import at_night, examples
from tests.unlearning import reference
from tests.unlearning.requests import REQUESTS, Requests, assert_same, fitted, problem, state, true_gradient

# these noise terms are chosen for their budgets, not for accuracy
pytestmark = pytest.mark.filterwarnings("ignore::nareg.errors.UtilityWarning")


class ResidueRequests(Requests):
    """The same with residues."""

    r_max = 1e-3


TestRequests = Requests.TestCase


TestRequests.settings = examples(15, 60, stateful_step_count=25)


TestResidueRequests = ResidueRequests.TestCase


TestResidueRequests.settings = examples(6, 20, stateful_step_count=20)


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


@pytest.mark.parametrize("r_max", [0.0, 1e-4])
@pytest.mark.parametrize("request_of", REQUESTS.values(), ids=list(REQUESTS))
@pytest.mark.parametrize("fault", [KeyboardInterrupt, MemoryError, CertificateError])
def test_a_request_that_fails_changes_nothing(request_of, fault, r_max, rng, monkeypatch):
    model, *_ = fitted(rng, r_max=r_max, alpha=2.0)
    before, certificate = state(model), model.certificate()

    def fail(*_, **__):
        raise fault("now")

    with monkeypatch.context() as patch:
        patch.setattr(CertifiedTraining, "adjusted", fail)
        with pytest.raises(fault):
            request_of(model)
    assert_same(before, state(model))
    assert model.certificate() is certificate
    assert request_of(model) is model.certificate() is not certificate  # it goes through after that


def test_what_newton_steps_cannot_certify_is_trained_anew(rng, monkeypatch):
    model, graph, X, y = fitted(rng)
    B, adjusted, calls = model._head.B, CertifiedTraining.adjusted, []

    def first_fails(*arguments, **options):
        calls.append(1)
        if len(calls) == 1:
            raise CertificateError("now")
        return adjusted(*arguments, **options)

    monkeypatch.setattr(CertifiedTraining, "adjusted", first_fails)
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


@pytest.mark.parametrize("r_max", [0.0, 1e-3])
def test_of_removed_nodes_not_even_rounding_is_left(r_max, rng):
    model, *_ = fitted(rng, r_max=r_max, alpha=1.0, weights=[0.2, 0.3, 0.5])
    for node in range(30, 60):
        model.remove_nodes([node])
    assert not model.embedding()[30:].any()
    assert not model.decision(np.arange(30, 60)).any()


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


@pytest.mark.slow
@pytest.mark.parametrize(("order", "r_max"), [(1, 0.0), (2, 1e-12), *at_night([(2, 0.0), (4, 0.0), (1, 1e-12), (4, 1e-12)])])
def test_what_is_held_is_what_the_documentation_says(r_max, order, rng):
    # L + 1 matrices of n F numbers, 2 L + 3 where residues wait, and the graph; nothing a request leaves behind
    matrices = 2 * order + 3 if r_max else order + 1
    graph, _, y = problem(rng, n=1000)
    X = rng.standard_normal((1000, 200)) / 20

    def served():
        model = CertifiedGPR(weights=order, r_max=r_max, rng=rng).fit(graph, X, y, np.arange(600))
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
