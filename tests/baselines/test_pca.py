"""Principal components: scikit-learn's on complete data, the rank from the noise, gaps."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.baselines import pca
from nareg.errors import InputError
from nareg.results import Status


@pytest.fixture
def clean(rng):
    return 10.0 + rng.standard_normal((30, 3)) @ (rng.standard_normal((3, 200)) * [[4], [2], [1]])


@pytest.mark.parametrize("rank", [1, 3, 7])
def test_complete_readings_give_the_projection_of_scikit_learn(clean, rng, rank):
    decomposition = pytest.importorskip("sklearn.decomposition", reason="scikit-learn is not installed")
    y = clean + rng.standard_normal(clean.shape)
    theirs = decomposition.PCA(rank, svd_solver="full").fit(y.T)
    ours = pca(y, rank=rank)
    np.testing.assert_allclose(ours.x, theirs.inverse_transform(theirs.transform(y.T)).T, atol=1e-10)
    np.testing.assert_allclose(np.abs(ours.components), np.abs(theirs.components_.T), atol=1e-10)
    np.testing.assert_allclose(ours.mean, theirs.mean_, atol=1e-12)
    np.testing.assert_allclose(ours.mean[:, None] + ours.components @ ours.scores, ours.x, atol=1e-10)


def test_the_noise_gives_the_rank_and_the_projection_lowers_the_error(clean, rng):
    for sigma in (0.3, 0.3 * rng.uniform(0.2, 3.0, 30)):
        spread = np.broadcast_to(sigma, 30)[:, None]
        y = clean + spread * rng.standard_normal(clean.shape)
        result = pca(y, noise=np.square(sigma))
        assert result.rank == 3
        assert np.mean((result.x - clean) ** 2) < 0.25 * np.mean((y - clean) ** 2)
    assert pca(10 + rng.standard_normal((30, 200)), noise=1.0).rank == 0


def test_gaps_of_a_low_rank_matrix_come_back(clean, rng):
    seen = rng.random(clean.shape) < 0.7
    result = pca(np.where(seen, clean, np.nan), rank=3, tol=1e-12)
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.x, clean, atol=1e-6)
    noisy = clean + 0.3 * rng.standard_normal(clean.shape)
    by_noise = pca(noisy, seen, noise=0.09)
    assert by_noise.rank == 3
    assert np.sqrt(np.mean((by_noise.x - clean)[~seen] ** 2)) < 0.2


def test_filled_gaps_are_a_stationary_point_of_the_observed_error(clean, rng):
    y = clean + rng.standard_normal(clean.shape)
    seen = rng.random(clean.shape) < 0.8
    result = pca(y, seen, rank=2, tol=1e-12)
    U, V = result.components, result.scores
    error = np.where(seen, y - result.x, 0.0)
    for gradient in (error.sum(axis=1), U.T @ error, error @ V.T):  # by mean, scores and components
        assert np.abs(gradient).max() < 1e-6 * np.linalg.norm(error) * np.linalg.norm(V)


def test_the_iteration_limit_is_reported(clean, rng):
    seen = rng.random(clean.shape) < 0.7
    assert pca(clean, seen, rank=3, tol=1e-12, max_iterations=3).status is Status.MAX_ITERATIONS


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "pass exactly one"),
        ({"rank": 2, "noise": 1.0}, "pass exactly one"),
        ({"rank": 30}, "less than 30"),
        ({"noise": 0.0}, "above 0"),
        ({"rank": 2, "observed": np.arange(30) > 0}, "no reading at node 0"),
    ],
)
def test_what_cannot_work_is_refused(clean, options, words):
    with pytest.raises(InputError, match=words):
        pca(clean, **options)
