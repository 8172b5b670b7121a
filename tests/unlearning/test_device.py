"""Training and whole propagations on a device of torch: the same model, on the CPU, and on a GPU where there is one."""

from __future__ import annotations

import numpy as np
import pytest

from nareg import graphs
from nareg.errors import InputError, TooLargeError
from nareg.unlearning import CertifiedGPR, verify
from nareg.unlearning.propagation import exact
from nareg.unlearning.propagation.base import Change
from nareg.unlearning.propagation.device import Device
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.exact import Propagation
from tests.helpers import little_memory

torch = pytest.importorskip("torch")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"))]
WEIGHTS = [np.array([0.0, 0.0, 1.0]), np.array([0.3, 0.2, 0.1, -0.4]), np.array([0.5, 0.5]), np.array([1.0])]


def pieces(rng: np.random.Generator) -> tuple:
    graph = graphs.power_law(120, mean_degree=6, rng=rng)
    return graph, rng.standard_normal((120, 5)), rng.integers(3, size=120), np.arange(80)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("weights", WEIGHTS, ids=len)
def test_propagations_through_the_whole_graph_agree(device, weights, rng, monkeypatch):
    graph, X, _, train = pieces(rng)
    ours = Propagation(LiveGraph(graph), X.copy(), weights, train, device=Device(device))
    theirs = Propagation(LiveGraph(graph), X.copy(), weights, train)
    np.testing.assert_allclose(ours.embedding(), theirs.embedding(), atol=1e-13)
    # neighbors out of order, and reserves of every level
    monkeypatch.setattr(exact, "FULL", 0.0)
    edges = np.argwhere(np.triu(graph.adjacency.toarray()))
    for first in (0, 10):
        change = Change(removed=edges[first : first + 10], added=edges[:first])
        for stored in (ours, theirs):
            stored.update(change)
        np.testing.assert_allclose(ours.embedding(), theirs.embedding(), atol=1e-13)
        if weights[-1] == 1:
            np.testing.assert_allclose(ours.powers(), theirs.powers(), atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_models_agree_after_requests(device, loss, rng, tmp_path):
    graph, X, labels, train = pieces(rng)
    models = [
        CertifiedGPR(loss=loss, device=where, rng=np.random.default_rng(1)).fit(graph, X, labels, train)
        for where in (device, None)
    ]
    edges = np.argwhere(np.triu(graph.adjacency.toarray()))
    ours, theirs = models
    gone = np.setdiff1d(train, edges[0])[:2]
    for act in (lambda m: m.remove_edges(edges[:7]), lambda m: m.remove_nodes(gone), lambda m: m.add_edges(edges[:1])):
        stated = [act(model) for model in models]
        assert all(one.spent <= one.budget for one in stated)
        np.testing.assert_allclose(ours.embedding(), theirs.embedding(), atol=1e-13)
        # each within the budget of the same optimum
        bound = sum(one.spent for one in stated) / (ours.lam * ours.train.size)
        assert np.linalg.norm(ours.coefficients - theirs.coefficients) <= bound
        assert stated[0].approximation == pytest.approx(stated[1].approximation, rel=1e-6)
    ours.save(tmp_path / "s").close()
    assert verify(tmp_path / "s", device=device).holds
    again = CertifiedGPR.load(tmp_path / "s", device=device)
    assert again.remove_nodes([90]).spent <= again.budget
    again.close()
    assert verify(tmp_path / "s").holds


def test_residues_are_trained_on_a_device_too(rng):
    graph, X, labels, train = pieces(rng)
    result = [
        CertifiedGPR(r_max=1e-9, device=where, rng=np.random.default_rng(1)).fit(graph, X, labels, train).certificate()
        for where in ("cpu", None)
    ]
    assert result[0].approximation == pytest.approx(result[1].approximation, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "midway"])
def test_a_propagation_that_does_not_fit_is_refused_and_undone(when, rng, monkeypatch):
    graph, X, labels, train = pieces(rng)
    model = CertifiedGPR(device="cpu", rng=np.random.default_rng(1)).fit(graph, X, labels, train)
    before = model.embedding()
    edges = np.argwhere(np.triu(graph.adjacency.toarray()))[:3]
    monkeypatch.setattr(exact, "FULL", 0.0)
    with pytest.MonkeyPatch.context() as patch:
        if when == "before":
            little_memory(patch)
        else:
            patch.setattr(Device, "_matrix", lambda *a: (_ for _ in ()).throw(torch.OutOfMemoryError))
        with pytest.raises(TooLargeError, match=r"propagation through the whole graph on cpu .*needs about"):
            model.remove_edges(edges)
    np.testing.assert_allclose(model.embedding(), before, atol=1e-13)
    assert model.remove_edges(edges).spent <= model.budget


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_said():
    with pytest.raises(InputError, match="torch sees no CUDA GPU here"):
        CertifiedGPR(device="cuda")
    with pytest.raises(InputError, match="'cpu' or 'cuda' is expected"):
        CertifiedGPR(device="gpu")
