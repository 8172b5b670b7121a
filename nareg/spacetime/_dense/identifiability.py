"""Readings that a likelihood has no maximum for, and stations that tell a fit nothing: a sentence for each.

How well readings tell noise from field, and what an estimate owes to it.

Where a smoother gives a reading the weight g, and its noise variance is r, the estimate has the variance g r. If the noise is
r + d instead and the field as much calmer, it has ``(2 g - 1) d`` more: an estimate that follows its readings is worse for more
noise, one that does not for less.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from nareg.errors import DegenerateFitWarning
from nareg.spacetime._dense.parametric import ETA_PRIOR, NOISE_RANGE, NOISE_SPREAD, SMALLEST, Parameters
from nareg.spacetime._readings.space import Space

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


#: Frequencies that the information is summed over, and the width of a difference.
FREQUENCIES, STEP = 128, 1e-4
#: Readings per station below which a record is short.
SHORT = 60
#: Share of the modes in space and time where the field is least.
LEAST = 0.05
#: Rounds in which a noise that is hardly known is looked at where it may be larger.
AGAIN = 3
#: An error of less than this share, on either side, cancels over stations and files: an estimate owes it nothing.
USUAL = 0.2
#: A note says where the noise variance is known to no better than the first share; beyond the second it may as well be larger.
NOTED, DOUBTFUL = 0.3, 0.5


def noise_errors(parameters: Parameters, space: Space, counts: np.ndarray) -> np.ndarray:
    """By how much noise variances may be lower and higher, (2, N), from ``counts`` (N,) readings of every station.

    By the information of a stationary process (Whittle 1953) in the variance, the autoregression, the stations' own part and
    the noise, as if the readings were complete; a station's own deviation from the network's noise has its prior.
    """
    covariance = parameters.covariance(space)
    values, modes = np.linalg.eigh(covariance)
    theta = np.concatenate([[parameters.log_variance, parameters.logit_eta], parameters.partials])

    def spectra(at: np.ndarray) -> np.ndarray:
        """(modes, frequencies), with the modes of the parameters."""
        moved = Parameters(parameters.family, at[0], parameters.log_reach, at[1], at[2:], parameters.log_noise)
        a, _, q = moved.autoregression()
        moving = at[1] != theta[1]
        inside = np.einsum("ij,ij->j", modes, moved.covariance(space) @ modes) if moving else values * np.exp(at[0] - theta[0])
        waves = np.exp(-1j * np.pi * (np.arange(FREQUENCIES) + 0.5) / FREQUENCIES)
        transfer = 1 - sum(a[k] * waves ** (k + 1) for k in range(a.size))
        return np.maximum(inside, 0.0)[:, None] * q / np.abs(transfer) ** 2

    here, typical = spectra(theta), float(np.exp(parameters.log_noise.mean()))
    steps = [(spectra(theta + STEP * e) - spectra(theta - STEP * e)) / (2 * STEP) for e in np.eye(theta.size)]
    # readings show field and noise together: where the field is least, there is no more that may be noise
    most = float(np.quantile(here, LEAST))
    mass = 0.5 * float(counts.sum()) / here.size

    def relative(noise: float) -> np.ndarray:
        """Errors as a share of ``typical``, where the noise variance is this."""
        slopes = [step / (here + noise) for step in (*steps, np.full(here.shape, noise))]
        information = mass * np.array([[float(np.sum(one * other)) for other in slopes] for one in slopes])
        information[1, 1] += ETA_PRIOR[1] ** -2
        shared = float(np.linalg.pinv(information, hermitian=True)[-1, -1])
        own = information[-1, -1] * counts / max(float(counts.sum()), 1.0)
        return np.sqrt(shared + 1 / (own + NOISE_SPREAD**-2)) * noise / typical

    error = relative(typical)
    # estimates that follow the past show in their innovations where noise was taken for too large, unless the record is short
    low = np.minimum(error, 1.0) if np.median(counts[counts > 0]) < SHORT else np.zeros(counts.size)
    high = np.minimum(error, most / typical)
    for _ in range(AGAIN if np.median(high) > DOUBTFUL else 0):
        # little noise is sharply told from less, but not from more: as sharply as at the end of what is likely
        high = np.clip(relative(typical * (1 + float(np.median(high)))), high, most / typical)
    result: np.ndarray = parameters.noise * np.array([low, high])
    return result


def with_doubt(var: np.ndarray, error: np.ndarray | None, noise: np.ndarray, share: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Variances (..., N) of estimates, where readings are ``seen`` with what the noise may be off by, ``error`` (2, N).

    ``share`` is the field's variance over the noise's, the weight of a reading in its own estimate.
    """
    if error is None:
        return var
    g, (low, high) = np.clip(share, 0.0, 1.0), np.maximum(error - USUAL * noise, 0.0)
    return var + np.where(seen, np.where(g > 0.5, (2 * g - 1) * high, (1 - 2 * g) * low), 0.0)


def remark(noise: np.ndarray, error: np.ndarray, counts: np.ndarray) -> tuple[str, ...]:
    """A sentence where readings hardly tell the noise variances (N,) from the field's."""
    there = counts > 0
    relative = float(np.median((error / noise)[:, there], axis=1).max())
    if relative <= NOTED:
        return ()
    return (
        f"noise and field can hardly be told apart by these {int(counts.sum()):,} readings: the noise's standard deviation is "
        f"known to a factor of {np.sqrt(1 + relative):.2g}. The estimate's allows for that; pass noise= if you know it.",
    )
