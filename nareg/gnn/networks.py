"""Networks for node classification and regression, in one form for one training loop.

``prepare(adjacency, x)`` computes once what has no parameters, so that propagation before a linear layer costs nothing in
training; ``forward(inputs, rows)`` gives the outputs of some nodes. Any torch module takes this form by :func:`as_network`.
"""

from __future__ import annotations

import abc
import inspect
import itertools
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch.nn import functional as F

from nareg._core import checks
from nareg._core.arrays import as_numpy, in_transform
from nareg.errors import InputError
from nareg.gnn import series
from nareg.gnn.adjacency import Adjacency, Normalization, as_adjacency
from nareg.gnn.ngc import polynomial
from nareg.gnn.propagation import filtered
from nareg.gnn.solvers import Perturbation, Solver, SolverName, as_solver
from nareg.typing import ArrayLike

#: Indices of nodes, or ``slice(None)`` for all of them.
Rows = torch.Tensor | slice


class Network(torch.nn.Module, abc.ABC):
    """Base of the networks."""

    def prepare(self, adjacency: Adjacency, x: torch.Tensor) -> Any:
        """Inputs of :meth:`forward`, computed once per training."""
        return x, adjacency

    @abc.abstractmethod
    def forward(self, inputs: Any, rows: Rows) -> torch.Tensor:
        """Outputs (logits) of these nodes."""

    def views(self, adjacency: Adjacency, x: torch.Tensor, parts: Sequence[np.ndarray]) -> list[tuple[Any, Rows]]:
        """Inputs and rows that give the outputs of each part of the nodes; here all inputs, prepared once."""
        inputs = self.prepare(adjacency, x)
        return [(inputs, torch.as_tensor(nodes, device=x.device)) for nodes in parts]

    def decayed(self) -> Sequence[torch.nn.Parameter]:
        """Parameters that weight decay applies to."""
        return list(self.parameters())

    def penalty(self) -> torch.Tensor | float:
        """Term to add to the loss of the last forward pass."""
        return 0.0


class EdgeNetwork(Network):
    """A torch module that is called as ``module(x, edge_index, edge_weight)``, as PyTorch Geometric's models are.

    Edge weights are passed by name to a module that has the argument. A module of one argument, unless another is called
    ``edge_index``, gets the features alone.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module
        parameters = _parameters(module)
        required = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        named = any(p.kind is p.VAR_POSITIONAL or p.name == "edge_index" for p in parameters)
        self.takes_edges = len(required) > 1 or named
        self.takes_weights = any(p.name == "edge_weight" for p in parameters)

    def prepare(self, adjacency: Adjacency, x: torch.Tensor) -> Any:
        """Features, edges, and their weights."""
        if not adjacency.is_symmetric:
            raise InputError(
                "a torch module gets edges and normalizes them itself: prepare the adjacency with normalization='sym'."
            )
        return x, *adjacency.edge_index(x.dtype, x.device)

    def forward(self, inputs: Any, rows: Rows) -> torch.Tensor:
        """Outputs of these nodes."""
        x, index, weight = inputs
        weights = {"edge_weight": weight} if self.takes_weights else {}
        out: torch.Tensor = self.module(x, index, **weights) if self.takes_edges else self.module(x)
        if not isinstance(out, torch.Tensor) or out.ndim != 2 or out.shape[0] != x.shape[0]:
            shape = f"shape {tuple(out.shape)}" if isinstance(out, torch.Tensor) else f"a {type(out).__name__}"
            raise InputError(
                f"{type(self.module).__name__} returned {shape}: a tensor ({x.shape[0]}, classes) of logits is expected, a row "
                "per node."
            )
        return out[rows]


def _parameters(module: torch.nn.Module) -> list[inspect.Parameter]:
    """Of a module's forward; of the module inside a wrapper of torch.compile or torch.nn, which takes whatever it is given."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    inside = [child for name, child in module.named_children() if name in ("_orig_mod", "module")]
    anything = {p.kind for p in parameters} == {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return _parameters(inside[0]) if inside and anything else parameters


def as_network(module: torch.nn.Module) -> Network:
    """A network as it is; any other module as an :class:`EdgeNetwork`."""
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"a model was built as a {type(module).__name__}: a torch.nn.Module is expected.")
    return module if isinstance(module, Network) else EdgeNetwork(module)


def reset(parameter: torch.nn.Parameter) -> None:
    """Glorot for matrices, zero for biases."""
    if parameter.ndim > 1:
        torch.nn.init.xavier_uniform_(parameter)
    else:
        torch.nn.init.zeros_(parameter)


class Perceptron(torch.nn.Module):
    """Linear layers with ReLU and dropout between; one layer without ``hidden``."""

    def __init__(self, in_channels: int, out_channels: int, hidden: Sequence[int] = (), dropout: float = 0.0) -> None:
        super().__init__()
        sizes = [in_channels, *hidden, out_channels]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.dropout = checks.number("dropout", dropout, low=0, high=1)
        for parameter in self.layers.parameters():
            reset(parameter)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, in_channels) -> (n, out_channels)."""
        for k, layer in enumerate(self.layers):
            x = layer(dropout(x if k == 0 else torch.relu(x), self.dropout, self.training))
        return x


class FilteredNetwork(Network):
    """A fixed graph filter, then a perceptron: MLP, SGC, S2GC, NGC and RNGC.

    Parameters
    ----------
    in_channels, out_channels : int
    hidden : sequence of int
        Widths of hidden layers; none: a linear classifier.
    dropout : float
    lam : float, optional
        Strength of the filter. Without it and ``weights`` there is no filter: the graph is not used.
    solver : {"neumann", "chebyshev", "cg"} or Neumann, Chebyshev, ConjugateGradients
    perturbation : Perturbation, optional
        RNGC's perturbation, from the filtered features.
    weights : (S + 1,) array, optional
        A polynomial in A~ in the place of the filter.
    normalization : {"sym", "rw"}, optional
        Refuse an adjacency that was prepared with another one. Default: take any.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden: Sequence[int] = (),
        dropout: float = 0.0,
        lam: float | None = None,
        solver: Solver | SolverName = "neumann",
        perturbation: Perturbation | None = None,
        weights: ArrayLike | torch.Tensor | None = None,
        normalization: Normalization | None = None,
    ) -> None:
        super().__init__()
        self.head = Perceptron(in_channels, out_channels, hidden, dropout)
        if lam is None:
            if weights is None and (perturbation is not None or solver != "neumann"):
                raise InputError("lam is missing: the filter that solver and perturbation belong to needs a strength.")
        else:
            checks.number("lam", lam, low=0)
        if perturbation is not None and perturbation.factor is not None:
            raise InputError("perturbation has a factor: a network perturbs by the features themselves, leave factor out.")
        self.lam, self.solver, self.perturbation, self.normalization = lam, as_solver(solver), perturbation, normalization
        self.weights = None if weights is None else series.checked_weights(as_numpy(weights))

    def prepare(self, adjacency: Adjacency, x: torch.Tensor) -> torch.Tensor:
        """Filtered features."""
        adjacency = as_adjacency(adjacency, x.shape[0], normalization=self.normalization)
        eps, masked = (0.0, False) if self.perturbation is None else (self.perturbation.eps, self.perturbation.masked)
        out = x
        with torch.no_grad():
            if self.weights is not None:
                out = polynomial(adjacency, x, self.weights.tolist())
            elif self.lam is not None:
                out = filtered(adjacency, x, lam=float(self.lam), solver=self.solver, eps=eps, masked=masked)
        return out

    def views(self, adjacency: Adjacency, x: torch.Tensor, parts: Sequence[np.ndarray]) -> list[tuple[Any, Rows]]:
        """The filtered features of each part alone: an output depends on its own inputs."""
        return [(inputs[rows], slice(None)) for inputs, rows in super().views(adjacency, x, parts)]

    def forward(self, inputs: torch.Tensor, rows: Rows) -> torch.Tensor:
        """Outputs of these nodes."""
        return cast("torch.Tensor", self.head(inputs[rows]))


def dropout(x: torch.Tensor, p: float, training: bool) -> torch.Tensor:
    """``F.dropout``, the mask from a seed that torch's generator draws.

    On a CPU torch draws its masks at about 11 ns per entry: nine tenths of the training of a GCN on dense (noisy) features.
    """
    if not training or p == 0:
        return x
    if x.device.type != "cpu" or p == 1 or x.numel() >= 2**32 or in_transform():
        return F.dropout(x, p, training)
    return _Dropout.apply(x, p, int(torch.randint(2**62, ())))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
        ctx.p, ctx.seed = p, seed
        return _masked(x, p, seed)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return _Dropout.apply(gradients[0], ctx.p, ctx.seed), None, None


def _masked(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    from nareg.gnn import _kernels

    values = x.detach().contiguous()
    out = torch.empty_like(values)
    threshold = round(p * 2**32)
    flat = values.numpy().ravel()
    scale = _kernels.scalar(2**32 / (2**32 - threshold), flat)
    low, high = np.uint32(seed % 2**32), np.uint32(seed >> 32)
    _kernels.dropout(flat, low, high, np.uint32(threshold), scale, out.numpy().ravel())
    return out
