"""The dense peers against one joint Gaussian of all readings."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import _peers
from nareg._core.neighbors import great_circle_km


def joint(A, Q, start, T):
    """Covariance of (x_0, ..., x_{T-1}), (T, T) blocks of size N."""
    n = len(A)
    C = np.zeros((T, n, T, n))
    variance = start
    for t in range(T):
        if t:
            variance = A @ variance @ A.T + Q
        block = variance
        for later in range(t, T):
            if later > t:
                block = A @ block
            C[later, :, t], C[t, :, later] = block, block.T
    return C


def test_smoother_is_the_conditional_of_the_joint_gaussian(rng):
    n, T, noise = 3, 6, 0.7
    A = 0.5 * rng.standard_normal((n, n))
    root, other = rng.standard_normal((2, n, n))
    Q, start = root @ root.T + 0.1 * np.eye(n), other @ other.T + np.eye(n)
    Y = rng.standard_normal((n, T))
    C = joint(A, Q, start, T)
    flat = C.reshape(T * n, T * n)
    gain = np.linalg.solve(flat + noise * np.eye(T * n), flat).T
    rest = (flat - gain @ flat).reshape(T, n, T, n)
    m, P, lagged = _peers.smoothed(Y, A, Q, noise, start)
    np.testing.assert_allclose(m.T.ravel(), gain @ Y.T.ravel(), atol=1e-9)
    for t in range(T):
        np.testing.assert_allclose(P[t], rest[t, :, t], atol=1e-9)
    for t in range(T - 1):
        np.testing.assert_allclose(lagged[t], rest[t + 1, :, t], atol=1e-9)


def test_no_round_of_em_lowers_the_likelihood(rng):
    n, T = 3, 12
    Y = np.cumsum(rng.standard_normal((n, T)), axis=1) + rng.standard_normal((n, T))
    start = 2.0 * np.eye(n)
    parameters = np.eye(n), 0.5 * np.eye(n), 0.5
    likelihoods = []
    for _ in range(15):
        A, Q, noise = parameters
        total = joint(A, Q, start, T).reshape(T * n, T * n) + noise * np.eye(T * n)
        flat = Y.T.ravel()
        likelihoods.append(-0.5 * (np.linalg.slogdet(total)[1] + flat @ np.linalg.solve(total, flat)))
        parameters = _peers.em_round(Y, *parameters, start)
    assert (np.diff(likelihoods) > -1e-9).all()
    assert likelihoods[-1] > likelihoods[0] + 1


def test_separable_process_is_dense_kriging_with_its_parameters(rng, monkeypatch):
    coordinates = rng.uniform(0, 5, (5, 2))
    y = np.cumsum(rng.standard_normal((5, 7)), axis=1)
    theta = np.log([2.0, 200.0, 4.0, 0.5])
    monkeypatch.setattr(_peers, "minimize", lambda *_, **__: type("Found", (), {"x": theta}))
    variance, length, duration, noise = np.exp(theta)
    space = np.exp(-great_circle_km(*coordinates.T) / length)
    time = np.exp(-np.abs(np.subtract.outer(np.arange(7), np.arange(7))) / duration)
    K = variance * np.kron(space, time)
    level = y.mean(axis=1, keepdims=True)
    expected = level + (K @ np.linalg.solve(K + noise * np.eye(35), (y - level).ravel())).reshape(5, 7)
    np.testing.assert_allclose(_peers.separable_gp(coordinates, y).x, expected, atol=1e-9)


def test_separable_process_finds_its_noise(rng):
    coordinates = rng.uniform(0, 5, (12, 2))
    space = np.exp(-great_circle_km(*coordinates.T) / 300)
    time = np.exp(-np.abs(np.subtract.outer(np.arange(150), np.arange(150))) / 6)
    field = np.linalg.cholesky(space + 1e-9 * np.eye(12)) @ rng.standard_normal((12, 150)) @ np.linalg.cholesky(time).T
    found = _peers.separable_gp(coordinates, field + 0.5 * rng.standard_normal(field.shape))
    assert found.noise == pytest.approx(0.25, rel=0.1)
