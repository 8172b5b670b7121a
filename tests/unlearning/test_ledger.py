"""The store: it goes on where it stood, shows what was asked, and of what was removed nothing is left in its bytes."""

from __future__ import annotations

import hashlib
import shutil
import threading
from dataclasses import asdict

import numpy as np
import pytest

import nareg
from nareg.errors import InputError
from nareg.unlearning import CertifiedGPR, Ledger, LedgerError, verify
from nareg.unlearning.store import edge_table
from nareg.unlearning.store.state import read_state
from tests.unlearning.stores import (
    changed_certificate,
    changed_counts,
    changed_settings,
    changed_tables,
    contents,
    emptied,
)  # fmt: skip


def fitted(rng, n=40, n_features=5, **settings):
    graph = nareg.graphs.erdos_renyi(n, 0.15, rng=rng)
    X, y = rng.standard_normal((n, n_features)), np.arange(n) % 3
    return CertifiedGPR(rng=rng, **settings).fit(graph, X, y, np.arange(30)), graph, X, y


def first_edges(model, count=1):
    return np.argwhere(np.triu(model._data.graph.adjacency().toarray()))[:count]


def assert_alike(one, other):
    np.testing.assert_allclose(one.embedding(), other.embedding(), atol=1e-12)
    for name in ("coefficients", "labels", "train", "classes", "remaining", "weights"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.certificate().rounded() == other.certificate().rounded()


@pytest.mark.parametrize("r_max", [0.0, 1e-4])
def test_a_loaded_model_goes_on_where_it_stood(r_max, rng, tmp_path):
    model, *_ = fitted(rng, r_max=r_max, alpha=2.0, weights=[0.2, 0.3, 0.5])
    model.remove_edges(first_edges(model))
    model.save(tmp_path / "store")
    model.remove_nodes([3, 20])
    model.remove_features([5])
    model.add_nodes(np.ones((2, 5)), labels=[1, -1])
    model.add_edges([(40, 41), (0, 41)])
    embedding = model.embedding()
    model.close()
    other = CertifiedGPR.load(tmp_path / "store")
    np.testing.assert_allclose(embedding, other.embedding(), atol=1e-12 if not r_max else 0.1)
    if not r_max:
        assert_alike(model, other)
    assert other.remove_edges([(0, 41)]).request == "remove_edges"
    with pytest.raises(InputError, match="edges has"):
        other.remove_edges([(0, 41)])
    other.close()
    with_all = Ledger(tmp_path / "store")
    requests = [certificate.request for _, certificate in with_all.history()]
    # the first is the state that was saved
    assert requests == ["remove_edges", "remove_nodes", "remove_features", "add_nodes", "add_edges", "remove_edges"]
    with_all.close()


def test_a_request_that_a_closed_store_would_miss_is_refused(rng, tmp_path):
    """The store would still have the node that is removed, and its certificate would be nowhere."""
    model, *_ = fitted(rng)
    model.save(tmp_path / "store").close()
    before = model.decision()
    for ask in (lambda: model.remove_nodes([3]), model.renew, lambda: model.add_nodes(np.ones((1, 5)))):
        with pytest.raises(LedgerError, match="store is closed, so that the request would not be in it: load it, or save"):
            ask()
    np.testing.assert_array_equal(model.decision(), before)
    assert 3 in model.remaining
    model.save(tmp_path / "other")
    model.remove_nodes([3])
    model.close()
    assert verify(tmp_path / "other").holds
    other = CertifiedGPR.load(tmp_path / "other")
    assert 3 not in other.remaining
    other.close()


def test_what_was_asked_can_be_shown_by_who_holds_the_key(rng, tmp_path):
    model, *_ = fitted(rng)
    path = tmp_path / "store"
    model.save(path)
    pair = first_edges(model)
    model.remove_edges(pair)
    model.close()
    ledger = Ledger(str(path))
    assert ledger.proves(1, {"request": "remove_edges", "edges": pair.tolist()})
    assert ledger.proves(1, {"request": "remove_edges", "edges": pair[:, ::-1]})
    assert not ledger.proves(1, {"request": "add_edges", "edges": pair.tolist()})
    assert not ledger.proves(1, {"request": "remove_edges", "edges": [[0, 39]]})
    with pytest.raises(InputError, match="request has edges of shape"):
        ledger.proves(1, {"request": "remove_edges", "edges": pair[0]})
    with pytest.raises(InputError, match="number is 9"):
        ledger.proves(9, {"request": "remove_nodes", "nodes": [1]})
    ledger.close()
    (tmp_path / "store.key").write_text("00" * 32)
    other = Ledger(path)
    stated = {"request": "remove_edges", "edges": pair.tolist()}
    for act in (other.read, other.history, lambda: other.proves(1, stated), lambda: other.find(stated)):
        with pytest.raises(LedgerError, match="hashes do not follow from one another"):
            act()
    other.close()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({}, "request is {}"),
        ({"request": "remove_edge", "edges": [(0, 1)]}, "remove_edges, remove_nodes, remove_features, add_edges can be proved"),
        ({"request": "remove_edges", "nodes": [1]}, "can be proved, as"),
        ({"request": "remove_nodes", "nodes": [1], "labels": True}, "can be proved, as"),
        ({"request": "remove_edges", "edges": [(0.0, 1.0)]}, "dtype float64: pairs of integers"),
        ({"request": "remove_nodes", "nodes": [True, False]}, "dtype bool: integers are expected"),
        ({"request": "remove_features", "nodes": [1], "labels": 0}, "request has labels 0"),
    ],
)
def test_what_cannot_be_a_request_is_not_denied_but_refused(query, words, rng, tmp_path):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store").close()
    ledger = Ledger(tmp_path / "store")
    with pytest.raises(InputError, match=words):
        ledger.find(query)
    ledger.close()


def test_an_older_copy_of_a_store_has_an_older_hash(rng, tmp_path):
    model, *_ = fitted(rng)
    path = tmp_path / "store"
    model.save(path)
    model.remove_nodes([7, 3])
    model.close()
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    before = verify(path)
    model = CertifiedGPR.load(path)
    model.remove_features([5], labels=True)
    model.close()
    after, restored = verify(path), verify(copy, key=tmp_path / "store.key")
    assert restored.holds  # each is what it says it is: that the copy is old is told by its hash alone
    assert restored.digest == before.digest != after.digest
    assert after.digest in after.summary()
    ledger = Ledger(path)
    assert ledger.proves(1, {"request": "remove_nodes", "nodes": [3, 7]})
    assert ledger.proves(2, {"request": "remove_features", "nodes": [5], "labels": True})
    assert not ledger.proves(2, {"request": "remove_features", "nodes": [5], "labels": False})
    assert not ledger.proves(2, {"request": "remove_features", "nodes": [5]})
    ledger.close()


def test_the_key_can_be_elsewhere(rng, tmp_path):
    (tmp_path / "safe").mkdir()
    path, key = tmp_path / "store", tmp_path / "safe" / "key"
    model, *_ = fitted(rng)
    model.save(path, key=key).close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["safe", "store"]
    with pytest.raises(InputError, match="pass its file as key="):
        CertifiedGPR.load(path)
    with pytest.raises(InputError, match="which is not a file"):
        CertifiedGPR.load(path, key=tmp_path / "nowhere")
    model = CertifiedGPR.load(path, key=key)
    model.remove_nodes([3])
    model.close()
    assert verify(path, key=key).chained
    without = verify(path)
    assert (without.holds, without.chained) == (True, None)
    ledger = Ledger(path)
    with pytest.raises(LedgerError, match="without it nothing can be proved"):
        ledger.proves(0, {})
    ledger.close()


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"eps": 0.001}, "the certificate states eps = 0.001, but it is 1"),
        ({"n_edges": 1}, "the certificate states n_edges = 1"),
    ],
)
def test_a_certificate_that_was_changed_does_not_hold(change, wrong, rng, tmp_path):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store").close()
    assert verify(tmp_path / "store").holds
    changed_certificate(tmp_path / "store", **change)
    with pytest.raises(LedgerError, match="hashes do not follow"):
        verify(tmp_path / "store")
    (tmp_path / "store.key").unlink()
    result = verify(tmp_path / "store")
    assert not result.holds
    assert result.wrong == (wrong,) or result.wrong[0].startswith(wrong)
    assert result.summary().startswith("THE LAST CERTIFICATE DOES NOT HOLD")


def test_a_request_that_was_taken_out_breaks_the_chain(rng, tmp_path):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store")
    for node in (3, 4, 5):
        model.remove_nodes([node])
    model.close()

    def take_out(rows):
        rows[1:3] = rows[2:4]

    changed_tables(tmp_path / "store", requests=take_out)
    changed_counts(tmp_path / "store", n_requests=3)
    with pytest.raises(LedgerError, match="hashes do not follow"):
        verify(tmp_path / "store")


def test_data_that_were_changed_do_not_hold(rng, tmp_path):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store").close()
    emptied(tmp_path / "store", range(20))
    result = verify(tmp_path / "store")
    assert not result.holds
    assert result.gradient > result.budget


@pytest.mark.slow
# a row in its page, and one with pages of its own behind it
@pytest.mark.parametrize("n_features", [5, pytest.param(1200, marks=pytest.mark.nightly)])
def test_removed_values_are_nowhere_in_the_files(n_features, rng, tmp_path):
    model, graph, X, _ = fitted(rng, n_features=n_features)
    model.save(tmp_path / "store")

    def count_in_files(values):
        """How many of these numbers stand somewhere in the folder."""
        bytes_ = contents(tmp_path)
        return sum(np.float64(value).tobytes() in bytes_ for value in np.ravel(values))

    # but for numbers that stand across the border of two pages
    assert count_in_files(X[[3, 7, 30]]) >= 0.99 * 3 * n_features
    # rows behind all others, and one of them taken back
    new = rng.standard_normal((40, n_features))
    model.add_nodes(new, labels=np.zeros(40, dtype=int))
    model.remove_nodes([45])
    assert count_in_files(new[5]) == 0
    assert count_in_files(new) >= 0.99 * 39 * n_features
    model.remove_nodes([3, 30])
    model.remove_features([7])
    assert count_in_files(X[[3, 7, 30]]) == 0
    assert count_in_files(X[8]) >= 0.99 * n_features
    model.close()
    ledger = Ledger(tmp_path / "store")
    left = {tuple(pair) for pair in ledger.read().edges.tolist()}
    assert len(left) == model.certificate().n_edges
    assert not {pair for pair in left if {3, 30} & set(pair)}
    stated = ledger._chain()
    ledger.close()
    assert all(set(one.certificate) == set(asdict(model.certificate())) for one in stated)  # no more than that
    assert graph.n_edges - model.certificate().n_edges == graph.adjacency[[3, 30]].sum() - graph.adjacency[3, 30]


def test_without_the_key_nothing_kept_of_a_request_tells_a_right_guess_from_a_wrong_one(rng, tmp_path):
    """A keeper of the store tries an edge: puts it back, trains with the noise term, and looks for what that gives."""
    model, *_ = fitted(rng)
    before = model._head
    certificate = model.certificate()
    edge = first_edges(model)
    model.save(tmp_path / "store")
    model.remove_edges(edge)
    model.close()
    (tmp_path / "store.key").unlink()
    ledger = Ledger(tmp_path / "store")
    chain, (_, stated) = ledger._chain(), ledger.history()[0]
    ledger.close()
    remaining = contents(tmp_path)
    assert hashlib.sha256(before.W.tobytes() + before.B.tobytes()).hexdigest().encode() not in remaining
    assert before.W.tobytes()[:64] not in remaining
    for value in (certificate.residual, certificate.approximation, certificate.spent, *certificate.timings.values()):
        assert repr(value).encode() not in remaining
    assert stated == certificate.rounded()
    assert stated.residual / stated.budget * 10 == pytest.approx(round(stated.residual / stated.budget * 10))
    assert len({one.parameters for one in chain}) == 2


def test_what_is_kept_of_a_certificate_is_rounded_up_once(rng):
    certificate = fitted(rng)[0].certificate()
    remaining = certificate.rounded()
    assert certificate.residual <= remaining.residual <= certificate.residual + 0.1 * certificate.budget
    assert certificate.approximation <= remaining.approximation <= 10 * certificate.approximation
    assert certificate.spent <= remaining.spent <= certificate.budget
    assert remaining.rounded() == remaining


@pytest.mark.parametrize(
    ("name", "value"),
    [("classes", [1, 2, 7]), ("classes_given", True), ("r_max", 1e-9), ("lam", 0.010001), ("weights", [0.0, 0.001, 0.9])],
)
def test_settings_that_were_changed_are_seen(name, value, rng, tmp_path):
    fitted(rng)[0].save(tmp_path / "store").close()
    ledger = Ledger(tmp_path / "store")
    settings = ledger.read().settings
    ledger.close()
    assert settings[name] != value
    changed_settings(tmp_path / "store", **{name: value})
    with pytest.raises(LedgerError, match="the settings were changed"):
        verify(tmp_path / "store")


def test_a_model_is_used_from_any_thread(rng, tmp_path):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store")
    messages = []
    thread = threading.Thread(target=lambda: messages.append(model.remove_nodes([11])))
    thread.start()
    thread.join()
    assert [one.request for one in messages] == ["remove_nodes"]
    model.close()
    assert verify(tmp_path / "store").holds


@pytest.mark.slow
@pytest.mark.parametrize("room", [edge_table.ROOM, 8])
def test_the_edges_are_stored_as_if_those_removed_had_never_been(room, rng, tmp_path, monkeypatch):
    """After any mixture of requests: the bytes are those of a new table of as many rows. Rows of 8 run full."""
    monkeypatch.setattr(edge_table, "ROOM", room)
    model, *_ = fitted(rng, n=400)
    path = tmp_path / "store"
    model.save(path)
    for k in range(30):
        some = rng.permutation(model.remaining)
        if k % 3:
            model.remove_edges(rng.permutation(first_edges(model, 10**6))[:40])
        else:
            live = model._data.graph.adjacency().toarray()
            free = [(u, v) for u, v in rng.integers(0, 400, (100, 2)) if u < v and not live[u, v]]
            model.add_edges(list({tuple(map(int, pair)) for pair in free if {*pair} <= set(some)}))
        if k % 5 == 0:
            model.remove_nodes(some[some >= 30][:2])
    model.remove_edges(first_edges(model))
    model.close()
    rows, count = np.load(path / "edges.npy"), read_state(path)["counts"]["n_rows"]
    pairs = first_edges(model, 10**6)
    expected = edge_table.packed(pairs, count)
    assert len(expected) == count > (room == 8) * len(edge_table.packed(pairs))
    np.testing.assert_array_equal(rows[:count], expected)
    assert not rows[count:].any()
