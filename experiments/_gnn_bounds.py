"""Statements of the NGC paper about noise (its Lemma 1 and appendices), as they hold.

With ``A_S = 1/(lam+1) sum_s (lam/(lam+1))^s A~^s`` and noise ``eta`` of N rows and F columns, filtered noise is ``A_S eta``.
"""

from __future__ import annotations

import math

import numpy as np

from nareg._core import checks
from nareg.gnn.adjacency import Adjacency, GraphInput
from nareg.gnn.propagation import propagate
from nareg.gnn.solvers import Neumann
from nareg.typing import ArrayLike

#: Columns of A_S that are computed at a time.
BLOCK = 256


def row_sum(lam: float, order: int) -> float:
    """Sum of every row of A_S, ``1 - (lam/(lam+1))^(S+1)`` (appendix on row sums).

    The paper states it for every A~. It holds for ``normalization="rw"`` alone: rows of the symmetric A~ do not sum to one.

    Examples
    --------
    >>> row_sum(1.0, 1)
    0.75
    """
    lam = checks.number("lam", lam, low=0)
    order = checks.integer("order", order, low=0)
    return float(1 - (lam / (lam + 1)) ** (order + 1))


def row_squares(graph: GraphInput, *, lam: float, order: int) -> np.ndarray:
    """Sums of squares of the rows of A_S, (N,): variances of filtered noise of variance one.

    N columns are propagated, some at a time: time of N signals, memory of a few hundred.

    Examples
    --------
    >>> import nareg
    >>> row_squares(nareg.graphs.grid((2,)), lam=1.0, order=1)
    array([0.40625, 0.40625])
    """
    adjacency = graph if isinstance(graph, Adjacency) else Adjacency(graph)
    n = len(adjacency.degrees)
    total = np.zeros(n)
    for start in range(0, n, BLOCK):
        columns = np.arange(start, min(start + BLOCK, n))
        unit = np.zeros((n, len(columns)))
        unit[columns, columns - start] = 1
        total += (propagate(adjacency, unit, lam=lam, solver=Neumann(order)) ** 2).sum(axis=1)
    return total


def tau(graph: GraphInput, *, lam: float, order: int) -> float:
    """The paper's ``tau = N max_i sum_j [A_S]_ij^2 / (1 - (lam/(lam+1))^(S+1))^2`` (proof of Lemma 1).

    It lies in [1, N]. For ``normalization="rw"`` because rows of A_S are not negative and have the sum :func:`row_sum`. For
    ``"sym"`` that number is the largest eigenvalue of A_S: no row's norm is above it, and the largest row sum is not below.

    Examples
    --------
    >>> import nareg
    >>> round(tau(nareg.graphs.grid((2,)), lam=1.0, order=1), 4)
    1.4444
    """
    squares = row_squares(graph, lam=lam, order=order)
    return float(len(squares) * squares.max() / row_sum(lam, order) ** 2)


def expected_noise(graph: GraphInput, *, n_features: int, sigma: float, lam: float, order: int) -> float:
    """``E ||A_S eta||_F^2 = F sigma^2 ||A_S||_F^2`` for uncorrelated noise of mean zero and deviation sigma.

    Examples
    --------
    >>> import nareg
    >>> expected_noise(nareg.graphs.grid((2,)), n_features=2, sigma=1.0, lam=1.0, order=1)
    1.625
    """
    n_features = checks.integer("n_features", n_features, low=1)
    sigma = checks.number("sigma", sigma, low=0)
    return float(n_features * sigma**2 * row_squares(graph, lam=lam, order=order).sum())


def published_noise(graph: GraphInput, *, sigma: float, lam: float, order: int, d: float) -> float:
    """What Lemma 1 gives as a bound of ``||A_S eta||_F^2`` with probability ``1 - 1/d``. **It is not a bound.**

    ``2 tau row_sum^2 sigma^2 (4 log N + log 2d) / N``. Its proof bounds a sum of N F squares by the largest of them, so F
    does not occur in it: with enough features the mean, :func:`expected_noise`, is above it.

    Examples
    --------
    >>> import nareg
    >>> round(published_noise(nareg.graphs.grid((2,)), sigma=1.0, lam=1.0, order=1, d=10.0), 3)
    4.687
    """
    sigma = checks.number("sigma", sigma, low=0)
    d = checks.number("d", d, low=1)
    squares = row_squares(graph, lam=lam, order=order)
    return float(2 * squares.max() * sigma**2 * (4 * math.log(len(squares)) + math.log(2 * d)))


def noisy_training(
    graph: GraphInput,
    *,
    n_features: int,
    sigma: float,
    radius: float,
    lam: float,
    order: int,
    train: ArrayLike | None = None,
) -> float:
    """What training on noisy features costs: a bound of the mean excess of the loss on clean ones.

    ``2 sqrt(2) R sigma sqrt(F sum_(i in T) ||row i of A_S||^2 / |T|)`` for a linear softmax classifier behind A_S that is
    trained over weights with ``||W||_F <= R`` on the nodes T: the loss of the weights found under noise, less the least loss,
    both on clean features, in the mean over the noise. It takes the place of the paper's main theorem, which rests on Lemma 1.

    Cross-entropy changes by at most ``sqrt(2)`` times the change of the logits ``A_S eta W``, so that no weights of this size
    have a loss further from their clean one than ``sqrt(2/|T|) R ||[A_S eta]_T||_F``. Twice that bounds the excess.

    Parameters
    ----------
    n_features : int
        F, columns of the features and of the noise.
    sigma : float
        Standard deviation of the noise, uncorrelated and of mean zero.
    radius : float
        R, the largest Frobenius norm of the weights.
    train : array of bool, (N,), optional
        The training nodes T. Default: all.

    Examples
    --------
    >>> import nareg
    >>> round(noisy_training(nareg.graphs.grid((2,)), n_features=2, sigma=0.1, radius=1.0, lam=1.0, order=1), 3)
    0.255
    """
    n_features = checks.integer("n_features", n_features, low=1)
    sigma, radius = checks.number("sigma", sigma, low=0), checks.number("radius", radius, low=0)
    squares = row_squares(graph, lam=lam, order=order)
    if train is not None:
        squares = squares[checks.mask("train", train, len(squares), None)]
    return float(2 * math.sqrt(2) * radius * sigma * math.sqrt(n_features * squares.mean()))
