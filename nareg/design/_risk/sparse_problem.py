"""A design problem without any N x N matrix: training signals, independent noise, bounds, and the scale by risk.

What :class:`nareg.design._risk.problem.DesignProblem` offers the convex designs, with the second moment held as columns and the
operator's extreme eigenvalues found by Lanczos.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackError, eigsh

from nareg._core import checks
from nareg._solvers.eigenvalues import extreme_eigenvalue, operator, start_vector
from nareg._solvers.factorization import factorize
from nareg._solvers.system import Penalty, scale_symmetric
from nareg._solvers.threads import one_blas_thread
from nareg.design._risk.checked import checked_data_weight, positive_data_weight
from nareg.design._risk.descent import descend_in_steps
from nareg.design._risk.problem import SignalProblem
from nareg.design._risk.sampled import SINGLE_COLUMNS, SampleColumns, SampledRisk, oracle_columns, probes
from nareg.errors import InputError

#: Random probes for the noise part of the risk, from which one factor is chosen.
PROBES = 24
#: Other graphs than meshes are factored up to here for their smallest frequency.
FACTOR_ANY = 6_000
#: Shift of the operator that is inverted, relative to its largest eigenvalue.
SHIFT = 1e-9


@dataclass(frozen=True)
class SparseProblem(SignalProblem):
    """A design problem on a network of any size; Sigma has variances."""

    X: np.ndarray

    @property
    def white_power(self) -> float:
        A = self.white[1]
        return float(np.einsum("ir,ir->", A, A))

    @cached_property
    def largest_frequency(self) -> float:
        return largest_frequency(self.base.L)

    @cached_property
    def white(self) -> tuple[sp.csr_array, np.ndarray]:
        return self.base.L, np.sqrt(self.c / self.X.shape[1])[:, None] * self.X

    @property
    def published_strength(self) -> float:
        self.refuse_extreme("this")
        snr = self.white_power / float(self.c @ self.Sigma)
        factored = self.mesh_like or self.n_nodes <= FACTOR_ANY
        L = scale_symmetric(self.base.L, 1 / np.sqrt(self.c))
        first, last = extreme_frequencies(L, np.sqrt(self.c), self.base.is_laplacian, factored)
        return float(np.sqrt(np.sqrt(1.0 / snr) / (first * last)))

    @cached_property
    def _risk(self) -> tuple[SampledRisk, SampleColumns]:
        assert self.Sigma is not None
        risk = SampledRisk(self.base, self.c)
        Z = probes(self.base.L, PROBES, np.random.default_rng(0))
        return risk, risk.arranged(oracle_columns(self.X, self.Sigma, Z))

    def mse_along(self, direction: np.ndarray) -> Callable[[float], float]:
        """On sample columns."""
        risk, columns = self._risk
        subset = columns.subset(SINGLE_COLUMNS)
        return lambda s: risk.value(s * direction, subset)

    @one_blas_thread
    def best_factor(self, direction: np.ndarray, least: float, largest: float) -> float:
        """The factor in ``[least, largest]`` at the first minimum of the MSE above the least one."""
        along = self.mse_along(direction)
        ends = float(np.log(least)), float(np.log(largest))
        at = descend_in_steps(lambda t: along(float(np.exp(t))), ends[0], *ends, accuracy=1e-3, both_ways=False)
        return float(np.exp(at))

    def best_scalar(self, low: np.ndarray, high: np.ndarray, largest: float = np.inf) -> np.ndarray:
        risk, columns = self._risk
        return risk.best_single(columns, low, high, largest)


def sparse_problem(base: Penalty, *, signals: Any, noise: Any, data_weight: Any, needs: str) -> SparseProblem:
    """Check a design's arguments, where signals are given and noise is variances or None."""
    n = base.n_nodes
    X = checks.signals("signals", signals, n).astype(np.float64).reshape(n, -1)
    checks.memory(f"the {needs} design", 8 * n * X.shape[1] * 4, alternative="pass fewer signals, or a part of the network")
    Sigma = None if noise is None else checks.noise("noise", noise, n)
    c = positive_data_weight(checked_data_weight(base, data_weight, Sigma))
    return SparseProblem(base=base, X=X, Sigma=Sigma, c=c, data_weight=None if data_weight is None else c)


def principal_direction(A: np.ndarray) -> np.ndarray:
    """Leading eigenvector of ``A A^T``, from the smaller of the two Gram matrices."""
    if A.shape[1] >= len(A):
        return np.linalg.eigh(A @ A.T)[1][:, -1]
    u = A @ np.linalg.eigh(A.T @ A)[1][:, -1]
    return u / max(float(np.linalg.norm(u)), 1e-300)


def largest_frequency(L: sp.csr_array) -> float:
    """Largest eigenvalue."""
    return _found(extreme_eigenvalue(L, "LA", tol=1e-8, dense=0))


def extreme_frequencies(L: sp.csr_array, null: np.ndarray, is_laplacian: bool, factored: bool) -> tuple[float, float]:
    """Smallest non-zero and largest eigenvalue; ``null`` spans the null space on every component of a Laplacian."""
    if L.nnz == 0 or abs(L.data).max() == 0:
        raise InputError("graph has no edges: there is nothing to smooth over; connect it first.")
    n = L.shape[0]
    last = largest_frequency(L)
    if not is_laplacian:
        try:
            values = eigsh(L, k=min(8, n - 1), sigma=-SHIFT * last, v0=start_vector(n), return_eigenvectors=False)
        except ArpackError:
            values = np.array([_found(None)])
        above = values[values > 1e-9 * last]
        if above.size == 0:
            raise InputError("lower is None, and this operator has many zero frequencies: pass lower.")
        return float(above.min()), last
    # without the null space the smallest eigenvalue is the largest one of the inverse
    labels = connected_components(L, directed=False)[1]
    weight = np.bincount(labels, null**2)

    def deflate(x: np.ndarray) -> np.ndarray:
        x = x.ravel()
        return x - null * (np.bincount(labels, null * x) / weight)[labels]

    start = deflate(start_vector(n))
    factor = factorize(L + SHIFT * last * sp.eye_array(n), definite=False) if factored else None
    if factor is not None:
        inverse = operator(lambda x: deflate(factor.solve(deflate(x))), n)
        return 1 / _found(extreme_eigenvalue(inverse, "LA", tol=1e-8, dense=0, start=start)) - SHIFT * last, last
    # an expander's smallest frequency is well separated from zero: no inverse is needed
    turned = operator(lambda x: deflate(last * deflate(x) - L @ deflate(x)), n)
    return last - _found(extreme_eigenvalue(turned, "LA", dense=0, start=start)), last


def _found(eigenvalue: float | None) -> float:
    """An eigenvalue, or the remedy where Lanczos did not converge to it."""
    if eigenvalue is None:
        raise InputError(
            "lower is None, but Lanczos did not converge to the smallest frequency that its default needs: pass lower."
        )
    return eigenvalue
