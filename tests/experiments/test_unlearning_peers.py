"""Peers: other ways to the same promise."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import _unlearning_peers as certified
from nareg.errors import InputError
from nareg.unlearning import CertifiedGPR
from tests.unlearning import reference
from tests.unlearning.requests import problem, true_gradient

# these noise terms are chosen for their budgets, not for accuracy
pytestmark = pytest.mark.filterwarnings("ignore::nareg.errors.UtilityWarning")

KINDS = [CertifiedGPR, certified.Retrained, certified.CGU, certified.CEU]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_all_forget_to_within_the_budget(kind, loss, rng):
    graph, X, y = problem(rng)
    model = kind(loss=loss, rng=rng).fit(graph, X, y, np.arange(40))
    A = graph.adjacency.toarray()
    for pair in rng.permutation(np.argwhere(np.triu(A)))[:8]:
        certificate = model.remove_edges([pair])
        A[tuple(pair)] = A[tuple(pair[::-1])] = 0
        assert true_gradient(model, A, X, y, np.arange(40)) <= certificate.spent <= certificate.budget
    np.testing.assert_allclose(model.embedding(), reference.embedding(A, X, model.weights), atol=1e-12)
    model.remove_nodes([3])
    model.remove_features([50])
    A[3] = A[:, 3] = X[3] = X[50] = 0
    train = np.setdiff1d(np.arange(40), [3])
    assert true_gradient(model, A, X, y, train) <= model.certificate().spent


@pytest.mark.slow
def test_retrained_has_a_new_term_and_the_others_keep_theirs(rng):
    graph, X, y = problem(rng)
    for kind in KINDS:
        model = kind(alpha=100.0, rng=np.random.default_rng(4)).fit(graph, X, y, np.arange(40))
        B = model._head.B
        assert model.remove_features([50]).retrained == (kind is certified.Retrained)
        assert (model._head.B is not B) == (kind is certified.Retrained)
        assert not model.add_nodes(X[:1], labels=y[:1]).retrained or kind is certified.Retrained


def test_for_least_squares_a_newton_step_is_exact_and_an_influence_step_is_not(rng):
    left = {}
    for kind in (certified.CGU, certified.CEU):
        own = np.random.default_rng(2)
        graph, X, y = problem(own)
        model = kind(loss="squared", alpha=100.0, rng=own).fit(graph, X, y, np.arange(40))
        left[kind] = model.remove_nodes([1, 2, 3]).residual
    assert left[certified.CGU] < 1e-10 < left[certified.CEU]


def test_a_step_that_leaves_too_much_is_followed_by_training(rng):
    graph, X, y = problem(rng)
    model = certified.CEU(alpha=1e-4, rng=rng).fit(graph, X, y, np.arange(40))
    certificate = model.remove_nodes([1, 2, 3, 4, 5])
    assert certificate.retrained
    assert certificate.spent <= certificate.budget


def test_residues_are_not_for_them(rng):
    with pytest.raises(InputError, match="CGU propagates exactly, omit r_max"):
        certified.CGU(r_max=1e-5, rng=rng)


def test_an_influence_step_keeps_nothing_of_the_data_before(rng):
    graph, X, y = problem(rng)
    model = certified.CEU(rng=rng).fit(graph, X, y, np.arange(40))
    model.remove_nodes([3])
    assert model._before is None
