"""Dense peers in space and time, for complete readings of some hundred stations: a Kalman smoother with EM, a Gaussian process.

Both answer the question that ``nareg.spacetime`` answers, with what is at hand elsewhere: pykalman's model, in which no
parameter is shrunk, and a covariance that is a product of one in space and one in time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from nareg._core.neighbors import great_circle_km


@dataclass(frozen=True)
class Dense:
    """An estimate (N, T) and the noise variance that was estimated with it."""

    x: np.ndarray
    noise: float


def kalman_em(y: np.ndarray, *, iterations: int = 10) -> Dense:
    """Full A and Q and one noise variance by expectation maximization, ten rounds as in pykalman; smoothed states.

    ``x_t = A x_{t-1} + e_t``, ``y_t = x_t + v_t``. Station means are removed and put back.
    """
    level = y.mean(axis=1, keepdims=True)
    Y = y - level
    power = float(np.mean(Y**2))
    identity = np.eye(len(Y))
    parameters = identity, 0.5 * power * identity, 0.5 * power
    for _ in range(iterations):
        parameters = em_round(Y, *parameters, power * identity)
    return Dense(level + smoothed(Y, *parameters, power * identity)[0], parameters[2])


def em_round(
    Y: np.ndarray, A: np.ndarray, Q: np.ndarray, noise: float, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """A, Q and noise variance that maximize the expected likelihood of states and readings under those given."""
    m, P, lagged = smoothed(Y, A, Q, noise, start)
    S00 = m[:, :-1] @ m[:, :-1].T + P[:-1].sum(axis=0)
    S11 = m[:, 1:] @ m[:, 1:].T + P[1:].sum(axis=0)
    S10 = m[:, 1:] @ m[:, :-1].T + lagged.sum(axis=0)
    A = np.linalg.solve(S00, S10.T).T
    Q = (S11 - A @ S10.T) / (Y.shape[1] - 1)
    noise = float(np.mean((Y - m) ** 2) + np.trace(P.mean(axis=0)) / len(Y))
    return A, 0.5 * (Q + Q.T), noise


def smoothed(
    Y: np.ndarray, A: np.ndarray, Q: np.ndarray, noise: float, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means (N, T), covariances (T, N, N) and ``cov(x_t, x_{t-1})`` (T - 1, N, N) given all readings; ``x_0 ~ N(0, start)``."""
    n, T = Y.shape
    identity = np.eye(n)
    means, covariances = np.empty((n, T)), np.empty((T, n, n))
    forward: list[tuple[np.ndarray, np.ndarray]] = []
    m, P = np.zeros(n), start
    for t in range(T):
        if t:
            m, P = A @ m, A @ P @ A.T + Q
            forward.append((m, P))
        gain = cho_solve(cho_factor(P + noise * identity), P).T
        m = m + gain @ (Y[:, t] - m)
        rest = identity - gain
        P = rest @ P @ rest.T + noise * gain @ gain.T
        means[:, t], covariances[t] = m, P
    lagged = np.empty((T - 1, n, n))
    for t in reversed(range(T - 1)):
        predicted, spread = forward[t]
        J = cho_solve(cho_factor(spread + 1e-12 * np.trace(spread) / n * identity), A @ covariances[t]).T
        lagged[t] = covariances[t + 1] @ J.T
        means[:, t] += J @ (means[:, t + 1] - predicted)
        covariances[t] += J @ (covariances[t + 1] - spread) @ J.T
    return means, covariances, lagged


def separable_gp(coordinates: np.ndarray, y: np.ndarray) -> Dense:
    """A Gaussian process with covariance ``v exp(-arc / length) exp(-|t - t'| / duration)`` and white noise.

    The four parameters maximize the likelihood, exactly, by the eigenvectors of both factors. Station means are removed and
    put back.
    """
    level = y.mean(axis=1, keepdims=True)
    Y = y - level
    arc = great_circle_km(*coordinates.T)
    lag = np.abs(np.subtract.outer(np.arange(Y.shape[1]), np.arange(Y.shape[1]))).astype(float)

    def parts(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        space, U = np.linalg.eigh(np.exp(-arc / np.exp(theta[1])))
        time, V = np.linalg.eigh(np.exp(-lag / np.exp(theta[2])))
        return np.exp(theta[0]) * np.outer(np.maximum(space, 0), np.maximum(time, 0)), U, V, U.T @ Y @ V

    def negative_log_likelihood(theta: np.ndarray) -> float:
        signal, _, _, Z = parts(theta)
        total = signal + np.exp(theta[3])
        return 0.5 * float(np.sum(np.log(total) + Z**2 / total)) / Y.size

    power = float(np.mean(Y**2))
    start = np.log([0.5 * power, np.median(arc[arc > 0]), 3.0, 0.5 * power])
    best = minimize(negative_log_likelihood, start, method="L-BFGS-B", bounds=[(a - 9, a + 9) for a in start])
    signal, U, V, Z = parts(best.x)
    noise = float(np.exp(best.x[3]))
    return Dense(level + U @ (signal / (signal + noise) * Z) @ V.T, noise)
