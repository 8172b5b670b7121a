"""Random probes for traces: ``E[Z Z^T] = P I``, with like signs kept apart on the graph.

Hutchinson's estimate of ``tr(F^T F)`` with independent signs errs by the products ``(F^T F)_ij`` of all pairs of
nodes. A filter decays with distance on the graph, so that nearly all of that comes from near pairs. Here the nodes
are colored with P classes, near nodes to different ones, and probe p is ``sqrt(P)`` times random signs on class p: a
pair errs only if it shares a class (probing, after Tang and Saad 2012).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def probes(L: sp.csr_array, count: int, rng: np.random.Generator) -> np.ndarray:
    """(N, count) probes, one non-zero in every row."""
    from nareg.design._risk import kernels  # numba: imported when first needed

    n = L.shape[0]
    order = rng.permutation(n)
    tie = rng.permuted(np.tile(np.arange(count), n // count + 1))[:n]
    label = kernels.color_nodes(L.indptr, L.indices, order, tie, count)
    Z = np.zeros((n, count))
    Z[np.arange(n), label] = np.sqrt(count) * rng.choice([-1.0, 1.0], size=n)
    return Z
