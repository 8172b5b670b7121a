"""What is known of the Hessian: its eigenvalues, and the distance of the loss from its minimum.

A small gradient proves nothing. Where features are correlated, the loss falls along directions of little curvature, in which
gradients are small from the start. The gap ``<g, H^-1 g> / 2`` takes the curvature at these weights. With weight decay it is at
most ``||g||^2 / (2 weight_decay)``, at no cost; otherwise a preconditioner is built for it, once the gradient is small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.linalg
import torch

from nareg._solvers import lanczos
from nareg.errors import InputError
from nareg.herta import _build as build
from nareg.herta._inputs import TrainingInputs
from nareg.herta._objective import SquaredError, TrainingProblem
from nareg.herta._plan import MEMORY
from nareg.herta._preconditioner import RANK_ROWS, Preconditioner

#: Steps of the Lanczos iteration for the ends of a spectrum.
LANCZOS = 12
#: Eigenvalues below this share of the largest are zero: features of deficient rank, or equal shifts of all softmax outputs.
FLAT = {torch.float64: 1e-6, torch.float32: 1e-3}


class Ritz:
    """Ends of the spectrum of ``P^-1 Hessian`` from the step lengths of conjugate gradients, at no cost."""

    def __init__(self) -> None:
        self._alphas: list[torch.Tensor] = []
        self._betas: list[torch.Tensor] = []
        self._longest: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])

    def add(self, alpha: torch.Tensor, beta: torch.Tensor) -> None:
        """Step lengths and updates of all outputs in one iteration."""
        self._alphas.append(alpha)
        self._betas.append(beta)

    def restart(self) -> None:
        """Start a new sequence of steps; the longest one counts."""
        if len(self._alphas) > len(self._longest[0]):
            self._longest = self._alphas, self._betas
        self._alphas, self._betas = [], []

    def condition(self) -> float | None:
        """Largest over smallest Ritz value of all outputs; None before the first iteration."""
        self.restart()
        alphas, betas = self._longest
        by_output = [torch.stack(part, 1).tolist() if part else [] for part in (alphas, betas)]  # off their device at once
        values = []
        for k in range(alphas[0].numel() if alphas else 0):
            alpha = by_output[0][k]
            steps = next((i for i, a in enumerate(alpha) if a <= 0), len(alpha))
            if steps == 0:
                continue
            beta = by_output[1][k][: steps - 1]
            diagonal = [1 / alpha[0]] + [1 / alpha[i] + beta[i - 1] / alpha[i - 1] for i in range(1, steps)]
            off = [math.sqrt(b) / a for a, b in zip(alpha, beta, strict=False)]
            values.append(scipy.linalg.eigvalsh_tridiagonal(diagonal, off))
        return float(np.concatenate(values).max() / np.concatenate(values).min()) if values else None


def spectrum(
    problem: TrainingProblem, Z: torch.Tensor, preconditioner: Preconditioner, *, generator: torch.Generator
) -> np.ndarray:
    """Ritz values of ``R^T Hessian R`` above zero, after Lanczos steps from a random start."""
    shape = (problem.n_features, problem.loss.n_outputs)
    v = torch.randn(shape, generator=generator, dtype=torch.float64, device=generator.device).to(Z.device)

    def product(u: torch.Tensor) -> torch.Tensor:
        return preconditioner.root_transposed(problem.hessian(Z, preconditioner.root(u).to(Z.dtype)).double())

    values = lanczos.ritz_values(product, v, min(LANCZOS, v.numel()))
    return values[values > FLAT[Z.dtype] * values.max()]


#: Steps of a plain method that take as long as building a preconditioner, which is worthwhile after them.
PATIENCE = 200
#: Ratio of the true gap to its estimate with a preconditioner, at most: the smallest preconditioned eigenvalue is above 0.1.
SAFETY = 10.0
#: Conjugate gradients of a Newton decrement end when a step adds less than this share, or after so many.
SETTLED, MOST_STEPS = 0.03, 50


def newton_decrement(gradient: torch.Tensor, P: Preconditioner, hessian: Callable[[torch.Tensor], torch.Tensor]) -> float:
    """``<g, H^-1 g> / 2`` by conjugate gradients, preconditioned by P.

    Where classes are nearly certain P, with one weight per node, is no close bound of H, which couples them. The sum approaches
    the decrement from below.
    """
    R, total = gradient, 0.0
    U = D = P.solve(R)
    ru = float((R * U).sum())
    for _ in range(MOST_STEPS):
        Q = hessian(D)
        curvature = float((D * Q).sum())
        if not (ru > 0 and curvature > 0):
            break
        alpha = ru / curvature
        total += 0.5 * alpha * ru
        if 0.5 * alpha * ru <= SETTLED * total:
            break
        R = R - alpha * Q
        U, before = P.solve(R), ru
        ru = float((R * U).sum())
        D = U + (ru / before) * D
    return total


class GapEstimator:
    """A preconditioner that is built when it is needed: exact where the propagated features fit in memory, else sketched.

    Parameters
    ----------
    task : TrainingInputs
    rows : int
        Of a sketch.
    tol : float
        Accuracy of the inner solves.
    continues : bool
        Whether an optimizer continues with it once it is built.
    rng : numpy.random.Generator
    """

    def __init__(self, task: TrainingInputs, rows: int, tol: float, *, continues: bool, rng: np.random.Generator) -> None:
        self._task, self._tol, self._continues, self._rng = task, tol, continues, rng
        n, d, size = task.train.numel(), task.features.shape[1], task.features.itemsize
        rows = n if n * d * size <= MEMORY else min(rows, n)
        #: None where a sketch of the features' rank does not fit
        self._rows = rows if rows * d * size <= MEMORY and rows >= min(n, RANK_ROWS * d) else None
        self._squared: Preconditioner | None = None
        self._by_output: build.WeightedGram | None = None
        self._common: build.WeightedGram | None = None
        self._steps = 0

    def __call__(self, Z: torch.Tensor) -> Preconditioner:
        """The preconditioner of the next step: none, until one had to be built."""
        self._steps += 1
        if self._steps > PATIENCE:
            self.start()
        return Preconditioner() if self._common is None else self._common(Z)

    def start(self) -> bool:
        """Build the preconditioner that an optimizer continues with; whether there is one."""
        if self._continues and self._by_output is None:
            self._build()
        return self.used

    @property
    def used(self) -> bool:
        """Whether an optimizer continued with it."""
        return self._common is not None

    def up_to_date(self, Z: torch.Tensor) -> Preconditioner:
        """One for the gap at these outputs; without factors where none can be built."""
        if self._rows is not None and isinstance(self._task.loss, SquaredError):
            if self._squared is None:
                self._squared = self._of_squared_error(self._rows)
            return self._squared
        if self._by_output is None:
            self._build()
        return Preconditioner() if self._by_output is None else self._by_output.up_to_date(Z)

    def gap(self, Z: torch.Tensor, gradient: torch.Tensor, enough: float) -> float | None:
        """Distance of the loss from its minimum, or None; the bound by weight decay, if it is at most ``enough``."""
        decay = self._task.weight_decay
        bound = float((gradient * gradient).sum()) / (2 * decay) if decay > 0 else None
        if bound is not None and bound <= enough:
            return bound
        result = self.up_to_date(Z).gap(gradient)
        return bound if result is None else result

    def _of_squared_error(self, rows: int) -> Preconditioner:
        task = self._task
        try:
            return build.squared(
                task.system, task.features, task.train, rows=None if rows == task.train.numel() else rows, tight=self._tol,
                weight_decay=task.weight_decay, rng=self._rng,
            )  # fmt: skip
        except InputError:  # a sketch of too low a rank
            return Preconditioner()

    def _build(self) -> None:
        task, n, rows = self._task, self._task.train.numel(), self._rows
        if rows is None:
            return
        chosen = np.arange(n) if rows == n else np.sort(self._rng.choice(n, rows, replace=False))
        part = torch.as_tensor(chosen, device=task.train.device)
        F = build.propagated(task.system, task.features, task.train[part], tight=self._tol)
        try:
            build.check_sketch(task.system, task.features, task.train, F, rng=self._rng)
        except InputError:
            self._rows = None
            return
        weighted = partial(
            build.WeightedGram, F, part, n, task.loss, weight_decay=task.weight_decay, kind="exact" if rows == n else "sketched"
        )
        # a matrix per output: the mean misses curvature of a rare class only
        self._by_output = weighted(by_output=True)
        if self._continues:
            self._common = weighted(by_output=False)
