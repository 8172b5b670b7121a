"""A bound on estimates at unobserved nodes where S is a matrix, as that of an edge design.

The estimate at node i is at most the sum of ``|H_ij|``, ``H = K^-1 C``, times the largest reading. Small networks compute all
rows. Large ones look for a large row: by a few solves for readings of one and of random signs (Hager, "Condition estimates",
SIAM J. Sci. Stat. Comput. 1984), then by one solve per suspect node, which gives its row.

A row is large for one of two reasons. Fields of unlike size need it: it does no harm. Or the node, with others that are
not observed, is joined to the rest by entries that are nearly zero, whose ratios carry no information. Then ``S_ii (K^-1)_ii``
is large too: a relative change of S_ii by one over it changes the estimate by its own size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from nareg._solvers.iterate import Iterates
from nareg._solvers.system import FilterSystem
from nareg.errors import SingularSystemError
from nareg.results import Status

#: Largest sum of ``|H_ij|`` of which nothing is said. On five networks at 10 dB shrunk edge designs that interpolated well
#: were at most 3.2; one weight was 2 to 50 times better than those above 4.
LARGEST_AMPLIFICATION = 4.0
#: Largest ``S_ii (K^-1)_ii`` that a design determines. Where it was 6e5 and more, and the row above 4, one weight was 6 to 100
#: times better; where a row above 4 did no harm it was 5e3 at most.
LARGEST_SENSITIVITY = 1e5
#: Up to here all rows are computed. At 144 nodes that takes as long as the solve.
EXACT_NODES = 250
#: Relative residual of the solves for large networks.
TOLERANCE = 1e-4

#: What to do about it.
REMEDY = (
    "Design with criterion='likelihood', or with data_weight=observed.astype(float) where the same stations are always silent."
)

#: ``solve(system, rhs, tolerance)``
Solve = Callable[[FilterSystem, np.ndarray, float], Iterates]


@dataclass(frozen=True)
class Bound:
    """The largest estimate at an unobserved node over the largest reading, where it is, and how many exceed the limit."""

    amplification: float = 0.0
    node: int = -1
    nodes: int = 0
    #: Whether a change of S by rounding, or by the error of any design, would change that estimate entirely.
    undetermined: bool = False

    @property
    def exceeded(self) -> bool:
        return self.nodes > 0

    @classmethod
    def of(cls, rows: np.ndarray, limit: float, undetermined: bool = False) -> Bound:
        """That of these row sums, zero at observed nodes."""
        return cls(float(rows.max()), int(np.argmax(rows)), int((rows > limit).sum()), undetermined)


def bound(system: FilterSystem, seen: np.ndarray, solve: Solve) -> Bound:
    """The largest row sum of ``|H|`` at an unobserved node; above 250 nodes, the largest that was seen.

    Refused where K is not positive definite. Nothing is said where the solves do not converge.
    """
    if _dominant(system):
        return Bound()
    missing = np.flatnonzero(~seen)
    measured = _all_rows(system, missing) if system.n_nodes <= EXACT_NODES else _some_rows(system, missing, solve)
    if measured is None:
        return Bound()
    nodes, sums, sensitivity = measured
    rows = np.zeros(system.n_nodes)
    rows[nodes] = sums
    return Bound.of(rows, LARGEST_AMPLIFICATION, bool((sensitivity[sums > LARGEST_AMPLIFICATION] > LARGEST_SENSITIVITY).any()))


#: Nodes per probe whose rows are computed: the largest of one probe misses the largest row now and then.
SUSPECTS = 3
#: Nodes, the sums of ``|H_ij|`` of their rows, and ``S_ii (K^-1)_ii``.
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def _dominant(system: FilterSystem) -> bool:
    """Whether no estimate exceeds the largest reading: every row of S is diagonally dominant, whatever its signs."""
    size = np.asarray(abs(system.S).sum(axis=1)).ravel()
    return bool((size <= 2.0 * system.S.diagonal()).all())


def refuse_indefinite(system: FilterSystem, missing: np.ndarray) -> NoReturn:
    """Say that K is not positive definite without the readings of these nodes."""
    shown = ", ".join(system.penalty.describe_node(int(i)) for i in missing[:3]) + (", ..." if missing.size > 3 else "")
    raise SingularSystemError(
        f"weights (a matrix S) make C + S indefinite where {missing.size} of {system.n_nodes} readings are missing ({shown}), "
        f"so that no estimate is determined. {REMEDY}"
    )


def _all_rows(system: FilterSystem, missing: np.ndarray) -> Rows:
    try:
        factor = cho_factor(system.K.toarray(), lower=True)
    except LinAlgError:
        refuse_indefinite(system, missing)
    return _measured(system, missing, cho_solve(factor, np.eye(system.n_nodes)[:, missing]))


def _some_rows(system: FilterSystem, missing: np.ndarray, solve: Solve) -> Rows | None:
    """Rows of a few nodes: where readings of one or of random signs, or a weak tie to all readings, make large estimates."""
    n, c = system.n_nodes, system.c
    signs = np.random.default_rng(0).choice([-1.0, 1.0], n)
    silent = np.zeros(n)
    silent[missing] = 1.0
    probed = solve(system, np.column_stack([c, c * signs, signs * silent]), TOLERANCE)
    if probed.status is Status.INDEFINITE:
        refuse_indefinite(system, missing)
    if not probed.status.ok:
        return None
    largest = np.argsort(-np.abs(probed.x[missing]), axis=0)[:SUSPECTS]
    suspects = np.unique(missing[largest])
    unit = np.zeros((n, suspects.size))
    unit[suspects, np.arange(suspects.size)] = 1.0
    return _measured(system, suspects, solve(system, unit, TOLERANCE).x)


def _measured(system: FilterSystem, nodes: np.ndarray, columns: np.ndarray) -> Rows:
    """From these columns of ``K^-1``, which is symmetric."""
    return nodes, system.c @ np.abs(columns), system.S.diagonal()[nodes] * columns[nodes, np.arange(nodes.size)]
