"""Fast Walsh-Hadamard transform, and the sketch that mixes rows by it and samples them (SRHT).

    H_1 = 1,   H_2m = [[H_m, H_m], [H_m, -H_m]] / sqrt(2)              symmetric and orthonormal
    SRHT(Q) = sqrt(m / s) S H_m R Q        R random signs, S a choice of s of m rows        (HERTA, Appendix A.3)

so that ``SRHT(Q)^T SRHT(Q)`` has ``Q^T Q`` as its mean. Q is padded with rows of zeros to the next power of two.
"""

from __future__ import annotations

import numpy as np

from nareg._core import checks
from nareg._core.arrays import Array
from nareg.errors import InputError


def transform(Q: Array) -> Array:
    """Orthonormal Walsh-Hadamard transform of the columns of an (m, ...) array or tensor, m a power of two.

    Takes ``m log2(m)`` additions per column. Transforming twice gives Q.

    Raises
    ------
    InputError
        If m is not a power of two.

    Examples
    --------
    >>> import numpy as np
    >>> from nareg.herta import _hadamard as hadamard
    >>> hadamard.transform(np.array([1.0, 0.0, 0.0, 0.0]))
    array([0.5, 0.5, 0.5, 0.5])
    """
    m = Q.shape[0]
    if m == 0 or m & (m - 1):
        raise InputError(f"Q has {m} rows: the transform needs a power of two; append rows of zeros.")
    if isinstance(Q, np.ndarray):
        Q = checks.floats("Q", Q, ndim=range(1, 4), finite=False)
        out = Q * Q.dtype.type(1 / np.sqrt(m))
    else:
        out = Q * (1 / np.sqrt(m))
    half = 1
    while half < m:
        pairs = out.reshape(m // (2 * half), 2, half, *Q.shape[1:])
        top, bottom = pairs[:, 0], pairs[:, 1]
        # in place: (a, b) <- (a + b, a - b) as a <- a + b, b <- a - 2 b
        top += bottom
        bottom *= -2
        bottom += top
        half *= 2
    return out


class SRHT:
    """A fixed subsampled randomized Hadamard transform of rows.

    Parameters
    ----------
    n_rows : int
        Rows of the matrix to sketch.
    size : int
        Rows of the sketch, s; at most the next power of two above ``n_rows``.
    rng : numpy.random.Generator

    Examples
    --------
    >>> import numpy as np
    >>> from nareg.herta._hadamard import SRHT
    >>> rng = np.random.default_rng(0)
    >>> Q = rng.standard_normal((1000, 3))
    >>> sketch = SRHT(1000, 200, rng=rng)(Q)
    >>> sketch.shape, bool(np.linalg.norm(sketch.T @ sketch - Q.T @ Q) < 0.3 * np.linalg.norm(Q.T @ Q))
    ((200, 3), True)
    """

    def __init__(self, n_rows: int, size: int, *, rng: np.random.Generator) -> None:
        n_rows, size = checks.integer("n_rows", n_rows, low=1), checks.integer("size", size, low=1)
        rng = checks.generator(rng)
        self.length = self.max_size(n_rows)
        if size > self.length:
            raise InputError(f"size is {size}, but a sketch of {n_rows} rows has at most {self.length}: pass a smaller size.")
        self.signs = rng.choice([-1.0, 1.0], n_rows)
        self.rows = np.sort(rng.choice(self.length, size, replace=False))

    @staticmethod
    def max_size(n_rows: int) -> int:
        """The next power of two: the most rows of a sketch."""
        return 1 << (n_rows - 1).bit_length()

    def __call__(self, Q: Array) -> Array:
        """Sketch of an (n_rows, F) array or tensor: (size, F), of its type and dtype."""
        n, scale = self.signs.size, np.sqrt(self.length / self.rows.size)
        if Q.shape[0] != n:
            raise InputError(f"Q has {Q.shape[0]} rows, but this sketch is for {n}: make one for Q.")
        if isinstance(Q, np.ndarray):
            Q = checks.floats("Q", Q, ndim=(2,), finite=False)
            padded = np.zeros((self.length, *Q.shape[1:]), Q.dtype)
            padded[:n] = Q * self.signs[:, None].astype(Q.dtype)
            return transform(padded)[self.rows] * Q.dtype.type(scale)
        import torch

        padded = Q.new_zeros((self.length, *Q.shape[1:]))
        padded[:n] = Q * torch.as_tensor(self.signs, dtype=Q.dtype, device=Q.device)[:, None]
        return transform(padded)[torch.as_tensor(self.rows, device=Q.device)] * float(scale)
