"""Build preconditioners from solves: of the squared error once, of cross-entropy again and again."""

from __future__ import annotations

import math
import time

import numpy as np
import torch

from nareg.errors import InputError
from nareg.herta._model.features import Features
from nareg.herta._model.losses import TrainingLoss
from nareg.herta._model.system import System
from nareg.herta._model.unfolded import form, sketched
from nareg.herta._precondition.hadamard import SRHT
from nareg.herta._precondition.preconditioner import RIDGE, TOLERANCE, GramFactor, Preconditioner, inverse_or_one

#: Condition numbers of H above this ask for preconditioners from better solves.
WIDE = 100.0
#: A weighted preconditioner is made anew when its weights have changed by more than this share.
STALE = 0.2
#: Weights that have each changed by less than this share leave what a preconditioner says of the gap as it is.
SAME = 0.1
#: Without weight decay, once the weights have fallen to this share of their first sum it is kept as it is: nearly all nodes are
#: told apart, and what is left of the loss goes down faster along long steps of L-BFGS than by Newton's, which take off a
#: constant share each. (Cora, separable, lam = 20, to 1e-6 of the start: 184 evaluations if renewed to the end, 35 if not.)
VANISHED = 0.1
#: A direction that a sketch sees has at least this share of the ridge left in it, squared.
WELL_BELOW = 1e-2


def propagated(system: System, features: Features, train: torch.Tensor, *, tight: float) -> torch.Tensor:
    """``F = M H^-1 X``, accurate enough for a preconditioner.

    All rows of a polynomial in H times X have the row space of X, however rough the polynomial; of fewer rows than columns the
    row space is only as good as the rows, and outside it the preconditioner is next to singular: those are solved for tightly.
    """
    return form(system, features, train, tol=rough(system) if train.numel() >= features.shape[1] else tight)


def rough(system: System) -> float:
    """Accuracy of the solves behind a preconditioner: that of what they leave of X, which is little where lam is large."""
    return TOLERANCE / max(1.0, system.conditioning / WIDE) ** 0.5


def squared(
    system: System,
    features: Features,
    train: torch.Tensor,
    *,
    rows: int | None,
    tight: float,
    weight_decay: float,
    rng: np.random.Generator,
) -> Preconditioner:
    """``P ~ F^T F`` from all rows of F, or from a sketch of so many rows, in which case F is not held."""
    began = time.perf_counter()
    n_train = train.numel()
    if rows is None or rows >= n_train:
        Q = propagated(system, features, train, tight=tight)
    else:
        Q = sketched(system, features, train, SRHT(n_train, rows, rng=rng), tol=rough(system))
        check_sketch(system, features, train, Q, rng=rng)
    kind = "exact" if rows is None else "sketched"
    return Preconditioner([GramFactor(Q, weight_decay=weight_decay)], kind, Q.shape[0], time.perf_counter() - began)


class WeightedGram:
    """``F^T diag(curvature[:, k]) F`` for every output k, or for their mean curvature, kept up to date.

    The former are the diagonal blocks of cross-entropy's Hessian (HERTA D.11, summed over nodes). One matrix takes a C-th of
    the time and up to three times the evaluations (Pubmed, lam = 1, to 1e-6: 16 in 4.2 s, 55 in 3.2 s), or no more of them
    (a problem with 40 classes: 102 and 74). From all rows of F or from some, chosen at random and weighted accordingly.
    """

    def __init__(
        self,
        F: torch.Tensor,
        part: torch.Tensor,
        n_train: int,
        loss: TrainingLoss,
        *,
        weight_decay: float,
        kind: str,
        by_output: bool,
    ) -> None:
        self._F, self._part, self._loss = F * math.sqrt(n_train / part.numel()), part, loss
        self._weight_decay, self._kind, self._by_output = weight_decay, kind, by_output
        self._at: torch.Tensor | None = None
        self._first = 0.0
        self.current = Preconditioner()

    def __call__(self, Z: torch.Tensor) -> Preconditioner:
        """A preconditioner that is good enough to go on with at these outputs."""
        now = self._loss.curvature(Z[self._part])
        if self._at is None:
            self._first = float(now.sum())
        elif not self._stale(now, self._at):
            return self.current
        return self._made(now)

    def started(self) -> bool:
        """It is there from the beginning."""
        return True

    def anew(self, Z: torch.Tensor) -> Preconditioner:
        """One that tells the gap at these outputs: made for them, or for weights that are all next to theirs.

        Weights of a few nodes may have vanished long before the sum of all has changed: along directions that only these bend,
        an old one is far too large.
        """
        now = self._loss.curvature(Z[self._part])
        if self._at is not None and bool(((now - self._at).abs() <= SAME * self._at).all()):
            return self.current
        return self._made(now)

    def _made(self, now: torch.Tensor) -> Preconditioner:
        began = time.perf_counter()
        self._at = now
        # at W = 0 all outputs have the same weights
        alike = not self._by_output or not bool((now != now[:, :1]).any())
        different = now.mean(dim=1, keepdim=True) if alike else now
        factors = [GramFactor(self._F * column[:, None].sqrt(), weight_decay=self._weight_decay) for column in different.T]
        self.current = Preconditioner(factors, self._kind, self._F.shape[0], time.perf_counter() - began)
        return self.current

    def _stale(self, now: torch.Tensor, then: torch.Tensor) -> bool:
        changed = float((now - then).abs().sum()) > STALE * float(then.sum())
        return changed and (self._weight_decay > 0 or float(now.sum()) > VANISHED * self._first)


def check_sketch(system: System, features: Features, train: torch.Tensor, Q: torch.Tensor, *, rng: np.random.Generator) -> None:
    """Refuse a sketch Q that does not see every direction of ``F = M H^-1 X``: what it does not see stays unreachable.

    Its rank is compared with that of a sketch of twice as many rows as F can have rank, which costs as many solves as Q did.
    Directions that the ridge is longer than do not count, as in a preconditioner. (A Hadamard sketch may see one less than it
    has rows, which is why these are not counted.)
    """
    size, n_train = Q.shape[0], train.numel()
    limit = min(n_train, features.shape[1])
    if size >= limit:
        return
    enough = SRHT(n_train, min(2 * limit, SRHT.most(n_train)), rng=rng)
    ridge = RIDGE[Q.dtype]
    rank = _directions(sketched(system, features, train, enough, tol=rough(system)), ridge)
    seen = _directions(Q, WELL_BELOW * ridge)
    if seen < rank:
        raise InputError(
            f"the sketch has {size} rows but the propagated features have rank {rank}, of which such a sketch sees {seen}: "
            f"take Sketched(rows) with rows of at least {2 * rank}, or the exact preconditioner."
        )


def _directions(Q: torch.Tensor, shortest: float) -> int:
    """How many of them Q has, its columns scaled to one length, that are longer than the root of ``shortest``."""
    Q = Q.double()
    Q = Q * inverse_or_one((Q * Q).sum(0).sqrt())
    return int((torch.linalg.eigvalsh(Q @ Q.T if Q.shape[0] < Q.shape[1] else Q.T @ Q) > shortest).sum())
