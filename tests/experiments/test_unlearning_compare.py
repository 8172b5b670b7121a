"""Methods side by side on the same requests."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from experiments._unlearning_compare import CERTIFIED, DEEP, compare
from nareg.errors import CertificateError, InputError
from nareg.progress import Progress
from nareg.unlearning import CertifiedGPR

DATA = nareg.datasets.node_classification.synthetic(150, 3, n_features=6, rng=np.random.default_rng(0))
TASK = DATA.graph, DATA.features, DATA.labels, np.arange(100)
EDGES = np.argwhere(np.triu(DATA.graph.adjacency.toarray()))[:3]


def test_every_certified_method_does_what_its_model_does_by_itself():
    running = compare(*TASK, edges=EDGES, nodes=[5, 120], model=CertifiedGPR(lam=0.05), rng=np.random.default_rng(1))
    result = {one.method: one for one in running}
    assert list(result) == list(CERTIFIED)
    for method, kind in CERTIFIED.items():
        (own,) = np.random.default_rng(1).spawn(1)
        model = kind(lam=0.05, rng=own).fit(*TASK)
        before = result["nareg"].before
        stored = np.arange(100, 150)
        assert result[method].before == before == np.mean(model.predict(stored) == DATA.labels[stored])
        certificate = [model.remove_edges([edge]) for edge in EDGES] + [model.remove_nodes([node]) for node in (5, 120)]
        stored = stored[stored != 120]
        assert result[method].after == np.mean(model.predict(stored) == DATA.labels[stored])
        assert result[method].spent == max(one.spent / one.budget for one in certificate)
        assert result[method].retrained == sum(one.retrained for one in certificate)
        assert method != "retrained" or result[method].retrained == 5
        assert 0 < result[method].timings["propagation"] < result[method].timings["request"]


def test_a_method_that_cannot_certify_does_not_end_a_comparison(monkeypatch):
    class Noiseless(CertifiedGPR):
        def __init__(self, **options):
            super().__init__(**{**options, "alpha": 1e-12})

    monkeypatch.setitem(CERTIFIED, "CGU", Noiseless)
    with pytest.warns(UserWarning, match="CGU is left out: .* above the budget"):
        result = list(compare(*TASK, edges=EDGES, rng=np.random.default_rng(1)))
    assert [one.method for one in result] == ["nareg", "retrained", "CEU"]
    with pytest.warns(UserWarning, match="left out"), pytest.raises(CertificateError, match="above the budget"):
        list(compare(*TASK, edges=EDGES, methods=["CGU"]))


@pytest.mark.slow
def test_of_the_perceptrons_one_certifies():
    pytest.importorskip("torch")
    result = {one.method: one for one in compare(*TASK, edges=EDGES, methods=DEEP, rng=np.random.default_rng(2))}
    assert all(one.after > 0.4 for one in result.values())
    certified = result.pop("last layer")
    assert 0 < certified.spent <= 1
    assert all((one.spent, one.retrained) == (None, 0) for one in result.values())


@pytest.mark.slow
def test_the_last_layer_does_what_its_model_does_by_itself():
    deep = pytest.importorskip("nareg.unlearning.deep")
    stated = {"methods": ["last layer"], "model": CertifiedGPR(weights=[0.5, 0.5], eps=0.5, delta=1e-3)}
    (one,) = compare(*TASK, edges=EDGES, nodes=[5, 120], **stated, rng=np.random.default_rng(1))
    (own,) = np.random.default_rng(1).spawn(1)
    model = deep.DeepGPR(weights=[0.5, 0.5], eps=0.5, delta=1e-3, rng=own).fit(*TASK)
    certificates = [model.remove_edges([edge]) for edge in EDGES] + [model.remove_nodes([node]) for node in (5, 120)]
    assert one.spent == max(one.spent / one.budget for one in certificates)
    assert one.retrained == sum(one.retrained for one in certificates)


@pytest.mark.parametrize("method", CERTIFIED)
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_on_a_device_every_method_does_the_same(method, loss):
    pytest.importorskip("torch")
    stated = {"nodes": [5, 120], "methods": [method], "model": CertifiedGPR(loss=loss)}
    here, there = (next(compare(*TASK, **stated, device=name, rng=np.random.default_rng(3))) for name in (None, "cpu"))
    assert (there.before, there.after, there.retrained) == (here.before, here.after, here.retrained)
    assert there.spent == pytest.approx(here.spent, rel=1e-3)


def test_a_method_at_a_time_with_progress():
    messages = []
    running = compare(*TASK, nodes=[3, 4], methods=["CGU", "nareg"], progress=messages.append)
    assert next(running).method == "CGU"
    assert messages == [Progress("CGU", 1, 2, 0.5), Progress("CGU", 2, 2, 1.0)]


def test_without_nodes_to_test_on_there_is_no_accuracy():
    (one,) = compare(*TASK[:3], np.arange(150), edges=EDGES[:1], methods=["nareg"])
    assert np.isnan(one.before)
    assert np.isnan(one.after)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"methods": ["forget"], "nodes": [1]}, "methods is 'forget'"),
        ({}, "edges and nodes are empty"),
        ({"nodes": [150]}, "nodes holds 150"),
        ({"nodes": [3, 3]}, "nodes"),
        ({"nodes": [3.7]}, "nodes"),
        ({"edges": EDGES.T}, "edges"),
        ({"edges": np.concatenate([EDGES, EDGES[:1]])}, "twice"),
        ({"edges": [[0, 0]]}, "loop"),
        ({"nodes": [1], "model": CertifiedGPR(r_max=1e-7)}, "model has r_max = 1e-07"),
        ({"nodes": [1], "rng": 5}, "rng is 5"),
    ],
)
def test_what_cannot_be_compared(arguments, words):
    with pytest.raises(InputError, match=words):
        next(compare(*TASK, **arguments))


def test_nodes_by_a_mask_and_the_last_training_node_of_a_class():
    labels = DATA.labels.copy()
    labels[labels == 2] = 0
    labels[5] = 2
    (one,) = compare(*TASK[:2], labels, TASK[3], nodes=np.arange(150) == 5, methods=["nareg"])
    assert one.after > 0.4


@pytest.mark.slow
def test_polynomials_are_of_one_order(monkeypatch):
    deep = pytest.importorskip("nareg.unlearning.deep")
    from experiments import _unlearning_perceptron as perceptron

    seen = []

    def watch(module, name):
        class Watched(getattr(module, name)):
            def fit(self, *arguments, **more):
                seen.append((name, getattr(self, "basis", "gpr"), self.weights.size))
                return super().fit(*arguments, **more)

        monkeypatch.setattr(module, name, Watched)

    watch(deep, "DeepGPR")
    watch(perceptron, "TrainedFurther")
    list(compare(*TASK, nodes=[3], methods=DEEP, model=CertifiedGPR(weights=[0.1, 0.2, 0.3, 0.4])))
    assert seen == [("TrainedFurther", "gpr", 4), ("TrainedFurther", "chebyshev", 4), ("DeepGPR", "gpr", 4)]


@pytest.mark.slow
def test_preview_is_what_a_removal_does_to_the_embedding():
    model = CertifiedGPR(weights=[0.2, 0.3, 0.5]).fit(*TASK)
    before, change = model.embedding(), model.preview(EDGES[0])
    np.testing.assert_array_equal(model.embedding(), before)
    model.remove_edges([EDGES[0]])
    before[change.nodes] += change.left @ change.right
    np.testing.assert_allclose(before, model.embedding(), atol=1e-12)
    with pytest.raises(InputError, match="factors are for exact propagation"):
        CertifiedGPR(r_max=1e-6).fit(*TASK).preview(EDGES[0])
