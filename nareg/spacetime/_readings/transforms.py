"""Transforms that make readings more nearly Gaussian; means and quantiles in the unit of the readings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from nareg.errors import InputError

Function = Callable[[np.ndarray], np.ndarray]
#: A name, a pair (forward, backward), or None.
TransformLike: TypeAlias = str | tuple[Function, Function] | None
#: Names that a user may pass.
NAMES = ("sqrt", "log")
#: Nodes and weights of the Gauss-Hermite rule that integrates over a normal distribution.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
#: Readings whose skewness is below this are not transformed by "auto".
SKEWED = 0.7
#: Readings that vary by less than this share of their size are on a straight part of every transform.
BENT = 0.1
#: Shift of the logarithm as a share of the usual reading; that of small stations, a quantile, where it is so many times less.
SHARE, SMALL, UNLIKE = 0.15, 0.1, 5.0


@dataclass(frozen=True)
class Transform:
    """:meth:`forward` makes the readings Gaussian, :meth:`backward` is its inverse; both increase."""

    name: str
    shift: float = 0.0  # of the logarithm: log(y - low + shift)
    low: float = 0.0  # lower limit of the field: zero, or the smallest reading below it
    functions: tuple[Function, Function] | None = None  # of a user

    @property
    def linear(self) -> bool:
        return self.name == "none"

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Readings as what is nearly Gaussian."""
        if self.functions is not None:
            return self.functions[0](y)
        if self.linear:
            return y
        above = np.maximum(y - self.low, 0.0)
        return np.sqrt(above) if self.name == "sqrt" else np.log(above + self.shift)

    def backward(self, x: np.ndarray) -> np.ndarray:
        """The readings again."""
        if self.functions is not None:
            return self.functions[1](x)
        if self.linear:
            return x
        if self.name == "sqrt":
            return np.asarray(np.maximum(x, 0.0) ** 2 + self.low)
        return np.asarray(np.maximum(np.exp(np.minimum(x, 700.0)) - self.shift, 0.0) + self.low)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """``log g'(y)``, which turns the likelihood of g(y) into one of y."""
        if self.name == "none":
            return np.zeros_like(y)
        if self.name == "sqrt":
            above = y - self.low
            return -np.log(2 * np.sqrt(np.maximum(above, 1e-2 * max(float(np.median(above)), 1e-12))))
        if self.name == "custom":  # a user gives no derivative; backward is known on both sides of every x
            x = self.forward(y)
            step = 1e-5 * max(float(np.std(x)), 1e-9 * float(np.abs(x).max(initial=1.0)))
            rise = (np.asarray(self.backward(x + step)) - np.asarray(self.backward(x - step))) / (2 * step)
            return -np.log(np.maximum(rise, 1e-300))
        return -np.log(np.maximum(y - self.low, 0) + self.shift)

    def mean(self, x: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of ``backward(N(x, var))``."""
        if self.linear:
            return x, np.sqrt(var)
        spread = np.sqrt(var)
        values = [self.backward(x + node * spread) for node in _NODES]
        first = sum((w * v for w, v in zip(_WEIGHTS, values, strict=True)), np.zeros_like(x))
        second = sum((w * (v - first) ** 2 for w, v in zip(_WEIGHTS, values, strict=True)), np.zeros_like(x))
        return first, np.sqrt(second)


def named(value: TransformLike, y: np.ndarray) -> Transform:
    """The transform that a user asked for, by readings (N, T), or all of one kind of station."""
    if value is None or value == "none":
        return Transform("none")
    readings = y[np.isfinite(y)]
    if isinstance(value, str) and value in NAMES:
        if not _nearly_positive(readings):
            raise InputError(
                f"transform={value!r} needs readings of at least 0, or slightly below, but the smallest is {readings.min():g}: "
                "pass transform=None, or set negative readings to NaN."
            )
        low = min(float(readings.min()), 0.0)
        return Transform("sqrt", low=low) if value == "sqrt" else Transform("log", _shift(y), low)
    if isinstance(value, tuple) and len(value) == 2 and all(callable(part) for part in value):
        forward, backward = value
        with np.errstate(all="ignore"):
            bad = ~np.isfinite(np.asarray(forward(readings)))
        if bad.any():
            raise InputError(
                f"transform is not finite at the reading {readings[bad][0]:g}: pass one that is finite everywhere, or set "
                "such readings to NaN."
            )
        probe = np.quantile(readings, [0.0, 0.25, 0.5, 0.75, 1.0])
        back = np.asarray(backward(np.asarray(forward(probe))))
        if back.shape != probe.shape or not np.allclose(back, probe, rtol=1e-6, atol=1e-9 * np.abs(probe).max(initial=1.0)):
            raise InputError("transform has a second function that does not undo the first: pass (forward, backward).")
        return Transform("custom", functions=(forward, backward))
    raise InputError(f"transform is {value!r}; choose 'auto', None, 'sqrt', 'log' or a pair of functions (forward, backward).")


def candidates(y: np.ndarray) -> list[Transform]:
    """Transforms that ``"auto"`` compares: none, and for skewed readings that hardly fall below zero root and logarithm."""
    readings = y[np.isfinite(y)]
    if np.std(readings) <= BENT * np.abs(readings).mean() or _skewness(readings) < SKEWED or not _nearly_positive(readings):
        return [Transform("none")]
    return [Transform("none"), named("sqrt", y), named("log", y)]


def _skewness(readings: np.ndarray) -> float:
    apart = readings - readings.mean()
    return float(np.mean(apart**3) / np.mean(apart**2) ** 1.5)


def _nearly_positive(readings: np.ndarray) -> bool:
    """Whether the smallest reading is at least zero, or nearer to it than the median positive one.

    Small concentrations scatter below zero; a transform then begins at the smallest reading.
    """
    positive = readings[readings > 0]
    return bool(readings.min() >= 0 or (positive.size and -readings.min() < np.median(positive)))


def _shift(y: np.ndarray) -> float:
    """A part of the usual positive reading: of all stations, or of the small ones where those are far below the usual.

    Readings below the shift are on a straight part of the logarithm, which small stations must not be as a whole.
    """
    positive = y[y > 0]
    if not positive.size:
        return 1.0
    usual = float(np.median(positive))
    if y.ndim == 2:
        own = [float(np.median(row[row > 0])) for row in y if (row > 0).any()]
        small = float(np.quantile(own, SMALL))
        usual = small if small * UNLIKE < usual else usual
    return SHARE * usual


def restore(name: str, shift: float, low: float) -> Transform:
    """A transform from what a file holds."""
    if name not in ("none", *NAMES) or shift < 0 or low > 0:
        raise ValueError(f"transform {name!r} with shift {shift:g} from {low:g} on")
    return Transform(name, shift, low)
