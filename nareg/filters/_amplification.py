"""A bound on estimates at unobserved nodes, and safer weights where it is exceeded.

With ``u = w x`` the estimate at an unobserved node is the mean of its neighbors' u, divided by its own w. A weight near zero
inflates it. The filter of the observed nodes does not depend on that w: eliminating the node leaves ``W_o L_o W_o`` for the
others. So w is replaced by the same mean of the neighbors' ``|w|``. The estimate becomes a mean of the neighbors' estimates,
and the observed nodes keep theirs. Where a neighbor inflates an observed node, all nodes take one weight, whose estimates
never exceed the largest reading.

A matrix S has no such structure. Its filter is bounded by :mod:`._matrix_amplification`, and replaced by one weight only where
the estimate rests on entries that are nearly zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from nareg._solvers.system import FilterSystem, Penalty, scale_symmetric
from nareg.errors import AmplificationWarning
from nareg.filters import _matrix_amplification
from nareg.filters._matrix_amplification import Bound, Solve

#: Largest allowed estimate at an unobserved node, over the largest reading. On five sensor networks, designs above it
#: interpolated 1.5 to 5,000 times worse than one weight; designs below it were never 1.4 times worse.
LARGEST_AMPLIFICATION = 2.0

#: What to do about it.
REMEDY = "Design with data_weight=observed.astype(float), or a larger lower, to choose these weights yourself."


@dataclass
class Replaced:
    """Number of signals with replaced weights, or with given ones above the limit, and the worst bound of the given weights."""

    worst: Bound = field(default_factory=Bound)
    averaged: int = 0
    single: int = 0
    unchanged: int = 0

    def safe(self, system: FilterSystem, seen: np.ndarray, signals: int, solve: Solve) -> FilterSystem:
        """The system, or one with safer weights if its bound exceeds the limit."""
        given = bound(system, seen, solve)
        if not given.exceeded:
            return system
        if given.amplification > self.worst.amplification:
            self.worst = given
        if system.w is None:
            if not (given.undetermined and system.penalty.is_laplacian):
                self.unchanged += signals
                return system
        else:
            repaired = averaged(system, seen, solve)
            if not bound(repaired, seen, solve).exceeded:
                self.averaged += signals
                return repaired
        self.single += signals
        return single(system)

    def note(self, signals: int) -> str:
        """The part of ``Solution.method`` about replaced weights."""
        parts = []
        if self.averaged:
            parts.append(f"unobserved nodes weighted like their neighbors in {self.averaged} of {signals} signals")
        if self.single:
            parts.append(f"one weight for all nodes in {self.single} of {signals} signals")
        return "".join(f"; {part}" for part in parts)

    def warning(self, base: Penalty, matrix: bool, signals: int) -> AmplificationWarning | None:
        """The warning, if weights were replaced or a bound above the limit was left; ``matrix``: S was given, or edges."""
        if not self.worst.exceeded:
            return None
        worst = self.worst
        return AmplificationWarning(
            worst.node,
            worst.amplification,
            worst.nodes,
            place=base.describe_node(worst.node),
            done=self.note(signals)[2:],
            unchanged=f"{self.unchanged} of {signals} signals" if self.unchanged else "",
            remedy=_matrix_amplification.REMEDY if matrix else REMEDY,
        )


def bound(system: FilterSystem, seen: np.ndarray, solve: Solve) -> Bound:
    """The row of ``|H|`` at an unobserved node with the largest sum.

    ``S(w) = D S(|w|) D`` with D the signs of w, and ``H(|w|)`` has no negative entry: its row sums are the estimate for
    readings of one everywhere, those of ``|H(w)|`` the absolute estimate for readings D.
    """
    if seen.all():
        return Bound()
    if system.w is None:
        return _matrix_amplification.bound(system, seen, solve)
    if not system.sdd:
        return Bound()
    size = np.abs(system.w)
    if size[seen].max() <= LARGEST_AMPLIFICATION * size[~seen].min():  # a maximum principle for w x
        return Bound()
    signs = np.where(system.w < 0, -1.0, 1.0)
    rows = np.where(seen, 0.0, np.abs(solve(system, (system.c * signs)[:, None], 1e-3).x[:, 0]))
    return Bound.of(rows, LARGEST_AMPLIFICATION)


def averaged(system: FilterSystem, seen: np.ndarray, solve: Solve) -> FilterSystem:
    """Unobserved nodes take the weight ``-L_mm^-1 L_mo |w_o|``; what is observed keeps weight and estimate."""
    assert system.w is not None
    L = system.penalty.L
    missing = np.flatnonzero(~seen)
    inner, across = sp.csr_array(L[missing][:, missing]), L[missing][:, np.flatnonzero(seen)]
    part = FilterSystem(S=inner, c=np.zeros(missing.size), w=np.ones(missing.size), penalty=replace(system.penalty, L=inner))
    mean = solve(part, -(across @ np.abs(system.w[seen]))[:, None], 1e-10).x[:, 0]
    w = system.w.copy()
    w[missing] = np.where(mean > 0, mean, np.abs(w[missing]))
    return _with(system, w)


def single(system: FilterSystem) -> FilterSystem:
    """One weight for all nodes, the geometric mean of the sizes of the given ones; of a matrix S ``sqrt(S_ii / L_ii)``."""
    if system.w is None:
        own, graph = system.S.diagonal(), system.penalty.L.diagonal()
        size = np.sqrt(np.divide(own, graph, out=np.zeros_like(own), where=(own > 0) & (graph > 0)))
    else:
        size = np.abs(system.w)
    return _with(system, np.full(size.size, float(np.exp(np.mean(np.log(size[size > 0]))))))


def _with(system: FilterSystem, w: np.ndarray) -> FilterSystem:
    return replace(system, S=scale_symmetric(system.penalty.L, w), w=w)
