"""The scale of the features: the length of a typical row, chosen by the exponential mechanism (McSherry, Talwar 2007)."""

from __future__ import annotations

import numpy as np

from nareg.errors import InputError

#: Candidates are the powers of two up to this exponent, and down to its negative.
EXPONENT = 64
#: Candidate scales, whatever the data.
SCALES = 2.0 ** np.arange(-EXPONENT, EXPONENT + 1)
#: ``eps_scale N`` by default, and the least that is allowed. The mechanism then chooses a scale between the quartiles, but for
#: a chance of ``SCALES.size exp(-CHARGE / 4) < 0.001``.
CHARGE = 48.0
#: Numbers of the features that are read at a time.
PIECE = 2**22


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
