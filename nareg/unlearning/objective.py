"""The training problem of the linear head, perturbed: convex losses, gradient, Newton's method by conjugate gradients.

    L_b(W) = sum_i sum_c l(z_i w_c, y_ic) + lam n_t / 2 ||W||^2 + <B, W>,     z_i the embedding of training node i

One column of W per class, one against the rest; a single column for two classes. B is the noise term of a certificate.

The NumPy functions used here have the same names in torch, so that arrays and tensors share the code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from nareg._core.arrays import namespace, ratio
from nareg._solvers.tall_products import times, transposed_times
from nareg.errors import SolverError

#: Newton steps, and conjugate gradients in each.
STEPS, INNER = 400, 500
#: Smallest step that is halved.
SHORTEST = 1e-8
#: Residual of the conjugate gradients in a Newton step, as a share of the gradient: a removal is then one step.
FORCING = 0.01
#: Squarings of the Gram matrix behind the bound of a spectral norm.
SQUARINGS = 4


@dataclass(frozen=True)
class ClassifierLoss:
    """A convex loss ``l(t, y)``, its derivatives in t, and their bounds.

    Attributes
    ----------
    name : str
    derivatives : callable of (t, y)
        ``l'`` and ``l''``.
    c1, gamma1, gamma2 : float
        ``|l'| <= c1``, ``|l''| <= gamma1``, ``|l'''| <= gamma2``.
    """

    name: str
    derivatives: Callable[[Any, Any], tuple[Any, Any]]
    c1: float
    gamma1: float
    gamma2: float


def _logistic(t: Any, y: Any) -> tuple[Any, Any]:
    """Derivatives of ``log(1 + exp(-y t))``."""
    margin = -y * t
    chance = expit(margin) if isinstance(t, np.ndarray) else margin.sigmoid()
    return -y * chance, chance * (1 - chance)


def _squared(t: Any, y: Any) -> tuple[Any, Any]:
    """Derivatives of ``(t - y)^2 / 2``."""
    return t - y, namespace(t).ones_like(t)


#: By name; the targets are -1 and 1. The third derivative of the logistic loss is at most 1 / (6 sqrt 3), not 1/4.
LOSSES = {
    "logistic": ClassifierLoss("logistic", _logistic, 1.0, 0.25, 1 / (6 * np.sqrt(3))),
    "squared": ClassifierLoss("squared", _squared, np.inf, 1.0, 0.0),
}


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The objective's derivatives at a W: arrays, or tensors of the embedding's device.

    Attributes
    ----------
    W, gradient : (F, C) arrays
    residual : float
        Frobenius norm of the gradient.
    slope : float
        ``||l'(Z W)||_F``.
    curvature : (n_t, C) array
        ``l''(Z W)``.
    """

    W: Any
    gradient: Any
    residual: float
    slope: float
    curvature: Any


@dataclass(frozen=True, eq=False)
class ClassifierObjective:
    """The perturbed training problem.

    Attributes
    ----------
    S : (n_t, F) array
    s : (n_t,) array
        Z is ``diag(s) S``: no copy is made of it.
    Y : (n_t, C) array of -1 and 1
    loss : ClassifierLoss
    lam : float
        The ridge is ``lam n_t``.
    B : (F, C) array
    """

    S: Any
    s: Any
    Y: Any
    loss: ClassifierLoss
    lam: float
    B: Any

    @property
    def ridge(self) -> float:
        """``lam n_t``."""
        return self.lam * len(self.S)

    @property
    def size(self) -> float:
        """``||Z||_F``."""
        return float((namespace(self.S).einsum("ij,ij->i", self.S, self.S) @ self.s**2) ** 0.5)

    @property
    def term(self) -> float:
        """``||B||_F``."""
        return _norm(self.B)

    def evaluate(self, W: Any) -> Evaluated:
        """Derivatives at W, which is in memory or on the embedding's device."""
        W, s = self._here(W), self.s[:, None]
        slope, curvature = self.loss.derivatives(s * times(self.S, W), self.Y)
        gradient = transposed_times(self.S, s * slope) + self.ridge * W + self.B
        return Evaluated(W, gradient, _norm(gradient), _norm(slope), curvature)

    def minimize(self, W: np.ndarray, target: float) -> Evaluated:
        """Newton's method from W until the gradient's Frobenius norm is at most ``target``; returns W in memory.

        A step is halved until it reduces the gradient (Eisenstat and Walker 1994). With a ridge the gradient is zero only at
        the optimum, and certificates are charged with it.

        Raises
        ------
        SolverError
            If rounding stops the progress above ``target``.
        """
        at = self.evaluate(W)
        for _ in range(STEPS):
            if at.residual <= target:
                break
            direction = self.solve(at.curvature, at.gradient, max(0.3 * target, FORCING * at.residual))
            t = 1.0
            trial = self.evaluate(at.W - direction)
            while not trial.residual <= (1 - 1e-4 * t) * at.residual and t > SHORTEST:
                t /= 2
                trial = self.evaluate(at.W - t * direction)
            if not trial.residual < at.residual:
                break
            at = trial
        if at.residual <= target:
            return replace(at, W=_back(at.W))
        raise SolverError(
            f"Newton's method stopped at a gradient of {at.residual:.3g}, above the required {target:.3g}: pass a larger lam, "
            "or a larger budget (alpha, eps, delta)."
        )

    def solve(self, curvature: Any, gradient: Any, tol: float) -> Any:
        """``H^-1 gradient`` by conjugate gradients, all classes at once; residuals together at most ``tol``."""
        weight = curvature * self.s[:, None] ** 2
        X, R, D = namespace(gradient).zeros_like(gradient), 1 * gradient, gradient
        rr = (R * R).sum(0)
        for _ in range(INNER):
            if float(rr.sum()) <= tol * tol:
                break
            HD = transposed_times(self.S, weight * times(self.S, D)) + self.ridge * D
            alpha = ratio(rr, (D * HD).sum(0))
            X += alpha * D
            R -= alpha * HD
            new = (R * R).sum(0)
            D = R + ratio(new, rr) * D
            rr = new
        return X

    def _here(self, W: Any) -> Any:
        """W on the device of the embedding."""
        return W if isinstance(self.S, np.ndarray) else namespace(self.S).as_tensor(W, device=self.S.device)


def _norm(array: Any) -> float:
    return float(namespace(array).linalg.norm(array))


def _back(W: Any) -> np.ndarray:
    """W as a NumPy array."""
    return W if isinstance(W, np.ndarray) else W.cpu().numpy()


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
