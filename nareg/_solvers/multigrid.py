"""Multigrid-preconditioned conjugate gradients on the diagonally dominant form of the system.

With ``u = w x`` the system is ``M u = c y / w``, ``M = diag(c / w^2) + L``: an M-matrix, for which classical algebraic
multigrid was made (Ruge, Stueben 1987; the levels are pyamg's). One V-cycle of M, scaled back by ``1 / w`` on both sides,
preconditions CG on K. The stopping test stays on K's own residual, because M's can be 50 times smaller.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from nareg._solvers import cg
from nareg._solvers.iterate import Iterates
from nareg._solvers.system import FilterSystem
from nareg.errors import InputError

#: Levels end where the dense inverse of the coarsest matrix takes less than another level.
COARSEST = 500
#: Those of pyamg's constructions that draw no random number.
DETERMINISTIC = {"strength": ("classical", {"theta": 0.25}), "CF": "RS", "interpolation": "classical"}
#: Rows of a chunk of a sweep: few chunks, since each boundary weakens it.
CHUNK_ROWS = 4096


def refusal(system: FilterSystem) -> str | None:
    """Why multigrid cannot work on this system, or None."""
    if not system.sdd:
        return "method='multigrid' needs node weights on a graph Laplacian (a diagonally dominant form): use 'cg'."
    if not system.mesh_like:
        return (
            f"method='multigrid' would not end on this graph ({system.n_nodes} nodes, largest degree "
            f"{system.max_degree}, reached in a few steps: not mesh-like): use 'cg'."
        )
    return None


class Level:
    """``A`` of one level, its sweeps' scaled diagonal, and the interpolation ``P`` from the next coarser one."""

    def __init__(self, A: sp.csr_array, P: sp.csr_array) -> None:
        self.A, self.P = A, P
        self.restriction = sp.csr_array(P.T)
        for matrix in (self.A, self.P, self.restriction):
            matrix.sort_indices()
        n = A.shape[0]
        chunks = max(1, min(64, n // CHUNK_ROWS))
        self.bounds = np.array([chunk * n // chunks for chunk in range(chunks + 1)])
        rows = np.repeat(np.arange(n), np.diff(self.A.indptr))
        across = np.searchsorted(self.bounds, rows, side="right") != np.searchsorted(self.bounds, self.A.indices, side="right")
        outside = np.bincount(rows[across], np.abs(self.A.data[across]), minlength=n)
        self.inverse_diagonal = 1.0 / (self.A.diagonal() + outside)


class Levels:
    """The levels of an M-matrix, and the V-cycle through them for blocks of signals."""

    def __init__(self, M: sp.csr_matrix) -> None:
        from pyamg import ruge_stuben_solver  # imported here: only this solver needs it

        # without smoothers: ours replace them, and some of pyamg's draw from NumPy's global generator
        made = ruge_stuben_solver(M, **DETERMINISTIC, presmoother=None, postsmoother=None, max_coarse=COARSEST)
        self.operator_complexity = float(made.operator_complexity())
        self.levels = [Level(sp.csr_array(level.A), sp.csr_array(level.P)) for level in made.levels[:-1]]
        coarsest = made.levels[-1].A.toarray()
        # by its diagonal, or weights of unlike size would look like a null space
        scale = 1 / np.sqrt(np.where(coarsest.diagonal() > 0, coarsest.diagonal(), 1.0))
        scale = np.multiply.outer(scale, scale)
        self.coarse_inverse = scale * _inverse(scale * coarsest)

    def __len__(self) -> int:
        return len(self.levels) + 1

    def cycle(self, B: np.ndarray, depth: int = 0) -> np.ndarray:
        """One symmetric V-cycle for ``A X = B`` from zero: a sweep down, the coarser levels, a sweep up."""
        from nareg._solvers import kernels  # numba: imported when the first cycle needs it

        if depth == len(self.levels):
            return self.coarse_inverse @ B
        level = self.levels[depth]
        A, P, R = level.A, level.P, level.restriction
        sweep = (A.indptr, A.indices, A.data, level.inverse_diagonal, level.bounds, B)
        X, spare = np.empty_like(B), np.empty_like(B)
        kernels.sweep_down(*sweep, X)
        kernels.add_product(A.indptr, A.indices, A.data, -1.0, B, X, spare)
        correction = self.cycle(R @ spare, depth + 1)
        kernels.add_product(P.indptr, P.indices, P.data, 1.0, X, np.ascontiguousarray(correction), spare)
        kernels.sweep_up(*sweep, spare, X)
        return X


def _inverse(A: np.ndarray) -> np.ndarray:
    """The inverse of a symmetric matrix with a diagonal of ones, without its null space where it has one.

    Eigenvectors mix all entries with rounding of the largest, which a residual of huge weights would blow up; triangles do not.
    """
    factor, info = dpotrf(A, lower=1)
    if info or factor.diagonal().min() ** 2 < len(A) * np.finfo(float).eps:
        pseudo: np.ndarray = np.linalg.pinv(A, hermitian=True)
        return pseudo
    half = solve_triangular(factor, np.eye(len(A)), lower=True)
    result: np.ndarray = half.T @ half
    return result


class Hierarchy:
    """A system and its levels, which are made at the first solve and kept.

    Nodes with ``w_i = 0`` decouple (``c_i x_i = rhs_i``) and are solved apart. The others are taken in the system's
    ``order``, which keeps neighbors together in memory.
    """

    def __init__(self, system: FilterSystem) -> None:
        reason = refusal(system)
        if reason is not None:
            raise InputError(reason)
        assert system.w is not None
        self.system = system
        nodes = np.arange(system.n_nodes) if system.order is None else system.order
        w = system.w[nodes]
        #: Nodes with a weight, in the order of the finest level, and those without.
        self.coupled, self.decoupled = nodes[w != 0], nodes[w == 0]
        self.inverse_w = 1.0 / w[w != 0][:, None]

    @cached_property
    def levels(self) -> Levels:
        """Of ``M`` on the coupled nodes."""
        L, coupled = self.system.penalty.L, self.coupled
        if self.system.order is not None or self.decoupled.size:
            # dropping decoupled neighbors keeps their weight on the diagonal: still dominant
            L = sp.csr_array(L[coupled][:, coupled])
        d = self.system.c[coupled] * self.inverse_w[:, 0] ** 2
        M = sp.csr_array(sp.diags_array(d) + L)
        # the three arrays: so SciPy narrows the indices, where they fit, to the 32 bits that pyamg takes
        return Levels(sp.csr_matrix((M.data, M.indices, M.indptr), shape=M.shape))

    def precondition(self, residual: np.ndarray) -> np.ndarray:
        """One V-cycle for every column, scaled back to K."""
        out = np.empty_like(residual)
        out[self.decoupled] = residual[self.decoupled] / self.system.diagonal[self.decoupled, None]
        out[self.coupled] = self.inverse_w * self.levels.cycle(self.inverse_w * residual[self.coupled])
        return out

    def solve(self, rhs: np.ndarray, *, x0: np.ndarray | None = None, **options: Any) -> Iterates:
        """As :func:`nareg._solvers.cg.solve`."""
        system = self.system
        if not self.coupled.size:
            return cg.solve(system, rhs, **options)  # K is diagonal
        if self.decoupled.size:
            result = cg.solve(system, rhs, x0=x0, precondition=self.precondition, **options)
        else:
            inverse_w, levels = self.inverse_w, self.levels
            options["precondition"] = lambda R: inverse_w * levels.cycle(inverse_w * R)
            result = cg.solve_in_order(system.ordered_K, rhs, x0=x0, order=system.order, **options)
        result.note = f"{len(self.levels)} levels, operator complexity {self.levels.operator_complexity:.2f}"
        return result
