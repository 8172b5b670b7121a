"""What the layers share: their linear part, its width and precision, and the checks of their input."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parameter import UninitializedParameter, is_lazy

from nareg._core import checks
from nareg.errors import InputError
from nareg.gnn._last_graph import LastGraph
from nareg.gnn._reading import without_nodes
from nareg.gnn.adjacency import Adjacency, GraphInput, Normalization
from nareg.gnn.propagation import checked_features

FLOATS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
#: PyTorch Geometric's argument -> (nareg's argument, what to write); the first that the layer has, or no argument at all.
REMEDIES: dict[str, tuple[tuple[str | None, str], ...]] = {
    "K": (("order", "use order"), (None, "omit it, the filter is not truncated")),
    "alpha": (("lam", "use lam = 1 / alpha - 1"),),
    "cached": ((None, "omit it, a layer prepares a graph once and again when it changes"),),
    "add_self_loops": ((None, "omit it, self-loops are always added"),),
    "normalize": (("normalization", "use normalization"), ("laplacian", "use laplacian")),
}


class FilterLayer(torch.nn.Module, ABC):
    """Base of the layers: a linear part, with its checks, before or behind a filter.

    ``weight`` may wait for the width of the first features; it is saved and loaded in either state.
    """

    in_channels: int
    out_channels: int
    symmetrize: bool
    weight: torch.nn.Parameter
    bias: torch.nn.Parameter | None
    normalization: Normalization = "sym"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = _explained(cls.__init__)  # type: ignore[method-assign]

    def _set_linear(self, in_channels: int, out_channels: int, *, symmetrize: bool, bias: bool) -> None:
        """The arguments that all layers have, an empty W, or one that waits for its width, and no graph yet."""
        waits = in_channels == -1 and type(in_channels) is int
        self.in_channels = -1 if waits else checks.integer("in_channels", in_channels, low=1)
        self.out_channels = checks.integer("out_channels", out_channels, low=1)
        self.symmetrize = bool(symmetrize)
        self.weight = (
            UninitializedParameter()  # type: ignore[assignment]
            if waits
            else torch.nn.Parameter(torch.empty(self.in_channels, self.out_channels))
        )
        self.bias = torch.nn.Parameter(torch.empty(out_channels)) if bias else None
        self._last = LastGraph()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw W anew (Glorot), bias zero; W that waits for its width is drawn then."""
        if not is_lazy(self.weight):
            torch.nn.init.xavier_uniform_(self.weight, generator=generator)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    @abstractmethod
    def _filtered(self, adjacency: Adjacency, z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """The filter of z, which is the layer's input x or a linear image of it."""

    @abstractmethod
    def _traced(self, z: torch.Tensor, x: torch.Tensor, *graph: Any) -> torch.Tensor:
        """The same as one operator, for torch.compile and torch.export."""

    def forward(self, x: torch.Tensor, edge_index: GraphInput, edge_weight: torch.Tensor | None = None) -> torch.Tensor:
        """(N, in_channels) features -> (N, out_channels): ``H x W + b``, H on whichever side of W has fewer columns."""
        self._materialize(x)
        x = layer_input(x, self.weight)
        if torch.compiler.is_compiling():
            graph = traced_graph(edge_index, edge_weight)

            def filtered(z: torch.Tensor) -> torch.Tensor:
                return self._traced(z, x, *graph)
        elif not isinstance(edge_index, Adjacency) and without_nodes(edge_index, edge_weight, x.shape[0]):
            filtered = self._of_no_nodes
        else:
            adjacency = self._last.get(edge_index, edge_weight, x.shape[0], self.normalization, self.symmetrize)

            def filtered(z: torch.Tensor) -> torch.Tensor:
                return in_full_precision(z, lambda precise: self._filtered(adjacency, precise, x.to(precise.dtype)))

        if self.weight.shape[1] < self.weight.shape[0]:
            out = filtered(x @ self.weight)
            return out if self.bias is None else out + self.bias.to(out.dtype)
        return filtered(x) @ self.weight if self.bias is None else torch.addmm(self.bias, filtered(x), self.weight)

    def _of_no_nodes(self, z: torch.Tensor) -> torch.Tensor:
        """The filter of features without rows."""
        return z

    def _materialize(self, x: Any) -> None:
        """Give W the width of features, where it waits for it."""
        if self.in_channels != -1:
            return
        if torch.compiler.is_compiling():
            raise InputError("in_channels is -1: call the layer once on features before torch.compile.")
        if isinstance(x, torch.Tensor) and x.ndim == 2 and x.shape[1] > 0:
            self._set_width(x.shape[1])
            FilterLayer.reset_parameters(self)

    def _set_width(self, width: int) -> None:
        self.weight.materialize((width, self.out_channels))  # type: ignore[attr-defined]
        self.in_channels = width

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        if is_lazy(self.weight):  # it has no numbers to detach
            destination[prefix + "weight"] = self.weight
            lazy = self._parameters.pop("weight")
            super()._save_to_state_dict(destination, prefix, keep_vars)
            self._parameters["weight"] = lazy
        else:
            super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        given = state_dict.get(prefix + "weight")
        if is_lazy(self.weight) and given is not None and not is_lazy(given):
            self._set_width(given.shape[0])
        super()._load_from_state_dict(state_dict, prefix, *args)  # type: ignore[no-untyped-call]


def _explained(init: Callable[..., None]) -> Callable[..., None]:
    """An ``__init__`` that names nareg's argument where PyTorch Geometric's is given; its signature stays as it is."""
    own = inspect.signature(init).parameters

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in kwargs.keys() - own.keys() & REMEDIES.keys():
            remedy = next(text for mine, text in REMEDIES[name] if mine is None or mine in own)
            raise TypeError(f"{type(self).__name__} has no argument {name}, as PyTorch Geometric's layers have: {remedy}.")
        init(self, *args, **kwargs)

    return checked


def layer_input(x: Any, weight: torch.Tensor) -> torch.Tensor:
    """Features that fit a layer: a finite tensor of its width, dtype and device."""
    if isinstance(x, (tuple, list, dict)):
        raise InputError(
            f"x is a {type(x).__name__}, as features of several types of nodes: put the layer into PyTorch Geometric's "
            "HeteroConv, for relations from a type to itself."
        )
    if not isinstance(x, torch.Tensor):
        raise InputError(f"x is a {type(x).__name__}, a tensor is expected: pass torch.as_tensor(x).")
    features: torch.Tensor = checked_features("x", x, FLOATS)
    if x.shape[1] != weight.shape[0]:
        raise InputError(f"x has {x.shape[1]} features but the layer takes {weight.shape[0]}: set in_channels.")
    if x.device != weight.device:
        raise InputError(f"x is on {x.device} but the layer on {weight.device}: move one, say layer.to(x.device).")
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise InputError(f"x has dtype {x.dtype} but the layer {weight.dtype}: convert one, say layer.to(x.dtype).")
    return features


def in_full_precision(z: torch.Tensor, filtered: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """A filter of features, in float32 where they have half precision, and without autocast."""
    with torch.autocast(z.device.type, enabled=False):
        return filtered(z.to(torch.promote_types(z.dtype, torch.float32))).to(z.dtype)


def traced_graph(graph: Any, edge_weight: Any) -> tuple[torch.Tensor | None, torch.Tensor | None, int, bool]:
    """A graph as an operator takes it: ``edge_index``, weights, or the number of a prepared adjacency; if it is learned."""
    if isinstance(graph, Adjacency):
        if torch.compiler.is_exporting():
            raise InputError("an Adjacency cannot be exported: pass edge_index, which the exported program takes as input.")
        if edge_weight is not None:
            raise InputError("edge_weight goes with edge_index only: the prepared adjacency has its own weights.")
        return None, None, graph.number, False
    if not isinstance(graph, torch.Tensor) or graph.layout != torch.strided:
        raise InputError("torch.compile and torch.export take edge_index or (compile only) an Adjacency: pass one.")
    return graph, edge_weight, -1, edge_weight is not None and edge_weight.requires_grad
