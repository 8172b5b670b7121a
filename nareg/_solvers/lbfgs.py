"""The two-loop recursion of limited-memory BFGS, for NumPy arrays and torch tensors of any shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nareg._core.arrays import Array

#: Pairs of steps and gradient changes that are remembered.
MEMORY = 20


@dataclass(frozen=True)
class Pair:
    """A step, the change of the gradient over it, and their inner product, which is positive."""

    step: Array
    change: Array
    curvature: float


def two_loop(gradient: Array, pairs: Sequence[Pair], inverse_metric: Callable[[Array], Array]) -> Array:
    """The approximate inverse Hessian times the gradient (Nocedal and Wright 2006, Algorithm 7.4).

    ``inverse_metric`` applies the first inverse Hessian, before any pair.
    """
    q = gradient * 1.0
    shares = []
    for pair in reversed(pairs):
        share = _inner(pair.step, q) / pair.curvature
        q -= pair.change * share
        shares.append(share)
    q = inverse_metric(q)
    for pair, share in zip(pairs, reversed(shares), strict=True):
        q += pair.step * (share - _inner(pair.change, q) / pair.curvature)
    return q


def _inner(a: Array, b: Array) -> Any:
    """Inner product: a number, or for tensors one that stays on their device."""
    product = (a * b).sum()
    return float(product) if isinstance(product, np.generic) else product
