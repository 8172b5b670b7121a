"""One filter system on torch, for NumPy arrays and for tensors that may ask for gradients."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from nareg._core import checks
from nareg._core.arrays import as_numpy, differentiated, is_tensor, of_all_entries, refuse_nested_tangents
from nareg._solvers._torch._device import Linear, csr, floating, on_device, resolve, side_by_side
from nareg._solvers._torch._solver import Solver
from nareg._solvers.backends import Torch
from nareg._solvers.engines import Engines, checked_run, without_underflow
from nareg._solvers.iterate import Callback, Iterates, Stop
from nareg._solvers.system import FilterSystem
from nareg.errors import InputError, SolverError
from nareg.results import Solution

Solve = Callable[[torch.Tensor], torch.Tensor]

#: Tensors whose iterations on an accelerator run in float32 unless the options say otherwise.
SHORT = (torch.float32, torch.float16, torch.bfloat16)


class TorchEngines:
    """A system, and its solver on every device that was asked for.

    In the CPU's memory a tensor is an array: ``host`` solves, by SciPy and our compiled loops. ``weights`` and ``data_weight``
    are the user's tensors, if they are tensors: gradients flow into them.
    """

    def __init__(self, host: Engines, options: Torch, *, weights: Any = None, data_weight: Any = None) -> None:
        self.system, self._host, self._options = host.system, host, options
        self._device = None if options.device is None else resolve(options.device)
        self._dtype = floating(options.dtype)
        self._weights, self._fit = weights, data_weight
        self._versions = self._current()
        self._solvers: dict[torch.device, Solver] = {}
        self._laplacians: dict[torch.device, torch.Tensor] = {}
        if weights is not None and weights.ndim > 1 and differentiated(weights):
            raise InputError(
                "weights is a matrix S that asks for a gradient: only node weights have one; pass weights.detach()."
            )

    def _current(self) -> list[int]:
        return [tensor._version for tensor in (self._weights, self._fit) if tensor is not None]

    def near(self, system: FilterSystem) -> TorchEngines:
        """A system that differs in its data term or weights, without gradients into these."""
        return TorchEngines(self._host.near(system), self._options)

    def observed(self, system: FilterSystem, pattern: np.ndarray) -> TorchEngines:
        """The system of the observed nodes, whose gradients flow into the same tensors."""
        weights, data_weight = self._weights, self._fit
        if differentiated(weights) and not np.array_equal(system.w, self.system.w):  # type: ignore[arg-type]
            raise InputError(
                "weights ask for a gradient, but some would inflate estimates at unobserved nodes and are replaced there: pass "
                "weights.detach(), or larger weights at these nodes."
            )
        if data_weight is not None:
            data_weight = data_weight * on_device(pattern, data_weight.device)
        return TorchEngines(self._host.near(system), self._options, weights=weights, data_weight=data_weight)

    def solver(self, device: torch.device) -> Solver:
        """That of a device, made when first needed."""
        if device not in self._solvers:
            self._solvers[device] = Solver(self.system, device)
        return self._solvers[device]

    def run(
        self, method: str, rhs: np.ndarray, *, tol: float, max_iterations: int | None, callback: Callback | None
    ) -> tuple[Iterates, str]:
        """Solve ``K x = rhs`` for a NumPy array."""
        device = self._device or resolve(None)
        dtype = self._dtype or torch.float64
        if on_host(device, dtype):
            result, label = self._host.run(method, rhs, tol=tol, max_iterations=max_iterations, callback=callback)
            return result, f"{label} [torch, {device}]"
        with torch.no_grad():
            reached, label, residuals = self._solve(on_device(rhs, device), Stop(method, tol, max_iterations, callback), dtype)
        reached = replace(reached, x=reached.x.cpu().numpy(), rounds=self._rounds(method, reached), reached=residuals)
        return reached, f"{label} [torch, {device}]"

    @staticmethod
    def _rounds(method: str, reached: Iterates) -> int | None:
        return reached.iterations if method in ("jacobi", "chebyshev", "recursion") else None

    def _solve(self, rhs: torch.Tensor, stop: Stop, dtype: torch.dtype) -> tuple[Iterates, str, tuple[float, float]]:
        if on_host(rhs.device, dtype):
            return self._solve_on_host(rhs, stop)
        return self.solver(rhs.device).solve(
            rhs, stop.method, tol=stop.tol, max_iterations=stop.max_iterations, callback=stop.callback, dtype=dtype
        )

    def _solve_on_host(self, rhs: torch.Tensor, stop: Stop) -> tuple[Iterates, str, tuple[float, float]]:
        columns, unit = without_underflow(rhs.detach().numpy())
        result, label, residuals = checked_run(self._host, columns, stop)
        x = torch.from_numpy(result.x if unit is None else result.x * unit)
        return replace(result, x=x), label, residuals

    def takes(self, y: Any) -> bool:
        """Whether the answer for these readings is a tensor."""
        return is_tensor(y) or self._weights is not None or self._fit is not None

    def readings(self, y: Any) -> torch.Tensor:
        """The readings as a tensor, on the one device of all tensors."""
        tensors = {"y": y if is_tensor(y) else None, "weights": self._weights, "data_weight": self._fit}
        devices = {name: tensor.device for name, tensor in tensors.items() if tensor is not None}
        (first, device), *others = devices.items()
        for name, other in others:
            if other != device:
                raise InputError(
                    f"{first} is on {device} and {name} on {other}: move them to one device with {name}.to({str(device)!r})."
                )
        if self._device is not None and device != self._device:
            raise InputError(f"{first} is on {device} but the backend's device is {self._device}: move it, or omit device.")
        resolve(device)
        if self._versions != self._current():
            raise InputError("weights or data_weight changed after the filter was prepared: prepare it again.")
        return (
            y
            if is_tensor(y)
            else torch.as_tensor(np.ascontiguousarray(checks.floats("y", y, ndim=(1, 2), finite=False))).to(device)
        )

    def readings_where(self, seen: np.ndarray, y: Any) -> torch.Tensor:
        """The readings, zero where not observed, so that what stands there has no gradient either."""
        tensor = self.readings(y)
        mask = on_device(seen if seen.ndim == tensor.ndim else seen[:, None], tensor.device)
        return torch.where(mask, tensor if tensor.is_floating_point() else tensor.double(), 0.0)

    def denoise(self, y: Any, stop: Stop) -> Solution:
        """Denoise tensors, or arrays where weights or data_weight are tensors."""
        return self.filtered(signals("y", self.readings(y), self.system.n_nodes), stop)

    def filtered(self, y: torch.Tensor, stop: Stop) -> Solution:
        """The filter of checked readings."""
        start = time.perf_counter()
        n, device = self.system.n_nodes, y.device
        short = y.dtype in SHORT and device.type != "cpu"
        dtype = self._dtype or (torch.float32 if short else torch.float64)
        outcome: list[tuple[Iterates, str, tuple[float, float]]] = []

        def forward(rhs: torch.Tensor) -> torch.Tensor:
            outcome.append(self._solve(rhs.contiguous(), stop, dtype))
            return outcome[-1][0].x

        def backward(gradient: torch.Tensor) -> torch.Tensor:
            # what is not finite (a loss scaled too far) stays so, in its column alone
            finite = torch.isfinite(gradient).all(0)
            rhs = torch.where(finite, gradient, 0.0).contiguous()
            reached, _, _ = self._solve(rhs, Stop(stop.method, stop.tol, stop.max_iterations), dtype)
            if not reached.status.ok:
                raise SolverError(f"the solve for the gradient ended {reached.status.value}.")
            return torch.where(finite, reached.x, torch.nan)

        weights = vector(self._weights, n)
        data_weight = vector(self._fit, n)
        c = on_device(self.system.c, device) if data_weight is None else data_weight
        columns = y.reshape(n, -1).to(torch.float64)
        x = Inverse.apply(c[:, None] * columns, weights, data_weight, lambda: self._laplacian(device), forward, backward)
        ((reached, label, residuals),) = outcome
        rounds = self._rounds(stop.method, reached)
        return Solution(
            x=x.reshape(y.shape).to(y.dtype if y.is_floating_point() else torch.float64),
            status=reached.status,
            method=f"{label} [torch, {device}]" + (f" [{reached.note}]" if reached.note else ""),
            iterations=reached.iterations,
            residuals=np.array(reached.residuals),
            residual=residuals[0],
            rounds=rounds,
            messages=None if rounds is None else rounds * self.system.n_directed_edges,
            timings={"total": time.perf_counter() - start},
        )

    def _laplacian(self, device: torch.device) -> torch.Tensor:
        if device not in self._laplacians:
            self._laplacians[device] = csr(self.system.penalty.L, device)
        return self._laplacians[device]


def on_host(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the solvers for arrays take these tensors, too: in float64 they are faster than torch's operations."""
    return device.type == "cpu" and dtype is torch.float64


def vector(value: torch.Tensor | None, n_nodes: int) -> torch.Tensor | None:
    """A number, or one per node, as float64 per node; None for what has no gradient of that kind."""
    return None if value is None or value.ndim > 1 else value.to(torch.float64).expand(n_nodes)


def signals(name: str, y: torch.Tensor, n_nodes: int) -> torch.Tensor:
    """Checked as :func:`nareg._core.checks.signals` does, on the device where nothing is wrong."""
    real = y.layout is torch.strided and not y.is_complex() and y.dtype is not torch.bool
    if real and y.ndim in (1, 2) and y.shape[0] == n_nodes and y.numel():
        largest = of_all_entries(lambda values: float(values.abs().amax()), y.detach())
        if largest < float(np.finfo(np.float32).max) ** 0.5 / y.numel() ** 0.5:
            return y
    checks.signals(name, as_numpy(y), n_nodes)
    return y


class Inverse(torch.autograd.Function):
    """``K^-1 b`` for (N, T) b; ``forward_solve`` is called once, ``backward_solve`` for every gradient."""

    @staticmethod
    def forward(
        b: torch.Tensor,
        w: torch.Tensor | None,
        c: torch.Tensor | None,
        L: Callable[[], torch.Tensor],
        forward_solve: Solve,
        backward_solve: Solve,
    ) -> torch.Tensor:
        return forward_solve(b)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        _, w, c, ctx.L, _, ctx.solve = inputs
        ctx.save_for_backward(output, w, c)
        ctx.save_for_forward(output, w, c)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        x, w, c = ctx.saved_tensors
        g = _inverse(ctx, gradients[0], w, c)
        of_w = of_c = None
        if w is not None and ctx.needs_input_grad[1]:
            of_w = -(g * _product(ctx, w[:, None] * x) + x * _product(ctx, w[:, None] * g)).sum(1)
        if c is not None and ctx.needs_input_grad[2]:
            of_c = -(g * x).sum(1)
        return g, of_w, of_c, None, None, None

    @staticmethod
    def jvp(ctx: Any, of_b: torch.Tensor | None, of_w: torch.Tensor | None, of_c: torch.Tensor | None, *_: Any) -> torch.Tensor:
        x, w, c = ctx.saved_tensors
        if w is not None or c is not None:
            refuse_nested_tangents("a filter of tensors")
        rhs = torch.zeros_like(x) if of_b is None else of_b
        if of_w is not None:
            column, t = w[:, None], of_w[:, None]
            rhs = rhs - t * _product(ctx, column * x) - column * _product(ctx, t * x)
        if of_c is not None:
            rhs = rhs - of_c[:, None] * x
        return _inverse(ctx, rhs, w, c)

    @staticmethod
    def vmap(info: Any, in_dims: Any, b: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, int]:
        # neither w nor c is batched: their values were needed before
        return side_by_side(lambda v: Inverse.apply(v, *rest), b.movedim(in_dims[0], 1)), 1


def _inverse(ctx: Any, b: torch.Tensor, w: torch.Tensor | None, c: torch.Tensor | None) -> torch.Tensor:
    """``K^-1 b``, which has derivatives."""
    x: torch.Tensor = Inverse.apply(b, w, c, ctx.L, ctx.solve, ctx.solve)
    return x


def _product(ctx: Any, x: torch.Tensor) -> torch.Tensor:
    """``L x``, which has derivatives."""
    maps = (lambda v: torch.mm(ctx.L(), v),) * 2
    out: torch.Tensor = Linear.apply(x, *maps)
    return out
