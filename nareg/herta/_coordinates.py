"""A PyTorch optimizer that works on preconditioned coordinates ``theta' = R^-1 theta`` of a model's parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from nareg.errors import InputError

#: Values of some parameters, in their order.
Values = list[torch.Tensor]


class PreconditionedOptimizer(ABC):
    """Wraps an optimizer; the model keeps its own parameters and gradients.

    Attributes
    ----------
    optimizer : torch.optim.Optimizer
        The wrapped optimizer, for learning rate schedulers.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Values) -> None:
        for group in optimizer.param_groups:
            if group.get("weight_decay") and any(p is q for p in group["params"] for q in parameters):
                raise InputError(
                    f"optimizer has weight_decay={group['weight_decay']:g}, which would act in preconditioned coordinates: "
                    "add weight_decay / 2 * (W ** 2).sum() to the loss instead."
                )
        self.optimizer, self._parameters = optimizer, parameters
        #: the model's own
        self._gradients: list[torch.Tensor | None] = []
        #: parameters as last written, and in the optimizer's coordinates
        self._written: tuple[Values, Values] | None = None

    @abstractmethod
    def _inner(self, values: Values) -> Values:
        """``R^-1 theta``."""

    @abstractmethod
    def _outer(self, values: Values) -> Values:
        """``R theta'``."""

    @abstractmethod
    def _pull_back(self, gradients: Values) -> Values:
        """``R^T g``."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step of the optimizer from the gradients of the model's parameters, which do not change."""
        self._gradients = [p.grad for p in self._parameters]
        self._write(self._position())
        if closure is None:
            self._pull()
        try:
            return self.optimizer.step() if closure is None else self.optimizer.step(self._outside(closure))
        finally:
            inner = self._read()
            self._write(self._outer(inner))
            self._written = self._read(), inner
            for p, gradient in zip(self._parameters, self._gradients, strict=True):
                p.grad = gradient

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients, as the wrapped optimizer does."""
        self.optimizer.zero_grad(set_to_none=set_to_none)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Parameter groups of the wrapped optimizer, with their learning rates."""
        return self.optimizer.param_groups

    def state_dict(self) -> dict[str, Any]:
        """State of the wrapped optimizer, whose moments are in its own coordinates, and these coordinates."""
        return {"optimizer": self.optimizer.state_dict(), "coordinates": self._coordinates()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned. The parameters themselves are in the model's state.

        Raises
        ------
        InputError
            If it is the state of another kind of optimizer.
        """
        if not isinstance(state, dict) or set(state) != {"optimizer", "coordinates"}:
            raise InputError("state is not of this kind of optimizer: pass what its own state_dict() returned.")
        self.optimizer.load_state_dict(state["optimizer"])
        self._set_coordinates(state["coordinates"])
        self._written = None

    def _coordinates(self) -> dict[str, Any]:
        """The state of R; empty where R never changes."""
        return {}

    def _set_coordinates(self, state: dict[str, Any]) -> None:
        """Take what :meth:`_coordinates` returned."""
        if state:
            raise InputError("state is not of this kind of optimizer: pass what its own state_dict() returned.")

    def _position(self) -> Values:
        """Parameters in the optimizer's coordinates: as stored, unless the model's were changed since."""
        now = self._read()
        if self._written is not None and all(map(torch.equal, self._written[0], now)):
            return self._written[1]
        return self._inner(now)

    def _read(self) -> Values:
        return [p.detach().clone() for p in self._parameters]

    def _write(self, values: Values) -> None:
        for p, value in zip(self._parameters, values, strict=True):
            p.copy_(value)

    def _pull(self) -> None:
        """Transform gradients to the optimizer's coordinates; a missing one counts as zero unless all are missing."""
        if all(p.grad is None for p in self._parameters):
            return
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]
        for p, gradient in zip(self._parameters, self._pull_back(gradients), strict=True):
            p.grad = gradient

    def _outside(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """The user's closure, which evaluates the model, for an optimizer in other coordinates."""

        def evaluate() -> Any:
            with torch.no_grad():
                inner = self._read()
                self._write(self._outer(inner))
            try:
                with torch.enable_grad():
                    result = closure()
            finally:  # after an interrupt, too
                with torch.no_grad():
                    self._write(inner)
            with torch.no_grad():
                self._gradients = [p.grad for p in self._parameters]
                self._pull()
            return result

        return evaluate


def checked_parameters(optimizer: Any) -> Values:
    """All parameters of an optimizer, which has to be one of torch.optim."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError(f"optimizer is {optimizer!r}: pass an optimizer of torch.optim.")
    return [p for group in optimizer.param_groups for p in group["params"]]
