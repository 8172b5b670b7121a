"""Station means and smooth cycles of large networks: those of ``_readings.cycles``, shrunk with sparse precisions.

Coefficients are ``z = common + f + sqrt(v) (h + e)``: f the field that is wanted, h a field that slow weather gives the
errors of neighbors, e an error of the station's own. Reach, size and own share of h are those of largest likelihood for errors
themselves (coefficients where there is weather and noise but no cycle), then reach and variance of f for the coefficients.

Readings of a sum of fields: ``z = sum_b load_b f_b + e``, where every f_b has a sparse precision and e independent errors.

Their covariance ``S = sum_b diag(load_b) C_b diag(load_b) + V`` is never formed. With the fields' joint precision
``A = blockdiag(C_b^-1) + F^T V^-1 F`` and ``F = [diag(load_1), ...]``, ``S^-1 = V^-1 - V^-1 F A^-1 F^T V^-1`` and
``log det S = log det A + sum_b log det C_b + log det V`` (Rue and Held 2005, section 2.3). A has one sparse factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from nareg._solvers.factorization import superlu
from nareg.errors import SolverError
from nareg.results import symmetric_from_entries
from nareg.spacetime._readings.coefficients import (
    FEWEST_TOGETHER,
    LARGEST_EDGES,
    OWN,
    RANGES,
    NoisyCoefficient,
    Shrinkage,
    Shrunk,
)
from nareg.spacetime._sparse.field import FieldFamily, GraphField, eliminated, neighborhood

if TYPE_CHECKING:
    from nareg.design import Elimination

#: What is said of fields without a factor.
NOT_DEFINITE = "the fields of the stations' coefficients are not positive definite in float64."


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
        from nareg.design import Elimination

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
                raise SolverError(NOT_DEFINITE)
            self._lu = lu
            self.log_det += float(np.log(pivots).sum())
            self.log_det += sum(weights.size * float(np.log(p.variance)) - p.spatial.log_det for p in parts)

    def fields(self, z: np.ndarray) -> np.ndarray:
        """Means (B, N, J) of the fields given readings (N, J)."""
        right = np.concatenate([(part.load * self.weights)[:, None] * z for part in self.parts])
        return self._lu.solve(right).reshape(len(self.parts), *z.shape)

    def solve(self, z: np.ndarray) -> np.ndarray:
        """``S^-1 z`` of readings (N, J); 0 where there is no reading."""
        rest = z
        if self.parts:
            rest = z - np.einsum("bn,bnj->nj", [part.load for part in self.parts], self.fields(z))
        return self.weights[:, None] * rest

    def variances(self) -> np.ndarray:
        """Variances (B, N) of the fields given readings."""
        how = self._stack.elimination
        _, data = eliminated(how, self._entries, NOT_DEFINITE)
        size = len(self.parts) * self.weights.size
        return how.inverse_entries(data)[:size].reshape(len(self.parts), -1)


#: Reaches in edges that a field of coefficients or of errors may have.
REACHES = tuple(LARGEST_EDGES * share for share in RANGES)
#: Stations whose coefficients choose among fields.
STATIONS = 3_000
#: Parts of the stations, each of which is left out once to judge covariates.
FOLDS = 10


class Fields:
    """The fields of a family that coefficients and their errors may have, each found once."""

    def __init__(self, family: FieldFamily) -> None:
        self.family = family
        self.stacks = {count: Stack(family, count) for count in (1, 2)}
        self._found: dict[float, GraphField] = {}

    def at(self, reach: float) -> GraphField:
        if reach not in self._found:
            self._found[reach] = self.family.at(reach)
        return self._found[reach]

    def part(self, reach: float, variance: float, load: np.ndarray | None = None) -> list[Part]:
        """A field as part of a sum, or none where it has no variance."""
        return [Part(self.at(reach), variance, np.ones(self.family.n) if load is None else load)] if variance > 0 else []

    def sum(self, parts: list[Part], weights: np.ndarray) -> Sum:
        return Sum(parts, weights, self.stacks)


@dataclass(frozen=True, eq=False)
class ErrorField:
    """Errors of variance about one: ``size ((1 - own) C + own I)`` between ``comparable`` stations, independent at others."""

    reach: float
    own: float
    size: float
    comparable: np.ndarray  # (N,) bool

    def times(self, v: np.ndarray, fields: Fields, stations: slice | np.ndarray) -> tuple[list[Part], np.ndarray]:
        """For errors of variances ``v`` of some stations, with their ``fields``: the field, and variances of their own part."""
        comparable = self.comparable[stations]
        field = fields.part(self.reach, self.size * (1 - self.own), np.sqrt(v) * comparable)
        return field, v * np.where(comparable, self.size * self.own, 1.0)


class SparseShrinkage(Shrinkage):
    """Towards fields of a family. A large network's are chosen where stations have most readings, ``counts`` (N,).

    A place without a station has the network's own level: no dense correlation is stored.
    """

    draws = 2  # many stations make up for few

    def __init__(self, family: FieldFamily, counts: np.ndarray, z: np.ndarray | None = None) -> None:
        self.fields = Fields(family)
        self.z = np.empty((family.n, 0)) if z is None else z
        self.part: np.ndarray | None = None
        if family.n > STATIONS:
            self.part = neighborhood(family.L, counts, STATIONS)
            self.few = Fields(family.of(self.part))

    def choosing(self, able: np.ndarray) -> tuple[Fields, slice | np.ndarray]:
        """Fields and stations by which to choose among fields, where some of all stations are ``able`` (N,) to."""
        if self.part is None or able[self.part].sum() < FEWEST_TOGETHER:
            return self.fields, slice(None)
        return self.few, self.part

    def error_model(self, unit: np.ndarray, comparable: np.ndarray) -> ErrorField:
        """Reach, size and own share."""
        able = comparable & unit.any(axis=1)
        if able.sum() < FEWEST_TOGETHER:
            return ErrorField(0.0, 1.0, 1.0, np.zeros(able.size, dtype=bool))
        fields, stations = self.choosing(able)
        seen = able[stations].astype(float)
        u, count = unit[stations] * seen[:, None], int(seen.sum())
        best, result = np.inf, ErrorField(0.0, 1.0, 1.0, able)
        for reach in REACHES:
            for own in OWN:
                model = fields.sum(fields.part(reach, 1 - own), seen / own)
                size = float(np.sum(u * model.solve(u))) / (u.shape[1] * count)
                score = model.log_det + count * np.log(max(size, 1e-300))
                if score < best:
                    best, result = score, ErrorField(reach, own, size, able)
        return result

    def noisy(self, b: np.ndarray, error: np.ndarray, error_model: ErrorField) -> SparseCoefficient:
        return SparseCoefficient(self, b, error, error_model)


def effects_of(model: Sum, h: np.ndarray, priors: np.ndarray, read: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Covariance (1 + C, 1 + C) of what all stations share and of slopes, ``h`` (N, 1 + C) times which readings see, and both.

    ``priors`` (C,) are variances of the slopes, and ``read`` (N, J) readings: the result has a column for each.
    """
    inverse = np.linalg.inv(h.T @ model.solve(h) + np.diag([0.0, *(1 / priors)]))
    return inverse, inverse @ (h.T @ model.solve(read))


class SparseCoefficient(NoisyCoefficient):
    """Of many stations, by the precisions of fields."""

    def __init__(self, shrinkage: SparseShrinkage, b: np.ndarray, error: np.ndarray, error_model: ErrorField) -> None:
        super().__init__(b, error, shrinkage.z)
        self.shrinkage, self.error_model = shrinkage, error_model

    @cached_property
    def fields(self) -> list[tuple[tuple[float, float, float], float, np.ndarray]]:
        sure = self.sure
        fields, stations = self.shrinkage.choosing(sure)
        noise, own = self.error_model.times(self.errors[stations], fields, stations)
        sides = np.column_stack([np.ones(own.size), self.values[stations], self.z[stations]])
        result = []
        for reach in REACHES:
            for variance in self.variances:
                model = fields.sum(fields.part(reach, variance) + noise, sure[stations] / own)
                result.append(((reach, variance, 0.0), model.log_det, sides.T @ model.solve(sides)))
        return result

    def left_out(self, some: Sequence[int]) -> np.ndarray:
        (reach, variance, _), priors = self.likeliest(some)
        fields, stations = self.shrinkage.choosing(self.known)
        noise, own = self.error_model.times(self.errors[stations], fields, stations)
        parts, known, values = fields.part(reach, variance) + noise, self.known[stations], self.values[stations]
        z = self.z[stations][:, [c for c, prior in zip(some, priors, strict=True) if prior > 0]]
        h, result = np.column_stack([np.ones(own.size), z]), np.zeros(own.size)
        fold = np.random.default_rng(0).integers(FOLDS, size=own.size)
        for f in range(FOLDS):
            out = known & (fold == f)
            model = fields.sum(parts, np.where(known & ~out, 1 / own, 0.0))
            said = h @ effects_of(model, h, priors[priors > 0], values[:, None])[1]
            if parts:
                rest = values[:, None] - said
                said = said + np.einsum("bn,bnj->nj", [part.load for part in parts], model.fields(rest))
            result[out] = (values - said[:, 0])[out]
        errors = np.zeros(self.known.size)
        errors[stations] = result
        return errors

    def estimate(self, some: Sequence[int], unit: np.ndarray, rng: np.random.Generator) -> Shrunk:
        known, v, fields = self.known, self.errors, self.shrinkage.fields
        n, C = self.z.shape
        slopes, variances = np.zeros(C), np.zeros(C)
        (reach, variance, _), variances[list(some)] = self.likeliest(some)
        signal, used = fields.part(reach, variance), np.flatnonzero(variances)
        noise, own = self.error_model.times(v, fields, slice(None))
        model = fields.sum(signal + noise, known / own)
        drawn = np.zeros(unit.shape)
        for part in signal:
            drawn = np.sqrt(variance) * part.spatial.factor.solve(part.spatial.root_noise((unit.shape[1],), rng))
        if used.size:
            drawn += (self.z[:, used] * np.sqrt(variances[used])) @ rng.standard_normal((used.size, unit.shape[1]))
        # what all stations share, and slopes, which the coefficients and every draw of them tell
        h = np.column_stack([np.ones(n), self.z[:, used]])
        read = np.column_stack([h, self.values, drawn + np.sqrt(v)[:, None] * unit])
        inverse, effects = effects_of(model, h, variances[used], read)
        signals = model.fields(read)[0] if signal else np.zeros(read.shape)
        left = h - signals[:, : h.shape[1]]
        effects = effects[:, h.shape[1] :]
        levels = signals[:, h.shape[1] :] + left @ effects
        # of the field given the coefficients, and of the effects, which are estimated with them
        spread = np.einsum("ni,ij,nj->n", left, inverse, left) + (model.variances()[0] if signal else 0.0)
        slopes[used] = effects[1:, 0]
        level, common = self.center + levels[:, 0], self.center + float(effects[0, 0])
        return Shrunk(level, common, spread, drawn - levels[:, 1:], slopes, variances)
