"""The risk and its gradient from sample columns, without any dense N x N matrix.

The risk of a linear filter H is a sum of squares over columns that stand for signal and noise,

    (1/T) sum_t ||(H - I) x_t||^2 + tr(H Sigma H^T)  =  ||H B - G||_F^2,
    B = [X / sqrt(T), Sigma^(1/2) Z / sqrt(P)],   G = [X / sqrt(T), 0],

with random probes Z (:func:`probes`), the same ones for every w (common random numbers), so that a
descent sees one smooth function. With ``K = C + S``, ``U = H B = K^-1 C B`` and ``A = K^-1 (U - G)``

    d risk / dS = - sum over columns (a u^T + u a^T)      on the support of L,

two solves a column for value and gradient. From noisy readings Y (Stein's unbiased risk estimate)
``B = G = Y / sqrt(T)`` and the rest is ``2 tr(H Sigma) - tr(Sigma)``: with ``D = (C Sigma)^(1/2)`` and ``U = K^-1 D Z``
it is ``2 <D Z, U> / P`` with the derivative ``-2 U U^T / P``, one solve a probe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

from nareg._solvers.backends import SolverBackend, open_systems
from nareg._solvers.sequence import SystemSequence
from nareg._solvers.system import Penalty, scale_symmetric
from nareg.design._risk.descent import descend_in_steps, feasible

if TYPE_CHECKING:
    from collections.abc import Callable


from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

from nareg._solvers.system import FilterSystem


def with_diagonal(matrix: sp.csr_array) -> sp.csr_array:
    """The matrix with every diagonal entry stored, zero or not, indices sorted."""
    coo, diagonal = matrix.tocoo(), np.arange(matrix.shape[0])
    rows, columns = (np.concatenate([diagonal, axis]) for axis in coo.coords)
    return sp.csr_array((np.concatenate([np.zeros(diagonal.size), coo.data]), (rows, columns)), shape=matrix.shape)


def diagonal_positions(matrix: sp.csr_array) -> np.ndarray:
    """Positions of the diagonal entries in ``matrix.data``; all must be stored."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return np.flatnonzero(rows == matrix.indices)


def pair_products(pattern: sp.csr_array, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """``(A B^T + B A^T)_ij`` for every stored entry (i, j) of the pattern, in its order."""
    from nareg.design._risk import kernels  # numba: imported when first needed

    return kernels.pair_products(pattern.indptr, pattern.indices, np.ascontiguousarray(A), np.ascontiguousarray(B))


def probes(L: sp.csr_array, count: int, rng: np.random.Generator) -> np.ndarray:
    """(N, count) random probes for traces, one non-zero in every row: ``E[Z Z^T] = P I``, like signs kept apart on the graph.

    Hutchinson's estimate of ``tr(F^T F)`` with independent signs errs by the products ``(F^T F)_ij`` of all pairs of
    nodes. A filter decays with distance on the graph, so that nearly all of that comes from near pairs. Here the nodes
    are colored with P classes, near nodes to different ones, and probe p is ``sqrt(P)`` times random signs on class p: a
    pair errs only if it shares a class (probing, after Tang and Saad 2012).
    """
    from nareg.design._risk import kernels  # numba: imported when first needed

    n = L.shape[0]
    order = rng.permutation(n)
    tie = rng.permuted(np.tile(np.arange(count), n // count + 1))[:n]
    label = kernels.color_nodes(L.indptr, L.indices, order, tie, count)
    Z = np.zeros((n, count))
    Z[np.arange(n), label] = np.sqrt(count) * rng.choice([-1.0, 1.0], size=n)
    return Z


class ColumnSystems(Protocol):
    """Systems in the hands of one library, whose columns are arrays of its own kind, made by ``keep`` and ``solve``."""

    #: What solves, for reports; empty for SciPy.
    label: str

    def keep(self, columns: np.ndarray) -> Any:
        """(N, T) columns where this library solves."""

    def dots(self, A: Any, B: Any) -> np.ndarray:
        """The inner product of every pair of columns, (T,)."""


class NodeSystems(ColumnSystems, Protocol):
    """``K(w)`` for one w after another."""

    #: Relative residual of every column.
    tol: float
    #: Work so far: iterations times columns, factors or multigrid levels made, right-hand sides.
    iterations: int
    factorizations: int
    columns: int

    def update(self, w: np.ndarray) -> None:
        """Set the weights."""

    def forget(self) -> None:
        """Drop what preconditions: the next systems are easier."""

    def solve(self, rhs: Any, x0: Any = None) -> Any:
        """``K^-1 rhs``, from ``x0`` if given; SolverError where the residual stays above the tolerance."""

    def filtered(self, y: Any, x0: Any = None) -> Any:
        """``K^-1 C y``."""

    def derivative(self, A: Any, B: Any) -> np.ndarray:
        """``sum over columns d (a^T K(w) b) / dw``, (N,)."""


class ScipyColumns:
    """Columns as NumPy arrays."""

    label = ""

    def keep(self, columns: np.ndarray) -> np.ndarray:
        return columns

    def dots(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.einsum("it,it->t", A, B)


class ScipySystems(ScipyColumns, SystemSequence):
    """Those of SciPy with our compiled loops."""

    def __init__(self, L: sp.csr_array, c: np.ndarray, *, mesh_like: bool, tol: float) -> None:
        super().__init__(c.size, mesh_like=mesh_like, tol=tol)
        self.L, self.c = L, c
        self._w = np.ones_like(c)

    def update(self, w: np.ndarray) -> None:
        K = scale_symmetric(self.L, w)
        K.data[diagonal_positions(K)] += self.c
        self._w = w
        self.set_matrix(K)

    def filtered(self, y: np.ndarray, x0: np.ndarray | None = None) -> np.ndarray:
        return self.solve(self.c[:, None] * y, x0)

    def derivative(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        # dS_ij = L_ij (dw_i w_j + w_i dw_j)
        pairs = pair_products(self.L, A, B)
        return sp.csr_array((pairs * self.L.data, self.L.indices, self.L.indptr), self.L.shape) @ self._w


def node_systems(backend: SolverBackend, base: Penalty, c: np.ndarray, *, mesh_like: bool, tol: float) -> NodeSystems:
    """The systems of an operator whose diagonal is stored, in the hands of the library of this name."""
    if backend == "scipy":
        return ScipySystems(base.L, c, mesh_like=mesh_like, tol=tol)
    systems: Callable[..., NodeSystems] = open_systems
    return systems(backend, base, c, mesh_like=mesh_like, tol=tol)


#: Relative residual of the solves.
TOL = 1e-6
#: Largest and smallest single weight tried, times the one that weighs a node's data and its edges alike.
SINGLE_RANGE = (1e-8, 1e4)
#: Columns on which the single weight is chosen: its risk has one unknown, a few signals decide it.
SINGLE_COLUMNS = 32


@dataclass
class SampleColumns:
    """What a risk is averaged over: columns filtered towards targets, and for SURE the probes of ``tr(H Sigma)``.

    The first ``n_signals`` columns stand for signals, the rest for noise.
    """

    inputs: np.ndarray
    targets: np.ndarray
    n_signals: int
    sure: np.ndarray | None = None
    constant: float = 0.0
    #: Solutions for the last weights, from which the next solves start.
    last: dict[str, Any] = field(default_factory=dict)
    #: The columns where the systems are solved.
    placed: dict[str, Any] = field(default_factory=dict)

    def subset(self, max_columns: int) -> SampleColumns:
        """At most this many columns, half of them for noise, with the same expectation."""
        half = max_columns // 2
        if max(self.n_signals, self.inputs.shape[1] - self.n_signals, 0 if self.sure is None else self.sure.shape[1]) <= half:
            return replace(self, last={}, placed={})
        signals, probes = slice(0, min(half, self.n_signals)), slice(self.n_signals, self.n_signals + half)
        n_probes = self.inputs[:, probes].shape[1]
        weight = np.sqrt(np.concatenate([
            np.full(signals.stop, self.n_signals / signals.stop),
            np.full(n_probes, (self.inputs.shape[1] - self.n_signals) / max(n_probes, 1)),
        ]))  # fmt: skip
        inputs, targets = (np.hstack([v[:, signals], v[:, probes]]) * weight for v in (self.inputs, self.targets))
        sure = None if self.sure is None else self.sure[:, :half] * np.sqrt(self.sure.shape[1] / min(half, self.sure.shape[1]))
        return SampleColumns(inputs, targets, signals.stop, sure, self.constant)


def oracle_columns(X: np.ndarray, variance: np.ndarray, probes: np.ndarray) -> SampleColumns:
    """Columns for clean signals X (N, T), noise variances (N,) and probes (N, P)."""
    return clean_and_noise(X, np.sqrt(variance / probes.shape[1])[:, None] * probes)


def clean_and_noise(X: np.ndarray, noise: np.ndarray) -> SampleColumns:
    """Columns for clean signals X (N, T), and noise (N, P) whose second moment ``noise noise^T`` is Sigma on average."""
    clean = X / np.sqrt(X.shape[1])
    return SampleColumns(np.hstack([clean, noise]), np.hstack([clean, np.zeros_like(noise)]), X.shape[1])


def blind_columns(Y: np.ndarray, variance: np.ndarray, c: np.ndarray, probes: np.ndarray) -> SampleColumns:
    """Columns of Stein's unbiased risk estimate for readings Y (N, T)."""
    noisy = Y / np.sqrt(Y.shape[1])
    sure = np.sqrt(c * variance / probes.shape[1])[:, None] * probes
    return SampleColumns(noisy, noisy, Y.shape[1], sure, -float(variance.sum()))


class ColumnRisk(ABC):
    """The risk as a sum over columns, whatever S depends on."""

    @abstractmethod
    def column_values(self, unknowns: np.ndarray, columns: SampleColumns) -> np.ndarray | None:
        """The summands of the risk, signals first, then probes; None where K is not positive definite."""

    #: What solves, where a risk has systems.
    systems: ColumnSystems

    def placed(self, columns: SampleColumns) -> dict[str, Any]:
        """The columns where the systems are solved."""
        if not columns.placed:
            given = {"inputs": columns.inputs, "targets": columns.targets, "sure": columns.sure}
            columns.placed.update({name: self.systems.keep(array) for name, array in given.items() if array is not None})
        return columns.placed

    def value(self, unknowns: np.ndarray, columns: SampleColumns) -> float:
        """The risk; infinite where K is not positive definite."""
        values = self.column_values(unknowns, columns)
        return float("inf") if values is None else float(values.sum()) + columns.constant


def squares(error: np.ndarray) -> np.ndarray:
    """Squared length of every column."""
    return np.einsum("it,it->t", error, error)


class SampledRisk(ColumnRisk):
    """Risk of node weights on a network of any size.

    Nodes are kept in an order that brings neighbors together in memory; ``order`` maps to it.
    """

    systems: NodeSystems

    def __init__(self, base: Penalty, c: np.ndarray, backend: SolverBackend = "scipy") -> None:
        system = FilterSystem(S=base.L, c=c, w=np.ones(c.size), penalty=base)
        order = system.order
        self.order = np.arange(c.size) if order is None else np.asarray(order)
        L = base.L if order is None else sp.csr_array(base.L[order][:, order])
        self.L = with_diagonal(L)  # the pattern of K
        self.c = c[self.order]
        self.systems = node_systems(backend, replace(base, L=self.L), self.c, mesh_like=system.mesh_like, tol=TOL)

    def arranged(self, columns: SampleColumns) -> SampleColumns:
        """The columns in this object's node order."""
        sure = None if columns.sure is None else columns.sure[self.order]
        return replace(
            columns, inputs=columns.inputs[self.order], targets=columns.targets[self.order], sure=sure, last={}, placed={}
        )

    def column_values(self, w: np.ndarray, columns: SampleColumns) -> np.ndarray:
        """The summands of the risk of weights given in the network's order."""
        self.systems.update(w[self.order])
        return self._forward(columns)[0]

    def value_and_gradient(self, w: np.ndarray, columns: SampleColumns) -> tuple[float, np.ndarray]:
        """Risk and its gradient in w, both in the network's order."""
        self.systems.update(w[self.order])
        values, U, error = self._forward(columns)
        A = columns.last["adjoint"] = self.systems.solve(error, columns.last.get("adjoint"))
        slope = self.systems.derivative(A, U)
        if columns.sure is not None:
            V = columns.last["sure"]
            slope += self.systems.derivative(V, V)
        gradient = np.empty_like(w)
        gradient[self.order] = -2.0 * slope
        return float(values.sum()) + columns.constant, gradient

    @property
    def balanced_weight(self) -> float:
        """The weight that weighs a typical node's data and its edges alike."""
        return float(np.sqrt(self.c.mean() / self.L.diagonal().mean()))

    def best_single(self, columns: SampleColumns, low: np.ndarray, high: np.ndarray, largest: float = np.inf) -> np.ndarray:
        """The single weight up to ``largest`` with the smallest risk, moved into the bounds node by node."""
        subset, ones = columns.subset(SINGLE_COLUMNS), np.ones(low.size)
        middle = min(self.balanced_weight, largest)

        def value(log_w: float) -> float:
            return self.value(feasible(np.exp(log_w) * ones, low, high), subset)

        first, last = np.log(np.minimum(middle * np.array(SINGLE_RANGE), largest))
        log_w = descend_in_steps(value, float(np.log(middle)), first, last, accuracy=0.01)
        self.systems.forget()  # single weights beyond the best may have needed a factor that the design does not
        return feasible(np.exp(log_w) * ones, low, high)

    def carried_single(self, columns: SampleColumns, low: np.ndarray, high: np.ndarray, scalar: float) -> np.ndarray:
        """An earlier single weight, or the best one where half or twice the earlier one is better."""
        subset = columns.subset(SINGLE_COLUMNS)
        near = [feasible(np.full(low.size, factor * scalar), low, high) for factor in (1.0, 0.5, 2.0)]
        values = [self.value(w, subset) for w in near]
        return near[0] if scalar > 0 and values[0] <= min(values) else self.best_single(columns, low, high)

    def _forward(self, columns: SampleColumns) -> tuple[np.ndarray, Any, Any]:
        """Summands of the risk, filtered columns and their distance from the targets."""
        placed, last, systems = self.placed(columns), columns.last, self.systems
        U = last["forward"] = systems.filtered(placed["inputs"], last.get("forward"))
        error = U - placed["targets"]
        values = systems.dots(error, error)
        if columns.sure is not None:
            V = last["sure"] = systems.solve(placed["sure"], last.get("sure"))
            values = np.concatenate([values, 2.0 * systems.dots(placed["sure"], V)])
        return values, U, error
