"""NGC and RNGC: a linear layer behind (or before) the graph denoiser."""

from __future__ import annotations

from typing import Any

import torch

from nareg._core import checks
from nareg.errors import InputError
from nareg.gnn import _traced
from nareg.gnn._layer_parts import FilterLayer
from nareg.gnn.adjacency import NORMALIZATIONS, Adjacency, Normalization
from nareg.gnn.propagation import filtered
from nareg.gnn.solvers import Neumann, Solver, SolverName, as_solver


class NGC(FilterLayer):
    """Neumann graph convolution: ``1/(lam+1) sum_{s=0}^{S} [lam/(lam+1) A~]^s X W + b``.

    Propagation is linear: it is applied on whichever side of W has fewer columns.

    Parameters
    ----------
    in_channels, out_channels : int
        ``in_channels=-1`` takes the width of the first features.
    order : int
        S, the last power of A~ in the truncated series of ``solver="neumann"``. PyTorch Geometric's layers call it ``K``.
    lam : float
        Strength of the denoiser: ``1 / alpha - 1`` for the ``alpha`` of PyTorch Geometric's layers.
    solver : {"neumann", "chebyshev", "cg"} or Neumann, Chebyshev, ConjugateGradients
        The published truncated series, or the filter ``(I + lam (I - A~))^-1`` itself, see :func:`propagate`.
    normalization : {"sym", "rw"}
        See :class:`Adjacency`; a prepared adjacency has its own.
    symmetrize : bool
        True joins nodes where either points at the other, as sampled subgraphs need; False refuses a directed graph.
    bias : bool

    Notes
    -----
    The defaults are those of the published model, so that its results repeat: at ``lam=32`` 16 powers give the smoothest
    features 41 % of what the filter gives. Pass ``solver="chebyshev"`` for the filter itself, above all with noisy features.

    Call it as ``layer(x, edge_index, edge_weight=None)`` with x (N, in_channels), and ``edge_index`` (2, E) or any other form
    of a graph that :class:`Adjacency` takes. It returns (N, out_channels). Features are checked once per call. Gradients flow
    to features, parameters and ``edge_weight``; with an ``edge_weight`` that requires one there are no second derivatives.
    Half precision and autocast round the linear layer only: the filter computes in float32.

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
        symmetrize: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self._set_linear(in_channels, out_channels, symmetrize=symmetrize, bias=bias)
        self.lam = checks.number("lam", lam, low=0)
        self.solver = _layer_solver(solver, order)
        checks.choice("normalization", normalization, NORMALIZATIONS)
        self.normalization = normalization
        self.reset_parameters()

    def _filtered(self, adjacency: Adjacency, z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return filtered(adjacency, z, lam=self.lam, solver=self.solver)

    def _traced(self, z: torch.Tensor, x: torch.Tensor, *graph: Any) -> torch.Tensor:
        return _traced.graph_filter(z, None, *graph, *self._settings, 0.0, False)

    @property
    def _settings(self) -> tuple[Any, ...]:
        return (self.normalization, self.symmetrize, self.lam, *_traced.solver_settings(self.solver))

    def extra_repr(self) -> str:
        """What ``repr`` shows."""
        return f"{self.in_channels}, {self.out_channels}, lam={self.lam:g}, solver={self.solver!r}"


class RNGC(NGC):
    """Robust NGC: ``A~ - eps X X^T / ||X X^T||_F`` in the place of A~, the worst perturbation of the Laplacian of that size.

    Features that require a gradient have first derivatives only, unless the filter is solved by ``"chebyshev"``.

    With the filter itself (``solver="chebyshev"``) the result is NGC's times an invertible F x F matrix: what W can undo.

    The perturbation is of all rows of x together: graphs in one batch change each other's results.

    Parameters
    ----------
    in_channels, out_channels, order, lam, solver, normalization, symmetrize, bias
        As for :class:`NGC`.
    eps : float
        Size of the perturbation in the Frobenius norm of the Laplacian. A series that it makes diverge is refused.
    masked : bool
        Inner products of features on edges and self-loops only, for large graphs with dense features. They are divided by their
        own Frobenius norm, so that ``eps`` is the size of what is added (the paper does not say).

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
        symmetrize: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__(
            in_channels, out_channels, order=order, lam=lam, solver=solver, normalization=normalization,
            symmetrize=symmetrize, bias=bias,
        )  # fmt: skip
        self.eps = checks.number("eps", eps, low=0)
        self.masked = bool(masked)

    def _filtered(self, adjacency: Adjacency, z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """The filter of z, perturbed by the layer's input x."""
        return filtered(
            adjacency, z, lam=self.lam, solver=self.solver, eps=self.eps, masked=self.masked, factor=x,
            memo=self._last.derived(adjacency).setdefault("memo", {}),
        )  # fmt: skip

    def _traced(self, z: torch.Tensor, x: torch.Tensor, *graph: Any) -> torch.Tensor:
        return _traced.graph_filter(z, x, *graph, *self._settings, self.eps, self.masked)

    def extra_repr(self) -> str:
        """What ``repr`` shows."""
        return f"{super().extra_repr()}, eps={self.eps:g}"


def _layer_solver(solver: Solver | SolverName, order: int) -> Solver:
    """The solver of a layer, whose series has ``order`` powers."""
    order = checks.integer("order", order, low=0)
    if solver == "neumann":
        return Neumann(order)
    chosen = as_solver(solver)
    if isinstance(chosen, Neumann) and order not in (16, chosen.order):
        raise InputError(f"order is {order} but solver is {chosen}: leave one of them out.")
    return chosen
