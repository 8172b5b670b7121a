"""A PyTorch optimiser that works on other coordinates ``theta' = R^-1 theta`` than those the model is written in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from nareg.errors import InputError

#: Values of some parameters, in their order.
Values = list[torch.Tensor]


class InOtherCoordinates(ABC):
    """Wraps an optimiser; the model's parameters stay what they are, its gradients too.

    Attributes
    ----------
    optimizer : torch.optim.Optimizer
    """

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Values) -> None:
        self.optimizer, self._parameters = optimizer, parameters
        #: parameters as they were last written, and where the optimiser then stood
        self._known: tuple[Values, Values] | None = None

    @abstractmethod
    def _inner(self, values: Values) -> Values:
        """``R^-1 theta``."""

    @abstractmethod
    def _outer(self, values: Values) -> Values:
        """``R theta'``."""

    @abstractmethod
    def _pulled(self, gradients: Values) -> Values:
        """``R^T g``."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of the optimiser, from the gradients of the model's parameters."""
        gradients = [p.grad for p in self._parameters]
        self._write(self._place())
        if closure is None:
            self._pull()
        try:
            return self.optimizer.step() if closure is None else self.optimizer.step(self._outside(closure))
        finally:
            moved = self._read()
            self._write(self._outer(moved))
            self._known = self._read(), moved
            if closure is None:
                for p, gradient in zip(self._parameters, gradients, strict=True):
                    p.grad = gradient

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As of the optimiser."""
        self.optimizer.zero_grad(set_to_none=set_to_none)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """As of the optimiser: learning rates are changed here, by schedulers too."""
        return self.optimizer.param_groups

    def state_dict(self) -> dict[str, Any]:
        """As of the optimiser; its moments are those in its own coordinates."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """As of the optimiser."""
        self.optimizer.load_state_dict(state)

    def _place(self) -> Values:
        """Where the optimiser stands: remembered, unless somebody else has changed the parameters since."""
        now = self._read()
        if self._known is not None and all(map(torch.equal, self._known[0], now)):
            return self._known[1]
        return self._inner(now)

    def _read(self) -> Values:
        return [p.detach().clone() for p in self._parameters]

    def _write(self, values: Values) -> None:
        for p, value in zip(self._parameters, values, strict=True):
            p.copy_(value)

    def _pull(self) -> None:
        """Gradients to the optimiser's coordinates; none counts as zero."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]
        for p, gradient in zip(self._parameters, self._pulled(gradients), strict=True):
            p.grad = gradient

    def _outside(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """The user's closure, which evaluates the model, for an optimiser that stands elsewhere."""

        def evaluate() -> Any:
            with torch.no_grad():
                inner = self._read()
                self._write(self._outer(inner))
            try:
                with torch.enable_grad():
                    result = closure()
            finally:  # an interrupt leaves the optimiser where it was
                with torch.no_grad():
                    self._write(inner)
            with torch.no_grad():
                self._pull()
            return result

        return evaluate


def checked_parameters(optimizer: Any) -> Values:
    """All parameters of an optimiser, refused if it is none."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError(f"optimizer is {optimizer!r}: an optimizer of torch.optim is expected.")
    return [p for group in optimizer.param_groups for p in group["params"]]
