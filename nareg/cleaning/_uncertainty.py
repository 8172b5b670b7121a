"""Bands checked against hidden readings, and the typical station's noise and error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nareg.cleaning._compare import Hidden
from nareg.cleaning._words import number
from nareg.spacetime import Smoothed, SpaceTimeModel, SparseSpaceTimeModel
from nareg.spacetime._dense.parametric import HARDLY_KNOWN
from nareg.spacetime._model.results import LEVELS

if TYPE_CHECKING:
    import pandas as pd

#: Level whose band reaches one standard deviation.
ONE_SIGMA = 0.6827
#: The model's standard deviations are stretched where the hidden readings' errors exceed them by this share.
TOLERATED = 0.1


def coverage(y: np.ndarray, predicted: Smoothed | None, hidden: Hidden) -> tuple[pd.DataFrame, float, str]:
    """Shares of the hidden readings inside bands, a factor for the standard deviations, and the check in a sentence."""
    import pandas as pd

    frame = pd.DataFrame({"nominal": [], "observed": []}, dtype=float)
    if predicted is None or not hidden.enough:
        return frame, 1.0, ""
    where = hidden.mask
    shares = []
    for level in LEVELS:
        low, high = predicted.interval(level, of="reading")
        shares.append(float(np.mean((y[where] >= low[where]) & (y[where] <= high[where]))))
    frame = pd.DataFrame({"nominal": LEVELS, "observed": shares})
    low, high = predicted.interval(ONE_SIGMA, of="reading", calibrated=False)
    expected = ((high - low) / 2)[where]
    errors = (y - predicted.x)[where]
    ratio = float(np.sqrt(np.mean(errors**2) / max(float(np.mean(expected**2)), 1e-300)))
    line = (
        f"at hidden readings the model expects an error of {number(float(np.sqrt(np.mean(expected**2))))}, noise included; "
        f"it is {number(float(np.sqrt(np.mean(errors**2))))}"
    )
    stretch = ratio if ratio > 1 + TOLERATED else 1.0
    return frame, stretch, line + (f"; standard deviations are multiplied by {ratio:.2f}" if stretch > 1 else "")


def likely_noise(model: SpaceTimeModel | SparseSpaceTimeModel) -> np.ndarray:
    """(N,) noise variances; where readings hardly tell them from the field's, as large as they may well be."""
    if model.noise_error is None:
        return model.noise
    share = model.noise_error[1] / model.unit_noise
    return np.asarray(model.noise * (1 + np.where(share > HARDLY_KNOWN, share, 0.0)))


def typical_errors(
    noise: np.ndarray | None, std: np.ndarray, observed: np.ndarray, bad: np.ndarray, healthy: np.ndarray
) -> tuple[float, float]:
    """Noise and error where there is a reading: medians over the stations that are no suspects; NaN without noise."""
    if not (observed & healthy[:, None]).any():
        healthy = np.ones_like(healthy)
    at = observed & ~bad & healthy[:, None]
    at = at if at.any() else observed
    there = at.any(axis=1)
    mean = np.sqrt(np.where(at, std**2, 0.0).sum(axis=1)[there] / at.sum(axis=1)[there])
    return np.nan if noise is None else float(np.sqrt(np.median(noise[there]))), float(np.median(mean))
