"""Redesign after a sensor was added or removed: from the old weights, in a fraction of the time."""

from __future__ import annotations

from typing import Literal

import numpy as np

from nareg._core import checks
from nareg._solvers.system import Penalty, penalty
from nareg.design._node.blind import blind_sampled
from nareg.design._node.estimate_noise import estimate_noise
from nareg.design._node.exact import exact_sampled
from nareg.design._node.penalty_path import Warm
from nareg.design._node.selection import NodeOptions, Sampling
from nareg.design._risk.descent import Groups
from nareg.errors import InputError
from nareg.io import takes_tables
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, WeightDesign
from nareg.typing import ArrayLike, GraphLike

#: Weights of the less common sign start at this part of the median.
MINORITY = 0.01


@takes_tables("signals", "measurements")
def redesign(
    graph: GraphLike,
    previous: WeightDesign,
    *,
    old_index: ArrayLike,
    signals: ArrayLike | None = None,
    measurements: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    data_weight: ArrayLike | Literal["noise"] | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    sampling: Sampling | None = None,
    progress: ProgressCallback | None = None,
) -> WeightDesign:
    """Design for a network that changed a little, starting from the weights of the one before.

    The penalty of ``previous`` is kept, and so is its single weight unless half or twice as much is better now: neither
    is searched for again. An exact design where signals are given, a blind one where measurements are. Design afresh when
    much has changed, or when ``previous`` has many weights of both signs: only the more common one is kept.

    Provisional: no experiment uses it yet; arguments and results may change.

    Parameters
    ----------
    graph : Graph or (N, N) operator
        The network as it is now.
    previous : WeightDesign
        From :func:`nareg.design.exact` or :func:`nareg.design.blind`, with node weights.
    old_index : (N,) integer array
        For every node of the new network its index in the old one, or -1 for a new sensor.
    signals, measurements : (N, T) array
        Clean training signals, or noisy readings, on the new network; exactly one of the two.
    noise, data_weight, lower, upper, sampling, progress
        As in :func:`nareg.design.exact`; measurements without noise have it estimated.

    Returns
    -------
    WeightDesign

    Examples
    --------
    >>> import numpy as np, nareg
    >>> rng = np.random.default_rng(0)
    >>> g = nareg.graphs.sensor(100, rng=rng)
    >>> field = nareg.graphs.heterogeneous_field(g, 40, rng=rng)
    >>> d = nareg.design.exact(g, signals=field.signals, noise=field.noise)
    >>> rest = np.arange(1, 100)  # the first sensor is gone
    >>> again = nareg.design.redesign(
    ...     g.subgraph(rest), d, old_index=rest, signals=field.signals[rest], noise=field.noise[rest]
    ... )
    >>> again.weights.shape
    (99,)
    """
    base = penalty(graph)
    n = base.n_nodes
    if previous.has_edge_weights:
        raise InputError("previous is an edge design: redesign needs node weights; run nareg.design.edge again.")
    index = checks.array_of("old_index", old_index)
    if index.shape != (n,) or index.dtype.kind not in "iu":
        raise InputError(f"old_index has shape {index.shape} and dtype {index.dtype}, ({n},) integers are expected.")
    if index.min() < -1 or index.max() >= previous.n_nodes:
        raise InputError(
            f"old_index holds {index.min()} to {index.max()}: old indices go from 0 to {previous.n_nodes - 1}, -1 is new."
        )
    old = index[index >= 0]
    if old.size == 0 or np.unique(old).size != old.size:
        raise InputError("old_index must name at least one old node, and none twice.")
    if (signals is None) == (measurements is None):
        raise InputError("redesign needs exactly one of signals and measurements.")
    if previous.data_weight is not None and data_weight is None:
        raise InputError(
            "data_weight is None but previous has a data term of its own: pass data_weight='noise', or the new network's."
        )
    details = previous.certificate.details
    weights = one_sign(previous.weights)
    scalar = float(details.get("best_scalar", np.median(weights)))
    warm = Warm(carried(base, weights, index), scalar, float(min(details.get("penalty", 0.1), 3.0)))
    sampling = (sampling or Sampling()).started()
    options = NodeOptions(lower, upper, Groups(None, n), sampling, progress, warm=warm)
    if signals is not None:
        if noise is None:
            raise InputError("noise is None: a redesign from signals needs the noise variances.")
        return exact_sampled(base, signals, noise, data_weight, options)
    Y = checks.signals("measurements", measurements, n).astype(float).reshape(n, -1)
    variance = estimate_noise(graph, Y) if noise is None else checks.noise("noise", noise, n)
    noise_details: DesignDetails = {"noise_estimated": noise is None, "noise_power": float(variance.sum())}
    return blind_sampled(base, Y, variance, data_weight, options, noise_details)


def one_sign(w: np.ndarray) -> np.ndarray:
    """Magnitudes of the weights of the more common sign; the others, not to be smoothed with these, near zero."""
    size = np.abs(w)
    sign = 1.0 if size[w >= 0].sum() >= size[w < 0].sum() else -1.0
    return np.where(sign * w >= 0, size, MINORITY * np.median(size))


def carried(base: Penalty, weights: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Old weights where a node was kept; a new node takes the mean of its kept neighbors, or the median of all."""
    remains = index >= 0
    w = np.where(remains, weights[np.maximum(index, 0)], 0.0)
    reach = abs(base.L)[~remains][:, remains]
    total = np.asarray(reach.sum(axis=1)).ravel()
    w[~remains] = np.divide(reach @ w[remains], total, out=np.full(total.size, np.median(w[remains])), where=total > 0)
    return w
