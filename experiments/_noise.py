"""Noise on node features and the ways to normalize their rows."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from nareg._core import checks
from nareg.typing import ArrayLike

#: What a row is divided by.
RowNormalization: TypeAlias = Literal["l2", "l1", "signed-sum", "none"]
NORMALIZATIONS = ("l2", "l1", "signed-sum", "none")


def normalize_rows(x: ArrayLike, how: RowNormalization = "l2") -> np.ndarray:
    """Divide every row by its size; a row whose size is zero becomes (or stays) a row of zeros.

    Parameters
    ----------
    x : (N, F) array
    how : {"l2", "l1", "signed-sum", "none"}
        Euclidean length, sum of absolute values, or the plain sum. ``"signed-sum"`` is as published: with noise the sum can be
        near zero, and one row then outweighs all others; use it only to reproduce published results.

    Examples
    --------
    >>> from experiments import _noise as noise
    >>> noise.normalize_rows([[3.0, 4.0], [0.0, 0.0]])
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    array = checks.floats("x", x, ndim=(2,))
    checks.choice("how", how, NORMALIZATIONS)
    if how == "none":
        return array.copy()
    # the largest entry first: sums of squares of very small or large rows would leave float32
    peak = np.abs(array).max(axis=1, initial=0)
    array = array / np.where(peak > 0, peak, 1)[:, None]
    if how == "l2":
        size = np.sqrt(np.einsum("nf,nf->n", array, array))
    else:
        size = (array if how == "signed-sum" else np.abs(array)).sum(axis=1)
    inverse = np.divide(1, size, out=np.zeros_like(size), where=size != 0)
    array *= inverse[:, None]
    return array


def add_gaussian(x: ArrayLike, level: float, rng: np.random.Generator) -> np.ndarray:
    """``x + level * N(0, 1)``, independent for every entry."""
    array = checks.floats("x", x, ndim=(2,))
    level = checks.number("level", level, low=0)
    drawn = checks.generator(rng).standard_normal(array.shape, dtype=array.dtype.type)
    noisy: np.ndarray = array + array.dtype.type(level) * drawn
    return noisy


def flip(x: ArrayLike, probability: float, rng: np.random.Generator) -> np.ndarray:
    """Zero becomes one and anything else becomes zero, with this probability, independently for every entry.

    Examples
    --------
    >>> import numpy as np
    >>> from experiments import _noise as noise
    >>> noise.flip([[0.0, 1.0, 0.3]], 1.0, np.random.default_rng(0))
    array([[1., 0., 0.]])
    """
    array = checks.floats("x", x, ndim=(2,))
    probability = checks.number("probability", probability, low=0, high=1)
    flipped = checks.generator(rng).random(array.shape, dtype=np.float32) < probability
    noisy: np.ndarray = np.where(flipped, (array == 0).astype(array.dtype), array)
    return noisy
