"""The linear minimum-mean-square-error (Wiener) filter: the best any linear filter can do."""

from __future__ import annotations

import numpy as np

from nareg._core import checks
from nareg._solvers.system import penalty
from nareg.baselines._masks import per_mask
from nareg.design import moment
from nareg.typing import ArrayLike, GraphLike


def lmmse(
    graph: GraphLike,
    y: ArrayLike,
    *,
    signals: ArrayLike | None = None,
    second_moment: ArrayLike | None = None,
    noise: ArrayLike,
    observed: ArrayLike | None = None,
) -> np.ndarray:
    """``x = R_{:,M} (R_{M,M} + Sigma_{M,M})^-1 y`` with the second moment R of the signal.

    A dense N x N filter that ignores the graph: the limit for the filters that run on it.

    Parameters
    ----------
    graph : Graph or (N, N) operator
        Only for the number of nodes.
    y : (N,) or (N, T) array
    signals : (N,) or (N, T) array, optional
        Clean training signals.
    second_moment : (N, N) array, optional
        ``E[x x^T]``; exactly one of the two.
    noise : number, (N,) or (N, N) array
        Noise variance(s) or covariance.
    observed : bool array, optional

    Returns
    -------
    array like y

    Examples
    --------
    >>> import numpy as np, nareg
    >>> nareg.baselines.lmmse(nareg.graphs.grid((2,)), np.array([1.0, 3.0]), second_moment=np.ones((2, 2)), noise=1.0)
    array([1.33333333, 1.33333333])
    """
    n = penalty(graph).n_nodes
    checks.dense_size("lmmse", n, copies=3, alternative="use filters.denoise")
    R = moment(signals, second_moment, n, needs="lmmse")
    total = R + checks.covariance(checks.noise("noise", noise, n))
    size = np.sqrt(np.diagonal(total))
    size = np.where(size > 0, size, 1.0)

    def estimate(readings: np.ndarray, mask: np.ndarray) -> np.ndarray:
        # least squares in each node's own unit: R + Sigma may be singular where there is neither signal nor noise
        unit = size[mask, None]
        scaled = np.linalg.lstsq(
            total[np.ix_(mask, mask)] / unit / unit.T, readings.reshape(unit.size, -1) / unit, rcond=1e-12
        )[0]
        return (R[:, mask] @ (scaled / unit)).reshape(n, *readings.shape[1:])

    return per_mask(y, observed, n, estimate)
