"""A design problem without any N x N matrix: training signals, independent noise, bounds, and the scale by risk.

What :class:`nareg.design._risk.problem.DesignProblem` offers the convex designs, with the second moment held as columns and the
operator's extreme eigenvalues found by Lanczos.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackError, eigsh

from nareg._core import checks
from nareg._linear.eigenvalues import extreme_eigenvalue, operator, start_vector
from nareg._linear.factorization import factorize
from nareg._linear.threads import one_blas_thread
from nareg._operator import FilterSystem, Penalty, refuse_singular, scale_symmetric
from nareg.design._risk.line_search import descend_in_steps
from nareg.design._risk.problem import DesignProblem, fit_weights, pack, squared_bounds
from nareg.design._risk.sampled import SampleColumns, SampledRisk, oracle_columns
from nareg.design._risk.starts import SINGLE_COLUMNS, best_single
from nareg.design._risk.support import probes, root
from nareg.errors import InputError
from nareg.results import WeightDesign

#: Random probes for the noise part of the risk, from which one factor is chosen.
PROBES = 24
#: Other graphs than meshes are factored up to here for their smallest frequency.
FACTOR_ANY = 6_000
#: Shift of the operator that is inverted, relative to its largest eigenvalue.
SHIFT = 1e-9


@dataclass(frozen=True)
class SparseProblem:
    """A design problem on a network of any size, checked, in float64."""

    base: Penalty
    X: np.ndarray
    Sigma: np.ndarray | None  # variances
    c: np.ndarray
    fit: np.ndarray | None
    started: float = field(default_factory=time.perf_counter)

    @property
    def n_nodes(self) -> int:
        return self.base.n_nodes

    @property
    def noise_power(self) -> float:
        """``tr(Sigma)``."""
        return 0.0 if self.Sigma is None else float(self.Sigma.sum())

    @cached_property
    def system(self) -> FilterSystem:
        return FilterSystem(S=self.base.L, c=self.c, w=np.ones(self.n_nodes), penalty=self.base)

    @property
    def mesh_like(self) -> bool:
        return self.system.mesh_like

    @cached_property
    def white(self) -> tuple[sp.csr_array, np.ndarray]:
        """Operator, and columns of the second moment in the coordinates ``C^1/2 x``, where weights are ``w / sqrt(c)``."""
        return self.base.L, np.sqrt(self.c / self.X.shape[1])[:, None] * self.X

    @property
    def published_strength(self) -> float:
        """As :attr:`DesignProblem.published_strength`."""
        A = self.white[1]
        power = float(np.einsum("ir,ir->", A, A))
        if power <= 0:
            raise InputError("signals (or second_moment) are zero everywhere: there is no signal to design for.")
        assert self.Sigma is not None
        snr = power / float(self.c @ self.Sigma)
        factored = self.mesh_like or self.n_nodes <= FACTOR_ANY
        L = scale_symmetric(self.base.L, 1 / np.sqrt(self.c))
        first, last = extreme_frequencies(L, np.sqrt(self.c), self.base.is_laplacian, factored)
        return float(np.sqrt(np.sqrt(1.0 / snr) / (first * last)))

    def squared_bounds(self, lower: Any, upper: Any, *, default_lower: float | None) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on ``w_i^2``, as those of a dense problem."""
        return squared_bounds(self.c, largest_frequency(self.base.L), lower, upper, default_lower=default_lower)

    @cached_property
    def _risk(self) -> tuple[SampledRisk, SampleColumns]:
        assert self.Sigma is not None
        risk = SampledRisk(self.base, self.c)
        Z = probes(self.base.L, PROBES, np.random.default_rng(0))
        return risk, risk.arranged(oracle_columns(self.X, self.Sigma, Z))

    def mse_along(self, direction: np.ndarray) -> Callable[[float], float]:
        """The sampled MSE of the weights ``s * direction`` as a function of s."""
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

    def best_scalar(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The single weight with the smallest sampled risk."""
        risk, columns = self._risk
        return best_single(risk, columns, low, high)

    def pack(self, *arguments: Any, **more: Any) -> WeightDesign:
        """Recompute feasibility and wrap everything up, as :func:`nareg.design._risk.problem.pack`."""
        return pack(*arguments, base=self.base, fit=self.fit, started=self.started, **more)


AnyProblem = DesignProblem | SparseProblem


def sparse_problem(base: Penalty, *, signals: Any, noise: Any, fit: Any, needs: str) -> SparseProblem:
    """Check a design's arguments, where signals are given and noise is variances or None."""
    n = base.n_nodes
    X = checks.signals("signals", signals, n).astype(np.float64).reshape(n, -1)
    checks.memory(f"the {needs} design", 8 * n * X.shape[1] * 4, alternative="pass fewer signals, or a part of the network")
    Sigma = None if noise is None else checks.noise("noise", noise, n)
    c = fit_weights(fit, Sigma, n)
    if (c <= 0).any():
        i = int(np.argmin(c))
        raise InputError(f"fit[{i}] is {c[i]:g}: this design needs a positive data term at every node.")
    task = SparseProblem(base=base, X=X, Sigma=Sigma, c=c, fit=None if fit is None else c)
    refuse_singular(task.system)
    return task


def white_parts(task: AnyProblem) -> tuple[sp.csr_array, np.ndarray]:
    """Operator, and columns of the second moment in the coordinates ``C^1/2 x``, where weights are ``w / sqrt(c)``."""
    if isinstance(task, SparseProblem):
        return task.white
    return task.base.L, root(task.whitened().R).T


def published_bound(task: AnyProblem) -> float | None:
    """The paper's w0*, a squared weight, where the noise is known and there is any, else None (no bound)."""
    return task.published_strength if task.Sigma is not None and task.noise_power > 0 else None


def mesh_like(task: AnyProblem) -> bool:
    """Whether sparse factors of matrices on this graph stay sparse."""
    if isinstance(task, SparseProblem):
        return task.mesh_like
    return FilterSystem(S=task.base.L, c=task.c, w=np.ones(task.n_nodes), penalty=task.base).mesh_like


def refuse_extreme(task: AnyProblem, needs: str, *, largest: float = np.inf) -> None:
    """Refuse signals that are zero, or have more power in the coordinates ``C^1/2 x`` than the design can square."""
    if isinstance(task, SparseProblem):
        power = float(np.einsum("ir,ir->", task.white[1], task.white[1]))
    else:
        power = float(task.c @ np.diagonal(task.R))
    if power <= 0:
        raise InputError("signals (or second_moment) are zero everywhere: there is no signal to design for.")
    if power > largest:
        raise InputError(
            f"signals (or second_moment) have a power of {power:g}, whose square overflows in the {needs} design: "
            "divide signals by a constant, and noise by its square."
        )


def principal_direction(A: np.ndarray) -> np.ndarray:
    """Leading eigenvector of ``A A^T``, from the smaller of the two Gram matrices."""
    if A.shape[1] >= len(A):
        u: np.ndarray = np.linalg.eigh(A @ A.T)[1][:, -1]
        return u
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
