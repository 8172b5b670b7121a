"""Devices and dtypes, sparse matrices on a device, linear maps, and memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from nareg._core import checks as _checks
from nareg.errors import InputError, TooLargeError

Apply = Callable[[torch.Tensor], torch.Tensor]
#: Columns solved together on the CPU, whose caches more would leave; an accelerator takes all.
BLOCK = 16

#: Largest index that fits the narrow type, which halves the bytes of a sparse product's indices.
NARROW = 2**31 - 1


def resolve(device: Any) -> torch.device:
    """The device of this name, checked, CUDA with its index; None is CUDA where there is one, else the CPU."""
    try:
        named = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device is None else device)
    except (RuntimeError, TypeError):
        raise InputError(f"device is {device!r}: 'cpu' or 'cuda' is expected.") from None
    if named.type not in ("cpu", "cuda") or (named.type == "cpu" and named.index):
        raise InputError(f"device is {str(named)!r}: 'cpu' or 'cuda' is expected.")
    if named.type == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if count == 0:
        raise InputError(f"device is {str(named)!r} but torch sees no CUDA GPU here: leave it out, or pass device='cpu'.")
    if (named.index or 0) >= count:
        last = "cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise InputError(f"device is {str(named)!r} but torch sees {count} CUDA GPU{'s' * (count > 1)} here: pass {last}.")
    return torch.device("cuda", torch.cuda.current_device()) if named.index is None else named


def floating(dtype: Any) -> torch.dtype | None:
    """The dtype of the inner solves, checked."""
    if dtype is None or dtype in (torch.float32, torch.float64):
        return dtype
    raise InputError(f"dtype is {dtype!r}: pass torch.float64 or torch.float32.")


def on_device(array: np.ndarray, device: torch.device, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A NumPy array on a device; on the CPU it shares its memory where it may."""
    array = np.ascontiguousarray(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy()).to(device=device, dtype=dtype)


def csr(matrix: sp.csr_array, device: torch.device, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """A SciPy CSR matrix on a device."""
    index = torch.int32 if max(matrix.nnz, *matrix.shape) <= NARROW else torch.int64
    indptr, indices = (on_device(part, device, index) for part in (matrix.indptr, matrix.indices))
    return csr_of(indptr, indices, on_device(matrix.data, device, dtype), matrix.shape)


def as_dtype(matrix: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The same CSR matrix with its values in another dtype, and the same indices."""
    if matrix.dtype == dtype:
        return matrix
    return csr_of(matrix.crow_indices(), matrix.col_indices(), matrix.values().to(dtype), (matrix.shape[0], matrix.shape[1]))


def csr_of(indptr: torch.Tensor, indices: torch.Tensor, values: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    """A CSR matrix that shares the memory of its parts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        # torch 2.10 to 2.12 says so although the argument is passed
        warnings.filterwarnings("ignore", "Sparse invariant checks are implicitly disabled", UserWarning)
        # the device is named: a default device of the caller's is another matter
        return torch.sparse_csr_tensor(indptr, indices, values, size=shape, device=values.device, check_invariants=False)


def columns_bytes(n_nodes: int, n_signals: int) -> int:
    """What a solve allocates for its signals: right-hand side, solution, residual, direction, product and scratch."""
    return 8 * 7 * n_nodes * n_signals


@contextmanager
def enough_memory(
    device: torch.device, n_bytes: int, *, what: str = "this solve", remedy: str = "solve fewer signals per call"
) -> Iterator[None]:
    """Refuse work that the device's memory cannot hold, before it starts or where it fails."""
    what = f"{what} on {device}"
    if device.type == "cpu":
        _checks.memory(what, n_bytes, alternative=remedy)
    else:
        free = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        if n_bytes > free:
            raise TooLargeError(f"{what} needs about {n_bytes:,} bytes and {free:,} are free: {remedy}, or use device='cpu'.")
    try:
        yield
    except torch.OutOfMemoryError:
        raise TooLargeError(f"{what} ran out of memory; it needs about {n_bytes:,} bytes: {remedy}.") from None


def full_precision(like: torch.Tensor) -> torch.autocast:
    """Within this context autocast does not round what is computed on the device of a tensor."""
    return torch.autocast(like.device.type, enabled=False)


def side_by_side(function: Apply, x: torch.Tensor) -> torch.Tensor:
    """The function of (N, T) columns, of the batch (N, B, T)."""
    return function(x.flatten(1)).reshape(x.shape)


class Linear(torch.autograd.Function):
    """A fixed linear map of x; its backward is the transposed map, which has derivatives as well."""

    @staticmethod
    def forward(x: torch.Tensor, apply: Apply, transposed: Apply) -> torch.Tensor:
        return apply(x.contiguous())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor, Apply, Apply], output: torch.Tensor) -> None:
        ctx.maps = inputs[1:]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        apply, transposed = ctx.maps
        with full_precision(gradients[0]):
            return Linear.apply(gradients[0], transposed, apply), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: Any) -> torch.Tensor:
        out: torch.Tensor = Linear.apply(tangent, *ctx.maps)
        return out

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor, apply: Apply, transposed: Apply) -> tuple[torch.Tensor, int]:
        return side_by_side(lambda v: Linear.apply(v, apply, transposed), x.movedim(in_dims[0], 1)), 1
