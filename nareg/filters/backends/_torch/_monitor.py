"""Convergence of all columns, followed on the device and read by the host now and then."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nareg.filters._iterate import Callback
from nareg.filters.backends._torch._device import check_every
from nareg.results import Status


@dataclass
class Reached:
    """The point reached, iterations, largest relative residual before each and at the end, and how it ended."""

    x: torch.Tensor
    iterations: int
    residuals: list[float]
    status: Status
    note: str = ""


class Monitor:
    """Records residuals and the columns that are above the tolerance, as :class:`nareg.filters._iterate.Monitor` does."""

    def __init__(self, inverse_diagonal: torch.Tensor, B: torch.Tensor, tol: float, callback: Callback | None) -> None:
        self._weights = torch.stack([inverse_diagonal, torch.ones_like(inverse_diagonal), inverse_diagonal**2])
        self._tol, self._callback = tol, callback
        self._every = check_every(B.device)
        self._norms = self._sums(B, torch.empty_like(B))[1:].sqrt()
        self._records: list[torch.Tensor] = []
        self._read: list[float] = []
        self.active = torch.ones(B.shape[1], dtype=torch.bool, device=B.device)
        self.done, self.failed = False, False

    @property
    def iterations(self) -> int:
        """Steps after which a residual was recorded."""
        return len(self._records) - 1

    def _sums(self, R: torch.Tensor, scratch: torch.Tensor) -> torch.Tensor:
        """``R^T D^-1 R``, ``R^T R`` and ``R^T D^-2 R`` of each column, (3, T)."""
        return torch.mm(self._weights, torch.mul(R, R, out=scratch))

    def residual(self, R: torch.Tensor, scratch: torch.Tensor) -> torch.Tensor:
        """Take in the residual after a step; returns ``R^T D^-1 R``."""
        sums = self._sums(R, scratch)
        relative = torch.where(self._norms > 0, sums[1:].sqrt() / self._norms, 0.0)
        self.active &= ~(relative <= self._tol).all(0)  # NaN counts as active
        self._records.append(relative[0].amax())
        return sums[0]

    def due(self, iteration: int) -> bool:
        """Whether the host reads the flags at this iteration."""
        return iteration % self._every == 0

    def finished(self, failed: torch.Tensor | None = None, *, last: bool = False) -> bool:
        """Read the flags: whether every column has converged, or some column has failed."""
        state = self.active.any().to(torch.int8)
        if failed is not None:
            state = state + 2 * failed.any().to(torch.int8)
        code = int(state.item())  # the only synchronization
        self.done, self.failed = code == 0, code >= 2
        if self._callback is not None:
            self._report()
        return self.done or self.failed

    def _report(self) -> None:
        assert self._callback is not None
        for value in self.history()[len(self._read) :]:
            self._callback(len(self._read), value)
            self._read.append(value)

    def history(self) -> list[float]:
        """The largest relative residual after each iteration, in one copy from the device."""
        return torch.stack(self._records).tolist()
