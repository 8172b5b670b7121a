"""Ridge and noise that suit the scale of the features: ``lam="auto"`` and ``alpha="auto"``.

With features ``t X``, ridge ``t^2 lam`` and noise ``t alpha`` the scores are those of X, lam and alpha. So ridges are stated in
squared lengths of a row of features, and noise in lengths. The scale is the length of a typical row, chosen by the exponential
mechanism (McSherry, Talwar 2007).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nareg._core import checks
from nareg.errors import InputError
from nareg.unlearning.certificate import budget

Auto = Literal["auto"]
AUTO: Auto = "auto"

#: Ridge per training node, over the squared length of a row.
RIDGE = 5e-5
#: Deviation by which noise changes the score of a node, at most, if its embedding is as long as a typical row.
NOISE = 0.2
#: Smallest budget: smaller ones are lost in rounding.
SMALLEST = 1e-200
#: Candidates are the powers of two up to this exponent, and down to its negative.
EXPONENT = 64
#: Candidate scales, whatever the data.
SCALES = 2.0 ** np.arange(-EXPONENT, EXPONENT + 1)
#: ``eps_scale N`` by default, and the least that is allowed. The mechanism then chooses a scale between the quartiles, but for
#: a chance of ``SCALES.size exp(-CHARGE / 4) < 0.001``.
CHARGE = 48.0
#: Numbers of the features that are read at a time.
PIECE = 2**22


@dataclass(frozen=True)
class FeatureScale:
    """How ``lam`` and ``alpha`` learn the length of a row of features: it is known, or read from them privately.

    Attributes
    ----------
    norm : float, optional
        The length, known without looking at the data: 1.0 for rows that are normalized to length one. Costs nothing.
    eps : float, optional
        Without ``norm``: what a private scale adds to the model's ``eps`` per row of features that is removed. The default, 48
        over the number of nodes, is the least that gives a sensible scale.

    Examples
    --------
    >>> from nareg.unlearning import CertifiedGPR, FeatureScale
    >>> model = CertifiedGPR(lam=FeatureScale(norm=1.0))
    """

    norm: float | None = None
    eps: float | None = None

    def __post_init__(self) -> None:
        for name in ("norm", "eps"):
            if getattr(self, name) is not None:
                checks.number(name, getattr(self, name), low=0, strict=True)
        if self.norm is not None and self.eps is not None:
            raise InputError("norm and eps are given, but a known length costs nothing: omit eps.")


@dataclass(frozen=True)
class Calibrated:
    """Ridge and noise of a model.

    Attributes
    ----------
    lam, alpha : float
    eps_scale : float
        What their choice adds to eps, per row of features that is removed; 0 if they do not depend on the data.
    """

    lam: float
    alpha: float
    eps_scale: float


@dataclass(frozen=True)
class Calibration:
    """What the user asked for.

    Attributes
    ----------
    lam, alpha : float or "auto"
    scale : FeatureScale
    charged : float
        What the choice of ``lam`` and ``alpha`` has cost already: theirs is a stored model.
    """

    lam: float | Auto
    alpha: float | Auto
    scale: FeatureScale
    charged: float = 0.0

    @classmethod
    def checked(cls, lam: Any, alpha: Any) -> Calibration:
        """Checked arguments.

        Raises
        ------
        InputError
            If one of them cannot work, or they contradict each other.
        """
        stated = [value for value in (lam, alpha) if isinstance(value, FeatureScale)]
        if len(set(stated)) == 2:
            raise InputError(f'lam has {stated[0]} and alpha {stated[1]}: pass one of them, and "auto" for the other.')
        lam, alpha = (AUTO if isinstance(value, FeatureScale) else value for value in (lam, alpha))
        scale = stated[0] if stated else FeatureScale()
        return cls(_number_or_auto("lam", lam, strict=True), _number_or_auto("alpha", alpha, strict=False), scale)

    @property
    def fixed(self) -> Calibrated | None:
        """Ridge and noise if they need no data."""
        if self.lam == AUTO or self.alpha == AUTO:
            return None
        return Calibrated(self.lam, self.alpha, self.charged)

    def options(self) -> dict[str, Any]:
        """``lam`` and ``alpha`` for another model."""
        return {name: self.scale if value == AUTO else value for name, value in (("lam", self.lam), ("alpha", self.alpha))}

    def calibrated(self, features: np.ndarray, n_train: int, rng: np.random.Generator) -> Calibrated:
        """Ridge and noise for these features, and what their choice costs.

        The ridge is ``RIDGE s^2`` for rows of length s. Noise of deviation alpha changes the coefficients by at most that of
        ``B / (lam n_t)``, and a score by a deviation of at most ``alpha s / (lam n_t)``: alpha makes this ``NOISE``.
        """
        if self.fixed is not None:
            return self.fixed
        if self.scale.norm is not None:
            length, charge = self.scale.norm, 0.0
        else:
            charge = default_charge(len(features)) if self.scale.eps is None else self.scale.eps
            length = private_scale(row_lengths(features), charge, rng)
        lam = RIDGE * length**2 if self.lam == AUTO else self.lam
        alpha = NOISE * lam * n_train / length if self.alpha == AUTO else self.alpha
        return Calibrated(lam, alpha, charge)


def checked_guarantee(eps: float, delta: float) -> tuple[float, float]:
    """Checked ``eps`` and ``delta``."""
    eps = checks.number("eps", eps, low=0, strict=True)
    delta = checks.number("delta", delta, low=0, high=1, strict=True)
    if delta == 1:
        raise InputError("delta is 1, which guarantees nothing: pass less, such as one over the number of edges.")
    return eps, delta


def checked_budget(alpha: float, eps: float, delta: float) -> float:
    """The budget of this noise.

    Raises
    ------
    InputError
        If it is below rounding.
    """
    value = budget(alpha, eps, delta)
    if alpha and not value > SMALLEST:
        raise InputError(
            f"alpha is {alpha:g}, eps {eps:g} and delta {delta:g}: their budget, {value:.3g}, is below rounding: pass larger "
            "values."
        )
    return value


def _number_or_auto(name: str, value: Any, *, strict: bool) -> float | Auto:
    """A number, or "auto"."""
    if isinstance(value, str):
        if value != AUTO:
            raise InputError(f'{name} is {value!r}: pass a number or "auto".')
        return AUTO
    return checks.number(name, value, low=0, strict=strict)


def default_charge(n_nodes: int) -> float:
    """The default of ``eps_scale``: what a private scale adds to eps, per row that is removed.

    Examples
    --------
    >>> round(default_charge(2708), 4)
    0.0177
    """
    return CHARGE / n_nodes


def row_lengths(features: np.ndarray) -> np.ndarray:
    """Lengths (N,) of the rows of features, read in parts. Each depends on its own row alone, whatever the rounding."""
    step = max(PIECE // features.shape[1], 1)
    lengths = np.empty(len(features))
    for first in range(0, len(features), step):
        rows = np.asarray(features[first : first + step], dtype=np.float64)
        peak = np.abs(rows).max(axis=1, keepdims=True)  # squares of huge and tiny numbers are not numbers
        size = np.where(peak > 0, peak, 1.0)
        lengths[first : first + step] = np.sqrt(((rows / size) ** 2).sum(axis=1)) * peak[:, 0]
    return lengths


def utilities(lengths: np.ndarray) -> np.ndarray:
    """Minus the number of ranks from the median length to each candidate scale.

    Candidate ``2^k`` stands for the interval ``[2^(k - 1/2), 2^(k + 1/2))``; the outermost ones reach to 0 and to infinity.
    With m rows that are not zero, b of them below the interval and a above it, the utility is
    ``-max(0, b - m / 2, a - m / 2)``.

    **Sensitivity.** A row that is set to zero changes m by one and either b, or a, or neither by one. So ``b - m / 2`` and
    ``a - m / 2`` change by exactly 1/2, and the maximum with zero by at most 1/2. Edges change nothing.

    Examples
    --------
    >>> best = utilities(np.array([0.9, 1.0, 1.1, 5.0])).argmax()
    >>> float(SCALES[best])
    1.0
    """
    present = lengths[lengths > 0]
    index = np.searchsorted(SCALES[1:] / np.sqrt(2), present, side="right")
    counts = np.bincount(index, minlength=SCALES.size)
    below = np.concatenate([[0], np.cumsum(counts)[:-1]])
    above = present.size - below - counts
    return -np.maximum(0.0, np.maximum(below, above) - present.size / 2)


def private_scale(lengths: np.ndarray, eps: float, rng: np.random.Generator) -> float:
    """A power of two near the median length of the rows that are not zero; ``eps``-private for each row.

    The exponential mechanism takes a candidate with a chance proportional to ``exp(eps u / (2 * 1/2))``, for the sensitivity of
    1/2 that :func:`utilities` proves. Setting one row to zero changes every chance by a factor of at most ``exp(eps)``: the
    exponent by ``eps / 2``, and the sum of all by as much.

    Parameters
    ----------
    lengths : (N,) array
        Of the rows of features; zeros count as removed.
    eps : float
    rng : numpy.random.Generator

    Raises
    ------
    InputError
        If ``eps N`` is so small that the scale would be random.

    Examples
    --------
    >>> private_scale(np.full(300, 5.0), 0.2, np.random.default_rng(0))
    4.0
    """
    least = default_charge(lengths.size)
    if eps < least * (1 - 1e-9):
        raise InputError(
            f"eps_scale is {eps:g}, with which the scale of {lengths.size} rows would be random: pass at least {least:.3g}, or "
            "FeatureScale(norm=) with the length of a row, if it is known without the data."
        )
    chances = np.exp(eps * utilities(lengths))
    return float(rng.choice(SCALES, p=chances / chances.sum()))
