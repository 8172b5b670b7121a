"""Ridge and noise that suit the scale of the features: ``lam="auto"`` and ``alpha="auto"``.

With features ``t X``, ridge ``t^2 lam`` and noise ``t alpha`` the scores are those of X, lam and alpha. So ridges are stated in
squared lengths of a row of features, and noise in lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nareg._core import checks
from nareg.errors import InputError
from nareg.unlearning import scale as scales
from nareg.unlearning.certificate import budget

Auto = Literal["auto"]
AUTO: Auto = "auto"

#: Ridge per training node, over the squared length of a row.
RIDGE = 5e-5
#: Deviation by which noise changes the score of a node, at most, if its embedding is as long as a typical row.
NOISE = 0.2
#: Smallest budget: smaller ones are lost in rounding.
SMALLEST = 1e-200


@dataclass(frozen=True)
class FeatureScale:
    """How ``lam`` and ``alpha`` learn the length of a row of features: it is known, or read from them privately.

    Attributes
    ----------
    norm : float, optional
        The length, known without looking at the data: 1.0 for rows that are normalized to length one. Costs nothing.
    eps : float, optional
        Without ``norm``: what a private scale adds to the model's ``eps`` per row of features that is removed. The default, 48
        over the number of nodes, is the least that gives a sensible scales.

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
            charge = scales.default_charge(len(features)) if self.scale.eps is None else self.scale.eps
            length = scales.private_scale(scales.row_lengths(features), charge, rng)
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
