"""The marginal likelihood of edge weights on large networks: sparse factors, exact gradients without any inverse.

As :mod:`nareg.design._edge.marginal`, whose gradient asks for ``Theta^-1`` and ``P_t = (Theta + C_t)^-1`` between neighbors
alone. Takahashi's recursion computes these from a sparse factor. All ``Theta + C_t`` share their pattern: a factor per
pattern of gaps, sixteen at a time, takes a few milliseconds on 10,000 nodes. Random probes of ``P_t`` would save half
of that at most: the log-determinants need the factors.

Anderson's acceleration of a fixed-point iteration ``u <- G(u)``.

The next point mixes the last images so that their residuals ``G(u) - u`` are least in a diagonal metric (D. G. Anderson,
Iterative procedures for nonlinear integral equations, 1965; type II of Fang and Saad 2009).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from nareg._core import checks
from nareg._solvers.lbfgs import Pair
from nareg.design._edge.cone import SMALLEST_PIVOT, ConeDescent
from nareg.design._edge.marginal import EqualGaps
from nareg.design._edge.sparse_likelihood import EdgeLikelihood
from nareg.design._edge.sparse_risk import PROBES
from nareg.design._risk.descent import DescentResult
from nareg.design._risk.sampled import probes

#: Differences of images that are mixed: more of them leave the cone more often.
DEPTH = 3


class Anderson:
    """The points of one iteration and their images."""

    def __init__(self, metric: np.ndarray) -> None:
        self.root = np.sqrt(metric)
        self.points: list[np.ndarray] = []
        self.images: list[np.ndarray] = []

    def next(self, point: np.ndarray, image: np.ndarray) -> np.ndarray:
        """The point to go on from after ``image = G(point)``."""
        self.points, self.images = [*self.points[-DEPTH:], point], [*self.images[-DEPTH:], image]
        images = np.array(self.images)
        residuals = (images - np.array(self.points)) * self.root
        shares = np.linalg.lstsq(np.diff(residuals, axis=0).T, residuals[-1], rcond=1e-8)[0]
        return image - shares @ np.diff(images, axis=0)

    def restart(self) -> np.ndarray:
        """Forget all points, where the last mixture was no better: the last image."""
        image = self.images[-1]
        self.points, self.images = [], []
        return image


#: Matrices that are factorized at once: more of them save little time.
TOGETHER = 16
#: Points of one step at most, each with a factor per pattern.
MAX_ITERATIONS = 500
#: The function above need not be minimized further than to this part of its gradient, nor with more steps.
LOOSE, CLEAN_ITERATIONS = 0.2, 60


@dataclass(frozen=True)
class Batch:
    """Patterns that are factorized together: their masks (N, k), all their columns b (N, t), and each column's pattern."""

    seen: np.ndarray
    b: np.ndarray
    which: np.ndarray
    shares: np.ndarray


def batches(readings: list[EqualGaps], *, compress: bool) -> list[Batch]:
    """Patterns in their order, :data:`TOGETHER` at a time; compressed columns have the same ``sum_t b_t b_t^T``."""
    n_times = sum(p.b.shape[1] for p in readings)
    out = []
    for first in range(0, len(readings), TOGETHER):
        some = readings[first : first + TOGETHER]
        columns = [p.compressed if compress else p.b for p in some]
        out.append(
            Batch(
                np.column_stack([p.seen for p in some]),
                np.concatenate(columns, axis=1),
                np.repeat(np.arange(len(some)), [b.shape[1] for b in columns]),
                np.array([p.b.shape[1] / n_times for p in some]),
            )
        )
    return out


@dataclass(frozen=True)
class Value:
    """F and its parts: ``log det Theta``, and v^T Theta^-1 v and the mean v^T P_t v for every node and edge."""

    f: float
    slope: np.ndarray
    log_det: float
    prior: np.ndarray
    posterior: np.ndarray


class SparseMarginal:
    """The marginal likelihood f of readings, and its proximal steps."""

    label = "expectation-maximization, a sparse factor per pattern of gaps"

    def __init__(self, clean: EdgeLikelihood, c: np.ndarray, readings: list[EqualGaps]) -> None:
        self.clean, self.support, self.elimination, self.c = clean, clean.support, clean.elimination, c
        self.batches = batches(readings, compress=True)
        self.n_times = sum(p.b.shape[1] for p in readings)
        self._last: tuple[np.ndarray, Value | None] | None = None
        self._pairs: list[Pair] = []

    @staticmethod
    def check_memory(clean: EdgeLikelihood, n_times: int) -> None:
        """Refuse readings that would not fit, before anything is formed from them."""
        n_bytes = 8 * (3 * TOGETHER * clean.elimination.indices.size + 12 * clean.support.n * n_times)  # folds hold copies
        checks.memory("the edge design", n_bytes, alternative="pass fewer readings, or a part of the network (graph.subgraph)")

    def value_and_slope(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        """F and its gradient; infinite outside the cone."""
        value = self._value(u)
        return (np.inf, np.zeros(self.support.size)) if value is None else (value.f, value.slope)

    def deviances(self, u: np.ndarray, readings: list[EqualGaps]) -> np.ndarray:
        """F of every time of other readings."""
        entries = self.support.entries(u)
        prior = self.elimination.factor(entries)
        assert prior is not None
        parts = []
        for batch, log_dets, m, _ in self._posteriors(entries, batches(readings, compress=False)):
            parts.append(log_dets[batch.which] - prior[0] - np.einsum("it,it->t", batch.b, m))
        return np.concatenate(parts)

    def step(self, u: np.ndarray, a: float, *, nonnegative: bool, tolerance: float) -> DescentResult:
        """Minimize ``(1 - a) f + a (tr(Theta R) - log det Theta)`` with ``R = Theta(u)^-1``.

        With m this function's gradient plus ``v_k^T Theta^-1 v_k`` at a point, ``u . m - log det Theta`` lies above it and
        touches it there: the expectation of the EM algorithm. Its minimum, a likelihood of clean signals, asks for no
        ``P_t`` and is the next point, but for Anderson's acceleration.
        """
        start = self._value(u)
        assert start is not None
        R = self.support.reduce(start.prior)
        floor = np.zeros_like(u) if nonnegative else None
        stiffness = self.clean.stiffness(u, None, self._probes)
        stiffness = np.maximum(stiffness, 1e-6 * np.median(stiffness))
        mixture, reached, least = Anderson(stiffness), DescentResult(u, start.f, np.inf, 0, ""), np.inf
        try:
            while True:
                now = self._value(u)
                height = np.inf if now is None else (1 - a) * now.f + a * (float(u @ R) - now.log_det)
                if now is None or height > least:
                    if not mixture.images:  # the image itself is singular in float64: there is no point before it
                        return replace(reached, message="no further decrease")
                    u, least = mixture.restart(), np.inf
                    continue
                prior = self.support.reduce(now.prior)
                moments = (1 - a) * (now.slope + prior) + a * R
                above = ConeDescent(
                    partial(self.clean.value_and_gradient, moments=moments), u, stiffness, floor, float(self.support.n)
                )
                reached, least = replace(reached, w=u, value=height, gradient_norm=above.relative_gradient), height
                if reached.gradient_norm <= tolerance:
                    return replace(reached, message="gradient below tolerance")
                if reached.iterations == MAX_ITERATIONS:
                    return replace(reached, message="iteration limit")
                if not self._lower(above):
                    return replace(reached, message="no further decrease")
                reached = replace(reached, iterations=reached.iterations + 1)
                u = mixture.next(u, above.u)
                u = u if floor is None else np.maximum(u, floor)
        except KeyboardInterrupt:
            return replace(reached, message="interrupted")

    def _lower(self, above: ConeDescent) -> bool:
        """Come near the minimum of a function above; False where no step lowers it."""
        above.pairs, tolerance = self._pairs, LOOSE * above.relative_gradient  # all have the curvature of - log det Theta
        steps = 0
        while above.relative_gradient > tolerance and steps < CLEAN_ITERATIONS and above.step():
            steps += 1
        self._pairs = above.pairs
        return steps > 0

    def _value(self, u: np.ndarray) -> Value | None:
        """Everything at u, None outside the cone. That of the last u is remembered."""
        if self._last is None or not np.array_equal(self._last[0], u):
            self._last = u.copy(), self._compute(u) if np.isfinite(u).all() else None
        return self._last[1]

    def _compute(self, u: np.ndarray) -> Value | None:
        s, n, entries = self.support, self.support.n, self.support.entries(u)
        factored = self.elimination.factor(entries)
        if factored is None:
            return None
        log_det, factor = factored
        pivots = factor[self.elimination.indptr[:-1]]
        if not pivots.min() > SMALLEST_PIVOT**2 * pivots.max():  # singular in float64, as the dense engine judges it
            return None
        prior = s.differences(self.elimination.inverse_entries(factor))
        f, posterior, means = -log_det, np.zeros(n + s.i.size), np.zeros(s.size)
        for batch, log_dets, m, inverses in self._posteriors(entries, self.batches):
            f += float(batch.shares @ log_dets) - float(np.sum(batch.b * m)) / self.n_times
            posterior += inverses() @ batch.shares
            means += s.column_products(m, m) / self.n_times
        posterior = s.differences(posterior)
        return Value(f, s.reduce(posterior - prior) + means, log_det, prior, posterior)

    def _posteriors(
        self, entries: np.ndarray, some: list[Batch]
    ) -> Iterator[tuple[Batch, np.ndarray, np.ndarray, Callable[[], np.ndarray]]]:
        """For every batch: ``log det(Theta + C_t)`` of its patterns, all ``m_t``, and the entries of ``P_t`` when asked."""
        from nareg.design._risk import kernels  # numba: imported when first needed

        e, n = self.elimination, self.support.n
        for batch in some:
            data = np.zeros((e.indices.size, batch.seen.shape[1]))
            data[e.positions] = entries[:, None]
            data[e.positions[:n]] += self.c[:, None] * batch.seen
            positive = kernels.eliminate_many(e.indptr, e.indices, data)
            assert positive  # Theta is, and C_t only adds to it
            m = np.ascontiguousarray(batch.b[e.order])
            kernels.substitute_many(e.indptr, e.indices, data, batch.which, m)
            means = np.empty_like(m)
            means[e.order] = m

            def inverses(data: np.ndarray = data) -> np.ndarray:
                return kernels.selected_inverse_many(e.indptr, e.indices, data)[e.positions]

            yield batch, np.log(data[e.indptr[:-1]]).sum(axis=0), means, inverses

    def _probes(self) -> np.ndarray:
        """Probes for the metric of a descent: the design does not depend on them."""
        return probes(self.clean.base.L, PROBES, np.random.default_rng(0))
