"""Sets of signals for min-max designs: a box, a box with a limit on roughness, a ball; and quadratics over them.

The box is ``x = T [y, 1]`` with ``T = [diag(h), m]``, half widths h and center m, and y in ``[-1, 1]^N``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from nareg._core import checks
from nareg.errors import InputError

#: Below this size products with a dense matrix are faster than with a sparse one.
SMALL = 300

Matrix = Any  # a dense array or a sparse one
Product = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class SmoothBox:
    """The signals between ``signal_low`` and ``signal_high`` with ``x^T L x <= smoothness``.

    Attributes
    ----------
    smoothness : float
        Positive, in the squared unit of the signal; for example the largest ``x^T L x`` of training signals.

    Examples
    --------
    >>> import nareg
    >>> grid = nareg.graphs.grid((3, 3))
    >>> smooth = nareg.design.SmoothBox(2.0)
    >>> worst = nareg.design.worst_case(grid, 1.0, uncertainty=smooth, signal_low=-1.0, signal_high=1.0, noise=0.1)
    >>> bool(worst.lower <= worst.upper)
    True
    """

    smoothness: float


@dataclass(frozen=True)
class Ball:
    """The signals with ``||x|| <= radius``.

    Attributes
    ----------
    radius : float
        Positive, in the unit of the signal. :func:`worst_case` has an example.
    """

    radius: float


#: The two extreme signals, every signal between them, the smooth ones of these, or the signals up to a norm.
Uncertainty: TypeAlias = Literal["corners", "box"] | SmoothBox | Ball


@dataclass(frozen=True)
class SignalSet:
    """A box, a box with a limit on ``x^T L x``, or a ball of signals (checked by :func:`signal_set`)."""

    name: str
    L: sp.csr_array
    low: np.ndarray
    high: np.ndarray
    smoothness: float = np.inf
    radius: float = np.inf

    @cached_property
    def columns(self) -> sp.csr_array:
        """T. Nodes whose value is known (no width) have no coordinate of their own."""
        n = self.low.size
        if self.name == "ball":
            return sp.csr_array(self.radius * sp.eye_array(n))
        half = (self.high - self.low) / 2
        wide = np.flatnonzero(half > 0)
        widths = sp.csr_array((half[wide], (wide, np.arange(wide.size))), shape=(n, wide.size))
        return sp.csr_array(sp.hstack([widths, ((self.low + self.high) / 2)[:, None]]))

    @cached_property
    def roughness(self) -> Matrix:
        """``T^T L T``: ``x^T L x`` in the coordinates of the box."""
        return gram(self.columns, self.L)

    @cached_property
    def smoothest(self) -> tuple[np.ndarray, float]:
        """Coordinates of the smoothest signal of the box, and its ``x^T L x``."""
        size = self.columns.shape[1] - 1
        scale = float(np.abs(self.roughness.diagonal()).max(initial=0.0)) or 1.0
        y = bounded_minimum(lambda y: 2 * affine(self.roughness, y) / scale, np.zeros(size))
        return y, quadratic_form(self.roughness, y)

    def signal(self, y: np.ndarray) -> np.ndarray:
        """The signal at coordinates y in [-1, 1] (box), kept inside in spite of rounding."""
        return np.clip(self.columns @ np.append(y, 1.0), self.low, self.high)


def signal_set(uncertainty: Uncertainty, L: sp.csr_array, *, signal_low: Any, signal_high: Any) -> SignalSet:
    """Check the description of a set of signals; refuse bounds that the set does not use."""
    n = L.shape[0]
    if isinstance(uncertainty, Ball):
        for argument, value in (("signal_low", signal_low), ("signal_high", signal_high)):
            if value is not None:
                raise InputError(f"{argument} is given: uncertainty=Ball(radius) has no other bounds; omit {argument}.")
        radius = checks.number("radius", uncertainty.radius, low=0.0, strict=True)
        free = np.full(n, np.inf)
        return SignalSet("ball", L, -free, free, radius=radius)
    low, high = box_bounds(signal_low, signal_high, n)
    if not isinstance(uncertainty, SmoothBox):
        return SignalSet("box", L, low, high)
    limit = checks.number("smoothness", uncertainty.smoothness, low=0.0, strict=True)
    U = SignalSet("smooth-box", L, low, high, smoothness=limit)
    least = U.smoothest[1]
    if least > limit:
        raise InputError(
            f"smoothness is {limit:g} but the smoothest signal between signal_low and signal_high has x^T L x = {least:g}: "
            "raise it, for example to the largest x^T L x of training signals."
        )
    return U


def checked_uncertainty(value: Any, *, corners: bool) -> Uncertainty:
    """One of the sets, ``"corners"`` only where allowed."""
    names = ("corners", "box") if corners else ("box",)
    if isinstance(value, (SmoothBox, Ball)) or value in names:
        return cast("Uncertainty", value)
    choices = ", ".join([repr(name) for name in names] + ["SmoothBox(smoothness)", "Ball(radius)"])
    raise InputError(f"uncertainty is {value!r}; choose one of {choices}.")


def box_bounds(signal_low: Any, signal_high: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Checked lowest and highest signal."""
    for argument, value in (("signal_low", signal_low), ("signal_high", signal_high)):
        if value is None:
            raise InputError(
                f"{argument} is None: lower and upper bound the squared weights; "
                f"pass signal_low and signal_high, the extreme signals, ({n},)."
            )
    low, high = checks.node_vector("signal_low", signal_low, n), checks.node_vector("signal_high", signal_high, n)
    if (low > high).any():
        i = int(np.flatnonzero(low > high)[0])
        raise InputError(f"signal_low[{i}] = {low[i]:g} is above signal_high[{i}] = {high[i]:g}: swap them.")
    return low, high


def gram(M: Matrix, middle: sp.csr_array | None = None) -> Matrix:
    """``M^T M``, or ``M^T middle M``: dense where small or where M is."""
    product = M.T @ (M if middle is None else middle @ M)
    if sp.issparse(product):
        return product.toarray() if product.shape[0] <= SMALL else sp.csr_array(product)
    return (product + product.T) / 2


def affine(A: Matrix, y: np.ndarray) -> np.ndarray:
    """Half the gradient of ``[y, 1]^T A [y, 1]`` in y."""
    return (A @ np.append(y, 1.0))[:-1]


def quadratic_form(A: Matrix, y: np.ndarray) -> float:
    """``[y, 1]^T A [y, 1]``."""
    e = np.append(y, 1.0)
    return float(e @ (A @ e))


def roughness_of(Q: Matrix, V: np.ndarray) -> float:
    """``tr(Q V V^T)``."""
    return float(np.sum(V * (Q @ V)))


def bounded_minimum(gradient: Product, y: np.ndarray) -> np.ndarray:
    """Minimize over [-1, 1] a function given by its gradient, affine in y: values follow from gradients."""
    if y.size == 0:
        return y
    at_zero = gradient(np.zeros_like(y))

    def function(y: np.ndarray) -> tuple[float, np.ndarray]:
        g = gradient(y)
        return float(0.5 * y @ (g + at_zero)), g

    bounds = np.tile([-1.0, 1.0], (y.size, 1))
    options = {"maxiter": 300, "ftol": 1e-12, "gtol": 1e-8}
    return np.clip(minimize(function, y, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x, -1.0, 1.0)
