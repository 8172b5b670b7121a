"""Transforms that make readings more nearly Gaussian, and what means and quantiles become on the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import skew

from nareg.errors import InputError

Function = Callable[[np.ndarray], np.ndarray]
#: Names that a user may pass.
NAMES = ("sqrt", "log")
#: Nodes and weights of the Gauss-Hermite rule that integrates over a normal distribution.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
#: Readings whose skewness is below this are not transformed by "auto".
SKEWED = 0.7


@dataclass(frozen=True)
class Transform:
    """``forward`` makes the readings Gaussian, ``backward`` undoes it; increasing both.

    Attributes
    ----------
    name : str
    shift : float
        Of the logarithm: ``log(y + shift)``.
    """

    name: str
    forward: Function
    backward: Function
    shift: float = 0.0

    @property
    def linear(self) -> bool:
        return self.name == "none"

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """``log g'(y)``, which turns the likelihood of g(y) into one of y."""
        if self.name == "none":
            return np.zeros_like(y)
        if self.name == "sqrt":
            return -np.log(2 * np.sqrt(np.maximum(y, 1e-2 * max(float(np.median(y)), 1e-12))))
        if self.name == "custom":  # a user gives no derivative; backward is known on both sides of every x
            x = self.forward(y)
            step = 1e-5 * max(float(np.std(x)), 1e-9 * float(np.abs(x).max(initial=1.0)))
            rise = (np.asarray(self.backward(x + step)) - np.asarray(self.backward(x - step))) / (2 * step)
            return -np.log(np.maximum(rise, 1e-300))
        return -np.log(np.maximum(y, 0) + self.shift)

    def mean(self, x: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of ``backward(N(x, var))``."""
        if self.linear:
            return x, np.sqrt(var)
        spread = np.sqrt(var)
        values = [self.backward(x + node * spread) for node in _NODES]
        first = sum((w * v for w, v in zip(_WEIGHTS, values, strict=True)), np.zeros_like(x))
        second = sum((w * (v - first) ** 2 for w, v in zip(_WEIGHTS, values, strict=True)), np.zeros_like(x))
        return first, np.sqrt(second)


def none() -> Transform:
    return Transform("none", lambda y: y, lambda x: x)


def square_root() -> Transform:
    return Transform("sqrt", lambda y: np.sqrt(np.maximum(y, 0.0)), lambda x: np.maximum(x, 0.0) ** 2)


def logarithm(shift: float) -> Transform:
    return Transform(
        "log",
        lambda y: np.log(np.maximum(y, 0.0) + shift),
        lambda x: np.maximum(np.exp(np.minimum(x, 700.0)) - shift, 0.0),
        shift,
    )


def named(value: Any, readings: np.ndarray) -> Transform:
    """The transform that a user asked for; ``readings`` are the finite ones."""
    if value is None or value == "none":
        return none()
    if isinstance(value, str) and value in NAMES:
        if (readings < 0).any():
            raise InputError(
                f"transform={value!r} needs readings of at least 0, the smallest is {readings.min():g}: "
                "take transform=None, or set readings below zero to missing."
            )
        return square_root() if value == "sqrt" else logarithm(_shift(readings))
    if isinstance(value, tuple) and len(value) == 2 and all(callable(part) for part in value):
        forward, backward = value
        with np.errstate(all="ignore"):
            bad = ~np.isfinite(np.asarray(forward(readings)))
        if bad.any():
            raise InputError(
                f"transform makes no finite number of the reading {readings[bad][0]:g}: take a transform "
                "that is finite for every reading, or set such readings to missing."
            )
        probe = np.quantile(readings, [0.0, 0.25, 0.5, 0.75, 1.0])
        back = np.asarray(backward(np.asarray(forward(probe))))
        if back.shape != probe.shape or not np.allclose(back, probe, rtol=1e-6, atol=1e-9 * np.abs(probe).max(initial=1.0)):
            raise InputError("transform is a pair of functions of which the second does not undo the first: check their order.")
        return Transform("custom", forward, backward)
    raise InputError(f"transform is {value!r}; choose 'auto', None, 'sqrt', 'log' or a pair of functions (forward, backward).")


def candidates(readings: np.ndarray) -> list[Transform]:
    """What ``"auto"`` compares: nothing, and for skewed readings of at least zero, the square root and the logarithm."""
    if (readings < 0).any() or np.ptp(readings) <= 1e-9 * np.abs(readings).max() or skew(readings) < SKEWED:
        return [none()]
    return [none(), square_root(), logarithm(_shift(readings))]


def _shift(readings: np.ndarray) -> float:
    positive = readings[readings > 0]
    return 0.15 * float(np.median(positive)) if positive.size else 1.0


def restore(name: str, shift: float) -> Transform:
    """A transform from what a file holds."""
    makers = {"none": none, "sqrt": square_root}
    return logarithm(shift) if name == "log" else makers[name]()
