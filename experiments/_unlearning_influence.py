"""Influence functions for graphs: GIF, and IDEA, which adds noise to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from experiments._unlearning_network import GraphNetwork, NetworkInputs, Weights, _State, loss_sum
from nareg._core import checks
from nareg.errors import InputError
from nareg.unlearning.data import Data, Request

#: Steps of the power iteration that finds the largest curvature, and the room above it.
POWER_STEPS, ROOM = 10, 1.2


class GIF(GraphNetwork):
    """Graph influence function (Wu et al., WWW 2023): one step that undoes what removed data did to the gradient.

    The weights become ``w + H^-1 g``, as in the paper. H is the Hessian of the training loss before: a sum over nodes, with
    the weight decay. g is a gradient: of what the removed nodes contributed, and of how the contribution of other training
    nodes changes. Outputs of two layers change within three hops of a removed node, since the degrees of its neighbors do.
    ``H^-1 g`` is a sum of ``iterations`` terms, ``h <- g + (1 - damping) h - H h / scale``, over ``scale``.

    Parameters
    ----------
    iterations : int
        Terms of the series.
    damping : float
        Adds ``damping * scale`` to the Hessian.
    scale : float or "auto"
        Above the largest curvature, or the series diverges. The paper tunes it for every data set; "auto", not in the paper,
        takes 1.2 times the largest curvature by ten steps of power iteration.
    **options
        As in :class:`~experiments._unlearning_network.GraphNetwork`.

    Notes
    -----
    The loss of a network is not convex: H has negative eigenvalues, in whose directions the series grows with every term.
    ``damping`` of 0 and 100 terms are the published settings. How much is forgotten no theorem says.

    Examples
    --------
    >>> import nareg, numpy as np
    >>> from experiments._unlearning_influence import GIF
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> model = GIF(rng=np.random.default_rng(1)).fit(data.graph, data.features, data.labels, np.arange(200))
    >>> model.remove_nodes([3, 4]).count
    2
    """

    def __init__(self, *, iterations: int = 100, damping: float = 0.0, scale: float | str = "auto", **options: Any) -> None:
        super().__init__(**options)
        self.iterations = checks.integer("iterations", iterations, low=1)
        self.damping = checks.number("damping", damping, low=0, high=1)
        if isinstance(scale, str) and scale != "auto":
            raise InputError(f'scale is {scale!r}: pass a number above 0 or "auto".')
        self.scale = scale if isinstance(scale, str) else checks.number("scale", scale, low=0, strict=True)

    def _unlearned(self, before: _State, inputs: NetworkInputs, data: Data, request: Request) -> Weights:
        change = gradient_change(before, inputs, data)
        step = inverse_times(
            hessian_product(before, self.weight_decay), change,
            iterations=self.iterations, damping=self.damping, scale=self.scale,
        )  # fmt: skip
        return tuple(value + part for value, part in zip(before.weights, step, strict=True))


class IDEA(GIF):
    """Flexible certified unlearning (Dong et al., KDD 2024), of which only the step and the noise are here.

    The step is that of :class:`GIF`. Then every weight gets Gaussian noise, which hides how far the step is from retraining.

    Parameters
    ----------
    noise : float
        Standard deviation of the noise.
    **options
        As in :class:`GIF`.

    Notes
    -----
    The paper calibrates the noise to a bound on the distance to the optimum. The bound needs a strongly convex loss with a
    known Lipschitz constant. A network has neither: no certificate is given here, and ``noise`` is a number that you choose.
    The default is ours: we do not know the paper's for this network.

    Examples
    --------
    >>> import nareg, numpy as np
    >>> from experiments._unlearning_influence import IDEA
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> model = IDEA(rng=np.random.default_rng(1)).fit(data.graph, data.features, data.labels, np.arange(200))
    >>> model.remove_nodes([3, 4]).count
    2
    """

    def __init__(self, *, noise: float = 1e-2, **options: Any) -> None:
        super().__init__(**options)
        self.noise = checks.number("noise", noise, low=0)

    def _unlearned(self, before: _State, inputs: NetworkInputs, data: Data, request: Request) -> Weights:
        weights = super()._unlearned(before, inputs, data, request)
        draws = (self._rng.normal(0.0, 1.0, tuple(value.shape)) * self.noise for value in weights)
        return tuple(value + torch.as_tensor(noise) for value, noise in zip(weights, draws, strict=True))


def gradient_change(before: _State, inputs: NetworkInputs, data: Data) -> Weights:
    """Gradient of the losses that are gone or changed, before, less that of the changed ones now.

    All training nodes count: where a node's output did not change, both gradients cancel. So this is the sum over the nodes
    around the removed ones, without looking for them.
    """
    weights = _tracked(before.weights)
    old = torch.autograd.grad(loss_sum(before.inputs, weights, before.train, before.targets), weights)
    new = torch.autograd.grad(loss_sum(inputs, weights, data.train, before.targets), weights)
    return tuple(a - b for a, b in zip(old, new, strict=True))


def hessian_product(before: _State, weight_decay: float) -> Callable[[Weights], Weights]:
    """Products with the Hessian of the sum of losses before, plus ``weight_decay`` per training node."""
    weights, ridge = _tracked(before.weights), weight_decay * before.train.size
    gradient = torch.autograd.grad(loss_sum(before.inputs, weights, before.train, before.targets), weights, create_graph=True)

    def product(vector: Weights) -> Weights:
        curved = torch.autograd.grad(gradient, weights, grad_outputs=vector, retain_graph=True)
        return tuple(part + ridge * value for part, value in zip(curved, vector, strict=True))

    return product


def inverse_times(
    product: Callable[[Weights], Weights], vector: Weights, *, iterations: int, damping: float, scale: float | str
) -> Weights:
    """``(H + damping scale)^-1`` times a vector, by a truncated series."""
    room = scale if not isinstance(scale, str) else ROOM * largest_curvature(product, vector)
    if not room:
        return vector  # of zeros
    total = vector
    for _ in range(iterations):
        curved = product(total)
        total = tuple(
            start + (1 - damping) * value - part / room for start, value, part in zip(vector, total, curved, strict=True)
        )
    return tuple(value / room for value in total)


def largest_curvature(product: Callable[[Weights], Weights], vector: Weights) -> float:
    """Largest absolute eigenvalue by power iteration from this vector; 0 if that is zero."""
    value = 0.0
    for _ in range(POWER_STEPS):
        length = _length(vector)
        if not length:
            return 0.0
        vector = product(tuple(part / length for part in vector))
        value = _length(vector)
    return value


def _length(vector: Weights) -> float:
    return float(np.sqrt(sum(float((part**2).sum()) for part in vector)))


def _tracked(weights: Weights) -> Weights:
    return tuple(value.clone().requires_grad_(True) for value in weights)
