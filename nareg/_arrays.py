"""One interface to NumPy arrays and torch tensors, which imports torch only if it is loaded."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.sparse as sp

#: A NumPy array or a torch tensor, in code written once for both.
Array = Any


def is_tensor(value: object) -> bool:
    """Whether this is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_numpy(value: Any) -> Any:
    """A torch tensor as a NumPy array (a SciPy CSR array where it is sparse), off its device; anything else as it is.

    Half precision, which NumPy or SciPy cannot compute with, becomes float32.
    """
    if not is_tensor(value):
        return value
    import torch

    value = value.detach().cpu()
    if value.dtype in (torch.float16, torch.bfloat16):
        value = value.float()
    if value.layout == torch.strided:
        return value.numpy()
    value = value.to_sparse_coo().coalesce()
    return sp.csr_array(sp.coo_array((value.values().numpy(), value.indices().numpy()), shape=tuple(value.shape)))


def as_tensor(value: Array, **options: Any) -> Any:
    """``torch.as_tensor`` of any array: one that torch warns of (read-only) or refuses (backward in memory) is copied."""
    import torch

    alien = isinstance(value, np.ndarray) and (not value.flags.writeable or any(stride < 0 for stride in value.strides))
    return torch.as_tensor(value.copy() if alien else value, **options)


def empty_like(x: Array) -> Array:
    """A contiguous array of the same kind, shape, dtype and place as x."""
    if isinstance(x, np.ndarray):
        return np.empty(x.shape, x.dtype)
    import torch

    return torch.empty_like(x, memory_format=torch.contiguous_format)
