"""Passes that do the work of several torch operations in one kernel, by Triton, which comes with torch's CUDA builds.

On a grid of a million nodes and 16 signals, an iteration of conjugate gradients by torch's own operations reads or writes an
array of the signals' size 20 times. Here it is 11 times. Torch's sparse product alone takes three times as long as its bytes.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl

from nareg._solvers._torch._passes import DevicePasses

#: Numbers of a block of signals from which on compiling pays. Below, an iteration is a matter of launches.
LARGE = 10**6
#: The longest row of K for which one program takes whole rows: others would wait for the hubs of a power law.
LONGEST = 64
#: Rows per program of a product and of the other kernels, and columns of either.
PRODUCT_ROWS, ROWS, COLUMNS = 32, 64, 16


@triton.jit  # type: ignore[untyped-decorator]
def _tile(n, T, BN: tl.constexpr, BT: tl.constexpr):  # type: ignore[no-untyped-def]
    """Rows, columns, their places in an (n, T) array, and which of them are in it."""
    rows, columns = tl.program_id(0) * BN + tl.arange(0, BN), tl.program_id(1) * BT + tl.arange(0, BT)
    place = rows[:, None].to(tl.int64) * T + columns[None, :]
    return rows, columns, place, (rows < n)[:, None] & (columns < T)[None, :]


@triton.jit  # type: ignore[untyped-decorator]
def _row_products(indptr, indices, values, X, rows, columns, n, T, BN: tl.constexpr, BT: tl.constexpr):  # type: ignore[no-untyped-def]
    """Tile of ``K X``."""
    start = tl.load(indptr + rows, mask=rows < n, other=0)
    stop = tl.load(indptr + rows + 1, mask=rows < n, other=0)
    total = tl.zeros((BN, BT), dtype=values.dtype.element_ty)
    for k in range(tl.max(stop - start, 0)):
        there = start + k < stop
        j = tl.load(indices + start + k, mask=there, other=0).to(tl.int64)
        value = tl.load(values + start + k, mask=there, other=0.0)
        mask = there[:, None] & (columns < T)[None, :]
        total += value[:, None] * tl.load(X + j[:, None] * T + columns[None, :], mask=mask, other=0.0)
    return total


@triton.jit  # type: ignore[untyped-decorator]
def _store_squares(V, inverse, sums, rows, columns, n, T):  # type: ignore[no-untyped-def]
    """Sums of ``V^2`` over the rows of a tile, with the weights ``D^-1``, 1 and ``D^-2``: (programs, 3, T)."""
    d = tl.load(inverse + rows, mask=rows < n, other=0.0)[:, None]
    square = V * V
    at, inside = sums + tl.program_id(0) * 3 * T + columns, columns < T
    tl.store(at, tl.sum(d * square, 0), mask=inside)
    tl.store(at + T, tl.sum(square, 0), mask=inside)
    tl.store(at + 2 * T, tl.sum(d * d * square, 0), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _squares(V, inverse, sums, n, T, BN: tl.constexpr, BT: tl.constexpr):  # type: ignore[no-untyped-def]
    rows, columns, place, mask = _tile(n, T, BN, BT)
    _store_squares(tl.load(V + place, mask=mask, other=0.0), inverse, sums, rows, columns, n, T)


@triton.jit  # type: ignore[untyped-decorator]
def _product(indptr, indices, values, P, Q, sums, n, T, BN: tl.constexpr, BT: tl.constexpr):  # type: ignore[no-untyped-def]
    rows, columns, place, mask = _tile(n, T, BN, BT)
    product = _row_products(indptr, indices, values, P, rows, columns, n, T, BN, BT)
    tl.store(Q + place, product, mask=mask)
    dot = tl.sum(product * tl.load(P + place, mask=mask, other=0.0), 0)
    tl.store(sums + tl.program_id(0) * T + columns, dot, mask=columns < T)


@triton.jit  # type: ignore[untyped-decorator]
def _step(X, R, P, Q, alpha, inverse, sums, n, T, BN: tl.constexpr, BT: tl.constexpr):  # type: ignore[no-untyped-def]
    rows, columns, place, mask = _tile(n, T, BN, BT)
    a = tl.load(alpha + columns, mask=columns < T, other=0.0)[None, :]
    x, p = tl.load(X + place, mask=mask, other=0.0), tl.load(P + place, mask=mask, other=0.0)
    tl.store(X + place, x + a * p, mask=mask)
    r = tl.load(R + place, mask=mask, other=0.0) - a * tl.load(Q + place, mask=mask, other=0.0)
    tl.store(R + place, r, mask=mask)
    _store_squares(r, inverse, sums, rows, columns, n, T)


@triton.jit  # type: ignore[untyped-decorator]
def _turn(R, P, inverse, beta, n, T, BN: tl.constexpr, BT: tl.constexpr):  # type: ignore[no-untyped-def]
    rows, columns, place, mask = _tile(n, T, BN, BT)
    b = tl.load(beta + columns, mask=columns < T, other=0.0)[None, :]
    d = tl.load(inverse + rows, mask=rows < n, other=0.0)[:, None]
    r, p = tl.load(R + place, mask=mask, other=0.0), tl.load(P + place, mask=mask, other=0.0)
    tl.store(P + place, d * r + b * p, mask=mask)


@triton.jit  # type: ignore[untyped-decorator]
def _relax(indptr, indices, values, B, X, before, scale, alpha, beta, inverse, sums, n, T, BN: tl.constexpr, BT: tl.constexpr):  # type: ignore[no-untyped-def]
    # alpha and beta are arrays of one number: Triton rounds a float to single precision
    rows, columns, place, mask = _tile(n, T, BN, BT)
    product = _row_products(indptr, indices, values, X, rows, columns, n, T, BN, BT)
    left = tl.load(B + place, mask=mask, other=0.0) - product
    x, old = tl.load(X + place, mask=mask, other=0.0), tl.load(before + place, mask=mask, other=0.0)
    d = tl.load(scale + rows, mask=rows < n, other=0.0)[:, None]
    tl.store(before + place, x + tl.load(beta) * (x - old) + tl.load(alpha) * d * left, mask=mask)
    _store_squares(left, inverse, sums, rows, columns, n, T)


class FusedPasses(DevicePasses):
    """Kernels of this module for large blocks of signals, torch's operations for small ones."""

    def __init__(self, K: torch.Tensor, inverse_diagonal: torch.Tensor) -> None:
        super().__init__(K, inverse_diagonal)
        indptr = K.crow_indices()
        self._matrix = indptr, K.col_indices(), K.values()
        self._inverse, self._ones = inverse_diagonal.contiguous(), torch.ones_like(inverse_diagonal)
        self._short = int(indptr.diff().amax()) <= LONGEST

    def squares(self, V: torch.Tensor) -> torch.Tensor:
        if _plain(V):
            return super().squares(V)
        return self._run(_squares, V, self._inverse, shape=V.shape, sums=3)

    def product(self, P: torch.Tensor, Q: torch.Tensor) -> torch.Tensor:
        if _plain(P, Q) or not self._short:
            return super().product(P, Q)
        return self._run(_product, *self._matrix, P, Q, shape=P.shape, sums=1)[0]

    def step(self, X: torch.Tensor, R: torch.Tensor, P: torch.Tensor, Q: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
        if _plain(X, R, P, Q):
            return super().step(X, R, P, Q, alpha)
        return self._run(_step, X, R, P, Q, alpha, self._inverse, shape=X.shape, sums=3)

    def turn(self, R: torch.Tensor, P: torch.Tensor, beta: torch.Tensor) -> None:
        if _plain(R, P):
            super().turn(R, P, beta)
            return
        self._run(_turn, R, P, self._inverse, beta, shape=R.shape)

    def relax(
        self, B: torch.Tensor, X: torch.Tensor, before: torch.Tensor, alpha: float, beta: float, *, scaled: bool
    ) -> torch.Tensor:
        if _plain(B, X, before) or not self._short:
            return super().relax(B, X, before, alpha, beta, scaled=scaled)
        factors = X.new_full((1,), alpha), X.new_full((1,), beta)
        scale = self._inverse if scaled else self._ones
        return self._run(_relax, *self._matrix, B, X, before, scale, *factors, self._inverse, shape=X.shape, sums=3)

    def _run(self, kernel: Any, *arrays: torch.Tensor, shape: torch.Size, sums: int = 0) -> torch.Tensor:
        """Run a kernel on all tiles; what each sums over its rows, added up: (sums, T)."""
        n, T = shape
        rows = PRODUCT_ROWS if kernel in (_product, _relax) else ROWS
        columns = min(COLUMNS, triton.next_power_of_2(T))
        programs = triton.cdiv(n, rows)
        parts = [arrays[-1].new_empty((programs, sums, T))] if sums else []
        device = arrays[-1].device
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            kernel[(programs, triton.cdiv(T, columns))](*arrays, *parts, n, T, BN=rows, BT=columns)
        return parts[0].sum(0) if parts else arrays[-1]


def _plain(*blocks: torch.Tensor) -> bool:
    """Whether torch's operations take these blocks: small ones, and any that does not lie row after row in memory."""
    return blocks[0].numel() < LARGE or not all(block.is_contiguous() for block in blocks)


def compiles(device: torch.device) -> bool:
    """Whether Triton compiles here: it needs a C compiler and Python's headers."""
    V, ones = torch.ones((2, 1), device=device), torch.ones(2, device=device)
    try:
        with torch.cuda.device(device):
            _squares[(1, 1)](V, ones, V.new_empty((1, 3, 1)), 2, 1, BN=2, BT=1)
    except Exception:  # of many classes: no compiler, no headers, no folder to write to, another driver
        return False
    return True
