"""Check a store by what remains in it alone: propagate and train anew, and compare."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from nareg.unlearning import head
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.model import CertifiedGPR


@dataclass(frozen=True)
class Verification:
    """What was found.

    Attributes
    ----------
    holds : bool
        Whether the gradient at the stored model, on an embedding propagated from what remains, is within the budget.
    gradient, approximation, budget : float
        ``gradient + approximation <= budget`` is what holds means.
    distance : float
        Between the stored coefficients and those of training from nothing with the same random term, Frobenius norm.
    bound : float
        What that distance may be at most: strong convexity makes ``gradient / (lam n_t)`` of it, of both models.
    agreement : float
        Share of the remaining nodes for which both predict the same class.
    requests : int
        Certificates in the store.
    certificate : Certificate or None
        The last.
    """

    holds: bool
    gradient: float
    approximation: float
    budget: float
    distance: float
    bound: float
    agreement: float
    requests: int
    certificate: Certificate | None

    def summary(self) -> str:
        """A few lines for a person."""
        verdict = "the last certificate holds" if self.holds else "THE LAST CERTIFICATE DOES NOT HOLD"
        return "\n".join(
            (
                f"{verdict}; {self.requests} requests, the saving of the store counted",
                f"  gradient {self.gradient:.3g} + approximation {self.approximation:.3g} of {self.budget:.3g}",
                f"  trained anew on what remains: coefficients {self.distance:.3g} away (at most {self.bound:.3g}), "
                f"{self.agreement:.2%} of the predictions alike",
            )
        )


def verify(path: str | os.PathLike[str]) -> Verification:
    """Verify a store.

    Parameters
    ----------
    path : path
        Of a store that nobody has open.

    Raises
    ------
    InputError, LedgerError
        If it cannot be read, or what it holds does not belong together.
    """
    model = CertifiedGPR.load(path)
    try:
        assert model._ledger is not None
        requests = len(model._ledger.history())
        held = model._head
        told: dict[str, Any] = {"loss": model.loss, "lam": model.lam}
        anew = head.solve(
            model._data.propagation, model._data.targets(), held.B, np.zeros_like(held.W), budget=model.budget, **told
        )
        before = model.predict(model.remaining)
        model._head = anew
        agreement = float((model.predict(model.remaining) == before).mean())
    finally:
        model.close()
    ridge = model.lam * model.train.size
    return Verification(
        holds=held.spent <= model.budget, gradient=held.residual, approximation=held.approximation, budget=model.budget,
        distance=float(np.linalg.norm(held.W - anew.W)), bound=(held.residual + anew.residual) / ridge, agreement=agreement,
        requests=requests, certificate=model._certificate,
    )  # fmt: skip
