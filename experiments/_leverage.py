"""Ridge leverage scores of edges, and the effective dimension of a Laplacian.

    L = B^T B,  b_e = sqrt(w_e) (s_i delta_i - s_j delta_j)        s = D~^-1/2 ("augmented") or 1 ("combinatorial")
    l_e = b_e^T (L + I/lam)^-1 b_e = lam b_e^T H^-1 b_e            n_lam = sum_e l_e = tr(I - H^-1)      (HERTA C.36, 5.1)

The score of an edge is the largest share of the regularized energy in any direction that only this edge carries.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
import torch

from nareg._core import checks
from nareg._core.arrays import as_numpy
from nareg.herta._attention import Incidence
from nareg.herta._system import System

#: Tolerance of the solves behind a sketch or a trace: their error stays far below the sampling error.
TOLERANCE = 1e-3
#: Most columns per solve; most entries of an array of edges by columns.
BLOCK, NUMBERS = 64, 2**26
#: Random vectors of Hutchinson's estimate of a trace.
PROBES = 30


def dense_inverse(system: System) -> np.ndarray:
    """``H^-1`` of a small graph."""
    checks.dense_size("H^-1", system.n_nodes, alternative="estimate instead")
    H = np.eye(system.n_nodes) + system.lam * system.laplacian.toarray()
    return scipy.linalg.cho_solve(scipy.linalg.cho_factor(H), np.eye(system.n_nodes))


def exact_scores(incidence: Incidence, system: System) -> np.ndarray:
    """Ridge leverage scores of all edges from the dense inverse (small graphs)."""
    i, j, K = incidence.i, incidence.j, dense_inverse(system)
    a, b, diagonal = incidence.scale[i], incidence.scale[j], K.diagonal()
    return system.lam * (incidence.weight * (a**2 * diagonal[i] + b**2 * diagonal[j] - 2 * a * b * K[i, j]))


def approximate_scores(
    incidence: Incidence, system: System, *, rng: np.random.Generator, projections: int | None = None
) -> np.ndarray:
    """Ridge leverage scores by k random projections (Johnson-Lindenstrauss; default ``k = ceil(4 ln M)``).

    ``l_e = lam ||C^T H^-1 b_e||^2`` on average over ``C = sqrt(lam) B^T G_1 + G_2`` with standard normal ``G_1``, ``G_2``, as
    ``lam B^T B + I = H``. The paper's Algorithm 2 sketches the two terms of C.38 separately. Their sum has the same
    mean and the same relative variance, for half the solves.
    """
    k = math.ceil(4 * math.log(max(incidence.n_edges, 2))) if projections is None else projections
    B, n = incidence.matrix, system.n_nodes
    result = np.zeros(incidence.n_edges)
    block = max(min(BLOCK, NUMBERS // max(incidence.n_edges, 1)), 1)
    for first in range(0, k, block):
        columns = min(block, k - first)
        C = math.sqrt(system.lam) * (B.T @ rng.standard_normal((B.shape[0], columns))) + rng.standard_normal((n, columns))
        result += ((B @ solve_numpy(system, C)) ** 2).sum(axis=1)
    return system.lam / k * result


def effective_dimension(system: System, *, rng: np.random.Generator) -> tuple[float, float]:
    """``n_lam = N - tr H^-1`` and its standard error: exact (0) for small graphs, else Hutchinson's estimate."""
    n = system.n_nodes
    if n <= checks.DENSE_LIMIT:
        return float(n - np.trace(dense_inverse(system))), 0.0
    signs = rng.choice([-1.0, 1.0], (n, PROBES))
    # I - H^-1 = lam L H^-1 has no cancellation where lam is small
    traces = system.lam * ((system.laplacian @ signs) * solve_numpy(system, signs)).sum(axis=0)
    return float(traces.mean()), float(traces.std(ddof=1) / math.sqrt(PROBES))


def solve_numpy(system: System, B: np.ndarray, tol: float = TOLERANCE) -> np.ndarray:
    """``H^-1 B`` for a NumPy array."""
    return as_numpy(system.solve(torch.as_tensor(B, dtype=system.dtype, device=system.device), tol=tol))
