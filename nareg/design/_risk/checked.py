"""A design's arguments, checked, on a network of any size, and how its result is packed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._solvers.system import FilterSystem, Penalty, refuse_singular, scale_symmetric
from nareg._version import __version__
from nareg.design._risk.descent import DescentResult
from nareg.errors import InputError
from nareg.graph import operator_hash
from nareg.results import DesignCertificate, DesignDetails, Status, WeightDesign

#: Exact and blind designs use dense matrices up to so many nodes, and sampled columns beyond.
DENSE_NODES = 500
#: Standard errors by which the held-out risk must fall, for every design. Two keep the single weight where designs pay
#: (``python benchmarks/selection.py``).
STANDARD_ERRORS = 1.0
#: Default upper limit of ``w_i^2 lambda_max(L)``: the filter then has a condition number below 10^8 and
#: still half of float64's digits. Without a limit a signal value near zero drives Prony's weight to infinity.
CONDITION_LIMIT = 1e8
#: Up to here the smallest eigenvalue of S is computed for the certificate; it is zero or rounding for any w.
EIGENVALUE_NODES = 1500
#: Relative projected gradient below which a point counts as a local minimum.
STATIONARY = 1e-4


@dataclass(frozen=True)
class DesignEnd:
    """How a design ended, and what its certificate says."""

    status: Status
    solver: str
    solver_status: str
    gradient_norm: float | None = None
    details: DesignDetails = field(default_factory=DesignDetails)
    relaxed_objective: float | None = None


def packed(
    base: Penalty,
    weights: np.ndarray,
    objective: float,
    end: DesignEnd,
    *,
    smallest: float,
    violation: float = 0.0,
    **rest: Any,
) -> WeightDesign:
    """The design with its certificate; ``rest`` are further fields of :class:`WeightDesign`."""
    certificate = DesignCertificate(
        smallest_eigenvalue=smallest,
        violation=violation,
        solver=end.solver,
        solver_status=end.solver_status,
        relaxed_objective=end.relaxed_objective,
        gradient_norm=end.gradient_norm,
        details=end.details,
    )
    return WeightDesign(
        weights=weights,
        objective=float(objective),
        status=end.status,
        certificate=certificate,
        penalty=base.L,
        graph_hash=operator_hash(base.L),
        version=__version__,
        **{"omega": None, **rest},
    )


@dataclass(frozen=True)
class CheckedProblem:
    """A design problem on a network of any size, checked, in float64."""

    base: Penalty
    Sigma: np.ndarray | None  # (N,) or (N, N)
    c: np.ndarray
    data_weight: np.ndarray | None
    started: float = field(default_factory=time.perf_counter, kw_only=True)

    @property
    def n_nodes(self) -> int:
        return self.base.n_nodes

    @property
    def mesh_like(self) -> bool:
        """Whether sparse factors of matrices on this graph stay sparse."""
        return bare_system(self.base, self.c).mesh_like

    @property
    def noise_power(self) -> float:
        """``tr(Sigma)``."""
        if self.Sigma is None:
            raise InputError("noise is needed here: pass its variance, or estimate it with estimate_noise.")
        return float(self.Sigma.sum() if self.Sigma.ndim == 1 else np.trace(self.Sigma))

    @property
    def largest_frequency(self) -> float:
        """The largest eigenvalue of L, or an upper bound on it: Gershgorin's."""
        return float(np.max(np.asarray(abs(self.base.L).sum(axis=1)).ravel(), initial=0.0))

    def squared_bounds(self, lower: Any, upper: Any, *, default_lower: float | None) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on ``w_i^2``: the caller's, else ``default_lower`` (0 if None) and the condition limit."""
        n, c = self.n_nodes, self.c
        why = "it bounds w_i^2"
        low = checks.nonnegative_vector("lower", (default_lower or 0.0) if lower is None else lower, n, why=why)
        typical = np.where(c > 0, c, c[c > 0].mean())
        high: np.ndarray = CONDITION_LIMIT / max(self.largest_frequency, 1e-300) * typical
        if upper is None or (np.ndim(upper) == 0 and upper == np.inf):
            hint = " (upper is the default limit on the condition number; pass a lower one)"
        else:
            high = checks.nonnegative_vector("upper", upper, n, why=why)
            hint = " (lower is the default w0*; pass lower=0 for none)" if lower is None else ""
        checks.bounds(low, high, hint=hint)
        return low, high

    def pack(
        self, method: str, w: np.ndarray, objective: float, bounds: tuple[np.ndarray, np.ndarray], end: DesignEnd, *,
        omega: np.ndarray | None = None, timings: dict[str, float] | None = None, settings: dict[str, Any] | None = None,
    ) -> WeightDesign:  # fmt: skip
        """Recompute eigenvalue and feasibility and wrap everything up; ``bounds`` are on ``w_i^2``.

        Above the dense limit the smallest eigenvalue is not computed: ``diag(w) L diag(w)`` is positive semidefinite
        because L is.
        """
        base, (lower, upper) = self.base, bounds
        w = -w if w.sum() < 0 else w  # w and -w are the same filter: report the one that is mostly positive
        smallest = 0.0
        if base.n_nodes <= EIGENVALUE_NODES:
            S = scale_symmetric(base.L, w) if omega is None else sp.csr_array(omega)
            values = np.linalg.eigvalsh(S.toarray())
            smallest = float(values[0] / max(abs(values[-1]), 1e-300))
        square = w**2
        below = np.where(lower > 0, (lower - square) / np.where(lower > 0, lower, 1.0), 0.0)
        above = np.where(np.isfinite(upper), square - upper, 0.0) / np.where((upper > 0) & np.isfinite(upper), upper, 1.0)
        violation = float(max(below.max(), above.max(), 0.0))
        status = Status.INACCURATE if violation > 1e-9 and end.status.ok else end.status
        return packed(
            base, w, objective, replace(end, status=status),
            smallest=smallest, violation=violation, method=method, data_weight=self.data_weight, omega=omega,
            timings={**(timings or {}), "total": time.perf_counter() - self.started},
            settings={**(settings or {}), "lower": _short(lower), "upper": _short(upper)},
        )  # fmt: skip


def with_details(
    design: WeightDesign, details: DesignDetails, *, timings: dict[str, float] | None = None,
    settings: dict[str, Any] | None = None, **changed: Any,
) -> WeightDesign:  # fmt: skip
    """A design with further details in its certificate, earlier timings, other settings, and fields changed."""
    certificate = replace(design.certificate, details={**design.certificate.details, **details})
    timings, settings = {**(timings or {}), **design.timings}, {**design.settings, **(settings or {})}
    return replace(design, certificate=certificate, timings=timings, settings=settings, **changed)


def local_status(descent: DescentResult, solved: Status = Status.CONVERGED) -> Status:
    """Status of a design that ended with a local descent, given how the convex step before it ended."""
    if descent.message == "interrupted":
        return Status.INTERRUPTED
    if solved is Status.CONVERGED and descent.gradient_norm > STATIONARY:
        return Status.INACCURATE
    return solved


def bare_system(base: Penalty, c: np.ndarray) -> FilterSystem:
    """The system of weights of one."""
    return FilterSystem(S=base.L, c=c, w=np.ones(c.size), penalty=base)


def checked_data_weight(base: Penalty, data_weight: Any, Sigma: np.ndarray | None) -> np.ndarray:
    """:func:`data_weights`, refused where they leave a part of the graph without data."""
    c = data_weights(data_weight, Sigma, base.n_nodes)
    refuse_singular(bare_system(base, c))
    return c


def positive_data_weight(c: np.ndarray, needs: str = "this design") -> np.ndarray:
    """The data term, refused where a node has none."""
    if (c <= 0).any():
        i = int(np.argmin(c))
        raise InputError(f"data_weight[{i}] is {c[i]:g}: {needs} needs a positive data term at every node.")
    return c


def data_weights(data_weight: Any, Sigma: np.ndarray | None, n: int) -> np.ndarray:
    """Data-term weights c of a design: ones, ``1 / diag(noise)`` for ``"noise"``, or the caller's."""
    if data_weight is None:
        return np.ones(n)
    if isinstance(data_weight, str):
        if data_weight != "noise":
            raise InputError(f"data_weight is {data_weight!r}; choose None, 'noise' or an array ({n},).")
        if Sigma is None:
            raise InputError("data_weight='noise' needs noise, the variance of each node's readings.")
        variance = Sigma if Sigma.ndim == 1 else np.diag(Sigma)
        if (variance <= 0).any():
            i = int(np.argmin(variance))
            raise InputError(
                f"noise[{i}] is {variance[i]:g}: data_weight='noise' divides by it; give every node a positive variance."
            )
        return 1.0 / variance
    c = checks.nonnegative_vector("data_weight", data_weight, n, why="it weighs the data term, 0 means not observed")
    if not c.any():
        raise InputError("data_weight is zero everywhere: at least one node needs a data term.")
    return c


def _short(bound: np.ndarray) -> float | list[float]:
    """One number where a bound is the same at every node."""
    return float(bound[0]) if (bound == bound[0]).all() else bound.tolist()
