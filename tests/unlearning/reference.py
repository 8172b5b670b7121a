"""Embeddings, gradients and optima of what remains, dense, by the definitions. Imports nothing of what it checks."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit


def embedding(A, X, weights):
    """``sum_l w_l (D^-1/2 (A + I) D^-1/2)^l X``."""
    loops = np.asarray(A, dtype=float) + np.eye(len(X))
    d = loops.sum(axis=1)
    P = loops / np.sqrt(np.outer(d, d))
    return sum(w * np.linalg.matrix_power(P, power) @ X for power, w in enumerate(weights))


def signs(labels, classes):
    """One column a class against the rest; one for two classes."""
    columns = classes[1:] if len(classes) == 2 else classes
    return np.where(np.asarray(labels)[:, None] == np.asarray(columns), 1.0, -1.0)


def value(Z, Y, W, B, lam, loss="logistic"):
    """``sum l(z w, y) + lam n / 2 ||W||^2 + <B, W>``."""
    T = Z @ W
    losses = np.logaddexp(0, -Y * T) if loss == "logistic" else (T - Y) ** 2 / 2
    return losses.sum() + lam * len(Z) / 2 * (W**2).sum() + (B * W).sum()


def gradient(Z, Y, W, B, lam, loss="logistic"):
    """Of the value."""
    T = Z @ W
    slope = -Y * expit(-Y * T) if loss == "logistic" else T - Y
    return Z.T @ slope + lam * len(Z) * W + B


def optimum(Z, Y, B, lam):
    """Of the logistic problem, by a general minimizer."""
    shape = B.shape

    def both(w):
        W = w.reshape(shape)
        return value(Z, Y, W, B, lam), gradient(Z, Y, W, B, lam).ravel()

    return minimize(both, np.zeros(B.size), jac=True, method="BFGS", options={"gtol": 1e-9}).x.reshape(shape)
