"""Attacks that look for removed nodes in what a model says; AUROC near 0.5 means that they find nothing."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import rankdata

from nareg.graph import Graph

#: Ridge of the attacker's logistic regression, on standardized features.
RIDGE = 1.0


def auroc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Area under the ROC curve: the probability that a positive has the larger score, ties counted half.

    NaN where all are positive or none is.

    Examples
    --------
    >>> auroc(np.array([3.0, 2.0, 1.0, 1.0]), np.array([True, True, False, True]))
    0.8333333333333334
    """
    n, m = int(np.count_nonzero(positive)), int(np.count_nonzero(~positive))
    if not n or not m:
        return float("nan")
    return float((rankdata(scores)[positive].sum() - n * (n + 1) / 2) / (n * m))


def membership(before: np.ndarray, after: np.ndarray, removed: np.ndarray, test: np.ndarray, rng: np.random.Generator) -> float:
    """AUROC of the L2 distance between class probabilities (N, C) before and after: removed nodes against test nodes.

    As many test nodes as removed ones are drawn; all, if there are fewer.
    """
    others = rng.permutation(test)[: removed.size]
    nodes = np.concatenate([removed, others])
    return auroc(np.linalg.norm(before[nodes] - after[nodes], axis=1), np.arange(nodes.size) < removed.size)


def trend_features(probabilities: np.ndarray, graph: Graph) -> np.ndarray:
    """What the trend attack knows of every node, (N, 7).

    Confidence ``tau_0``, the largest probability; degree; mean confidence of the neighbors (its own without any); whether
    ``tau_1 - tau_0`` and ``tau_2 - tau_1`` are negative, and whether they are positive. ``tau_k`` is the normalized adjacency
    matrix without self-loops times ``tau_(k-1)``. At nodes without neighbors it is ``tau_(k-1)`` itself.
    """
    A = sp.csr_array(graph.adjacency)
    degrees = np.diff(A.indptr).astype(float)
    alone, scale = degrees == 0, np.maximum(degrees, 1)
    confidence = probabilities.max(axis=1)
    pattern = sp.csr_array((np.ones(A.nnz), A.indices, A.indptr), shape=A.shape)
    taus = [confidence]
    for _ in range(2):
        taus.append(np.where(alone, taus[-1], pattern @ (taus[-1] / np.sqrt(scale)) / np.sqrt(scale)))
    around = np.where(alone, confidence, pattern @ confidence / scale)
    first, second = taus[1] - taus[0], taus[2] - taus[1]
    return np.stack([confidence, degrees, around, first < 0, first > 0, second < 0, second > 0], axis=1)


def trend(probabilities: np.ndarray, graph: Graph, removed: np.ndarray, train: np.ndarray) -> float:
    """AUROC of a balanced logistic regression on :func:`trend_features`: removed training nodes against the other ones."""
    X = trend_features(probabilities, graph)[train]
    positive = np.isin(train, removed)
    if positive.all():
        return float("nan")
    return auroc(logistic_scores(X, positive), positive)


def logistic_scores(X: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Scores (K,) of a logistic regression in which both classes weigh the same, on its own training data.

    Columns are standardized; the ridge is 1 per model, and the intercept has none.
    """
    deviations = X.std(axis=0)
    Z = np.column_stack([(X - X.mean(axis=0)) / np.where(deviations > 0, deviations, 1), np.ones(len(X))])
    sign = np.where(positive, 1.0, -1.0)
    n = len(X)
    share = np.where(positive, n / (2 * positive.sum()), n / (2 * (n - positive.sum())))
    penalized = np.append(np.full(X.shape[1], RIDGE), 0.0)

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (Z @ w)
        slope = -sign * share * expit(-margin)
        return float(share @ np.logaddexp(0, -margin) + penalized @ w**2 / 2), Z.T @ slope + penalized * w

    w = minimize(loss, np.zeros(Z.shape[1]), jac=True, method="L-BFGS-B").x
    scores: np.ndarray = Z @ w
    return scores
