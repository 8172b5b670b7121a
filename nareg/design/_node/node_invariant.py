"""One weight for all nodes (Tikhonov): the published rule and the data-driven ones.

``x_hat = (C + tau L)^-1 C y``; in the eigenbasis of ``C^-1/2 L C^-1/2`` every rule is a one-dimensional search.
The design's weights are ``sqrt(tau)`` at every node. On large networks most rules work from solves instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq

from nareg._core import checks
from nareg._solvers.system import Penalty, penalty
from nareg.design._node import node_invariant_large
from nareg.design._node.gap_patterns import GappyScalar, gap_details
from nareg.design._risk.descent import minimize_scale, minimize_widely
from nareg.design._risk.problem import DesignEnd, DesignProblem, extreme_frequencies, fit_weights, moment
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
    fit: ArrayLike | Literal["noise"] | None = None,
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
    fit : None, "noise" or (N,) array
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
    if seen is not None:
        assert Y is not None
        return _with_gaps(base, rule, Y, seen, Sigma, fit, generator)
    if large:
        data = Y if rule != "oracle" else _signals(signals, n)
        assert data is not None
        return node_invariant_large.node_invariant_large(base, rule, data, Sigma, fit, n_probes, generator)
    given = signals is not None or second_moment is not None
    if rule == "oracle" or (rule == "chen-liu" and (given or Y is None)):
        R = moment(signals, second_moment, n, needs=f"rule={rule!r}")
    else:
        assert Y is not None
        checks.squares_survive("measurements", Y)
        R = Y @ Y.T / Y.shape[1]
        if rule == "chen-liu":
            assert Sigma is not None
            R = R - checks.covariance(Sigma)
            if np.trace(R) <= 0:
                raise InputError("measurements have no more power than noise: no signal is left to fit; check the variance.")
    c = fit_weights(fit, Sigma, n)
    task = DesignProblem(base=base, R=R, Sigma=Sigma, c=c, fit=None if fit is None else c)
    strength, objective, at_bound = _Scalar(task, Y).choose(rule)
    return _packed(task, rule, strength, objective, at_bound)


def _with_gaps(
    base: Penalty, rule: str, Y: np.ndarray, seen: np.ndarray, Sigma: np.ndarray | None, fit: Any, rng: np.random.Generator
) -> WeightDesign:
    """The weight that suits the readings of each time best."""
    n = base.n_nodes
    checks.squares_survive("measurements", Y)
    c = fit_weights(fit, Sigma, n)
    task = DesignProblem(base=base, R=np.zeros((n, n)), Sigma=Sigma, c=c, fit=None if fit is None else c)
    search = _Scalar(task, None).range
    criteria = GappyScalar(task.L, c, Y, seen, Sigma if rule == "sure" else None, rng)
    strength, objective = minimize_scale(criteria.gcv if rule == "gcv" else criteria.sure, *search)
    return _packed(task, rule, strength, objective, _at_bound(strength, search), gap_details(base, seen))


def _at_bound(strength: float, search: tuple[float, float]) -> bool:
    """Whether a search ended at one of its bounds, but for its accuracy."""
    return not 1.01 * search[0] < strength < search[1] / 1.01


def _packed(
    task: DesignProblem, rule: str, strength: float, objective: float, at_bound: bool, details: DesignDetails | None = None
) -> WeightDesign:
    n = task.n_nodes
    return task.pack(
        f"node-invariant ({rule})",
        np.full(n, np.sqrt(strength)),
        objective,
        (np.zeros(n), np.full(n, np.inf)),
        DesignEnd(
            Status.CONVERGED,
            "eigendecomposition and one-dimensional search",
            "done",
            details={"strength": strength, "at_search_bound": at_bound, **(details or {})},
        ),
        settings={"rule": rule},
    )


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


class _Scalar:
    """Criteria of one weight, each O(N^2) or less per value after one eigendecomposition.

    With ``C^-1/2 L C^-1/2 = Q diag(lam) Q^T`` the filter is ``C^-1/2 Q diag(g) Q^T C^1/2``,
    ``g = 1 / (1 + tau lam)``.
    """

    def __init__(self, task: DesignProblem, Y: np.ndarray | None) -> None:
        self.task = task
        root = np.sqrt(node_invariant_large.positive_fit(task.c))
        if np.array_equal(root, np.ones_like(root)):
            self.lam, self.Q = task.spectrum
        else:
            self.lam, self.Q = np.linalg.eigh(task.L / root[:, None] / root)
        self.lam = np.maximum(self.lam, 0.0)
        self.root = root
        self.Y = None if Y is None else self.Q.T @ (root[:, None] * Y)
        first, last = extreme_frequencies(self.lam)
        self.range = (1e-4 / last, 1e4 / first)

    def gain(self, strength: float) -> np.ndarray:
        return 1.0 / (1.0 + strength * self.lam)

    def choose(self, rule: str) -> tuple[float, float, bool]:
        """The strength, the criterion there, and whether the search ended at one of its bounds."""
        if rule == "chen-liu":
            strength = self.task.published_strength
            return strength, strength, False
        if rule == "oracle":
            return minimize_widely(self.risk(self.task.R), *self.range)
        if rule == "l-curve":
            return *self.corner(), False
        if rule == "discrepancy":
            strength, value = self.discrepancy()
        else:
            # the risk with Y Y^T / T - Sigma in place of R is Stein's unbiased estimate
            criterion = self.gcv if rule == "gcv" else self.risk(self.task.R - self.task.Sigma_matrix)
            strength, value = minimize_scale(criterion, *self.range)
        return strength, value, _at_bound(strength, self.range)

    def residual(self, strength: float) -> float:
        """``E ||C^1/2 (y - H y)||^2``."""
        assert self.Y is not None
        return float(np.sum(((1 - self.gain(strength))[:, None] * self.Y) ** 2)) / self.Y.shape[1]

    def gcv(self, strength: float) -> float:
        n = self.lam.size
        return (self.residual(strength) / n) / (1 - self.gain(strength).sum() / n) ** 2

    def risk(self, R: np.ndarray) -> Callable[[float], float]:
        """The risk (6) as a function of the strength, for second moment R."""
        along = replace(self.task, R=R).mse_along(np.ones(self.lam.size))
        return lambda strength: along(np.sqrt(strength))

    def discrepancy(self) -> tuple[float, float]:
        """Largest weight whose residual does not exceed the expected noise power (Morozov)."""
        target = float(np.sum(self.task.c * np.diag(self.task.Sigma_matrix)))
        low, high = self.range
        if self.residual(high) <= target:
            return high, self.residual(high)  # even the smoothest estimate explains the data
        if self.residual(low) >= target:
            return low, self.residual(low)
        strength = float(np.exp(brentq(lambda t: self.residual(np.exp(t)) - target, np.log(low), np.log(high))))
        return strength, self.residual(strength)

    def corner(self) -> tuple[float, float]:
        """The corner of the L-curve: its interior maximum of positive curvature, and the curvature there.

        Towards both ends the curve bends the other way, and where noise and signal overlap in frequency there
        is no corner at all.
        """
        grid = np.geomspace(*self.range, 201)
        bend = np.array([self.curvature(strength) for strength in grid])
        peaks = np.flatnonzero((bend[1:-1] > bend[:-2]) & (bend[1:-1] >= bend[2:]) & (bend[1:-1] > 0)) + 1
        if peaks.size == 0:
            raise InputError("measurements give an L-curve without a corner (rule='l-curve'): use rule='gcv'.")
        best = int(peaks[np.argmax(bend[peaks])])
        strength, negative = minimize_scale(lambda s: -self.curvature(s), grid[best - 1], grid[best + 1])
        return strength, -negative

    def curvature(self, strength: float) -> float:
        """Curvature of (log residual, log roughness) as functions of the log of the strength, from closed-form derivatives."""
        assert self.Y is not None
        power = np.sum(self.Y**2, axis=1)
        lam, s = self.lam, strength * self.lam
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
