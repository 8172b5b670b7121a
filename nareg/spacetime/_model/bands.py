"""Bands that cover their nominal share of readings: split conformal factors, per size of the standard deviation.

Where a reading is, the estimate's error is mostly noise; in a gap it is the field's. A model may be right about one and wrong
about the other, so hidden readings are split into strata by their predicted standard deviation, and each stratum has a factor.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm

from nareg.spacetime._learn.holdout import HeldOut

#: Levels of the bands that are calibrated.
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
#: Fewer hidden readings than this calibrate nothing.
FEWEST = 50
#: Hidden readings that the Gaussian band counts for.
PRIOR = 200
#: Hidden readings that a stratum has at least, and the most strata.
PER_STRATUM, MAX_STRATA = 500, 5


@dataclass(frozen=True)
class Bands:
    """Factors for the width of Gaussian bands, by level and by the predicted standard deviation of a reading."""

    stds: tuple[float, ...] = ()  # typical standard deviation of every stratum, increasing
    factors: dict[float, tuple[float, ...]] = field(default_factory=dict)  # level to a factor per stratum; empty: all 1

    def at(self, level: float, std: np.ndarray) -> np.ndarray:
        """Factors for standard deviations ``std``: linear between levels, and in log(std) between strata."""
        if not self.factors:
            return np.ones_like(std)
        levels = sorted(self.factors)
        known = np.array([self.factors[each] for each in levels])
        per_stratum = [np.interp(level, levels, column) for column in known.T]
        result: np.ndarray = np.interp(np.log(np.maximum(std, 1e-300)), np.log(self.stds), per_stratum)
        return result

    def in_unit(self, unit: float) -> Bands:
        """The same for standard deviations in another unit."""
        return Bands(tuple(unit * std for std in self.stds), self.factors)


def calibrate(held_out: HeldOut) -> Bands:
    """Bands from hidden readings.

    A factor is the split conformal quantile, of H scores the ``ceil((H + 1) level)``-th smallest, over the Gaussian one,
    drawn towards 1 as if that had been seen in :data:`PRIOR` readings: a few dozen hidden readings know less than the model.
    """
    scores = np.abs(held_out.errors) / held_out.std
    if scores.size < FEWEST:
        return Bands()
    order = np.argsort(held_out.std, kind="stable")
    strata = np.array_split(order, int(np.clip(scores.size // PER_STRATUM, 1, MAX_STRATA)))
    stds: list[float] = []
    columns: list[list[float]] = []
    for stratum in strata:
        typical = float(np.exp(np.log(held_out.std[stratum]).mean()))
        if stds and typical <= stds[-1] * (1 + 1e-9):  # all errors are expected to be the same
            continue
        stds.append(typical)
        columns.append([_factor(np.sort(scores[stratum]), level) for level in LEVELS])
    return Bands(tuple(stds), {level: tuple(column[k] for column in columns) for k, level in enumerate(LEVELS)})


def _factor(scores: np.ndarray, level: float) -> float:
    H = scores.size
    rank = min(int(np.ceil((H + 1) * level)), H) - 1
    raw = float(scores[rank] / norm.ppf(0.5 + level / 2))
    return 1 + H / (H + PRIOR) * (raw - 1)
