"""HERTA's Algorithm 1, step by step: as printed, and with its mistakes corrected, on nareg's trainer.

    L~ <- Sparsify(L);  Q <- (I + lam L~)^-1 X;  P <- SRHT(Q)^T SRHT(Q);  gradient descent on W' = P^1/2 W

As printed, targets and the first of the two solves of a gradient use L~, so that it descends towards another optimum. Its P
ignores the training mask, and it returns W' instead of ``W = P^-1/2 W'``. Corrected, L~ is for P only, P is of the training
rows, and W is returned. Both are for the squared error, and both return W here.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from experiments._sparsifier import sparsify
from nareg._core import checks
from nareg.errors import InputError
from nareg.gnn.adjacency import GraphInput, as_adjacency
from nareg.herta._build import SRHT, check_sketch
from nareg.herta._features import Matrix, Nodes
from nareg.herta._inputs import TrainingInputs, read
from nareg.herta._loop import run
from nareg.herta._method import TrainingMethod
from nareg.herta._objective import Implicit, TrainingProblem, sketched
from nareg.herta._options import Optimizer, Regularized, Sketched, Unfolding
from nareg.herta._plan import Plan, choose_accuracy
from nareg.herta._preconditioner import TOLERANCE, GramFactor, Preconditioner
from nareg.herta._result import TrainingResult, report
from nareg.herta._system import System
from nareg.progress import ProgressCallback

#: Draws of the sparsifier per edge. With the constants of the proofs no graph would lose an edge.
DRAWS = 4


class _Sparsified(TrainingProblem):
    """The problem with a sparsified system beside the true one, and the true loss.

    As printed, residuals are the sparsified system's, pulled back through the true one.
    """

    def __init__(self, task: TrainingInputs, sparse: System, tol: float, *, printed: bool) -> None:
        true = Implicit(task.system, task.features, task.train)
        super().__init__(true, task.loss, task.features, weight_decay=task.weight_decay, tol=tol)
        self.sparse, self._printed = Implicit(sparse, task.features, task.train), printed

    def evaluate(self, W: torch.Tensor) -> tuple[float, torch.Tensor, torch.Tensor]:
        """As printed, the gradient is that of the sparsified system's outputs."""
        if not self._printed:
            return super().evaluate(W)
        value, Z = self.value(W)
        residual = self.loss.gradient(self.sparse.apply(W, self.tol, warm_start=True))
        return value, self.model.adjoint(residual, self.tol, warm_start=True) + self.weight_decay * W, Z


def prepare(
    task: TrainingInputs, *, rows: int, tol: float, printed: bool, rng: np.random.Generator
) -> tuple[_Sparsified, Preconditioner]:
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


class _Method(TrainingMethod):
    """Algorithm 1 in the place of a method that is chosen."""

    def _prepare(self, preconditioner: str | Preconditioner) -> None:
        printed, tol = self.plan.optimizer.endswith("as-printed"), self.accuracy.inner_tol
        self.problem, self.preconditioner = prepare(self.task, rows=self.accuracy.rows, tol=tol, printed=printed, rng=self._rng)


def fit(
    graph: GraphInput,
    features: Matrix,
    targets: Matrix,
    *,
    printed: bool = False,
    lam: float | Unfolding = 1.0,
    train: Nodes | None = None,
    loss: str | Regularized = "mse",
    optimizer: str | Optimizer = "gd",
    preconditioner: str | Sketched = "auto",
    rng: np.random.Generator | None = None,
    progress: ProgressCallback | None = None,
    **place: Any,
) -> TrainingResult:
    """:func:`nareg.herta.fit` by Algorithm 1, corrected or as printed: settings of ``optimizer`` count, its name does not."""
    clock = time.perf_counter()
    unfolding = lam if isinstance(lam, Unfolding) else Unfolding(lam)
    objective = loss if isinstance(loss, Regularized) else Regularized(loss)
    options = optimizer if isinstance(optimizer, Optimizer) else Optimizer(optimizer)
    name = "algorithm-1-as-printed" if printed else "algorithm-1"
    if unfolding.kind == "operator":
        raise InputError(f"optimizer={name!r} drops edges, but kind='operator' has none: take 'pcg'.")
    if objective.loss != "mse" or options.dropout:
        raise InputError(f"optimizer={name!r} is for loss='mse' without dropout: take herta.fit for others.")
    rng = checks.generator(rng)
    task = read(graph, features, targets, unfolding, objective, train=train, **place)
    sketch = preconditioner if isinstance(preconditioner, Sketched) else Sketched()
    accuracy = choose_accuracy(task, options, sketch)
    validation = None if options.validation is None else task.accuracy_at(options.validation, accuracy.inner_tol)
    checked = time.perf_counter()
    method = _Method(task, Plan(name, "sketched", False), accuracy, options, "auto", rng=rng)
    built = time.perf_counter()
    curve = run(method, validation=validation, clock=clock, progress=progress)
    timings = {"checks": checked - clock, "build": built - checked, "steps": time.perf_counter() - built}
    result = report(method, curve, timings)
    assert isinstance(method.problem, _Sparsified)
    return replace(result, rank=None, products=result.products + method.problem.sparse.system.products)
