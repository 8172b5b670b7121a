"""Models that forget, side by side on the same requests: seconds, accuracy before and after, and what is certified."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nareg import _checks
from nareg.errors import InputError
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.forgetting import Forgetting
from nareg.unlearning.model import CertifiedGPR
from nareg.unlearning.peers import CEU, CGU, Retrained

#: Linear heads, whose requests end with a certificate.
CERTIFIED: dict[str, type[CertifiedGPR]] = {"nareg": CertifiedGPR, "retrained": Retrained, "CGU": CGU, "CEU": CEU}
#: Deep ones without any, and the basis of their polynomials; they need torch.
DEEP = {"perceptron": "gpr", "ChebNetII": "chebyshev"}


@dataclass(frozen=True)
class Compared:
    """How a method did.

    Attributes
    ----------
    method : str
    before, after : float
        Share of the nodes with a label that are not trained on (and remain) whose class is right; NaN where there are none.
    fit : float
        Seconds of the first training, propagation included.
    seconds, propagation : float
        Median over the requests, the whole of one and propagation in it.
    spent : float or None
        Largest share of the budget; None: nothing is certified.
    retrained : int
        Requests after which a model was trained anew.
    """

    method: str
    before: float
    after: float
    fit: float
    seconds: float
    propagation: float
    spent: float | None
    retrained: int


def compare(
    graph: Any,
    features: Any,
    labels: Any,
    train: Any,
    *,
    edges: Any = (),
    nodes: Any = (),
    methods: Sequence[str] = tuple(CERTIFIED),
    rng: np.random.Generator | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    order: int = 2,
    weights: Any = None,
    **certified: Any,
) -> Iterator[Compared]:
    """Fit every method and have it forget the same edges, then nodes, one by one.

    Parameters
    ----------
    graph, features, labels, train
        See :meth:`nareg.unlearning.CertifiedGPR.fit`.
    edges : (E, 2) pairs, nodes : integers
        To be removed, each by itself.
    methods : sequence of str
        Among ``CERTIFIED`` and ``DEEP``.
    rng : numpy.random.Generator, optional
    progress : callable, optional
        Told a method, how many of its requests are done and how many there are.
    order, weights
        Of the propagation.
    **certified
        Other parameters of :class:`nareg.unlearning.CertifiedGPR`, for the methods with a certificate.

    Yields
    ------
    Compared
        A method at a time: what is done is kept if the rest is interrupted.

    Raises
    ------
    InputError

    Examples
    --------
    >>> import nareg, numpy as np
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> found = compare(data.graph, data.features, data.labels, np.arange(200), nodes=[3, 250], methods=["nareg", "CGU"])
    >>> [(one.method, one.retrained, one.spent < 1) for one in found]
    [('nareg', 0, True), ('CGU', 0, True)]
    """
    for method in methods:
        _checks.choice("methods", method, [*CERTIFIED, *DEEP])
    pairs, gone = np.asarray(edges, dtype=np.int64).reshape(-1, 2), np.asarray(nodes, dtype=np.int64).ravel()
    total = len(pairs) + len(gone)
    if not total:
        raise InputError("edges and nodes are empty: name something to remove.")
    shared: dict[str, Any] = {"order": order, "weights": weights}
    for method, own in zip(methods, (rng or np.random.default_rng()).spawn(len(methods)), strict=True):
        model: Any = _deep(method, own, shared) if method in DEEP else CERTIFIED[method](**shared, **certified, rng=own)
        start = time.perf_counter()
        model.fit(graph, features, labels, train)
        fit, before = time.perf_counter() - start, _accuracy(model)
        told: list[Any] = []
        for remove, what in [(model.remove_edges, pairs), (model.remove_nodes, gone)]:
            for one in what:
                told.append(remove(one[None]))
                if progress is not None:
                    progress(method, len(told), total)
        yield Compared(method, before, _accuracy(model), fit, **_cost(told))


def _deep(method: str, rng: np.random.Generator, shared: dict[str, Any]) -> Forgetting[Any]:
    from nareg.unlearning.deep import DeepGPR  # needs torch

    return DeepGPR(**shared, basis=DEEP[method], rng=rng)


def _accuracy(model: Forgetting[Any]) -> float:
    """Of the nodes with a label that are not trained on."""
    labels = model.labels
    held = np.setdiff1d(np.flatnonzero(labels >= 0), model.train)
    return float((model.predict(held) == labels[held]).mean()) if held.size else float("nan")


def _cost(told: list[Any]) -> dict[str, Any]:
    """Of what the requests returned: certificates, or updates without."""
    certified = isinstance(told[0], Certificate)
    return {
        "seconds": float(np.median([sum(one.seconds.values()) for one in told])),
        "propagation": float(np.median([one.seconds["propagation"] for one in told])),
        "spent": max(one.spent / one.budget for one in told) if certified else None,
        "retrained": sum(one.retrained for one in told) if certified else 0,
    }
