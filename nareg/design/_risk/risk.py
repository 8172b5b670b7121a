"""Bias, variance and mean squared error of a filter, next to the best that any linear filter could do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nareg._core import checks
from nareg._operator import build, data_term, filter_matrix, penalty
from nareg.design._risk.problem import moment, risk_parts
from nareg.errors import InputError
from nareg.io._labeled import takes_tables
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
    fit: ArrayLike | None = None,
    signals: ArrayLike | None = None,
    second_moment: ArrayLike | None = None,
    noise: ArrayLike,
) -> Risk:
    """Exact risk of the filter ``(C + S(w))^-1 C`` for given second moment and noise covariance.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    weights : (N,) array, number, WeightDesign or (N, N) S
    fit : (N,) array, optional
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
    H = filter_matrix(build(base, weights, data_term(fit, weights, n)), what="risk")
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
