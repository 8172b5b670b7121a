"""Several threads on one model: a request in the middle of another is refused, and no read sees half of one.

And threads inside a request: BLAS has one where products are small.
"""

from __future__ import annotations

import copy
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import nareg
from nareg._solvers import threads
from nareg.errors import BusyError, InputError
from nareg.unlearning import CertifiedGPR, verify
from nareg.unlearning.objective import ClassifierObjective
from tests.unlearning import reference
from tests.unlearning.requests import fitted


class Paused:
    """Nodes whose conversion to an array waits, so that a request stands in its validation for as long as a test likes."""

    def __init__(self, nodes):
        self.nodes, self.reached, self.go_on = nodes, threading.Event(), threading.Event()

    def __array__(self, dtype=None, copy=None):
        self.reached.set()
        assert self.go_on.wait(60)
        return np.asarray(self.nodes, dtype=dtype)


def started(act):
    """A thread that does this, and what it returned or raised."""
    messages = []

    def run():
        try:
            messages.append(act())
        except Exception as error:
            messages.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, messages


ACTS = {
    "remove_edges": lambda model, edge: model.remove_edges([edge]),
    "remove_nodes": lambda model, edge: model.remove_nodes([55]),
    "remove_features": lambda model, edge: model.remove_features([3]),
    "add_edges": lambda model, edge: model.add_edges([(0, 59)]),
    "add_nodes": lambda model, edge: model.add_nodes(np.ones((1, 6))),
    "renew": lambda model, edge: model.renew(),
    "save": lambda model, edge: model.save("must-not-be-written"),
    "fit": lambda model, edge: model.fit(np.ones((2, 2)) - np.eye(2), np.eye(2), [0, 1], [0, 1]),
}


@pytest.mark.parametrize("name", ACTS)
def test_a_request_in_the_middle_of_another_is_refused(name, rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, graph, _, _ = fitted(rng)
    edge = np.argwhere(np.triu(graph.adjacency.toarray()))[0]
    nodes = Paused([11, 12])
    thread, outcome = started(lambda: model.remove_nodes(nodes))
    assert nodes.reached.wait(60)
    with pytest.raises(BusyError, match=rf"{name} was called in the middle of another call on this model: call it again when"):
        ACTS[name](model, edge)
    nodes.go_on.set()
    thread.join()
    assert [one.request for one in outcome] == ["remove_nodes"]
    assert not any(tmp_path.iterdir())
    assert model.remove_features([3]).request == "remove_features"  # the model goes on


def test_a_read_waits_for_a_request_of_another_thread(rng):
    model, *_ = fitted(rng)
    nodes = Paused([11, 12])
    thread, outcome = started(lambda: model.remove_nodes(nodes))
    assert nodes.reached.wait(60)
    reader, read = started(lambda: (model.remaining.size, model.certificate().request, model.decision([11])))
    reader.join(0.2)
    assert reader.is_alive()
    assert not read
    nodes.go_on.set()
    thread.join()
    reader.join(60)
    assert [one.request for one in outcome] == ["remove_nodes"]
    count, request, scores = read[0]
    assert (count, request) == (58, "remove_nodes")
    assert not scores.any()


def test_the_model_at_hand_is_read_while_another_is_fitted(rng):
    model, graph, X, y = fitted(rng)
    train = Paused(np.arange(30))
    thread, outcome = started(lambda: model.fit(graph, X, y, train))
    assert train.reached.wait(60)
    assert model.train.size == 40
    with pytest.raises(BusyError, match="remove_nodes was called"):
        model.remove_nodes([5])
    train.go_on.set()
    thread.join()
    assert outcome == [model]
    assert model.train.size == 30


def test_a_request_that_reads_its_own_model_half_way_is_refused_and_undone(rng):
    """As a signal's handler would, in the thread of the request."""

    class Asks:
        def __array__(self, dtype=None, copy=None):
            model.remove_edges([(0, 1)])
            raise AssertionError("not reached")

    model, *_ = fitted(rng)
    with pytest.raises(BusyError, match="remove_edges was called"):
        model.remove_nodes(Asks())
    assert model.remove_nodes([4]).request == "remove_nodes"


def test_closing_waits_for_a_request_and_leaves_it_in_the_store(rng, tmp_path):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store")
    nodes = Paused([11])
    thread, outcome = started(lambda: model.remove_nodes(nodes))
    assert nodes.reached.wait(60)
    closing, _ = started(model.close)
    closing.join(0.2)
    assert closing.is_alive()
    nodes.go_on.set()
    thread.join()
    closing.join(60)
    assert [one.request for one in outcome] == ["remove_nodes"]
    result = CertifiedGPR.load(tmp_path / "store")
    assert result.remaining.size == 59
    result.close()
    assert verify(tmp_path / "store").holds


def test_a_copy_takes_turns_of_its_own(rng):
    model, *_ = fitted(rng)
    nodes = Paused([11])
    other = copy.deepcopy(model)
    thread, _ = started(lambda: model.remove_nodes(nodes))
    assert nodes.reached.wait(60)
    assert other.remove_nodes([3]).request == "remove_nodes"
    nodes.go_on.set()
    thread.join()
    assert (model.remaining.size, other.remaining.size) == (59, 59)


@pytest.mark.slow
def test_two_threads_that_name_the_same_edges_leave_a_whole_model():
    """Nodes, and edges of these nodes one after another as fast as a thread can ask."""
    rng = np.random.default_rng(0)
    data = nareg.datasets.node_classification.synthetic(2000, 3, n_features=6, rng=rng)
    for _ in range(3):
        model = CertifiedGPR(rng=np.random.default_rng(1)).fit(data.graph, data.features, data.labels, np.arange(1000))
        nodes, A = np.arange(1000, 1600), data.graph.adjacency.toarray()
        edges = np.argwhere(np.triu(A))
        edges = edges[(edges >= 1000).any(axis=1) & (edges < 1600).any(axis=1)][::-1]
        thread, outcome = started(lambda: model.remove_nodes(nodes))  # noqa: B023
        gone, refused = [], 0
        for edge in edges:
            if not thread.is_alive():
                break
            try:
                model.remove_edges([edge])
                gone.append(edge)
            except (BusyError, InputError):
                refused += 1
        thread.join()
        if isinstance(outcome[0], BusyError):  # the other thread was always first
            model.remove_nodes(nodes)
        for u, v in gone:
            A[u, v] = A[v, u] = 0
        A[nodes], A[:, nodes] = 0, 0
        X = np.array(data.features, dtype=float)
        X[nodes] = 0
        assert np.array_equal(model._data.graph.adjacency().toarray(), A)
        assert np.allclose(model.embedding(), reference.embedding(A, X, model.weights), atol=1e-9)
        assert model.certificate().n_edges == np.count_nonzero(A) // 2
        assert refused + len(gone) > 0


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_a_removal_runs_in_one_blas_thread(rng, monkeypatch):
    model, *_ = fitted(rng)
    seen = []
    solve = ClassifierObjective.solve

    def watched(*arguments):
        seen.append(blas_threads())
        return solve(*arguments)

    monkeypatch.setattr(ClassifierObjective, "solve", watched)
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        assert max(before) == 2
        model.remove_nodes([3])
        assert blas_threads() == before
    assert seen
    assert all(one == {1} for one in seen)


def test_the_first_of_two_overlapping_contexts_limits_and_the_last_restores():
    first, second = threads.one_thread(), threads.one_thread()
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        assert max(before) == 2
        first.__enter__()
        second.__enter__()
        assert blas_threads() == {1}
        first.__exit__()
        assert blas_threads() == {1}
        second.__exit__()
        assert blas_threads() == before


def test_large_products_keep_the_threads_of_blas():
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        assert max(before) == 2
        for context in (threads.few_threads(threads.ONE_THREAD), threads.product_threads(threads.SMALL_PRODUCT)):
            with context:
                assert blas_threads() == before
