"""What is left to gain where an optimizer has no preconditioner that tells: asked once the gradient is small.

A small gradient proves nothing. Where features are correlated, the loss falls along directions of little curvature, in which
gradients are small from the start. The gap ``<g, H^-1 g> / 2`` takes the curvature at these weights: with weight decay it is
at most ``||g||^2 / (2 weight_decay)``, for free; else a preconditioner is made for it.
"""

from __future__ import annotations

import numpy as np
import torch

from nareg.errors import InputError
from nareg.herta._model.losses import SquaredError
from nareg.herta._precondition import build
from nareg.herta._precondition.preconditioner import TELLING, Preconditioner
from nareg.herta._train.cost_model import MEMORY
from nareg.herta._train.inputs import TrainingInputs

#: Steps of a plain method after which a preconditioner is worth while all the same: it takes as long as so many.
PLAIN = 200
#: Ratio of the true gap to its estimate with a preconditioner, at most: the smallest preconditioned eigenvalue is above 0.1.
SAFETY = 10.0


class Proof:
    """A preconditioner that is made when it is asked for: exact where the propagated features fit in memory, else of a part.

    Parameters
    ----------
    task : TrainingInputs
    rows : int
        Of a sketch.
    tol : float
        Accuracy of the inner solves.
    go_on : bool
        Whether an optimizer goes on with it once it is there.
    rng : numpy.random.Generator
    """

    def __init__(self, task: TrainingInputs, rows: int, tol: float, *, go_on: bool, rng: np.random.Generator) -> None:
        self._task, self._tol, self._go_on, self._rng = task, tol, go_on, rng
        n, d, size = task.train.numel(), task.features.shape[1], task.like.element_size()
        rows = n if n * d * size <= MEMORY else min(rows, n)
        #: None where even a sketch that sees every direction would not fit
        self._rows = rows if rows * d * size <= MEMORY and rows >= min(n, TELLING * d) else None
        self._squared: Preconditioner | None = None
        self._proving: build.WeightedGram | None = None
        self._going: build.WeightedGram | None = None
        self._steps = 0

    def __call__(self, Z: torch.Tensor) -> Preconditioner:
        """What an optimizer goes on with: nothing, until it had to be made."""
        self._steps += 1
        if self._steps > PLAIN:
            self.started()
        return Preconditioner() if self._going is None else self._going(Z)

    def started(self) -> bool:
        """Make what an optimizer goes on with; whether there is any."""
        if self._go_on and self._going is None and self._rows is not None and self._proving is None:
            self._made(self._rows)
        return self._going is not None

    @property
    def taken(self) -> bool:
        """Whether an optimizer went on with one."""
        return self._going is not None

    def anew(self, Z: torch.Tensor) -> Preconditioner:
        """One that tells the gap at these outputs; without factors where none can be made."""
        if self._rows is None:
            return Preconditioner()
        if isinstance(self._task.loss, SquaredError):
            if self._squared is None:
                self._squared = self._of_squares(self._rows)
            return self._squared
        if self._proving is None and not self._made(self._rows):
            return Preconditioner()
        assert self._proving is not None
        return self._proving.anew(Z)

    def gap(self, Z: torch.Tensor, gradient: torch.Tensor, enough: float) -> float | None:
        """How far the loss is above its minimum, where that can be told; bounds are looked at first, if they are ``enough``."""
        decay = self._task.weight_decay
        bound = float((gradient * gradient).sum()) / (2 * decay) if decay > 0 else None
        if bound is not None and bound <= enough:
            return bound
        result = self.anew(Z).gap(gradient)
        return bound if result is None else result

    def _of_squares(self, rows: int) -> Preconditioner:
        task = self._task
        try:
            return build.squared(
                task.system, task.features, task.train, rows=None if rows == task.train.numel() else rows, tight=self._tol,
                weight_decay=task.weight_decay, rng=self._rng,
            )  # fmt: skip
        except InputError:  # a sketch that does not see everything
            return Preconditioner()

    def _made(self, rows: int) -> bool:
        task, n = self._task, self._task.train.numel()
        chosen = np.arange(n) if rows == n else np.sort(self._rng.choice(n, rows, replace=False))
        part = torch.as_tensor(chosen, device=task.train.device)
        F = build.propagated(task.system, task.features, task.train[part], tight=self._tol)
        try:
            build.check_sketch(task.system, task.features, task.train, F, rng=self._rng)
        except InputError:
            self._rows = None
            return False
        kind = "exact" if rows == n else "sketched"
        # a matrix an output: what bends only a rare class is in no mean
        self._proving = build.WeightedGram(F, part, n, task.loss, weight_decay=task.weight_decay, kind=kind, by_output=True)
        if self._go_on:
            self._going = build.WeightedGram(F, part, n, task.loss, weight_decay=task.weight_decay, kind=kind, by_output=False)
        return True
