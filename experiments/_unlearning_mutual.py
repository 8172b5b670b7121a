"""Mutual evolution of prediction and unlearning: MEGU."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from experiments._unlearning_network import GraphNetwork, NetworkInputs, Weights, _State, logits
from nareg._core import checks
from nareg.unlearning.data import Data, Request


class MEGU(GraphNetwork):
    """Mutual evolution (Li et al., AAAI 2024): a few steps that unlearn removed nodes and keep what their neighbors say.

    A linear module maps the network's logits z to u. Steps of gradient descent lower ``weight * U + R``. U, at the removed
    nodes without their edges, is the divergence of z from u less the cross-entropy of u with the old prediction. R, at the
    nodes within two hops, is the divergence of u from z plus the cross-entropy of z with the old prediction. Labels are not
    used.

    Parameters
    ----------
    steps : int
        Steps of gradient descent after a request.
    step_size : float
        Of these.
    weight : float
        Of U.
    **options
        As in :class:`~experiments._unlearning_network.GraphNetwork`.

    Notes
    -----
    Two things of the paper are not here. Of the nodes within two hops it takes those whose propagated features react most to
    the removal, by a threshold that it adapts. And it corrects and smooths the predictions along edges afterwards. Step size
    and number of steps are ours; U has no lower bound, and with large ones the weights diverge. We are unsure whether the
    module is to be trained with the network; here it is.

    Without a removed node (requests of edges) their ends take its place.

    Examples
    --------
    >>> import nareg, numpy as np
    >>> from experiments._unlearning_mutual import MEGU
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> model = MEGU(rng=np.random.default_rng(1)).fit(data.graph, data.features, data.labels, np.arange(200))
    >>> model.remove_nodes([3, 4]).count
    2
    """

    def __init__(self, *, steps: int = 30, step_size: float = 1e-2, weight: float = 1e-2, **options: Any) -> None:
        super().__init__(**options)
        self.steps = checks.integer("steps", steps, low=0)
        self.step_size = checks.number("step_size", step_size, low=0, strict=True)
        self.weight = checks.number("weight", weight, low=0)

    def _unlearned(self, before: _State, inputs: NetworkInputs, data: Data, request: Request) -> Weights:
        change = request.change
        touched = np.union1d(change.nodes, np.ravel(change.removed) if len(change.removed) else change.nodes)
        removed = change.nodes if change.nodes.size else touched
        near = np.setdiff1d(within_two_hops(before.inputs.P, touched), np.union1d(removed, np.flatnonzero(data.gone)))
        weights = tuple(value.clone().requires_grad_(True) for value in before.weights)
        classes = data.classes.size
        module = torch.eye(classes, dtype=torch.float64, requires_grad=True)
        offset = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
        with torch.no_grad():
            predictions = logits(before.inputs, before.weights).argmax(dim=1)
        if request.gone.size:  # removed nodes keep their features while they are unlearned, but no edge
            features = data.propagation.features.copy()
            features[request.gone] = before.leaving
            inputs = NetworkInputs.of(data.graph.adjacency(), features)
        here, around = torch.as_tensor(removed), torch.as_tensor(near)
        optimizer = torch.optim.SGD([*weights, module, offset], lr=self.step_size, weight_decay=self.weight_decay)
        for _ in range(self.steps):
            optimizer.zero_grad()
            z = logits(inputs, weights)
            u = z @ module + offset
            loss = self.weight * (_divergence(z[here], u[here]) - cross_entropy(u[here], predictions[here]))
            if near.size:
                loss = loss + _divergence(u[around], z[around]) + cross_entropy(z[around], predictions[around])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return tuple(value.detach() for value in weights)


def within_two_hops(P: torch.Tensor, nodes: np.ndarray) -> np.ndarray:
    """These nodes and all within two hops, by the pattern of P, which has self-loops."""
    pattern = sp.csr_array(
        (np.ones(P.values().numel()), P.col_indices().numpy(), P.crow_indices().numpy()), shape=tuple(P.shape)
    )
    reached = np.zeros(P.shape[0])
    reached[nodes] = 1
    return np.flatnonzero(pattern @ (pattern @ reached))


def _divergence(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Mean divergence of the softmax of ``one`` from that of ``other``, which is a fixed target."""
    return kl_div(log_softmax(one, dim=1), log_softmax(other.detach(), dim=1), reduction="batchmean", log_target=True)
