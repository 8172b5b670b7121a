"""Proven lower bounds for ``min q(S)``, ``S = Omega o L``, Omega PSD, ``low_i <= Omega_ii <= high_i``.

q is convex, so that with ``Y = L o G(S)`` at any point Omega and any vector lam with ``Z = Y - diag(lam)`` PSD, every
feasible Omega' has

    q(Omega') >= q(Omega) + <Y, Omega' - Omega> >= q(Omega) - <Y, Omega> + sum_i lam_i Omega'_ii,

and the last sum is at least ``sum_i (lam_i low_i if lam_i > 0 else lam_i high_i)``. At the optimum the bound is the
value. What is left to prove is that Z is PSD: by all eigenvalues, or by a sparse factor with positive pivots.

The bound serves a low-rank factor (:func:`certify`), and a solved program (:func:`proven_bound`), whose solver is not trusted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from nareg._solvers.eigenvalues import extreme_eigenvectors, operator
from nareg._solvers.factorization import Solve, factorize
from nareg.design._convex.quadratic import LowRankPoint

#: All eigenvalues of Z up to here, a sparse factor beyond.
DENSE_NODES = 1500
#: Largest matrix that is factored without being mesh-like.
FACTOR_ANY = 6_000
FACTOR_MESH = 200_000
#: Directions that are added at once where Z has negative eigenvalues.
DIRECTIONS = 16


@dataclass(frozen=True)
class DualCertificate:
    """``bound`` <= q of every feasible Omega, or None and why; directions in which Z is clearly negative."""

    bound: float | None
    reason: str
    directions: np.ndarray | None = None


def certify(
    Y: sp.csr_array, point: LowRankPoint, pull: np.ndarray, bounds: tuple[np.ndarray, np.ndarray], size: np.ndarray, *,
    margin: float, small: float, mesh_like: bool,
) -> DualCertificate:  # fmt: skip
    """The bound at a point with multipliers ``pull``, and directions of Z's negative eigenvalues.

    ``Y`` has one row for every unknown row of V. ``size`` are the rows' lengths: Z is looked at as
    ``diag(size) Z diag(size)``, where one unit of lam costs every row alike. ``margin`` is the strict feasibility
    that the pull is expected to have, and lowering every lam by ``small`` costs little.
    """
    low, high = bounds
    n = low.size
    scaled = sp.csr_array(sp.diags_array(size) @ (Y - sp.diags_array(pull)) @ sp.diags_array(size))
    norm = float(abs(scaled).sum(axis=1).max()) if scaled.nnz else 0.0
    start = point.value - _inner(Y, point.V)

    def bound(delta: float) -> float | None:
        lam = pull - delta / size**2
        ends = np.where(lam > 0, low, np.where(lam < 0, high, 0.0))
        value = start + float(lam @ ends)
        return value if np.isfinite(value) else None  # a row without an upper bound may be charged

    if n <= DENSE_NODES:
        values, vectors = _smallest(scaled.toarray(), min(DIRECTIONS, n))
        rounding = 4 * n * np.finfo(float).eps * norm
        negative = values < -rounding
        directions = size[:, None] * vectors[:, negative] if negative.any() else None
        return DualCertificate(bound(max(rounding - float(values[0]), rounding)), "eigenvalues", directions)
    if n > (FACTOR_MESH if mesh_like else FACTOR_ANY):
        return DualCertificate(None, f"no sparse factor of {n} rows is formed on this graph")
    delta = 0.1 * small
    while delta <= norm:
        factor = factorize(scaled + delta * sp.eye_array(n))
        if factor is not None:
            delta = _tighter(scaled, factor.solve, delta)
            # lam is negative somewhere once delta exceeds the margin: rather go on where Z is negative
            directions = _negative(factor.solve, delta, margin, size) if delta > margin else None
            return DualCertificate(bound(delta), "sparse factor", directions)
        delta = min(4 * delta, margin) if delta < margin else 4 * delta
    return DualCertificate(None, "no sparse factor has positive pivots")


def _tighter(scaled: sp.csr_array, inverse: Solve, delta: float) -> float:
    """A smaller shift for which a factor has positive pivots too, found by the smallest eigenvalue; else this one."""
    pairs = extreme_eigenvectors(operator(inverse, scaled.shape[0]), 1, tol=1e-2)
    needed = delta if pairs is None else 1.1 * (delta - 1 / float(pairs[0][0]))
    if not 0 < needed < 0.8 * delta or factorize(scaled + needed * sp.eye_array(scaled.shape[0])) is None:
        return delta
    return needed


def _smallest(matrix: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k smallest eigenvalues with their vectors."""
    try:
        values, vectors = eigh(matrix, subset_by_index=[0, k - 1])
    except np.linalg.LinAlgError:  # LAPACK's relatively robust representations can fail on graded matrices
        values, vectors = np.linalg.eigh(matrix)
    return values[:k], vectors[:, :k]


def _inner(Y: sp.csr_array, V: np.ndarray) -> float:
    """``<Y, V V^T>``."""
    return float(np.einsum("ik,ik->", Y @ V, V))


def _negative(inverse: Solve, delta: float, margin: float, size: np.ndarray) -> np.ndarray | None:
    """Eigenvectors of scaled Z below ``-margin / 2``, as rows' changes, from solves with ``scaled Z + delta``."""
    pairs = extreme_eigenvectors(operator(inverse, size.size), DIRECTIONS, tol=1e-3)
    if pairs is None:
        return None
    values, vectors = pairs
    negative = 1 / values - delta < -margin / 2
    return size[:, None] * vectors[:, negative] if negative.any() else None


def proven_bound(
    value: float, slope: np.ndarray, omega: np.ndarray, multiplier: np.ndarray, low: np.ndarray, high: np.ndarray
) -> float | None:
    """``q(Omega) - <Y, Omega> + sum_i lam_i low_i``, with lam lowered until ``Y - diag(lam)`` is PSD.

    ``slope`` is Y, the gradient of the convex q in Omega at ``omega``, and ``multiplier`` the solver's dual values of
    ``Omega_ii >= low_i``. None where the bound says nothing.
    """
    size = np.sqrt(np.maximum(np.diagonal(omega), 1e-300))
    Z = size[:, None] * (slope - np.diag(multiplier)) * size
    rounding = 4 * len(Z) * np.finfo(float).eps * float(np.abs(Z).sum(axis=1).max(initial=0.0))
    lam = multiplier - max(rounding - float(np.linalg.eigvalsh(Z)[0]), rounding) / size**2
    ends = np.where(lam > 0, low, high)
    bound = value - float(np.sum(slope * omega)) + float(lam @ ends)
    return bound if np.isfinite(bound) and bound > 0 else None
