"""Bias, variance and mean squared error of a filter, next to the best that any linear filter could do.

The paper's conditions as reported facts, never as promises.

* Lemma 1: ``tau <= w_i^2`` for all i gives ``var(w) <= var(sqrt(tau))``. Holds for ``Sigma = s^2 I`` (Ostrowski's
  theorem); false for unequal noise, where ``H(w) <= H(sqrt(tau))``, which its proof uses, fails.
* Theorem 1: (15a) and (15b) give a smaller mean squared error. False even for ``Sigma = s^2 I``; two nodes are
  enough (see the example of :func:`conditions`).
* Corollary 1: (16) gives (15b). With (15a) it does not give a smaller mean squared error either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nareg._core import checks
from nareg._solvers.system import build, data_term, filter_matrix, penalty
from nareg.design._risk.problem import extreme_frequencies, moment, problem, risk_parts
from nareg.errors import InputError
from nareg.io import takes_tables
from nareg.results import WeightDesign
from nareg.typing import ArrayLike, GraphLike, WeightsLike


@dataclass(frozen=True)
class Risk:
    """Expected squared errors, summed over nodes (in the squared unit of the signal).

    Attributes
    ----------
    bias, variance, mse : float
        Equations (12), (13), (11).
    nmse : float
        ``mse / tr(R)``: mean squared error over signal power.
    lmmse : float
        The same ratio for the linear minimum-mean-square-error filter ``R (R + Sigma)^-1``: a lower bound
        on ``nmse`` of every linear filter.
    """

    bias: float
    variance: float
    mse: float
    nmse: float
    lmmse: float


@takes_tables("signals")
def risk(
    graph: GraphLike,
    weights: WeightsLike,
    *,
    data_weight: ArrayLike | None = None,
    signals: ArrayLike | None = None,
    second_moment: ArrayLike | None = None,
    noise: ArrayLike,
) -> Risk:
    """Exact risk of the filter ``(C + S(w))^-1 C`` for given second moment and noise covariance.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    weights : (N,) array, number, WeightDesign or (N, N) S
    data_weight : (N,) array, optional
        Data-term weights; default the design's own, else ones.
    signals : (N,) or (N, T) array, optional
        Clean signals; their second moment ``X X^T / T`` is used.
    second_moment : (N, N) array, optional
        ``R = E[x x^T]``; exactly one of the two.
    noise : number, (N,) or (N, N) array
        Noise variance, variances or covariance.

    Returns
    -------
    Risk

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((3,))
    >>> r = nareg.design.risk(g, 1.0, signals=np.ones(3), noise=0.5)
    >>> round(r.bias, 12), round(r.nmse, 3)
    (0.0, 0.219)
    """
    base = penalty(graph)
    n = base.n_nodes
    checks.dense_size("risk", n, copies=4)
    R = moment(signals, second_moment, n, needs="risk")
    Sigma = checks.noise("noise", noise, n)
    H = filter_matrix(build(base, weights, data_term(data_weight, weights, n)), what="risk")
    bias, variance = risk_parts(H, R, Sigma)
    power = float(np.trace(R))
    if power == 0:
        raise InputError("signals (or second_moment) are zero everywhere: the normalized risk is not defined.")
    return Risk(bias, variance, bias + variance, (bias + variance) / power, lmmse_mse(R, Sigma) / power)


def lmmse_mse(R: np.ndarray, Sigma: np.ndarray) -> float:
    """``tr(R) - tr(R (R + Sigma)^-1 R)``: the mean squared error that no linear filter goes below."""
    total = R + checks.covariance(Sigma)
    # in each node's own unit; a direction without signal and noise adds nothing: pseudo-inverse
    size = np.sqrt(np.diagonal(total))
    size = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(total / size[:, None] / size)
    positive = values > 1e-12 * max(values[-1], 1e-300)
    projected = vectors[:, positive].T @ (R / size[:, None])
    return float(max(np.trace(R) - np.sum(projected**2 / values[positive, None]), 0.0))


@dataclass(frozen=True)
class Conditions:
    """Whether each condition is met, and what actually happens.

    Attributes
    ----------
    lemma1 : bool
        (14), the same as (15a): ``strength <= w_i^2`` for all i.
    theorem1 : bool
        (15a) and (15b).
    corollary1 : bool
        (15a) and (16).
    left, right : float
        The two sides of (15b): ``2 gamma`` and the sum that should be at least as large.
    variance, variance_scalar, mse, mse_scalar : float
        Measured for the node-adaptive weights and for the single weight ``sqrt(strength)``.
    """

    lemma1: bool
    theorem1: bool
    corollary1: bool
    left: float
    right: float
    variance: float
    variance_scalar: float
    mse: float
    mse_scalar: float

    def summary(self) -> str:
        """Conditions next to measurements, one line each."""

        def line(name: str, met: bool, what: str, value: float, reference: float) -> str:
            verdict = "as it says" if value <= reference * (1 + 1e-12) else "larger all the same"
            return f"{name}: {'met' if met else 'not met'}; {what} {value:.6g} against {reference:.6g}" + (
                f", {verdict}" if met else ""
            )

        return "\n".join(
            [
                line("Lemma 1 (14)", self.lemma1, "variance", self.variance, self.variance_scalar),
                line("Theorem 1 (15)", self.theorem1, "MSE", self.mse, self.mse_scalar),
                line("Corollary 1 (16)", self.corollary1, "MSE", self.mse, self.mse_scalar),
            ]
        )


@takes_tables()
def conditions(graph: GraphLike, weights: WeightsLike, *, strength: float, signal: ArrayLike, noise: ArrayLike) -> Conditions:
    """Check Lemma 1, Theorem 1 and Corollary 1 for these weights, and measure what they speak of.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    weights : (N,) array or WeightDesign
        Node-adaptive weights w.
    strength : float
        The squared single weight to compare with (``w_i^2 = strength`` for all i).
    signal : (N,) array
        The true signal ``x*``.
    noise : number, (N,) or (N, N) array
        Noise covariance, positive definite.

    Returns
    -------
    Conditions

    Examples
    --------
    Two nodes for which Theorem 1's conditions hold and its conclusion does not:

    >>> import numpy as np, nareg
    >>> g = nareg.Graph([[0, 7.12], [7.12, 0]])
    >>> c = nareg.design.conditions(g, [0.74, 4.12], strength=0.23, signal=[-0.5, -2.9], noise=66.1)
    >>> c.theorem1, c.mse > c.mse_scalar
    (True, True)
    """
    x = checks.floats("signal", signal, ndim=(1,))
    task = problem(graph, signals=x, noise=noise, needs="conditions", noise_required=True)
    weights = weights.weights if isinstance(weights, WeightDesign) else weights
    w = checks.node_vector("weights", weights, task.n_nodes)
    strength = checks.number("strength", strength, low=0)
    if not (np.diagonal(task.Sigma_matrix) > 0).all() or checks.least_relative_eigenvalue(task.Sigma_matrix) <= 1e-14:
        raise InputError("noise is singular: Theorem 1 divides by it; give every direction some variance.")
    rho = float(x @ np.linalg.solve(task.Sigma_matrix, x))  # the only non-zero eigenvalue of x x^T Sigma^-1
    gamma = rho / (1 + rho)
    _, largest = extreme_frequencies(task.spectrum[0])
    square = w**2
    right = 1 / (1 + strength * largest) + 1 / (1 + float(square.max()) * largest)
    lemma = bool((square >= strength).all())
    bias, variance = task.risk_parts(w)
    H0 = task.filter_matrix(np.full(task.n_nodes, np.sqrt(strength)))[1]
    bias0, variance0 = risk_parts(H0, task.R, task.Sigma)
    return Conditions(
        lemma1=lemma,
        theorem1=bool(lemma and 2 * gamma <= right),
        corollary1=bool(lemma and (rho == 0 or square.max() <= 1 / (rho * largest))),
        left=2 * gamma,
        right=right,
        variance=variance,
        variance_scalar=variance0,
        mse=bias + variance,
        mse_scalar=bias0 + variance0,
    )
