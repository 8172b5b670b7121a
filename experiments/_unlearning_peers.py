"""Other certified methods with the same calls, to compare with :class:`~nareg.unlearning.CertifiedGPR`.

Each propagates through the whole graph at every request. Each certificate counts the gradient that is left, and each method
retrains if it exceeds the budget. So all certificates are equally sound, whatever the papers count.
"""

from __future__ import annotations

from typing import Any

from nareg.errors import CertificateError, InputError
from nareg.unlearning import head
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.data import Data, Request
from nareg.unlearning.model import CertifiedGPR
from nareg.unlearning.objective import ClassifierObjective


class _FullPropagation(CertifiedGPR):
    """Propagates through the whole graph at every request."""

    _fully = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.r_max:
            raise InputError(f"r_max is {self.r_max:g}: {type(self).__name__} propagates exactly, omit r_max.")

    def _objective(self, data: Data) -> ClassifierObjective:
        return ClassifierObjective(*data.propagation.trained(), data.targets(), self.loss, self.lam, self._head.B)

    def _stepped(self, data: Data, hessian_of: ClassifierObjective) -> head.Head:
        """One Newton step from the present head, with the Hessian of this objective.

        Raises
        ------
        CertificateError
            If the gradient that is left exceeds the budget.
        """
        objective, W = self._objective(data), self._head.W
        W = W + head.newton_step(hessian_of, W, objective.evaluate(W).gradient)
        result = head.evaluate(data.propagation, objective.Y, objective.B, W, loss=self.loss, lam=self.lam)
        if not result.spent <= self.budget:
            raise CertificateError(f"a step leaves {result.spent:.3g} of {self.budget:.3g}.")
        return result


class Retrained(_FullPropagation):
    """Trains from nothing, with a new noise term, at every request."""

    def _adjusted(self, data: Data) -> head.Head:
        return self._retrained(data)


class CGU(_FullPropagation):
    """Certified graph unlearning (Chien, Pan, Milenkovic 2022): a Newton step with the dense Hessian of what remains."""

    def _adjusted(self, data: Data) -> head.Head:
        return self._stepped(data, self._objective(data))


class CEU(_FullPropagation):
    """Certified edge unlearning (Wu et al. 2023): a step with the Hessian of the data before (influence function)."""

    _before: ClassifierObjective | None = None

    def _do(self, request: Request) -> Certificate:
        S, s = self._data.propagation.trained()
        self._before = ClassifierObjective(S.copy(), s.copy(), self._data.targets(), self.loss, self.lam, self._head.B)
        try:
            return super()._do(request)
        finally:
            self._before = None  # it holds removed data

    def _adjusted(self, data: Data) -> head.Head:
        assert self._before is not None
        return self._stepped(data, self._before)
