"""Statements of the HERTA paper about inexact inner solves (Lemma 5.1, Theorem B.1), as printed and as they hold.

With ``H = I + lam L``, the eigenvalues of L between 0 and 2, and the squared error of one column,
``l(w) = 1/2 ||H^-1 (X w) - y||^2`` with gradient ``X^T H^-1 (H^-1 X w - y)``. An inner solver S has an error rate of mu if
``||S(u) - H^-1 u||_H <= mu ||H^-1 u||_H`` for every u (Definition 5.2).
"""

from __future__ import annotations

import math

from nareg._core import checks
from nareg.herta._options import fraction


def inner_error_rate(epsilon: float, *, condition: float, lam: float) -> float:
    """Lemma 5.1's error rate of the inner solver, ``min(sqrt(epsilon) / (50 kappa(X) lam^2), 1)``, for a loss of (1 + epsilon).

    ``condition`` is kappa(X), the ratio of its singular values. The paper reads lam as ``max(lam, 1)``.

    Examples
    --------
    >>> inner_error_rate(0.01, condition=10.0, lam=2.0)
    5e-05
    """
    epsilon, condition, lam = _read(epsilon, condition, lam)
    return min(math.sqrt(epsilon) / (50 * condition * max(lam, 1.0) ** 2), 1.0)


def published_gradient_error(epsilon: float, *, condition: float, lam: float, mu: float) -> float:
    """What C.31 gives as a bound of the relative error of a gradient, ``25 kappa(X) mu lam^2 / sqrt(epsilon)``.

    It holds wherever the loss is above ``(1 + epsilon)`` times its minimum and ``lam >= 1``. See :func:`gradient_error`.

    Examples
    --------
    >>> published_gradient_error(0.01, condition=10.0, lam=2.0, mu=5e-5)
    0.5
    """
    epsilon, condition, lam = _read(epsilon, condition, lam)
    return 25 * condition * checks.number("mu", mu, low=0) * max(lam, 1.0) ** 2 / math.sqrt(epsilon)


def gradient_error(epsilon: float, *, condition: float, lam: float, mu: float) -> float:
    """The same, for every lam and with lam to the power 3/2 in the place of its square. The solver need not be linear.

    ``sqrt(2/epsilon) kappa(X) c mu (1 + (1 + mu) sqrt(c))`` with ``c = 1 + 2 lam``, a bound of the condition number of H. The
    printed proof splits ``S(a) - S(b)`` into ``S(a - b)``. That is not needed: ``S(a)`` is compared with ``H^-1 a``.

    Examples
    --------
    >>> round(gradient_error(0.01, condition=10.0, lam=2.0, mu=5e-5), 3)
    0.114
    """
    epsilon, condition, lam = _read(epsilon, condition, lam)
    mu, c = checks.number("mu", mu, low=0), 1 + 2 * lam
    return math.sqrt(2 / epsilon) * condition * c * mu * (1 + (1 + mu) * math.sqrt(c))


def outer_steps(epsilon: float, *, condition: float, start: float) -> int:
    """Gradient steps to ``(1 + epsilon)`` times the smallest loss with gradients that are off by at most half their length.

    ``9 kappa log((start - 1) / epsilon)``, from C.34. ``condition`` is that of the Hessian, and ``start`` the first loss over
    the smallest. The paper's ``O(kappa log(1 / epsilon))`` leaves out the start, which may be arbitrarily many times the
    smallest loss.

    Examples
    --------
    >>> outer_steps(0.01, condition=2.0, start=5.0)
    108
    """
    epsilon, condition = fraction("epsilon", epsilon), checks.number("condition", condition, low=1)
    start = checks.number("start", start, low=1)
    return math.ceil(9 * condition * math.log(max((start - 1) / epsilon, 1.0)))


def inner_steps(epsilon: float, *, lam: float) -> int:
    """Steps of ``v <- v - eta H (H v - u)``, ``eta = 1 / (1 + 2 lam)^2``, from zero to an error rate of epsilon (Theorem B.1).

    ``(1 + 2 lam)^2 log(1 / epsilon)``. The printed number has ``log(lam / epsilon^2)``, by way of the residual. But the errors
    of the steps commute with H, so that the rate is the same in its norm. B.2 is printed with ``1 - mu`` before the H^2.

    Examples
    --------
    >>> inner_steps(0.01, lam=2.0)
    116
    """
    return math.ceil((1 + 2 * checks.number("lam", lam, low=0)) ** 2 * math.log(1 / fraction("epsilon", epsilon)))


def published_inner_steps(epsilon: float, *, lam: float) -> int:
    """Theorem B.1's number, with the constants of its proof: ``9 lam^2 log(3 lam / epsilon^2)``, for ``lam >= 1``.

    B.4 is printed with the rate ``1 - 9 lam^2``. It is ``1 - 1 / (9 lam^2)``.

    Examples
    --------
    >>> published_inner_steps(0.01, lam=2.0)
    392
    """
    lam, epsilon = max(checks.number("lam", lam, low=0), 1.0), fraction("epsilon", epsilon)
    return math.ceil(-math.log(3 * lam / epsilon**2) / math.log1p(-1 / (9 * lam**2))) + 1


def unrolled_steps(epsilon: float, *, lam: float) -> int:
    """Steps of TWIRLS (4.4), ``Z <- Z - (H Z - f) / (1 + 2 lam)``, from zero to the same error rate.

    ``(1 + 2 lam) log(1 / epsilon)``. Theorem B.1 is about another iteration, on the squared residual, which no implementation
    takes: its cost of TWIRLS is too high by a factor of lam.

    Examples
    --------
    >>> unrolled_steps(0.01, lam=2.0)
    24
    """
    return math.ceil((1 + 2 * checks.number("lam", lam, low=0)) * math.log(1 / fraction("epsilon", epsilon)))


def _read(epsilon: float, condition: float, lam: float) -> tuple[float, float, float]:
    epsilon, lam = fraction("epsilon", epsilon), checks.number("lam", lam, low=0)
    return epsilon, checks.number("condition", condition, low=1), lam
