"""Simple estimates to compare with: the last reading, and one weight for all stations at each time separately.

One weight: station means are removed and put back. The weight is the one that best predicts a few readings that are left out
in turn.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from nareg._solvers.factorization import Solve, factorize
from nareg.baselines._masks import patterns
from nareg.errors import SolverError
from nareg.graph import Graph
from nareg.spacetime import station_order

#: Penalties that are compared, relative to one over the mean degree.
PENALTIES = tuple(10.0**k for k in (-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3))
#: Data-term weight of a station without a reading: it pulls towards the station's mean where nothing else does.
RIDGE = 1e-4
#: Times and share of their readings that choose the weight; above LARGE stations fewer times do.
SAMPLE, SHARE = 60, 0.2
LARGE, SAMPLE_LARGE = 2000, 6
#: Up to here dense factors are faster.
DENSE = 300


def last_reading(y: np.ndarray) -> np.ndarray:
    """Repeat the last reading; before the first reading, repeat that one."""
    import pandas as pd

    return pd.DataFrame(y.T).ffill().bfill().to_numpy().T


def means(y: np.ndarray) -> np.ndarray:
    """(N,) mean of each station's readings (N, T); NaN without any."""
    import pandas as pd

    return pd.DataFrame(y).mean(axis=1).to_numpy()


def one_weight(graph: Graph, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Estimate (N, T) from readings with NaN where missing."""
    L = sp.csc_array(graph.laplacian())
    scale = 1.0 / max(float(L.diagonal().mean()), 1e-300)
    level = station_levels(L, scale, y)
    relative = y - level[:, None]
    return level[:, None] + _solve(L, _choose(L, scale, relative, rng), relative)


def station_levels(L: sp.csc_array, scale: float, y: np.ndarray) -> np.ndarray:
    """Mean of every station; that of a silent one from its neighbors."""
    level = means(y)
    silent = np.isnan(level)
    if not silent.any():
        return level
    common = level[~silent].mean()
    return np.where(silent, common + _solve(L, PENALTIES[0] * scale, (level - common)[:, None])[:, 0], level)


def _choose(L: sp.csc_array, scale: float, z: np.ndarray, rng: np.random.Generator) -> float:
    """The penalty with the smallest error at left-out readings of some times."""
    useful = np.flatnonzero(np.isfinite(z).sum(axis=0) >= 2)
    if useful.size == 0:
        return scale
    max_times = SAMPLE_LARGE if L.shape[0] > LARGE else SAMPLE
    some = rng.choice(useful, min(max_times, useful.size), replace=False)
    part = z[:, some]
    chance = np.empty(part.shape)
    chance[station_order(z.T)] = rng.random(part.shape)
    out = np.isfinite(part) & (chance < SHARE)
    if not out.any():
        return scale
    rest = np.where(out, np.nan, part)
    errors = [float(np.mean(np.abs(_solve(L, tau * scale, rest) - part)[out])) for tau in PENALTIES]
    return PENALTIES[int(np.argmin(errors))] * scale


def _solve(L: sp.csc_array, penalty: float, z: np.ndarray) -> np.ndarray:
    """``(C + penalty L) x = C z`` with C one where there is a reading and nearly zero elsewhere."""
    n = L.shape[0]
    S = penalty * L
    dense = S.toarray() if n <= DENSE else None
    x = np.empty(z.shape)
    for seen, times in patterns(np.isfinite(z)):
        c = np.where(seen, 1.0, RIDGE)
        right = np.where(seen[:, None], z[:, times], 0.0)
        x[:, times] = _factor(S, dense, c)(right)
    return x


def _factor(S: sp.csc_array, dense: np.ndarray | None, c: np.ndarray) -> Solve:
    if dense is not None:
        factor = cho_factor(dense + np.diag(c), lower=True)
        return lambda right: np.asarray(cho_solve(factor, right))
    sparse = factorize(sp.csc_array(S + sp.diags_array(c, format="csc")), definite=False)  # a Laplacian plus positive weights
    if sparse is None:
        raise SolverError("one weight: the system is singular in float64; check the graph's edge weights.")
    return sparse.solve


def complete(x: np.ndarray, y: np.ndarray, median: np.ndarray) -> np.ndarray:
    """Fill NaN by the neighbors' median, the station's mean, or the mean of all readings."""
    level = means(y)
    level = np.where(np.isnan(level), y[np.isfinite(y)].mean(), level)
    result = np.where(np.isfinite(x), x, median)
    return np.where(np.isfinite(result), result, level[:, None])
