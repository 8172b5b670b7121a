"""NGC and RNGC: a linear layer behind (or before) the graph denoiser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from nareg import _checks
from nareg.errors import InputError
from nareg.gnn._last_graph import LastGraph
from nareg.gnn.adjacency import NORMALIZATIONS, Adjacency, GraphInput, Normalization
from nareg.gnn.propagation import checked_features, filtered
from nareg.gnn.solvers import Neumann, Solver, SolverName, as_solver


class NGC(torch.nn.Module):
    """Neumann graph convolution: ``1/(lam+1) sum_{s=0}^{S} [lam/(lam+1) A~]^s X W + b``.

    Propagation is linear: it is applied on whichever side of W has fewer columns.

    Parameters
    ----------
    in_channels, out_channels : int
    order : int
        S, the last power of A~ in the truncated series of ``solver="neumann"``.
    lam : float
        Strength of the denoiser.
    solver : {"neumann", "chebyshev", "cg"} or Neumann, Chebyshev, ConjugateGradients
        The published truncated series, or the filter ``(I + lam (I - A~))^-1`` itself, see :func:`propagate`.
    normalization : {"sym", "rw"}
        See :class:`Adjacency`; a prepared adjacency has its own.
    bias : bool

    Notes
    -----
    Call it as ``layer(x, edge_index, edge_weight=None)`` with x (N, in_channels), and ``edge_index`` (2, E) or any other form
    of a graph that :class:`Adjacency` takes. It returns (N, out_channels). Features are checked once per call.

    References
    ----------
    "How Powerful is Implicit Denoising in Graph Neural Networks", Section 2 (NGC).

    Examples
    --------
    >>> import torch, nareg
    >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> nareg.gnn.NGC(4, 2)(torch.ones(3, 4), edge_index).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        order: int = 16,
        lam: float = 32.0,
        solver: Solver | SolverName = "neumann",
        normalization: Normalization = "sym",
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.in_channels = _checks.integer("in_channels", in_channels, low=1)
        self.out_channels = _checks.integer("out_channels", out_channels, low=1)
        self.lam = _checks.number("lam", lam, low=0)
        self.solver = _layer_solver(solver, order)
        _checks.choice("normalization", normalization, NORMALIZATIONS)
        self.normalization = normalization
        self.weight = torch.nn.Parameter(torch.empty(in_channels, out_channels))
        self.bias = torch.nn.Parameter(torch.empty(out_channels)) if bias else None
        self._last = LastGraph()
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw W anew (Glorot), bias zero."""
        torch.nn.init.xavier_uniform_(self.weight, generator=generator)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def _filtered(self, adjacency: Adjacency, z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """The filter of z, which is the layer's input x or a linear image of it."""
        out: torch.Tensor = filtered(adjacency, z, lam=self.lam, solver=self.solver)
        return out

    def forward(self, x: torch.Tensor, edge_index: GraphInput, edge_weight: torch.Tensor | None = None) -> torch.Tensor:
        """(N, in_channels) features -> (N, out_channels)."""
        x = layer_input(x, self.weight)
        adjacency = self._last.get(edge_index, edge_weight, x.shape[0], self.normalization)
        return project(x, self.weight, self.bias, lambda z: self._filtered(adjacency, z, x))

    def extra_repr(self) -> str:
        """What ``repr`` shows."""
        return f"{self.in_channels}, {self.out_channels}, lam={self.lam:g}, solver={self.solver!r}"


class RNGC(NGC):
    """Robust NGC: ``A~ - eps X X^T / ||X X^T||_F`` in the place of A~, the worst perturbation of the Laplacian of that size.

    With the filter itself (``solver="chebyshev"``) the result is NGC's times an invertible F x F matrix: what W can undo.

    Parameters
    ----------
    in_channels, out_channels, order, lam, solver, normalization, bias
        As for :class:`NGC`.
    eps : float
        Size of the perturbation in the Frobenius norm of the Laplacian. A series that it makes diverge is refused.
    masked : bool
        Inner products of features on edges only, for large graphs with dense features.

    References
    ----------
    "How Powerful is Implicit Denoising in Graph Neural Networks", Section 4 (RNGC), with the corrections in the theory page.

    Examples
    --------
    >>> import torch, nareg
    >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> nareg.gnn.RNGC(2, 2, lam=4.0, order=4, eps=0.5)(torch.eye(3, 2), edge_index).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        order: int = 16,
        lam: float = 32.0,
        eps: float = 1.0,
        masked: bool = False,
        solver: Solver | SolverName = "neumann",
        normalization: Normalization = "sym",
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, order=order, lam=lam, solver=solver, normalization=normalization, bias=bias)
        self.eps = _checks.number("eps", eps, low=0)
        self.masked = bool(masked)

    def _filtered(self, adjacency: Adjacency, z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """The filter of z, perturbed by the layer's input x."""
        out: torch.Tensor = filtered(
            adjacency, z, lam=self.lam, solver=self.solver, eps=self.eps, masked=self.masked, factor=x,
            memo=self._last.derived.setdefault("memo", {}),
        )  # fmt: skip
        return out

    def extra_repr(self) -> str:
        """What ``repr`` shows."""
        return f"{super().extra_repr()}, eps={self.eps:g}"


def _layer_solver(solver: Solver | SolverName, order: int) -> Solver:
    """The solver of a layer, whose series has ``order`` powers."""
    order = _checks.integer("order", order, low=0)
    if solver == "neumann":
        return Neumann(order)
    chosen = as_solver(solver)
    if isinstance(chosen, Neumann) and order not in (16, chosen.order):
        raise InputError(f"order is {order} but solver is {chosen}: leave one of them out.")
    return chosen


def layer_input(x: Any, weight: torch.Tensor) -> torch.Tensor:
    """Features that fit a layer: a finite tensor of its width and dtype."""
    if not isinstance(x, torch.Tensor):
        raise InputError(f"x is a {type(x).__name__}, a tensor is expected: pass torch.as_tensor(x).")
    features: torch.Tensor = checked_features("x", x)
    if x.shape[1] != weight.shape[0]:
        raise InputError(f"x has {x.shape[1]} features but the layer takes {weight.shape[0]}: set in_channels.")
    if x.dtype != weight.dtype:
        raise InputError(f"x has dtype {x.dtype} but the layer {weight.dtype}: convert one, say layer.to(x.dtype).")
    return features


def project(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, filtered: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """``H x W + b``, the filter H on whichever side of W has fewer columns."""
    if weight.shape[1] < weight.shape[0]:
        out = filtered(x @ weight)
        return out if bias is None else out + bias
    return filtered(x) @ weight if bias is None else torch.addmm(bias, filtered(x), weight)
