"""Damped Gauss-Newton steps for a small network: the Newton step of a convex head, where the objective is not convex.

The Hessian of a perceptron is indefinite. ``J^T H J``, J the derivative of the scores and H the loss's Hessian in them, is
what of it is not; Levenberg's damping makes it invertible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.func import functional_call
from torch.nn.functional import cross_entropy

Parameters = dict[str, torch.Tensor]
#: Conjugate gradients end after so many products, or at this relative residual.
PRODUCTS, TOLERANCE = 50, 1e-3
#: Damping, and its growth where a step does not lower objective and gradient; after so many attempts there is no step.
DAMPING, GROWTH, ATTEMPTS = 1e-3, 10.0, 6


class Objective:
    """Mean cross-entropy without dropout plus ``weight_decay / 2 ||parameters||^2 + <slope, parameters>``."""

    def __init__(
        self, network: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor, weight_decay: float, slope: Parameters
    ) -> None:
        self.network, self.inputs, self.targets = network, inputs, targets
        self.weight_decay, self.slope = weight_decay, slope

    def scores(self, parameters: Parameters) -> torch.Tensor:
        scores: torch.Tensor = functional_call(self.network, parameters, (self.inputs,))
        return scores

    def value(self, parameters: Parameters) -> float:
        with torch.no_grad():
            decay = sum(float((p * p).sum()) for p in parameters.values())
            value = float(cross_entropy(self.scores(parameters), self.targets)) + self.weight_decay / 2 * decay
            return value + float(inner(self.slope, parameters))

    def gradient(self, parameters: Parameters) -> Parameters:
        leaves = _leaves(parameters)
        loss = torch.autograd.grad(cross_entropy(self.scores(leaves), self.targets), list(leaves.values()))
        return {
            name: part + self.weight_decay * leaves[name].detach() + self.slope[name]
            for name, part in zip(leaves, loss, strict=True)
        }

    def curvature(self, parameters: Parameters, damping: float) -> Callable[[Parameters], Parameters]:
        """``v -> (J^T H J + (weight_decay + damping) I) v``."""
        leaves = _leaves(parameters)
        scores = self.scores(leaves)
        p = scores.detach().softmax(1)
        # J^T u is linear in u, and the derivative of <J^T u, v> in u is J v
        u = torch.zeros_like(scores, requires_grad=True)
        pulled = torch.autograd.grad(scores, list(leaves.values()), u, create_graph=True)

        def times(v: Parameters) -> Parameters:
            (change,) = torch.autograd.grad(pulled, u, [v[name] for name in leaves], retain_graph=True)
            of_scores = (p * change - p * (p * change).sum(1, keepdim=True)) / len(p)
            out = torch.autograd.grad(scores, list(leaves.values()), of_scores, retain_graph=True)
            return {name: part + (self.weight_decay + damping) * v[name] for name, part in zip(leaves, out, strict=True)}

        return times


def _leaves(parameters: Parameters) -> Parameters:
    return {name: p.detach().requires_grad_() for name, p in parameters.items()}


def step(objective: Objective, parameters: Parameters) -> Parameters:
    """Parameters after a step that lowers objective and gradient, or as they were where none does."""
    value, gradient, damping = objective.value(parameters), objective.gradient(parameters), DAMPING
    for _ in range(ATTEMPTS):
        change = _solve(objective.curvature(parameters, damping), gradient)
        moved = {name: p - change[name] for name, p in parameters.items()}
        if objective.value(moved) < value and length(objective.gradient(moved)) < length(gradient):
            return moved
        damping *= GROWTH
    return parameters


def length(v: Parameters) -> float:
    """Euclidean norm over all parameters."""
    return float(torch.sqrt(inner(v, v)))


def over(v: Parameters, number: int) -> Parameters:
    """All parameters divided by a number."""
    return {name: part / number for name, part in v.items()}


def inner(a: Mapping[str, torch.Tensor], b: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Inner product over all parameters."""
    return torch.stack([(a[name] * b[name]).sum() for name in a]).sum()


def _solve(times: Callable[[Parameters], Parameters], b: Parameters) -> Parameters:
    """Conjugate gradients from zero."""
    x = {name: torch.zeros_like(part) for name, part in b.items()}
    r, p = dict(b), dict(b)
    squared = first = inner(b, b)
    for _ in range(PRODUCTS):
        if float(squared) <= TOLERANCE**2 * float(first):
            break
        Ap = times(p)
        alpha = squared / inner(p, Ap)
        x = {name: x[name] + alpha * p[name] for name in x}
        r = {name: r[name] - alpha * Ap[name] for name in r}
        before, squared = squared, inner(r, r)
        p = {name: r[name] + squared / before * p[name] for name in r}
    return x
