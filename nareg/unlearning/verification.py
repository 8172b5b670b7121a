"""Verify a store from its remaining data alone: propagate and train again, and compare."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np

from nareg.unlearning.certificate import Certificate
from nareg.unlearning.head import Head
from nareg.unlearning.model import CertifiedGPR
from nareg.unlearning.store.ledger import Ledger
from nareg.unlearning.store.mapped_data import MappedData
from nareg.unlearning.store.state import keeps_embedding

#: Rows of the embedding that are classified at a time.
ROWS = 2**16


@dataclass(frozen=True)
class Verification:
    """Result of the verification of a store or a folder.

    Attributes
    ----------
    holds : bool
        Whether the gradient at the stored model is within the budget, on an embedding propagated from the remaining data, and
        the last certificate agrees with settings and data.
    wrong : tuple of str
        Statements of the certificate that are wrong.
    chained : bool or None
        True if all hashes follow from one another; None without the key, and of a folder.
    gradient, approximation, budget : float
        The guarantee holds if ``gradient + approximation <= budget``.
    distance : float
        Frobenius norm between the stored coefficients and those of training from nothing with the same noise term.
    bound : float
        Largest possible distance: by strong convexity the sum of ``gradient / (lam n_t)`` over both models.
    agreement : float
        Share of the remaining nodes for which both models predict the same class.
    requests : int or None
        Number of requests in the store; None of a folder.
    digest : str or None
        Hash of the last request, which depends on all earlier ones: an older copy of the store has an older hash. None of a
        folder.
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
    requests: int | None
    digest: str | None
    certificate: Certificate | None

    def summary(self) -> str:
        """The result in a few lines of text."""
        verdict = "the last certificate holds" if self.holds else "THE LAST CERTIFICATE DOES NOT HOLD"
        if self.certificate is None:
            verdict = "there is no certificate"
        chain = "hashes follow from one another" if self.chained else "hashes not checked without the key"
        first: tuple[str, ...] = (f"{verdict}; a folder keeps no history of requests",)
        if self.digest is not None:
            first = (
                f"{verdict}; {self.requests} requests, including the saving of the store; {chain}",
                f"  last hash {self.digest}",
            )
        return "\n".join(
            (
                *first,
                *(f"  {wrong}" for wrong in self.wrong),
                f"  gradient {self.gradient:.3g} + approximation {self.approximation:.3g} of {self.budget:.3g}",
                f"  retrained on the remaining data: coefficients {self.distance:.3g} away (at most {self.bound:.3g}), "
                f"{self.agreement:.2%} of the predictions agree",
            )
        )


def verify(
    path: str | os.PathLike[str], *, key: str | os.PathLike[str] | None = None, device: str | None = None,
    memory: int | None = None,
) -> Verification:  # fmt: skip
    """Verify a store, or the folder of a model, by exact propagation of its remaining data, whatever its ``r_max``.

    A folder has no history. Rows of its embedding are compared with those of training nodes that are propagated anew, some
    columns at a time. Nothing is written but a request that a killed process left in the journal.

    Parameters
    ----------
    path : path
        A store or folder that is not open.
    key : path, optional
        File of the key, by default ``path.key``; without it hashes are not checked.
    device : str, optional
        As in :class:`CertifiedGPR`.
    memory : int, optional
        For a folder, as in :class:`CertifiedGPR`.

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
    if keeps_embedding(path):
        return _verified_folder(path, key, device, memory)
    ledger = Ledger(path, key)
    try:
        stored, history, chained = ledger.read(), ledger.history(), True if ledger.has_key else None
    finally:
        ledger.close()
    model = CertifiedGPR.from_stored(stored, device=device, exact=True)
    return _verified(model, model._head, wrong=(), chained=chained, requests=len(history), digest=history[-1][0])


def _verified_folder(
    path: str | os.PathLike[str], key: str | os.PathLike[str] | None, device: str | None, memory: int | None
) -> Verification:
    """The same for a folder, of which only features, graph and labels are trusted."""
    model = CertifiedGPR.load(path, key=key, device=device, memory=memory)
    try:
        data = model._data
        assert isinstance(data, MappedData)
        data.folder.check_files()
        off, bound = data.propagation.recompute_trained(), 2 * data.propagation.errors()
        wrong = () if off <= bound else (f"the stored embedding is {off:.3g} off that of the remaining data",)
        B, W = model._head.B, model._head.W
        present = replace(model._training, device=None).evaluated(data, B, W)
        return _verified(model, present, wrong=wrong, chained=None, requests=None, digest=None)
    finally:
        model.close()


def _verified(
    model: CertifiedGPR, present: Head, *, wrong: tuple[str, ...], chained: bool | None, requests: int | None,
    digest: str | None,
) -> Verification:  # fmt: skip
    """Train again on an embedding that is propagated anew, and compare."""
    data, certificate = model._data, model._certificate
    retrained = model._training.adjusted(data, present.B, np.zeros_like(present.W))
    wrong += _wrong(certificate, model)
    return Verification(
        holds=certificate is not None and not wrong and present.spent <= model.budget, wrong=wrong, chained=chained,
        gradient=present.residual, approximation=present.approximation, budget=model.budget,
        distance=float(np.linalg.norm(present.W - retrained.W)),
        bound=(present.residual + retrained.residual) / (model.lam * data.train.size),
        agreement=_agreement(model, present.W, retrained.W), requests=requests, digest=digest, certificate=certificate,
    )  # fmt: skip


def _agreement(model: CertifiedGPR, W: np.ndarray, other: np.ndarray) -> float:
    """Share of the remaining nodes that both coefficients give the same class, some rows at a time."""
    nodes, agreed = model.remaining, 0
    for part in np.array_split(nodes, -(-nodes.size // ROWS)):
        Z = model._data.propagation.embedding(part)
        agreed += int(np.count_nonzero(model.class_of(Z @ W) == model.class_of(Z @ other)))
    return float(agreed / nodes.size)


def _wrong(certificate: Certificate | None, model: CertifiedGPR) -> tuple[str, ...]:
    """Statements of a certificate that are wrong."""
    if certificate is None:
        return ()
    actual = {
        "eps": model.eps, "delta": model.delta, "alpha": model.alpha, "eps_scale": model.eps_scale, "budget": model.budget,
        "n_nodes": model.remaining.size, "n_edges": model._data.graph.n_edges, "n_train": model._data.train.size,
    }  # fmt: skip
    stated = {name: getattr(certificate, name) for name in actual}
    return tuple(
        f"the certificate states {name} = {stated[name]:g}, but it is {actual[name]:g}"
        for name in actual
        if stated[name] != actual[name]
    )
