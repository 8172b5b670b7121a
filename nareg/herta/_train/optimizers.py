"""Descent methods for the training problem, all from W = 0 and all preconditioned by ``P^-1`` or ``W = R W'``.

Each is a generator of steps: the caller keeps the curve, stops it, and keeps the last W when interrupted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch

from nareg._linear.lbfgs import MEMORY, Pair, two_loop
from nareg.herta._precondition.preconditioner import Preconditioner
from nareg.herta._train.objective import TrainingProblem
from nareg.herta._train.spectrum import Ritz

#: Sufficient decrease and curvature conditions of the line search (weak Wolfe).
DECREASE, CURVATURE = 1e-4, 0.9
#: Trial steps of a line search before it is given up: rounding leaves nothing to gain.
TRIALS = 25
#: Sufficient decrease of a step without a search along curvature, which has to be a good deal of what a parabola promises.
SUFFICIENT = 0.25
#: Steps of Adam after which it asks for a new preconditioner first.
ASKED = 10
#: Relaxed inner solves never get looser than this.
LOOSEST = 1e-3
#: Conjugate gradients start again from the residual of W itself after so many steps, or a fall of the recurred one to this.
REPLACED, DRIFTED = 50, 1e-20


@dataclass(frozen=True)
class Step:
    """Where a method stands: W, the loss there, the size of its gradient, and more where it is known.

    Attributes
    ----------
    W : (F, C) tensor
    loss, gradient : float
        The gradient's length in units in which the features' columns are of length one.
    gap : float or None
        Where P is near the Hessian, what is left to gain: ``<g, P^-1 g> / 2``.
    outputs : (n_train, C) tensor or None
    trial : bool
        Of a line search: W was not moved.
    confirmed : callable or None
        The gap by a preconditioner that is made for this W, where ``gap`` is by one that is kept for longer.
    """

    W: torch.Tensor
    loss: float
    gradient: float
    gap: float | None = None
    outputs: torch.Tensor | None = None
    trial: bool = False
    confirmed: Callable[[], float | None] | None = None


class Refresh(Protocol):
    """A preconditioner that follows the outputs Z."""

    def __call__(self, Z: torch.Tensor) -> Preconditioner:
        """One that is good enough to go on with."""
        ...

    def anew(self, Z: torch.Tensor) -> Preconditioner:
        """One that tells the gap."""
        ...

    def started(self) -> bool:
        """Whether there is one to go on with, where there was none so far."""
        ...


def conjugate_gradients(
    problem: TrainingProblem, P: Preconditioner, W: torch.Tensor, ritz: Ritz, *, fresh: bool = False
) -> Iterator[Step]:
    """Preconditioned conjugate gradients on the normal equations of the squared error, every output by itself.

    The loss falls by ``alpha <r, P^-1 r> / 2`` a step. The inner solves get looser as the residual gets smaller: an error in a
    product counts times the residual's size (inexact Krylov methods). Now and then the residual is computed anew, where that
    costs no solves (``fresh``) in every step; where the loss does not fall between the two, the iteration is at its end.
    """
    loss, gradient, Z = problem.evaluate(W)
    while True:
        R = -gradient
        U = P.solve(R)
        D, ru = U, (R * U).sum(0)
        first = float(ru.sum())
        retained = Step(W, loss, problem.length(R), 0.5 * first if P.factors else None)
        yield retained
        if not first > 0:
            return
        for _ in range(REPLACED):
            relaxed = min(max(problem.tol * (first / float(ru.sum())) ** 0.5, problem.tol), max(problem.tol, LOOSEST))
            Q = problem.hessian(Z, D, relaxed)
            bend = (D * Q).sum(0)
            alpha = torch.where(bend > 0, ru / bend, torch.zeros_like(ru))
            W = W + D * alpha
            if fresh:
                loss, gradient, Z = problem.evaluate(W)
                R = -gradient
            else:
                R = R - Q * alpha
                loss -= 0.5 * float((alpha * ru).sum())
            U = P.solve(R)
            new = (R * U).sum(0)
            beta = torch.where(ru > 0, new / ru, torch.zeros_like(ru))
            ritz.add(alpha, beta)
            left = float(new.sum())
            if not (loss > 0 and left > DRIFTED * first) or (fresh and not loss < retained.loss):
                break  # the recurred residual has lost touch with that of W, or there is nothing to gain
            step = Step(W, loss, problem.length(R), 0.5 * left if P.factors else None)
            yield step
            retained = step if fresh else retained
            D, ru = U + D * beta, new
        loss, gradient, Z = problem.evaluate(W)
        if not loss < retained.loss:  # rounding, or the accuracy of the solves
            yield retained
            return
        ritz.restart()


def gradient_descent(
    problem: TrainingProblem, P: Preconditioner, W: torch.Tensor, *, step: float, refresh: Refresh | None = None
) -> Iterator[Step]:
    """``W <- W - step P^-1 gradient``: gradient descent in ``W'``, whose coordinates follow P where that is renewed."""
    while True:
        loss, gradient, Z = problem.evaluate(W)
        P = P if refresh is None else refresh(Z)
        change = P.solve(gradient)
        yield _stepped(problem, W, loss, gradient, Z, P, 0.5 * float((gradient * change).sum()), refresh)
        W = W - step * change


def searched_descent(problem: TrainingProblem, P: Preconditioner, W: torch.Tensor, *, refresh: Refresh) -> Iterator[Step]:
    """The same for a P that is renewed, whose spectrum at the start tells no step that is safe later on.

    A step that does not lower the loss enough (Armijo) is halved and taken again; the next one starts twice as long.
    """
    loss, gradient, Z = problem.evaluate(W)
    t = 1.0
    while True:
        P = refresh(Z)
        change = P.solve(gradient)
        slope = float((gradient * change).sum())
        size = problem.length(gradient)
        yield _stepped(problem, W, loss, gradient, Z, P, 0.5 * slope, refresh)
        if not slope > 0:
            return
        for _ in range(TRIALS):
            trial, after, Z_after = problem.evaluate(W - t * change)
            if trial <= loss - SUFFICIENT * t * slope:
                break
            yield Step(W, loss, size, trial=True)
            t *= 0.5
        else:
            return
        W, loss, gradient, Z, t = W - t * change, trial, after, Z_after, 2 * t


def adam(
    problem: TrainingProblem, P: Preconditioner, W: torch.Tensor, *, lr: float, refresh: Refresh | None = None
) -> Iterator[Step]:
    """PyTorch's Adam on ``W'``.

    A P that is renewed is asked for at steps 10, 20, 40 and so on: each takes an eigendecomposition, and Adam starts afresh, as
    its averages are of other coordinates.
    """
    inner, optimizer = _begun(P, W, lr)
    due = ASKED
    for count in itertools.count():
        loss, gradient, Z = problem.evaluate(W)
        if refresh is not None and count == due:
            renewed, due = refresh(Z), 2 * due
            if renewed is not P:
                P = renewed
                inner, optimizer = _begun(P, W, lr)
        inner.grad = P.root_transposed(gradient)
        yield _stepped(problem, W, loss, gradient, Z, P, 0.5 * float((inner.grad * inner.grad).sum()), refresh)
        optimizer.step()
        W = P.root(inner.detach())


def _begun(P: Preconditioner, W: torch.Tensor, lr: float) -> tuple[torch.Tensor, torch.optim.Optimizer]:
    """``W'``, and Adam on it without memory."""
    inner = P.unroot(W).clone().requires_grad_(True)
    return inner, torch.optim.Adam([inner], lr=lr)


def _stepped(
    problem: TrainingProblem,
    W: torch.Tensor,
    loss: float,
    gradient: torch.Tensor,
    Z: torch.Tensor,
    P: Preconditioner,
    gap: float,
    refresh: Refresh | None,
) -> Step:
    """A step, with the gap where P is the Hessian's: that of cross-entropy moves away from a P that is not renewed."""
    known = P.factors and (problem.loss.name == "mse" or refresh is not None)
    confirmed = None if refresh is None else partial(_gap, refresh, Z, gradient)
    return Step(W, loss, problem.length(gradient), gap if known else None, Z, confirmed=confirmed)


def lbfgs(problem: TrainingProblem, P: Preconditioner, W: torch.Tensor, *, refresh: Refresh | None = None) -> Iterator[Step]:
    """Limited-memory BFGS whose first inverse Hessian is ``P^-1``; a weak Wolfe line search.

    Pairs of steps and gradient differences are kept in W's own coordinates, so that they outlive a refreshed preconditioner.
    Every evaluation is a step of the curve, those of the line search too; steps that were not taken repeat the best loss.
    """
    loss, gradient, Z = problem.evaluate(W)
    pairs: list[Pair] = []
    while True:
        P = P if refresh is None else refresh(Z)
        direction = -two_loop(gradient, pairs, _inverse_metric(P, pairs))
        slope = float((direction * gradient).sum())
        size = problem.length(gradient)
        confirmed = None if refresh is None else partial(_gap, refresh, Z, gradient)
        yield Step(W, loss, size, -0.5 * slope if P.factors else None, Z, confirmed=confirmed)
        if not slope < 0:
            return
        # a first step without any scale: as far as a straight line would take the loss to zero
        t, low, high = 1.0 if pairs or P.factors else loss / -slope, 0.0, float("inf")
        for _ in range(TRIALS):
            trial, after, Z_after = problem.evaluate(W + t * direction)
            if not trial <= loss + DECREASE * t * slope:
                high = t
                parabola = -slope * t * t / (2 * (trial - loss - slope * t)) if trial < float("inf") else 0.1 * t
                t = min(max(parabola, 0.1 * t), 0.5 * t) if low == 0 else (low + high) / 2
            elif float((after * direction).sum()) < CURVATURE * slope:
                low = t
                t = 2 * t if high == float("inf") else (low + high) / 2
            else:
                break
            yield Step(W, loss, size, trial=True)
        else:
            if P.factors or refresh is None or not refresh.started():
                return
            pairs = []  # in these coordinates nothing is left to gain; in others there may be
            continue
        step, change = t * direction, after - gradient
        curvature = float((step * change).sum())
        if curvature > 0:
            pairs = [*pairs, Pair(step, change, curvature)][-MEMORY:]
        W, loss, gradient, Z = W + step, trial, after, Z_after


def _gap(refresh: Refresh, Z: torch.Tensor, gradient: torch.Tensor) -> float | None:
    return refresh.anew(Z).gap(gradient)


def _inverse_metric(P: Preconditioner, pairs: list[Pair]) -> Callable[[torch.Tensor], torch.Tensor]:
    """The first inverse Hessian of L-BFGS: ``P^-1``, or without P a multiple of the identity, from the last pair."""
    if P.factors or not pairs:
        return P.solve
    change = pairs[-1].change
    return lambda q: q * (pairs[-1].curvature / float((change * change).sum()))
