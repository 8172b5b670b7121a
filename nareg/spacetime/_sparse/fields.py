"""Readings of a sum of fields: ``z = sum_b load_b f_b + e``, where every f_b has a sparse precision and e independent errors.

Their covariance ``S = sum_b diag(load_b) C_b diag(load_b) + V`` is never formed. With the fields' joint precision
``A = blockdiag(C_b^-1) + F^T V^-1 F`` and ``F = [diag(load_1), ...]``, ``S^-1 = V^-1 - V^-1 F A^-1 F^T V^-1`` and
``log det S = log det A + sum_b log det C_b + log det V`` (Rue and Held 2005, section 2.3). A has one sparse factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import scipy.sparse as sp

from nareg._linear.factorization import superlu
from nareg.design._edge.elimination import Elimination
from nareg.errors import SolverError
from nareg.results import symmetric_from_entries
from nareg.spacetime._sparse.field import FieldFamily, GraphField


@dataclass(frozen=True, eq=False)
class Part:
    """A field of this variance, which readings see times ``load`` (N,)."""

    spatial: GraphField
    variance: float
    load: np.ndarray


class Stack:
    """Pattern of the joint precision of ``count`` fields of one family that the same readings see."""

    def __init__(self, family: FieldFamily, count: int) -> None:
        self.family, self.count, n = family, count, family.n
        self.pairs = list(combinations(range(count), 2))
        nodes = np.arange(n)
        self.i = np.concatenate([family.i + b * n for b in range(count)] + [nodes + a * n for a, _ in self.pairs])
        self.j = np.concatenate([family.j + b * n for b in range(count)] + [nodes + b * n for _, b in self.pairs])

    @cached_property
    def elimination(self) -> Elimination:
        return self.family.elimination if self.count == 1 else Elimination(self.count * self.family.n, self.i, self.j)

    def entries(self, parts: Sequence[Part], weights: np.ndarray) -> np.ndarray:
        """The precision's diagonal, then its entries at (i, j), given readings with errors of variance ``1 / weights`` (N,)."""
        n = self.family.n
        own = [part.spatial.entries / part.variance for part in parts]
        pairs = [parts[a].load * parts[b].load * weights for a, b in self.pairs]
        diagonals = [entries[:n] + part.load**2 * weights for entries, part in zip(own, parts, strict=True)]
        return np.concatenate([*diagonals, *(entries[n:] for entries in own), *pairs])


class Sum:
    """Readings of a sum of parts of one family with errors of variance ``1 / weights`` (N,); 0 where there is no reading."""

    def __init__(self, parts: Sequence[Part], weights: np.ndarray, stacks: dict[int, Stack]) -> None:
        self.parts, self.weights = parts, weights
        #: Log-determinant of the readings' covariance S.
        self.log_det = -float(np.log(weights[weights > 0]).sum())
        if parts:
            self._stack = stacks[len(parts)]
            self._entries = self._stack.entries(parts, weights)
            lu = superlu(sp.csc_array(symmetric_from_entries(self._entries, self._stack.i, self._stack.j)))
            pivots = None if lu is None else lu.U.diagonal()
            if lu is None or pivots is None or not (pivots > 0).all():
                raise SolverError("the fields of the stations' coefficients are not positive definite in float64.")
            self._lu = lu
            self.log_det += float(np.log(pivots).sum())
            self.log_det += sum(weights.size * float(np.log(p.variance)) - p.spatial.log_det for p in parts)

    def fields(self, z: np.ndarray) -> np.ndarray:
        """Means (B, N, J) of the fields given readings (N, J)."""
        right = np.concatenate([(part.load * self.weights)[:, None] * z for part in self.parts])
        result: np.ndarray = self._lu.solve(right).reshape(len(self.parts), *z.shape)
        return result

    def solve(self, z: np.ndarray) -> np.ndarray:
        """``S^-1 z`` of readings (N, J); 0 where there is no reading."""
        rest = z
        if self.parts:
            rest = z - np.einsum("bn,bnj->nj", [part.load for part in self.parts], self.fields(z))
        return self.weights[:, None] * rest

    def variances(self) -> np.ndarray:
        """Variances (B, N) of the fields given readings."""
        how = self._stack.elimination
        done = how.factor(self._entries)
        if done is None:
            raise SolverError("the fields of the stations' coefficients are not positive definite in float64.")
        size = len(self.parts) * self.weights.size
        return how.inverse_entries(done[1])[:size].reshape(len(self.parts), -1)
