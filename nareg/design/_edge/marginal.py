"""The marginal likelihood of edge weights: from noisy readings alone, with gaps.

For ``x_t ~ N(0, Theta^-1)`` and noise of variances sigma^2, with ``C_t`` holding ``1 / sigma_i^2`` where node i was read at
time t and zero elsewhere, ``b_t = C_t y_t``, ``P_t = (Theta + C_t)^-1`` and ``m_t = P_t b_t``, twice the negative
log-likelihood per time is, without constants,

    f = mean_t (log det(Theta + C_t) - log det Theta - b_t^T m_t)
    df/dTheta = mean_t (P_t + m_t m_t^T) - Theta^-1

and its expected Hessian ``mean_t (v_k^T G_t v_l)^2`` with ``G_t = Theta^-1 - P_t``: what a clean signal would tell has
``Theta^-1`` in the place of G. The function is not convex.

Inverses of a matrix without its data term at the nodes of a gap, for many patterns of gaps at once.

``P_t = (K - diag(c) at the missing nodes)^-1 = P + half_t^T half_t`` by Woodbury's formula. Patterns that miss the same number
of nodes are stacked, because one call of LAPACK per pattern takes longer than its arithmetic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nareg.design._edge.cone import ConePoint, cone_floor, inverse
from nareg.design._edge.support import Support
from nareg.design._risk.descent import DescentResult
from nareg.design._risk.newton import Limits, newton

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
        return P @ b + np.swapaxes(self.half, 1, 2) @ (self.half @ b)


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


MAX_ITERATIONS = 100


@dataclass(frozen=True)
class EqualGaps:
    """Times at which the same nodes were read: the mask (N,), and ``b_t`` as columns (N, t)."""

    seen: np.ndarray
    b: np.ndarray

    @property
    def compressed(self) -> np.ndarray:
        """At most N columns with the same ``sum_t b_t b_t^T``."""
        if self.b.shape[1] <= self.b.shape[0]:
            return self.b
        left, singular, _ = np.linalg.svd(self.b, full_matrices=False)
        return left * singular


def patterns(Y: np.ndarray, seen: np.ndarray | None, c: np.ndarray) -> list[EqualGaps]:
    """Readings (N, T), zero where missing, by the nodes that were read; times without any reading tell nothing."""
    b = c[:, None] * Y
    if seen is None:
        return [EqualGaps(np.ones(c.size, dtype=bool), b)]
    masks, group = np.unique(seen, axis=1, return_inverse=True)
    group = group.ravel()
    return [EqualGaps(masks[:, k], b[:, group == k]) for k in range(masks.shape[1]) if masks[:, k].any()]


@dataclass(frozen=True)
class MarginalPoint(ConePoint):
    """A point with ``P = Theta^-1``, the mean of ``P_t``, and that of ``m_t m_t^T``."""

    posterior: np.ndarray
    means: np.ndarray


@dataclass(frozen=True)
class MarginalObjective:
    """``(1 - a) f + a (tr(Theta R) - log det Theta)``: a proximal step from the precision matrix ``R^-1``."""

    support: Support
    c: np.ndarray
    gaps: tuple[GapBatch, ...]
    n_patterns: int
    n_times: int
    R: np.ndarray
    a: float
    label: str = "damped Newton"

    @classmethod
    def of(cls, support: Support, c: np.ndarray, readings: list[EqualGaps]) -> MarginalObjective:
        """F itself."""
        n_times = sum(p.b.shape[1] for p in readings)
        gaps = batches([(p.seen, p.compressed, p.b.shape[1] / n_times) for p in readings], c)
        return cls(support, c, gaps, len(readings), n_times, np.zeros((support.n, support.n)), 0.0)

    def at(self, u: np.ndarray) -> MarginalPoint | None:
        Theta = self.support.matrix(u)
        prior, whole = inverse(Theta), self._full(Theta)
        if prior is None or whole is None:
            return None
        P, log_det = whole
        posterior, means, value = np.zeros_like(Theta), np.zeros_like(Theta), log_det
        for batch in self.gaps:
            removed = without(P, batch)
            if removed is None:
                return None
            half = (np.sqrt(batch.share)[:, None, None] * removed.half).reshape(-1, self.support.n)
            posterior += half.T @ half
            m = removed.applied(P, batch.b)
            columns = np.moveaxis(m, 0, 1).reshape(self.support.n, -1)
            means += columns @ columns.T / self.n_times
            value += float(batch.share @ removed.log_det) - float(np.sum(batch.b * m)) / self.n_times
        posterior += P  # the shares add up to one
        value = (1 - self.a) * (value - prior[1]) + self.a * (float(np.sum(Theta * self.R)) - prior[1])
        # a likelihood moves with the unit of the readings: what counts is its change per node
        return MarginalPoint(u, value, float(self.support.n), prior[0], posterior, means)

    def value_and_slope(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        """F and its gradient; infinite outside the cone."""
        point = self.at(u)
        return (np.inf, np.zeros_like(u)) if point is None else (point.value, self.slope(point))

    def step(self, u: np.ndarray, a: float, *, nonnegative: bool, tolerance: float) -> DescentResult:
        """Minimize ``(1 - a) f + a (tr(Theta R) - log det Theta)`` with ``R = Theta(u)^-1``."""
        prior = inverse(self.support.matrix(u))
        assert prior is not None
        objective = replace(self, R=prior[0], a=a)
        return newton(objective, u, Limits(cone_floor(nonnegative), tolerance=tolerance, max_iterations=MAX_ITERATIONS))

    def _full(self, Theta: np.ndarray) -> tuple[np.ndarray, float] | None:
        K = Theta.copy()
        K[np.diag_indices_from(K)] += self.c
        return inverse(K)

    def slope(self, point: ConePoint) -> np.ndarray:
        assert isinstance(point, MarginalPoint)
        return self.support.gather((1 - self.a) * (point.posterior + point.means) + self.a * self.R - point.P)

    def gauss_newton(self, point: ConePoint) -> np.ndarray:
        """The expected Hessian, lower triangle; with gaps that of the mean ``G_t``, which is at most that."""
        assert isinstance(point, MarginalPoint)
        G = point.P - point.posterior
        return self.support.products(((1 - self.a) * G, G), (self.a * point.P, point.P))

    def curvature(self, point: ConePoint) -> tuple[np.ndarray, np.ndarray]:
        assert isinstance(point, MarginalPoint)
        expected = self.gauss_newton(point)
        if self.n_patterns > 1:
            return np.diagonal(expected), expected
        # all times share P_t: d (P + m m^T) = -(P E P + P E m m^T + m m^T E P)
        whole = self.support.products(
            (point.P, point.P),
            ((self.a - 1) * point.posterior, point.posterior),
            (2 * (self.a - 1) * point.means, point.posterior),
        )
        return np.diagonal(expected), whole

    def deviances(self, u: np.ndarray, readings: list[EqualGaps]) -> np.ndarray:
        """F of every time of other readings, in the order of their patterns."""
        Theta = self.support.matrix(u)
        prior, whole = inverse(Theta), self._full(Theta)
        assert prior is not None
        assert whole is not None
        P, log_det = whole
        parts: dict[int, np.ndarray] = {}
        for batch in batches([(p.seen, p.b, 1.0) for p in readings], self.c):
            removed = without(P, batch)
            assert removed is not None
            explained = np.einsum("pit,pit->pt", batch.b, removed.applied(P, batch.b))
            deviances = log_det - prior[1] + removed.log_det[:, None] - explained
            parts |= zip(batch.members, deviances, strict=True)
        return np.concatenate([parts[k] for k in range(len(readings))])
