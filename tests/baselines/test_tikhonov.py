"""Tikhonov regression and classification: their definitions, PyGSP, and networks in pieces."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.baselines import tikhonov_classification, tikhonov_regression
from nareg.errors import InputError, SingularSystemError


@pytest.fixture
def problem(rng):
    g = nareg.graphs.sensor(80, rng=rng)
    y = g.coordinates[:, :1] * rng.standard_normal((1, 4)) + 0.1 * rng.standard_normal((80, 4))
    return g, y, rng.random((80, 4)) < 0.4


@pytest.mark.parametrize("tau", [0.0, 0.3, 20.0])
def test_regression_is_the_dense_minimum(problem, tau):
    g, y, seen = problem
    x = tikhonov_regression(g, np.where(seen, y, np.nan), tau=tau)
    L = g.laplacian().toarray()
    for t in range(4):
        m = seen[:, t]
        if tau:
            expected = np.linalg.solve(np.diag(m.astype(float)) + tau * L, m * y[:, t])
        else:
            expected = y[:, t].copy()
            expected[~m] = np.linalg.solve(L[np.ix_(~m, ~m)], -L[np.ix_(~m, m)] @ y[m, t])
        np.testing.assert_allclose(x[:, t], expected, atol=1e-8)


@pytest.mark.parametrize("tau", [0.0, 0.5])
def test_regression_is_that_of_pygsp(problem, tau):
    pygsp = pytest.importorskip("pygsp", reason="PyGSP is not installed")
    g, y, seen = problem
    mask = seen[:, 0]
    theirs = pygsp.learning.regression_tikhonov(pygsp.graphs.Graph(g.adjacency.toarray()), y[:, 0].copy(), mask, tau)
    # its conjugate gradients stop at a relative residual of 1e-5
    tolerance = 1e-9 if tau == 0 else 1e-4
    np.testing.assert_allclose(tikhonov_regression(g, y[:, 0], mask, tau=tau), theirs, atol=tolerance)


@pytest.mark.parametrize("tau", [0.0, 0.5])
def test_classification_is_that_of_pygsp(problem, rng, tau):
    pygsp = pytest.importorskip("pygsp", reason="PyGSP is not installed")
    g, _, seen = problem
    mask = seen[:, 0]
    labels = (3 * g.coordinates[:, 0]).astype(int)
    theirs = pygsp.learning.classification_tikhonov(pygsp.graphs.Graph(g.adjacency.toarray()), labels, mask, tau)
    ours = tikhonov_classification(g, labels, mask, tau=tau)
    np.testing.assert_array_equal(ours.classes, [0, 1, 2])
    np.testing.assert_allclose(ours.scores, theirs, atol=1e-9 if tau == 0 else 1e-4)
    assert (ours.scores > -1e-9).all()
    np.testing.assert_allclose(ours.scores.sum(axis=1), 1.0, atol=1e-8)
    assert np.mean(ours.labels == labels) > 0.8


def test_labels_may_be_texts_or_whole_floats_with_gaps(problem):
    g, _, seen = problem
    mask = seen[:, 0]
    numbers = np.where(mask, np.round(3 * g.coordinates[:, 0]) + 5, np.nan)
    by_number = tikhonov_classification(g, numbers, mask)
    texts = np.array([f"c{n:.0f}" for n in numbers])
    by_text = tikhonov_classification(g, texts, mask)
    assert [f"c{n}" for n in by_number.labels] == by_text.labels.tolist()


def test_everything_observed_and_parts_without_a_reading(rng):
    A = np.zeros((5, 5))
    A[0, 1] = A[1, 0] = A[3, 4] = A[4, 3] = 1.0
    g = nareg.Graph(A, names=list("abcde"))
    y = np.array([1.0, np.nan, 2.0, 3.0, np.nan])
    np.testing.assert_allclose(tikhonov_regression(g, y), [1, 1, 2, 3, 3], atol=1e-9)
    np.testing.assert_array_equal(tikhonov_regression(g, np.arange(5.0)), np.arange(5.0))
    for tau in (0.0, 1.0):
        with pytest.raises(SingularSystemError, match=r"node 2 \('c'\) is in it"):
            tikhonov_regression(g, np.where(np.arange(5) == 2, np.nan, y), tau=tau)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.full(80, 0.5), "holds 0.5 at an observed node"),
        (np.full(80, np.nan), "holds nan at an observed node"),
        (np.zeros(79, int), "one label per node"),
        (np.full(80, None), "pass integers or texts"),
    ],
)
def test_bad_labels_are_refused(problem, labels, words):
    with pytest.raises(InputError, match=words):
        tikhonov_classification(problem[0], labels, np.ones(80, bool))
    with pytest.raises(InputError, match="tau is -1"):
        tikhonov_regression(problem[0], np.ones(80), tau=-1)
