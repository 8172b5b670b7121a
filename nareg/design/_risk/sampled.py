"""The risk and its gradient from sample columns, without any dense N x N matrix.

The risk of a linear filter H is a sum of squares over columns that stand for signal and noise,

    (1/T) sum_t ||(H - I) x_t||^2 + tr(H Sigma H^T)  =  ||H B - G||_F^2,
    B = [X / sqrt(T), Sigma^(1/2) Z / sqrt(P)],   G = [X / sqrt(T), 0],

with random probes Z (:mod:`nareg.design._risk.probes`), the same ones for every w (common random numbers), so that a
descent sees one smooth function. With ``K = C + S``, ``U = H B = K^-1 C B`` and ``A = K^-1 (U - G)``

    d risk / dS = - sum over columns (a u^T + u a^T)      on the support of L,

two solves a column for value and gradient. From noisy readings Y (Stein's unbiased risk estimate)
``B = G = Y / sqrt(T)`` and the rest is ``2 tr(H Sigma) - tr(Sigma)``: with ``D = (C Sigma)^(1/2)`` and ``U = K^-1 D Z``
it is ``2 <D Z, U> / P`` with the derivative ``-2 U U^T / P``, one solve a probe.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from nareg._operator import FilterSystem, Penalty, scale_symmetric
from nareg.design._risk import support
from nareg.filters._sequence import SystemSequence

#: Relative residual of the solves.
TOL = 1e-6


@dataclass
class Columns:
    """What a risk is averaged over: columns filtered towards targets, and for SURE the probes of ``tr(H Sigma)``.

    The first ``n_signals`` columns stand for signals, the rest for noise.
    """

    inputs: np.ndarray
    targets: np.ndarray
    n_signals: int
    sure: np.ndarray | None = None
    constant: float = 0.0
    #: Solutions for the last weights, from which the next solves start.
    last: dict[str, np.ndarray] = field(default_factory=dict)

    def thinned(self, most: int) -> Columns:
        """At most this many columns, half of them for noise, with the same expectation."""
        half = most // 2
        if max(self.n_signals, self.inputs.shape[1] - self.n_signals, 0 if self.sure is None else self.sure.shape[1]) <= half:
            return replace(self, last={})
        signals, probes = slice(0, min(half, self.n_signals)), slice(self.n_signals, self.n_signals + half)
        n_probes = self.inputs[:, probes].shape[1]
        weight = np.sqrt(np.concatenate([
            np.full(signals.stop, self.n_signals / signals.stop),
            np.full(n_probes, (self.inputs.shape[1] - self.n_signals) / max(n_probes, 1)),
        ]))  # fmt: skip
        inputs, targets = (np.hstack([v[:, signals], v[:, probes]]) * weight for v in (self.inputs, self.targets))
        sure = None if self.sure is None else self.sure[:, :half] * np.sqrt(self.sure.shape[1] / min(half, self.sure.shape[1]))
        return Columns(inputs, targets, signals.stop, sure, self.constant)


def oracle_columns(X: np.ndarray, variance: np.ndarray, probes: np.ndarray) -> Columns:
    """Columns for clean signals X (N, T), noise variances (N,) and probes (N, P)."""
    clean = X / np.sqrt(X.shape[1])
    noise = np.sqrt(variance / probes.shape[1])[:, None] * probes
    return Columns(np.hstack([clean, noise]), np.hstack([clean, np.zeros_like(noise)]), X.shape[1])


def blind_columns(Y: np.ndarray, variance: np.ndarray, c: np.ndarray, probes: np.ndarray) -> Columns:
    """Columns of Stein's unbiased risk estimate for readings Y (N, T)."""
    noisy = Y / np.sqrt(Y.shape[1])
    sure = np.sqrt(c * variance / probes.shape[1])[:, None] * probes
    return Columns(noisy, noisy, Y.shape[1], sure, -float(variance.sum()))


class SampledRisk:
    """Risk of node weights on a network of any size.

    Nodes are kept in an order that brings neighbors together in memory; ``order`` maps to it.
    """

    def __init__(self, base: Penalty, c: np.ndarray) -> None:
        system = FilterSystem(S=base.L, c=c, w=np.ones(c.size), penalty=base)
        order = system.order
        self.order = np.arange(c.size) if order is None else np.asarray(order)
        L = base.L if order is None else sp.csr_array(base.L[order][:, order])
        self.L = support.with_diagonal(L)  # the pattern of K
        self.c = c[self.order]
        self.sequence = SystemSequence(c.size, mesh_like=system.mesh_like, tol=TOL)

    def arranged(self, columns: Columns) -> Columns:
        """The columns in this object's node order."""
        sure = None if columns.sure is None else columns.sure[self.order]
        return replace(columns, inputs=columns.inputs[self.order], targets=columns.targets[self.order], sure=sure, last={})

    def system(self, w: np.ndarray) -> sp.csr_array:
        """``K`` for weights in this object's order."""
        K = scale_symmetric(self.L, w)
        K.data[support.diagonal_positions(K)] += self.c
        return K

    def value(self, w: np.ndarray, columns: Columns) -> float:
        """Risk of weights given in the network's order."""
        return float(self.column_values(w, columns).sum()) + columns.constant

    def column_values(self, w: np.ndarray, columns: Columns) -> np.ndarray:
        """The summands of the risk, signals first, then probes."""
        self.sequence.update(self.system(w[self.order]))
        return self._forward(columns)[0]

    def value_and_gradient(self, w: np.ndarray, columns: Columns) -> tuple[float, np.ndarray]:
        """Risk and its gradient in w, both in the network's order."""
        inside = w[self.order]
        self.sequence.update(self.system(inside))
        values, U, error = self._forward(columns)
        A = columns.last["adjoint"] = self.sequence.solve(error, columns.last.get("adjoint"))
        slope = support.pair_products(self.L, A, U)  # minus the derivative on the support
        if columns.sure is not None:
            V = columns.last["sure"]
            slope += support.pair_products(self.L, V, V)
        gradient = np.empty_like(w)
        # dS_ij = L_ij (dw_i w_j + w_i dw_j): twice (dRisk/dS o L) w
        weighted = sp.csr_array((slope * self.L.data, self.L.indices, self.L.indptr), self.L.shape)
        gradient[self.order] = -2.0 * (weighted @ inside)
        return float(values.sum()) + columns.constant, gradient

    def _forward(self, columns: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Summands of the risk, filtered columns and their distance from the targets."""
        U = columns.last["forward"] = self.sequence.solve(self.c[:, None] * columns.inputs, columns.last.get("forward"))
        error = U - columns.targets
        values = np.einsum("it,it->t", error, error)
        if columns.sure is not None:
            V = columns.last["sure"] = self.sequence.solve(columns.sure, columns.last.get("sure"))
            values = np.concatenate([values, 2.0 * np.einsum("ip,ip->p", columns.sure, V)])
        return values, U, error
