"""Many masks of a small network at once, by dense inverses: where every time has gaps of its own.

A mask is left to the solvers of one mask, which refuse, refine or warn, unless its matrix is clearly positive definite, no
estimate can exceed the readings by much, and rounding is far below the tolerance.
"""

from __future__ import annotations

import time

import numpy as np

from nareg._solvers.direct import ACCURATE
from nareg._solvers.engines import without_underflow
from nareg._solvers.system import FilterSystem
from nareg.filters._matrix_amplification import EXACT_NODES, LARGEST_AMPLIFICATION
from nareg.results import Solution, Status

#: Fewer masks are solved one by one.
FEWEST = 16
#: Numbers in the matrices that are inverted together.
TOGETHER = 2**21
#: A pivot below this share of its diagonal entry may be rounding.
LEAST_PIVOT = 1e-8


def solve_masks(
    system: FilterSystem, masks: np.ndarray, columns: list[np.ndarray], y: np.ndarray, tol: float, x: np.ndarray
) -> tuple[np.ndarray, list[Solution]]:
    """Solve for ``masks`` (N, P), of which each has some ``columns`` of y, into ``x``; which were solved, and how well."""
    started, n = time.perf_counter(), system.n_nodes
    solved = np.zeros(masks.shape[1], dtype=bool)
    if system.w is not None or n > EXACT_NODES or solved.size < FEWEST:
        return solved, []
    S, readings, unit = system.S.toarray(), *without_underflow(y.astype(np.float64, copy=False))
    C, worst, limit = system.c * masks.T, 0.0, min(tol, ACCURATE)
    for part in np.array_split(np.arange(solved.size), -(-solved.size * n * n // TOGETHER)):
        K = np.repeat(S[None], part.size, axis=0)
        diagonal = K[:, np.arange(n), np.arange(n)] + C[part]
        K[:, np.arange(n), np.arange(n)] = diagonal
        try:
            pivots = np.linalg.cholesky(K)[:, np.arange(n), np.arange(n)] ** 2
        except np.linalg.LinAlgError:
            continue
        inverses = np.linalg.inv(K)
        sums = np.where(masks.T[part], 0.0, np.matmul(np.abs(inverses), C[part][:, :, None])[:, :, 0])
        safe = C[part].any(axis=1) & (sums <= LARGEST_AMPLIFICATION).all(axis=1) & (pivots > LEAST_PIVOT * diagonal).all(axis=1)
        for k in np.flatnonzero(safe):
            where = columns[part[k]]
            rhs = C[part[k], :, None] * readings[:, where]
            z = inverses[k] @ rhs
            z += inverses[k] @ (rhs - K[k] @ z)
            error = _error(K[k], inverses[k], diagonal[k], z, rhs)
            if error <= limit:
                x[:, where] = z if unit is None else z * unit[where]
                solved[part[k]], worst = True, max(worst, error)
    seconds = {"total": time.perf_counter() - started}
    done = Solution(x, Status.CONVERGED, "direct [dense inverses]", 0, np.array([worst]), worst, timings=seconds)
    return solved, [done] if solved.any() else []


def _error(K: np.ndarray, inverse: np.ndarray, diagonal: np.ndarray, x: np.ndarray, rhs: np.ndarray) -> float:
    """The largest relative residual, of K and over its diagonal, and error of an entry that rounding K can cause."""
    left = rhs - K @ x
    shares = [
        np.linalg.norm(a, axis=0) / np.maximum(np.linalg.norm(b, axis=0), 1e-300)
        for a, b in ((left, rhs), (left / diagonal[:, None], rhs / diagonal[:, None]))
    ]
    largest = np.max(np.abs(x) / np.maximum(np.abs(x).max(axis=0), 1e-300), axis=1)
    rounding = np.finfo(float).eps * (np.abs(inverse) @ (np.abs(K) @ largest)).max()
    return float(max(shares[0].max(), shares[1].max(), rounding))
