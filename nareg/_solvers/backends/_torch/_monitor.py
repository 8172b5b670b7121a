"""Convergence of all columns, followed on the device and read by the host now and then."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nareg._solvers.backends._torch._device import check_every
from nareg._solvers.iterate import Callback
from nareg.results import Status


@dataclass
class DeviceIterates:
    """The point reached, iterations, largest relative residual before each and at the end, and how it ended."""

    x: torch.Tensor
    iterations: int
    residuals: list[float]
    status: Status
    note: str = ""


class DeviceMonitor:
    """Records residuals and the columns that are above the tolerance, as :class:`nareg._solvers.iterate.Monitor` does.

    ``squares`` (2, T) are those of the right-hand side, and of the same over the diagonal. ``frozen`` says that a method leaves
    a column alone once it has converged. Where it does not, a residual may rise again.
    """

    def __init__(self, squares: torch.Tensor, tol: float, callback: Callback | None, *, frozen: bool) -> None:
        self._norms, self._tol, self._callback, self._frozen = squares.sqrt(), tol, callback, frozen
        self._every = check_every(squares.device)
        self._records: list[torch.Tensor] = []
        self._reported = 0
        self.active = torch.ones(squares.shape[1], dtype=torch.bool, device=squares.device)
        self.done, self.failed = False, False

    @property
    def iterations(self) -> int:
        """Steps after which a residual was recorded."""
        return len(self._records) - 1

    def record(self, squares: torch.Tensor) -> None:
        """Take in the squares (2, T) of the residual after a step."""
        relative = torch.where(self._norms > 0, squares.sqrt() / self._norms, 0.0)
        above = ~(relative <= self._tol).all(0)  # NaN counts as active
        self.active = self.active & above if self._frozen else above
        self._records.append(relative[0].amax())

    def due(self, iteration: int) -> bool:
        """Whether the host reads the flags at this iteration."""
        return iteration % self._every == 0

    def ended(self, failed: torch.Tensor | None = None) -> bool:
        """Read the flags: whether every column has converged, or some column has failed."""
        state = self.active.any().to(torch.int8)
        if failed is not None:
            state = state + 2 * failed.any().to(torch.int8)
        code = int(state.item())  # the only synchronization
        self.done, self.failed = code == 0, code >= 2
        if self._callback is not None:
            for value in torch.stack(self._records[self._reported :]).tolist():
                self._callback(self._reported, value)
                self._reported += 1
        return self.done or self.failed

    def history(self) -> list[float]:
        """The largest relative residual after each iteration, in one copy from the device."""
        return torch.stack(self._records).tolist()
