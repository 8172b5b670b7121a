"""The result of a training run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nareg._core.arrays import Array
from nareg.errors import InputError
from nareg.results import Status


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """A trained unfolded network ``Z* = (I + lam L)^-1 X W``.

    Attributes
    ----------
    weights : (F, C) array or tensor
        W; a tensor where the features are one.
    outputs : (N, C) array or tensor
        Z* at all nodes.
    loss : float
        At the returned weights, from accurate solves in double precision.
    losses : (T,) array
        Loss at the start, then after every iteration (pcg) or evaluation (the others), as training computed it. Where the last
        weights are returned, the last entry is ``loss``.
    seconds : (T,) array
        Time of each loss since the start of the call, setup included.
    status : Status
    optimizer, preconditioner : str
        The ones that were used.
    reason : str
        Why, where they were chosen by estimated cost.
    condition : float or None
        Estimated condition number of the preconditioned Hessian at the start (Lanczos; from below).
    gap : float or None
        Estimated distance of the loss from its minimum: ``<g, P^-1 g> / 2`` from accurate solves in double precision, with a
        preconditioner for the returned weights. None where none was built.
    gradient_norm : float
        At the returned weights, from accurate solves.
    rank : int or None
        Numerical rank of the propagated features at the training nodes: directions longer than the root of the ridge. Below F
        several W have this loss. None with weight decay, and where no Gram matrix was factorized.
    evaluations, hessian_products : int
        Number of values with gradients, and of products with the Hessian.
    products : int
        Number of products of H with one column in the whole run.
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

    weights: Array
    outputs: Array
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

    def predict(self) -> Array:
        """Class of every node: its largest output.

        Raises
        ------
        InputError
            If there is a single output, which is a number and not a class.
        """
        if self.outputs.shape[1] < 2:
            raise InputError("outputs have a single column, a number per node and not a class: read result.outputs.")
        return self.outputs.argmax(1)

    def summary(self) -> str:
        """A few lines for a person."""
        gap = ", distance from the minimum not known" if self.gap is None else f", about {self.gap:.1g} above the minimum"
        condition = "" if self.condition is None else f", condition number {self.condition:.3g}"
        d = self.weights.shape[0]
        deficient = self.rank is not None and self.rank < d
        rank = f"; features of rank {self.rank}, less than their number {d}: more than one W has this loss" if deficient else ""
        return "\n".join(
            (
                f"{self.optimizer}: {self.status.value}",
                f"  loss {self.losses[0]:.6g} -> {self.loss:.10g}{gap}; {self.losses.size - 1} steps, {self.seconds[-1]:.3g} s",
                f"  preconditioner {self.preconditioner}{condition}{rank}",
                f"  {self.evaluations} evaluations, {self.hessian_products} Hessian products, {self.products} products",
                f"  {self.reason}" if self.reason else "  as requested",
                "  " + ", ".join(f"{name} {seconds:.3g} s" for name, seconds in self.timings.items()),
            )
        )
