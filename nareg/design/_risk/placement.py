"""Which nodes to measure: the sampling set that lowers the expected error of a filter most (A-optimality).

A filter ``(C + S)^-1 C`` is the posterior mean of a Gaussian field with precision ``S / noise`` from readings with variances
``noise / c``. Where only the nodes O are read the covariance of the error is ``noise (C_O + S)^-1``, whatever the readings are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.csgraph import connected_components

from nareg._core import checks
from nareg._core.adjacency import node_indices
from nareg._core.arrays import briefly_shown
from nareg._solvers.system import build, data_term, penalty
from nareg.errors import InputError
from nareg.io import takes_tables
from nareg.progress import Progress, ProgressCallback
from nareg.typing import ArrayLike, GraphLike, WeightsLike

#: An eigenvalue of S below this share of the largest one is zero: no prior knowledge along its eigenvector.
ZERO = 1e-10


@briefly_shown
@dataclass(frozen=True, eq=False)
class Placement:
    """Result of :func:`placement`.

    Attributes
    ----------
    nodes : (count,) array
        Nodes to measure, the most valuable first.
    mse : (count + 1,) array
        Expected squared error, averaged over all nodes, before and after each of them; infinite while a connected part of the
        graph whose level the filter does not know has no reading.
    std : (N,) array
        Standard deviation of the error of each node once all are measured, recomputed from the system.
    """

    nodes: np.ndarray
    mse: np.ndarray
    std: np.ndarray


@takes_tables()
def placement(
    graph: GraphLike,
    weights: WeightsLike,
    *,
    count: int = 1,
    data_weight: ArrayLike | None = None,
    noise: float = 1.0,
    observed: ArrayLike | None = None,
    candidates: ArrayLike | None = None,
    progress: ProgressCallback | None = None,
) -> Placement:
    """Choose nodes to measure so that the expected error of :func:`nareg.filters.interpolate` falls most.

    Each node is the best one given those before. It needs no readings. For stations that read over time, with a fitted model,
    use :func:`nareg.spacetime.placement`.

    Parameters
    ----------
    graph : Graph or (N, N) operator
        At most 3,000 nodes.
    weights : number, (N,) array, (N, N) matrix S or WeightDesign
        Of the filter.
    count : int
        Number of nodes to choose.
    data_weight : (N,) array, optional
        Weights of the data term that a reading at each node would have, above 0 at candidates. Default: those of the design,
        else ones.
    noise : float
        Variance of a reading where ``data_weight`` is 1, above 0. It scales errors and changes no choice.
    observed : (N,) bool array or node numbers, optional
        Nodes that are measured already. Default: none.
    candidates : (N,) bool array or node numbers, optional
        Nodes that may be chosen. Default: all that are not observed and have ``data_weight`` above 0.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per node.

    Returns
    -------
    Placement

    Raises
    ------
    InputError
        If ``count`` exceeds the candidates, or is too small to give every connected part a reading that it needs.
    TooLargeError
        For more than 3,000 nodes.

    Notes
    -----
    The reduction of the error is not submodular, so that the greedy choice has no guarantee of 1 - 1/e. On small graphs it
    is close to the best choice: see the tests.

    References
    ----------
    Anis, Gadde, Ortega, "Efficient sampling set selection for bandlimited graph signals", IEEE TSP 2016 (sampling sets);
    Chamon, Ribeiro, "Greedy sampling of graph signals", IEEE TSP 2018 (the error and its greedy minimization).

    Examples
    --------
    >>> import nareg
    >>> chosen = nareg.design.placement(nareg.graphs.grid((7,)), 1.0, count=3)
    >>> chosen.nodes.tolist(), chosen.mse.round(2).tolist()
    ([3, 0, 6], [inf, 2.71, 1.77, 0.98])
    """
    base = penalty(graph)
    n = base.n_nodes
    checks.dense_size("placement", n, copies=3, alternative="choose on a part of the network (graph.subgraph)")
    c = data_term(data_weight, weights, n)
    S = build(base, weights, c).S
    noise = checks.number("noise", noise, low=0, strict=True)
    seen = np.zeros(n, dtype=bool)
    if observed is not None:
        seen[node_indices("observed", observed, n)] = True
    free = ~seen & (c > 0)
    if candidates is not None:
        wanted = np.zeros(n, dtype=bool)
        wanted[node_indices("candidates", candidates, n)] = True
        free &= wanted
    count = checks.integer("count", count, low=1)
    if count > free.sum():
        raise InputError(f"count is {count} but there are {int(free.sum())} nodes to choose from: choose fewer.")

    first = _anchors(S, c, seen, free, base.describe_node)
    if len(first) > count:
        raise InputError(
            f"count is {count} but {len(first)} connected parts of the graph need a reading each: choose at least {len(first)}."
        )
    nodes, errors = list(first), [np.inf] * len(first)
    reads = np.where(seen, c, 0.0)
    reads[nodes] = c[nodes]
    free[nodes] = False
    P = _inverse(S.toarray(), reads)
    errors.append(float(np.trace(P)) / n)
    while len(nodes) < count:
        gain = np.where(free, c * np.einsum("ij,ij->j", P, P) / (1 + c * P.diagonal()), -1.0)
        best = int((gain >= gain.max() * (1 - 1e-9)).argmax())  # of equal ones the first, whatever the rounding
        column = P[:, best].copy()
        P -= np.outer(column, column) * (c[best] / (1 + c[best] * column[best]))
        nodes.append(best)
        free[best] = False
        errors.append(float(np.trace(P)) / n)
        if progress is not None:
            progress(Progress("placement", len(nodes), count, len(nodes) / count, {"mse": noise * errors[-1]}))
    reads[nodes] = c[nodes]
    exact = _inverse(S.toarray(), reads).diagonal()
    return Placement(np.array(nodes), noise * np.array(errors), np.sqrt(noise * exact))


def _inverse(S: np.ndarray, reads: np.ndarray) -> np.ndarray:
    """``(C_O + S)^-1``."""
    return cho_solve(cho_factor(S + np.diag(reads), lower=True), np.eye(len(S)))


def _anchors(
    S: sp.csr_array, c: np.ndarray, seen: np.ndarray, free: np.ndarray, describe_node: Callable[[int], str]
) -> list[int]:
    """The best single node of each connected part without a reading on which S is singular.

    With ``S v = 0``, ``trace (S + c e_j e_j^T)^-1`` is least where ``(pinv(S)_jj + 1 / c_j) / v_j^2`` is.
    """
    support = S.copy()
    support.eliminate_zeros()
    labels = connected_components(support, directed=False)[1]
    chosen = []
    for label in np.unique(labels[~np.isin(labels, labels[seen & (c > 0)])]):
        part = np.flatnonzero(labels == label)
        values, vectors = np.linalg.eigh(S[part][:, part].toarray())
        zero = values <= ZERO * max(float(values[-1]), np.finfo(float).tiny)
        if not zero.any():
            continue
        if zero.sum() > 1:
            raise InputError(
                f"weights leave {int(zero.sum())} directions without a prior in the part with {describe_node(int(part[0]))}: "
                "pass observed nodes there, or other weights."
            )
        null = vectors[:, 0] ** 2
        inverse = np.einsum("ik,k->i", vectors[:, 1:] ** 2, 1 / values[1:])
        usable = free[part] & (null > ZERO)
        if not usable.any():
            raise InputError(f"candidates has no node in the part with {describe_node(int(part[0]))}, which needs a reading.")
        cost = np.full(part.size, np.inf)
        cost[usable] = (inverse[usable] + 1 / c[part][usable]) / null[usable]
        chosen.append(int(part[cost.argmin()]))
    return chosen
