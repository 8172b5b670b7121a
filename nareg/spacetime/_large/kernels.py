"""Compiled loops of the large model. Imported when first needed."""

from __future__ import annotations

import numpy as np
from numba import prange

from nareg._compiled import parallel


@parallel
def pair_sums(i, j, E):  # type: ignore[no-untyped-def]
    """``sum_t E[i, t] E[j, t]`` for every pair of rows."""
    out = np.empty(i.size)
    for e in prange(i.size):
        total = 0.0
        for t in range(E.shape[1]):
            total += E[i[e], t] * E[j[e], t]
        out[e] = total
    return out
