"""The space-time system on the ranks of MPI: stations are spread over ranks, and in the preconditioner frequencies are.

Along time nothing leaves a rank. K, which couples stations, is PETSc's. For the sparse factors rows are exchanged for
frequencies, of which each rank has some: it makes their factors only, the same ones as in one process, so that steps do not
grow with the ranks. All draws are those of one process, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.fft

from nareg._solvers._petsc.matrices import local_range
from nareg._solvers._petsc.ranks import load, roll_call
from nareg._solvers._petsc.rows import Exchange, RowMatrix, gathered, shared, total
from nareg.graph import Graph
from nareg.spacetime._sparse.system import Process, SpaceTimeSystem, TimePreconditioner, log_likelihood
from nareg.spacetime._sparse.variances import Chains

#: Frequencies whose solves, over the steps of a smoothing, take as long as one factor: 2 to 4 were seen.
FACTOR = 3


class RankPreconditioner(TimePreconditioner):
    """``M^-1`` for the rows of this rank."""

    def __init__(self, process: Process, coverage: np.ndarray, T: int) -> None:
        super().__init__(process, coverage, T)
        self._rows = slice(*local_range(process.field.n))

    def _columns(self) -> np.ndarray:
        columns = balanced([members for members, _ in self.groups], load().comm.size)
        self._exchange = Exchange(self.process.field.n, columns)
        return self._exchange.own

    def solve(self, R: np.ndarray, pool: ThreadPoolExecutor | None = None) -> np.ndarray:
        """``M^-1 R`` for the rows R (n, S, T)."""
        waves = self._exchange.to_columns(scipy.fft.dct(R, axis=-1, norm="ortho"))
        self._solve_in_space(waves, pool)
        return scipy.fft.idct(self._exchange.to_rows(waves), axis=-1, norm="ortho", overwrite_x=True)

    def noise(self, S: int, rng: np.random.Generator) -> np.ndarray:
        """The rows (n, S, T) of a draw with M as covariance, which every rank makes whole."""
        return super().noise(S, rng)[self._rows].copy()


def balanced(groups: Sequence[np.ndarray], ranks: int) -> list[np.ndarray]:
    """Frequencies of every rank, from groups that share a factor: the largest first, each to the rank with least work."""
    most = -(-sum(members.size for members in groups) // ranks)
    pieces = [members[k : k + most] for members in groups for k in range(0, members.size, most)]
    work, owned = np.zeros(ranks), [[np.empty(0, dtype=int)] for _ in range(ranks)]
    for piece in sorted(pieces, key=len, reverse=True):
        rank = int(work.argmin())
        work[rank] += piece.size + FACTOR
        owned[rank].append(piece)
    return [np.concatenate(parts) for parts in owned]


class RankSystem(SpaceTimeSystem):
    """The rows of ``P + C`` for readings that every rank has whole."""

    def __init__(self, process: Process, observed: np.ndarray) -> None:
        """``observed``: (N, T) bool."""
        weights = observed / process.noise[:, None]
        self.rows = slice(*local_range(process.field.n))
        self.process, self.observed, self.weights = process, observed[self.rows], weights[self.rows].copy()
        self.precision = RowMatrix(process.field.precision())
        self.preconditioner = RankPreconditioner(process, weights.mean(axis=1), observed.shape[1])

    def dots(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """(S,) inner products over all ranks."""
        return total(super().dots(A, B))

    def summed(self, values: np.ndarray) -> np.ndarray:
        """Sums over the stations of all ranks."""
        return total(values.ravel()).reshape(values.shape)


class Ranks:
    """Estimates of one model on all ranks, which call it with the same readings and get the same answers."""

    def __init__(self, process: Process, graph: Graph) -> None:
        self._process, self._graph = process, graph
        self._system: RankSystem | None = None
        family, adjacency = process.field.family, graph.adjacency
        model = (process.rho, process.variance, process.noise, process.field.entries, family.i, family.j)
        self.compare(graph=(adjacency.shape, adjacency.indptr, adjacency.indices, adjacency.data), model=model)

    def compare(self, **values: Any) -> None:
        """Refuse what is not the same on all ranks."""
        roll_call(load().comm, values)

    def estimate(self, y: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (T, N) of the field given readings (T, N)."""
        process, y = self._process, y.T
        self.compare(readings=y, tol=tol)
        observed = np.isfinite(y)
        self._system = system = RankSystem(process, observed)
        right = system.right_side(y[system.rows])
        x = gathered(system.solve(right[:, None, :], tol)[0][:, 0])
        weights = observed / process.noise[:, None]
        chains = Chains.of(process, weights.mean(axis=1), self._graph.adjacency, system.rows, shared)
        return x.T, gathered(chains.smoothed(weights)).T

    def smooth(self, y: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Mean, variance, and the log-likelihood of the readings."""
        x, var = self.estimate(y, tol)
        return x, var, log_likelihood(y.T, x.T, self._process, system=self._system, share=shared)
