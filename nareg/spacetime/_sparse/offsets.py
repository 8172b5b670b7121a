"""What readings of a large network leave of the errors of means and cycles.

The dense engine sends draws of these errors through every pass. Here a few are solved for once, while hidden readings are
predicted: what is left of them goes with what is left of the field's variance, and a curve of one over the other serves all
estimates and streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

#: Points of the curve.
POINTS = 20


@dataclass(frozen=True, eq=False)
class OffsetShares:
    """Share of the errors' variance that stays, as a curve over the share that stays of the field's."""

    field: np.ndarray  # (B,) increasing, from 0 to 1
    offset: np.ndarray  # (B,) never decreasing; at 1 it is 1
    known: np.ndarray  # (N,) bool: the station had readings; of the errors of others all stays

    def at(self, share: np.ndarray) -> np.ndarray:
        """Shares (..., N) where these shares of the field's variance stay."""
        return np.where(self.known, np.interp(share, self.field, self.offset), 1.0)


def everything(known: np.ndarray) -> OffsetShares:
    """Nothing is known of what stays, so all does."""
    return OffsetShares(np.array([0.0, 1.0]), np.ones(2), known)


def shares_of(parts: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], known: np.ndarray) -> OffsetShares:
    """The curve from parts of a record: shares (T, N) that stay of the field's variance; errors, and what stays, (T, N, J)."""
    field = np.concatenate([share[:, known].ravel() for share, _, _ in parts])
    before, after = (np.concatenate([(part[k][:, known] ** 2).sum(axis=-1).ravel() for part in parts]) for k in (1, 2))
    order = np.argsort(field, kind="stable")
    groups = np.array_split(order, min(POINTS, order.size))
    sums = np.array([[field[g].mean(), before[g].sum(), after[g].sum()] for g in groups]).reshape(-1, 3)
    sums = sums[(sums[:, 1] > 0) & (sums[:, 0] > 0) & (sums[:, 0] < 1)]
    if not len(sums):
        return everything(known)
    place, index = np.unique(sums[:, 0], return_index=True)
    before, after = sums[index, 1:].T
    share = isotonic_regression(np.minimum(after / before, 1.0), weights=before).x
    return OffsetShares(np.concatenate([[0.0], place, [1.0]]), np.concatenate([share[:1], share, [1.0]]), known)
