"""The squared error's optimum from ``F = M H^-1 X`` at once: the baseline that every iteration has to beat.

    n_train >= d    (F^T F + weight_decay I) W = F^T Y
    n_train <  d    W = F^T (F F^T + weight_decay I)^-1 Y,        the shortest of all optimal W

A trace of a ridge lets Cholesky pass where F is rank-deficient; iterated refinement takes it out again.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nareg.herta.optimizers import Step

#: Refinements at most; each takes a product with F and one with F^T.
REFINEMENTS = 3
#: The ridge in multiples of ``d eps ||G||``.
SAFETY = 4.0


class Direct:
    """The smaller Gram matrix of F, factorised."""

    def __init__(self, F: torch.Tensor, *, weight_decay: float) -> None:
        self.F, self.weight_decay = F, weight_decay
        self.primal = F.shape[0] >= F.shape[1]
        G = F.T @ F if self.primal else F @ F.T
        ridge = SAFETY * G.shape[0] * torch.finfo(F.dtype).eps * float(G.norm())
        G.diagonal().add_((weight_decay + ridge) or 1.0)
        self._L = torch.linalg.cholesky(G)

    def steps(self, Y: torch.Tensor) -> Iterator[Step]:
        """From W = 0 to the solution, then its refinements while they gain anything."""
        F, decay = self.F, self.weight_decay
        W, A = F.new_zeros((F.shape[1], Y.shape[1])), torch.zeros_like(Y)
        loss = 0.5 * float((Y * Y).sum())
        yield Step(W, loss)
        for _ in range(REFINEMENTS):
            residual = Y - F @ W
            if self.primal:
                W = W + torch.cholesky_solve(F.T @ residual - decay * W, self._L)
            else:
                # W = F^T A throughout; the negative gradient is F^T (residual - weight_decay A)
                A = A + torch.cholesky_solve(residual - decay * A, self._L)
                W = F.T @ A
            before, loss = loss, 0.5 * float(((Y - F @ W) ** 2).sum()) + 0.5 * decay * float((W * W).sum())
            if not loss < before:
                return
            yield Step(W, loss)

    def gap(self, gradient: torch.Tensor) -> float:
        """``<g, G^+ g> / 2``: how far the loss is from its minimum, from the gradient at a point."""
        if self.primal:
            return 0.5 * float((gradient * torch.cholesky_solve(gradient, self._L)).sum())
        # with G = F^T F = F^T K^-1 F F^T K^-1 F for K = F F^T: ||K^-1 F g||^2 on the row space of F
        return 0.5 * float((torch.cholesky_solve(self.F @ gradient, self._L) ** 2).sum())
