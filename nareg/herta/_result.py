"""The result of a training run, reported by accurate solves, and the status that these allow."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import torch

from nareg._core.arrays import Array, briefly_shown
from nareg.errors import InputError
from nareg.herta._curvature import newton_decrement
from nareg.herta._loop import Curve
from nareg.herta._method import TrainingMethod
from nareg.herta._objective import Implicit, SquaredError
from nareg.results import Status


@briefly_shown
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


#: Multiple of the tolerance above which a gap by accurate solves says that loose inner solves stopped the run.
STALLED_ABOVE = 10.0
#: Accuracy of the inner solves of a gap, of which two digits are enough.
GAP_TOL = 1e-4
#: The end of the reason of a run without a preconditioner that continued with one.
CONTINUED = "; then the exact one, because a small gradient proves too little"


def report(method: TrainingMethod, curve: Curve, timings: dict[str, float]) -> TrainingResult:
    """The result of a run, computed in double precision whatever the dtype of the training."""
    began = time.perf_counter()
    task, plan, problem, P = method.task, method.plan, method.problem, method.preconditioner
    system, features, W = task.system.in_double(), task.features.in_double(), curve.W.double()
    before, tight = system.products, max(problem.tol * 1e-2, system.floor)
    Z = system.solve(features.times(W), tol=tight)
    outputs = Z[task.train]
    value = task.loss.value(outputs) + 0.5 * task.weight_decay * float((W**2).sum())
    model = Implicit(system, features, task.train)
    pulled = model.adjoint(task.loss.gradient(outputs), tight)
    gradient = pulled + task.weight_decay * W
    rank = None if plan.given or task.weight_decay else P.rank
    if method.refresh is not None:
        P = method.refresh.up_to_date(outputs.to(curve.W.dtype))
    known = bool(P.factors) and not plan.given
    estimate = P.gap(gradient) if known else None
    if known and not isinstance(task.loss, SquaredError):

        def hessian(V: torch.Tensor) -> torch.Tensor:
            curved = task.loss.hessian(outputs, model.apply(V, GAP_TOL))
            return model.adjoint(curved, GAP_TOL) + task.weight_decay * V

        estimate = newton_decrement(gradient, P, hessian)
    if not known and curve.status is Status.CONVERGED:
        estimate = method.gap_estimator.gap(outputs.to(curve.W.dtype), gradient, method.accuracy.tol * value)
    gap = None if estimate is None else min(estimate, value)  # no loss is below zero
    status, judged = curve.status, not method.stochastic and (curve.last_returned or curve.validation is None)
    if judged and not _holds(method, curve, value, gap, task.loss.separated(outputs)):
        status = Status.STALLED
    other_products = system.products - before if system is not task.system else 0
    timings["outputs"] = time.perf_counter() - began
    losses = np.array(curve.losses)
    if curve.last_returned:
        losses[-1] = value
    return TrainingResult(
        weights=task.returned(curve.W), outputs=task.returned(Z.to(curve.W.dtype)), loss=value, losses=losses,
        seconds=np.array(curve.seconds), status=status, optimizer=plan.optimizer, preconditioner=plan.preconditioner,
        reason=plan.reason + (CONTINUED if method.gap_estimator.used else ""), condition=method.condition(), gap=gap,
        gradient_norm=float(gradient.norm()), rank=rank, evaluations=problem.evaluations,
        hessian_products=problem.hessian_products, products=task.system.products + other_products,
        validation=None if curve.validation is None else np.array(curve.validation), lam=task.system.lam, timings=timings,
    )  # fmt: skip


def _holds(method: TrainingMethod, curve: Curve, value: float, gap: float | None, separated: bool) -> bool:
    """Whether accurate solves confirm the status."""
    tol, stop_below = method.accuracy.tol, method.options.stop_below
    if curve.status is Status.ZERO_LOSS:
        return value <= tol * curve.losses[0]
    if curve.status is Status.SEPARABLE:
        return separated and value <= STALLED_ABOVE * tol * curve.losses[0]
    if curve.status is Status.TARGET_REACHED and stop_below is not None:
        return value <= stop_below + STALLED_ABOVE * tol * abs(value)
    return curve.status is not Status.CONVERGED or (gap is not None and gap <= STALLED_ABOVE * tol * value)
