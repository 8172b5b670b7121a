"""What a solve would cost by each method: nanoseconds of one core, from counts alone.

The constants were measured on one machine (AMD EPYC, DDR memory); what is compared are their ratios. No clock is read, so
that the same input always takes the same method and gives the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp

from nareg._solvers import direct, multigrid
from nareg._solvers.factorization import fill_order
from nareg._solvers.iterate import BLOCK
from nareg._solvers.system import FilterSystem

#: What an iteration costs beside its arithmetic: a few calls of compiled loops.
CALLS = 4e4
#: Multigrid: the levels (per entry of K), an iteration over one of Jacobi-CG (and more by this share for few signals), and the
#: number of iterations: 8 on grids, 15 to 30 on nearest neighbors and roads.
LEVELS, CYCLE, FEW_SIGNALS, CYCLES = 300.0, 7.0, 4.0, 14
#: Multiplications of a factorization that take one nanosecond, and bytes of an entry of both factors.
FLOPS, ENTRY = 4.5, 24
#: A factor that would be larger is not considered.
LARGEST_FACTOR = 8e9
#: Nodes of the balls whose factors tell how fill grows; a twentieth of the graph where that lies between.
SMALLEST_BALL, LARGEST_BALL = 1_000, 8_000


@dataclass(frozen=True)
class Costs:
    """Seconds that a solve would take, and by which method; ``inf`` where it is refused."""

    direct: float
    multigrid: float

    @property
    def best(self) -> tuple[float, Literal["direct", "multigrid"]]:
        """The cheaper one."""
        return (self.direct, "direct") if self.direct < self.multigrid else (self.multigrid, "multigrid")


def iteration(K: sp.csr_array, columns: int) -> float:
    """Seconds of an iteration of Jacobi-CG on so many columns."""
    blocks, rest = divmod(columns, BLOCK)
    per_row = sum(
        count * (K.nnz / K.shape[0] * 0.25 * (1 + width) + 1 + 2.7 * width)
        for count, width in ((blocks, BLOCK), (1, rest))
        if width
    )
    return float(per_row * K.shape[0] + CALLS * (blocks + (rest > 0))) * 1e-9


def alternatives(system: FilterSystem, columns: int, calls: int = 1) -> Costs:
    """The costs of a factor, and of multigrid, with ``calls`` solves of so many columns."""
    K = system.K
    cycles = np.inf
    if multigrid.refusal(system) is None:
        cycles = LEVELS * K.nnz * 1e-9 + calls * CYCLES * (CYCLE + FEW_SIGNALS / columns) * iteration(K, columns)
    return Costs(_factor(system, columns * calls), cycles)


def _factor(system: FilterSystem, columns: int) -> float:
    """Seconds to factor K and solve for so many columns."""
    if direct.refusal(system) is not None:
        return np.inf
    n = system.n_nodes
    # a ball in an expander shows little of its cycles; these shares of a full factor were seen on random graphs
    entries, flops = factor_size(system.K) if system.mesh_like else (n**2 / 30, n**3 / 200)
    if entries * ENTRY > LARGEST_FACTOR:
        return np.inf
    # what leaves the caches, and what is scattered in memory, takes longer
    scattered, distance = (1.0 if system.order is None else 1.8), (max(n, 8_000) / 8_000) ** 0.33
    factor = 0.85 * scattered * distance * (600 * n + 50 * entries) + flops / FLOPS
    solves = 2 * entries * (1.2 * scattered) * (2 * columns + 1)
    return float(factor + solves) * 1e-9


def factor_size(K: sp.csr_array) -> tuple[float, float]:
    """Entries and multiplications of the factor of K, from those of two balls around a node.

    Per node both grow by a power of the number of nodes: not at all on a tree, by about 1/5 and 1/2 on a mesh in the plane, by
    1 and 2 on an expander.
    """
    n = K.shape[0]
    large = int(min(max(n // 20, SMALLEST_BALL), LARGEST_BALL, n))
    (few, few_flops), (many, many_flops) = (_fill(K, size) for size in (large // 4, large))
    ratio = n / large
    entries = many * ratio ** _exponent(many, few) * n
    return entries, many_flops * ratio ** _exponent(many_flops, few_flops) * n


def _fill(K: sp.csr_array, size: int) -> tuple[float, float]:
    """Entries below the diagonal and multiplications per node of the factor of a ball of so many nodes."""
    from nareg._solvers import (
        search,  # numba: imported when first needed
        twofold,
    )

    nodes = np.sort(search.ball(K.indptr, K.indices, K.shape[0] // 2, size))
    part = sp.csr_array(K[nodes][:, nodes])
    order = fill_order(part)
    part = sp.csr_array(part[order][:, order])
    counts = twofold.column_counts(part.indptr, part.indices)[0].astype(float)
    return float(counts.mean()), float((counts**2).mean())


def _exponent(large: float, small: float) -> float:
    """Of the growth from a ball to one four times as large, at least 0 and at most that of a full factor."""
    return float(np.clip(np.log(max(large, 1e-9) / max(small, 1e-9)) / np.log(4), 0, 2))
