"""Ridge and noise that suit the scale of the features: ``lam="auto"`` and ``alpha="auto"``.

With features ``t X``, ridge ``t^2 lam`` and noise ``t alpha`` the scores are those of X, lam and alpha. So ridges are stated in
squared lengths of a row of features, and noise in lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nareg import _checks
from nareg.errors import InputError
from nareg.unlearning import scale
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
    feature_norm : float or None
        Length of a row of features that is known without the data.
    eps_scale : float or None
        What a private scale may add to eps.
    charged : float
        What the choice of ``lam`` and ``alpha`` has cost already: theirs is a stored model.
    """

    lam: float | Auto
    alpha: float | Auto
    feature_norm: float | None
    eps_scale: float | None
    charged: float = 0.0

    @classmethod
    def checked(cls, lam: Any, alpha: Any, feature_norm: Any, eps_scale: Any) -> Calibration:
        """Checked arguments.

        Raises
        ------
        InputError
            If one of them cannot work, or would have no effect.
        """
        result = cls(
            _number_or_auto("lam", lam, strict=True),
            _number_or_auto("alpha", alpha, strict=False),
            None if feature_norm is None else _checks.number("feature_norm", feature_norm, low=0, strict=True),
            None if eps_scale is None else _checks.number("eps_scale", eps_scale, low=0, strict=True),
        )
        if result.fixed is not None and (feature_norm is not None or eps_scale is not None):
            name = "eps_scale" if feature_norm is None else "feature_norm"
            raise InputError(f'{name} is given, but lam and alpha are numbers: omit it, or pass lam="auto" or alpha="auto".')
        if feature_norm is not None and eps_scale is not None:
            raise InputError("feature_norm and eps_scale are given, but a known length costs nothing: omit eps_scale.")
        return result

    @property
    def fixed(self) -> Calibrated | None:
        """Ridge and noise if they need no data."""
        if self.lam == AUTO or self.alpha == AUTO:
            return None
        return Calibrated(self.lam, self.alpha, self.charged)

    def calibrated(self, features: np.ndarray, n_train: int, rng: np.random.Generator) -> Calibrated:
        """Ridge and noise for these features, and what their choice costs.

        The ridge is ``RIDGE s^2`` for rows of length s. Noise of deviation alpha changes the coefficients by at most that of
        ``B / (lam n_t)``, and a score by a deviation of at most ``alpha s / (lam n_t)``: alpha makes this ``NOISE``.
        """
        if self.fixed is not None:
            return self.fixed
        if self.feature_norm is not None:
            length, charge = self.feature_norm, 0.0
        else:
            charge = scale.default_charge(len(features)) if self.eps_scale is None else self.eps_scale
            length = scale.private_scale(scale.row_lengths(features), charge, rng)
        lam = RIDGE * length**2 if self.lam == AUTO else self.lam
        alpha = NOISE * lam * n_train / length if self.alpha == AUTO else self.alpha
        return Calibrated(lam, alpha, charge)


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
    return _checks.number(name, value, low=0, strict=strict)
