"""The library that solves a filter system: SciPy with our compiled loops, torch, or PETSc.

Each other backend is a private package beside this file, imported only where it is named or needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, get_args

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._core.imports import needed
from nareg._solvers.engines import Backend, Engines
from nareg._solvers.iterate import Callback
from nareg._solvers.system import FilterSystem, Penalty
from nareg._storage.graph_files import StoredGraph
from nareg.errors import InputError
from nareg.progress import ProgressCallback
from nareg.results import Solution, WeightDesign

if TYPE_CHECKING:
    import torch

    from nareg._solvers._petsc.systems import PetscSystems
    from nareg._solvers._torch import TorchEngines
    from nareg._solvers._torch._systems import TimeSystem, TorchEdges, TorchSystems

__all__ = [
    "BACKENDS", "BackendLike", "BackendName", "Disk", "Petsc", "SolverBackend", "StoredBackend", "StoredLike", "Torch",
    "alike_on_all_ranks", "check_solver_backend", "checking", "checking_in_step", "denoise_stored", "is_stored", "open_backend",
    "open_systems", "open_torch", "open_torch_edges", "open_torch_time", "propagate_stored", "stored_backend",
]  # fmt: skip


@dataclass(frozen=True)
class Torch:
    """``backend="torch"`` with a device and a precision of your choice.

    Parameters
    ----------
    device : str or torch.device, optional
        Default: that of the tensors; for NumPy arrays CUDA where there is one, else the CPU.
    dtype : torch.float32 or torch.float64, optional
        Precision of the iterations. ``float32`` halves the bytes; residuals are computed in float64 and corrected, so that
        ``tol`` holds as in float64. Default: float32 for tensors of single or half precision on an accelerator, else float64.

    Examples
    --------
    >>> import numpy as np, nareg, torch
    >>> from nareg.filters import Torch
    >>> single = Torch(device="cpu", dtype=torch.float32)
    >>> nareg.filters.denoise(nareg.graphs.grid((2, 2)), 1.0, np.array([1.0, 0, 0, 1]), backend=single).x.round(3)
    array([0.6, 0.4, 0.4, 0.6])
    """

    device: str | torch.device | None = None
    dtype: torch.dtype | None = None


@dataclass(frozen=True)
class Disk:
    """A graph in a folder, read in parts, with memory of your choice.

    Parameters
    ----------
    memory : int, optional
        Bytes for arrays. More columns are then worked on at a time and the edges read less often. Default: two fifths of
        the bytes of graph and signals.
    """

    memory: int | None = None


@dataclass(frozen=True)
class Petsc:
    """``backend="petsc"`` with a partition and a multigrid of your choice.

    Parameters
    ----------
    partition : {"none", "ptscotch", "parmetis"}
        Of a graph in a folder. ``"none"`` gives each rank an even piece of the nodes in the file's order. The others move nodes
        between ranks for fewer edges between them, which pays where the file's order is scattered.
    multigrid : {"gamg", "hypre"}
        What ``method="multigrid"`` is.
    """

    partition: Literal["none", "ptscotch", "parmetis"] = "none"
    multigrid: Literal["gamg", "hypre"] = "gamg"

    def __post_init__(self) -> None:
        checks.choice("partition", self.partition, ("none", "ptscotch", "parmetis"))
        checks.choice("multigrid", self.multigrid, ("gamg", "hypre"))

    def named(self, method: str) -> str:
        """PETSc's name of a method."""
        return self.multigrid if method == "multigrid" else method


P = ParamSpec("P")
Design = TypeVar("Design", bound=WeightDesign)

BackendName = Literal["auto", "scipy", "torch", "petsc"]
BACKENDS = get_args(BackendName)
BackendLike = BackendName | Torch | Disk | Petsc
#: A graph in a folder, and what works on one.
StoredLike = StoredGraph | str | os.PathLike[str]
StoredBackend = Literal["auto", "petsc"] | Disk | Petsc
#: Designs have no tensors to tell a library from: it is named.
SolverBackend = Literal["scipy", "torch", "petsc"] | Torch


def open_backend(backend: BackendLike, system: FilterSystem, *, many: bool) -> Backend:
    """The system in the hands of the library of this name; ``many`` says that many solves follow."""
    if isinstance(backend, Torch):
        return open_torch(backend, Engines(system, many=many))
    if isinstance(backend, Disk):
        raise InputError("backend is Disk, but the graph is in memory: pass the folder of Graph.save, or backend='auto'.")
    checks.choice("backend", backend, BACKENDS)
    if backend == "torch":
        return open_torch(Torch(), Engines(system, many=many))
    if backend == "petsc":
        from nareg._solvers._petsc.choice import PetscEngines

        return PetscEngines(system)
    return Engines(system, many=many)


def open_torch(options: Torch, host: Engines, weights: object = None, data_weight: object = None) -> TorchEngines:
    """The system on torch; ``host`` solves on the CPU. Tensors among ``weights`` and ``data_weight`` may ask for gradients."""
    with needed("torch", "backend='torch' needs torch", extra="torch"):
        from nareg._solvers._torch import TorchEngines
    return TorchEngines(host, options, weights=weights, data_weight=data_weight)


def open_systems(
    backend: Literal["torch", "petsc"] | Torch, base: Penalty, c: np.ndarray, *, mesh_like: bool, tol: float
) -> TorchSystems | PetscSystems:
    """``C + diag(w) L diag(w)`` for one w after another, as descents need it; the diagonal of L is stored."""
    if backend == "petsc":
        from nareg._solvers._petsc.systems import PetscSystems

        return PetscSystems(base, c, mesh_like=mesh_like, tol=tol)
    with needed("torch", "backend='torch' needs torch", extra="torch"):
        from nareg._solvers._torch._systems import TorchSystems
    options = Torch() if isinstance(backend, str) else backend
    return TorchSystems(base, c, options, mesh_like=mesh_like, tol=tol)


def open_torch_edges(
    c: np.ndarray, i: np.ndarray, j: np.ndarray, order: np.ndarray | None, options: Torch, *, tol: float
) -> TorchEdges:
    """``C + S`` for the weights of these edges, one after another, on torch."""
    with needed("torch", "backend='torch' needs torch", extra="torch"):
        from nareg._solvers._torch._systems import TorchEdges
    return TorchEdges(c, i, j, order, options, tol=tol)


def open_torch_time(
    K: sp.csr_array, C: np.ndarray, ends: float, middle: float, beside: float, eigenvalues: np.ndarray, options: Torch
) -> TimeSystem:
    """The space-time system of a large network on torch."""
    with needed("torch", "backend='torch' needs torch", extra="torch"):
        from nareg._solvers._torch._systems import TimeSystem
    return TimeSystem(K, C, ends, middle, beside, eigenvalues, options)


def check_solver_backend(backend: SolverBackend) -> str:
    """The name of a design's library."""
    if isinstance(backend, Torch):
        return "torch"
    checks.choice("backend", backend, get_args(get_args(SolverBackend)[0]))
    return backend


def alike_on_all_ranks(design: Callable[P, Design]) -> Callable[P, Design]:
    """Decorator of designs that take ``backend``: with PETSc all ranks fail, stop and end together, with the same weights."""

    @wraps(design)
    def call(*arguments: P.args, **options: P.kwargs) -> Design:
        with checking_in_step(options.get("backend")) as compared:
            result = design(*arguments, **options)
            compared["the weights of the design"] = result.weights
        return result

    return call


def checking_in_step(backend: object) -> AbstractContextManager[dict[str, Any]]:
    """Long work that all ranks of PETSc's do alike: what fails on one, or Ctrl-C there, ends it on all.

    What is put into the dictionary is compared between ranks at the end.
    """
    if backend != "petsc":
        return nullcontext({})
    from nareg._solvers._petsc.ranks import in_step, load

    return in_step(load().comm)


def checking(backend: BackendLike) -> AbstractContextManager[dict[str, Any]]:
    """Where a user's input is checked: what fails on one rank of PETSc's fails on all, so that none waits for it.

    What is put into the dictionary is compared between ranks afterwards.
    """
    if backend != "petsc":
        return nullcontext({})
    from nareg._solvers._petsc.ranks import agreed, load

    return agreed(load().comm)


def is_stored(graph: object) -> bool:
    """Whether this names a graph in a folder."""
    return isinstance(graph, (StoredGraph, str, os.PathLike))


def stored_backend(backend: object, out: object) -> Disk | Petsc:
    """What works on a graph in a folder."""
    if out is None:
        raise InputError("graph is in a folder, out is None: name the .npy file for the result.")
    if isinstance(backend, (Disk, Petsc)):
        return backend
    if not isinstance(backend, str) or backend not in ("auto", "petsc"):
        raise InputError(f"backend is {backend!r}: a graph in a folder takes 'auto', 'petsc', Disk(...) or Petsc(...).")
    return Petsc() if backend == "petsc" else Disk()


def denoise_stored(
    graph: StoredLike, weights: Any, y: Any, out: str | os.PathLike[str] | None, *, data_weight: Any, method: str,
    backend: object, tol: float, max_iterations: int | None, callback: Callback | None,
) -> Solution:  # fmt: skip
    """What :func:`nareg.filters.denoise` does with a graph in a folder: read in parts, by this process or by all ranks."""
    options = stored_backend(backend, out)
    assert out is not None
    if isinstance(options, Petsc):
        from nareg._solvers._petsc import stored

        return stored.denoise(
            graph, weights, y, out, data_weight=data_weight, method=method, options=options, tol=tol,
            max_iterations=max_iterations, callback=callback,
        )  # fmt: skip
    from nareg._solvers import _disk

    checks.choice("method", method, ("auto", "cg"))
    tol = checks.number("tol", tol, low=0, strict=True)
    limit = 10_000 if max_iterations is None else checks.integer("max_iterations", max_iterations, low=1)
    graph = graph if isinstance(graph, StoredGraph) else StoredGraph(graph)
    return _disk.denoise(
        graph, weights, y, out, data_weight=data_weight, tol=tol, max_iterations=limit, memory=options.memory, callback=callback
    )


def propagate_stored(
    graph: StoredLike, x: Any, out: str | os.PathLike[str], coefficients: np.ndarray, *, loops: bool, options: Disk | Petsc,
    progress: ProgressCallback | None,
) -> np.ndarray:  # fmt: skip
    """Polynomials in the normalized adjacency of a graph in a folder, with a self-loop at every node or at isolated ones."""
    if isinstance(options, Petsc):
        from nareg._solvers._petsc.stored import propagate

        return propagate(graph, x, out, coefficients, loops=loops, options=options, progress=progress)
    from nareg._solvers import _disk

    graph = graph if isinstance(graph, StoredGraph) else StoredGraph(graph)
    return _disk.propagate(graph, x, out, coefficients, loops=loops, memory=options.memory, progress=progress)
