"""One filter system on one device: which solver is taken, in which precision, and a check of what it returned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch

from nareg._core.arrays import ratio
from nareg._solvers import cg as conjugate_gradients
from nareg._solvers import lanczos, multigrid, recursion
from nareg._solvers._torch._device import BLOCK, as_dtype, columns_bytes, csr, enough_memory, on_device
from nareg._solvers._torch._multigrid import Cycle
from nareg._solvers._torch._passes import DevicePasses, HostPasses, passes_of
from nareg._solvers.engines import MAX_ITERATIONS, allowed, definite
from nareg._solvers.iterate import Callback, Iterates
from nareg._solvers.system import FilterSystem
from nareg.errors import TooLargeError
from nareg.results import Status

#: Up to here ``auto`` takes a dense factor, which then costs less than the iterations of conjugate gradients.
SMALL = 500
#: Up to here a dense factor is made at all: two matrices of 200 MB.
DENSE = 5_000
#: What one solve in float32 is asked for, and how often its solution is corrected by the float64 residual.
SINGLE_TOL = 1e-5
CORRECTIONS = 20
#: Iterations of one solve in float32: rounding can keep its residual above what was asked for.
SINGLE_ITERATIONS = 500
#: Entries outside of this range leave float32 no room.
SINGLE_RANGE = 1e30
#: Residual of estimated eigenvalues, relative to them.
LANCZOS = 1e-2
#: Conjugate gradients that have not converged by then are on a mesh with smooth weights: multigrid takes over.
PATIENCE = 150


class Solver:
    """Solves ``K x = rhs`` for float64 (N, T) tensors on a device."""

    def __init__(self, system: FilterSystem, device: torch.device) -> None:
        self.system, self.device = system, device
        self._slow = False
        self._matrices: dict[torch.dtype, torch.Tensor] = {}
        self._passes: dict[torch.dtype, DevicePasses | HostPasses] = {}
        self._cycles: dict[torch.dtype, Cycle] = {}

    @cached_property
    def _ordered(self) -> FilterSystem:
        """The system with neighbors together in memory."""
        system, order = self.system, self.system.order
        if order is None:
            return system
        S = sp.csr_array(system.S[order][:, order])
        L = S if system.S is system.penalty.L else sp.csr_array(system.penalty.L[order][:, order])
        w = None if system.w is None else system.w[order]
        return FilterSystem(S=S, c=system.c[order], w=w, penalty=replace(system.penalty, L=L))

    @cached_property
    def _order(self) -> torch.Tensor | None:
        order = self.system.order
        return None if order is None else on_device(order.astype(np.int64), self.device)

    @cached_property
    def inverse_diagonal(self) -> torch.Tensor:
        """Of K; ones where its diagonal is not positive."""
        diagonal = self._ordered.diagonal
        return on_device(1.0 / np.where(diagonal > 0, diagonal, 1.0), self.device)

    @cached_property
    def _single_range(self) -> bool:
        data = np.abs(self._ordered.K.data)
        return bool(data.max() < SINGLE_RANGE and self._ordered.diagonal.min() > 1 / SINGLE_RANGE)

    def matrix(self, dtype: torch.dtype) -> torch.Tensor:
        """K on the device."""
        if dtype not in self._matrices:
            double = torch.float64
            if double not in self._matrices:
                self._matrices[double] = csr(self._ordered.K, self.device)
            self._matrices[dtype] = as_dtype(self._matrices[double], dtype)
        return self._matrices[dtype]

    def cycle(self, dtype: torch.dtype) -> Cycle:
        """Multigrid levels on the device."""
        if dtype not in self._cycles:
            self._cycles[dtype] = Cycle(self._hierarchy, self.device, dtype)
        return self._cycles[dtype]

    @cached_property
    def _hierarchy(self) -> multigrid.Hierarchy:
        return multigrid.Hierarchy(self._ordered)

    @cached_property
    def _cholesky(self) -> torch.Tensor | None:
        """The dense factor of K; None where K is not positive definite in float64."""
        n = self.system.n_nodes
        if n > DENSE:
            raise TooLargeError(
                f"method='direct' on backend='torch' is a dense factor, for at most {DENSE:,} nodes, and the graph has {n:,}: "
                "use method='cg' or 'multigrid', or backend='scipy' for a sparse factor."
            )
        with enough_memory(self.device, 16 * n * n):
            factor, info = torch.linalg.cholesky_ex(on_device(self._ordered.K.toarray(), self.device))
        return None if int(info) else factor

    @cached_property
    def _interval(self) -> tuple[float, float]:
        """Of the spectrum of ``D^-1 K``, as :func:`nareg._solvers.recursion.interval`; estimated by Lanczos on the device."""
        system = self._ordered
        if system.sdd and (system.c > 0).all():
            return recursion.interval(system)
        K, root = self.matrix(torch.float64), self.inverse_diagonal.sqrt()[:, None]
        low, high = (
            lanczos.extreme_eigenvalue(lambda v: root * (K @ (root * v)), root, end, tol=LANCZOS) for end in ("SA", "LA")
        )
        local = float(np.min(system.c / system.diagonal))
        # S is PSD, so that x^T K x >= x^T C x
        low = local if local > 0 and system.w is not None else 0.9 * low
        return low, 2.0 if system.sdd else 1.05 * high

    @cached_property
    def _indefinite(self) -> bool:
        system = self.system
        return bool((system.diagonal <= 0).any()) or (system.w is None and not definite(system))

    def solve(
        self,
        rhs: torch.Tensor,
        method: str,
        *,
        tol: float,
        max_iterations: int | None,
        callback: Callback | None,
        dtype: torch.dtype,
    ) -> tuple[Iterates, str, tuple[float, float]]:
        """Solve by the method of this name; its label, and the recomputed residuals of x: plain, and over the diagonal."""
        if self._indefinite:
            return Iterates(torch.zeros_like(rhs), 0, [1.0], Status.INDEFINITE), method, (1.0, 1.0)
        width = BLOCK if self.device.type == "cpu" else rhs.shape[1]
        with enough_memory(self.device, columns_bytes(rhs.shape[0], min(width, rhs.shape[1]))):
            B = (rhs if self._order is None else rhs[self._order]).contiguous()
            unit = _unit(B)
            if unit is not None:
                B = B / unit
            label = method
            parts = []
            for first in range(0, B.shape[1], width):
                block = B[:, first : first + width].contiguous()
                part, label = self._run(method, block, tol, max_iterations, callback, dtype)
                parts.append(part)
            result = parts[0] if len(parts) == 1 else _joined(parts)
            level = allowed(tol)
            reached = self.residuals(result.x, B, level)
            if result.status is Status.CONVERGED and not (reached[0] <= level and reached[1] <= level):
                result.status = Status.STALLED
            x = result.x if unit is None else result.x.mul_(unit)
            if self._order is not None:
                x = torch.empty_like(x).index_copy_(0, self._order, x)
            result.x = x
        return result, label, reached

    def _passes_in(self, dtype: torch.dtype) -> DevicePasses | HostPasses:
        """The passes over K in this dtype."""
        if dtype not in self._passes:
            self._passes[dtype] = passes_of(self.matrix(dtype), self.inverse_diagonal.to(dtype))
        return self._passes[dtype]

    def residuals(self, x: torch.Tensor, rhs: torch.Tensor, level: float) -> tuple[float, float]:
        """The largest ``||rhs - K x|| / ||rhs||`` of a column, and the same with both over the diagonal, in float64."""
        return self._residual(x, rhs, level)[1:]

    def _residual(self, x: torch.Tensor, rhs: torch.Tensor, level: float) -> tuple[torch.Tensor, float, float]:
        """``rhs - K x``, and its sizes.

        Where the rounding of K might decide whether they are below ``level``, the host computes the residual from K's parts.
        """
        passes, ordered = self._passes_in(torch.float64), self._ordered

        def added() -> np.ndarray:
            bound = torch.mm(self.matrix(torch.float64).abs(), x.abs()).mul_(on_device(ordered.rounding, self.device)[:, None])
            norms: np.ndarray = passes.squares(bound)[1:].sqrt().cpu().numpy()
            return norms

        right = passes.squares(rhs)[1:]
        if ordered.rounds_away(x.abs().amax(0).cpu().numpy(), right.sqrt().cpu().numpy(), level, added):
            R = on_device(ordered.residual_of_parts(x.cpu().numpy(), rhs.cpu().numpy()), self.device)
        else:
            R = torch.addmm(rhs, self.matrix(torch.float64), x, alpha=-1)
        plain, scaled = ratio(passes.squares(R)[1:], right).sqrt().amax(1).tolist()
        return R, plain, scaled

    def _run(
        self, method: str, B: torch.Tensor, tol: float, limit: int | None, callback: Callback | None, dtype: torch.dtype
    ) -> tuple[Iterates, str]:
        """One block of columns in float64, or in float32 with corrections."""
        if method == "direct" or (method == "auto" and B.shape[0] <= SMALL):
            return self._direct(B, tol), "direct" if method == "direct" else f"direct (auto: {B.shape[0]} nodes)"
        if dtype is torch.float64 or not self._single_range:
            return self._iterate(method, B, torch.float64, tol, limit, callback)
        return self._corrected(method, B, tol, limit, callback)

    def _direct(self, B: torch.Tensor, tol: float) -> Iterates:
        factor = self._cholesky
        if factor is None:
            return Iterates(torch.zeros_like(B), 0, [1.0], Status.INDEFINITE)
        x = torch.cholesky_solve(B, factor)
        x += torch.cholesky_solve(torch.addmm(B, self.matrix(torch.float64), x, alpha=-1), factor)
        return Iterates(x, 0, [self.residuals(x, B, tol)[0]], Status.CONVERGED, note="dense Cholesky")

    def _corrected(
        self, method: str, B: torch.Tensor, tol: float, limit: int | None, callback: Callback | None
    ) -> tuple[Iterates, str]:
        """In float32, and in float64 where that does not help."""
        label = method

        def solve(R: torch.Tensor, goal: float, most: int) -> Iterates:
            nonlocal label
            part, label = self._iterate(method, R, torch.float32, goal, most, None)
            return part

        single = in_single(
            solve, lambda x: self._residual(x, B, tol), torch.zeros_like(B), tol=tol, limit=limit, callback=callback
        )
        if single.status is not Status.STALLED:
            return single, f"{label}, float32 corrected by float64"
        remaining = None if limit is None else limit - single.iterations
        x0 = single.x if bool(torch.isfinite(single.x).all()) else None
        rest, label = self._iterate(method, B, torch.float64, tol, remaining, callback, x0)
        return rest.after(single), f"{label}, after float32"

    def _iterate(
        self, method: str, B: torch.Tensor, dtype: torch.dtype, tol: float, limit: int | None, callback: Callback | None,
        x0: torch.Tensor | None = None,
    ) -> tuple[Iterates, str]:  # fmt: skip
        """One iterative solve in this dtype."""
        passes = self._passes_in(dtype)

        def cg(steps: int, start: torch.Tensor | None, cycle: Cycle | None = None) -> Iterates:
            result = conjugate_gradients.solve_block(
                passes, B, tol=tol, max_iterations=steps, callback=callback, x0=start, precondition=cycle
            )
            result.note = "" if cycle is None else cycle.note
            return result

        if method == "auto":
            return self._auto(cg, dtype, limit or MAX_ITERATIONS["cg"], x0)
        limit = limit or MAX_ITERATIONS[method]
        if method == "cg":
            return cg(limit, x0), method
        if method == "multigrid":
            return cg(limit, x0, self.cycle(dtype) if self._coupled else None), method
        interval = None
        if method == "chebyshev":
            low, high = self._interval
            if low <= 0:
                return Iterates(torch.zeros_like(B), 0, [1.0], Status.INDEFINITE), method
            interval = low, max(high, low * (1 + 1e-6))  # one point (all weights zero) would divide by zero
        elif method == "jacobi":
            recursion.refuse_jacobi(self._ordered)
        else:
            recursion.refuse_published(self._ordered)
        result = recursion.rounds(
            passes, B, tol=tol, max_iterations=limit, callback=callback, x0=x0, interval=interval, scaled=method != "recursion"
        )
        return result, method

    def _auto(
        self, cg: Callable[..., Iterates], dtype: torch.dtype, limit: int, x0: torch.Tensor | None
    ) -> tuple[Iterates, str]:
        """Conjugate gradients, then multigrid where they are slow on a mesh; multigrid at once in later calls."""
        n = self.system.n_nodes
        may_switch = self._coupled and limit > PATIENCE and multigrid.refusal(self.system) is None
        if self._slow and may_switch:
            return cg(limit, x0, self.cycle(dtype)), "multigrid (auto: CG was slow at the first call)"
        first = cg(PATIENCE if may_switch else limit, x0)
        if first.status is not Status.MAX_ITERATIONS or not may_switch:
            return first, f"cg (auto: {n} nodes)"
        self._slow = True
        second = cg(limit - PATIENCE, first.x, self.cycle(dtype))
        return second.after(first), f"cg, then multigrid (auto: CG not converged after {PATIENCE} iterations, mesh-like graph)"

    @property
    def _coupled(self) -> bool:
        """Whether some node has a weight: else K is diagonal."""
        return self.system.w is None or bool(self.system.w.any())


def in_single(
    solve: Callable[[torch.Tensor, float, int], Iterates],
    residual: Callable[[torch.Tensor], tuple[torch.Tensor, float, float]],
    x: torch.Tensor, *, tol: float, limit: int | None, callback: Callback | None = None,
) -> Iterates:  # fmt: skip
    """Solves in float32 for the residual in float64, until that meets the tolerance; STALLED where they do not help.

    ``solve(R, goal, most)`` takes so many iterations at most. ``residual(x)`` is ``B - K x``, and its largest relative sizes,
    plain and over the diagonal.
    """
    R, plain, scaled = residual(x)
    steps, history, before, note = 0, [plain], np.inf, ""
    for _ in range(CORRECTIONS + 1):
        now = float(np.maximum(plain, scaled))  # NaN, if one is
        if now <= tol or (limit is not None and steps >= limit):
            return Iterates(x, steps, history, Status.CONVERGED if now <= tol else Status.MAX_ITERATIONS, note=note)
        if not now <= 0.5 * before:
            break
        before, unit = now, R.abs().amax(0)
        unit = torch.where(unit > 0, unit, 1.0)
        most = SINGLE_ITERATIONS if limit is None else min(limit - steps, SINGLE_ITERATIONS)
        part = solve((R / unit).float(), max(SINGLE_TOL, 0.25 * tol / min(now, 1.0)), most)
        x, steps, note = x + unit * part.x.double(), steps + part.iterations, part.note
        R, plain, scaled = residual(x)
        history += [v * history[-1] for v in part.residuals[1:-1]] + [plain]
        if callback is not None:
            callback(steps, plain)
    return Iterates(x, steps, history, Status.STALLED, note=note)


def _unit(B: torch.Tensor) -> torch.Tensor | None:
    """A power of two near each column's largest entry, where some would not square without loss; else None."""
    low, high = B.aminmax(dim=0)
    exponent = torch.frexp(torch.maximum(high, -low)).exponent
    if int(exponent.abs().amax()) <= 300:
        return None
    return torch.exp2(exponent.clamp(-1000, 1000).to(B.dtype))


def _joined(parts: list[Iterates]) -> Iterates:
    """Blocks of columns side by side: the slowest block's history, the first failure."""
    slowest = max(parts, key=lambda part: part.iterations)
    failed = [part.status for part in parts if part.status is not Status.CONVERGED]
    status = failed[0] if failed else Status.CONVERGED
    return replace(slowest, x=torch.cat([part.x for part in parts], 1), status=status)
