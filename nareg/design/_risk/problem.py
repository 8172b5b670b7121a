"""What every design shares: the checked problem, the risk and its gradient, bounds, and packing the result.

Notation: ``K = C + S``, ``H = K^-1 C``, signal second moment ``R``, noise covariance ``Sigma``.

    bias      tr((H - I) R (H - I)^T)          (12)
    variance  tr(H Sigma H^T)                  (13)
    MSE       bias + variance                  (11)

``H`` is not symmetric unless ``C`` is a multiple of the identity, so the paper's squared forms are not used.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from nareg._core import checks
from nareg._solvers.system import FilterSystem, Penalty, penalty, refuse_singular, scale_symmetric
from nareg._version import __version__
from nareg.design._risk.descent import DescentResult, feasible, minimize_scale, minimize_widely
from nareg.errors import InputError, SingularSystemError
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


@dataclass(frozen=True)
class SignalProblem(CheckedProblem, ABC):
    """A problem with signals that are known, as matrices or as columns."""

    @property
    @abstractmethod
    def white(self) -> tuple[sp.csr_array, np.ndarray]:
        """Operator, and columns of the second moment in the coordinates ``C^1/2 x``, where weights are ``w / sqrt(c)``."""

    @property
    @abstractmethod
    def white_power(self) -> float:
        """Power of the signals in the coordinates ``C^1/2 x``."""

    @property
    @abstractmethod
    def published_strength(self) -> float:
        """The rule used as the paper's benchmark: ``sqrt(theta / (lambda_2 lambda_N))``, ``theta = SNR^-1/2``.

        In the coordinates ``C^1/2 x`` where the data term is the identity: SNR and eigenvalues of
        ``C^-1/2 L C^-1/2``, so that the filter does not depend on the unit of c.
        """

    @abstractmethod
    def mse_along(self, direction: np.ndarray) -> Callable[[float], float]:
        """The MSE of the weights ``s * direction`` as a function of s."""

    @abstractmethod
    def best_factor(self, direction: np.ndarray, least: float, largest: float) -> float:
        """The factor in ``[least, largest]`` of the smallest MSE."""

    @abstractmethod
    def best_scalar(self, low: np.ndarray, high: np.ndarray, largest: float = np.inf) -> np.ndarray:
        """The single weight up to ``largest`` with the smallest risk, moved into the bounds node by node."""

    def refuse_extreme(self, needs: str, *, largest: float = np.inf) -> None:
        """Refuse signals that are zero, or have more power in the coordinates ``C^1/2 x`` than the design can square."""
        power = self.white_power
        if power <= 0:
            raise InputError("signals (or second_moment) are zero everywhere: there is no signal to design for.")
        if power > largest:
            raise InputError(
                f"signals (or second_moment) have a power of {power:g}, whose square overflows in the {needs} design: "
                "divide signals by a constant, and noise by its square."
            )

    def published_bounds(self, lower: Any, upper: Any) -> tuple[np.ndarray, np.ndarray]:
        """:meth:`squared_bounds` with the paper's w0* below, where the noise is known and there is any."""
        known = self.Sigma is not None and self.noise_power > 0
        return self.squared_bounds(lower, upper, default_lower=self.published_strength if known else None)


@dataclass(frozen=True)
class DesignProblem(SignalProblem):
    """A design problem on at most :data:`nareg._core.checks.DENSE_LIMIT` nodes."""

    R: np.ndarray

    @cached_property
    def L(self) -> np.ndarray:
        return self.base.L.toarray()

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors of L."""
        return eigh(self.L)

    @cached_property
    def white(self) -> tuple[sp.csr_array, np.ndarray]:
        return self.base.L, root(self.whitened().R).T

    @property
    def white_power(self) -> float:
        return float(self.c @ np.diagonal(self.R))

    @property
    def largest_frequency(self) -> float:
        return float(self.spectrum[0][-1])

    @cached_property
    def Sigma_matrix(self) -> np.ndarray:
        assert self.Sigma is not None
        return checks.covariance(self.Sigma)

    @property
    def snr(self) -> float:
        """``E ||x||^2 / E ||n||^2``; infinite without noise."""
        power = float(np.trace(self.R))
        if power <= 0:
            raise InputError("signals (or second_moment) are zero everywhere: there is no signal to design for.")
        return power / self.noise_power if self.noise_power > 0 else np.inf

    def filter_matrix(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``K^-1`` and ``H = K^-1 C`` for node weights w."""
        K = (w[:, None] * self.L) * w
        K[np.diag_indices_from(K)] += self.c
        try:
            inverse = np.linalg.inv(K)
        except np.linalg.LinAlgError:
            raise SingularSystemError(
                "weights reached during the design make C + S singular in float64: pass a smaller upper bound, "
                "or a data term (data_weight) at more nodes."
            ) from None
        return inverse, inverse * self.c

    def risk_parts(self, w: np.ndarray) -> tuple[float, float]:
        """Bias and variance (sums over nodes) of the filter with node weights w."""
        return risk_parts(self.filter_matrix(w)[1], self.R, self.Sigma)

    def variance(self, H: np.ndarray) -> float:
        """``tr(H Sigma H^T)``, (13), of a filter matrix."""
        assert self.Sigma is not None
        return _variance(H, self.Sigma)

    def covariance_with_filtered(self, H: np.ndarray) -> float:
        """``2 tr(H Sigma)``, which Stein's estimate adds to the distance between readings and filtered readings."""
        assert self.Sigma is not None
        return 2.0 * float(np.diagonal(H) @ self.Sigma if self.Sigma.ndim == 1 else np.sum(H * self.Sigma))

    def mse(self, w: np.ndarray) -> float:
        """Mean squared error summed over nodes, (11)."""
        return sum(self.risk_parts(w))

    def mse_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """(11) and its gradient in w.

        ``dMSE/dS = -sym(K^-1 2((H - I) R + H Sigma) H^T)``, then ``dMSE/dw = 2 (dMSE/dS o L) w``.
        """
        assert self.Sigma is not None
        inverse, H = self.filter_matrix(w)
        error = H.copy()
        error[np.diag_indices_from(error)] -= 1.0
        error_R = error @ self.R
        H_Sigma = H * self.Sigma if self.Sigma.ndim == 1 else H @ self.Sigma
        value = float(np.sum(error_R * error) + np.sum(H_Sigma * H))
        slope = -2.0 * inverse @ (error_R + H_Sigma) @ H.T
        return value, ((slope + slope.T) * self.L) @ w

    @cached_property
    def published_strength(self) -> float:
        return float(np.sqrt(np.sqrt(1.0 / self.whitened().snr) / np.prod(extreme_frequencies(self.white_frequencies))))

    @cached_property
    def white_frequencies(self) -> np.ndarray:
        """Eigenvalues of ``C^-1/2 L C^-1/2``."""
        half = np.sqrt(self.c)
        return self.spectrum[0] if self.whitened() is self else np.linalg.eigvalsh(self.L / half[:, None] / half)

    def mse_along(self, direction: np.ndarray) -> Callable[[float], float]:
        """The MSE of the weights ``s * direction`` as a function of s, by one eigendecomposition.

        With ``C^-1/2 S C^-1/2 = Q diag(lam) Q^T`` the filter is ``C^-1/2 Q diag(g) Q^T C^1/2``, ``g = 1 / (1 + s^2 lam)``.
        """
        if (self.c <= 0).any():
            return lambda s: self.mse(s * direction)
        assert self.Sigma is not None
        half = np.sqrt(self.c)
        scaled = direction / half
        lam, Q = eigh((scaled[:, None] * self.L) * scaled)
        lam = np.maximum(lam, 0.0)
        metric = Q.T @ (Q / self.c[:, None])
        moment_ = metric * (Q.T @ (half[:, None] * self.R * half) @ Q)
        covariance = metric * (Q.T @ (half[:, None] * self.Sigma_matrix * half) @ Q)

        def value(s: float) -> float:
            g = 1.0 / (1.0 + s * s * lam)
            return float((1 - g) @ moment_ @ (1 - g) + g @ covariance @ g)

        return value

    def best_factor(self, direction: np.ndarray, least: float, largest: float) -> float:
        return minimize_scale(self.mse_along(direction), least, largest)[0]

    def best_scalar(self, low: np.ndarray, high: np.ndarray, largest: float = np.inf) -> np.ndarray:
        first, last = extreme_frequencies(self.spectrum[0])
        typical = float(np.mean(self.c))
        span = np.sqrt(1e-4 * typical / last), np.sqrt(1e4 * typical / first)
        # where a node has no data term K tends to a singular matrix with the weight
        search = minimize_widely if (self.c > 0).all() else minimize_scale
        along = self.mse_along(np.ones(self.n_nodes))
        w = search(along, *span)[0]
        if w > largest:
            w = minimize_scale(along, 1e-3 * largest, largest)[0]
        return feasible(np.full(self.n_nodes, w), low, high)

    def inverse_signal(self, high: np.ndarray) -> np.ndarray:
        """``w = s / u`` with u the principal direction of R: makes ``S u = 0``, the best scale s by the risk.

        For a single known signal on a connected graph this is a global minimizer of Prony's criterion.
        """
        u = np.linalg.eigh(self.R)[1][:, -1]
        size = np.maximum(np.abs(u), 1e-6 * np.abs(u).max())  # no division by zero
        direction = np.where(u < 0, -1.0, 1.0) * size.max() / size
        largest = float(np.sqrt(np.min(high / direction**2)))
        if largest == 0:
            return np.zeros_like(u)
        return self.best_factor(direction, largest * 1e-6, largest) * direction

    def whitened(self) -> DesignProblem:
        """The same problem in the coordinates ``C^1/2 x``, where the data term is the identity.

        ``(C + W L W)^-1 C`` becomes ``(I + W' L W')^-1`` with ``w' = w / sqrt(c)``. With ``c = 1 / variance``
        the noise is white there, which is what Prony's criterion and the relaxation want.
        """
        if np.array_equal(self.c, np.ones_like(self.c)):
            return self
        half = np.sqrt(positive_data_weight(self.c))
        Sigma = self.Sigma
        if Sigma is not None:
            Sigma = Sigma * self.c if Sigma.ndim == 1 else half[:, None] * Sigma * half
        return replace(self, R=half[:, None] * self.R * half, Sigma=Sigma, c=np.ones_like(self.c), data_weight=None)


def with_details(
    design: WeightDesign, details: DesignDetails, *, timings: dict[str, float] | None = None,
    settings: dict[str, Any] | None = None, **changed: Any,
) -> WeightDesign:  # fmt: skip
    """A design with further details in its certificate, earlier timings, other settings, and fields changed."""
    certificate = replace(design.certificate, details={**design.certificate.details, **details})
    timings, settings = {**(timings or {}), **design.timings}, {**design.settings, **(settings or {})}
    return replace(design, certificate=certificate, timings=timings, settings=settings, **changed)


def risk_parts(H: np.ndarray, R: np.ndarray, Sigma: np.ndarray | None) -> tuple[float, float]:
    """Bias ``tr((H - I) R (H - I)^T)`` and variance ``tr(H Sigma H^T)`` of a linear filter H."""
    error = H - np.eye(len(H))
    return float(np.sum((error @ R) * error)), 0.0 if Sigma is None else _variance(H, Sigma)


def _variance(H: np.ndarray, Sigma: np.ndarray) -> float:
    return float(np.sum((H * Sigma if Sigma.ndim == 1 else H @ Sigma) * H))


def half(P: np.ndarray) -> np.ndarray:
    """F with ``F F^T = P`` for PSD P; one column of zeros where P is zero."""
    F = root(P).T
    return F if F.shape[1] else np.zeros((len(P), 1))


def root(G: np.ndarray) -> np.ndarray:
    """F with ``F^T F = G`` for PSD G, without its null directions."""
    values, vectors = np.linalg.eigh(G)
    positive = values > 1e-14 * max(values[-1], 1e-300)
    return np.sqrt(values[positive])[:, None] * vectors[:, positive].T


def problem(
    graph: Any,
    *,
    signals: Any = None,
    second_moment: Any = None,
    noise: Any = None,
    data_weight: Any = None,
    needs: str,
    noise_required: bool = False,
    alternative: str = "design on a part of the network (graph.subgraph) or use one weight for all nodes",
) -> DesignProblem:
    """Check a design's arguments. ``needs`` names the design in messages, ``alternative`` what fits large networks."""
    base = penalty(graph)
    if noise_required and noise is None:
        raise InputError(f"noise is None: {needs} needs the noise variance; estimate it with nareg.design.estimate_noise.")
    n = base.n_nodes
    checks.dense_size(
        f"the {needs} design",
        n,
        copies=6,
        alternative=alternative,
    )
    R = moment(signals, second_moment, n, needs=needs)
    Sigma = None if noise is None else checks.noise("noise", noise, n)
    c = checked_data_weight(base, data_weight, Sigma)
    return DesignProblem(base=base, R=R, Sigma=Sigma, c=c, data_weight=None if data_weight is None else c)


def moment(signals: Any, second_moment: Any, n: int, *, needs: str) -> np.ndarray:
    """``R``: given, or ``X X^T / T`` from training signals; exactly one of the two."""
    if (signals is None) == (second_moment is None):
        raise InputError(
            f"{needs} needs exactly one of signals (clean training signals, ({n},) or ({n}, T)) and second_moment (({n}, {n}))."
        )
    if second_moment is not None:
        return checks.psd_matrix("second_moment", second_moment, n)
    X = checks.signals("signals", signals, n).astype(np.float64).reshape(n, -1)
    checks.squares_survive("signals", X)
    return X @ X.T / X.shape[1]


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


def extreme_frequencies(values: np.ndarray) -> tuple[float, float]:
    """Smallest non-zero and largest eigenvalue of a Laplacian."""
    non_zero = values[values > 1e-9 * max(values[-1], 1e-300)]
    if non_zero.size == 0:
        raise InputError("graph has no edges: there is nothing to smooth over; connect it first.")
    return float(non_zero[0]), float(non_zero[-1])


def local_status(descent: DescentResult, solved: Status = Status.CONVERGED) -> Status:
    """Status of a design that ended with a local descent, given how the convex step before it ended."""
    if descent.message == "interrupted":
        return Status.INTERRUPTED
    if solved is Status.CONVERGED and descent.gradient_norm > STATIONARY:
        return Status.INACCURATE
    return solved
