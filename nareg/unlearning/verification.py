"""Verify a store from its remaining data alone: propagate and train again, and compare."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from nareg.unlearning import head
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.model import CertifiedGPR
from nareg.unlearning.store.ledger import Ledger


@dataclass(frozen=True)
class Verification:
    """Result of the verification of a store.

    Attributes
    ----------
    holds : bool
        Whether the gradient at the stored model is within the budget, on an embedding propagated from the remaining data, and
        the last certificate agrees with settings and data.
    wrong : tuple of str
        Statements of the certificate that are wrong.
    chained : bool or None
        True if all hashes follow from one another; None without the key.
    gradient, approximation, budget : float
        The guarantee holds if ``gradient + approximation <= budget``.
    distance : float
        Frobenius norm between the stored coefficients and those of training from nothing with the same noise term.
    bound : float
        Largest possible distance: by strong convexity the sum of ``gradient / (lam n_t)`` over both models.
    agreement : float
        Share of the remaining nodes for which both models predict the same class.
    requests : int
        Number of requests in the store.
    digest : str
        Hash of the last request, which depends on all earlier ones: an older copy of the store has an older hash.
    certificate : Certificate or None
        The last certificate, as the store keeps it.

    Examples
    --------
    See :func:`verify`.
    """

    holds: bool
    wrong: tuple[str, ...]
    chained: bool | None
    gradient: float
    approximation: float
    budget: float
    distance: float
    bound: float
    agreement: float
    requests: int
    digest: str
    certificate: Certificate | None

    def summary(self) -> str:
        """The result in a few lines of text."""
        verdict = "the last certificate holds" if self.holds else "THE LAST CERTIFICATE DOES NOT HOLD"
        if self.certificate is None:
            verdict = "there is no certificate"
        chain = "hashes follow from one another" if self.chained else "hashes not checked without the key"
        return "\n".join(
            (
                f"{verdict}; {self.requests} requests, including the saving of the store; {chain}",
                f"  last hash {self.digest}",
                *(f"  {wrong}" for wrong in self.wrong),
                f"  gradient {self.gradient:.3g} + approximation {self.approximation:.3g} of {self.budget:.3g}",
                f"  retrained on the remaining data: coefficients {self.distance:.3g} away (at most {self.bound:.3g}), "
                f"{self.agreement:.2%} of the predictions agree",
            )
        )


def verify(
    path: str | os.PathLike[str], *, key: str | os.PathLike[str] | None = None, device: str | None = None
) -> Verification:
    """Verify a store by exact propagation of its remaining data, whatever its ``r_max``.

    Parameters
    ----------
    path : path
        A store that is not open.
    key : path, optional
        File of the key, by default ``path.key``; without it hashes are not checked.
    device : str, optional
        As in :class:`CertifiedGPR`.

    Raises
    ------
    InputError
        If the store does not exist.
    LedgerError
        If it cannot be read, is damaged, or its hashes do not follow from one another.
    CertificateError
        If no model of the remaining data can be trained within the budget.

    Examples
    --------
    >>> import nareg, numpy as np, tempfile
    >>> from nareg.unlearning import CertifiedGPR, verify
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> model = CertifiedGPR().fit(data.graph, data.features, data.labels, np.arange(200))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/service.store").remove_nodes([5, 7]).count
    ...     model.close()
    ...     result = verify(f"{folder}/service.store")
    2
    >>> result.holds, result.chained, result.requests, result.distance <= result.bound
    (True, True, 2, True)
    """
    ledger = Ledger(path, key)
    try:
        stored, history, chained = ledger.read(), ledger.history(), True if ledger.has_key else None
    finally:
        ledger.close()
    model = CertifiedGPR.from_stored(stored, device=device, exact=True)
    data, present = model._data, model._head
    options: dict[str, Any] = {"loss": model.loss, "lam": model.lam, "device": model._device}
    budget = model.budget if model.alpha else None
    retrained = head.solve(data.propagation, data.targets(), present.B, np.zeros_like(present.W), budget=budget, **options)
    Z = data.propagation.embedding(model.remaining)
    agreement = float((model.class_of(Z @ present.W) == model.class_of(Z @ retrained.W)).mean())
    wrong = _wrong(stored.certificate, model)
    return Verification(
        holds=stored.certificate is not None and not wrong and present.spent <= model.budget, wrong=wrong, chained=chained,
        gradient=present.residual, approximation=present.approximation, budget=model.budget,
        distance=float(np.linalg.norm(present.W - retrained.W)),
        bound=(present.residual + retrained.residual) / (model.lam * data.train.size),
        agreement=agreement, requests=len(history), digest=history[-1][0], certificate=stored.certificate,
    )  # fmt: skip


def _wrong(certificate: Certificate | None, model: CertifiedGPR) -> tuple[str, ...]:
    """Statements of a certificate that are wrong."""
    if certificate is None:
        return ()
    actual = {
        "eps": model.eps, "delta": model.delta, "alpha": model.alpha, "budget": model.budget, "n_nodes": model.remaining.size,
        "n_edges": model._data.graph.n_edges, "n_train": model._data.train.size,
    }  # fmt: skip
    stated = {name: getattr(certificate, name) for name in actual}
    return tuple(
        f"the certificate states {name} = {stated[name]:g}, but it is {actual[name]:g}"
        for name in actual
        if stated[name] != actual[name]
    )
