"""Weights shared by groups of nodes: fewer unknowns where there are few training data."""

from __future__ import annotations

from typing import Any

import numpy as np

from nareg._core import checks
from nareg.design._risk.descent import ValueAndGradient
from nareg.errors import InputError


class Groups:
    """A map from node weights to the weights of their groups; without labels every node is its own."""

    def __init__(self, labels: Any, n_nodes: int) -> None:
        if labels is None:
            self.index, self.count = None, n_nodes
            return
        array = checks.array_of("groups", labels)
        if array.shape != (n_nodes,):
            raise InputError(f"groups has shape {array.shape}, expected ({n_nodes},), one label per node.")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"groups[{int(np.argmin(np.isfinite(array)))}] is not finite: give every node a label.")
        names, index = np.unique(array, return_inverse=True)
        self.index, self.count = index.ravel(), names.size

    def ordered(self, order: np.ndarray) -> Groups:
        """The same groups of nodes in another order."""
        return self if self.index is None else Groups(self.index[order], order.size)

    def expand(self, v: np.ndarray) -> np.ndarray:
        """Weight of every node."""
        return v if self.index is None else v[self.index]

    def reduce(self, gradient: np.ndarray) -> np.ndarray:
        """Gradient in the groups' weights: sums over their nodes."""
        return gradient if self.index is None else np.bincount(self.index, gradient, self.count)

    def reduce_start(self, w: np.ndarray) -> np.ndarray:
        """Start for the groups' weights: means over their nodes."""
        return w if self.index is None else np.bincount(self.index, w, self.count) / np.bincount(self.index)

    def bounds(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds that hold for every node of a group."""
        if self.index is None:
            return lower, upper
        low, high = np.zeros(self.count), np.full(self.count, np.inf)
        np.maximum.at(low, self.index, lower)
        np.minimum.at(high, self.index, upper)
        self.refuse_crossed(low, high)
        return low, high

    @staticmethod
    def refuse_crossed(low: np.ndarray, high: np.ndarray) -> None:
        """A group whose nodes allow no common weight."""
        if (low > high).any():
            raise InputError("lower and upper cross within a group: nodes that share a weight must allow a common one.")

    def tied(self, function: ValueAndGradient) -> ValueAndGradient:
        """The function of node weights as one of the groups' weights."""
        if self.index is None:
            return function

        def of_groups(v: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = function(self.expand(v))
            return value, self.reduce(gradient)

        return of_groups
