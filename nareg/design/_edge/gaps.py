"""Inverses of a matrix without its data term at the nodes of a gap, for many patterns of gaps at once.

``P_t = (K - diag(c) at the missing nodes)^-1 = P + half_t^T half_t`` by Woodbury's formula. Patterns that miss the same number
of nodes are stacked, because one call of LAPACK per pattern takes longer than its arithmetic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Numbers in the largest array of a batch (16 MB).
LARGEST_BATCH = 2_000_000


@dataclass(frozen=True, eq=False)
class GapBatch:
    """p patterns that miss m nodes each, with t columns each."""

    members: list[int]  # positions of the patterns among all
    missing: np.ndarray  # (p, m) nodes
    c: np.ndarray  # (p, m) their data term
    b: np.ndarray  # (p, N, t)
    share: np.ndarray  # (p,) of all times


@dataclass(frozen=True, eq=False)
class Removed:
    """What a batch changes: ``P_t - P = half_t^T half_t``, (p, m, N), and how log-determinants of ``P^-1`` change."""

    half: np.ndarray
    log_det: np.ndarray

    def applied(self, P: np.ndarray, b: np.ndarray) -> np.ndarray:
        """``P_t b_t``, (p, N, t)."""
        product: np.ndarray = P @ b + np.swapaxes(self.half, 1, 2) @ (self.half @ b)
        return product


def batches(patterns: Sequence[tuple[np.ndarray, np.ndarray, float]], c: np.ndarray) -> tuple[GapBatch, ...]:
    """Patterns, each the nodes that were read (N,), columns (N, t) and its share of the times, stacked by their sizes."""
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for k, (seen, b, _) in enumerate(patterns):
        alike[int((~seen).sum()), b.shape[1]].append(k)
    result = []
    for (n_missing, width), members in alike.items():
        size = max(1, LARGEST_BATCH // (c.size * max(n_missing, width)))
        for start in range(0, len(members), size):
            part = members[start : start + size]
            some = [patterns[k] for k in part]
            missing = np.array([np.flatnonzero(~seen) for seen, _, _ in some], dtype=np.intp).reshape(len(some), n_missing)
            b = np.array([columns for _, columns, _ in some])
            result.append(GapBatch(part, missing, c[missing], b, np.array([share for _, _, share in some])))
    return tuple(result)


def without(P: np.ndarray, batch: GapBatch) -> Removed | None:
    """Remove the data term of a symmetric ``P^-1`` at the missing nodes; None where that is not positive definite."""
    rows = P[batch.missing]
    core = -P[batch.missing[:, :, None], batch.missing[:, None, :]]
    diagonal = np.arange(batch.missing.shape[1])
    core[:, diagonal, diagonal] += 1 / batch.c
    try:
        factor = np.linalg.cholesky(core)
    except np.linalg.LinAlgError:
        return None
    change = 2 * np.log(factor[:, diagonal, diagonal]).sum(axis=1) + np.log(batch.c).sum(axis=1)
    return Removed(np.linalg.inv(factor) @ rows, change)  # a fifth of the time of stacked solves, to the same digits
