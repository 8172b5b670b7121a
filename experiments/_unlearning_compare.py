"""Unlearning methods side by side on the same requests: seconds, accuracy and certificates."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments._unlearning_peers import CEU, CGU, Retrained
from nareg._core import checks
from nareg.errors import CertificateError, InputError
from nareg.graph import Graph
from nareg.progress import Progress, ProgressCallback
from nareg.typing import ArrayLike, GraphLike, Sparse
from nareg.unlearning import _arguments
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.forgetting import Forgetting
from nareg.unlearning.model import CertifiedGPR
from nareg.unlearning.propagation.dynamic_graph import LiveGraph

#: Linear heads, whose requests return certificates.
CERTIFIED: dict[str, type[CertifiedGPR]] = {"nareg": CertifiedGPR, "retrained": Retrained, "CGU": CGU, "CEU": CEU}
#: Deep models, of which only the last layer is certified. They need torch.
DEEP = ("perceptron", "ChebNetII", "last layer")


@dataclass(frozen=True)
class ComparedMethod:
    """Accuracy, seconds and certificates of a method.

    Attributes
    ----------
    method : str
    before, after : float
        Accuracy at the labeled nodes that are not trained on, before and after all removals; NaN if there are none.
    spent : float or None
        Largest share of the budget that a certificate used; None if the method certifies nothing.
    retrained : int
        Requests after which a model was trained from nothing.
    timings : dict of float
        Seconds: ``"fit"``, the first training with its propagation; ``"request"`` and ``"propagation"``, medians over the
        requests of a whole one and of the propagation in it.
    """

    method: str
    before: float
    after: float
    spent: float | None
    retrained: int
    timings: dict[str, float]


def compare(
    graph: GraphLike,
    features: ArrayLike | Sparse,
    labels: ArrayLike,
    train: ArrayLike,
    *,
    edges: ArrayLike = (),
    nodes: ArrayLike = (),
    methods: Sequence[str] = tuple(CERTIFIED),
    model: CertifiedGPR | None = None,
    device: str | None = None,
    rng: np.random.Generator | None = None,
    progress: ProgressCallback | None = None,
) -> Iterator[ComparedMethod]:
    """Fit every method and remove the same edges, then nodes, one by one.

    All methods draw the same random numbers: those that train alike start from the same model.

    Parameters
    ----------
    graph, features, labels, train
        See :meth:`nareg.unlearning.CertifiedGPR.fit`. All classes of ``labels`` count as named by the user.
    edges : (E, 2) pairs
        Edges to remove.
    nodes : integers or (N,) mask
        Nodes to remove.
    methods : sequence of str
        Names among ``CERTIFIED`` and ``DEEP``.
    model : CertifiedGPR, optional
        An unfitted model; its weights, loss, lam and alpha apply to all certified linear heads, its eps and delta to all that
        certify, its weights to all.
    device : str, optional
        A torch device for all methods.
    rng : numpy.random.Generator, optional
        ``numpy.random.default_rng(0)`` by default.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per request; its stage is the method.

    Yields
    ------
    ComparedMethod
        One method at a time: an interruption loses only the unfinished ones.

    Raises
    ------
    InputError
        If a method is unknown, or an edge or node cannot be removed.
    MissingDependencyError
        If the deep methods or a device need torch and it is not installed.
    CertificateError
        If no method at all can certify its requests.

    Warns
    -----
    UserWarning
        If a method cannot certify a request; it is left out, and the others go on.

    Examples
    --------
    >>> import nareg, numpy as np
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> rows = compare(data.graph, data.features, data.labels, np.arange(200), nodes=[3, 250], methods=["nareg", "CGU"])
    >>> [(row.method, row.retrained, row.spent < 1) for row in rows]
    [('nareg', 0, True), ('CGU', 1, True)]
    """
    (common,) = checks.generator(rng).spawn(1)
    settings = CertifiedGPR() if model is None else model
    if settings.r_max:
        raise InputError(f"model has r_max = {settings.r_max:g}, but all methods propagate exactly here: omit r_max.")
    models = {method: _model(method, deepcopy(common), settings, device) for method in methods}
    pairs, removed, classes = _checked(graph, edges, nodes, labels)
    _compile(settings.weights, device)
    failed: list[CertificateError] = []
    for method in list(models):
        fitted = models.pop(method)  # the next one needs the memory
        try:
            one = _compared(method, fitted, (graph, features, labels, train, classes), pairs, removed, progress)
        except CertificateError as error:
            failed.append(error)
            warnings.warn(f"{method} is left out: {error}", UserWarning, stacklevel=2)
            continue
        yield one
    if len(failed) == len(methods):
        raise failed[0]


def _compared(
    method: str, fitted: Any, data: tuple[Any, ...], pairs: np.ndarray, removed: np.ndarray, progress: ProgressCallback | None
) -> ComparedMethod:
    """One method, fitted to the data without the classes, after its requests."""
    *task, classes = data
    total, start = len(pairs) + len(removed), time.perf_counter()
    fitted.fit(*task, classes=classes)
    fit, before = time.perf_counter() - start, _accuracy(fitted)
    seconds, answers = [], []
    for remove, items in [(fitted.remove_edges, pairs), (fitted.remove_nodes, removed)]:
        for item in items:
            start = time.perf_counter()
            answers.append(remove(item[None]))
            seconds.append(time.perf_counter() - start)
            if progress is not None:
                progress(Progress(method, len(answers), total, len(answers) / total))
    propagation = [answer.timings["propagation"] for answer in answers]
    timings = {"fit": fit, "request": float(np.median(seconds)), "propagation": float(np.median(propagation))}
    return ComparedMethod(method, before, _accuracy(fitted), *_certified(answers), timings)


def _checked(
    graph: GraphLike, edges: ArrayLike, nodes: ArrayLike, labels: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges and nodes that can be removed, and all classes."""
    live = LiveGraph(graph if isinstance(graph, Graph) else Graph(graph))
    pairs = live.checked_pairs("edges", edges, present=True) if np.size(edges) else np.empty((0, 2), dtype=np.int64)
    removed = _arguments.node_numbers("nodes", nodes, live.n_nodes)
    if not len(pairs) + len(removed):
        raise InputError("edges and nodes are empty: pass at least one edge or node to remove.")
    classes = np.unique(_arguments.integers("labels", labels, live.n_nodes))
    return pairs, removed, classes[classes >= 0]


def _model(method: str, rng: np.random.Generator, settings: CertifiedGPR, device: str | None) -> Any:
    """An unfitted model."""
    if checks.choice("methods", method, [*CERTIFIED, *DEEP]) in CERTIFIED:
        return CERTIFIED[method](
            weights=settings.weights, loss=settings.loss.name, eps=settings.eps, delta=settings.delta,
            device=device, rng=rng, **settings.calibration_options(),
        )  # fmt: skip
    from experiments._unlearning_perceptron import TrainedFurther  # needs torch
    from nareg.unlearning.deep import DeepGPR

    options: dict[str, Any] = {"device": device, "rng": rng}
    if method == "ChebNetII":
        return TrainedFurther(basis="chebyshev", weights=settings.weights.size - 1, **options)
    if method == "perceptron":
        return TrainedFurther(weights=settings.weights, **options)
    return DeepGPR(weights=settings.weights, eps=settings.eps, delta=settings.delta, **options)


def _compile(weights: np.ndarray, device: str | None) -> None:
    """Compile the loops that the methods share, and start the device: else the first method's time would include it."""
    ring = np.roll(np.eye(6), 1, axis=1)
    model = CertifiedGPR(weights=weights, device=device, rng=np.random.default_rng(0)).fit(
        ring + ring.T, np.eye(6), np.arange(6) % 2, np.arange(6)
    )
    model.remove_edges([(0, 1)])
    model.remove_nodes([3])


def _accuracy(model: Forgetting[Any]) -> float:
    """Accuracy at the labeled nodes that are not trained on."""
    labels = model.labels
    test = np.setdiff1d(np.flatnonzero(labels >= 0), model.train)
    return float((model.predict(test) == labels[test]).mean()) if test.size else float("nan")


def _certified(answers: list[Any]) -> tuple[float | None, int]:
    """Largest share of the budget, None without certificates, and the number of models that were retrained."""
    if not isinstance(answers[0], Certificate):
        return None, 0
    return max(one.spent / one.budget for one in answers), sum(one.retrained for one in answers)
