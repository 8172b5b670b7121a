"""Other certified methods with the same calls, to compare with :class:`~nareg.unlearning.CertifiedGPR`.

Each propagates through the whole graph at every request. Each certificate counts the gradient that is left, and each method
retrains if it exceeds the budget. So all certificates are equally sound, whatever the papers count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from nareg.errors import CertificateError, InputError
from nareg.unlearning import head
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.data import Data, Request
from nareg.unlearning.model import CertifiedGPR
from nareg.unlearning.objective import ClassifierObjective


class Stepping(CertifiedGPR):
    """A model that takes one step per request, for which it has the problem of the data before."""

    _before: ClassifierObjective | None = None

    def _do(self, request: Request) -> Certificate:
        before = self._objective(self._data, self._head.B)
        self._before = replace(before, S=before.S.copy(), s=before.s.copy())  # a request changes them in place
        try:
            return super()._do(request)
        finally:
            self._before = None  # it holds removed data

    def _objective(self, data: Data, B: np.ndarray) -> ClassifierObjective:
        return ClassifierObjective(*data.propagation.trained(), data.targets(), self.loss, self.lam, B)


class _FullPropagation(Stepping):
    """Propagates through the whole graph at every request."""

    _fully = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.r_max:
            raise InputError(f"r_max is {self.r_max:g}: {type(self).__name__} propagates exactly, omit r_max.")

    def _stepped(self, data: Data, hessian_of: ClassifierObjective) -> head.Head:
        """One Newton step from the present head, with the Hessian of this objective.

        Raises
        ------
        CertificateError
            If the gradient that is left exceeds the budget.
        """
        objective, W = self._objective(data, self._head.B), self._head.W
        W = W + newton_step(hessian_of, W, objective.evaluate(W).gradient)
        result = replace(self._training, device=None).evaluated(data, objective.B, W)
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
        return self._stepped(data, self._objective(data, self._head.B))


class CEU(_FullPropagation):
    """Certified edge unlearning (Wu et al. 2023): a step with the Hessian of the data before (influence function)."""

    def _adjusted(self, data: Data) -> head.Head:
        assert self._before is not None
        return self._stepped(data, self._before)


def newton_step(objective: ClassifierObjective, W: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """``-H^-1 gradient`` with the dense Hessian of each class at W, as in the published methods."""
    Z, curvature = objective.s[:, None] * objective.S, objective.evaluate(W).curvature
    step = np.empty_like(W)
    for k in range(W.shape[1]):
        H = Z.T @ (curvature[:, k : k + 1] * Z)
        H.flat[:: len(H) + 1] += objective.ridge
        step[:, k] = -cho_solve(cho_factor(H, overwrite_a=True), gradient[:, k])
    return step
