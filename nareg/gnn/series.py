"""Coefficients of the filters, and the number of them that an accuracy needs."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import gammaln

from nareg._core import checks
from nareg.errors import InputError
from nareg.typing import ArrayLike


def neumann_weights(lam: float, order: int) -> np.ndarray:
    """Weights of ``A~^s`` in the truncated Neumann series: ``c^s / (lam+1)``, ``c = lam / (lam+1)``.

    Examples
    --------
    >>> from nareg.gnn import series
    >>> series.neumann_weights(1.0, 2)
    array([0.5  , 0.25 , 0.125])
    """
    lam = checks.number("lam", lam, low=0)
    order = checks.integer("order", order, low=0)
    return (lam / (lam + 1)) ** np.arange(order + 1) / (lam + 1)


def pagerank_weights(alpha: float, order: int) -> np.ndarray:
    """Personalized PageRank truncated: ``alpha (1-alpha)^s``, the last one ``(1-alpha)^order`` (APPNP)."""
    alpha = checks.number("alpha", alpha, low=0, high=1)
    order = checks.integer("order", order, low=0)
    weights: np.ndarray = alpha * (1 - alpha) ** np.arange(order + 1)
    weights[-1] = (1 - alpha) ** order
    return weights


def heat_weights(time: float, order: int) -> np.ndarray:
    """Heat kernel truncated: ``e^-t t^s / s!``."""
    time = checks.number("time", time, low=0)
    steps = np.arange(checks.integer("order", order, low=0) + 1)
    if time == 0:
        return (steps == 0).astype(float)
    return np.exp(steps * np.log(time) - time - gammaln(steps + 1))


def chebyshev_coefficients(lam: float, tol: float) -> np.ndarray:
    """Chebyshev coefficients in A~ of ``(I + lam (I - A~))^-1``, as many as the accuracy takes.

    With ``a = (lam+1)/lam`` and ``r = a - sqrt(a^2 - 1)``,

        1 / (lam (a - x)) = (1 + 2 sum_k r^k T_k(x)) / (lam sqrt(a^2 - 1)),

    and what is left out is at most ``2 r^(K+1) / ((1-r) lam sqrt(a^2 - 1))`` on [-1, 1], where the filter itself is at
    most 1: the error is at most ``tol ||X||_F`` (in the spectral sense, for every column).

    Examples
    --------
    >>> from nareg.gnn import series
    >>> series.chebyshev_coefficients(32.0, 1e-3).size - 1  # products
    28
    """
    lam = checks.number("lam", lam, low=0)
    tol = checks.number("tol", tol, low=0, high=1, strict=True)
    if lam < np.finfo(np.float64).eps / 2:  # the filter is the identity to within rounding
        return np.ones(1)
    root = np.sqrt(2 * lam + 1) / lam  # sqrt(a^2 - 1), without cancellation
    rate = 1 / ((lam + 1) / lam + root)
    scale = 1 / (lam * root)
    order = max(int(np.ceil(np.log(tol * (1 - rate) / (2 * scale)) / np.log(rate))) - 1, 0)
    coefficients = 2 * scale * rate ** np.arange(order + 1)
    coefficients[0] /= 2
    return coefficients


def products_needed(lam: float, tol: float, solver: Literal["chebyshev", "neumann"] = "chebyshev") -> int:
    """Products with A~ after which the filter is within ``tol`` of the exact one on every graph.

    Parameters
    ----------
    lam, tol : float
    solver : {"chebyshev", "neumann"}

    Examples
    --------
    >>> import nareg
    >>> [nareg.gnn.series.products_needed(32.0, tol, "neumann") for tol in (1e-2, 1e-3)]
    [149, 224]
    """
    if checks.choice("solver", solver, ("chebyshev", "neumann")) == "chebyshev":
        return chebyshev_coefficients(lam, tol).size - 1
    lam = checks.number("lam", lam, low=0)
    tol = checks.number("tol", tol, low=0, high=1, strict=True)
    if lam == 0:
        return 0
    # what is left out at the eigenvalue 1 is c^(S+1)
    return max(int(np.ceil(np.log(tol) / np.log(lam / (lam + 1)) - 1e-9)) - 1, 0)


def checked_weights(weights: ArrayLike) -> np.ndarray:
    """Polynomial weights: (order + 1,) finite numbers, at least one."""
    array = checks.floats("weights", weights, ndim=(1,)).astype(np.float64)
    if array.size == 0:
        raise InputError("weights is empty: give one weight per power of A~, from the zeroth.")
    return array
