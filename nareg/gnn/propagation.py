"""Propagate node features over a graph: the denoiser ``(I + lam L~)^-1 X`` of graph convolution, truncated or exact.

    NGC    Z = 1/(lam+1) sum_{s=0}^{S} [lam/(lam+1) A~]^s X          L~ = I - A~
    RNGC   the same with A~ - eps X X^T / ||X X^T||_F

The truncated series is the published model: at lam = 32 and S = 16 it is far from its limit. ``solver="chebyshev"`` and
``"cg"`` give the limit to a stated accuracy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np

from nareg._core import checks
from nareg._core.arrays import as_numpy, differentiated, eagerly, is_tensor, of_all_entries, outside_transforms
from nareg._solvers.backends import StoredBackend, StoredLike, is_stored, propagate_stored, stored_backend
from nareg.errors import InputError
from nareg.gnn import series
from nareg.gnn.adjacency import Adjacency, GraphInput, as_adjacency
from nareg.gnn.ngc import ngc, polynomial
from nareg.gnn.robust import Memo, rngc
from nareg.gnn.solvers import Neumann, Perturbation, Solver, SolverName, as_solver
from nareg.io import takes_tables
from nareg.progress import ProgressCallback
from nareg.typing import ArrayLike, Features

if TYPE_CHECKING:
    import torch

#: Whether features are looked at for numbers that are not finite.
_look = ContextVar("look", default=True)
#: What comes back is of the kind that was passed.
T = TypeVar("T", np.ndarray, "torch.Tensor")


@eagerly
@takes_tables(rows=("x",))
def propagate(
    graph: GraphInput | StoredLike,
    x: T | str | os.PathLike[str],
    *,
    lam: float = 32.0,
    solver: Solver | SolverName = "neumann",
    perturbation: Perturbation | None = None,
    weights: ArrayLike | Features | None = None,
    out: str | os.PathLike[str] | None = None,
    backend: StoredBackend = "auto",
    normalization: Literal["augmented", "normalized"] = "augmented",
    progress: ProgressCallback | None = None,
) -> T:
    """Filter node features with ``(I + lam (I - A~))^-1``, its truncated Neumann series, or any polynomial in A~.

    Parameters
    ----------
    graph : Adjacency, Graph, SciPy or torch sparse (N, N), or ``edge_index`` (2, E)
        See :class:`Adjacency`. Prepare one to propagate more than once, and for edge weights, another normalization or a
        directed graph. A folder that ``nareg convert`` or :meth:`nareg.Graph.save` wrote is read in parts, or with
        ``backend="petsc"`` by all ranks of MPI: series, and any polynomial, of features in an ``.npy`` file or an array.
    x : (N, F) float32 or float64 NumPy array or torch tensor
        Features. Gradients flow to a tensor that requires them.
    lam : float
        Strength, at least 0.
    solver : {"neumann", "chebyshev", "cg"} or Neumann, Chebyshev, ConjugateGradients
        ``"neumann"`` is the published series, truncated after 16 powers; the others give the filter itself to 1e-3. Pass an
        object for another order or accuracy: ``Neumann(order=64)``, ``Chebyshev(tol=1e-6)``.
    perturbation : Perturbation, optional
        RNGC's adversarial perturbation of A~.
    weights : (S + 1,) array or tensor, optional
        Generalized PageRank ``sum_s weights[s] A~^s x`` in the place of the filter; a tensor may require gradients. ``lam``,
        ``solver`` and ``perturbation`` do not apply. :mod:`nareg.gnn.series` has coefficients.
    out : path, optional
        ``.npy`` file for the result, where ``graph`` is a folder. It appears whole or not at all.
    backend : {"auto", "petsc"}, Disk or Petsc
        Of a folder: see :func:`nareg.filters.denoise`.
    normalization : {"augmented", "normalized"}
        Of a folder: ``A~ = (D + I)^-1/2 (A + I) (D + I)^-1/2``, or ``D^-1/2 A D^-1/2`` with a one for isolated nodes.
    progress : callable, optional
        Of a folder: receives a :class:`nareg.progress.Progress` for every product.

    Returns
    -------
    (N, F) array or tensor of the type and dtype of x
        Of a folder the file ``out``, memory-mapped for reading.

    Raises
    ------
    InputError
        If features or graph cannot work.
    DivergentMethodError
        If the perturbation is so large that the series diverges.

    References
    ----------
    "How Powerful is Implicit Denoising in Graph Neural Networks" (NGC / RNGC, later GADC, ICML 2024), the NGC and RNGC filters.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((3,))
    >>> x = np.array([[1.0], [0.0], [0.0]])
    >>> nareg.gnn.propagate(g, x, lam=1.0, solver=nareg.gnn.Neumann(order=2)).ravel().round(3)
    array([0.677, 0.145, 0.021])
    >>> nareg.gnn.propagate(g, x, lam=1.0, solver=nareg.gnn.ConjugateGradients(tol=1e-8)).ravel().round(3)
    array([0.718, 0.188, 0.051])
    """
    if is_stored(graph):
        if perturbation is not None:
            raise InputError("perturbation is given, but graph is in a folder: load it with nareg.Graph.load, or omit it.")
        coefficients = _coefficients(lam, solver) if weights is None else weights
        stored: Any = _stored(cast(StoredLike, graph), x, coefficients, out, backend, normalization, progress)
        return stored
    if out is not None:
        raise InputError(f"out is {str(out)!r}, but the graph is in memory: omit out, and save the result.")
    if backend != "auto":
        raise InputError(f"backend is {backend!r}, but the graph is in memory: omit backend, or pass a folder.")
    if normalization != "augmented":
        raise InputError(
            f"normalization is {normalization!r}, but the graph is in memory: pass "
            "nareg.gnn.Adjacency(graph, normalization=...) in its place, which takes 'sym' and 'rw'."
        )
    features = checked_features("x", x)
    if not features.shape[0]:
        raise InputError("x has no rows: pass the features of one node or more.")
    adjacency = as_adjacency(cast("GraphInput", graph), features.shape[0])
    if weights is not None:
        return polynomial(adjacency, features, _checked_weights(weights, features))
    lam = checks.number("lam", lam, low=0)
    solver = as_solver(solver)
    if perturbation is None:
        perturbation = Perturbation(0.0)
    factor = None if perturbation.factor is None else _checked_factor(perturbation.factor, features)
    return filtered(
        adjacency, features, lam=lam, solver=solver, eps=perturbation.eps, masked=perturbation.masked, factor=factor
    )


def _coefficients(lam: float, solver: Solver | SolverName) -> np.ndarray:
    """Of the series that a solver is."""
    solver = as_solver(solver)
    if not isinstance(solver, Neumann):
        raise InputError(f"solver is {solver}, but graph is in a folder: take Neumann(order), or weights.")
    lam = checks.number("lam", lam, low=0)
    return series.neumann_weights(lam, solver.order) * (solver.factor(lam) if solver.unit_gain else 1.0)


def _stored(
    graph: StoredLike, x: Any, weights: Any, out: Any, backend: StoredBackend, normalization: str,
    progress: ProgressCallback | None,
) -> np.ndarray:  # fmt: skip
    """:func:`propagate` for a graph in a folder."""
    options = stored_backend(backend, out)
    coefficients = series.checked_weights(as_numpy(weights))
    loops = checks.choice("normalization", normalization, ("augmented", "normalized")) == "augmented"
    return propagate_stored(graph, x, out, coefficients, loops=loops, options=options, progress=progress)


def filtered(
    adjacency: Adjacency,
    x: Any,
    *,
    lam: float,
    solver: Solver,
    eps: float = 0.0,
    masked: bool = False,
    factor: Any = None,
    memo: Memo | None = None,
) -> Any:
    """What :func:`propagate` computes, for callers that have checked their arguments."""
    U = x if factor is None else factor
    if eps == 0 or lam == 0:
        out = ngc(adjacency, x, lam=lam, solver=solver)
    else:
        out = rngc(adjacency, x, U, lam=lam, solver=solver, eps=eps, masked=masked, memo=memo)
    if isinstance(solver, Neumann) and solver.unit_gain:
        return out * solver.factor(lam)
    return out


def _checked_weights(weights: Any, x: Any) -> Any:
    """Weights of powers as numbers, or as a tensor that requires a gradient."""
    learned = differentiated(weights)
    if learned and isinstance(x, np.ndarray):
        raise InputError("weights require a gradient but x is a NumPy array: pass a tensor.")
    return weights if learned else series.checked_weights(as_numpy(weights)).tolist()


def _checked_factor(factor: Any, x: Any) -> Any:
    U = checked_features("factor", factor)
    if U.shape[0] != x.shape[0] or type(U) is not type(x) or U.dtype != x.dtype:
        raise InputError(f"factor has shape {tuple(U.shape)} and dtype {U.dtype}: rows, type and dtype of x are expected.")
    return U


@contextmanager
def values_checked() -> Iterator[None]:
    """Within a loop over features that were looked at before it: a look at their values waits for the device."""
    token = _look.set(False)
    try:
        yield
    finally:
        _look.reset(token)


def checked_features(name: str, value: Any, dtypes: Sequence[Any] | None = None) -> Any:
    """(N, F) features as they are if they are finite floats of 32 or 64 bits, or of the given dtypes."""
    if not is_tensor(value):
        return np.ascontiguousarray(checks.floats(name, value, ndim=(2,)))
    import torch

    if value.device.type == "meta":
        raise InputError(f"{name} is a meta tensor, which holds no numbers: pass one on a device.")
    if value.layout != torch.strided:
        raise InputError(f"{name} is a sparse tensor: pass {name}.to_dense().")
    if value.dtype not in (dtypes or (torch.float32, torch.float64)):
        raise InputError(f"{name} has dtype {value.dtype}: float32 or float64 is expected, pass {name}.float().")
    if value.ndim != 2:
        raise InputError(f"{name} has shape {tuple(value.shape)}: (nodes, features) is expected.")
    if torch.compiler.is_compiling() or not _look.get():  # an operator looks when it runs
        return value
    # a sum is finite only if its terms are, and four times as fast to look at
    finite = of_all_entries(lambda values: bool(torch.isfinite(values.sum())), value.detach())
    if not finite and bool((bad := outside_transforms(lambda values: ~torch.isfinite(values), value.detach())).any()):
        i, j = (int(k) for k in bad.nonzero()[0])
        raise InputError(f"{name}[{i}, {j}] is {float(value[i, j])}: features must be finite; fill or drop what is missing.")
    return value
