"""The yardstick of "Is Graph Unlearning Ready for Practice?" (ICLR 2026): efficiency, utility and forgetting.

Each is judged against training from nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from nareg._core import checks
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.unlearning import attacks
from nareg.unlearning.evaluation_task import ModelScores, UnlearningTask, scores_of

T = TypeVar("T")

#: Linux: where a process reads its memory, and forgets its peak.
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class MeasuredCall(Generic[T]):
    """Result, seconds, and bytes by which the process grew at its peak; None where the system does not tell.

    Memory that the process had and did not use is not counted: ``peak_memory`` is a lower bound, and 0 if that was enough.
    """

    result: T
    seconds: float
    peak_memory: int | None


def measured_call(call: Callable[[], T]) -> MeasuredCall[T]:
    """Call a function and measure it.

    Memory is that of the whole process, of all threads and libraries. It is known on Linux only.

    Examples
    --------
    >>> import numpy as np
    >>> measured_call(lambda: int(np.ones(3).sum())).result
    3
    """
    before = _forget_peak()
    start = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - start
    peak = None if before is None else max(_bytes("VmHWM") - before, 0)
    return MeasuredCall(result, seconds, peak)


def _forget_peak() -> int | None:
    """Reset the peak of this process, and return its present memory."""
    try:
        CLEAR.write_text("5")
        return _bytes("VmRSS")
    except (OSError, KeyError):
        return None


def _bytes(name: str) -> int:
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines() if ":" in line)
    return 1024 * int(lines[name].split()[0])


@dataclass(frozen=True)
class ForgettingScores:
    """What attacks find out from one model.

    Attributes
    ----------
    accuracy : float
        At the test nodes, on the remaining data.
    removed_accuracy : float
        At the removed nodes, on the data before.
    recalled : float
        Share of the removed nodes whose label the student of the recall attack names.
    auroc : dict of float
        "membership", "trend" and "recall".
    """

    accuracy: float
    removed_accuracy: float
    recalled: float
    auroc: dict[str, float]


@dataclass(frozen=True)
class Evaluation:
    """A model after unlearning, against one that was trained from nothing on what remains.

    Attributes
    ----------
    seconds, reference_seconds : float or None
        Of unlearning and of training from nothing, preprocessing included.
    peak_memory : int or None
        Bytes by which the process grew while unlearning: a lower bound of what it needed.
    accuracy : float
        At the test nodes.
    fidelity : float
        Share of the test nodes to which both models give the same class.
    logit_distance : float
        Mean over the test nodes of the L2 distance of the logits.
    logit_scale : float
        Mean length of the reference's centered logits: ``logit_distance / logit_scale`` can be compared between models.
    weight_distance : dict of float
        "l2", "cosine" and "relative" (L2 over the norm of the reference's weights); empty without weights.
    auroc : dict of float
        "membership", "trend", "recall": near 0.5, or rather near ``reference.auroc``, is good.
    removed_accuracy : float
        Accuracy at the removed nodes, if they are asked about with their edges and features.
    reference : ForgettingScores
        The same of the reference.
    recalled : float
        Share of the removed nodes whose label the student of the recall attack names.
    """

    seconds: float | None
    reference_seconds: float | None
    peak_memory: int | None
    accuracy: float
    fidelity: float
    logit_distance: float
    logit_scale: float
    weight_distance: dict[str, float]
    auroc: dict[str, float]
    removed_accuracy: float
    recalled: float
    reference: ForgettingScores

    def summary(self) -> str:
        """The result in a few lines of text; the reference's figures in parentheses."""
        relative = self.logit_distance / self.logit_scale if self.logit_scale else float("nan")
        lines = [
            f"accuracy {self.accuracy:.2%} ({self.reference.accuracy:.2%}), fidelity {self.fidelity:.2%}, "
            f"logits {self.logit_distance:.3g} apart, {relative:.2%} of their length",
            f"removed nodes: right {self.removed_accuracy:.2%} ({self.reference.removed_accuracy:.2%}); AUROC "
            + ", ".join(f"{name} {value:.3f} ({self.reference.auroc[name]:.3f})" for name, value in self.auroc.items()),
        ]
        if self.seconds is not None and self.reference_seconds is not None:
            lines.insert(0, f"{self.seconds:.3g} s (retraining {self.reference_seconds:.3g} s)")
        return "\n".join(lines)


def evaluate(
    model: Any,
    task: UnlearningTask,
    *,
    before: Any,
    retrained: Any,
    call: MeasuredCall[Any] | None = None,
    reference_call: MeasuredCall[Any] | None = None,
    rng: np.random.Generator | None = None,
) -> Evaluation:
    """Judge a model after unlearning against one that was trained from nothing on what remains.

    Parameters
    ----------
    model : CertifiedGPR, a peer with ``decision_on`` and ``weights_vector``, or ModelScores
        After the nodes ``task.removed`` were unlearned.
    task : UnlearningTask
    before, retrained
        The same kind of model before, and trained from nothing on ``task.remaining()``.
    call, reference_call : MeasuredCall, optional
        Of unlearning and of training from nothing (:func:`~nareg.unlearning.measured_call`).
    rng : numpy.random.Generator, optional
        For the attacks, ``numpy.random.default_rng(0)`` by default. Both models meet the same random numbers.

    Raises
    ------
    InputError
        If a model cannot be asked, or the models do not fit the task.

    Notes
    -----
    Utility is computed at the test nodes on the remaining data. Attackers know the removed nodes, their features and edges,
    and ask about the data before. Probabilities are the softmax of the logits, also of scores of each class against the rest.

    Every figure has its weak point:

    - **Membership** compares probabilities before and after, so it needs the model from before, which no service shows. A
      model that changes nothing scores 0.5; the accuracy at the removed nodes tells it from one that forgot. Retraining
      itself scores above 0.5, since it changes most what was removed.
    - **Trend**: the attack is trained and tested on the same nodes, and it knows degrees. It finds nodes that were chosen by
      degree without asking the model.
    - **Recall** scores nodes by confidence. Nodes of one class, or of low degree, have another confidence in any model. The
      student knows the features alone.
    - **Fidelity** and distances to one retrained model count its random numbers, too: compare with a second retrained one.
    - **Weights** of networks are not unique: hidden units in another order are far apart and compute the same.
    - Removed nodes that were easy to classify from their neighbors stay so, whatever is forgotten.

    Read each AUROC beside ``reference.auroc``. None of them proves that anything was forgotten; certificates do.

    References
    ----------
    "Is Graph Unlearning Ready for Practice?", ICLR 2026: the figures. The student's learning rate is 1e-3 here, ten times
    its one, with which nine passes hardly teach anything.

    Examples
    --------
    >>> import nareg, numpy as np
    >>> from nareg.unlearning import CertifiedGPR, UnlearningTask, evaluate, measured_call
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> task = UnlearningTask(data.graph, data.features, data.labels, np.arange(200), np.arange(200, 300), np.arange(20))
    >>> def fitted(graph, features, labels, train):
    ...     model = CertifiedGPR(lam=0.1, alpha=0.01, rng=np.random.default_rng(1))
    ...     return model.fit(graph, features, labels, train, classes=task.classes)
    >>> before, model = (fitted(task.graph, task.features, task.labels, task.train) for _ in range(2))
    >>> call = measured_call(lambda: model.remove_nodes(task.removed))
    >>> result = evaluate(model, task, before=before, retrained=fitted(*task.remaining()), call=call)
    >>> result.fidelity, result.logit_distance < 1e-2 * result.logit_scale
    (1.0, True)
    """
    if not isinstance(task, UnlearningTask):
        raise InputError(f"task is a {type(task).__name__}: pass an UnlearningTask.")
    after, first, reference = (_fitting(scores_of(one, task), task) for one in (model, before, retrained))
    rng = checks.generator(rng)
    mine, theirs = (_forgetting(one, first, task, deepcopy(rng)) for one in (after, reference))
    test = np.asarray(task.test)
    logits, others = after.remaining[test], reference.remaining[test]
    return Evaluation(
        seconds=None if call is None else call.seconds,
        reference_seconds=None if reference_call is None else reference_call.seconds,
        peak_memory=None if call is None else call.peak_memory,
        accuracy=mine.accuracy, fidelity=fidelity(logits, others),
        logit_distance=logit_distance(logits, others), logit_scale=logit_scale(others),
        weight_distance=weight_distance(after.weights, reference.weights), auroc=mine.auroc,
        removed_accuracy=mine.removed_accuracy, recalled=mine.recalled, reference=theirs,
    )  # fmt: skip


def _fitting(scores: ModelScores, task: UnlearningTask) -> ModelScores:
    expected = (np.asarray(task.labels).size, task.classes.size)
    if scores.remaining.shape != expected:
        raise InputError(
            f"logits have shape {scores.remaining.shape}: {expected} is expected, a row per node and a column per class of the "
            "labels; fit with classes=task.classes."
        )
    return scores


def _forgetting(scores: ModelScores, before: ModelScores, task: UnlearningTask, rng: np.random.Generator) -> ForgettingScores:
    """Accuracies of a model, and what attacks find out from it."""
    assert isinstance(task.graph, Graph)
    train, test, removed, labels = (np.asarray(getattr(task, name)) for name in ("train", "test", "removed", "labels"))
    probabilities, classes = scores.probabilities, task.classes
    recalled = attacks.membership_recall(
        np.asarray(task.features), probabilities, np.searchsorted(classes, labels), np.union1d(train, test), removed, rng
    )
    return ForgettingScores(
        accuracy=accuracy(scores.remaining[test], labels[test], classes),
        removed_accuracy=accuracy(scores.original[removed], labels[removed], classes),
        recalled=recalled.accuracy,
        auroc={
            "membership": attacks.membership(before.probabilities, probabilities, removed, test, rng),
            "trend": attacks.trend(probabilities, task.graph, removed, train),
            "recall": recalled.auroc,
        },
    )


def accuracy(logits: np.ndarray, labels: np.ndarray, classes: np.ndarray) -> float:
    """Share of rows (K, C) whose largest logit is that of the label (K,)."""
    return float((classes[logits.argmax(axis=1)] == labels).mean())


def fidelity(logits: np.ndarray, reference: np.ndarray) -> float:
    """Share of rows for which both have the same largest logit."""
    return float((logits.argmax(axis=1) == reference.argmax(axis=1)).mean())


def logit_distance(logits: np.ndarray, reference: np.ndarray) -> float:
    """Mean over rows of the L2 distance."""
    return float(np.linalg.norm(logits - reference, axis=1).mean())


def logit_scale(reference: np.ndarray) -> float:
    """Mean length of the reference's logits around their mean per node: what a distance is compared with.

    A constant that is added to all logits of a node changes no probability, so it is left out.
    """
    return float(np.linalg.norm(reference - reference.mean(axis=1, keepdims=True), axis=1).mean())


def weight_distance(weights: np.ndarray | None, reference: np.ndarray | None) -> dict[str, float]:
    """L2 distance, cosine, and L2 distance over the norm of the reference; empty without weights of both.

    Raises
    ------
    InputError
        If the models have different numbers of weights.
    """
    if weights is None or reference is None:
        return {}
    if weights.shape != reference.shape:
        raise InputError(f"the model has {weights.size} weights and the retrained one {reference.size}: pass the same kind.")
    distance, lengths = float(np.linalg.norm(weights - reference)), (np.linalg.norm(weights), np.linalg.norm(reference))
    product = float(lengths[0] * lengths[1])
    return {
        "l2": distance,
        "cosine": float(weights @ reference) / product if product else float("nan"),
        "relative": distance / float(lengths[1]) if lengths[1] else float("nan"),
    }
