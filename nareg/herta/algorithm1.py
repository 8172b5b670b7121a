"""HERTA's Algorithm 1, step by step: as printed, and with its mistakes corrected.

    L~ <- Sparsify(L);  Q <- (I + lam L~)^-1 X;  P <- SRHT(Q)^T SRHT(Q);  gradient descent on W' = P^1/2 W

As printed, targets and the first of the two solves of a gradient use L~, so that it descends towards another optimum; its P
knows nothing of a training mask; and it returns W' in place of ``W = P^-1/2 W'``. Corrected, L~ is for P only, P is of the
training rows, and W is returned. Both are for the squared error; both return W here.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from nareg.gnn.adjacency import as_adjacency
from nareg.herta.hadamard import SRHT
from nareg.herta.preconditioner import TOLERANCE, Factor, Preconditioner
from nareg.herta.problem import Problem
from nareg.herta.sparsifier import sparsify
from nareg.herta.system import System
from nareg.herta.task import Task
from nareg.herta.unfolded import Implicit, sketched

#: Draws of the sparsifier a edge: with the constants of the proofs nothing would be left out of any graph.
DRAWS = 4


class _AsPrinted(Problem):
    """Residuals of the sparsified system, pulled back through the true one; the loss that is told is the true one."""

    def __init__(self, sparse: Implicit, true: Implicit, *told: object, **more: object) -> None:
        super().__init__(true, *told, **more)  # type: ignore[arg-type]
        self._sparse = sparse

    def evaluate(self, W: torch.Tensor) -> tuple[float, torch.Tensor, torch.Tensor]:
        """True value, printed gradient, true outputs."""
        self.evaluations += 1
        Z = self.model.apply(W, self.tol, again=True)
        pulled = self.model.adjoint(self.loss.gradient(self._sparse.apply(W, self.tol, again=True)), self.tol, again=True)
        value = self.loss.value(Z) + 0.5 * self.weight_decay * float((W * W).sum())
        return value, pulled + self.weight_decay * W, Z


def prepare(task: Task, *, rows: int, tol: float, printed: bool, rng: np.random.Generator) -> tuple[Problem, Preconditioner]:
    """The problem that gradient descent is run on, and P."""
    began = time.perf_counter()
    X, lam, like = task.features, task.system.lam, task.like
    system = task.system
    if lam > 0:
        adjacency = as_adjacency(task.graph, system.n_nodes)
        edges = DRAWS * max(adjacency.raw.nnz // 2, 1)
        found = sparsify(adjacency, lam=lam, epsilon=0.5, rng=rng, kind=task.kind, draws=edges, measure=False)
        system = System(found.laplacian, lam, dtype=like.dtype, device=like.device)
    nodes = torch.arange(system.n_nodes, device=like.device) if printed else task.train
    sketch = SRHT(nodes.numel(), min(rows, SRHT.most(nodes.numel())), rng=rng)
    Q = sketched(system, X, nodes, sketch, tol=TOLERANCE)
    P = Preconditioner([Factor(Q, weight_decay=task.weight_decay)], "algorithm-1", Q.shape[0], time.perf_counter() - began)
    true = Implicit(task.system, X, task.train)
    told = {"weight_decay": task.weight_decay, "tol": tol}
    if printed:
        return _AsPrinted(Implicit(system, X, task.train), true, task.loss, X.shape[1], **told), P
    return Problem(true, task.loss, X.shape[1], **told), P
