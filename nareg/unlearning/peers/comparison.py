"""Models that forget, side by side on the same requests: seconds, accuracy before and after, and what is certified."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from nareg import _checks
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.unlearning import _arguments
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.forgetting import Forgetting, checked_weights
from nareg.unlearning.model import CertifiedGPR
from nareg.unlearning.peers.certified import CEU, CGU, Retrained
from nareg.unlearning.propagation.dynamic_graph import LiveGraph

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
    order: int = 2,
    weights: Any = None,
    loss: str = "logistic",
    lam: float = 1e-2,
    alpha: float = 0.1,
    eps: float = 1.0,
    delta: float = 1e-4,
    device: str | None = None,
    rng: np.random.Generator | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Iterator[Compared]:
    """Fit every method and have it forget the same edges, then nodes, one by one.

    All draw the same random numbers: methods that train alike have the same model to begin with.

    Parameters
    ----------
    graph, features, labels, train
        See :meth:`nareg.unlearning.CertifiedGPR.fit`. All classes of ``labels`` count as known beforehand.
    edges : (E, 2) pairs, nodes : integers or a mask
        To be removed, each by itself.
    methods : sequence of str
        Among ``CERTIFIED`` and ``DEEP``.
    order, weights
        Of the propagation.
    loss, lam, alpha, eps, delta
        Of the methods with a certificate, see :class:`nareg.unlearning.CertifiedGPR`.
    device : str, optional
        A device of torch, for all methods.
    rng : numpy.random.Generator, optional
    progress : callable, optional
        Told a method, how many of its requests are done and how many there are.

    Yields
    ------
    Compared
        A method at a time: what is done is kept if the rest is interrupted.

    Raises
    ------
    InputError
    MissingDependencyError
        For the deep ones, or a device, without torch.

    Examples
    --------
    >>> import nareg, numpy as np
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> found = compare(data.graph, data.features, data.labels, np.arange(200), nodes=[3, 250], methods=["nareg", "CGU"])
    >>> [(one.method, one.retrained, one.spent < 1) for one in found]
    [('nareg', 0, True), ('CGU', 0, True)]
    """
    stream = np.random.default_rng() if rng is None else _checks.generator(rng)
    (common,) = stream.spawn(1)
    weights = checked_weights(order, weights)
    certified: dict[str, Any] = {"loss": loss, "lam": lam, "alpha": alpha, "eps": eps, "delta": delta}
    models = {method: _model(method, deepcopy(common), weights, device, certified) for method in methods}
    pairs, gone, classes = _checked(graph, edges, nodes, labels)
    total = len(pairs) + len(gone)
    _compile(weights, device)
    for method in list(models):
        model = models.pop(method)  # the next one needs the memory
        start = time.perf_counter()
        model.fit(graph, features, labels, train, classes=classes)
        fit, before = time.perf_counter() - start, _accuracy(model)
        seconds, told = [], []
        for remove, what in [(model.remove_edges, pairs), (model.remove_nodes, gone)]:
            for one in what:
                start = time.perf_counter()
                told.append(remove(one[None]))
                seconds.append(time.perf_counter() - start)
                if progress is not None:
                    progress(method, len(told), total)
        yield Compared(method, before, _accuracy(model), fit, float(np.median(seconds)), **_cost(told))


def _checked(graph: Any, edges: Any, nodes: Any, labels: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges and nodes that can be removed, and all classes."""
    live = LiveGraph(graph if isinstance(graph, Graph) else Graph(graph))
    pairs = live.checked_pairs("edges", edges, present=True) if np.size(edges) else np.empty((0, 2), dtype=np.int64)
    gone = _arguments.numbers("nodes", nodes, live.n_nodes)
    if not len(pairs) + len(gone):
        raise InputError("edges and nodes are empty: name something to remove.")
    classes = np.unique(_arguments.whole("labels", labels, live.n_nodes))
    return pairs, gone, classes[classes >= 0]


def _model(method: str, rng: np.random.Generator, weights: np.ndarray, device: str | None, certified: dict[str, Any]) -> Any:
    """Not fitted."""
    if _checks.choice("methods", method, [*CERTIFIED, *DEEP]) in CERTIFIED:
        return CERTIFIED[method](weights=weights, device=device, rng=rng, **certified)
    from nareg.unlearning.peers.deep import DeepGPR  # needs torch

    basis = DEEP[method]
    shape: dict[str, Any] = {"weights": weights} if basis == "gpr" else {"order": weights.size - 1}
    return DeepGPR(basis=basis, device=device or "cpu", rng=rng, **shape)


def _compile(weights: np.ndarray, device: str | None) -> None:
    """Have all loops compiled that the methods share, the device started: whichever comes first would be charged with that."""
    ring = np.roll(np.eye(6), 1, axis=1)
    model = CertifiedGPR(weights=weights, device=device, rng=np.random.default_rng(0)).fit(
        ring + ring.T, np.eye(6), np.arange(6) % 2, np.arange(6)
    )
    model.remove_edges([(0, 1)])
    model.remove_nodes([3])


def _accuracy(model: Forgetting[Any]) -> float:
    """Of the nodes with a label that are not trained on."""
    labels = model.labels
    held = np.setdiff1d(np.flatnonzero(labels >= 0), model.train)
    return float((model.predict(held) == labels[held]).mean()) if held.size else float("nan")


def _cost(told: list[Any]) -> dict[str, Any]:
    """Of what the requests returned: certificates, or updates without."""
    certified = isinstance(told[0], Certificate)
    return {
        "propagation": float(np.median([one.seconds["propagation"] for one in told])),
        "spent": max(one.spent / one.budget for one in told) if certified else None,
        "retrained": sum(one.retrained for one in told) if certified else 0,
    }
