"""Build preconditioners from solves: of the squared error once, of cross-entropy repeatedly."""

from __future__ import annotations

import math

import numpy as np
import torch

from nareg._core import checks
from nareg.errors import InputError
from nareg.herta._features import Features
from nareg.herta._objective import TrainingLoss, form, sketched
from nareg.herta._preconditioner import RIDGE, TOLERANCE, GramFactor, Preconditioner, inverse_or_one
from nareg.herta._system import System

#: Condition number of H above which preconditioners take more accurate solves.
WELL_CONDITIONED = 100.0
#: Change of the weights, as a share of their sum, above which a weighted preconditioner is renewed.
STALE = 0.2
#: Relative change of each weight below which a preconditioner still estimates the gap.
SAME = 0.1
#: Share of their first sum below which weights no longer renew a preconditioner, without weight decay. Nearly all nodes are
#: separated then, and long steps of L-BFGS lower the loss faster than Newton's, which take off a constant share each.
#: (Cora, separable, lam = 20, to 1e-6 of the start: 184 evaluations if renewed to the end, 35 if not.)
VANISHED = 0.1
#: Squared singular value above which a sketch sees a direction, as a share of the ridge.
WELL_BELOW = 1e-2


def propagated(system: System, features: Features, train: torch.Tensor, *, tight: float) -> torch.Tensor:
    """``F = M H^-1 X``, accurate enough for a preconditioner.

    All rows of a polynomial in H times X have the row space of X, however rough the polynomial. Fewer rows than columns are
    solved tightly: their row space is only as accurate as they are, and outside it the preconditioner is nearly singular.
    """
    return form(system, features, train, tol=loose_tolerance(system) if train.numel() >= features.shape[1] else tight)


def loose_tolerance(system: System) -> float:
    """Accuracy of the solves behind a preconditioner, relative to the solution, which is small where lam is large."""
    return TOLERANCE / max(1.0, system.condition_bound / WELL_CONDITIONED) ** 0.5


def squared(
    system: System, features: Features, train: torch.Tensor, *,
    rows: int | None, tight: float, weight_decay: float, rng: np.random.Generator,
) -> Preconditioner:  # fmt: skip
    """``P ~ F^T F`` from all rows of F, or from a sketch of so many rows, for which F is not stored."""
    n_train = train.numel()
    if rows is None or rows >= n_train:
        Q = propagated(system, features, train, tight=tight)
    else:
        Q = sketched(system, features, train, SRHT(n_train, rows, rng=rng), tol=loose_tolerance(system))
        check_sketch(system, features, train, Q, rng=rng)
    return Preconditioner([GramFactor(Q, weight_decay=weight_decay)], "exact" if rows is None else "sketched", Q.shape[0])


class WeightedGram:
    """``F^T diag(curvature[:, k]) F`` for every output k, or for their mean curvature, renewed as the outputs change.

    The former are the diagonal blocks of cross-entropy's Hessian (HERTA D.11, summed over nodes). One matrix takes a C-th of
    the time and up to three times the evaluations (Pubmed, lam = 1, to 1e-6: 16 in 4.2 s, 55 in 3.2 s), or fewer (a problem
    with 40 classes: 102 and 74). F has all training rows, or a random part of them that is weighted accordingly.
    """

    def __init__(
        self, F: torch.Tensor, part: torch.Tensor, n_train: int, loss: TrainingLoss, *,
        weight_decay: float, kind: str, by_output: bool,
    ) -> None:  # fmt: skip
        self._F, self._part, self._loss = F * math.sqrt(n_train / part.numel()), part, loss
        self._weight_decay, self._kind, self._by_output = weight_decay, kind, by_output
        self._weights: torch.Tensor | None = None
        self._first_sum = 0.0
        self._current = Preconditioner()

    def __call__(self, Z: torch.Tensor) -> Preconditioner:
        """A preconditioner that is accurate enough for the next steps from these outputs."""
        weights = self._loss.curvature(Z[self._part])
        if self._weights is None:
            self._first_sum = float(weights.sum())
        elif not self._stale(weights, self._weights):
            return self._current
        return self._build(weights)

    def start(self) -> bool:
        """There is one from the beginning."""
        return True

    def up_to_date(self, Z: torch.Tensor) -> Preconditioner:
        """One that estimates the gap at these outputs: no weight is far from theirs.

        Weights of a few nodes may vanish long before the sum changes. Along directions that only these nodes curve, an old
        preconditioner is far too large.
        """
        weights = self._loss.curvature(Z[self._part])
        if self._weights is not None and bool(((weights - self._weights).abs() <= SAME * self._weights).all()):
            return self._current
        return self._build(weights)

    def _build(self, weights: torch.Tensor) -> Preconditioner:
        self._weights = weights
        # at W = 0 all outputs have the same weights
        equal = not self._by_output or not bool((weights != weights[:, :1]).any())
        columns = (weights.mean(dim=1, keepdim=True) if equal else weights).T
        factors = [GramFactor(self._F * column[:, None].sqrt(), weight_decay=self._weight_decay) for column in columns]
        self._current = Preconditioner(factors, self._kind, self._F.shape[0])
        return self._current

    def _stale(self, weights: torch.Tensor, before: torch.Tensor) -> bool:
        changed = float((weights - before).abs().sum()) > STALE * float(before.sum())
        return changed and (self._weight_decay > 0 or float(weights.sum()) > VANISHED * self._first_sum)


def check_sketch(system: System, features: Features, train: torch.Tensor, Q: torch.Tensor, *, rng: np.random.Generator) -> None:
    """Refuse a sketch Q of lower rank than ``F = M H^-1 X``: the missing directions stay unreachable.

    Its rank is compared with that of a sketch of twice as many rows as F can have rank, which takes as many solves as Q did.
    Directions shorter than the ridge do not count, as in a preconditioner. The rows of Q are not counted, because a Hadamard
    sketch may have a rank below their number.
    """
    size, n_train = Q.shape[0], train.numel()
    limit = min(n_train, features.shape[1])
    if size >= limit:
        return
    reference = SRHT(n_train, min(2 * limit, SRHT.max_size(n_train)), rng=rng)
    ridge = RIDGE[Q.dtype]
    rank = _rank(sketched(system, features, train, reference, tol=loose_tolerance(system)), ridge)
    sketch_rank = _rank(Q, WELL_BELOW * ridge)
    if sketch_rank < rank:
        raise InputError(
            f"the sketch has {size} rows but the propagated features have rank {rank}, of which such a sketch sees "
            f"{sketch_rank}: take Sketched(rows) with rows of at least {2 * rank}, or the exact preconditioner."
        )


def _rank(Q: torch.Tensor, smallest: float) -> int:
    """Number of singular values of Q, its columns scaled to one length, whose square is above ``smallest``."""
    Q = Q.double()
    Q = Q * inverse_or_one((Q * Q).sum(0).sqrt())
    return int((torch.linalg.eigvalsh(Q @ Q.T if Q.shape[0] < Q.shape[1] else Q.T @ Q) > smallest).sum())


def transform(Q: torch.Tensor) -> torch.Tensor:
    """Orthonormal Walsh-Hadamard transform of the columns of an (m, ...) tensor, m a power of two.

    Takes ``m log2(m)`` additions per column. Transforming twice gives Q.

    Raises
    ------
    InputError
        If m is not a power of two.

    Examples
    --------
    >>> import torch
    >>> from nareg.herta._build import transform
    >>> transform(torch.tensor([1.0, 0.0, 0.0, 0.0])).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    m = Q.shape[0]
    if m == 0 or m & (m - 1):
        raise InputError(f"Q has {m} rows: the transform needs a power of two; append rows of zeros.")
    out = Q * (1 / np.sqrt(m))
    half = 1
    while half < m:
        pairs = out.reshape(m // (2 * half), 2, half, *Q.shape[1:])
        top, bottom = pairs[:, 0], pairs[:, 1]
        # in place: (a, b) <- (a + b, a - b) as a <- a + b, b <- a - 2 b
        top += bottom
        bottom *= -2
        bottom += top
        half *= 2
    return out


class SRHT:
    """A fixed subsampled randomized Hadamard transform of rows.

    Parameters
    ----------
    n_rows : int
        Rows of the matrix to sketch.
    size : int
        Rows of the sketch, s; at most the next power of two above ``n_rows``.
    rng : numpy.random.Generator

    Examples
    --------
    >>> import numpy as np, torch
    >>> from nareg.herta._build import SRHT
    >>> rng = np.random.default_rng(0)
    >>> Q = torch.as_tensor(rng.standard_normal((1000, 3)))
    >>> sketch = SRHT(1000, 200, rng=rng)(Q)
    >>> tuple(sketch.shape), bool((sketch.T @ sketch - Q.T @ Q).norm() < 0.3 * (Q.T @ Q).norm())
    ((200, 3), True)
    """

    def __init__(self, n_rows: int, size: int, *, rng: np.random.Generator) -> None:
        n_rows, size = checks.integer("n_rows", n_rows, low=1), checks.integer("size", size, low=1)
        rng = checks.generator(rng)
        self.length = self.max_size(n_rows)
        if size > self.length:
            raise InputError(f"size is {size}, but a sketch of {n_rows} rows has at most {self.length}: pass a smaller size.")
        self.signs = rng.choice([-1.0, 1.0], n_rows)
        self.rows = np.sort(rng.choice(self.length, size, replace=False))

    @staticmethod
    def max_size(n_rows: int) -> int:
        """The next power of two: the most rows of a sketch."""
        return 1 << (n_rows - 1).bit_length()

    def __call__(self, Q: torch.Tensor) -> torch.Tensor:
        """Sketch of an (n_rows, F) tensor: (size, F), of its dtype."""
        n, scale = self.signs.size, np.sqrt(self.length / self.rows.size)
        if Q.shape[0] != n:
            raise InputError(f"Q has {Q.shape[0]} rows, but this sketch is for {n}: make one for Q.")
        padded = Q.new_zeros((self.length, *Q.shape[1:]))
        padded[:n] = Q * torch.as_tensor(self.signs, dtype=Q.dtype, device=Q.device)[:, None]
        return transform(padded)[torch.as_tensor(self.rows, device=Q.device)] * float(scale)
