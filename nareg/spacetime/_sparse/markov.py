"""Covariances of a large field that are followed from one time to the next on the pattern of a sparse factor.

A prediction's precision is dense. It is replaced by the one of largest entropy that has the same covariances on a chordal
pattern: that of the Cholesky factor of a power of the graph. Then a separator of the graph, thick by this power, screens one
side of it from the other, as it does before any reading. This is the thin junction tree filter (Paskin 2003) with the
separators of the elimination. Predicting is exact: where ``x_t = rho x_{t-1} + e_t``, covariances on the pattern mix with
the field's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._solvers.costs import factor_size
from nareg.errors import SolverError
from nareg.results import upper_edges
from nareg.spacetime._sparse.field import eliminated
from nareg.spacetime._sparse.system import TOO_SMALL, Process

#: Powers of the graph: at least the first, below which errors reach several percent, and more while a factor takes few
#: multiplications.
POWERS, MULTIPLICATIONS = (3, 6), 5e6
#: Multiplications of the factors that starting a filter may take.
STARTING = 2e9
#: Larger patterns are checked against the machine's memory, at bytes per entry of the factor.
SMALL, PER_ENTRY = 2_000, 80
#: Poles of the variance of a steady filter, as a function of the information.
POLES = 16


class Separators:
    """The pattern on which covariances are kept, in blocks of columns that one separator screens."""

    def __init__(self, adjacency: sp.csr_array, order: np.ndarray | None = None, power: int | None = None) -> None:
        n = adjacency.shape[0]
        step = sp.csr_array((np.ones(adjacency.nnz), adjacency.indices, adjacency.indptr), shape=adjacency.shape)
        step = sp.csr_array(step + sp.eye_array(n))
        reachable, low = step, POWERS[0] if power is None else power
        for k in range(2, (POWERS[1] if power is None else power) + 1):
            wider = sp.csr_array(reachable @ step)
            wider.data[:] = 1.0
            if k <= low or self._cheap(wider):
                reachable, self.power = wider, k
            else:
                break
        if n > SMALL:
            checks.memory(
                "a stream's covariances", PER_ENTRY * factor_size(reachable)[0], alternative="follow parts of the network"
            )
        self.i, self.j = upper_edges(reachable)
        from nareg.design import Elimination  # and what it needs: when first needed

        self.elimination = Elimination(n, self.i, self.j, order)
        indptr, indices = self.elimination.indptr, self.elimination.indices
        size = np.diff(indptr)
        parent = np.where(size > 1, indices[np.minimum(indptr[:-1] + 1, indices.size - 1)], -1)
        joined = np.zeros(n, dtype=bool)
        joined[1:] = (parent[:-1] == np.arange(1, n)) & (size[:-1] == size[1:] + 1)
        self.starts = np.append(np.flatnonzero(~joined), n)
        last = parent[self.starts[1:] - 1]
        self.parents = np.where(last >= 0, np.searchsorted(self.starts, last, side="right") - 1, -1)

    @staticmethod
    def _cheap(pattern: sp.csr_array) -> bool:
        n = pattern.shape[0]
        if pattern.nnz**2 / n > MULTIPLICATIONS:  # without any fill
            return False
        from nareg.design import Elimination

        columns = np.diff(Elimination(n, *upper_edges(pattern)).indptr)
        return float(columns @ columns) <= MULTIPLICATIONS

    @property
    def multiplications(self) -> float:
        """About those of an update."""
        columns = np.diff(self.elimination.indptr)
        return float(columns @ columns)

    def on(self, matrix: sp.csr_array) -> np.ndarray:
        """A symmetric matrix as the elimination takes it: its diagonal, then the entries at (i, j)."""
        return np.concatenate([matrix.diagonal(), np.asarray(matrix[self.i, self.j]).ravel()])


@dataclass(eq=False)
class MarkovFilter:
    """Mean and covariances of the field of a process, given the readings so far."""

    process: Process
    pattern: Separators
    mean: np.ndarray  # (N,)
    covariance: np.ndarray  # on the pattern

    @classmethod
    def prior(cls, process: Process, pattern: Separators) -> MarkovFilter:
        """Before any reading."""
        start = cls(process, pattern, np.zeros(process.field.n), np.empty(0))
        start.covariance = start.field.copy()
        return start

    @cached_property
    def field(self) -> np.ndarray:
        """Covariances of the field itself, on the pattern."""
        return self._inverse(1 / self.process.variance, np.zeros(self.process.field.n))

    @cached_property
    def _precision(self) -> np.ndarray:
        return self.pattern.on(self.process.field.precision())

    def _inverse(self, precision: float, coverage: np.ndarray) -> np.ndarray:
        """``(precision Theta + diag(coverage))^-1`` on the pattern."""
        how, entries = self.pattern.elimination, precision * self._precision
        entries[: coverage.size] += coverage
        return how.inverse(eliminated(how, entries, TOO_SMALL)[1])

    def settle(self, mean: np.ndarray, coverage: np.ndarray) -> None:
        """As after many times with the mean information ``coverage`` (N,), and an estimate (N,) that is known."""
        self.mean = mean
        places, weights = _steady_poles(self.process.rho)
        parts = (weight * self._inverse(s / self.process.variance, coverage) for s, weight in zip(places, weights, strict=True))
        self.covariance = np.sum(list(parts), axis=0)

    def predict(self, steps: int = 1) -> None:
        """To the time so many steps later."""
        decay = self.process.rho**steps
        self.mean = decay * self.mean
        self.covariance = decay**2 * self.covariance + (1 - decay**2) * self.field

    def correct(self, y: np.ndarray, weights: np.ndarray) -> float:
        """By readings (N,) of information ``weights`` (N,), 0 where there is none; their log-likelihood."""
        if not weights.any():
            return 0.0
        from nareg.spacetime._sparse import kernels  # numba: imported when first needed

        how, seen = self.pattern.elimination, weights > 0
        gaps = np.where(seen, y - self.mean, 0.0)
        right, ordered = np.empty(gaps.size), np.empty(gaps.size)
        right[how.rank], ordered[how.rank] = weights * gaps, weights
        try:
            self.covariance, moved, before, after = kernels.correct(
                how.indptr, how.indices, self.pattern.starts, self.pattern.parents, self.covariance, ordered, right
            )
        except np.linalg.LinAlgError:
            raise SolverError(TOO_SMALL) from None
        self.mean = self.mean + moved[how.rank]
        square = float(weights @ gaps**2 - right @ moved)
        return -0.5 * (square + after - before - float(np.log(weights[seen] / (2 * np.pi)).sum()))

    @property
    def variance(self) -> np.ndarray:
        """(N,) of the field."""
        how = self.pattern.elimination
        return self.covariance[how.indptr[how.rank]]


def _steady_poles(rho: float) -> tuple[np.ndarray, np.ndarray]:
    """Poles s and weights w: the filtered variance of a unit process is nearly ``sum w / (s + c)``, information c each time.

    As a function of c that variance is the integral of such terms over s between the ends of the process's precision per
    frequency.
    """
    edge = (1 - abs(rho)) / (1 + abs(rho))
    places = np.geomspace(edge, 1 / edge, POLES)
    c = np.concatenate([[0.0], np.geomspace(1e-3 * edge, 1e3 / edge, 8 * POLES)])
    q = 1 - rho**2
    # of h = p / (1 + c p) with p = rho^2 h + q
    b = q + q * c
    h = 2 * q / (b + np.sqrt(b**2 + 4 * rho**2 * q * c))
    from scipy.optimize import nnls  # half a second of imports, for few: when first needed

    weights = nnls(1 / (places + c[:, None]) / h[:, None], np.ones(c.size))[0]
    return places[weights > 0], weights[weights > 0]
