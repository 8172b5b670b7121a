"""Station means and smooth cycles, shrunk with covariances of all stations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from nareg.spacetime._readings.cycle_errors import DRAWS
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
)  # fmt: skip
from nareg.spacetime._readings.holdout import station_order
from nareg.spacetime._readings.space import JITTER, Space


def fit(y: np.ndarray, seconds: np.ndarray, step: float, dated: bool, space: Space, wanted: str | tuple[str, ...]) -> Cycles:
    """Means and cycles of readings (T, N), NaN where missing."""
    return shrunk_cycles(y, seconds, step, dated, wanted, DenseShrinkage(space, station_order(y)), draws=DRAWS)


@dataclass(frozen=True, eq=False)
class DenseShrinkage:
    """Shrinks towards fields of the first family of a space. Numbers are drawn in an ``order`` (N,) of the stations."""

    space: Space
    order: np.ndarray

    def error_model(self, unit: np.ndarray, comparable: np.ndarray) -> np.ndarray:
        """(N, N) covariance of errors ``unit`` (N, J) of variance about one, of largest likelihood.

        Slow weather moves the coefficients of neighbors together: their difference is known far better than either. That holds
        for stations that read at the same times, ``comparable`` (N,); errors of others are their own.
        """
        space, unit = self.space, unit.T
        family, result = space.families[0], np.eye(unit.shape[1])
        some = np.flatnonzero(comparable & unit.any(axis=0))
        if some.size < FEWEST_TOGETHER:
            return result
        largest = (float(space.distances.max()) or 1.0) if family != "graph" else LARGEST_EDGES
        best = np.inf
        for reach in RANGES:
            values, U = np.linalg.eigh(space.correlation(family, reach * largest)[np.ix_(some, some)])
            squares = ((unit[:, some] @ U) ** 2).mean(axis=0)
            for own in OWN:
                spectrum = (1 - own) * np.maximum(values, 0.0) + own
                size = float(np.mean(squares / spectrum))
                score = float(np.log(spectrum).sum()) + some.size * np.log(max(size, 1e-300))
                if score < best:
                    best = score
                    result[np.ix_(some, some)] = (U * (size * spectrum)) @ U.T
        return result

    def __call__(
        self, b: np.ndarray, error: np.ndarray, error_model: np.ndarray, unit: np.ndarray, rng: np.random.Generator
    ) -> Shrunk:
        """Coefficients at all stations from noisy ones at some, by the range and variance of largest likelihood.

        ``error`` (N,) are variances of the noisy ones, ``error_model`` (N, N) is the covariance of their errors over the roots
        of these. Draws are the errors of fields of this kind, estimated from coefficients with errors ``unit`` (N, J) times
        their size.
        """
        N = b.size
        known = np.flatnonzero(np.isfinite(b))
        dual = np.zeros(N)
        if known.size == 0:
            return Shrunk(np.zeros(N), 0.0, np.zeros(N), np.zeros((N, DRAWS)))
        # relative to how they differ: a level far from zero is no error
        z, v = b[known], np.maximum(error[known], max(1e-12 * float(np.var(b[known])), 1e-300))
        # a station that knows next to nothing of its coefficient sets neither the scale of the errors nor that of the field
        trust, typical = v.min() / v, float(np.median(v))
        common = float(np.average(z, weights=trust))
        total = float(np.average((z - common) ** 2, weights=trust))
        if known.size < 3 or total == 0:
            level = np.full(N, common)
            level[known] = z
            spread = np.full(N, float(v.mean()))
            spread[known] = v
            return Shrunk(level, common, spread, unit * np.sqrt(spread)[:, None])
        space, family = self.space, self.space.families[0]
        largest = float(space.distances.max()) if family != "graph" else LARGEST_EDGES
        noise = error_model[np.ix_(known, known)] * np.sqrt(np.outer(v, v))
        sure = np.flatnonzero(v <= UNSURE * typical)

        def conditioned(signal: float, whole: np.ndarray, some: np.ndarray) -> tuple[float, float, np.ndarray, Any]:
            """Twice the negative log-likelihood of ``some`` of the known coefficients, common, weights and factor."""
            S = signal * whole[np.ix_(known[some], known[some])] + noise[np.ix_(some, some)]
            S.flat[:: some.size + 1] += JITTER * signal
            factor = cho_factor(S, lower=True)
            ones = cho_solve(factor, np.ones(some.size))
            common = float(ones @ z[some] / ones.sum())
            alpha = cho_solve(factor, z[some] - common)
            score = 2 * float(np.log(np.diag(factor[0])).sum()) + float((z[some] - common) @ alpha) + float(np.log(ones.sum()))
            return score, common, signal * alpha, factor

        best = np.inf, 0.0, 0.0
        for reach in (share * (largest or 1.0) for share in RANGES):
            whole = space.correlation(family, reach)
            for share in SHARES:
                signal = share / (1 - share) * typical if share < SHARES[-1] else max(total, 30 * typical)
                best = min(best, (conditioned(signal, whole, sure)[0], reach, signal))
        _, reach, signal = best
        whole = space.correlation(family, reach)
        _, common, weights, factor = conditioned(signal, whole, np.arange(known.size))
        cross = whole[:, known]
        dual[known] = weights
        ones = cho_solve(factor, np.ones(known.size))
        weighted = signal * cross
        # of the field given the coefficients, and of the network's own, which is estimated with them
        spread = (
            signal - np.einsum("ij,ji->i", weighted, cho_solve(factor, weighted.T)) + (1 - weighted @ ones) ** 2 / ones.sum()
        )
        white = np.empty((N, DRAWS))
        white[self.order] = rng.standard_normal((N, DRAWS))
        fields = np.sqrt(signal) * _symmetric_root(whole) @ white
        noisy = fields[known] + np.sqrt(v)[:, None] * unit[known]
        middle = ones @ noisy / ones.sum()
        errors = fields - middle - weighted @ cho_solve(factor, noisy - middle)
        return Shrunk(common + cross @ weights, common, np.maximum(spread, 0.0), errors, reach if signal else 0.0, signal, dual)


def _symmetric_root(whole: np.ndarray) -> np.ndarray:
    """Root of a correlation matrix, which permutes with its rows."""
    values, U = np.linalg.eigh(whole)
    root: np.ndarray = (U * np.sqrt(np.maximum(values, 0.0) + JITTER)) @ U.T
    return root
