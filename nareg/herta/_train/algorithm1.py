"""HERTA's Algorithm 1, step by step: as printed, and with its mistakes corrected.

    L~ <- Sparsify(L);  Q <- (I + lam L~)^-1 X;  P <- SRHT(Q)^T SRHT(Q);  gradient descent on W' = P^1/2 W

As printed, targets and the first of the two solves of a gradient use L~, so that it descends towards another optimum. Its P
ignores the training mask, and it returns W' instead of ``W = P^-1/2 W'``. Corrected, L~ is for P only, P is of the training
rows, and W is returned. Both are for the squared error, and both return W here.
"""

from __future__ import annotations

import numpy as np
import torch

from nareg.gnn.adjacency import as_adjacency
from nareg.herta._model.system import System
from nareg.herta._model.unfolded import Implicit, sketched
from nareg.herta._precondition.build import check_sketch
from nareg.herta._precondition.hadamard import SRHT
from nareg.herta._precondition.preconditioner import TOLERANCE, GramFactor, Preconditioner
from nareg.herta._precondition.sparsifier import sparsify
from nareg.herta._train.inputs import TrainingInputs
from nareg.herta._train.objective import TrainingProblem

#: Draws of the sparsifier per edge. With the constants of the proofs no graph would lose an edge.
DRAWS = 4


class _Sparsified(TrainingProblem):
    """The problem with a sparsified system beside the true one, and the true loss.

    As printed, residuals are the sparsified system's, pulled back through the true one.
    """

    def __init__(self, task: TrainingInputs, sparse: System, tol: float, *, printed: bool) -> None:
        true = Implicit(task.system, task.features, task.train)
        super().__init__(true, task.loss, task.features, weight_decay=task.weight_decay, tol=tol)
        self._sparse, self._printed = Implicit(sparse, task.features, task.train), printed

    @property
    def other_products(self) -> int:
        """Products with the sparsified system."""
        return self._sparse.system.products

    def _outputs_of_gradient(self, W: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
        return self._sparse.apply(W, self.tol, warm_start=True) if self._printed else Z


def prepare(
    task: TrainingInputs, *, rows: int, tol: float, printed: bool, rng: np.random.Generator
) -> tuple[TrainingProblem, Preconditioner]:
    """The problem for gradient descent, and P."""
    X, lam, like, L = task.features, task.system.lam, task.like, task.system.laplacian
    if lam > 0:
        adjacency = as_adjacency(task.graph, task.system.n_nodes)
        draws = DRAWS * max(adjacency.raw.nnz // 2, 1)
        L = sparsify(adjacency, lam=lam, epsilon=0.5, rng=rng, kind=task.kind, draws=draws, measure=False).laplacian
    given = task.system  # dropped edges leave the null vector of L as it is
    system = System(L, lam, dtype=like.dtype, device=like.device, scale=given.scale, solver=given.solver)
    nodes = torch.arange(system.n_nodes, device=like.device) if printed else task.train
    sketch = SRHT(nodes.numel(), min(rows, SRHT.max_size(nodes.numel())), rng=rng)
    Q = sketched(system, X, nodes, sketch, tol=TOLERANCE)
    check_sketch(system, X, nodes, Q, rng=rng)
    P = Preconditioner([GramFactor(Q, weight_decay=task.weight_decay)], "algorithm-1", Q.shape[0])
    return _Sparsified(task, system, tol, printed=printed), P
