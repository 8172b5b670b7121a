"""Check a store by what remains in it alone: propagate and train anew, and compare."""

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
    """What was found.

    Attributes
    ----------
    holds : bool
        Whether the gradient at the stored model, on an embedding propagated from what remains, is within the budget, and the
        last certificate says of settings and of what remains what is so.
    wrong : tuple of str
        What it says that is not so.
    chained : bool or None
        That all hashes follow from one another; None without the key.
    gradient, approximation, budget : float
        ``gradient + approximation <= budget`` is what is promised.
    distance : float
        Between the stored coefficients and those of training from nothing with the same random term, Frobenius norm.
    bound : float
        What that distance may be at most: strong convexity makes ``gradient / (lam n_t)`` of it, of both models.
    agreement : float
        Share of the remaining nodes for which both predict the same class.
    requests : int
        Certificates in the store.
    digest : str
        Hash of the last request, which follows from all before: that of an older copy of the store is an older one.
    certificate : Certificate or None
        The last, as the store keeps it.

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
        """A few lines for a person."""
        verdict = "the last certificate holds" if self.holds else "THE LAST CERTIFICATE DOES NOT HOLD"
        if self.certificate is None:
            verdict = "there is no certificate"
        chain = "hashes follow from one another" if self.chained else "hashes not checked, for want of the key"
        return "\n".join(
            (
                f"{verdict}; {self.requests} requests, the saving of the store counted; {chain}",
                f"  last hash {self.digest}",
                *(f"  {wrong}" for wrong in self.wrong),
                f"  gradient {self.gradient:.3g} + approximation {self.approximation:.3g} of {self.budget:.3g}",
                f"  trained anew on what remains: coefficients {self.distance:.3g} away (at most {self.bound:.3g}), "
                f"{self.agreement:.2%} of the predictions alike",
            )
        )


def verify(
    path: str | os.PathLike[str], *, key: str | os.PathLike[str] | None = None, device: str | None = None
) -> Verification:
    """Verify a store: by exact propagation of what remains, whatever ``r_max`` the service has.

    Parameters
    ----------
    path : path
        Of a store that nobody has open.
    key : path, optional
        Of its key's file, ``path.key`` by default; without one hashes are not checked.
    device : str, optional
        As in :class:`CertifiedGPR`.

    Raises
    ------
    InputError, LedgerError
        If it cannot be read, is damaged, or its hashes do not follow from one another.
    CertificateError
        If no model of what remains can be trained within the budget.

    Examples
    --------
    >>> import nareg, numpy as np, tempfile
    >>> from nareg.unlearning import CertifiedGPR, verify
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> model = CertifiedGPR().fit(data.graph, data.features, data.labels, np.arange(200))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/service.store").remove_nodes([5, 7]).count
    ...     model.close()
    ...     found = verify(f"{folder}/service.store")
    2
    >>> found.holds, found.chained, found.requests, found.distance <= found.bound
    (True, True, 2, True)
    """
    ledger = Ledger(path, key)
    try:
        stored, history, chained = ledger.read(), ledger.history(), True if ledger.has_key else None
    finally:
        ledger.close()
    model = CertifiedGPR.from_stored(stored, device=device, exact=True)
    data, held = model._data, model._head
    options: dict[str, Any] = {"loss": model.loss, "lam": model.lam, "device": model._device}
    budget = model.budget if model.alpha else None
    anew = head.solve(data.propagation, data.targets(), held.B, np.zeros_like(held.W), budget=budget, **options)
    Z = data.propagation.embedding(model.remaining)
    agreement = float((model.class_of(Z @ held.W) == model.class_of(Z @ anew.W)).mean())
    wrong = _wrong(stored.certificate, model)
    return Verification(
        holds=stored.certificate is not None and not wrong and held.spent <= model.budget, wrong=wrong, chained=chained,
        gradient=held.residual, approximation=held.approximation, budget=model.budget,
        distance=float(np.linalg.norm(held.W - anew.W)), bound=(held.residual + anew.residual) / (model.lam * data.train.size),
        agreement=agreement, requests=len(history), digest=history[-1][0], certificate=stored.certificate,
    )  # fmt: skip


def _wrong(certificate: Certificate | None, model: CertifiedGPR) -> tuple[str, ...]:
    """What a certificate says that is not so."""
    if certificate is None:
        return ()
    so = {
        "eps": model.eps, "delta": model.delta, "alpha": model.alpha, "budget": model.budget, "n_nodes": model.remaining.size,
        "n_edges": model._data.graph.n_edges, "n_train": model._data.train.size,
    }  # fmt: skip
    said = {name: getattr(certificate, name) for name in so}
    return tuple(f"the certificate says {name} = {said[name]:g}, it is {so[name]:g}" for name in so if said[name] != so[name])
