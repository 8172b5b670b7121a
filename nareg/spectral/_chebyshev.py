"""Functions of a sparse Laplacian by Chebyshev polynomials: products with the matrix alone.

On ``[0, top]`` a kernel is ``sum_k c_k T_k(2 x / top - 1)``. The error of ``g(L) y`` is at most the largest error of the
polynomial on that interval times ``||y||`` (Hammond, Vandergheynst, Gribonval, Wavelets on graphs via spectral graph theory,
Applied and Computational Harmonic Analysis 2011).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.fft import dct

#: Points at which a kernel is sampled to find the order that it needs; the order stays below half of them.
SAMPLES = 4096

#: Frequencies (M,) to responses (F, M).
Response = Callable[[np.ndarray], np.ndarray]


def coefficients(response: Response, top: float, order: int) -> np.ndarray:
    """Chebyshev coefficients (F, order + 1) of the interpolant at ``order + 1`` Chebyshev points of ``[0, top]``."""
    points = order + 1
    nodes = np.cos(np.pi * (np.arange(points) + 0.5) / points)
    c = dct(response(0.5 * top * (nodes + 1)), type=2, axis=-1) / points
    c[:, 0] /= 2
    return c


def converged(response: Response, top: float, tol: float) -> np.ndarray | None:
    """The shortest coefficients whose left-out tail is below ``tol`` times the largest response; None beyond the limit."""
    c = coefficients(response, top, SAMPLES - 1)
    tails = np.cumsum(np.abs(c[:, ::-1]), axis=1)[:, ::-1]  # |T_k| is at most 1: a tail bounds what it leaves out
    scale = np.abs(response(np.linspace(0, top, 1000))).max()
    enough = (tails <= tol * max(scale, np.finfo(float).tiny)).all(axis=0)
    first = int(enough.argmax()) if enough.any() else SAMPLES
    return c[:, : max(first, 1)] if first <= SAMPLES // 2 else None


def analyze(L: sp.csr_array, c: np.ndarray, top: float, Y: np.ndarray) -> np.ndarray:
    """``p_f(L) Y`` for every row f of ``c``, (N, T, F), with one product per order for all of them."""
    out = np.multiply.outer(Y, c[:, 0])
    before, now = Y, _scaled(L, top, Y)
    for k in range(1, c.shape[1]):
        for f in np.flatnonzero(c[:, k]):
            out[..., f] += c[f, k] * now
        if k + 1 < c.shape[1]:
            before, now = now, 2 * _scaled(L, top, now) - before
    return out


def synthesize(L: sp.csr_array, c: np.ndarray, top: float, C: np.ndarray) -> np.ndarray:
    """``sum_f p_f(L) C[..., f]``, (N, T), by Clenshaw's recurrence."""
    later = after = np.zeros(C.shape[:2])
    for k in range(c.shape[1] - 1, 0, -1):
        later, after = C @ c[:, k] + 2 * _scaled(L, top, later) - after, later
    return C @ c[:, 0] + _scaled(L, top, later) - after


def _scaled(L: sp.csr_array, top: float, Y: np.ndarray) -> np.ndarray:
    """``(2 L / top - I) Y``."""
    return L @ (Y * (2 / top)) - Y
