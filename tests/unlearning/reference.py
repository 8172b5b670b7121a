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


def gradient(Z, Y, W, B, lam, loss="logistic"):
    """Of ``sum l(z w, y) + lam n / 2 ||W||^2 + <B, W>``."""
    T = Z @ W
    slope = -Y * expit(-Y * T) if loss == "logistic" else T - Y
    return Z.T @ slope + lam * len(Z) * W + B


def optimum(Z, Y, B, lam):
    """Of the logistic problem, by a general minimiser."""
    shape = B.shape

    def value(w):
        W = w.reshape(shape)
        total = np.logaddexp(0, -Y * (Z @ W)).sum() + lam * len(Z) / 2 * (W**2).sum() + (B * W).sum()
        return total, gradient(Z, Y, W, B, lam).ravel()

    return minimize(value, np.zeros(B.size), jac=True, method="BFGS", options={"gtol": 1e-9}).x.reshape(shape)
