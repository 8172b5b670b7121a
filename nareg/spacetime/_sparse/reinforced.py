"""A preconditioner for readings of very unlike noise with gaps, where cosines in time with mean weights need hundreds of steps.

What they miss is of two kinds, each solved for before and after them (a symmetric multiplicative Schwarz method): what varies
from station to station, by a tridiagonal system in time at each of them; and what all stations share, such as hours in which
none reads, by the system on the smoothest modes of the graph, which is banded in time.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cho_solve_banded, cholesky_banded

from nareg.errors import SolverError

if TYPE_CHECKING:
    from nareg.spacetime._sparse.system import SpaceTimeSystem

#: Correction of the stations, as a share of the longest step that converges.
DAMPING = 0.75


class Reinforced:
    """``M^-1`` for one system, whose own preconditioner it contains."""

    def __init__(self, system: SpaceTimeSystem, pool: ThreadPoolExecutor | None = None) -> None:
        process, T = system.process, system.observed.shape[1]
        self._system, self._pool = system, pool
        unit = 1 / (1 - process.rho**2) if T > 1 else 1.0
        in_time = np.full(T, (1 + process.rho**2) * unit)
        in_time[[0, -1]] = unit
        own = process.field.entries[: process.field.n][system.rows] / process.variance
        self._diagonal = own[:, None] * in_time + system.weights
        self._beside = -process.rho * unit * own
        self._damping = 2 * DAMPING / max(process.field.relative_radius, 1.0)
        self._modes, energies = process.field.modes
        self._modes = np.ascontiguousarray(self._modes[system.rows])
        self._band = self._factor(in_time, -process.rho * unit, energies / process.variance)

    def _factor(self, in_time: np.ndarray, beside: float, energies: np.ndarray) -> np.ndarray:
        """Of the system on the modes, those of a time after each other, as SciPy has bands."""
        V, k, T = self._modes, energies.size, in_time.size
        blocks = self._system.summed(np.array([(V * w[:, None]).T @ V for w in self._system.weights.T]))
        blocks[:, range(k), range(k)] += in_time[:, None] * energies
        band = np.zeros((k + 1, T, k))
        for apart in range(k):
            band[k - apart, :, apart:] = np.diagonal(blocks, apart, 1, 2)
        band[0, 1:] = beside * energies
        try:
            return np.asarray(cholesky_banded(band.reshape(k + 1, T * k), overwrite_ab=True))
        except LinAlgError:
            raise SolverError("the space-time system is not positive definite in float64: the noise is too small.") from None

    def _shared(self, R: np.ndarray) -> np.ndarray:
        """What the smooth modes explain of R (N, S, T)."""
        n, S, T = R.shape
        right = self._system.summed(self._modes.T @ R.reshape(n, S * T)).reshape(-1, S, T)
        X = cho_solve_banded((self._band, False), right.transpose(2, 0, 1).reshape(-1, S), overwrite_b=True)
        return (self._modes @ X.reshape(T, -1, S).transpose(1, 2, 0).reshape(-1, S * T)).reshape(n, S, T)

    def _apart(self, R: np.ndarray) -> np.ndarray:
        """Each station by itself."""
        from nareg.spacetime._sparse import kernels  # numba: imported when first needed

        X: np.ndarray = kernels.solve_in_time(self._diagonal, self._beside, R)
        X *= self._damping
        return X

    def solve(self, R: np.ndarray) -> np.ndarray:
        """``M^-1 R`` for R (N, S, T)."""
        system = self._system
        X = self._apart(R)
        for stage in (self._shared, lambda rest: system.preconditioner.solve(rest, self._pool), self._shared, self._apart):
            X += stage(R - system.product(X))
        return X
