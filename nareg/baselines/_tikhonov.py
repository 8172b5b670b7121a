"""Tikhonov regularization: values or classes from some nodes to all, as in PyGSP's ``learning``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._core.arrays import briefly_shown
from nareg.baselines._masks import per_mask, refuse_silent_part
from nareg.errors import InputError, SolverError
from nareg.filters import denoise, interpolate
from nareg.graph import Graph
from nareg.io import takes_tables
from nareg.results import Solution
from nareg.typing import ArrayLike

#: Relative residual of the solves.
TOL = 1e-10


@briefly_shown
@dataclass(frozen=True, eq=False)
class Classification:
    """Result of :func:`tikhonov_classification`.

    Attributes
    ----------
    classes : (C,) array
        The distinct labels of the observed nodes, sorted.
    scores : (N, C) float64 array
        Score per node and class: at least 0, with a sum of 1 at every node.
    labels : (N,) array
        The class with the largest score; the first of several.
    """

    classes: np.ndarray
    scores: np.ndarray
    labels: np.ndarray


@takes_tables("y", "observed", observed="observed")
def tikhonov_regression(graph: Graph, y: ArrayLike, observed: ArrayLike | None = None, *, tau: float = 0.0) -> np.ndarray:
    """Minimize ``||y - x||^2`` over the observed nodes ``+ tau x^T L x``; with ``tau=0``, keep them and minimize ``x^T L x``.

    PyGSP's ``learning.regression_tikhonov``. With ``tau=0`` every other node is the weighted mean of its neighbors.

    Parameters
    ----------
    graph : Graph
    y : (N,) or (N, T) array
        Any value, NaN included, where not observed.
    observed : bool array, (N,) or the shape of y, optional
        Default: where ``y`` is not NaN.
    tau : float
        At least 0.

    Returns
    -------
    array like y

    Raises
    ------
    SingularSystemError
        If a connected part of the graph has no observed node.

    Notes
    -----
    With ``tau`` above 0 it is ``nareg.filters.interpolate(graph, sqrt(tau), y, observed)``. Systems are solved to a relative
    residual of 1e-10; PyGSP stops at 1e-5 and does not look at the outcome.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> y = np.array([0.0, np.nan, np.nan, 3.0])
    >>> nareg.baselines.tikhonov_regression(nareg.graphs.grid((4,)), y).round(6)
    array([0., 1., 2., 3.])
    >>> nareg.baselines.tikhonov_regression(nareg.graphs.grid((4,)), y, tau=1.0).round(6)
    array([0.6, 1.2, 1.8, 2.4])
    """
    if not isinstance(graph, Graph):
        raise InputError(f"graph is a {type(graph).__name__}: pass a nareg.Graph.")
    tau = checks.number("tau", tau, low=0)
    if observed is None:
        given = checks.floats("y", y, ndim=(1, 2), finite=False)
        checks.lengths("y", given, graph.n_nodes)
        observed = ~np.isnan(given)

    def estimate(readings: np.ndarray, mask: np.ndarray) -> np.ndarray:
        refuse_silent_part(graph, mask)
        whole = np.zeros((graph.n_nodes, readings.shape[1]))
        whole[mask] = readings
        if tau > 0:
            return _solved(interpolate(graph, np.sqrt(tau), whole, mask, tol=TOL))
        if not mask.all():
            # on the rest, L is the Laplacian of its own edges plus the weights of those to observed nodes: a denoiser
            rest = ~mask
            across = sp.csr_array(graph.adjacency[rest][:, mask])
            data_weight = np.asarray(across.sum(axis=1)).ravel()
            target = np.divide(
                across @ readings,
                data_weight[:, None],
                out=np.zeros((data_weight.size, readings.shape[1])),
                where=data_weight[:, None] > 0,
            )
            whole[rest] = _solved(denoise(graph.subgraph(rest), 1.0, target, data_weight=data_weight, tol=TOL))
        return whole

    return per_mask(y, observed, graph.n_nodes, estimate)


@takes_tables()
def tikhonov_classification(graph: Graph, labels: ArrayLike, observed: ArrayLike, *, tau: float = 0.0) -> Classification:
    """Classes of all nodes from those of some: :func:`tikhonov_regression` of one indicator per class.

    PyGSP's ``learning.classification_tikhonov``; with ``tau=0`` it is label propagation with fixed labels (Zhu, Ghahramani,
    Lafferty, ICML 2003).

    Parameters
    ----------
    graph : Graph
    labels : (N,) array of integers or texts
        Any value where not observed.
    observed : (N,) bool array
    tau : float
        At least 0; above 0 the labels of observed nodes may be overruled.

    Returns
    -------
    Classification

    Raises
    ------
    SingularSystemError
        If a connected part of the graph has no observed node.

    Notes
    -----
    PyGSP's scores have a column for every number up to the largest label, also for those that do not occur. Its variant with
    scores on the simplex, ``classification_tikhonov_simplex``, has the same minimum: by the maximum principle the scores
    of a Laplacian are at least 0, and they add up to 1.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> labels, observed = np.array(["sea", "", "", "land"]), np.array([True, False, False, True])
    >>> nareg.baselines.tikhonov_classification(nareg.graphs.grid((4,)), labels, observed).labels.tolist()
    ['sea', 'sea', 'land', 'land']
    """
    if not isinstance(graph, Graph):
        raise InputError(f"graph is a {type(graph).__name__}: pass a nareg.Graph.")
    n = graph.n_nodes
    given = checks.array_of("labels", labels)
    if given.shape != (n,):
        raise InputError(f"labels has shape {given.shape} but the graph has {n} nodes: pass one label per node.")
    mask = checks.mask("observed", observed, n, None)
    if given.dtype.kind == "O" and all(isinstance(label, str) for label in given[mask]):
        given = np.where(mask, given, "").astype(str)
    if given.dtype.kind == "f":
        whole = given[mask] == np.round(given[mask])  # not so for NaN
        if not whole.all():
            raise InputError(f"labels holds {given[mask][~whole][0]:g} at an observed node: pass integers or texts.")
        given = np.where(mask, given, 0).astype(np.int64)
    elif given.dtype.kind not in "iubU":
        raise InputError(f"labels has dtype {given.dtype}: pass integers or texts.")
    classes, index = np.unique(given[mask], return_inverse=True)
    indicators = np.zeros((n, classes.size))
    indicators[np.flatnonzero(mask), index] = 1.0
    scores = tikhonov_regression(graph, indicators, mask, tau=tau)
    return Classification(classes=classes, scores=scores, labels=classes[scores.argmax(axis=1)])


def _solved(answer: Solution) -> np.ndarray:
    if not answer.status.ok:
        raise SolverError(f"the system was not solved to {TOL:g} ({answer.status.value}).")
    return answer.x
