"""What an edge design is asked for, and its result: eigenvalues are recomputed from the entries."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._solvers.backends import SolverBackend
from nareg._solvers.eigenvalues import extreme_eigenvalue, operator
from nareg._solvers.factorization import factorize
from nareg._solvers.system import FilterSystem, Penalty
from nareg.design._edge.support import Support
from nareg.design._risk.checked import DesignEnd, packed
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, WeightDesign, symmetric_from_entries

#: Up to here dense eigenvalues take less than Lanczos steps with sparse factors (3,000 nodes: 3 seconds each).
DENSE_NODES = 500
#: A sparse factor of a mesh of this size takes about a gigabyte.
FACTOR_NODES = 50_000


@dataclass(frozen=True)
class EdgeOptions:
    """How an edge design is made: ``shrink`` is None where held-out data choose it."""

    by_risk: bool
    nonnegative: bool
    shrink: float | None
    rng: np.random.Generator
    backend: SolverBackend
    progress: ProgressCallback | None
    rate: float | None = None


@dataclass(frozen=True)
class EdgeOutcome:
    """Outcome of an edge design: entries of S (N diagonal, M edges), the criterion there, and how it was reached."""

    entries: np.ndarray
    objective: float
    end: DesignEnd

    def reported(self, details: DesignDetails, *, factor: float = 1.0) -> EdgeOutcome:
        """With further or other details in its certificate, and entries times a factor."""
        end = replace(self.end, details={**self.end.details, **details})
        return replace(self, entries=factor * self.entries, end=end)


def pack(
    outcome: EdgeOutcome, base: Penalty, support: Support, c: np.ndarray, data_weight: np.ndarray | None,
    settings: dict[str, Any], started: float,
) -> WeightDesign:  # fmt: skip
    """The design as a :class:`WeightDesign`."""
    S = symmetric_from_entries(outcome.entries, support.i, support.j)
    relative, smallest = smallest_eigenvalues(FilterSystem(S=S, c=c, w=None, penalty=base))
    end = outcome.reported({"smallest_eigenvalue_K": smallest}).end
    return packed(
        base, outcome.entries, outcome.objective, end,
        smallest=relative, method="edge", data_weight=data_weight,
        timings={"total": time.perf_counter() - started}, settings=settings,
    )  # fmt: skip


def smallest_eigenvalues(system: FilterSystem) -> tuple[float, float]:
    """Smallest eigenvalue of S relative to the largest, and that of K; nan where that would take too long."""
    S, n = system.S, system.n_nodes
    if n <= DENSE_NODES or (n <= checks.DENSE_LIMIT and not system.mesh_like):
        values = np.linalg.eigvalsh(S.toarray())
        return float(values[0] / max(np.abs(values).max(), 1e-300)), float(np.linalg.eigvalsh(system.K.toarray())[0])
    if not (n <= FACTOR_NODES and system.mesh_like):
        return float("nan"), float("nan")
    largest = extreme_eigenvalue(S, "LM", tol=1e-3, dense=0)
    # S + max(c) I is at least K, hence positive definite: its inverse has the wanted end on top
    shift = float(system.c.max())
    shifted, smallest = _smallest(sp.csr_array(S + shift * sp.eye_array(n))), _smallest(system.K)
    if largest is None or shifted is None or smallest is None:
        return float("nan"), float("nan")
    return (shifted - shift) / max(abs(largest), 1e-300), smallest


def _smallest(K: sp.csr_array) -> float | None:
    """Smallest eigenvalue of a positive definite matrix by Lanczos with its inverse; None where that fails."""
    factor = factorize(K, definite=False)
    largest = None if factor is None else extreme_eigenvalue(operator(factor.solve, K.shape[0]), "LM", dense=0)
    return None if largest is None else 1.0 / largest
