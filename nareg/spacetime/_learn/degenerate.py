"""Readings that a likelihood has no maximum for, and stations that tell a fit nothing: a sentence for each."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from nareg.errors import DegenerateFitWarning
from nareg.spacetime._learn.parametric import NOISE_RANGE, SMALLEST

#: A noise variance so near to the lower bound of its search, as a factor, has run into it.
AT_BOUND = 3.0
#: A field with less variance than this share of the noise's has vanished.
VANISHED = 1e-3
#: Names that a sentence lists.
LISTED = 3


def remarks(
    y: np.ndarray, unusable: np.ndarray, rows: np.ndarray, noise: np.ndarray, field: float, names: Sequence[str] | None, *,
    fixed_noise: bool, further: int = 0,
) -> tuple[str, ...]:  # fmt: skip
    """Sentences on readings (N, T) of which ``unusable`` were left out; ``rows`` (T, N) is what the model learned from.

    ``noise`` (N,) are the noise variances and ``field`` is the field's variance that it found. Whoever called ``fit``, which
    takes tables, is warned, or one ``further`` up.

    A likelihood without a maximum is also a :class:`~nareg.errors.DegenerateFitWarning`.
    """
    label = [str(i) for i in range(len(y))] if names is None else list(names)
    severe = _without_maximum(np.where(unusable, np.nan, y), rows, noise, field, label, fixed_noise=fixed_noise)
    for sentence in severe:
        warnings.warn(DegenerateFitWarning(sentence), stacklevel=4 + further)
    observed = np.isfinite(y)
    notes = []
    if not severe:
        constant = observed & ~_varies(y)[:, None]
        alone = np.flatnonzero(constant.sum(axis=1) > 1)
        if alone.size:
            which = (
                "is left out" if (unusable | ~constant)[alone].all() else "misleads the fit: remove it, or fit with robust=True"
            )
            notes.append(f"{_listed(alone, label)} reads one value at all times and {which}.")
    single = np.flatnonzero(observed.sum(axis=1) == 1)
    if single.size:
        notes.append(f"{_listed(single, label)} has one reading: its mean and its noise are the network's.")
    return (*severe, *notes)


def _without_maximum(
    y: np.ndarray, rows: np.ndarray, noise: np.ndarray, field: float, label: list[str], *, fixed_noise: bool
) -> list[str]:
    if not _varies(y).any():
        return [
            "no station has two different readings, so the likelihood has no maximum: it grows as field and noise vanish. The "
            "estimate is each station's mean; pass readings that vary."
        ]
    sentences = []
    level = max(float(np.nanvar(rows)), SMALLEST)
    exact = np.flatnonzero((noise <= AT_BOUND * NOISE_RANGE[0] * level) & np.isfinite(y).any(axis=1))
    if exact.size and not fixed_noise:
        sentences.append(
            f"the noise variance of {_listed(exact, label)} runs to zero, so the likelihood has no maximum: the readings look "
            "exact, as interpolated or simulated ones do. Pass noise= if you know it."
        )
    if field <= VANISHED * float(noise.mean()):
        sentences.append(
            "the variance of the field runs to zero, so the likelihood has no maximum: the readings look like noise around the "
            "stations' means. Check the order of stations and times."
        )
    return sentences


def _varies(y: np.ndarray) -> np.ndarray:
    """(N,) whether a station has two different readings."""
    largest = np.where(np.isfinite(y), y, -np.inf).max(axis=1)
    smallest = np.where(np.isfinite(y), y, np.inf).min(axis=1)
    varies: np.ndarray = largest > smallest
    return varies


def _listed(stations: np.ndarray, label: list[str]) -> str:
    if stations.size == len(label):
        return "each station"
    some = ", ".join(repr(label[i]) for i in stations[:LISTED])
    more = f" and {stations.size - LISTED} more" if stations.size > LISTED else ""
    return f"{'station' if stations.size == 1 else 'each of the stations'} {some}{more}"
