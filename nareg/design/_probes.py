"""Random probes for traces: ``E[Z Z^T] = P I``, with like signs kept apart on the graph.

Hutchinson's estimate of ``tr(F^T F)`` with independent signs errs by the products ``(F^T F)_ij`` of all pairs of
nodes. A filter decays with distance on the graph, so that nearly all of that comes from near pairs. Here the nodes
are dealt to P classes, near nodes to different ones, and probe p is ``sqrt(P)`` times random signs on class p: a
pair errs only if it shares a class (probing, after Tang and Saad 2012).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numba import njit


def probes(L: sp.csr_array, count: int, rng: np.random.Generator) -> np.ndarray:
    """(N, count) probes, one non-zero in every row."""
    n = L.shape[0]
    label = _deal(L.indptr, L.indices, rng.permutation(n), rng.permuted(np.tile(np.arange(count), (n // count + 1)))[:n], count)
    Z = np.zeros((n, count))
    Z[np.arange(n), label] = np.sqrt(count) * rng.choice([-1.0, 1.0], size=n)
    return Z


@njit(cache=True)
def _deal(indptr, indices, order, tie, count):  # type: ignore[no-untyped-def]
    """A class for every node: the one met least among its neighbours (twice) and theirs (once), at most 200 a node."""
    n = indptr.size - 1
    label = np.full(n, -1)
    met = np.zeros(count)
    for i in order:
        met[:] = 0.0
        looked = 0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j != i and label[j] >= 0:
                met[label[j]] += 2.0
            for f in range(indptr[j], indptr[j + 1]):
                k = indices[f]
                if k != i and label[k] >= 0:
                    met[label[k]] += 1.0
            looked += indptr[j + 1] - indptr[j]
            if looked > 200:
                break
        # ties are broken at random, each class equally often
        best = tie[i]
        for step in range(count):
            p = (tie[i] + step) % count
            if met[p] < met[best]:
                best = p
        label[i] = best
    return label
