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
from nareg.gnn import _cg, _operators, _recurrences, series, spectrum
from nareg.gnn._masked import masked_operator
from nareg.gnn._operators import Operator, Perturbed
from nareg.gnn.adjacency import Adjacency

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
    normalization: str = "sym",
    symmetrize: bool = False,
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
        The exact filter's columns are within ``tol`` times the length of the features' columns.
    eps : float
        Size of RNGC's adversarial perturbation, in the Frobenius norm of the Laplacian.
    masked : bool
        Inner products of features on edges (and self-loops) only: for large graphs with dense features.
    factor : (N, K) array or tensor, optional
        Features that the perturbation is made of. Default: x.
    weights : (S + 1,) array or tensor, optional
        Generalised PageRank ``sum_s weights[s] A~^s x`` instead; a tensor of them may require gradients. ``lam``, ``order``,
        ``solver`` and ``eps`` do not apply.
    edge_weight, normalization, symmetrize
        As in :class:`Adjacency`, where ``graph`` is not one already.

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
    array([0.667, 0.187, 0.021])
    >>> nareg.gnn.propagate(x, g, lam=1.0, solver="cg", tol=1e-8).ravel().round(3)
    array([0.692, 0.189, 0.026])
    """
    features = checked_features("x", x)
    adjacency = as_adjacency(
        graph, features.shape[0], edge_weight=edge_weight, normalization=normalization, symmetrize=symmetrize
    )
    if weights is not None:
        return _generalised(features, adjacency, weights)
    lam = _checks.number("lam", lam, low=0)
    order = _checks.integer("order", order, low=0)
    solver = _checks.choice("solver", solver, SOLVERS)
    tol = _checks.number("tol", tol, low=0, high=1, strict=True)
    eps = _checks.number("eps", eps, low=0)
    U = features if factor is None else checked_features("factor", factor)
    if U.shape[0] != features.shape[0] or type(U) is not type(features) or U.dtype != features.dtype:
        raise InputError(f"factor has shape {tuple(U.shape)} and dtype {U.dtype}: rows, type and dtype of x are expected.")
    if eps == 0 or lam == 0 or not bool((U != 0).any()):
        return _plain(features, adjacency, lam, order, solver, tol)
    if solver != "neumann" and not adjacency.is_symmetric:
        raise InputError(
            f"solver={solver!r} with eps > 0 needs a symmetric matrix: pass normalization='sym', or solver='neumann'."
        )
    if masked:
        return _robust_masked(features, U, adjacency, lam, order, solver, tol, eps)
    return _robust(features, U, adjacency, lam, order, solver, tol, eps)


def as_adjacency(graph: Any, n_nodes: int, **told: Any) -> Adjacency:
    """A prepared adjacency as it is; anything else prepared."""
    if not isinstance(graph, Adjacency):
        return Adjacency(graph, n_nodes=n_nodes, **told)
    if graph.n_nodes != n_nodes:
        raise InputError(f"graph has {graph.n_nodes} nodes but x has {n_nodes} rows: one row of features a node is expected.")
    if told.get("edge_weight") is not None:
        raise InputError("edge_weight goes with edge_index only: the prepared adjacency holds its weights itself.")
    return graph


def checked_features(name: str, value: Any) -> Any:
    """(N, F) features as they are if they are finite floats of 32 or 64 bits."""
    if not hasattr(value, "detach"):
        array = _checks.floats(name, value, ndim=(2,))
        return np.ascontiguousarray(array)
    import torch

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


def _generalised(x: Any, adjacency: Adjacency, weights: Any) -> Any:
    M = _operators.of(adjacency, x)
    if getattr(weights, "requires_grad", False):
        if isinstance(x, np.ndarray):
            raise InputError("weights require a gradient but x is a NumPy array: pass a tensor.")
        from nareg.gnn._autograd import Weighted

        series.checked_weights(weights.detach().cpu().numpy())
        return Weighted.apply(x, weights, M)
    numbers = series.checked_weights(weights.detach().cpu().numpy() if hasattr(weights, "detach") else weights).tolist()
    return linear(x, M, lambda op, X: _recurrences.horner(op, X, numbers))


def linear(x: Any, M: Operator, recurrence: Any) -> Any:
    """A fixed polynomial of an operator applied to features, with the transposed one as its gradient."""
    if isinstance(x, np.ndarray):
        return recurrence(M, x)
    from nareg.gnn._autograd import Linear

    return Linear.apply(x, lambda X: recurrence(M, X), lambda X: recurrence(M.transposed, X))


def _plain(x: Any, adjacency: Adjacency, lam: float, order: int, solver: str, tol: float) -> Any:
    """NGC and its limit."""
    M = _operators.of(adjacency, x)
    if solver == "neumann":
        return linear(x, M, lambda op, X: _recurrences.neumann(op, X, lam=lam, order=order))
    if solver == "chebyshev":  # for "rw" too: similar to the symmetric matrix, and a polynomial asks for no more
        coefficients = series.chebyshev_coefficients(lam, tol).tolist()
        return linear(x, M, lambda op, X: _recurrences.clenshaw(op, X, coefficients))
    if adjacency.is_symmetric:
        return linear(x, M, lambda op, X: _cg.solve(_system(op, lam), X, tol=tol)[0])
    # D~^-1 (A + I) = D~^-1/2 A~ D~^1/2: solve with the symmetric A~
    half = _column(np.sqrt(adjacency.degrees), x)
    symmetric = _operators.of(adjacency.symmetric, x)
    return linear(x * half, symmetric, lambda op, X: _cg.solve(_system(op, lam), X, tol=tol)[0]) / half


def _system(M: Operator, lam: float) -> _cg.Product:
    """``K = (1 + lam) I - lam M``."""
    return lambda P, out: M.multiply_add(P, P, -lam, 1 + lam, out)


def _column(values: np.ndarray, like: Any) -> Any:
    if isinstance(like, np.ndarray):
        return values[:, None].astype(like.dtype)
    import torch

    return torch.as_tensor(values[:, None], dtype=like.dtype, device=like.device)


def gram_norm(U: Any) -> Any:
    """``||U U^T||_F`` from the smaller of the two Gram matrices, and the largest eigenvalue over it."""
    G = U.T @ U if U.shape[1] <= U.shape[0] else U @ U.T
    return (G * G).sum() ** 0.5


def _detached(value: Any) -> Any:
    return value.detach() if hasattr(value, "detach") else value


def _robust(x: Any, U: Any, adjacency: Adjacency, lam: float, order: int, solver: str, tol: float, eps: float) -> Any:
    """RNGC: ``M = A~ - eps U U^T / ||U U^T||_F``."""
    base = _operators.of(adjacency, x)
    if solver == "chebyshev":
        return _woodbury(x, U, adjacency, lam, tol, eps)
    fixed = _detached(U)
    M = Perturbed(base, fixed, eps / float(gram_norm(fixed)))

    def bilinear(Y: Any, Z: Any, V: Any) -> Any:
        return -eps / gram_norm(V) * ((V.T @ Y) * (V.T @ Z)).sum()

    if solver == "neumann":
        sigma = 1.0 if min(U.shape) > 2000 else _largest_share(fixed)
        bound = max(1.0, eps * sigma - spectrum.lowest(adjacency))
        symmetric = adjacency.is_symmetric
        spectrum.check_series(bound if symmetric else np.inf, lam, M, fixed, symmetric=symmetric, eps=eps)
    return _parametric(x, M, bilinear, lam, order, solver, tol, U)


def _largest_share(U: Any) -> float:
    """``||U U^T||_2 / ||U U^T||_F``."""
    G = U.T @ U if U.shape[1] <= U.shape[0] else U @ U.T
    values = np.linalg.eigvalsh(G) if isinstance(G, np.ndarray) else np.linalg.eigvalsh(G.cpu().numpy())
    return float(values[-1] / np.sqrt(np.sum(values**2)))


def _robust_masked(x: Any, U: Any, adjacency: Adjacency, lam: float, order: int, solver: str, tol: float, eps: float) -> Any:
    """RNGC with the inner products on the entries of A~ only, the Frobenius norm of what is left."""
    if solver == "chebyshev":
        raise InputError("solver='chebyshev' has no edge-masked form: pass solver='cg', or masked=False.")
    M, bilinear = masked_operator(adjacency, _detached(U), eps)
    fixed = _detached(U)
    if solver == "cg":
        spectrum.check_definite(M, fixed, lam, eps)
    else:
        spectrum.check_series(1 + eps, lam, M, fixed, symmetric=adjacency.is_symmetric, eps=eps)
    return _parametric(x, M, bilinear, lam, order, solver, tol, U)


def _parametric(x: Any, M: Operator, bilinear: Any, lam: float, order: int, solver: str, tol: float, U: Any) -> Any:
    """Series or solve in an operator that depends on U, with its gradient in U."""
    if isinstance(x, np.ndarray):
        if solver == "neumann":
            return _recurrences.neumann(M, x, lam=lam, order=order)
        return _cg.solve(_system(M, lam), x, tol=tol)[0]
    from nareg.gnn._autograd import PerturbedSeries, Solve

    if solver == "neumann":
        return PerturbedSeries.apply(x, M, bilinear, lam, order, U)
    return Solve.apply(x, _system(M, lam), lambda Y, Z, V: -lam * bilinear(Y, Z, V), tol, None, U)


def _woodbury(x: Any, U: Any, adjacency: Adjacency, lam: float, tol: float, eps: float) -> Any:
    """The exact RNGC filter from the exact NGC filter H: with ``b = lam eps / ||U U^T||_F``,

        (H^-1 + b U U^T)^-1 x = H x - b H U (I + b U^T H U)^-1 U^T H x,

    which for U = x is ``H x (I + b x^T H x)^-1``: NGC followed by an F x F matrix.
    """
    Y = _plain(x, adjacency, lam, 0, "chebyshev", tol)
    V = Y if U is x else _plain(U, adjacency, lam, 0, "chebyshev", tol)
    b = lam * eps / gram_norm(U)
    solve, eye = _linalg(x)
    n, F = U.shape
    if n < F:
        return solve(eye(n) + b * (V @ U.T), Y)
    if U is x:
        small = eye(F) + b * (x.T @ Y)
        return solve((small + small.T) / 2, Y.T).T
    return Y - b * (V @ solve(eye(F) + b * (U.T @ V), U.T @ Y))


def _linalg(like: Any) -> tuple[Any, Any]:
    if isinstance(like, np.ndarray):
        return np.linalg.solve, lambda n: np.eye(n, dtype=like.dtype)
    import torch

    return torch.linalg.solve, lambda n: torch.eye(n, dtype=like.dtype, device=like.device)
