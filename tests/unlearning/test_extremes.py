"""Huge features, cancellation, failures in the middle: what is certified is so, what fails changes nothing."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from nareg._core.interrupts import interrupts_deferred
from nareg.errors import InputError, SolverError
from nareg.unlearning import CertificateError, CertifiedGPR, Ledger
from nareg.unlearning.propagation import exact
from nareg.unlearning.propagation.dynamic_graph import LiveGraph, extended
from nareg.unlearning.propagation.exact import edge_factors
from tests.unlearning import reference
from tests.unlearning.requests import assert_same, fitted, problem, state, true_gradient

# these noise terms are chosen for their budgets, not for accuracy
pytestmark = pytest.mark.filterwarnings("ignore::nareg.errors.UtilityWarning")


@pytest.mark.parametrize("huge", [1e3, 1e6, 1e12, 1e16, 1e20])
def test_what_huge_features_leave_by_rounding_goes_with_them(huge, rng):
    """Nodes 60 and 61 are a component of their own; 61 has huge features, goes, and 60 is joined to training nodes."""
    graph, X, y = problem(rng)
    A = np.zeros((62, 62))
    A[:60, :60] = graph.adjacency.toarray()
    A[60, 61] = A[61, 60] = 1
    X = np.concatenate([X, np.ones((1, 6)), np.full((1, 6), huge)])
    fixed = {"lam": 1e-2, "alpha": 0.1, "rng": rng}
    model = CertifiedGPR(**fixed).fit(A, X, np.concatenate([y, [0, 0]]), np.arange(40)) if huge < 1e12 else None
    if model is None:  # such features cannot be certified; they come and go
        with pytest.raises(CertificateError, match="smaller features if there are huge ones"):
            CertifiedGPR(lam=1e-2, alpha=0.1, rng=rng).fit(A, X, np.concatenate([y, [0, 0]]), np.arange(40))
        return
    model.remove_nodes([61])
    pairs = [(0, 60), (1, 60), (2, 60)]
    certificate = model.add_edges(pairs)
    A[61] = A[:, 61] = X[61] = 0
    for u, v in pairs:
        A[u, v] = A[v, u] = 1
    assert true_gradient(model, A, X, np.concatenate([y, [0, 0]]), np.arange(40)) <= certificate.spent <= certificate.budget


def test_features_that_cancel_are_charged_for_their_size(rng):
    """Triangles with +c and -c: Z is of size one, what it is summed from is not."""
    A = np.kron(np.eye(10), np.ones((3, 3)) - np.eye(3))
    small = rng.standard_normal((30, 5))
    y = np.arange(30) % 2
    # most columns as they are: else all would be taken for scaled by columns
    cancels = np.tile([1.0, -1.0, 0.0], 10)[:, None] * [1.0, 1.0, 0.0, 0.0, 0.0]
    charged = {}
    for size in (1e2, 1e5):
        X = small + size * cancels
        model = CertifiedGPR(lam=1e-2, alpha=0.1, rng=rng, weights=1).fit(A, X, y, np.arange(30))
        charged[size] = model.certificate().approximation
    assert charged[1e5] > 100 * charged[1e2]
    with pytest.raises(CertificateError, match="huge"):
        CertifiedGPR(lam=1e-2, alpha=0.1, rng=rng, weights=1).fit(A, small + 1e14 * cancels, y, np.arange(30))


def test_the_gradient_is_that_of_the_coefficients_returned(rng):
    """A warm start from large coefficients: products gathered over Newton steps are off by their rounding."""
    graph, X, y = problem(rng)
    X *= 1e-4
    model = CertifiedGPR(loss="squared", lam=1e-9, rng=rng).fit(graph, X, y, np.arange(40))
    new = 1e4 * rng.standard_normal((20, 6))
    try:
        certificate = model.add_nodes(new, labels=np.arange(20) % 3)
    except CertificateError:
        return
    A, X, y = np.pad(graph.adjacency.toarray(), (0, 20)), np.concatenate([X, new]), np.concatenate([y, np.arange(20) % 3])
    assert true_gradient(model, A, X, y, np.r_[:40, 60:80]) <= certificate.spent


@pytest.mark.parametrize(("leaves", "alpha"), [(300, 0.1), (5000, 6e-9)])
def test_a_hub_that_is_none_any_more_is_charged_for_what_it_was(leaves, alpha, rng):
    """Its edges go, four parts of them one after another; its rounding is that of the sums it had."""
    n = leaves + 1
    A = np.zeros((n, 2), dtype=int)
    A[:, 1] = np.arange(n)
    edges = sp.csr_array((np.ones(leaves), (A[1:, 0], A[1:, 1])), shape=(n, n))
    X, y = rng.uniform(0.05, 1, (n, 1)), np.zeros(n, dtype=int)
    y[1] = 1
    model = CertifiedGPR(alpha=alpha, lam=1.0, rng=rng).fit(edges + edges.T, X, y, [0, 1])
    for part in np.array_split(A[2:], 4):
        certificate = model.remove_edges(part)
    left = np.zeros((2, 2))
    left[0, 1] = left[1, 0] = 1
    assert true_gradient(model, left, X[:2], y[:2], np.arange(2)) <= certificate.spent <= certificate.budget
    Z = reference.embedding(left, X[:2], model.weights)
    assert np.linalg.norm(model.embedding()[:2] - Z) <= model._data.propagation.errors()


def test_a_hub_that_is_removed_leaves_no_charge(rng):
    graph, X, y = problem(rng)
    A = graph.adjacency.toarray()
    A[50, :50] = A[:50, 50] = 1
    model = CertifiedGPR(rng=rng).fit(A, X, y, np.arange(40))
    model.remove_nodes([50])
    assert model._data.propagation._rounding.ratio < 3


@pytest.mark.parametrize("r_max", [0.0, 1e-3])
def test_nodes_that_could_not_be_added_leave_the_charge_as_it_was(r_max, rng, monkeypatch):
    model, *_ = fitted(rng, r_max=r_max, alpha=1.0)
    model.remove_features([7])
    before = model._data.propagation.errors()
    with monkeypatch.context() as patch:
        patch.setattr(CertifiedGPR, "_adjusted", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.add_nodes(np.full((2, 6), 9.0))
    assert model._data.propagation.errors() == before
    assert model._data.propagation._rounding.requests == 1


@pytest.mark.parametrize("r_max", [0.0, 1e-6])
@pytest.mark.parametrize("labels", [None, [1]])
def test_nodes_that_were_refused_do_not_stand_in_the_way_of_others(labels, r_max, rng):
    """Nothing was computed from their features but their own rows, which are no more: their size is not charged for."""
    model, graph, X, y = fitted(rng, r_max=r_max, alpha=2.0)
    for _ in range(2):
        with pytest.raises(CertificateError, match="smaller features if there are huge ones"):
            model.add_nodes(np.full((1, 6), 1e9), labels=labels)
        certificate = model.add_nodes(np.ones((2, 6)), labels=[1, 0])
        X, y = np.concatenate([X, np.ones((2, 6))]), np.concatenate([y, [1, 0]])
        A = np.pad(graph.adjacency.toarray(), (0, len(X) - 60))
        assert true_gradient(model, A, X, y, np.r_[:40, 60 : len(X)]) <= certificate.spent <= certificate.budget
        assert certificate.approximation < 1e-3 * certificate.budget or r_max
    certificate = model.add_edges([(0, 60), (1, 62)])
    A[[0, 60, 1, 62], [60, 0, 62, 1]] = 1
    assert true_gradient(model, A, X, y, np.r_[:40, 60:64]) <= certificate.spent <= certificate.budget


def test_ten_thousand_requests_later_everything_is_computed_anew(rng, monkeypatch):
    monkeypatch.setattr("nareg.unlearning.propagation.rounding.REQUESTS", 3)
    model, *_ = fitted(rng)
    recomputed, recompute = [], exact.Propagation.recompute

    def counted(propagation, first=1):
        recomputed.append(first)
        recompute(propagation, first)

    monkeypatch.setattr(exact.Propagation, "recompute", counted)
    for node in range(41, 48):
        model.remove_features([node])
    assert len(recomputed) == 2


@pytest.mark.parametrize("call", range(12))
@pytest.mark.parametrize("r_max", [0.0, 1e-4])
def test_memory_that_runs_out_while_nodes_are_added_changes_nothing(call, r_max, rng, monkeypatch):
    model, *_ = fitted(rng, r_max=r_max, alpha=2.0)
    before, calls = state(model), []

    def failing(array, rows):
        calls.append(1)
        if len(calls) == call + 1:
            raise MemoryError
        return extended(array, rows)

    with monkeypatch.context() as patch:
        for module in (
            "propagation.exact",
            "propagation.residual",
            "propagation.dynamic_graph",
            "propagation.rounding",
            "data",
        ):
            patch.setattr(f"nareg.unlearning.{module}.extended", failing)
        try:
            model.add_nodes(np.ones((2, 6)), labels=[0, -1])
        except MemoryError:
            assert_same(before, state(model))
    if len(calls) > call:
        model.add_nodes(np.ones((2, 6)), labels=[0, -1])
    assert model.n_nodes == 62
    assert model.remove_nodes([60]).n_nodes == 61


def test_memory_that_runs_out_while_rows_are_packed_changes_nothing(rng, monkeypatch):
    live = LiveGraph(nareg.graphs.erdos_renyi(30, 0.2, rng=rng))
    before = live.adjacency().toarray()
    pairs = np.argwhere(np.triu(before == 0, 1))[:5]

    def failing(*_, **__):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("nareg.unlearning.propagation.dynamic_graph.np.full", failing)
        with pytest.raises(MemoryError):
            live.add(pairs)
    live.restore(np.empty((0, 2), dtype=np.int64), pairs)
    np.testing.assert_array_equal(live.adjacency().toarray(), before)
    live.add(pairs)
    assert live.n_edges == before.sum() / 2 + 5


def test_what_cannot_be_undone_is_not_gone_on_with(rng, monkeypatch):
    model, graph, *_ = fitted(rng)
    edges = np.argwhere(np.triu(graph.adjacency.toarray()))

    def failing(*_, **__):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("nareg.unlearning.head.CertifiedTraining.adjusted", failing)
        patch.setattr("nareg.unlearning.propagation.exact.Propagation.recompute", failing)
        with pytest.raises(MemoryError):
            model.remove_edges(edges[:1])
    for act in (lambda: model.remove_edges(edges[1:2]), model.predict, model.embedding, lambda: model.train):
        with pytest.raises(SolverError, match="could not be undone"):
            act()
    model.fit(graph, rng.standard_normal((graph.n_nodes, 3)), np.arange(graph.n_nodes) % 2, np.arange(20))
    assert model.remove_edges(edges[:1]).spent <= model.budget


def test_a_device_that_fails_is_not_needed_to_undo(rng, monkeypatch):
    pytest.importorskip("torch")
    graph = nareg.graphs.erdos_renyi(30, 0.2, rng=rng)
    model = CertifiedGPR(device="cpu", rng=rng).fit(graph, rng.standard_normal((30, 3)), np.arange(30) % 2, np.arange(20))
    embedding, labels = model.embedding(), model.labels

    def failing(*_, **__):
        raise RuntimeError("out of memory on the device")

    with monkeypatch.context() as patch:
        patch.setattr("nareg.unlearning.head.CertifiedTraining.adjusted", failing)
        patch.setattr("nareg.unlearning.propagation.device.Device.propagate", failing)
        with pytest.raises(RuntimeError, match="on the device"):
            model.remove_nodes([5])
    np.testing.assert_allclose(model.embedding(), embedding, atol=1e-13)
    np.testing.assert_array_equal(model.labels, labels)
    assert 5 in model.remaining
    assert model.remove_nodes([5]).spent <= model.budget


def test_removed_neighbors_are_not_left_in_memory(rng):
    live = LiveGraph(nareg.graphs.erdos_renyi(40, 0.2, rng=rng))
    for node in range(20):  # rows move and are packed
        live.add(
            np.array([(node, k) for k in np.setdiff1d(np.arange(40), [*live.neighbors_of(node), node])[:9]], dtype=np.int64)
        )
    pairs = np.argwhere(np.triu(live.adjacency().toarray()))
    live.remove(pairs)
    assert (live.neighbors[: live._used] == -1).all() or not (live.neighbors > 0).any()


def test_factors_that_fail_leave_no_marks(rng, monkeypatch):
    model, graph, X, y = fitted(rng)
    pair = np.argwhere(np.triu(graph.adjacency.toarray()))[0]

    def failing(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("nareg.unlearning.propagation.kernels.left_factors", failing)
        with pytest.raises(MemoryError):
            edge_factors(model._data.propagation, pair)
    certificate = model.remove_edges([pair])
    A = graph.adjacency.toarray()
    A[tuple(pair)] = A[tuple(pair[::-1])] = 0
    assert true_gradient(model, A, X, y, np.arange(40)) <= certificate.spent


def test_every_signal_waits_and_all_handlers_are_put_back():
    seen = []

    def handler(number, _):
        seen.append(number)
        raise TimeoutError

    numbers = (signal.SIGALRM, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.signal(number, handler) for number in numbers]

    def hit():
        with interrupts_deferred():
            for number in numbers:
                os.kill(os.getpid(), number)
            assert not seen

    try:
        with pytest.raises(TimeoutError):
            hit()
        assert sorted(seen) == sorted(numbers)
        assert [signal.getsignal(number) for number in numbers] == [handler] * 3
    finally:
        for number, one in zip(numbers, before, strict=True):
            signal.signal(number, one)


def test_a_second_ctrl_c_before_anything_is_undone_is_not_gone_on_with(rng, monkeypatch):
    model, *_ = fitted(rng)

    def interrupted(*_):
        monkeypatch.setattr("nareg.unlearning.data.interrupts_deferred", interrupted)
        raise KeyboardInterrupt

    monkeypatch.setattr(CertifiedGPR, "_adjusted", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.remove_nodes([3])
    with pytest.raises(SolverError, match="could not be undone"):
        model.predict()


def test_a_handler_of_someone_else_gets_the_signal():
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        with interrupts_deferred():
            os.kill(os.getpid(), signal.SIGINT)
            assert not seen
        assert seen == [signal.SIGINT]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with interrupts_deferred():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64])
def test_numbers_of_any_integer_type_and_none_from_the_end(kind, rng):
    model, *_ = fitted(rng)
    model.remove_nodes(np.array([50, 51], dtype=kind))
    assert model.n_nodes - model.remaining.size == 2
    for act in (model.remove_nodes, model.remove_features, model.predict):
        with pytest.raises(InputError, match="nodes holds -1: nodes are numbered from 0"):
            act([-1])


def test_before_fit_everything_says_so():
    model = CertifiedGPR()
    for act in (model.predict, model.embedding, lambda: model.remove_nodes([1]), lambda: model.save("x")):
        with pytest.raises(InputError, match="not fitted"):
            act()


def test_a_stored_model_is_neither_saved_nor_fitted_again(rng, tmp_path):
    model, graph, X, y = fitted(rng)
    model.save(tmp_path / "one")
    before = state(model)
    with pytest.raises(InputError, match="with the open store"):
        model.save(tmp_path / "two")
    with pytest.raises(InputError, match="with the open store"):
        model.fit(graph, X, y, np.arange(30))
    assert_same(before, state(model))
    model.remove_nodes([3])
    model.close()
    assert len(Ledger(tmp_path / "one").history()) == 2


def test_a_refit_that_fails_leaves_the_model(rng):
    model, *_ = fitted(rng)
    before = state(model)
    graph, X, y = problem(rng, n=45)
    with pytest.raises(CertificateError):
        model.fit(graph, 1e16 * X, y, np.arange(30))
    assert_same(before, state(model))


def test_a_save_that_is_interrupted_leaves_no_copy(rng, tmp_path, monkeypatch):
    model, *_ = fitted(rng)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("nareg.unlearning.store.ledger.write_state", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.save(tmp_path / "store")
    assert not list(tmp_path.iterdir())
    (tmp_path / ".store.0a0b0c0d.nareg-part").mkdir()  # what a killed save left
    (tmp_path / ".store.20240101").write_text("a user's copy of that day")
    (tmp_path / ".store.local").write_text("a file of the user's")
    (tmp_path / "store.key").write_text("its key, or that of a store that is elsewhere now")
    with pytest.raises(InputError, match="may belong to another store"):
        model.save(tmp_path / "store")
    assert (tmp_path / "store.key").read_text().startswith("its key")
    (tmp_path / "store.key").unlink()
    model.save(tmp_path / "store").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".store.20240101", ".store.local", "store", "store.key"]
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700
    CertifiedGPR.load(tmp_path / "store").close()
