"""The training problem of the linear head, perturbed: convex losses, gradient, Newton's method by conjugate gradients.

    L_b(W) = sum_i sum_c l(z_i w_c, y_ic) + lam n_t / 2 ||W||^2 + <B, W>,     z_i the embedding of training node i

One column of W a class, one against the rest; a single one for two classes. B is the random perturbation of a certificate.

What is used of NumPy here has the same names in torch: arrays and tensors of a device go through the same lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from nareg.errors import SolverError

#: Newton steps, and conjugate gradients in each.
STEPS, INNER = 50, 500
#: Accuracy of the conjugate gradients in a Newton step, of the gradient: a removal is then one step.
FORCING = 0.01
#: Squarings of the Gram matrix behind the bound of a spectral norm.
SQUARINGS = 4


@dataclass(frozen=True)
class Loss:
    """A convex loss ``l(t, y)``, its derivatives in t, and what bounds them.

    Attributes
    ----------
    name : str
    value, slope, curvature : callables of (t, y)
    c1, gamma1, gamma2 : float
        ``|l'| <= c1``, ``|l''| <= gamma1``, ``|l'''| <= gamma2``.
    """

    name: str
    value: Callable[[Any, Any], Any]
    slope: Callable[[Any, Any], Any]
    curvature: Callable[[Any, Any], Any]
    c1: float
    gamma1: float
    gamma2: float


def _module(array: Any) -> Any:
    """NumPy, or torch."""
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


def _chance(t: Any) -> Any:
    return expit(t) if isinstance(t, np.ndarray) else t.sigmoid()


def _logistic(t: Any, y: Any) -> Any:
    xp = _module(t)
    return xp.logaddexp(xp.zeros_like(t), -y * t)


def _steepness(t: Any, y: Any) -> Any:
    chance = _chance(t)
    return chance * (1 - chance)


#: By name; the targets are -1 and 1. The third derivative of the logistic loss is at most 1 / (6 sqrt 3), not 1/4.
LOSSES = {
    "logistic": Loss(
        "logistic", _logistic, lambda t, y: -y * _chance(-y * t), _steepness, 1.0, 0.25, 1 / (6 * np.sqrt(3))
    ),
    "squared": Loss(
        "squared", lambda t, y: (t - y) ** 2 / 2, lambda t, y: t - y, lambda t, y: _module(t).ones_like(t), np.inf, 1.0, 0.0
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Objective:
    """The perturbed training problem.

    Attributes
    ----------
    S : (n_t, F) array
    s : (n_t,) array
        Z is ``diag(s) S``: no copy is made of it.
    Y : (n_t, C) array of -1 and 1
    loss : Loss
    lam : float
        The ridge is ``lam n_t``.
    B : (F, C) array
    """

    S: Any
    s: Any
    Y: Any
    loss: Loss
    lam: float
    B: Any

    @property
    def ridge(self) -> float:
        """``lam n_t``."""
        return self.lam * len(self.S)

    @property
    def size(self) -> float:
        """``||Z||_F``."""
        return float((_module(self.S).einsum("ij,ij->i", self.S, self.S) @ self.s**2) ** 0.5)

    @property
    def term(self) -> float:
        """``||B||_F``."""
        return _norm(self.B)

    def forward(self, W: Any) -> Any:
        """``Z W``."""
        return self.s[:, None] * (self.S @ W)

    def backward(self, R: Any) -> Any:
        """``Z^T R``."""
        return self.S.T @ (self.s[:, None] * R)

    def value(self, W: Any, T: Any) -> float:
        """``L_b(W)``; T is ``Z W``."""
        return float(self.loss.value(T, self.Y).sum() + 0.5 * self.ridge * (W * W).sum() + (self.B * W).sum())

    def gradient(self, W: Any, T: Any) -> Any:
        """(F, C), B included."""
        return self.backward(self.loss.slope(T, self.Y)) + self.ridge * W + self.B

    def residual(self, W: np.ndarray) -> float:
        """Frobenius norm of the gradient."""
        here = self._here(W)
        return _norm(self.gradient(here, self.forward(here)))

    def slopes(self, W: np.ndarray) -> float:
        """``||l'(Z W)||_F``."""
        return _norm(self.loss.slope(self.forward(self._here(W)), self.Y))

    def minimise(self, W: np.ndarray, target: float) -> tuple[np.ndarray, float]:
        """Newton's method until the gradient's Frobenius norm is at most ``target``; W and that norm.

        Raises
        ------
        SolverError
            If rounding does not let it get there.
        """
        W = self._here(W)
        T = self.forward(W)
        gradient, value = self.gradient(W, T), self.value(W, T)
        size = _norm(gradient)
        for _ in range(STEPS):
            if size <= target:
                # by steps T has gathered rounding: what is told is of W itself
                T = self.forward(W)
                gradient, value = self.gradient(W, T), self.value(W, T)
                size = _norm(gradient)
                if size <= target:
                    return _back(W), size
            curvature = self.loss.curvature(T, self.Y)
            direction = -self._solve(curvature, gradient, max(0.3 * target, FORCING * size))
            slope, rise = float((direction * gradient).sum()), self.forward(direction)
            t = 1.0
            while True:
                trial = self.value(W + t * direction, T + t * rise)
                if trial <= value + 1e-4 * t * slope or t < 1e-10:
                    break
                t /= 2
            W, T = W + t * direction, T + t * rise
            value, before = trial, size
            gradient = self.gradient(W, T)
            size = _norm(gradient)
            if t < 1e-10 or (size >= before and -slope <= 1e-15 * abs(value)):
                break
        T = self.forward(W)
        size = _norm(self.gradient(W, T))
        if size <= target:
            return _back(W), size
        raise SolverError(
            f"Newton's method stays at a gradient of {size:.3g} where {target:.3g} is needed: take a larger lam, or a larger "
            "budget (alpha, eps, delta)."
        )

    def _here(self, W: np.ndarray) -> Any:
        """Where the embedding is."""
        return W if isinstance(self.S, np.ndarray) else _module(self.S).as_tensor(W, device=self.S.device)

    def _solve(self, curvature: Any, gradient: Any, tol: float) -> Any:
        """``H^-1 gradient`` by conjugate gradients, all classes at once; residuals together at most ``tol``."""
        xp = _module(gradient)
        X, R, D = xp.zeros_like(gradient), 1 * gradient, gradient
        rr = (R * R).sum(0)
        for _ in range(INNER):
            if float(rr.sum()) <= tol * tol:
                break
            HD = self.backward(curvature * self.forward(D)) + self.ridge * D
            bend = (D * HD).sum(0)
            alpha = _ratio(rr, bend)
            X += alpha * D
            R -= alpha * HD
            new = (R * R).sum(0)
            D = R + _ratio(new, rr) * D
            rr = new
        return X


def _ratio(above: Any, below: Any) -> Any:
    """Zero where ``below`` is not above zero."""
    where = _module(below).where
    return where(below > 0, above / where(below > 0, below, 1.0), 0.0)


def _norm(array: Any) -> float:
    return float(_module(array).linalg.norm(array))


def _back(W: Any) -> np.ndarray:
    """From wherever it is."""
    found: np.ndarray = W if isinstance(W, np.ndarray) else W.cpu().numpy()
    return found


def spectral_norm_bound(Z: np.ndarray) -> float:
    """At least ``||Z||_2``, and at most ``min(Z.shape)^(1/64)`` times it: ``||G^16||_F^(1/32)`` for the Gram matrix G.

    A power iteration gives no upper bound.

    Examples
    --------
    >>> import numpy as np
    >>> 3.0 <= spectral_norm_bound(np.diag([3.0, 1.0])) < 3.01
    True
    """
    G = Z.T @ Z if Z.shape[0] >= Z.shape[1] else Z @ Z.T
    size, exponent = float(np.linalg.norm(G)), 1.0
    if size == 0:
        return 0.0
    logarithm, G = np.log(size), G / size
    for _ in range(SQUARINGS):
        G, exponent = G @ G, exponent / 2
        size = float(np.linalg.norm(G))
        G /= size
        logarithm += exponent * np.log(size)
    return float(np.exp(logarithm / 2)) * (1 + 1e-12)
