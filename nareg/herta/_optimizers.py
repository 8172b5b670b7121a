"""Descent methods for the training problem, all from W = 0 and all preconditioned by ``P^-1`` or ``W = R W'``.

Each is a generator of steps. The caller records them, stops, and chooses the weights to return.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch

from nareg._solvers.lbfgs import MEMORY, Pair, two_loop
from nareg.herta._curvature import Ritz
from nareg.herta._objective import TrainingProblem
from nareg.herta._preconditioner import Preconditioner

#: Sufficient decrease and curvature conditions of the line search (weak Wolfe).
DECREASE, CURVATURE = 1e-4, 0.9
#: Trial steps of a line search, at most; more meet rounding.
MAX_TRIALS = 25
#: Sufficient decrease of a step that does not check curvature; half of what a parabola promises.
SUFFICIENT = 0.25
#: Steps of Adam before its first new preconditioner.
FIRST_RENEWAL = 10
#: Loosest tolerance of relaxed inner solves.
LOOSEST = 1e-3
#: Conjugate gradients restart from the true residual after so many steps, or when the recurred one has fallen to this share.
RESTART_AFTER, RESTART_BELOW = 50, 1e-20


@dataclass(frozen=True)
class Step:
    """One step of a method.

    Attributes
    ----------
    W : (F, C) tensor
    loss, gradient : float
        The loss at W, and the norm of its gradient in units in which the features' columns have length one.
    gap : float or None
        Estimated distance from the minimum, ``<g, P^-1 g> / 2``, where P is near the Hessian.
    outputs : (n_train, C) tensor or None
    trial : bool
        A trial of a line search, which does not move W.
    accurate_gap : callable or None
        Computes the gap with a preconditioner for this W, where P is older.
    """

    W: torch.Tensor
    loss: float
    gradient: float
    gap: float | None = None
    outputs: torch.Tensor | None = None
    trial: bool = False
    accurate_gap: Callable[[], float | None] | None = None


class Refresh(Protocol):
    """A preconditioner that follows the outputs Z."""

    def __call__(self, Z: torch.Tensor) -> Preconditioner:
        """One that is accurate enough for the next steps."""

    def up_to_date(self, Z: torch.Tensor) -> Preconditioner:
        """One that is accurate enough to estimate the gap."""

    def start(self) -> bool:
        """Build one for the next steps if there is none, and say whether there is one now."""


def conjugate_gradients(
    problem: TrainingProblem, P: Preconditioner, W: torch.Tensor, ritz: Ritz, *, fresh: bool = False
) -> Iterator[Step]:
    """Preconditioned conjugate gradients on the normal equations of the squared error, for every output by itself.

    The loss falls by ``alpha <r, P^-1 r> / 2`` per step. The inner solves get looser as the residual gets smaller, because the
    error of a product counts in multiples of the residual (inexact Krylov methods). Every 50 steps the residual is computed
    from W; with ``fresh``, where that costs no solves, in every step. The iteration ends when the loss has not fallen.
    """
    loss, gradient, Z = problem.evaluate(W)
    while True:
        R = -gradient
        U = P.solve(R)
        D, ru = U, (R * U).sum(0)
        remaining = first = float(ru.sum())
        verified = Step(W, loss, problem.scaled_norm(R), 0.5 * first if P.factors else None)
        yield verified
        if not first > 0:
            return
        for _ in range(RESTART_AFTER):
            relaxed = min(max(problem.tol * (first / remaining) ** 0.5, problem.tol), max(problem.tol, LOOSEST))
            Q = problem.hessian(Z, D, relaxed)
            curvature = (D * Q).sum(0)
            alpha = torch.where(curvature > 0, ru / curvature, torch.zeros_like(ru))
            W = W + D * alpha
            if fresh:
                loss, gradient, Z = problem.evaluate(W)
                R = -gradient
            else:
                R = R - Q * alpha
            U = P.solve(R)
            new = (R * U).sum(0)
            beta = torch.where(ru > 0, new / ru, torch.zeros_like(ru))
            ritz.add(alpha, beta)
            # the step's numbers together: a device is waited for once
            fall, remaining, length = _together((alpha * ru).sum(), new.sum(), problem.scaled_length(R))
            loss = loss if fresh else loss - 0.5 * fall
            if not (loss > 0 and remaining > RESTART_BELOW * first) or (fresh and not loss < verified.loss):
                break  # the recurred residual is no longer that of W, or the loss does not fall
            step = Step(W, loss, length, 0.5 * remaining if P.factors else None)
            yield step
            verified = step if fresh else verified
            D, ru = U + D * beta, new
        loss, gradient, Z = problem.evaluate(W)
        if not loss < verified.loss:  # rounding, or the accuracy of the solves
            yield verified
            return
        ritz.restart()


def _together(*numbers: torch.Tensor) -> list[float]:
    """Numbers off their device, which is waited for once."""
    return torch.stack([number.double() for number in numbers]).tolist()


def gradient_descent(
    problem: TrainingProblem, P: Preconditioner, W: torch.Tensor, *, step: float, refresh: Refresh | None = None
) -> Iterator[Step]:
    """``W <- W - step P^-1 gradient``: gradient descent in ``W'``, in new coordinates whenever P is renewed."""
    while True:
        loss, gradient, Z = problem.evaluate(W)
        P = P if refresh is None else refresh(Z)
        change = P.solve(gradient)
        yield _step(problem, W, loss, gradient, Z, P, float((gradient * change).sum()), refresh)
        W = W - step * change


def searched_descent(problem: TrainingProblem, P: Preconditioner, W: torch.Tensor, *, refresh: Refresh) -> Iterator[Step]:
    """Gradient descent with a P that is renewed, so that its spectrum at the start gives no safe step for later.

    A step that does not lower the loss enough (Armijo) is halved; the next step starts at twice the accepted length.
    """
    loss, gradient, Z = problem.evaluate(W)
    t = 1.0
    while True:
        P = refresh(Z)
        change = P.solve(gradient)
        slope = float((gradient * change).sum())
        step = _step(problem, W, loss, gradient, Z, P, slope, refresh)
        yield step
        if not slope > 0:
            return
        for _ in range(MAX_TRIALS):
            trial, after, Z_after = problem.evaluate(W - t * change)
            if trial <= loss - SUFFICIENT * t * slope:
                break
            yield Step(W, loss, step.gradient, trial=True)
            t *= 0.5
        else:
            return
        W, loss, gradient, Z, t = W - t * change, trial, after, Z_after, 2 * t


def adam(
    problem: TrainingProblem, P: Preconditioner, W: torch.Tensor, *, lr: float, refresh: Refresh | None = None
) -> Iterator[Step]:
    """PyTorch's Adam on ``W'``.

    P is renewed at steps 10, 20, 40 and so on, because each renewal takes an eigendecomposition. Adam restarts then, as its
    averages belong to the old coordinates.
    """
    inner, optimizer = _inner_adam(P, W, lr)
    next_renewal = FIRST_RENEWAL
    for count in itertools.count():
        loss, gradient, Z = problem.evaluate(W)
        if refresh is not None and count == next_renewal:
            renewed, next_renewal = refresh(Z), 2 * next_renewal
            if renewed is not P:
                P = renewed
                inner, optimizer = _inner_adam(P, W, lr)
        inner.grad = P.root_transposed(gradient)
        yield _step(problem, W, loss, gradient, Z, P, float((inner.grad * inner.grad).sum()), refresh)
        optimizer.step()
        W = P.root(inner.detach())


def _inner_adam(P: Preconditioner, W: torch.Tensor, lr: float) -> tuple[torch.Tensor, torch.optim.Optimizer]:
    """``W'``, and a new Adam on it."""
    inner = P.unroot(W).clone().requires_grad_(True)
    return inner, torch.optim.Adam([inner], lr=lr)


def _step(
    problem: TrainingProblem, W: torch.Tensor, loss: float, gradient: torch.Tensor, Z: torch.Tensor, P: Preconditioner,
    slope: float, refresh: Refresh | None,
) -> Step:  # fmt: skip
    """A step with ``slope = <g, P^-1 g>``; half of it is the gap, for cross-entropy only if P is renewed."""
    known = P.factors and (problem.loss.name == "mse" or refresh is not None)
    accurate_gap = None if refresh is None else lambda: refresh.up_to_date(Z).gap(gradient)
    return Step(W, loss, problem.scaled_norm(gradient), 0.5 * slope if known else None, Z, accurate_gap=accurate_gap)


def lbfgs(problem: TrainingProblem, P: Preconditioner, W: torch.Tensor, *, refresh: Refresh | None = None) -> Iterator[Step]:
    """Limited-memory BFGS whose first inverse Hessian is ``P^-1``, with a weak Wolfe line search.

    Pairs of steps and gradient changes are in W's own coordinates, so that they outlive a renewed preconditioner. Every
    evaluation is a step of the curve. Trials of the line search repeat the best loss.
    """
    loss, gradient, Z = problem.evaluate(W)
    pairs: list[Pair] = []
    while True:
        P = P if refresh is None else refresh(Z)
        direction = -two_loop(gradient, pairs, _inverse_metric(P, pairs))
        slope = float((direction * gradient).sum())
        step = _step(problem, W, loss, gradient, Z, P, -slope, refresh)
        yield step
        if not slope < 0:
            return
        # without a scale: as far as a straight line would take the loss to zero
        t, low, high = 1.0 if pairs or P.factors else loss / -slope, 0.0, float("inf")
        for _ in range(MAX_TRIALS):
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
            yield Step(W, loss, step.gradient, trial=True)
        else:
            if P.factors or refresh is None or not refresh.start():
                return
            pairs = []  # no descent in these coordinates; try others
            continue
        move, change = t * direction, after - gradient
        curvature = float((move * change).sum())
        if curvature > 0:
            pairs = [*pairs, Pair(move, change, curvature)][-MEMORY:]
        W, loss, gradient, Z = W + move, trial, after, Z_after


def _inverse_metric(P: Preconditioner, pairs: list[Pair]) -> Callable[[torch.Tensor], torch.Tensor]:
    """The first inverse Hessian of L-BFGS: ``P^-1``, or without P a multiple of the identity from the last pair."""
    if P.factors or not pairs:
        return P.solve
    change = pairs[-1].change
    return lambda q: q * (pairs[-1].curvature / float((change * change).sum()))
