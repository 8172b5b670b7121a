"""The removal of an edge as a matrix of rank 2 (L + 1): ``Z' = Z + left right``, without touching a row of Z.

``delta q_l = sum_t (A' D'^-1)^(l-t) (A' D'^-1 - A D^-1) q_(t-1)``, and ``A' D'^-1 - A D^-1`` has two columns that are not zero,
those of the edge's ends u and v. So the right factors are the ends' rows of ``q_0, ..., q_(L-1)`` and of S (whose rows are
rescaled), and the left ones are sparse vectors around u and v that do not depend on the features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nareg.errors import InputError
from nareg.unlearning.propagation.base import Embedding
from nareg.unlearning.propagation.exact import Propagation


@dataclass(frozen=True, eq=False)
class EdgeFactors:
    """``Z'[nodes] = Z[nodes] + left right``; other rows stay as they are.

    Attributes
    ----------
    nodes : (K,) array
        Within L hops of the ends.
    left : (K, 2 (L + 1)) array
    right : (2 (L + 1), F) array
    """

    nodes: np.ndarray
    left: np.ndarray
    right: np.ndarray

    def apply(self, W: np.ndarray) -> np.ndarray:
        """``(Z' - Z) W`` at ``nodes``: how scores change, for ``2 (L + 1)`` products with W."""
        product: np.ndarray = self.left @ (self.right @ W)
        return product

    def transposed_apply(self, R: np.ndarray) -> np.ndarray:
        """``(Z' - Z)^T R`` for rows of R at ``nodes``: how gradients ``Z^T l'(Z W)`` change, beside what R itself does."""
        product: np.ndarray = self.right.T @ (self.left.T @ R)
        return product


def edge_factors(propagation: Embedding, edge: Any) -> EdgeFactors:
    """What the removal of one edge would do to the embedding; nothing is changed.

    Parameters
    ----------
    propagation : Propagation
        Exact; an approximate one is refused, because factors contain no residues.
    edge : (u, v)

    Raises
    ------
    InputError
    """
    if not isinstance(propagation, Propagation):
        raise InputError("factors are for exact propagation: fit with r_max=0.")
    graph = propagation.graph
    pair = graph.checked_pairs("edge", edge, present=True)
    if len(pair) != 1:
        raise InputError(f"edge has {len(pair)} pairs: one (u, v) is expected.")
    ends = pair[0]
    nodes, left = propagation.scratch.left_factors(ends, propagation.weights)
    return EdgeFactors(nodes, left, np.concatenate([propagation.rows(end) for end in ends]))
