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
from nareg.spacetime._readings.cycles import (
    FEWEST_TOGETHER,
    LARGEST_EDGES,
    OWN,
    RANGES,
    SHARES,
    UNSURE,
    Cycles,
    Shrunk,
    shrunk_cycles,
)
from nareg.spacetime._sparse.field import FieldFamily, GraphField, neighborhood

if TYPE_CHECKING:
    from nareg.design import Elimination


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


#: Reaches in edges that a field of coefficients or of errors may have.
REACHES = tuple(LARGEST_EDGES * share for share in RANGES)
#: Stations whose coefficients choose among fields.
STATIONS = 3_000


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


class SparseShrinkage:
    """Shrinks towards fields of a family. A large network's are chosen where stations have most readings, ``counts`` (N,)."""

    def __init__(self, family: FieldFamily, counts: np.ndarray) -> None:
        self.fields = Fields(family)
        self.some: np.ndarray | None = None
        if family.n > STATIONS:
            self.some = neighborhood(family.L, counts, STATIONS)
            self.few = Fields(family.of(self.some))

    def _choosing(self, able: np.ndarray) -> tuple[Fields, slice | np.ndarray]:
        """Fields and stations by which to choose among fields, where some of all stations are ``able`` (N,) to."""
        if self.some is None or able[self.some].sum() < FEWEST_TOGETHER:
            return self.fields, slice(None)
        return self.few, self.some

    def error_model(self, unit: np.ndarray, comparable: np.ndarray) -> ErrorField:
        """Reach, size and own share of errors ``unit`` (N, J) of variance about one, of largest likelihood."""
        able = comparable & unit.any(axis=1)
        if able.sum() < FEWEST_TOGETHER:
            return ErrorField(0.0, 1.0, 1.0, np.zeros(able.size, dtype=bool))
        fields, stations = self._choosing(able)
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

    def choose(
        self, coefficients: np.ndarray, errors: np.ndarray, error_model: ErrorField, weights: np.ndarray
    ) -> tuple[SparseShrinkage, dict[int, float]]:
        """The same: this engine has no slopes."""
        return self, {}

    def __call__(
        self, b: np.ndarray, error: np.ndarray, error_model: ErrorField, unit: np.ndarray, rng: np.random.Generator
    ) -> Shrunk:
        """By the likeliest field. ``b`` (N,) are NaN where nothing is known, ``error`` (N,) their errors' variances.

        Draws are the errors of fields of this kind that were found from coefficients with errors ``unit`` (N, J) times their
        size.
        """
        n, known = b.size, np.isfinite(b)
        if not known.any():
            return Shrunk(np.zeros(n), 0.0, np.zeros(n), np.zeros(unit.shape))
        floor = 1e-12 * max(float(np.mean(b[known] ** 2)), 1e-300)
        v = np.where(known, np.maximum(np.where(known, error, 1.0), floor), 1.0)
        # a station that knows next to nothing of its coefficient sets neither the scale of the errors nor that of the field
        trust, typical = known / v, float(np.median(v[known]))
        center = float(trust @ np.where(known, b, 0.0) / trust.sum())
        z = np.where(known, b - center, 0.0)
        total = float(trust @ z**2 / trust.sum())
        if known.sum() < FEWEST_TOGETHER or total == 0:
            spread = np.where(known, v, 1 / trust.sum())
            return Shrunk(center + z, center, spread, unit * np.sqrt(spread)[:, None])
        sizes = [share / (1 - share) * typical for share in SHARES[:-1]] + [max(total, 30 * typical)]
        reach, variance = self._likeliest(z, v, known & (v <= UNSURE * typical), error_model, sizes)
        signal = self.fields.part(reach, variance)
        noise, own = error_model.times(v, self.fields, slice(None))
        model = self.fields.sum(signal + noise, known / own)
        drawn = np.zeros(unit.shape)
        for part in signal:
            drawn = np.sqrt(variance) * part.spatial.factor.solve(part.spatial.root_noise((unit.shape[1],), rng))
        read = np.column_stack([np.ones(n), z, drawn + np.sqrt(v)[:, None] * unit])
        by = model.solve(read).sum(axis=0)
        middle = by[1:] / by[0]  # the network's own, of the coefficients and of every draw
        signals = model.fields(read)[0] if signal else np.zeros(read.shape)
        left = 1 - signals[:, 0]
        levels = signals[:, 1:] + left[:, None] * middle
        # of the field given the coefficients, and of the network's own, which is estimated with them
        spread = left**2 / by[0] + (model.variances()[0] if signal else 0.0)
        return Shrunk(center + levels[:, 0], center + float(middle[0]), spread, drawn - levels[:, 1:])

    def _likeliest(
        self, z: np.ndarray, v: np.ndarray, sure: np.ndarray, error_model: ErrorField, sizes: list[float]
    ) -> tuple[float, float]:
        """Reach and variance of the field, by the coefficients of stations that are ``sure`` (N,)."""
        fields, stations = self._choosing(sure)
        z, v, sure = z[stations], v[stations], sure[stations]
        noise, own = error_model.times(v, fields, stations)
        best, result = np.inf, (0.0, 0.0)
        for reach in REACHES:
            for variance in sizes:
                model = fields.sum(fields.part(reach, variance) + noise, sure / own)
                solved = model.solve(np.column_stack([np.ones(z.size), z]))
                ones, both = solved.sum(axis=0)
                score = model.log_det + float(z @ solved[:, 1]) - both**2 / ones + float(np.log(ones))
                if score < best:
                    best, result = score, (reach, variance)
        return result


#: Draws of the coefficients' errors: many stations make up for few draws.
DRAWS = 2


def fit(
    y: np.ndarray, seconds: np.ndarray, step: float, dated: bool, family: FieldFamily, wanted: str | tuple[str, ...]
) -> Cycles:
    """Means and cycles of readings (T, N), NaN where missing. ``family`` is the field that coefficients are shrunk by.

    A place without a station has the network's own level: no dense correlation is stored.
    """
    shrinkage = SparseShrinkage(family, np.isfinite(y).sum(axis=0))
    return shrunk_cycles(y, seconds, step, dated, wanted, shrinkage, draws=DRAWS)
