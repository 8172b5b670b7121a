"""Propagate node features over a graph: the denoiser ``(I + lam L~)^-1 X`` of graph convolution, truncated or exact.

    NGC    Z = 1/(lam+1) sum_{s=0}^{S} [lam/(lam+1) A~]^s X          L~ = I - A~
    RNGC   the same with A~ - eps X X^T / ||X X^T||_F

The truncated series is the published model: at lam = 32 and S = 16 it is far from its limit. ``solver="chebyshev"`` and
``"cg"`` give the limit to a stated accuracy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nareg import _checks
from nareg.errors import InputError
from nareg.gnn import series
from nareg.gnn.adjacency import as_adjacency
from nareg.gnn.ngc import ngc, polynomial
from nareg.gnn.robust import rngc

SOLVERS = ("neumann", "chebyshev", "cg")


def propagate(
    x: Any,
    graph: Any,
    *,
    lam: float = 32.0,
    order: int = 16,
    solver: str = "neumann",
    tol: float = 1e-3,
    eps: float = 0.0,
    masked: bool = False,
    factor: Any = None,
    weights: Any = None,
    edge_weight: Any = None,
    normalization: str | None = None,
    symmetrize: bool = False,
    memo: dict[Any, Any] | None = None,
) -> Any:
    """Filter node features with ``(I + lam (I - A~))^-1``, its truncated Neumann series, or any polynomial in A~.

    Parameters
    ----------
    x : (N, F) float32 or float64 NumPy array or torch tensor
        Features; gradients flow to a tensor that requires them.
    graph : Adjacency, Graph, SciPy or torch sparse (N, N), or ``edge_index`` (2, E)
        See :class:`Adjacency`; prepare one to propagate more than once.
    lam : float
        Strength, at least 0.
    order : int
        S, the last power of A~ in the truncated series (``solver="neumann"``).
    solver : {"neumann", "chebyshev", "cg"}
        ``"neumann"`` is the published truncated series; the others are the filter itself.
    tol : float
        The exact filter's columns are within ``tol`` times the length of the features' columns, as far as their dtype allows;
        for ``normalization="rw"`` with every node weighted by the square root of its degree.
    eps : float
        Size of RNGC's adversarial perturbation, in the Frobenius norm of the Laplacian.
    masked : bool
        Inner products of features on edges (and self-loops) only: for large graphs with dense features.
    factor : (N, K) array or tensor, optional
        Features that the perturbation is made of. Default: x.
    weights : (S + 1,) array or tensor, optional
        Generalized PageRank ``sum_s weights[s] A~^s x`` instead; a tensor of them may require gradients. ``lam``, ``order``,
        ``solver`` and ``eps`` do not apply.
    edge_weight, normalization, symmetrize
        As in :class:`Adjacency`, where ``graph`` is not one already; ``normalization`` is "sym" then, unless told.
    memo : dict, optional
        What is to be remembered of the last features of a perturbation, for a caller that passes the same ones again.

    Returns
    -------
    (N, F) array or tensor of the type of x

    Raises
    ------
    InputError
        For features or graphs that cannot work; :class:`~nareg.errors.DivergentMethodError` for an ``eps`` for which the series
        diverges.

    References
    ----------
    "How Powerful is Implicit Denoising in Graph Neural Networks" (NGC / RNGC, later GADC, ICML 2024), the NGC and RNGC filters.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((3,))
    >>> x = np.array([[1.0], [0.0], [0.0]])
    >>> nareg.gnn.propagate(x, g, lam=1.0, order=2).ravel().round(3)
    array([0.677, 0.145, 0.021])
    >>> nareg.gnn.propagate(x, g, lam=1.0, solver="cg", tol=1e-8).ravel().round(3)
    array([0.718, 0.188, 0.051])
    """
    features = checked_features("x", x)
    adjacency = as_adjacency(
        graph, features.shape[0], edge_weight=edge_weight, normalization=normalization, symmetrize=symmetrize
    )
    if weights is not None:
        return polynomial(features, adjacency, _checked_weights(weights, features))
    lam = _checks.number("lam", lam, low=0)
    order = _checks.integer("order", order, low=0)
    solver = _checks.choice("solver", solver, SOLVERS)
    tol = _checks.number("tol", tol, low=0, high=1, strict=True)
    eps = _checks.number("eps", eps, low=0)
    U = features if factor is None else checked_features("factor", factor)
    if U.shape[0] != features.shape[0] or type(U) is not type(features) or U.dtype != features.dtype:
        raise InputError(f"factor has shape {tuple(U.shape)} and dtype {U.dtype}: rows, type and dtype of x are expected.")
    if eps == 0 or lam == 0 or not bool((U != 0).any()):
        return ngc(features, adjacency, lam=lam, order=order, solver=solver, tol=tol)
    return rngc(features, U, adjacency, lam=lam, order=order, solver=solver, tol=tol, eps=eps, masked=masked, memo=memo)


def _checked_weights(weights: Any, x: Any) -> Any:
    """Weights of powers as numbers, or as a tensor that requires a gradient."""
    learned = getattr(weights, "requires_grad", False)
    if learned and isinstance(x, np.ndarray):
        raise InputError("weights require a gradient but x is a NumPy array: pass a tensor.")
    numbers = series.checked_weights(weights.detach().cpu().numpy() if hasattr(weights, "detach") else weights)
    return weights if learned else numbers.tolist()


def checked_features(name: str, value: Any) -> Any:
    """(N, F) features as they are if they are finite floats of 32 or 64 bits."""
    if not hasattr(value, "detach"):
        array = _checks.floats(name, value, ndim=(2,))
        return np.ascontiguousarray(array)
    import torch

    if value.device.type == "meta":
        raise InputError(f"{name} is a meta tensor, which holds no numbers: pass one on a device.")
    if value.layout != torch.strided:
        raise InputError(f"{name} is a sparse tensor: pass {name}.to_dense().")
    if value.dtype not in (torch.float32, torch.float64):
        raise InputError(f"{name} has dtype {value.dtype}: float32 or float64 is expected, pass {name}.float().")
    if value.ndim != 2:
        raise InputError(f"{name} has shape {tuple(value.shape)}: (nodes, features) is expected.")
    # a sum is finite only if its terms are, and four times as fast to look at
    if not bool(torch.isfinite(value.detach().sum())) and bool((bad := ~torch.isfinite(value.detach())).any()):
        i, j = (int(k) for k in bad.nonzero()[0])
        raise InputError(f"{name}[{i}, {j}] is {float(value[i, j])}: features must be finite; fill or drop what is missing.")
    return value
