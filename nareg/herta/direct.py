"""The squared error's optimum from ``F = M H^-1 X`` at once: the baseline that every iteration has to beat.

    n_train >= d    (F^T F + weight_decay I) W = F^T Y
    n_train <  d    W = F^T A,  (F F^T + weight_decay I) A = Y,       the shortest of all optimal W

A trace of a ridge lets Cholesky pass where F is rank-deficient; iterated refinement takes it out again. Columns are scaled to
one length where that matters (see Factor); with n_train < d the shortest W is then meant in those units.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from nareg.herta.optimizers import Step
from nareg.herta.preconditioner import Factor

#: Refinements at most; each takes a product with F and one with F^T.
REFINEMENTS = 3
#: Directions in which F is shorter than this times eps are rounding.
ROUNDED = 100.0


class Direct:
    """The smaller Gram matrix of F, factorised."""

    def __init__(self, F: torch.Tensor, *, weight_decay: float) -> None:
        self.F, self.weight_decay = F, weight_decay
        self._factor = Factor(F, ridge=(ROUNDED * torch.finfo(F.dtype).eps) ** 2, weight_decay=weight_decay)

    def steps(self, Y: torch.Tensor) -> Iterator[Step]:
        """From W = 0 to the solution, then its refinements while they gain anything."""
        W = self.F.new_zeros((self.F.shape[1], Y.shape[1]))
        loss, gradient = self._evaluate(W, Y)
        before = math.inf
        for _ in range(REFINEMENTS + 1):
            if not loss < before:
                return
            change = self._factor.seen(gradient)
            # where the gap is known the gradient's size is not asked for
            yield Step(W, loss, 0.0, 0.5 * float((gradient * change).sum()))
            W, before = W - change, loss
            loss, gradient = self._evaluate(W, Y)

    def _evaluate(self, W: torch.Tensor, Y: torch.Tensor) -> tuple[float, torch.Tensor]:
        residual = self.F @ W - Y
        value = 0.5 * float((residual**2).sum()) + 0.5 * self.weight_decay * float((W * W).sum())
        return value, self.F.T @ residual + self.weight_decay * W

    def gap(self, gradient: torch.Tensor) -> float:
        """``<g, G^+ g> / 2``: how far the loss is from its minimum, from the gradient at a point."""
        return 0.5 * float((gradient * self._factor.seen(gradient)).sum())
