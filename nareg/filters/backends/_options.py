"""Settings of the torch backend, which need no torch until they are used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    >>> from nareg.filters.backends import Torch
    >>> single = Torch(device="cpu", dtype=torch.float32)
    >>> nareg.filters.denoise(nareg.graphs.grid((2, 2)), 1.0, np.array([1.0, 0, 0, 1]), backend=single).x.round(3)
    array([0.6, 0.4, 0.4, 0.6])
    """

    device: str | torch.device | None = None
    dtype: torch.dtype | None = None
    generator: torch.Generator | None = None
