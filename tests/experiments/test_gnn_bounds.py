"""The paper's statements about filtered noise against dense float64 matrices, and where they fail."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax

from experiments import _gnn_bounds as b
from nareg import graphs
from nareg.errors import InputError
from nareg.gnn import Adjacency
from nareg.gnn.adjacency import NORMALIZATIONS
from tests.gnn.test_propagation import random_graph
from tests.helpers import examples


def dense(adjacency: Adjacency, lam: float, order: int) -> np.ndarray:
    A, c = adjacency.matrix.toarray(), lam / (lam + 1)
    return sum(c**s * np.linalg.matrix_power(A, s) for s in range(order + 1)) / (lam + 1)


CASES = given(st.integers(1, 25), st.integers(0, 2**16), st.floats(0, 64), st.integers(0, 12))


@pytest.mark.slow
@examples(8, 30)
@CASES
def test_row_squares_and_expectation(n: int, seed: int, lam: float, order: int) -> None:
    for normalization in NORMALIZATIONS:
        adjacency = Adjacency(random_graph(n, seed), normalization=normalization)
        A_S = dense(adjacency, lam, order)
        np.testing.assert_allclose(b.row_squares(adjacency, lam=lam, order=order), (A_S**2).sum(axis=1), rtol=1e-10)
        expected = b.expected_noise(adjacency, n_features=3, sigma=2.0, lam=lam, order=order)
        assert expected == pytest.approx(12 * (A_S**2).sum())


@examples(8, 30)
@CASES
def test_random_walk_has_the_row_sum(n: int, seed: int, lam: float, order: int) -> None:
    adjacency = Adjacency(random_graph(n, seed), normalization="rw")
    np.testing.assert_allclose(dense(adjacency, lam, order).sum(axis=1), b.row_sum(lam, order), rtol=1e-10)


@pytest.mark.parametrize("normalization", ["rw", "sym"])
@examples(8, 30)
@CASES
def test_tau_lies_between_one_and_n(normalization: str, n: int, seed: int, lam: float, order: int) -> None:
    adjacency = Adjacency(random_graph(n, seed), normalization=normalization)
    assert 1 - 1e-9 <= b.tau(adjacency, lam=lam, order=order) <= n * (1 + 1e-9)


def test_symmetric_rows_have_other_sums() -> None:
    star = Adjacency(sp.csr_array(np.array([[0.0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])))
    sums = dense(star, 4.0, 8).sum(axis=1)
    assert sums.max() > 1.1 * b.row_sum(4.0, 8) > 1.1 * sums.min()


def test_published_bound_is_below_the_mean() -> None:
    g = graphs.grid((10, 10))
    filtered = {"lam": 32.0, "order": 16}
    mean = b.expected_noise(g, n_features=100, sigma=1.0, **filtered)
    noise = np.random.default_rng(0).standard_normal((100, 100))
    drawn = float(((dense(Adjacency(g), 32.0, 16) @ noise) ** 2).sum())
    assert drawn == pytest.approx(mean, rel=0.2)
    assert b.published_noise(g, sigma=1.0, d=100.0, **filtered) < min(mean, drawn)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_noisy_training_bounds_the_excess_of_the_clean_loss(normalization) -> None:
    rng = np.random.default_rng(4)
    n, F, R, sigma, train = 40, 3, 2.0, 0.5, np.arange(0, 40, 2)
    adjacency = Adjacency(random_graph(n, 1), normalization=normalization)
    A_S = dense(adjacency, 4.0, 6)
    classes = rng.integers(0, 2, n)
    X = np.eye(F)[classes] + 0.3 * rng.standard_normal((n, F))

    def loss(w: np.ndarray, features: np.ndarray) -> float:
        logits = (A_S @ features)[train] @ w.reshape(F, 2)
        return float(-log_softmax(logits, axis=1)[np.arange(train.size), classes[train]].mean())

    def trained(features: np.ndarray) -> np.ndarray:
        ball = {"type": "ineq", "fun": lambda w: R**2 - w @ w}
        return minimize(loss, np.zeros(2 * F), args=(features,), method="SLSQP", constraints=ball, tol=1e-12).x

    least = loss(trained(X), X)
    excess, furthest = [], []
    for _ in range(30):
        noisy = X + sigma * rng.standard_normal((n, F))
        w = trained(noisy)
        excess.append(loss(w, X) - least)
        furthest.append(abs(loss(w, noisy) - loss(w, X)))
    bound = b.noisy_training(
        adjacency, n_features=F, sigma=sigma, radius=R, lam=4.0, order=6, train=np.isin(np.arange(n), train)
    )
    assert bound == pytest.approx(2 * np.sqrt(2) * R * sigma * np.sqrt(F * (A_S[train] ** 2).sum() / train.size))
    assert 1e-4 < np.mean(excess) <= bound
    assert min(excess) > -1e-8
    assert 0.01 * bound < np.mean(furthest) <= bound / 2


def test_noisy_training_counts_the_training_nodes_alone() -> None:
    star = Adjacency(sp.csr_array(np.array([[0.0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])))
    options = {"n_features": 1, "sigma": 1.0, "radius": 1.0, "lam": 4.0, "order": 8}
    hub, leaf = (b.noisy_training(star, train=np.arange(4) == node, **options) for node in (0, 1))
    assert hub != pytest.approx(leaf)
    with pytest.raises(InputError, match="train"):
        b.noisy_training(star, train=[True, False], **options)
