"""One weight for all nodes (Tikhonov): the published rule and the data-driven ones.

``x_hat = (C + tau L)^-1 C y``; in the eigenbasis of ``C^-1/2 L C^-1/2`` every rule is a one-dimensional search.
The design's weights are ``sqrt(tau)`` at every node. On large networks most rules work from solves instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq

from nareg._core import checks
from nareg._solvers.system import penalty
from nareg.design._node import node_invariant_large
from nareg.design._node.gap_patterns import Pattern, gap_details, kron_reduction, patterns
from nareg.design._risk.checked import DesignEnd, data_weights, positive_data_weight
from nareg.design._risk.descent import minimize_scale, minimize_widely
from nareg.design._risk.problem import DesignProblem, extreme_frequencies, moment
from nareg.errors import InputError
from nareg.io import takes_tables
from nareg.results import DesignDetails, Status, WeightDesign
from nareg.typing import ArrayLike, GraphLike

RULES = ("chen-liu", "gcv", "sure", "discrepancy", "l-curve", "oracle")


@takes_tables("signals", "measurements", "observed", observed="observed")
def node_invariant(
    graph: GraphLike,
    *,
    rule: str = "chen-liu",
    signals: ArrayLike | None = None,
    second_moment: ArrayLike | None = None,
    measurements: ArrayLike | None = None,
    observed: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    data_weight: ArrayLike | Literal["noise"] | None = None,
    n_probes: int = 64,
    rng: np.random.Generator | None = None,
) -> WeightDesign:
    """Choose one weight for all nodes.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    rule : str
        ========================  =======================================  ==============================
        rule                      chooses tau by                           needs
        ========================  =======================================  ==============================
        ``"chen-liu"``            ``sqrt(theta / (lambda_2 lambda_N))``    noise, and signals or
                                                                           second_moment or measurements
        ``"gcv"``                 generalized cross-validation             measurements
        ``"sure"``                Stein's unbiased risk estimate           measurements, noise
        ``"discrepancy"``         residual equal to the noise power        measurements, noise
        ``"l-curve"``             the corner of the L-curve, refused       measurements
                                  where there is none
        ``"oracle"``              smallest true risk                       noise, and signals or
                                                                           second_moment
        ========================  =======================================  ==============================
    signals : (N,) or (N, T) array, optional
        Clean training signals.
    second_moment : (N, N) array, optional
        ``E[x x^T]``, instead of signals.
    measurements : (N,) or (N, T) array, optional
        Noisy readings; several columns are pooled.
    observed : bool array, (N,) or the shape of measurements, optional
        True where a reading was taken, for rules "gcv" and "sure"; measurements may hold anything elsewhere. See Notes.
    noise : number, (N,) or (N, N) array, optional
        Noise variance(s) or covariance.
    data_weight : None, "noise" or (N,) array
        Data term, see :func:`nareg.filters.denoise`.
    n_probes : int
        Random probes for the traces above 3,000 nodes.
    rng : numpy.random.Generator, optional
        Draws the probes.

    Returns
    -------
    WeightDesign
        All weights equal ``sqrt(tau)``; ``objective`` is the rule's own criterion at ``tau``.
        ``certificate.details["at_search_bound"]`` says that the search ended at one of its bounds: noise that a
        smaller weight would serve better, or signals without any but constant parts. "oracle" goes beyond them while
        that pays.

    Notes
    -----
    "chen-liu" is the rule of the node-adaptive paper's benchmark (an order of magnitude, after Chen and Liu
    2017), with ``theta = SNR^-1/2``. On disconnected graphs ``lambda_2`` is the smallest non-zero eigenvalue.
    At low SNR it can be far from the best single weight: compare with "oracle".

    With ``observed``, "gcv" and "sure" judge the filter as :func:`nareg.filters.interpolate` will use it, by its residuals at
    the readings of each time; up to 3,000 nodes. A station without any reading is listed in
    ``certificate.details["left_out"]``.

    Above 3,000 nodes "oracle", "sure", "gcv" and "discrepancy" take signals or measurements, and noise variances, and
    work without dense matrices; tau is then limited to condition numbers of 1e8, and has a sampling error from the
    probes (well below one per cent). "chen-liu" and "l-curve" need the eigenvalues and are refused.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((4, 4))
    >>> d = nareg.design.node_invariant(g, rule="oracle", signals=np.ones(16), noise=1.0)
    >>> bool(np.ptp(d.weights) == 0)
    True
    """
    rule = checks.choice("rule", rule, RULES)
    base = penalty(graph)
    n = base.n_nodes
    n_probes = checks.integer("n_probes", n_probes, low=2)
    generator = checks.generator(rng)
    Y, seen = (None, None) if measurements is None else checks.measurements(measurements, observed, n)
    if measurements is None and observed is not None:
        raise InputError("observed says where measurements were taken: pass measurements too.")
    if seen is not None and rule not in ("gcv", "sure"):
        raise InputError(f"rule={rule!r} takes readings without gaps: use rule='gcv' or 'sure' with observed.")
    large = n > checks.DENSE_LIMIT
    if seen is not None:
        checks.dense_size(
            "one weight from readings with gaps", n, copies=3, alternative="pass times at which all stations read"
        )
    elif large:
        _refuse_dense(rule, second_moment, noise, n)
    Sigma = None if noise is None else checks.noise("noise", noise, n)
    for name, value, rules in (
        ("measurements", Y, ("gcv", "sure", "discrepancy", "l-curve")),
        ("noise", Sigma, ("chen-liu", "sure", "discrepancy", "oracle")),
    ):
        if value is None and rule in rules:
            raise InputError(f"rule={rule!r} needs {name}.")
    if large and seen is None:
        data = Y if rule != "oracle" else _signals(signals, n)
        assert data is not None
        return node_invariant_large.node_invariant_large(base, rule, data, Sigma, data_weight, n_probes, generator)
    if Y is not None:
        checks.squares_survive("measurements", Y)
    R = np.zeros((n, n))
    if rule == "oracle" or (rule == "chen-liu" and (signals is not None or second_moment is not None or Y is None)):
        R = moment(signals, second_moment, n, needs=f"rule={rule!r}")
    elif rule == "chen-liu":
        assert Y is not None
        assert Sigma is not None
        R = Y @ Y.T / Y.shape[1] - checks.covariance(Sigma)
        if np.trace(R) <= 0:
            raise InputError("measurements have no more power than noise: no signal is left to fit; check the variance.")
    c = positive_data_weight(data_weights(data_weight, Sigma, n), "a single weight")
    task = DesignProblem(base=base, R=R, Sigma=Sigma, c=c, data_weight=None if data_weight is None else c)
    strength, objective, at_bound = _choose(task, rule, Y, seen, generator)
    details: DesignDetails = {"strength": strength, "at_search_bound": at_bound}
    if seen is not None:
        details |= gap_details(base, seen)
    end = DesignEnd(Status.CONVERGED, "eigendecomposition and one-dimensional search", "done", details=details)
    bounds = np.zeros(n), np.full(n, np.inf)
    weights = np.full(n, np.sqrt(strength))
    return task.pack(f"node-invariant ({rule})", weights, objective, bounds, end, settings={"rule": rule})


def _choose(
    task: DesignProblem, rule: str, Y: np.ndarray | None, seen: np.ndarray | None, rng: np.random.Generator
) -> tuple[float, float, bool]:
    """The strength, the criterion there, and whether the search ended at one of its bounds."""
    if rule == "chen-liu":
        return task.published_strength, task.published_strength, False
    if rule == "oracle":
        along = task.mse_along(np.ones(task.n_nodes))
        return minimize_widely(lambda strength: along(np.sqrt(strength)), *_search_range(task.white_frequencies))
    assert Y is not None
    criteria = ScalarCriteria(task.L, task.c, Y, seen, task.Sigma if rule == "sure" else None, rng)
    search = _search_range(criteria.parts[0].lam if seen is None else task.white_frequencies)
    if rule == "l-curve":
        return *criteria.corner(*search), False
    if rule == "discrepancy":
        strength, value = criteria.discrepancy(float(np.sum(task.c * np.diag(task.Sigma_matrix))), *search)
    else:
        strength, value = minimize_scale(criteria.gcv if rule == "gcv" else criteria.sure, *search)
    return strength, value, not 1.01 * search[0] < strength < search[1] / 1.01


def _search_range(frequencies: np.ndarray) -> tuple[float, float]:
    first, last = extreme_frequencies(frequencies)
    return 1e-4 / last, 1e4 / first


def _refuse_dense(rule: str, second_moment: Any, noise: Any, n: int) -> None:
    """Name the argument that would need N x N matrices."""
    if rule not in node_invariant_large.RULES:
        checks.dense_size(f"rule={rule!r}", n, copies=3, alternative="use rule='sure', or 'gcv' where the noise is not known")
    if rule == "oracle" and second_moment is not None:
        checks.dense_size("rule='oracle' with second_moment", n, copies=3, alternative="pass signals")
    if np.ndim(noise) == 2:
        checks.dense_size("a noise covariance", n, alternative="pass variances, a number or (N,)")


def _signals(signals: Any, n: int) -> np.ndarray:
    if signals is None:
        raise InputError(f"rule='oracle' needs signals (clean training signals, ({n},) or ({n}, T)).")
    return checks.signals("signals", signals, n).astype(float).reshape(n, -1)


#: Patterns are drawn at random above so many of them times N^3: one unknown needs no more (10 s on one core).
WORK = 1e10
#: At least so many patterns are used.
FEWEST_PATTERNS = 8


@dataclass(frozen=True)
class _Part:
    """One pattern: eigenvalues of the reduced graph, readings along its eigenvectors, and how many times."""

    lam: np.ndarray
    power: np.ndarray
    count: int
    #: The two quadratic forms of Stein's estimate, (n, n) or, where they are diagonal, (n,).
    moment: np.ndarray | None = None
    covariance: np.ndarray | None = None


class ScalarCriteria:
    """Criteria of one weight from readings (N, T) and where they were taken (None: everywhere); O(N) or O(N^2) per value.

    For each pattern of gaps the filter acts on the stations that read as on the reduced graph, with
    ``C^-1/2 L C^-1/2 = Q diag(lam) Q^T`` as ``C^-1/2 Q diag(g) Q^T C^1/2``, ``g = 1 / (1 + tau lam)``. Criteria are summed over
    patterns: the filter is judged as it will be used, with the gaps.
    """

    def __init__(
        self, L: np.ndarray, c: np.ndarray, Y: np.ndarray, seen: np.ndarray | None, Sigma: np.ndarray | None,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        everywhere = [Pattern(np.ones(len(Y), dtype=bool), np.arange(Y.shape[1]))]
        selected = everywhere if seen is None else list(patterns(seen))
        max_patterns = max(FEWEST_PATTERNS, int(WORK / float(L.shape[0]) ** 3))
        if len(selected) > max_patterns:
            selected = [selected[p] for p in np.sort(rng.choice(len(selected), max_patterns, replace=False))]
        self.parts = [_part(L, c, Y[:, p.columns], p.seen, Sigma) for p in selected]
        self.n_nodes = L.shape[0]
        self.readings = sum(part.count * part.lam.size for part in self.parts)
        if seen is not None and not any(part.lam.any() for part in self.parts):
            raise InputError("observed has no two connected stations that read at the same time: nothing is smoothed over.")

    def sums(self, strength: float) -> tuple[float, float]:
        """Squared residuals, and trace of the filter, over all readings."""
        residual = trace = 0.0
        for part in self.parts:
            gain = 1.0 / (1.0 + strength * part.lam)
            residual += float(part.power @ (1 - gain) ** 2)
            trace += part.count * float(gain.sum())
        return residual, trace

    def gcv(self, strength: float) -> float:
        """Generalized cross-validation, pooled over patterns."""
        residual, trace = self.sums(strength)
        return (residual / self.readings) / (1 - trace / self.readings) ** 2

    def sure(self, strength: float) -> float:
        """Stein's unbiased estimate of the squared error at what was read, scaled to all nodes."""
        total = 0.0
        for part in self.parts:
            gain = 1.0 / (1.0 + strength * part.lam)
            assert part.moment is not None
            assert part.covariance is not None
            if part.moment.ndim == 1:
                total += part.count * float((1 - gain) ** 2 @ part.moment + gain**2 @ part.covariance)
            else:
                total += part.count * float((1 - gain) @ part.moment @ (1 - gain) + gain @ part.covariance @ gain)
        return total * self.n_nodes / self.readings

    def discrepancy(self, target: float, low: float, high: float) -> tuple[float, float]:
        """Largest weight whose residual per time does not exceed the expected noise power (Morozov); without gaps."""

        def residual(strength: float) -> float:
            return self.sums(strength)[0] / self.parts[0].count

        if residual(high) <= target:
            return high, residual(high)  # even the smoothest estimate explains the data
        if residual(low) >= target:
            return low, residual(low)
        strength = float(np.exp(brentq(lambda t: residual(np.exp(t)) - target, np.log(low), np.log(high))))
        return strength, residual(strength)

    def corner(self, low: float, high: float) -> tuple[float, float]:
        """The corner of the L-curve: its interior maximum of positive curvature, and the curvature there; without gaps.

        Towards both ends the curve bends the other way, and where noise and signal overlap in frequency there
        is no corner at all.
        """
        grid = np.geomspace(low, high, 201)
        bend = np.array([self.curvature(strength) for strength in grid])
        peaks = np.flatnonzero((bend[1:-1] > bend[:-2]) & (bend[1:-1] >= bend[2:]) & (bend[1:-1] > 0)) + 1
        if peaks.size == 0:
            raise InputError("measurements give an L-curve without a corner (rule='l-curve'): use rule='gcv'.")
        best = int(peaks[np.argmax(bend[peaks])])
        strength, negative = minimize_scale(lambda s: -self.curvature(s), grid[best - 1], grid[best + 1])
        return strength, -negative

    def curvature(self, strength: float) -> float:
        """Curvature of (log residual, log roughness) as functions of the log of the strength, from closed-form derivatives."""
        power, lam = self.parts[0].power, self.parts[0].lam
        s = strength * lam
        rho = float(np.sum(power * (s / (1 + s)) ** 2))
        eta = float(np.sum(power * lam / (1 + s) ** 2))
        d_rho = float(np.sum(power * 2 * s**2 / (1 + s) ** 3))
        d_eta = float(np.sum(power * lam * -2 * s / (1 + s) ** 3))
        dd_rho = float(np.sum(power * (4 * s**2 - 2 * s**3) / (1 + s) ** 4))
        dd_eta = float(np.sum(power * lam * (-2 * s + 4 * s**2) / (1 + s) ** 4))
        if min(rho, eta / lam[-1]) <= 1e-24 * float(power.sum()):
            raise InputError("measurements are constant on every component: the L-curve has no corner; use rule='sure'.")
        x1, y1 = d_rho / rho, d_eta / eta
        x2, y2 = dd_rho / rho - x1**2, dd_eta / eta - y1**2
        return (x1 * y2 - y1 * x2) / (x1**2 + y1**2) ** 1.5


def _part(L: np.ndarray, c: np.ndarray, Y: np.ndarray, seen: np.ndarray, Sigma: np.ndarray | None) -> _Part:
    reduced, _ = kron_reduction(L, seen)
    root = np.sqrt(c[seen])
    lam, Q = np.linalg.eigh(reduced / root[:, None] / root)
    lam = np.maximum(lam, 0.0)
    lam[lam < 1e-12 * lam[-1]] = 0.0
    along = Q.T @ (root[:, None] * Y[seen])
    power, count = np.sum(along**2, axis=1), Y.shape[1]
    if Sigma is None:
        return _Part(lam, power, count)
    noise = checks.covariance(Sigma)[np.ix_(seen, seen)]
    whitened = Q.T @ (root[:, None] * noise * root) @ Q
    if (root == root[0]).all():  # the plain norm is the weighted one but for a factor
        scale = 1.0 / root[0] ** 2
        own = np.diag(whitened)
        return _Part(lam, power, count, scale * (power / count - own), scale * own)
    metric = Q.T @ (Q / root[:, None] ** 2)
    return _Part(lam, power, count, metric * (along @ along.T / count - whitened), metric * whitened)
