"""Problems with signals that are known, and with them the risk and its gradient.

Notation: ``K = C + S``, ``H = K^-1 C``, signal second moment ``R``, noise covariance ``Sigma``.

    bias      tr((H - I) R (H - I)^T)          (12)
    variance  tr(H Sigma H^T)                  (13)
    MSE       bias + variance                  (11)

``H`` is not symmetric unless ``C`` is a multiple of the identity, so the paper's squared forms are not used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from nareg._core import checks
from nareg._solvers.system import penalty
from nareg.design._risk.checked import CheckedProblem, checked_data_weight, positive_data_weight
from nareg.design._risk.descent import feasible, minimize_scale, minimize_widely
from nareg.errors import InputError, SingularSystemError


@dataclass(frozen=True)
class SignalProblem(CheckedProblem, ABC):
    """A problem with signals that are known, as matrices or as columns."""

    @property
    @abstractmethod
    def white(self) -> tuple[sp.csr_array, np.ndarray]:
        """Operator, and columns of the second moment in the coordinates ``C^1/2 x``, where weights are ``w / sqrt(c)``."""

    @property
    @abstractmethod
    def white_power(self) -> float:
        """Power of the signals in the coordinates ``C^1/2 x``."""

    @property
    @abstractmethod
    def published_strength(self) -> float:
        """The rule used as the paper's benchmark: ``sqrt(theta / (lambda_2 lambda_N))``, ``theta = SNR^-1/2``.

        In the coordinates ``C^1/2 x`` where the data term is the identity: SNR and eigenvalues of
        ``C^-1/2 L C^-1/2``, so that the filter does not depend on the unit of c.
        """

    @abstractmethod
    def mse_along(self, direction: np.ndarray) -> Callable[[float], float]:
        """The MSE of the weights ``s * direction`` as a function of s."""

    @abstractmethod
    def best_factor(self, direction: np.ndarray, least: float, largest: float) -> float:
        """The factor in ``[least, largest]`` of the smallest MSE."""

    @abstractmethod
    def best_scalar(self, low: np.ndarray, high: np.ndarray, largest: float = np.inf) -> np.ndarray:
        """The single weight up to ``largest`` with the smallest risk, moved into the bounds node by node."""

    def refuse_extreme(self, needs: str, *, largest: float = np.inf) -> None:
        """Refuse signals that are zero, or have more power in the coordinates ``C^1/2 x`` than the design can square."""
        power = self.white_power
        if power <= 0:
            raise InputError("signals (or second_moment) are zero everywhere: there is no signal to design for.")
        if power > largest:
            raise InputError(
                f"signals (or second_moment) have a power of {power:g}, whose square overflows in the {needs} design: "
                "divide signals by a constant, and noise by its square."
            )

    def published_bounds(self, lower: Any, upper: Any) -> tuple[np.ndarray, np.ndarray]:
        """:meth:`squared_bounds` with the paper's w0* below, where the noise is known and there is any."""
        known = self.Sigma is not None and self.noise_power > 0
        return self.squared_bounds(lower, upper, default_lower=self.published_strength if known else None)


@dataclass(frozen=True)
class DesignProblem(SignalProblem):
    """A design problem on at most :data:`nareg._core.checks.DENSE_LIMIT` nodes."""

    R: np.ndarray

    @cached_property
    def L(self) -> np.ndarray:
        return self.base.L.toarray()

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors of L."""
        return eigh(self.L)

    @cached_property
    def white(self) -> tuple[sp.csr_array, np.ndarray]:
        return self.base.L, root(self.whitened().R).T

    @property
    def white_power(self) -> float:
        return float(self.c @ np.diagonal(self.R))

    @property
    def largest_frequency(self) -> float:
        return float(self.spectrum[0][-1])

    @cached_property
    def Sigma_matrix(self) -> np.ndarray:
        assert self.Sigma is not None
        return checks.covariance(self.Sigma)

    @property
    def snr(self) -> float:
        """``E ||x||^2 / E ||n||^2``; infinite without noise."""
        power = float(np.trace(self.R))
        if power <= 0:
            raise InputError("signals (or second_moment) are zero everywhere: there is no signal to design for.")
        return power / self.noise_power if self.noise_power > 0 else np.inf

    def filter_matrix(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``K^-1`` and ``H = K^-1 C`` for node weights w."""
        K = (w[:, None] * self.L) * w
        K[np.diag_indices_from(K)] += self.c
        try:
            inverse = np.linalg.inv(K)
        except np.linalg.LinAlgError:
            raise SingularSystemError(
                "weights reached during the design make C + S singular in float64: pass a smaller upper bound, "
                "or a data term (data_weight) at more nodes."
            ) from None
        return inverse, inverse * self.c

    def risk_parts(self, w: np.ndarray) -> tuple[float, float]:
        """Bias and variance (sums over nodes) of the filter with node weights w."""
        return risk_parts(self.filter_matrix(w)[1], self.R, self.Sigma)

    def variance(self, H: np.ndarray) -> float:
        """``tr(H Sigma H^T)``, (13), of a filter matrix."""
        assert self.Sigma is not None
        return _variance(H, self.Sigma)

    def covariance_with_filtered(self, H: np.ndarray) -> float:
        """``2 tr(H Sigma)``, which Stein's estimate adds to the distance between readings and filtered readings."""
        assert self.Sigma is not None
        return 2.0 * float(np.diagonal(H) @ self.Sigma if self.Sigma.ndim == 1 else np.sum(H * self.Sigma))

    def mse(self, w: np.ndarray) -> float:
        """Mean squared error summed over nodes, (11)."""
        return sum(self.risk_parts(w))

    def mse_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """(11) and its gradient in w.

        ``dMSE/dS = -sym(K^-1 2((H - I) R + H Sigma) H^T)``, then ``dMSE/dw = 2 (dMSE/dS o L) w``.
        """
        assert self.Sigma is not None
        inverse, H = self.filter_matrix(w)
        error = H.copy()
        error[np.diag_indices_from(error)] -= 1.0
        error_R = error @ self.R
        H_Sigma = H * self.Sigma if self.Sigma.ndim == 1 else H @ self.Sigma
        value = float(np.sum(error_R * error) + np.sum(H_Sigma * H))
        slope = -2.0 * inverse @ (error_R + H_Sigma) @ H.T
        return value, ((slope + slope.T) * self.L) @ w

    @cached_property
    def published_strength(self) -> float:
        return float(np.sqrt(np.sqrt(1.0 / self.whitened().snr) / np.prod(extreme_frequencies(self.white_frequencies))))

    @cached_property
    def white_frequencies(self) -> np.ndarray:
        """Eigenvalues of ``C^-1/2 L C^-1/2``."""
        half = np.sqrt(self.c)
        return self.spectrum[0] if self.whitened() is self else np.linalg.eigvalsh(self.L / half[:, None] / half)

    def mse_along(self, direction: np.ndarray) -> Callable[[float], float]:
        """The MSE of the weights ``s * direction`` as a function of s, by one eigendecomposition.

        With ``C^-1/2 S C^-1/2 = Q diag(lam) Q^T`` the filter is ``C^-1/2 Q diag(g) Q^T C^1/2``, ``g = 1 / (1 + s^2 lam)``.
        """
        if (self.c <= 0).any():
            return lambda s: self.mse(s * direction)
        half = np.sqrt(self.c)
        scaled = direction / half
        lam, Q = eigh((scaled[:, None] * self.L) * scaled)
        lam = np.maximum(lam, 0.0)
        metric = Q.T @ (Q / self.c[:, None])
        moment_ = metric * (Q.T @ (half[:, None] * self.R * half) @ Q)
        covariance = metric * (Q.T @ (half[:, None] * self.Sigma_matrix * half) @ Q)

        def value(s: float) -> float:
            g = 1.0 / (1.0 + s * s * lam)
            return float((1 - g) @ moment_ @ (1 - g) + g @ covariance @ g)

        return value

    def best_factor(self, direction: np.ndarray, least: float, largest: float) -> float:
        return minimize_scale(self.mse_along(direction), least, largest)[0]

    def best_scalar(self, low: np.ndarray, high: np.ndarray, largest: float = np.inf) -> np.ndarray:
        first, last = extreme_frequencies(self.spectrum[0])
        typical = float(np.mean(self.c))
        span = np.sqrt(1e-4 * typical / last), np.sqrt(1e4 * typical / first)
        # where a node has no data term K tends to a singular matrix with the weight
        search = minimize_widely if (self.c > 0).all() else minimize_scale
        along = self.mse_along(np.ones(self.n_nodes))
        w = search(along, *span)[0]
        if w > largest:
            w = minimize_scale(along, 1e-3 * largest, largest)[0]
        return feasible(np.full(self.n_nodes, w), low, high)

    def inverse_signal(self, high: np.ndarray) -> np.ndarray:
        """``w = s / u`` with u the principal direction of R: makes ``S u = 0``, the best scale s by the risk.

        For a single known signal on a connected graph this is a global minimizer of Prony's criterion.
        """
        u = np.linalg.eigh(self.R)[1][:, -1]
        size = np.maximum(np.abs(u), 1e-6 * np.abs(u).max())  # no division by zero
        direction = np.where(u < 0, -1.0, 1.0) * size.max() / size
        largest = float(np.sqrt(np.min(high / direction**2)))
        if largest == 0:
            return np.zeros_like(u)
        return self.best_factor(direction, largest * 1e-6, largest) * direction

    def whitened(self) -> DesignProblem:
        """The same problem in the coordinates ``C^1/2 x``, where the data term is the identity.

        ``(C + W L W)^-1 C`` becomes ``(I + W' L W')^-1`` with ``w' = w / sqrt(c)``. With ``c = 1 / variance``
        the noise is white there, which is what Prony's criterion and the relaxation want.
        """
        if np.array_equal(self.c, np.ones_like(self.c)):
            return self
        half = np.sqrt(positive_data_weight(self.c))
        Sigma = self.Sigma
        if Sigma is not None:
            Sigma = Sigma * self.c if Sigma.ndim == 1 else half[:, None] * Sigma * half
        return replace(self, R=half[:, None] * self.R * half, Sigma=Sigma, c=np.ones_like(self.c), data_weight=None)


def risk_parts(H: np.ndarray, R: np.ndarray, Sigma: np.ndarray | None) -> tuple[float, float]:
    """Bias ``tr((H - I) R (H - I)^T)`` and variance ``tr(H Sigma H^T)`` of a linear filter H."""
    error = H - np.eye(len(H))
    return float(np.sum((error @ R) * error)), 0.0 if Sigma is None else _variance(H, Sigma)


def _variance(H: np.ndarray, Sigma: np.ndarray) -> float:
    return float(np.sum((H * Sigma if Sigma.ndim == 1 else H @ Sigma) * H))


def half(P: np.ndarray) -> np.ndarray:
    """F with ``F F^T = P`` for PSD P; one column of zeros where P is zero."""
    F = root(P).T
    return F if F.shape[1] else np.zeros((len(P), 1))


def root(G: np.ndarray) -> np.ndarray:
    """F with ``F^T F = G`` for PSD G, without its null directions."""
    values, vectors = np.linalg.eigh(G)
    positive = values > 1e-14 * max(values[-1], 1e-300)
    return np.sqrt(values[positive])[:, None] * vectors[:, positive].T


def problem(
    graph: Any,
    *,
    signals: Any = None,
    second_moment: Any = None,
    noise: Any = None,
    data_weight: Any = None,
    needs: str,
    noise_required: bool = False,
    alternative: str = "design on a part of the network (graph.subgraph) or use one weight for all nodes",
) -> DesignProblem:
    """Check a design's arguments. ``needs`` names the design in messages, ``alternative`` what fits large networks."""
    base = penalty(graph)
    if noise_required and noise is None:
        raise InputError(f"noise is None: {needs} needs the noise variance; estimate it with nareg.design.estimate_noise.")
    n = base.n_nodes
    checks.dense_size(
        f"the {needs} design",
        n,
        copies=6,
        alternative=alternative,
    )
    R = moment(signals, second_moment, n, needs=needs)
    Sigma = None if noise is None else checks.noise("noise", noise, n)
    c = checked_data_weight(base, data_weight, Sigma)
    return DesignProblem(base=base, R=R, Sigma=Sigma, c=c, data_weight=None if data_weight is None else c)


def moment(signals: Any, second_moment: Any, n: int, *, needs: str) -> np.ndarray:
    """``R``: given, or ``X X^T / T`` from training signals; exactly one of the two."""
    if (signals is None) == (second_moment is None):
        raise InputError(
            f"{needs} needs exactly one of signals (clean training signals, ({n},) or ({n}, T)) and second_moment (({n}, {n}))."
        )
    if second_moment is not None:
        return checks.psd_matrix("second_moment", second_moment, n)
    X = checks.signals("signals", signals, n).astype(np.float64).reshape(n, -1)
    checks.squares_survive("signals", X)
    return X @ X.T / X.shape[1]


def extreme_frequencies(values: np.ndarray) -> tuple[float, float]:
    """Smallest non-zero and largest eigenvalue of a Laplacian."""
    non_zero = values[values > 1e-9 * max(values[-1], 1e-300)]
    if non_zero.size == 0:
        raise InputError("graph has no edges: there is nothing to smooth over; connect it first.")
    return float(non_zero[0]), float(non_zero[-1])
