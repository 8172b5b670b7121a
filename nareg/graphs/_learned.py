"""Graphs learned from signals: what a user passes, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._core.arrays import briefly_shown
from nareg._core.neighbors import nearest
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.graphs import _learning
from nareg.io import is_table, signals_of
from nareg.progress import Progress, ProgressCallback
from nareg.results import Status
from nareg.typing import ArrayLike

MODELS = ("log", "l2")
#: Neighbors per node that ``learn`` aims at when nothing is given.
NEIGHBORS = 5
#: Numbers held at a time when distances of candidate edges are computed.
_CHUNK = 4_000_000


@briefly_shown
@dataclass(frozen=True, eq=False)
class LearnedGraph:
    """Result of :func:`learn`.

    Attributes
    ----------
    graph : Graph
    status : Status
    objective : float
        Value of the model at the graph's weights, recomputed from them.
    gap : float
        Duality gap: the objective is above the least one by at most this.
    alpha, beta : float
        The model's parameters; those that ``neighbors`` led to, where it was given.
    iterations : int
        Newton steps.
    """

    graph: Graph
    status: Status
    objective: float
    gap: float
    alpha: float
    beta: float
    iterations: int


def learn(
    signals: ArrayLike,
    *,
    model: Literal["log", "l2"] = "log",
    neighbors: int | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    candidates: int | Graph | None = None,
    coordinates: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    metric: str = "euclidean",
    tol: float = 1e-10,
    max_iterations: int = 200,
    progress: ProgressCallback | None = None,
) -> LearnedGraph:
    """Learn the graph on which signals are smooth.

    With ``Z_ij = ||x_i - x_j||^2`` the weights W, symmetric, non-negative and with a zero diagonal, minimize

    - ``"log"``: ``sum_ij W_ij Z_ij - alpha sum_i log(sum_j W_ij) + beta / 2 sum_ij W_ij^2``; every node has neighbors.
    - ``"l2"``: ``sum_ij W_ij Z_ij + alpha / 2 sum_i (sum_j W_ij)^2 + beta / 2 sum_ij W_ij^2`` with ``sum_ij W_ij = N``; a
      node whose signal is unlike all others' may stay alone.

    Parameters
    ----------
    signals : (N, T) array or table
        Rows are nodes; of a table columns are, and name them. Fewer edges are certain than signals are many: noise in every
        signal adds the same to all Z.
    model : {"log", "l2"}
    neighbors : int, optional
        Neighbors per node to aim at, at least 2, for ``model="log"``: sets ``alpha`` and ``beta``. Default: 5, unless these
        are given. The number is met on average and approximately.
    alpha, beta : float, optional
        Above 0. Larger ``alpha`` gives larger (``"log"``) or more equal (``"l2"``) degrees, larger ``beta`` more edges.
    candidates : int or Graph, optional
        Edges that may have weight: those to this many nearest nodes by signal, or those of a graph. Default: all pairs, up to
        3,000 nodes.
    coordinates, names, metric
        Of the graph, as :class:`nareg.Graph` takes them; edges do not depend on them.
    tol : float
        Duality gap relative to the larger of N and the objective. Weights are known to about its root.
    max_iterations : int
        Newton steps; 10 to 30 are usual.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per step. Ctrl-C keeps the best weights.

    Returns
    -------
    LearnedGraph

    Raises
    ------
    InputError
        If the parameters do not fit the model.
    TooLargeError
        If all pairs of more than 3,000 nodes are asked for.

    References
    ----------
    Kalofolias, "How to learn a graph from smooth signals", AISTATS 2016 (the model ``"log"``, equation 12; ``"l2"``, after
    Dong et al., IEEE TSP 2016, equation 10). Kalofolias, Perraudin, "Large scale graph learning from smooth signals", ICLR
    2019 (``neighbors``, section 4).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> signals = np.repeat(np.random.default_rng(0).standard_normal((2, 30)), 4, axis=0)  # two groups of four
    >>> signals += 0.1 * np.random.default_rng(1).standard_normal((8, 30))
    >>> learned = nareg.graphs.learn(signals, neighbors=3)
    >>> learned.status.name, learned.graph.components.tolist()
    ('CONVERGED', [0, 0, 0, 0, 1, 1, 1, 1])
    """
    if is_table(signals):
        signals, columns = signals_of("signals", signals)
        names = columns if names is None else names
    X = checks.floats("signals", signals, ndim=(2,)).astype(np.float64)
    n = X.shape[0]
    if n < 3:
        raise InputError(f"signals has shape {X.shape}: rows are nodes, and at least three are needed.")
    checks.signals("signals", X, n)
    checks.choice("model", model, MODELS)
    tol = checks.number("tol", tol, low=0, strict=True)
    max_iterations = checks.integer("max_iterations", max_iterations, low=1)
    k = _neighbors(model, neighbors, alpha, beta, n)
    i, j = _pairs(X, candidates)
    z = _distances(X, i, j)
    if not z.any():
        raise InputError("signals has the same values at all nodes of the candidate edges: there is nothing to learn from.")
    if k is None:
        alpha, beta = (checks.number(name, value, low=0, strict=True) for name, value in (("alpha", alpha), ("beta", beta)))
    else:
        theta = _theta(i, j, z, n, k)
        alpha = beta = 1 / theta
    if model == "log":
        scale = np.sqrt(alpha / beta)  # w = scale v: see the theta of Kalofolias and Perraudin
        unit, kind = alpha, _learning.log_degrees(n)
        z, constant = z * scale / alpha, -alpha * n * np.log(scale)
    else:
        scale, unit, constant, kind = 1.0, beta, 0.0, _learning.squared_degrees(n, alpha / beta)
        z = z / beta
    if model == "log" and (np.bincount(np.r_[i, j], minlength=n) == 0).any():
        raise InputError("candidates leaves a node without an edge, where the model 'log' has no finite value: add edges.")

    def report(step: int, gap: float) -> None:
        if progress is not None:
            progress(Progress("graph learning", step, values={"gap": gap * unit}))

    problem = _learning.Problem(i, j, z, n, kind)
    answer = _learning.solve(problem, tol=tol, max_iterations=max_iterations, report=report)
    half = sp.csr_array((scale * answer.weights, (i, j)), shape=(n, n))
    return LearnedGraph(
        graph=Graph(half + half.T, coordinates=coordinates, names=names, metric=metric),
        status=answer.status,
        objective=unit * answer.objective + constant,
        gap=unit * answer.gap,
        alpha=float(alpha),
        beta=float(beta),
        iterations=answer.iterations,
    )


def _neighbors(model: str, neighbors: int | None, alpha: float | None, beta: float | None, n: int) -> int | None:
    """Neighbors to aim at; None where alpha and beta are given."""
    if (alpha is None) != (beta is None):
        raise InputError(f"{'alpha' if alpha is None else 'beta'} is missing: pass both alpha and beta, or neither.")
    if alpha is not None:
        if neighbors is not None:
            raise InputError("neighbors is given beside alpha and beta: pass either.")
        return None
    if model == "l2":
        raise InputError("the model 'l2' needs alpha and beta: pass both, or take model='log'.")
    if neighbors is None:
        return min(NEIGHBORS, n - 2)
    k = checks.integer("neighbors", neighbors, low=2)
    if k > n - 2:
        raise InputError(f"neighbors is {k} but there are {n} nodes: choose at most {n - 2}.")
    return k


def _pairs(X: np.ndarray, candidates: int | Graph | None) -> tuple[np.ndarray, np.ndarray]:
    """Ends (i, j), i < j, of the candidate edges."""
    n = len(X)
    if candidates is None:
        checks.dense_size("learn with all pairs", n, alternative="pass candidates, for example 20 nearest nodes")
        i, j = np.triu_indices(n, 1)
        return i, j
    if isinstance(candidates, Graph):
        if candidates.n_nodes != n:
            raise InputError(f"candidates has {candidates.n_nodes} nodes but signals has {n} rows: pass the same nodes.")
        edges = sp.triu(candidates.adjacency, 1).tocoo()
        i, j = edges.coords
        return i, j
    k = checks.integer("candidates", candidates, low=1)
    if k > n - 1:
        raise InputError(f"candidates is {k} but there are {n} nodes: choose at most {n - 1}.")
    other = nearest(X, k, "euclidean")[0]
    own = np.repeat(np.arange(n), k)
    ranks = np.unique(np.minimum(own, other.ravel()).astype(np.int64) * n + np.maximum(own, other.ravel()))
    return np.divmod(ranks, n)


def _distances(X: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Squared distances of rows."""
    if i.size == len(X) * (len(X) - 1) // 2:
        from scipy.spatial.distance import pdist  # imported here: it would slow `nareg apply`

        return pdist(X, "sqeuclidean")  # the same order of pairs
    z = np.empty(i.size)
    size = max(_CHUNK // X.shape[1], 1)
    for first in range(0, i.size, size):
        part = slice(first, first + size)
        z[part] = np.sum((X[i[part]] - X[j[part]]) ** 2, axis=1)
    return z


def _theta(i: np.ndarray, j: np.ndarray, z: np.ndarray, n: int, k: int) -> float:
    """The factor of Z that gives each node about k neighbors: between the bounds of Kalofolias and Perraudin, section 4."""
    own, value = np.r_[i, j], np.r_[z, z]
    order = np.lexsort((value, own))
    counts = np.bincount(own, minlength=n)
    if counts.min() <= k:
        raise InputError(
            f"candidates has {counts.min()} edges at some node, too few to choose {k} neighbors from: pass at least {k + 1}."
        )
    first = np.cumsum(counts) - counts
    nearest_values = value[order][first[:, None] + np.arange(k + 1)]
    total = nearest_values[:, :k].sum(axis=1)
    bounds = []
    for reach in (nearest_values[:, k], nearest_values[:, k - 1]):
        square = k * reach**2 - total * reach
        usable = square > 1e-12 * k * reach**2  # several nodes at the same distance set no bound
        if usable.any():
            bounds.append(float(np.mean(1 / np.sqrt(square[usable]))))
    if not bounds:
        raise InputError("signals has the same distance between all nodes: pass alpha and beta instead of neighbors.")
    return float(np.sqrt(bounds[0] * bounds[-1]))
