"""Estimate each station's noise variance from noisy readings alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from nareg import _checks
from nareg.design.scalar import node_invariant
from nareg.errors import InputError
from nareg.filters._system import penalty

#: Consistency factor: the median absolute deviation of a normal variable is 0.6745 standard deviations.
MAD_TO_STD = 1.4826
#: Smallest variance returned, as a share of the median over nodes.
FLOOR = 0.05


def estimate_noise(graph: Any, measurements: Any, *, method: str = "gcv") -> np.ndarray:
    """Noise variance of every node from (N, T) noisy readings.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    measurements : (N, T) array
        Noisy readings, T >= 2 (the more the better; a few dozen give usable values per station).
    method : {"gcv", "differences"}
        ``"gcv"`` smooths with the single weight that generalised cross-validation picks and solves
        ``E r_i^2 = sum_j (I - H)_ij^2 sigma_j^2`` for the variances, r the residual, by non-negative least
        squares. ``"differences"`` does the same with each node's difference to the weighted mean of its
        neighbours and a robust spread (median absolute deviation), which a few spikes do not disturb.

    Returns
    -------
    (N,) array of variances, in the squared unit of the readings

    Notes
    -----
    Whatever the smoother or the neighbours cannot predict counts as noise: where the signal itself varies
    from node to node, variances come out too high. Each node's mean over time is removed first, because a
    constant offset between neighbours is signal. No variance is put below a twentieth of the median: least
    squares cannot tell how good such a station is, and an estimate near zero would be trusted blindly. A node
    without neighbours gets the median.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> rng = np.random.default_rng(0)
    >>> g = nareg.graphs.grid((6, 6))
    >>> sigma = np.where(np.arange(36) < 18, 0.5, 2.0)
    >>> y = 20 * rng.standard_normal(200) + sigma[:, None] * rng.standard_normal((36, 200))
    >>> v = nareg.design.estimate_noise(g, y)
    >>> bool(np.abs(np.sqrt(v[:18]).mean() - 0.5) < 0.1), bool(np.abs(np.sqrt(v[18:]).mean() - 2) < 0.1)
    (True, True)
    """
    method = _checks.choice("method", method, ("gcv", "differences"))
    base = penalty(graph)
    n = base.n_nodes
    _checks.dense_size("estimate_noise", n, copies=3, alternative="estimate on a part of the network (graph.subgraph)")
    Y = _checks.signals("measurements", measurements, n).astype(float).reshape(n, -1)
    if Y.shape[1] < 2:
        raise InputError("measurements has one column: the noise of a station shows only over several readings, T >= 2.")
    if not base.L.nnz:
        raise InputError("graph has no edges: noise cannot be told from signal without neighbours.")
    Y = Y - Y.mean(axis=1, keepdims=True)
    if not Y.any():
        raise InputError("measurements do not vary over time: their noise cannot be seen.")
    dof = 1 - 1 / Y.shape[1]
    if method == "differences":
        D = base.L.diagonal()
        scale = np.divide(1.0, D, out=np.zeros_like(D), where=D > 0)
        predictor = np.asarray((sp.diags_array(scale) @ base.L).toarray())  # y_i minus the mean of its neighbours
        predictor[D == 0, D == 0] = 0.0
        difference = predictor @ Y
        observed = (MAD_TO_STD * np.median(np.abs(difference - np.median(difference, axis=1, keepdims=True)), axis=1)) ** 2
    else:
        w0 = node_invariant(graph, rule="gcv", measurements=Y).certificate.details["w0"]
        predictor = np.eye(n) - np.linalg.inv(np.eye(n) + w0 * base.L.toarray())
        observed = np.mean((predictor @ Y) ** 2, axis=1) / dof
    variance, _ = nnls(predictor**2, observed)
    joined = base.L.diagonal() > 0
    median = float(np.median(variance[joined]))
    return np.where(joined, np.maximum(variance, FLOOR * median), median)
