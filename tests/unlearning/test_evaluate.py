"""The whole evaluation, on models whose figures are known."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.special import softmax

import nareg
from nareg.errors import InputError
from nareg.unlearning import CertifiedGPR, ModelScores, UnlearningTask, evaluate, evaluation, measured_call
from nareg.unlearning.evaluation_task import scores_of, two_columns
from tests.unlearning import reference

pytestmark = pytest.mark.filterwarnings("ignore::nareg.errors.UtilityWarning")


@pytest.fixture
def task(rng):
    data = nareg.datasets.node_classification.synthetic(200, 3, n_features=8, rng=rng)
    return UnlearningTask(data.graph, data.features, data.labels, np.arange(150), np.arange(150, 200), np.arange(20))


def fitted(task, data=None, seed=1):
    graph, X, y, train = (task.graph, task.features, task.labels, task.train) if data is None else data
    return CertifiedGPR(lam=1e-3, alpha=0.01, rng=np.random.default_rng(seed)).fit(graph, X, y, train, classes=task.classes)


def test_a_model_against_itself(task, rng):
    model = fitted(task, task.remaining())
    result = evaluate(model, task, before=fitted(task), retrained=model, rng=rng)
    assert (result.fidelity, result.logit_distance, result.accuracy) == (1, 0, result.reference.accuracy)
    assert result.weight_distance == {"l2": 0, "cosine": pytest.approx(1), "relative": 0}
    assert result.auroc == result.reference.auroc
    assert (result.removed_accuracy, result.recalled) == (result.reference.removed_accuracy, result.reference.recalled)


def test_an_unlearned_model_is_next_to_the_retrained_one(task):
    before, model, retrained = fitted(task), fitted(task), fitted(task, task.remaining())
    call = measured_call(lambda: model.remove_nodes(task.removed))
    result = evaluate(model, task, before=before, retrained=retrained, call=call, reference_call=measured_call(lambda: None))
    unchanged = evaluate(before, task, before=before, retrained=retrained)
    assert result.fidelity == 1
    assert result.logit_distance < 0.02 * unchanged.logit_distance
    assert all(abs(result.auroc[name] - result.reference.auroc[name]) < 0.01 for name in result.auroc)
    assert unchanged.auroc["membership"] == 0.5
    assert (result.seconds, result.peak_memory) == (call.seconds, call.peak_memory)
    assert "retraining" in result.summary()


def test_a_model_that_memorizes_is_caught(task, rng):
    """It knew the removed nodes by heart, and forgets them alone."""
    labels, logits = np.asarray(task.labels), 0.1 * rng.standard_normal((200, 3))
    logits[np.arange(200), labels] += 1
    memorized = logits.copy()
    memorized[task.removed, labels[task.removed]] += 9
    before, after = ModelScores(memorized, memorized), ModelScores(logits, logits)
    result = evaluate(after, task, before=before, retrained=after, rng=rng)
    assert result.auroc["membership"] == 1
    kept = evaluate(before, task, before=before, retrained=after, rng=rng)
    assert kept.auroc["membership"] == 0.5
    assert kept.auroc["trend"] > 0.99
    assert kept.auroc["recall"] > 0.9
    assert kept.weight_distance == {}


def test_scores_are_those_of_dense_propagation(task):
    model = fitted(task)
    model.remove_nodes(task.removed)
    scores = scores_of(model, task)
    A, X = task.graph.adjacency.toarray(), np.asarray(task.features)
    np.testing.assert_allclose(scores.original, reference.embedding(A, X, model.weights) @ model.coefficients, atol=1e-10)
    np.testing.assert_allclose(scores.remaining, model.decision(), atol=1e-10)
    np.testing.assert_allclose(scores.probabilities, softmax(scores.original, axis=1))


def test_two_classes_have_two_columns():
    s = np.array([[3.0], [-1.0]])
    np.testing.assert_allclose(softmax(two_columns(s), axis=1)[:, 1], 1 / (1 + np.exp(-s[:, 0])))


def test_distances_by_hand():
    one, two = np.array([[3.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 4.0], [0.0, 1.0]])
    assert evaluation.fidelity(one, two) == 0.5
    assert evaluation.logit_distance(one, two) == 2.5
    assert evaluation.logit_scale(two) == pytest.approx((4 + 1) / np.sqrt(2) / 2)
    assert evaluation.accuracy(one, np.array([7, 9]), np.array([7, 9])) == 1
    assert evaluation.weight_distance(np.array([1.0, 0.0]), np.array([0.0, 2.0])) == {
        "l2": pytest.approx(5**0.5), "cosine": 0, "relative": pytest.approx(5**0.5 / 2),
    }  # fmt: skip


@pytest.mark.slow
def test_memory_is_that_of_the_call(monkeypatch, tmp_path):
    """In a new process, which has no unused memory."""
    code = (
        "import numpy as np\nfrom nareg.unlearning import measured_call\n"
        "call = measured_call(lambda: np.ones(2**24).sum())\nprint(call.result == 2**24, call.peak_memory)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert answer[0] == "True"
    assert answer[1] == "None" or 0.9 * 2**27 < int(answer[1]) < 2**28
    monkeypatch.setattr(evaluation, "CLEAR", tmp_path / "absent" / "clear_refs")
    assert measured_call(lambda: 1).peak_memory is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"removed": [160]}, "removed holds node 160, which is not trained on"),
        ({"test": [0, 170]}, "node 0 is in train and in test"),
        ({"removed": []}, "at least two and one are needed"),
        ({"labels": np.full(200, -1)}, "node 0 has no label"),
    ],
)
def test_tasks_that_cannot_work_are_refused(task, change, said):
    parts = {name: getattr(task, name) for name in ("graph", "features", "labels", "train", "test", "removed")}
    with pytest.raises(InputError, match=said):
        UnlearningTask(**(parts | change))


def test_models_that_do_not_fit_are_refused(task):
    scores = ModelScores(np.zeros((200, 4)), np.zeros((200, 4)))
    with pytest.raises(InputError, match="a column per class"):
        evaluate(scores, task, before=scores, retrained=scores)
    with pytest.raises(InputError, match="cannot be asked about other data"):
        evaluate(3, task, before=scores, retrained=scores)
    with pytest.raises(InputError, match="pass an UnlearningTask"):
        evaluate(scores, [1], before=scores, retrained=scores)
    with pytest.raises(InputError, match="logits of the same nodes"):
        ModelScores(np.zeros((200, 4)), np.zeros((199, 4)))
    with pytest.raises(InputError, match="the same kind"):
        evaluation.weight_distance(np.ones(3), np.ones(4))
