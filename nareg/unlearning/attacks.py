"""Attacks that look for removed nodes in what a model says; AUROC near 0.5 means that they find nothing.

In membership recall a student learns from the model's noisy labels, and both together betray what was removed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit, softmax
from scipy.stats import rankdata

from nareg.graph import Graph

#: Ridge of the attacker's logistic regression, on standardized features.
RIDGE = 1.0
#: Rounds; passes of distillation and steps of recall in each.
ROUNDS, PASSES, STEPS = 3, 3, 2
#: Parameters of the beta distributions that mix inputs and labels.
MIX_INPUTS, MIX_LABELS = 0.2, 0.75
#: Smoothing of probabilities, and of the labels that are recalled.
LAPLACE, SMOOTHING = 0.01, 0.05
#: Share of the nodes that are recalled in a round.
RECALLED = 0.6
#: Features with a smaller share of entries other than zero are multiplied as a sparse matrix.
SPARSE = 0.1
#: Units of the student, nodes per step, and learning rate of Adam.
HIDDEN, BATCH, RATE = 128, 256, 1e-3


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
    return Z @ w


@dataclass(frozen=True)
class Recall:
    """AUROC of the joint confidence, and share of the removed nodes whose label the student names."""

    auroc: float
    accuracy: float


def membership_recall(
    features: np.ndarray,
    probabilities: np.ndarray,
    labels: np.ndarray,
    nodes: np.ndarray,
    removed: np.ndarray,
    rng: np.random.Generator,
) -> Recall:
    """Distill a student from the model, and look where both are confident.

    The student learns in three rounds. First from mixed-up pairs of inputs and the model's labels, which from the second
    round on are mixed with its own guess. Then from the nodes of each class at which both are surest, with smoothed labels.
    The score of a node is its largest product of both smoothed probabilities.

    Parameters
    ----------
    features : (N, F) array
    probabilities : (N, C) array
        Of the model on the data before the removal.
    labels : (N,) array
        Numbers of the true columns.
    nodes : (K,) array
        Nodes that the attacker distills on, and among which the removed ones are sought.
    removed : (R,) array
    rng : numpy.random.Generator
    """
    X, teacher = features[nodes], probabilities[nodes]
    if np.count_nonzero(X) < SPARSE * X.size:
        X = sp.csr_array(X)
    student = Student(X.shape[1], teacher.shape[1], rng)
    for epoch in range(ROUNDS):
        for _ in range(PASSES):
            for batch in np.array_split(rng.permutation(nodes.size), -(-nodes.size // BATCH)):
                partner = rng.integers(nodes.size, size=batch.size)
                a = rng.beta(MIX_INPUTS, MIX_INPUTS, batch.size)
                b = rng.beta(MIX_LABELS, MIX_LABELS, (batch.size, 1)) if epoch else np.ones((batch.size, 1))
                inputs = sp.diags_array(a) @ X[batch] + sp.diags_array(1 - a) @ X[partner]
                mixed = b * teacher[batch] + (1 - b) * teacher[partner]
                student.learn(inputs, b * mixed + (1 - b) * student.probabilities(inputs))
        joint = _smoothed(teacher) * _smoothed(student.probabilities(X))
        rows, targets = _most_confident(joint)
        for _ in range(STEPS):
            student.learn(X[rows], targets)
    guess = student.probabilities(X)
    joint = _smoothed(teacher) * _smoothed(guess)
    positive = np.isin(nodes, removed)
    right = guess.argmax(axis=1)[positive] == labels[nodes][positive]
    return Recall(auroc(joint.max(axis=1), positive), float(right.mean()))


def _smoothed(probabilities: np.ndarray) -> np.ndarray:
    return (probabilities + LAPLACE) / (1 + probabilities.shape[1] * LAPLACE)


def _most_confident(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The surest rows of each class, and their smoothed labels; the mean of these for a row of several classes."""
    n, classes = joint.shape
    count = math.ceil(RECALLED * n / classes)
    chosen = np.zeros((n, classes))
    for k in range(classes):
        chosen[np.argsort(-joint[:, k], kind="stable")[:count], k] = 1
    rows = np.flatnonzero(chosen.any(axis=1))
    shares = chosen[rows] / chosen[rows].sum(axis=1, keepdims=True)
    return rows, (1 - SMOOTHING) * shares + SMOOTHING / classes


class Student:
    """A perceptron with one hidden layer, trained by Adam on soft labels."""

    def __init__(self, n_features: int, n_classes: int, rng: np.random.Generator) -> None:
        shapes = [(n_features, HIDDEN), (HIDDEN,), (HIDDEN, n_classes), (n_classes,)]
        fans = [n_features, n_features, HIDDEN, HIDDEN]
        self.weights = [rng.uniform(-1, 1, shape) / math.sqrt(fan) for shape, fan in zip(shapes, fans, strict=True)]
        self._moments = [(np.zeros(shape), np.zeros(shape)) for shape in shapes]
        self._step = 0

    def probabilities(self, X: np.ndarray | sp.csr_array) -> np.ndarray:
        """(K, C)."""
        W1, b1, W2, b2 = self.weights
        return softmax(np.maximum(X @ W1 + b1, 0) @ W2 + b2, axis=1)

    def gradients(self, X: np.ndarray | sp.csr_array, targets: np.ndarray) -> list[np.ndarray]:
        """Gradients of the mean cross-entropy with soft targets (K, C)."""
        W1, b1, W2, b2 = self.weights
        hidden = np.maximum(X @ W1 + b1, 0)
        error = (softmax(hidden @ W2 + b2, axis=1) - targets) / len(targets)
        back = (error @ W2.T) * (hidden > 0)
        return [X.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0)]

    def learn(self, X: np.ndarray | sp.csr_array, targets: np.ndarray) -> None:
        """A step of Adam."""
        self._step += 1
        for value, gradient, (mean, square) in zip(self.weights, self.gradients(X, targets), self._moments, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            corrected = np.sqrt(square / (1 - 0.999**self._step)) + 1e-8
            value -= RATE * mean / (1 - 0.9**self._step) / corrected
