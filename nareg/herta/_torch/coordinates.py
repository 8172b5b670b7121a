"""A PyTorch optimizer that works on other coordinates ``theta' = R^-1 theta`` than those the model is written in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from nareg.errors import InputError

#: Values of some parameters, in their order.
Values = list[torch.Tensor]


class InOtherCoordinates(ABC):
    """Wraps an optimizer; the model's parameters stay what they are, its gradients too.

    Attributes
    ----------
    optimizer : torch.optim.Optimizer
        What a learning rate scheduler is given.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Values) -> None:
        for group in optimizer.param_groups:
            if group.get("weight_decay") and any(p is q for p in group["params"] for q in parameters):
                raise InputError(
                    f"optimizer has weight_decay={group['weight_decay']:g}, which would act in preconditioned coordinates: "
                    "add weight_decay / 2 * (W ** 2).sum() to the loss instead."
                )
        self.optimizer, self._parameters = optimizer, parameters
        #: of the model, before they are turned
        self._gradients: list[torch.Tensor | None] = []
        #: parameters as they were last written, and where the optimizer then stood
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
        """One step of the optimizer, from the gradients of the model's parameters; they stay as they are."""
        self._gradients = self._own_gradients()
        self._write(self._place())
        if closure is None:
            self._pull()
        try:
            return self.optimizer.step() if closure is None else self.optimizer.step(self._outside(closure))
        finally:
            moved = self._read()
            self._write(self._outer(moved))
            self._known = self._read(), moved
            for p, gradient in zip(self._parameters, self._gradients, strict=True):
                p.grad = gradient

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As of the optimizer."""
        self.optimizer.zero_grad(set_to_none=set_to_none)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """As of the optimizer: learning rates are changed here, by schedulers too."""
        return self.optimizer.param_groups

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's, whose moments are those in its own coordinates, and what these coordinates are."""
        return {"optimizer": self.optimizer.state_dict(), "coordinates": self._coordinates()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What :meth:`state_dict` returned; the parameters themselves are in the model's state.

        Raises
        ------
        InputError
        """
        if not isinstance(state, dict) or set(state) != {"optimizer", "coordinates"}:
            raise InputError("state is not one of this kind of optimizer: pass what its own state_dict() returned.")
        self.optimizer.load_state_dict(state["optimizer"])
        self._set_coordinates(state["coordinates"])
        self._known = None

    def _coordinates(self) -> dict[str, Any]:
        """What has to be kept of R; nothing where it never changes."""
        return {}

    def _set_coordinates(self, state: dict[str, Any]) -> None:
        """Take what :meth:`_coordinates` returned."""
        if state:
            raise InputError("state holds coordinates that change, these do not: it is that of another kind of optimizer.")

    def _place(self) -> Values:
        """Where the optimizer stands: remembered, unless somebody else has changed the parameters since."""
        now = self._read()
        if self._known is not None and all(map(torch.equal, self._known[0], now)):
            return self._known[1]
        return self._inner(now)

    def _read(self) -> Values:
        return [p.detach().clone() for p in self._parameters]

    def _write(self, values: Values) -> None:
        for p, value in zip(self._parameters, values, strict=True):
            p.copy_(value)

    def _own_gradients(self) -> list[torch.Tensor | None]:
        return [p.grad for p in self._parameters]

    def _pull(self) -> None:
        """Gradients to the optimizer's coordinates; where only some are missing these count as zero."""
        if all(p.grad is None for p in self._parameters):
            return
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]
        for p, gradient in zip(self._parameters, self._pulled(gradients), strict=True):
            p.grad = gradient

    def _outside(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """The user's closure, which evaluates the model, for an optimizer that stands elsewhere."""

        def evaluate() -> Any:
            with torch.no_grad():
                inner = self._read()
                self._write(self._outer(inner))
            try:
                with torch.enable_grad():
                    result = closure()
            finally:  # an interrupt leaves the optimizer where it was
                with torch.no_grad():
                    self._write(inner)
            with torch.no_grad():
                self._gradients = self._own_gradients()
                self._pull()
            return result

        return evaluate


def checked_parameters(optimizer: Any) -> Values:
    """All parameters of an optimizer, refused if it is none."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError(f"optimizer is {optimizer!r}: an optimizer of torch.optim is expected.")
    return [p for group in optimizer.param_groups for p in group["params"]]
