"""What ridge and noise cost: accuracy at training nodes that are held out, with them and without.

Training accuracy would not tell. With next to no ridge a head of 1,433 features learns its 1,208 training nodes by heart, and
is worse at all others than with a larger ridge (Cora).
"""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from nareg._solvers.tall_products import threads
from nareg.errors import SolverError, UtilityWarning
from nareg.unlearning.objective import ClassifierObjective

#: Points of accuracy that ridge and noise may cost without a warning, and standard errors that it must exceed to be no chance.
POINTS, ERRORS = 5.0, 2.0
#: Training nodes that are used at most, and fewest.
MOST, FEWEST = 2000, 20
#: Parts of the training nodes, and nodes to be held out in all: where one part has as many, the others are not held out.
PARTS, HELD_OUT = 5, 200
#: Ridges to compare with, over the mean squared length of the embedding's rows.
RIDGES = (1e-3, 1e-4, 1e-5)
#: Newton steps stop at this share of the gradient at W = 0: classes need no more.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class UtilityCost:
    """Accuracy in percent at training nodes that were held out, with ridge and noise and without.

    It is computed from the data: it is for the model's owner, and not covered by a certificate.

    Attributes
    ----------
    accuracy : float
        With the model's ridge and noise term.
    noiseless : float
        With its ridge alone.
    best : float
        Without noise, with the best of the model's ridge and smaller ones.
    best_lam : float
        The ridge per training node of ``best``.
    nodes : int
        Number of nodes that were held out.
    certain : bool
        Whether the cost exceeds two standard errors of a comparison on so many nodes.

    Examples
    --------
    >>> from nareg.unlearning import UtilityCost
    >>> UtilityCost(accuracy=56.0, noiseless=57.0, best=87.0, best_lam=1e-4, nodes=242, certain=True).summary()
    'ridge and noise cost 31.0 points of accuracy (56.0 % of 87.0 %, 242 nodes held out): the ridge 30.0, the noise 1.0'
    """

    accuracy: float
    noiseless: float
    best: float
    best_lam: float
    nodes: int
    certain: bool

    @property
    def points(self) -> float:
        """Points of accuracy that ridge and noise cost together."""
        return self.best - self.accuracy

    @property
    def ridge(self) -> float:
        """Points that the ridge costs."""
        return self.best - self.noiseless

    @property
    def noise(self) -> float:
        """Points that the noise costs."""
        return self.noiseless - self.accuracy

    def summary(self) -> str:
        """The cost in a line of text."""
        return (
            f"ridge and noise cost {self.points:.1f} points of accuracy ({self.accuracy:.1f} % of {self.best:.1f} %, "
            f"{self.nodes} nodes held out): the ridge {self.ridge:.1f}, the noise {self.noise:.1f}"
        )


def measured(problem: ClassifierObjective) -> UtilityCost | None:
    """The cost of a training problem's ridge and noise; None for fewer than 20 training nodes.

    A fifth of the training nodes is held out, or one fifth after the other where they are few. The noise term shrinks with the
    number of the others, so that it weighs as much in their loss.
    """
    rows = np.arange(0, len(problem.S), -(-len(problem.S) // MOST))
    if rows.size < FEWEST:
        return None
    lengths = np.einsum("ij,ij->i", problem.S[rows], problem.S[rows]) * problem.s[rows] ** 2
    ridges = [problem.lam, *(share * lengths.mean() for share in RIDGES if 0 < share * lengths.mean() < problem.lam)]
    right: list[list[np.ndarray]] = [[] for _ in range(1 + len(ridges))]
    nodes = 0
    for part in range(PARTS):
        held_out, others = rows[part::PARTS], np.delete(rows, np.s_[part::PARTS])
        for hits, one in zip(right, _heads(problem, others, ridges), strict=True):
            hits.append(_right(problem, held_out, one))
        nodes += held_out.size
        if nodes >= HELD_OUT:
            break
    outcomes = [np.concatenate(hits) for hits in right]
    shares = [100 * float(hits.mean()) for hits in outcomes]
    best = 1 + int(np.argmax(shares[1:]))
    differing = int(np.count_nonzero(outcomes[best] != outcomes[0]))
    certain = shares[best] - shares[0] > ERRORS * 100 * math.sqrt(differing) / nodes
    return UtilityCost(shares[0], shares[1], shares[best], float(ridges[best - 1]), nodes, certain)


def warn_of_cost(cost: UtilityCost, *, stacklevel: int) -> None:
    """Warn of more than five points, with the remedy."""
    if cost.certain and cost.points > POINTS:
        ridge = f'a smaller lam (lam={cost.best_lam:.1g} was best; "auto" suits the features\' scale)'
        noise = 'a smaller alpha (or "auto"), or features of greater scale'
        remedy = ridge if cost.ridge >= cost.noise else noise
        warnings.warn(UtilityWarning(f"{cost.summary()}: pass {remedy}."), stacklevel=stacklevel)


def _heads(problem: ClassifierObjective, rows: np.ndarray, ridges: list[float]) -> list[np.ndarray]:
    """Coefficients trained on some rows: with ridge and noise, then without noise, with each ridge, the largest first."""
    S, s, Y = problem.S[rows], problem.s[rows], problem.Y[rows]
    B = problem.B * (rows.size / len(problem.S))
    result = [_trained(ClassifierObjective(S, s, Y, problem.loss, problem.lam, B), np.zeros_like(B))]
    W = np.zeros_like(B)
    for lam in ridges:
        W = _trained(ClassifierObjective(S, s, Y, problem.loss, lam, np.zeros_like(B)), W)
        result.append(W)
    return result


def _trained(problem: ClassifierObjective, W: np.ndarray) -> np.ndarray:
    """Optimum from W, roughly; W where rounding prevents it."""
    with threads(problem.S, W.shape[1]), suppress(SolverError):
        return problem.minimize(W, TOLERANCE * problem.evaluate(np.zeros_like(W)).residual).W
    return W


def _right(problem: ClassifierObjective, rows: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Whether each row gets its class."""
    scores, Y = problem.S[rows] @ W, problem.Y[rows]
    return (scores[:, 0] > 0) == (Y[:, 0] > 0) if W.shape[1] == 1 else scores.argmax(axis=1) == Y.argmax(axis=1)
