"""``K(w) = C + diag(w) L diag(w)`` for one w after another on a device: the systems of a descent over node weights.

The pattern of K stays on the device and its values are computed there, as are right-hand sides, solutions, inner products
and derivatives: w goes in, and one number per column and per node comes out.
"""

from __future__ import annotations

import numpy as np
import torch

from nareg._operator import FilterSystem, Penalty, scale_symmetric
from nareg.errors import InputError
from nareg.filters import multigrid
from nareg.filters._level_sequence import LevelSequence
from nareg.filters.backends._options import Torch
from nareg.filters.backends._torch import _cg
from nareg.filters.backends._torch import _device as on
from nareg.filters.backends._torch._monitor import DeviceIterates
from nareg.filters.backends._torch._multigrid import Cycle
from nareg.filters.backends._torch._rows import RowBlocks
from nareg.filters.backends._torch._solver import CORRECTIONS, SINGLE_ITERATIONS, SINGLE_TOL
from nareg.results import Status


class TorchSystems(LevelSequence):
    """The systems of an operator with a stored diagonal, whose nodes are in an order that suits memory.

    Columns are float64 tensors on the device.
    """

    def __init__(self, base: Penalty, c: np.ndarray, options: Torch, *, mesh_like: bool, tol: float) -> None:
        super().__init__(may_cycle=base.is_laplacian and mesh_like, tol=tol)
        self.device = on.resolve(options.device)
        self._dtype = on.floating(options.dtype) or torch.float64
        if options.generator is not None and not isinstance(options.generator, torch.Generator):
            raise InputError(f"generator is {options.generator!r}: pass a torch.Generator.")
        self._generator = options.generator
        self.label = f" [torch, {self.device}{'' if self._dtype is torch.float64 else ', float32 corrected by float64'}]"
        self._base, self._host_c = base, c
        L = base.L
        rows = np.repeat(np.arange(L.shape[0]), np.diff(L.indptr))
        self._L = on.csr(L, self.device)
        self._row, self._column = on.on_device(rows, self.device), self._L.col_indices().long()
        self._diagonal = on.on_device(np.flatnonzero(rows == L.indices), self.device)
        self._c = on.on_device(c, self.device)
        self._cycles: dict[torch.dtype, Cycle] = {}
        self._rows: dict[tuple[torch.dtype, int], RowBlocks] = {}
        self._host_w = np.ones_like(c)
        self.update(self._host_w)

    @property
    def _width(self) -> int | None:
        """Columns that are worked on together: few for the caches of a CPU, else all."""
        return on.BLOCK if self.device.type == "cpu" else None

    def keep(self, columns: np.ndarray) -> torch.Tensor:
        """(N, T) columns on the device; on the CPU they share their memory."""
        return on.on_device(columns, self.device)

    def update(self, w: np.ndarray) -> None:
        """Set the weights."""
        if not np.array_equal(w != 0, self._host_w != 0):
            self.forget()  # levels leave out nodes without a weight
        self._host_w, self._w = w, on.on_device(w, self.device)
        values = self._L.values() * self._w[self._row] * self._w[self._column]
        values[self._diagonal] += self._c
        self._K = on.csr_of(self._L.crow_indices(), self._L.col_indices(), values, (w.size, w.size))
        diagonal = values[self._diagonal]
        self._positive = bool((diagonal > 0).all())
        self._inverse_diagonal = 1.0 / diagonal
        self._rows, self._fresh = {}, False
        if self._levels:
            for cycle in self._cycles.values():
                cycle.reweigh(self._w, self._inverse_diagonal)

    def solve(self, rhs: torch.Tensor, x0: torch.Tensor | None = None) -> torch.Tensor:
        """``K^-1 rhs``, from ``x0`` if given; SolverError where the residual stays above the tolerance."""
        n, count = rhs.shape
        self.columns += count
        width = self._width or count
        parts = []
        with torch.no_grad(), on.enough_memory(self.device, on.columns_bytes(n, min(width, count))):
            for first in range(0, count, width):
                columns = slice(first, first + width)
                start = None if x0 is None else x0[:, columns].contiguous()
                parts.append(self._solve(rhs[:, columns].contiguous(), start))
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    def filtered(self, y: torch.Tensor, x0: torch.Tensor | None = None) -> torch.Tensor:
        """``K^-1 C y``."""
        return self.solve(self._c[:, None] * y, x0)

    def dots(self, A: torch.Tensor, B: torch.Tensor) -> np.ndarray:
        """The inner product of every pair of columns, (T,)."""
        return (A * B).sum(0).cpu().numpy()

    def derivative(self, A: torch.Tensor, B: torch.Tensor) -> np.ndarray:
        """``sum over columns d (a^T K(w) b) / dw``, which is ``a * (L W b) + b * (L W a)``."""
        total, W = torch.zeros_like(self._w), self._w[:, None]
        width = self._width or A.shape[1]
        for first in range(0, A.shape[1], width):
            a, b = (V[:, first : first + width] for V in (A, B))
            total += (a * torch.mm(self._L, W * b) + b * torch.mm(self._L, W * a)).sum(1)
        return total.cpu().numpy()

    def _blocks(self, dtype: torch.dtype, n_columns: int) -> RowBlocks:
        """K in blocks of rows for so many columns."""
        key = dtype, n_columns
        if key not in self._rows:
            self._rows[key] = RowBlocks(on.as_dtype(self._K, dtype), self._inverse_diagonal.to(dtype), n_columns)
        return self._rows[key]

    def _run(self, rhs: torch.Tensor, x0: torch.Tensor | None, limit: int) -> DeviceIterates:
        """CG in float64, or in float32 on what is left over in float64 until that meets the tolerance."""
        if not self._positive:
            return DeviceIterates(torch.zeros_like(rhs), 0, [1.0], Status.INDEFINITE)
        if self._dtype is torch.float32:
            reached = self._corrected(rhs, x0, limit)
            if reached.status is not Status.STALLED:
                return reached
            x0 = reached.x if bool(torch.isfinite(reached.x).all()) else x0
        return self._iterate(rhs, x0, torch.float64, self.tol, limit)

    def _iterate(self, B: torch.Tensor, x0: torch.Tensor | None, dtype: torch.dtype, tol: float, limit: int) -> DeviceIterates:
        cycle = self._cycle(dtype) if self._levels else None
        result = _cg.solve(self._blocks(dtype, B.shape[1]), B, tol=tol, max_iterations=limit, x0=x0, precondition=cycle)
        self.iterations += result.iterations * B.shape[1]
        return result

    def _corrected(self, B: torch.Tensor, x0: torch.Tensor | None, limit: int) -> DeviceIterates:
        """Solves in float32 for the residual in float64; STALLED where they do not help."""
        x = torch.zeros_like(B) if x0 is None else x0
        rows, steps, before = self._blocks(torch.float64, B.shape[1]), 0, np.inf
        norms, now = rows.squares(B)[1:], np.inf
        for _ in range(CORRECTIONS):
            R = torch.addmm(B, self._K, x, alpha=-1)
            now = float(torch.where(norms > 0, rows.squares(R)[1:] / norms, 0.0).sqrt().amax())
            if now <= self.tol or steps >= limit:
                return DeviceIterates(x, steps, [now], Status.CONVERGED if now <= self.tol else Status.MAX_ITERATIONS)
            if not now <= 0.5 * before:
                break
            before, unit = now, R.abs().amax(0)
            unit = torch.where(unit > 0, unit, 1.0)
            goal = max(SINGLE_TOL, 0.25 * self.tol / min(now, 1.0))
            part = self._iterate((R / unit).float(), None, torch.float32, goal, min(limit - steps, SINGLE_ITERATIONS))
            x, steps = x + unit * part.x.double(), steps + part.iterations
        return DeviceIterates(x, steps, [now], Status.STALLED)

    def _make_levels(self) -> None:
        """Levels of the present w, by pyamg on the host."""
        w, L = self._host_w, self._base.L
        self._hierarchy = multigrid.Hierarchy(FilterSystem(S=scale_symmetric(L, w), c=self._host_c, w=w, penalty=self._base))
        self._cycles = {}

    def _cycle(self, dtype: torch.dtype) -> Cycle:
        """The V-cycle, scaled to the present w."""
        if dtype not in self._cycles:
            self._cycles[dtype] = Cycle(self._hierarchy, self.device, dtype, self._generator)
            self._cycles[dtype].reweigh(self._w, self._inverse_diagonal)
        return self._cycles[dtype]
