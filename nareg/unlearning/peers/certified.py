"""Other ways to take something back, with the same calls: what :class:`~nareg.unlearning.CertifiedGPR` is compared with.

Each propagates everything anew at every request. All are charged alike, with the gradient that is left, and retrain where it is
above the budget: so their certificates are as sound, whatever their papers charge.
"""

from __future__ import annotations

from typing import Any

from nareg.errors import InputError
from nareg.unlearning import head
from nareg.unlearning.certificate import Certificate, CertificateError
from nareg.unlearning.data import Data, Request
from nareg.unlearning.model import CertifiedGPR
from nareg.unlearning.objective import ClassifierObjective


class _Anew(CertifiedGPR):
    """Propagates everything anew."""

    _fully = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.r_max:
            raise InputError(f"r_max is {self.r_max:g}: {type(self).__name__} propagates everything, leave r_max at 0.")

    def _objective(self, data: Data) -> ClassifierObjective:
        return ClassifierObjective(*data.propagation.trained(), data.targets(), self.loss, self.lam, self._head.B)

    def _stepped(self, data: Data, hessian_of: ClassifierObjective) -> head.Head:
        """One Newton step from the model at hand, with the Hessian of this objective.

        Raises
        ------
        CertificateError
            If it leaves more than the budget.
        """
        here, W = self._objective(data), self._head.W
        W = W + head.newton_step(hessian_of, W, here.evaluate(W).gradient)
        found = head.evaluate(data.propagation, here.Y, here.B, W, loss=self.loss, lam=self.lam)
        if not found.spent <= self.budget:
            raise CertificateError(f"a step leaves {found.spent:.3g} of {self.budget:.3g}.")
        return found


class Retrained(_Anew):
    """Trains from nothing, with a new random term, at every request."""

    def _adjusted(self, data: Data) -> head.Head:
        return self._retrained(data)


class CGU(_Anew):
    """Certified graph unlearning (Chien, Pan, Milenkovic 2022): one Newton step on what remains, with its dense Hessian."""

    def _adjusted(self, data: Data) -> head.Head:
        return self._stepped(data, self._objective(data))


class CEU(_Anew):
    """Certified edge unlearning (Wu et al. 2023): one step with the Hessian of the data before (influence function)."""

    _before: ClassifierObjective | None = None

    def _do(self, request: Request) -> Certificate:
        S, s = self._data.propagation.trained()
        self._before = ClassifierObjective(S.copy(), s.copy(), self._data.targets(), self.loss, self.lam, self._head.B)
        try:
            return super()._do(request)
        finally:
            self._before = None  # it has what was removed

    def _adjusted(self, data: Data) -> head.Head:
        assert self._before is not None
        return self._stepped(data, self._before)
