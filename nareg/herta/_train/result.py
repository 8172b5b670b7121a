"""What training returns, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nareg.errors import InputError
from nareg.results import Status


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """A trained unfolded network ``Z* = (I + lam L)^-1 X W``.

    Attributes
    ----------
    weights : (F, C) array or tensor
        W, of the kind of the features (tensor for tensors).
    outputs : (N, C) array or tensor
        Z* at all nodes.
    loss : float
        At the returned weights, from accurate solves in double precision.
    losses : (T,) array
        Loss at the start, then after every iteration (pcg) or evaluation (the others), as training saw it; where the last
        weights are those returned, the last is ``loss``.
    seconds : (T,) array
        When each was known, from the start of the call, everything built before it included.
    status : Status
    optimizer, preconditioner : str
        What was used.
    reason : str
        Why, where it was chosen by estimated cost.
    condition : float or None
        Estimated condition number of the preconditioned Hessian at the start (Lanczos; from below).
    gap : float or None
        Estimate of how far the loss is above its minimum, ``<g, P^-1 g> / 2`` from accurate solves in double precision, with a
        preconditioner made for these weights. Runs without one make one before they are called converged; None where none
        was made.
    gradient_norm : float
        At the returned weights, from accurate solves.
    rank : int or None
        Of the features as a preconditioner sees them, the propagated ones at the training nodes: directions longer than the
        root of the ridge. Where it is below F more than one W has this loss. None where no Gram matrix of them was factorized,
        and with weight decay, with which there is one W.
    evaluations, hessian_products : int
        Values with gradients, and products with the Hessian.
    products : int
        Products of H with one column, in the whole run.
    validation : (T,) array or None
        Accuracy at the validation nodes along the way.
    lam : float
    timings : dict of seconds

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg import herta
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 10))
    >>> X[:, 9] = X[:, 0] + X[:, 1]
    >>> result = herta.fit(nareg.graphs.grid((20, 20)), X, rng.integers(0, 3, 400), lam=2.0)
    >>> result.status.ok, result.rank, result.weights.shape, result.outputs.shape, result.losses.size == result.seconds.size
    (True, 9, (10, 3), (400, 3), True)
    """

    weights: Any
    outputs: Any
    loss: float
    losses: np.ndarray
    seconds: np.ndarray
    status: Status
    optimizer: str
    preconditioner: str
    reason: str
    condition: float | None
    gap: float | None
    gradient_norm: float
    rank: int | None
    evaluations: int
    hessian_products: int
    products: int
    validation: np.ndarray | None
    lam: float
    timings: dict[str, float] = field(default_factory=dict)

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
        d = self.weights.shape[0]
        unsure = self.rank is not None and self.rank < d
        rank = f"; features of rank {self.rank}, less than their number {d}: more than one W has this loss" if unsure else ""
        return "\n".join(
            (
                f"{self.optimizer}: {self.status.value}",
                f"  loss {self.losses[0]:.6g} -> {self.loss:.10g}{gap}; {self.losses.size - 1} steps, {self.seconds[-1]:.3g} s",
                f"  preconditioner {self.preconditioner}{condition}{rank}",
                f"  {self.evaluations} evaluations, {self.hessian_products} Hessian products, {self.products} products",
                f"  {self.reason}" if self.reason else "  as asked for",
                "  " + ", ".join(f"{name} {seconds:.3g} s" for name, seconds in self.timings.items()),
            )
        )
