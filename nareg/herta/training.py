"""What training returns, and how it ended."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nareg.errors import InputError


class TrainingStatus(enum.Enum):
    """How a training ended; the text says what to do about it."""

    CONVERGED = "converged: the loss is within tol of its minimum, by all that is known"
    MAX_ITERATIONS = "not converged: max_iterations was reached; raise it, or take another optimizer or preconditioner"
    EARLY_STOP = (
        "stopped early: the validation accuracy did not rise for as long as patience says; its best weights are returned"
    )
    ZERO_LOSS = "the loss is zero: the outputs are equal to the targets to within tol, or the accuracy of the inner solves"
    SEPARABLE = (
        "the classes are separable: the loss has no minimum, its lower limit is zero and the weights grow without end; "
        "add weight_decay, or stop early by validation"
    )
    TARGET = "the loss reached stop_below, as asked for"
    STALLED = (
        "stalled above the minimum, by rounding or the accuracy of the inner solves: take a smaller inner_tol, float64, "
        "a preconditioner, or a larger tol"
    )
    DIVERGED = "diverged: the loss is not finite any more; take a smaller learning_rate"
    INTERRUPTED = "interrupted: the best weights reached so far are returned"

    @property
    def ok(self) -> bool:
        """Whether the training ended as it should."""
        return self not in (
            TrainingStatus.MAX_ITERATIONS,
            TrainingStatus.DIVERGED,
            TrainingStatus.INTERRUPTED,
            TrainingStatus.STALLED,
        )


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """A trained unfolded network ``Z* = (I + lam L)^-1 X W``.

    Attributes
    ----------
    weights : (F, C) array or tensor
        W, of the kind of the features (tensor for tensors).
    outputs : (N, C) array or tensor
        Z* at all nodes.
    losses : (T,) array
        Loss at the start, then after every iteration (pcg) or evaluation (the others); the last is computed anew from the
        returned weights.
    seconds : (T,) array
        When each was known, from the start of the call, everything built before it included.
    status : TrainingStatus
    optimizer, preconditioner : str
        What was used.
    reason : str
        Why, where it was chosen by estimated cost.
    condition : float or None
        Estimated condition number of the preconditioned Hessian at the start (Lanczos; from below).
    gap : float or None
        Estimate of how far the loss is above its minimum, ``<g, P^-1 g> / 2`` from accurate solves in double precision, with a
        preconditioner made for these weights.
    gradient_norm : float
        At the returned weights, from accurate solves.
    evaluations, hessian_products : int
        Values with gradients, and products with the Hessian.
    products : int
        Products of H with one column, in the whole run.
    validation : (T,) array or None
        Accuracy at the validation nodes along the way.
    lam : float
    timings : dict of seconds
    """

    weights: Any
    outputs: Any
    losses: np.ndarray
    seconds: np.ndarray
    status: TrainingStatus
    optimizer: str
    preconditioner: str
    reason: str
    condition: float | None
    gap: float | None
    gradient_norm: float
    evaluations: int
    hessian_products: int
    products: int
    validation: np.ndarray | None
    lam: float
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def loss(self) -> float:
        """Loss at the returned weights."""
        return float(self.losses[-1])

    def predict(self) -> Any:
        """Class of every node: its largest output.

        Raises
        ------
        InputError
            If there is a single output: it is a number, no class.
        """
        if self.outputs.shape[1] < 2:
            raise InputError("outputs have a single column, which is a number a node and no class: read result.outputs.")
        return self.outputs.argmax(1)

    def summary(self) -> str:
        """A few lines for a person."""
        gap = ", what is left to gain not known" if self.gap is None else f", about {self.gap:.1g} above the minimum"
        condition = "" if self.condition is None else f", condition number {self.condition:.3g}"
        return "\n".join(
            (
                f"{self.optimizer}: {self.status.value}",
                f"  loss {self.losses[0]:.6g} -> {self.loss:.10g}{gap}; {self.losses.size - 1} steps, {self.seconds[-1]:.3g} s",
                f"  preconditioner {self.preconditioner}{condition}",
                f"  {self.evaluations} evaluations, {self.hessian_products} Hessian products, {self.products} products",
                f"  {self.reason}" if self.reason else "  as asked for",
                "  " + ", ".join(f"{name} {seconds:.3g} s" for name, seconds in self.timings.items()),
            )
        )
