"""Settings of the backends, which need no library until they are used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nareg._core import checks

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Torch:
    """``backend="torch"`` with a device, a precision and a generator of your choice.

    Parameters
    ----------
    device : str or torch.device, optional
        Default: that of the tensors; for NumPy arrays CUDA where there is one, else the CPU.
    dtype : torch.float32 or torch.float64, optional
        Precision of the iterations. ``float32`` halves the bytes; residuals are computed in float64 and corrected, so that
        ``tol`` holds as in float64. Default: float32 for tensors of single or half precision on an accelerator, else float64.
    generator : torch.Generator, optional
        For the start vectors of eigenvalue estimates on an accelerator. Default: a new one with seed 0.

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
    generator: torch.Generator | None = None


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
