"""The node-adaptive denoiser as a layer: ``(I + diag(w) L diag(w))^-1 X W`` with designed or learned node weights."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch

from nareg._core import checks
from nareg._core.arrays import of_all_entries
from nareg.errors import InputError
from nareg.gnn import _traced
from nareg.gnn._layer_parts import FilterLayer, in_full_precision
from nareg.gnn._node_adaptive_system import node_adaptive_system
from nareg.gnn.adjacency import Adjacency, GraphInput
from nareg.gnn.propagation import checked_features
from nareg.results import WeightDesign
from nareg.typing import ArrayLike

LAPLACIANS = ("augmented", "combinatorial")


class NodeAdaptiveConv(FilterLayer):
    """``(I + diag(w) L diag(w))^-1 X W + b`` with a weight w_i for every node, designed or learned end to end.

    With ``laplacian="augmented"``, ``L = I - D~^-1/2 (A + I) D~^-1/2``, and all weights ``sqrt(lam)`` this is exactly
    NGC's filter without truncation: learning starts there.

    Parameters
    ----------
    in_channels, out_channels : int
        ``in_channels=-1`` takes the width of the first features.
    weights : WeightDesign or (N,) array, optional
        Fixed node weights w, from :mod:`nareg.design` or your own. Default: learned.
    n_nodes : int, optional
        Number of nodes, for learned weights without ``groups``.
    groups : (N,) array of labels, optional
        Nodes with the same label share a learned weight.
    lam : float
        Learning starts from ``w_i^2 = lam``.
    lower : float
        Bound ``w_i^2 >= lower`` of learned weights: ``w_i = sqrt(lower) + softplus(theta_i)``.
    laplacian : {"augmented", "combinatorial"}
        The one that the weights were designed for: "combinatorial" for a design made for a Graph (its default), "augmented"
        for one made for ``Adjacency(graph).augmented_laplacian``, and for all other weights (their default).
    tol : float
        The solve stops at residuals of ``tol`` times the columns' length, forward and backward.
    symmetrize : bool
        True joins nodes where either points at the other, see :class:`Adjacency`.
    bias : bool

    Notes
    -----
    Both passes are solves by conjugate gradients with Jacobi preconditioning, in ``O(edges)`` per step; the gradient in w takes
    one solve and two products, whatever the number of steps. Learned weights have first derivatives only. Weights
    belong to the nodes of one graph: the layer is transductive.

    References
    ----------
    Yang, Coutino, Leus, Isufi, "Node-Adaptive Regularization for Graph Signal Reconstruction", IEEE OJSP 2021, equation (10);
    as a layer with learned weights: new here.

    Examples
    --------
    >>> import torch, nareg
    >>> g = nareg.graphs.grid((3,))
    >>> layer = nareg.gnn.NodeAdaptiveConv(1, 1, weights=[1.0, 0.5, 0.1], laplacian="combinatorial")
    >>> layer(torch.ones(3, 1), g).shape
    torch.Size([3, 1])
    """

    fixed: torch.Tensor
    index: torch.Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        weights: WeightDesign | ArrayLike | None = None,
        n_nodes: int | None = None,
        groups: ArrayLike | None = None,
        lam: float = 32.0,
        lower: float = 1e-3,
        laplacian: Literal["augmented", "combinatorial"] | None = None,
        tol: float = 1e-5,
        symmetrize: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self._set_linear(in_channels, out_channels, symmetrize=symmetrize, bias=bias)
        self.tol = checks.number("tol", tol, low=0, high=1, strict=True)
        self.lower = checks.number("lower", lower, low=0)
        self.lam = checks.number("lam", lam, low=0, strict=True)
        default = "combinatorial" if isinstance(weights, WeightDesign) else "augmented"
        self.laplacian = checks.choice("laplacian", default if laplacian is None else laplacian, LAPLACIANS)
        #: Places and values of the Laplacian that the weights were designed for
        self._designed: tuple[torch.Tensor | None, torch.Tensor | None] = (None, None)
        if weights is not None:
            if n_nodes is not None or groups is not None:
                raise InputError("weights is given: omit n_nodes and groups, which are for learned weights.")
            self.register_buffer("fixed", torch.as_tensor(self._given(weights)))
            self.register_buffer("index", None)
            self.theta = None
        else:
            self.register_buffer("fixed", None)
            index = _groups(groups, n_nodes)
            self.register_buffer("index", torch.as_tensor(index))
            if self.lam <= self.lower:
                raise InputError(
                    f"lam = {self.lam:g} is not above lower = {self.lower:g}: learning starts from w^2 = lam, raise it."
                )
            self.theta = torch.nn.Parameter(torch.empty(int(index.max()) + 1))
        self.reset_parameters()

    def _given(self, weights: Any) -> np.ndarray:
        if not isinstance(weights, WeightDesign):
            return checks.floats("weights", weights, ndim=(1,)).astype(np.float64)
        if weights.has_edge_weights:
            raise InputError("weights is an edge design: a node design (one weight per node) is expected.")
        if weights.data_weight is not None and not np.all(weights.data_weight == 1):
            raise InputError(
                "weights were designed with data_weight, which the layer does not have: design without data_weight."
            )
        penalty = sp.coo_array(weights.penalty)
        self._designed = (torch.as_tensor(np.stack(penalty.coords)).long(), torch.tensor(penalty.data))
        return weights.weights

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw W anew (Glorot), bias zero, learned node weights back to ``sqrt(lam)``."""
        super().reset_parameters(generator)
        if self.theta is not None:
            start = np.sqrt(self.lam) - np.sqrt(self.lower)
            torch.nn.init.constant_(self.theta, float(start + np.log(-np.expm1(-start))))  # softplus^-1

    @property
    def node_weights(self) -> torch.Tensor:
        """Node weights w, (N,)."""
        if self.theta is None:
            return self.fixed
        learned: torch.Tensor = float(np.sqrt(self.lower)) + torch.nn.functional.softplus(self.theta)
        return learned[self.index]

    def denoise(self, graph: GraphInput, x: torch.Tensor) -> torch.Tensor:
        """The denoiser alone, ``(I + diag(w) L diag(w))^-1 x``, without W and bias: (N, F) -> (N, F)."""
        x = checked_features("x", x)
        adjacency = self._last.get(graph, None, x.shape[0], self.normalization, self.symmetrize)
        return in_full_precision(x, lambda z: self._filtered(adjacency, z, z))

    def _filtered(self, adjacency: Adjacency, z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        given = self.laplacian, self._designed, self._last.derived(adjacency)
        system = of_all_entries(lambda like: node_adaptive_system(adjacency, like, *given), z.detach())
        return system.filter(z, self._weights_for(z), self.tol)

    def _traced(self, z: torch.Tensor, x: torch.Tensor, *graph: Any) -> torch.Tensor:
        edges, weights, number, learned = graph
        settings = number, learned, self.symmetrize, self.laplacian, self.tol
        return _traced.node_adaptive_filter(z, self._weights_for(x), edges, weights, *self._designed, *settings)

    def _of_no_nodes(self, z: torch.Tensor) -> torch.Tensor:
        self._weights_for(z)  # refuses them
        return z

    def _weights_for(self, x: torch.Tensor) -> torch.Tensor:
        w = self.node_weights
        if w.shape[0] != x.shape[0]:
            raise InputError(f"the layer has weights for {w.shape[0]} nodes but x has {x.shape[0]} rows: match them.")
        return w

    def extra_repr(self) -> str:
        """What ``repr`` shows."""
        how = "fixed" if self.theta is None else f"{self.theta.numel()} learned"
        return f"{self.in_channels}, {self.out_channels}, {how} node weights, laplacian={self.laplacian!r}"


def _groups(groups: Any, n_nodes: int | None) -> np.ndarray:
    if groups is None:
        if n_nodes is None:
            raise InputError("n_nodes is missing: learned node weights need the number of nodes (or groups, or weights).")
        return np.arange(checks.integer("n_nodes", n_nodes, low=1))
    labels = checks.array_of("groups", groups)
    if labels.ndim != 1 or labels.size == 0:
        raise InputError(f"groups has shape {labels.shape}: one label per node is expected.")
    if n_nodes is not None and labels.size != n_nodes:
        raise InputError(f"groups has {labels.size} labels for {n_nodes} nodes: pass one per node.")
    return np.unique(labels, return_inverse=True)[1].ravel()
