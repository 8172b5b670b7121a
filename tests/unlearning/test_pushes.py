"""Pushes of large batches on a torch device: against the compiled loops, and against dense recomputation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import nareg
from nareg.errors import TooLargeError
from nareg.unlearning import CertifiedGPR
from nareg.unlearning.propagation import device as devices
from nareg.unlearning.propagation import exact
from nareg.unlearning.propagation.base import Change
from nareg.unlearning.propagation.device import Device
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.exact import Propagation
from nareg.unlearning.propagation.residual import ApproximatePropagation
from tests.unlearning import reference
from tests.unlearning.test_propagation import SCHEMES, changes

torch = pytest.importorskip("torch")

from tests.synchronizations import Synchronizations  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"))]


@pytest.fixture
def pushed(monkeypatch):
    """Every push goes to the device, and nothing is propagated anew; rows of what was pushed there."""
    monkeypatch.setitem(devices.LARGE, "cpu", 0)
    monkeypatch.setattr(devices, "LARGE_ELSEWHERE", 0)
    monkeypatch.setattr(exact, "FULL", np.inf)
    calls = []
    for name in ("push", "product"):
        run = getattr(Device, name)
        monkeypatch.setattr(Device, name, lambda self, *a, run=run: calls.append(len(a[1])) or run(self, *a))
    return calls


def random_case(rng, n=60, features=5):
    graph = nareg.graphs.erdos_renyi(n, 0.07, rng=rng)
    return graph, rng.standard_normal((n, features)), np.sort(rng.choice(n, n // 3, replace=False))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("weights", SCHEMES.values(), ids=list(SCHEMES))
def test_exact_pushes_are_those_of_the_compiled_loops_and_of_what_remains(device, weights, pushed, rng):
    graph, X, train = random_case(rng)
    live, other = LiveGraph(graph), LiveGraph(graph)
    ours = Propagation(live, X.copy(), np.array(weights), train, device=Device(device))
    theirs = Propagation(other, X.copy(), np.array(weights), train)
    count = 0
    for change in changes(live, X, rng, 40):
        count += change.touched.size > 0
        for stored in (ours, theirs):
            stored.update(change)
        A = live.adjacency().toarray()
        np.testing.assert_allclose(ours.embedding(), reference.embedding(A, X, weights), atol=1e-13)
        np.testing.assert_allclose(ours.embedding(), theirs.embedding(), atol=1e-13)
        for mine, other_level in zip(ours._reserves, theirs._reserves, strict=True):
            np.testing.assert_allclose(mine, other_level, atol=1e-12)
        assert (ours.scratch.slot == -1).all()
    assert len(pushed) >= (count if len(weights) > 1 else 0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("weights", SCHEMES.values(), ids=list(SCHEMES))
@pytest.mark.parametrize("r_max", [1e-3, 0.1, 1.0])
def test_recomputed_residues_stay_below_r_max_and_bound_the_error(device, weights, r_max, pushed, rng):
    """Residues are recomputed densely, in float64, from the reserves alone."""
    graph, X, train = random_case(rng)
    W = rng.standard_normal((5, 2))
    live = LiveGraph(graph)
    ours = ApproximatePropagation(live, X.copy(), np.array(weights), train, r_max=r_max, device=Device(device))
    theirs = ApproximatePropagation(LiveGraph(graph), X.copy(), np.array(weights), train, r_max=r_max)
    for change in changes(live, X, rng, 40):
        for stored in (ours, theirs):
            stored.update(change)
        A = live.adjacency().toarray() + np.eye(60)
        d = A.sum(1)[:, None]
        q = ours._reserves
        recomputed = [np.sqrt(d) * X - q[0], *(A @ (low / d) - high for low, high in pairwise(q))]
        for level, residue in enumerate(recomputed):
            assert abs(residue).max() <= (r_max if level < len(weights) - 1 else 0) + 1e-12
            np.testing.assert_allclose(ours.residues[level], residue, atol=1e-12)
            np.testing.assert_allclose(ours.residues[level], theirs.residues[level], atol=1e-12)
        off = reference.embedding(A - np.eye(60), X, weights) - ours.embedding()
        assert np.linalg.norm(off) <= ours.errors() + 1e-12
        assert np.linalg.norm(off @ W) <= ours.errors(W) + 1e-12
        assert (abs(off).sum(0) <= ours.column_errors() + 1e-12).all()
    assert pushed or len(weights) == 1


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("count", [1, 30])
def test_the_host_waits_once_for_an_exact_push_whatever_its_levels(order, count, pushed, rng):
    graph, X, train = random_case(rng)
    weights = np.full(order + 1, 1 / (order + 1))
    stored = Propagation(LiveGraph(graph), X, weights, train, device=Device("cpu"))
    edges = np.argwhere(np.triu(graph.adjacency.toarray()))[:count]
    pushed.clear()
    with Synchronizations() as seen:
        stored.update(Change(removed=edges))
    assert len(pushed) == 1
    assert sum(n for place, n in seen.places.items() if place.startswith("cpu ")) == 1
    assert not [place for place in seen.places if not place.startswith(("cpu ", "numpy "))], seen.places


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("count", [1, 30])
def test_the_host_waits_once_per_level_to_compare_residues_with_r_max(order, count, pushed, rng):
    graph, X, train = random_case(rng)
    weights = np.full(order + 1, 1 / (order + 1))
    stored = ApproximatePropagation(LiveGraph(graph), X, weights, train, r_max=1e-9, device=Device("cpu"))
    edges = np.argwhere(np.triu(graph.adjacency.toarray()))[:count]
    pushed.clear()
    with Synchronizations() as seen:
        stored.update(Change(removed=edges))
    assert len(pushed) == order
    assert sum(n for place, n in seen.places.items() if place.startswith("cpu ")) == order
    assert not [place for place in seen.places if not place.startswith(("cpu ", "numpy "))], seen.places


@pytest.mark.parametrize("kind", [Propagation, ApproximatePropagation])
def test_the_size_of_a_batch_decides(kind, pushed, monkeypatch, rng):
    graph, X, train = random_case(rng, n=200)
    options = {"r_max": 1e-9} if kind is ApproximatePropagation else {}
    stored = kind(LiveGraph(graph), X, np.array([0.5, 0.5]), train, device=Device("cpu"), **options)
    edges = np.argwhere(np.triu(graph.adjacency.toarray()))
    ends = np.unique(edges[1:60])
    one = int(stored.graph.degrees[edges[0]].sum()) * X.shape[1]
    monkeypatch.setitem(devices.LARGE, "cpu", one + 1)
    pushed.clear()
    stored.update(Change(removed=edges[:1]))
    assert not pushed
    stored.update(Change(removed=edges[1:60]))
    assert pushed == [ends.size]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("r_max", [0.0, 1e-9])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_certificates_of_pushed_batches_bound_the_true_gradient(device, r_max, loss, pushed, rng):
    graph, X, train = random_case(rng, n=120)
    labels = rng.integers(3, size=120)
    model = CertifiedGPR(weights=[0.2, 0.3, 0.5], loss=loss, r_max=r_max, device=device, rng=np.random.default_rng(1)).fit(
        graph, X, labels, train
    )
    edges = np.argwhere(np.triu(graph.adjacency.toarray()))
    pushed.clear()
    A, X = graph.adjacency.toarray(), X.copy()
    for part in (edges[:1], edges[1:40], edges[40:]):
        certificate = model.remove_edges(part)
        A[part[:, 0], part[:, 1]] = A[part[:, 1], part[:, 0]] = 0
        Z = reference.embedding(A, X, [0.2, 0.3, 0.5])
        Y = reference.signs(model.labels[model.train], model.classes)
        gradient = reference.gradient(Z[model.train], Y, model.coefficients, model._head.B, model.lam, loss)
        assert np.linalg.norm(gradient) <= certificate.spent <= certificate.budget
    assert pushed


@pytest.mark.parametrize("r_max", [0.0, 1e-9])
@pytest.mark.parametrize("when", ["before", "midway"])
def test_a_push_that_does_not_fit_is_refused_and_undone(r_max, when, pushed, rng):
    graph, X, train = random_case(rng)
    model = CertifiedGPR(r_max=r_max, device="cpu", rng=np.random.default_rng(1))
    model.fit(graph, X, rng.integers(2, size=60), train)
    before = model.embedding()
    edges = np.argwhere(np.triu(graph.adjacency.toarray()))[:3]
    with pytest.MonkeyPatch.context() as patch:
        if when == "before":
            patch.setattr(nareg._checks.os, "sysconf", lambda name: 10)
        else:
            patch.setattr(Device, "_matrix", lambda *a: (_ for _ in ()).throw(torch.OutOfMemoryError))
        with pytest.raises(TooLargeError, match=r"this request on cpu .*needs about"):
            model.remove_edges(edges)
    np.testing.assert_allclose(model.embedding(), before, atol=1e-8 if r_max else 1e-13)
    assert model.remove_edges(edges).spent <= model.budget
