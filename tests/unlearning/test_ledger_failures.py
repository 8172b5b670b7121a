"""The store when something goes wrong: nothing acknowledged is lost or repeated, nothing is written over."""

from __future__ import annotations

import errno
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest

from nareg.errors import InputError, NaregError, SolverError
from nareg.unlearning import CertifiedGPR, Ledger, LedgerError, verify
from nareg.unlearning.store import folder, journal, ledger, state
from tests.unlearning import reference
from tests.unlearning.stores import (
    changed_certificate,
    changed_counts,
    changed_request,
    changed_settings,
    changed_state,
    changed_tables,
    emptied,
)  # fmt: skip
from tests.unlearning.test_ledger import assert_alike, first_edges, fitted

# these noise terms are chosen for their budgets, not for accuracy
pytestmark = pytest.mark.filterwarnings("ignore::nareg.errors.UtilityWarning")


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: (path / "coefficients.npy").unlink(), lambda path: changed_state(path, settings=None),
        lambda path: (path / "state.json").write_text("{"),
        lambda path: changed_request(path, lambda asked, certificate, *hashes: [asked, [1], *hashes]),
        lambda path: changed_request(path, lambda asked, certificate, *hashes: [asked, {"request": 1}, *hashes]),
        lambda path: (path / "term.npy").write_text("text"), lambda path: (path / "coefficients.npy").write_bytes(b"\0"),
        lambda path: changed_counts(path, n_requests=0), lambda path: changed_counts(path, n_nodes=0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("with_key", [True, False])
def test_a_damaged_store_is_said_to_be_damaged(damage, with_key, rng, tmp_path):
    fitted(rng)[0].save(tmp_path / "store").close()
    damage(tmp_path / "store")
    if not with_key:
        (tmp_path / "store.key").unlink()
    with pytest.raises(LedgerError):
        verify(tmp_path / "store")
    folder.locked(tmp_path / "store").close()  # it was closed


TEXTS = ["[" * 100000, '{"a":' * 2000, "1" * 5000, "[]", "3", "null", '"x"', "{}", "{", b"\xff\xfe"]


def settings(**changes):
    return lambda path: changed_settings(path, **changes)


def stated(**changes):
    return lambda path: changed_certificate(path, **changes)


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def state_text(text):
    return lambda path: (path / "state.json").write_bytes(as_bytes(text))


def request_text(text):
    return lambda path: changed_request(path, lambda *_: as_bytes(text))


@pytest.mark.parametrize(
    "damage",
    [
        *(settings(classes=value) for value in ([], [0], ["a", "b"], [[0, 1]], {"a": 1}, None, [2, 1, 0], [0, 1])),
        *(settings(lam=value) for value in (None, "x", -1, 10**400, [], True, float("nan"))),
        *(settings(weights=value) for value in (None, [], ["a"], [[1]], {}, 3, [float("nan")])),
        *(settings(**{name: value}) for name, value in (("loss", []), ("loss", "hinge"), ("more", 1))),
        settings(classes_given=3),
        *(stated(**{name: value}) for name in ("eps", "budget") for value in (None, "x", 10**310, [], float("inf"), 0)),
        *(stated(**{name: value}) for name in ("count", "n_edges") for value in (None, "x", -1, 0.5, 10**100)),
        *(stated(timings=value) for value in (None, [], {"training": "long"})),
        *(stated(**{name: value}) for name, value in (("request", 3), ("retrained", None), ("more", 1))),
        *(state_text(text) for text in TEXTS), *(request_text(text) for text in TEXTS),
        *(lambda path, value=value: changed_state(path, settings=value) for value in ([], 3, None, "x", {})),
        *(lambda path, value=value: changed_state(path, counts=value) for value in ([], 3, None, "x", {}, {"n_nodes": 40})),
        *(lambda path, value=value: changed_counts(path, n_rows=value) for value in (-1, 2, 10**6, 1.0, "x", None)),
        lambda path: changed_request(path, lambda asked, certificate, parameters, _: [asked, certificate, parameters, 7]),
        lambda path: changed_state(path, embedding=3), lambda path: changed_state(path, embedding=True),
        lambda path: np.save(path / "term.npy", np.zeros((0, 3))), lambda path: np.save(path / "coefficients.npy", np.zeros(1)),
        lambda path: np.save(path / "features.npy", np.full((40, 5), "text")),
    ],
)  # fmt: skip
def test_damaged_texts_are_said_in_a_sentence_without_the_key_too(damage, rng, tmp_path):
    """With the key their hashes say so."""
    path = tmp_path / "store"
    fitted(rng)[0].save(path).close()
    damage(path)
    (tmp_path / "store.key").unlink()

    def looked_at():
        verify(path).summary()
        store = ledger.Ledger(path)
        try:
            for _, certificate in store.history():
                certificate.summary()
        finally:
            store.close()

    with pytest.raises(NaregError, match=r"damaged|missing|format|cannot|loss|weights|UTF-8|utf-8|not a|alpha"):
        looked_at()


COLUMNS = ("asked", "certificate", "parameters", "digest")


@pytest.mark.parametrize("digest", ["é", "\x00", "x"])
@pytest.mark.parametrize("column", ["digest", "asked", "parameters"])
def test_hashes_of_another_kind_are_said_by_whoever_looks_for_a_request(column, digest, rng, tmp_path):
    fitted(rng)[0].save(tmp_path / "store").close()

    def change(*record):
        return [digest if name == column else value for name, value in zip(COLUMNS, record, strict=True)]

    changed_request(tmp_path / "store", change)
    store = ledger.Ledger(tmp_path / "store")
    try:
        for act in (store.find, lambda request: store.proves(0, request)):
            with pytest.raises(LedgerError):
                act({"request": "remove_nodes", "nodes": [1]})
    finally:
        store.close()


def test_settings_that_no_model_has_are_damage(rng, tmp_path):
    fitted(rng)[0].save(tmp_path / "store").close()
    (tmp_path / "store.key").unlink()
    changed_state(tmp_path / "store", settings={"classes": [0, 1], "classes_given": False, "odd": 1})
    with pytest.raises(LedgerError, match="settings are damaged"):
        verify(tmp_path / "store")


def test_links_in_a_circle_are_no_store(rng, tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises((InputError, LedgerError)):
        fitted(rng)[0].save(tmp_path / "a")
    with pytest.raises(InputError, match="is not a nareg store"):
        CertifiedGPR.load(tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("name", [".", "file/store", "x" * 300])
def test_paths_that_no_store_can_have_are_refused(name, rng, tmp_path):
    (tmp_path / "file").write_text("a file, no folder")
    model = fitted(rng)[0]
    with pytest.raises((InputError, LedgerError)):
        model.save(os.path.join(tmp_path, name) if name != "." else name)
    with pytest.raises(InputError):
        CertifiedGPR.load(os.path.join(tmp_path, name) if name != "." else name)
    assert model.remove_nodes([3]).request == "remove_nodes"  # and goes on
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_key_that_is_not_to_be_read_is_none_unless_it_was_named(rng, tmp_path, monkeypatch):
    fitted(rng)[0].save(tmp_path / "store").close()

    def refuse(self, *arguments, **more):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(pathlib.Path, "read_text", refuse)
    assert verify(tmp_path / "store").chained is None
    with pytest.raises(InputError, match=r"key is .*store\.key, which cannot be read \(Permission denied\)"):
        verify(tmp_path / "store", key=tmp_path / "store.key")
    with pytest.raises(InputError, match="cannot be read, and requests cannot be recorded"):
        CertifiedGPR.load(tmp_path / "store")


def failing(target, name, error, call=1):
    """A patch that raises where a function is called for the ``call``-th time."""
    real, calls = getattr(target, name), []

    def fail(*arguments, **options):
        calls.append(1)
        if len(calls) == call:
            raise error
        return real(*arguments, **options)

    return target, name, fail


BROKEN = OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(
    "step",
    [
        (folder.StateFolder, "sum_up", BROKEN), (journal, "own_file", BROKEN), (journal, "write_all", BROKEN, 1),
        (journal, "write_all", BROKEN, 9), (journal, "sync", BROKEN, 1), (journal, "sync", BROKEN, 2),
    ],
)  # fmt: skip
def test_a_write_that_fails_changes_nothing(step, rng, tmp_path, monkeypatch):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store")
    before, certificate, pair = model.certificate(), model.embedding(), first_edges(model)
    with monkeypatch.context() as patch:
        patch.setattr(*failing(*step))
        with pytest.raises(LedgerError, match="Nothing was changed"):
            model.remove_edges(pair)
    assert model.certificate() is before
    assert not (tmp_path / "store" / "journal").exists()
    np.testing.assert_allclose(model.embedding(), certificate, atol=1e-12)
    model.remove_edges(pair)  # goes through afterwards
    model.close()
    assert_alike(model, CertifiedGPR.load(tmp_path / "store"))


def test_a_request_that_is_only_in_the_journal_is_carried_out_by_loading(rng, tmp_path, monkeypatch):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store")
    with monkeypatch.context() as patch:
        patch.setattr(*failing(folder, "finish", BROKEN))
        with pytest.raises(LedgerError, match="in the journal, but not yet carried out"):
            model.remove_nodes([3, 31])
    for act in (model.predict, lambda: model.remove_nodes([5])):
        with pytest.raises(SolverError, match="load the store"):
            act()
    model.close()
    whole = (tmp_path / "store" / "journal").read_bytes()
    for _ in range(2):  # as if it had been killed before the journal was deleted, once more
        back = CertifiedGPR.load(tmp_path / "store")
        assert back.remaining.tolist() == [i for i in range(40) if i not in (3, 31)]
        assert [one.request for _, one in back._data.store.history()] == ["fit", "remove_nodes"]
        back.close()
        (tmp_path / "store" / "journal").write_bytes(whole)
    assert verify(tmp_path / "store").holds


@pytest.mark.parametrize("step", [(journal, "sync"), (folder, "finish")])
def test_ctrl_c_while_a_request_is_written_comes_after_it(step, rng, tmp_path, monkeypatch):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store")
    certificate, real = model.certificate(), getattr(*step)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(*step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                model.remove_nodes([3])
    finally:
        signal.signal(signal.SIGINT, before)
    assert model.certificate() is not certificate
    assert 3 not in model.remaining
    model.close()
    assert_alike(model, CertifiedGPR.load(tmp_path / "store"))


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no timers")
def test_a_timeout_while_a_request_is_written_comes_after_it(rng, tmp_path, monkeypatch):
    """The handler of a timer raises in the moment in which the request is on the disk."""
    model, *_ = fitted(rng)
    model.save(tmp_path / "store")
    pairs, real = first_edges(model, 2), folder.finish

    def late(*_):
        raise TimeoutError

    def finish(*arguments):
        os.kill(os.getpid(), signal.SIGALRM)
        real(*arguments)

    before = signal.signal(signal.SIGALRM, late)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(folder, "finish", finish)
            with pytest.raises(TimeoutError):
                model.remove_edges(pairs[:1])
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(InputError, match="was removed before"):
        model.remove_edges(pairs[:1])
    model.remove_edges(pairs[1:])
    model.close()
    assert_alike(model, CertifiedGPR.load(tmp_path / "store"))


def test_a_full_disk_and_a_read_only_folder_are_said(rng, tmp_path, monkeypatch):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store")
    for call in (1, 4, 12):
        with monkeypatch.context() as patch:
            patch.setattr(*failing(journal, "write_all", OSError(errno.ENOSPC, "No space left on device"), call))
            with pytest.raises(LedgerError, match=r"cannot be written \(No space left on device\)\. Nothing was changed"):
                model.add_nodes(np.ones((500, 5)))
        assert model.n_nodes == 40
    with pytest.raises(LedgerError, match="cannot be written"):
        fitted(rng)[0].save(tmp_path / "nowhere" / "store")
    model.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "store.key"]


def test_stores_that_are_not_there_or_not_whole_are_refused(rng, tmp_path):
    path = tmp_path / "store"
    with pytest.raises(InputError, match="is not a nareg store"):
        CertifiedGPR.load(path)
    model, *_ = fitted(rng)
    model.save(path)
    with pytest.raises(InputError, match="exists: load it, or pass another path"):
        fitted(rng)[0].save(path)
    with pytest.raises(LedgerError, match="another model or process has it open"):
        CertifiedGPR.load(path)
    model.close()
    emptied(path, range(20))
    with pytest.raises(LedgerError, match="the model does not belong to the data"):
        CertifiedGPR.load(path)

    def zeroed(rows):
        rows[:] = 0

    changed_tables(path, coefficients=zeroed)
    with pytest.raises(LedgerError, match="not the one of the last certificate"):
        CertifiedGPR.load(path)
    nodes = np.load(path / "labels.npy")
    np.save(path / "labels.npy", nodes[:-1])
    with pytest.raises(LedgerError, match="damaged"):
        CertifiedGPR.load(path)
    changed_tables(path)
    with pytest.raises(LedgerError, match="nodes or requests are missing"):
        CertifiedGPR.load(path)
    (path / "state.json").write_text('{"format": "other"}')
    with pytest.raises(LedgerError, match="has the format 'other'"):
        CertifiedGPR.load(path)
    shutil.rmtree(path)
    path.write_bytes(b"no store")
    with pytest.raises(InputError, match="is not a nareg store"):
        CertifiedGPR.load(path)


@pytest.mark.parametrize("name", ["mine.txt", "state.json"])
def test_the_folder_of_something_else_is_left_as_it_is(name, rng, tmp_path):
    path = tmp_path / "somebody"
    path.mkdir()
    (path / name).write_text('{"mine": 1}')
    for act in (verify, CertifiedGPR.load, Ledger):
        with pytest.raises(NaregError, match=r"has the format None|is not a nareg store"):
            act(path)
    with pytest.raises(InputError, match="exists: load it, or pass another path"):
        fitted(rng)[0].save(path)
    assert [(one.name, one.read_text()) for one in path.iterdir()] == [(name, '{"mine": 1}')]


def test_values_that_are_no_numbers_are_no_store(rng, tmp_path):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store").close()

    def spoiled(rows):
        rows[3, -1] = np.nan

    changed_tables(tmp_path / "store", features=spoiled)
    for act in (CertifiedGPR.load, verify):
        with pytest.raises(LedgerError, match="contain NaN or infinity"):
            act(tmp_path / "store")


def test_neither_store_nor_key_is_written_over(rng, tmp_path, monkeypatch):
    model, *_ = fitted(rng)
    path = tmp_path / "store"
    for key in (tmp_path / "." / "store", path / "key"):
        with pytest.raises(InputError, match="the store itself"):
            model.save(path, key=key)
    (tmp_path / "k").write_text("mine")
    with pytest.raises(InputError, match="which exists and may belong to another store"):
        model.save(path, key=tmp_path / "k")
    assert [one.name for one in tmp_path.iterdir()] == ["k"]
    fill, other = ledger.fill, fitted(rng)[0]

    def raced(*arguments):
        monkeypatch.setattr(ledger, "fill", fill)
        other.save(path, key=tmp_path / "other")
        fill(*arguments)

    monkeypatch.setattr(ledger, "fill", raced)
    with pytest.raises(InputError, match="was created by another process"):
        model.save(path)
    other.close()
    assert_alike(other, CertifiedGPR.load(path, key=tmp_path / "other"))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["k", "other", "store"]


def test_residues_of_a_new_embedding_are_no_damage(tmp_path):
    """Pushed from the features alone, more waits than the budget has room for: what is loaded is exact, and so is verify."""
    n, rng = 60, np.random.default_rng(0)
    A = sum(np.roll(np.eye(n), k, axis=1) for k in (1, 2, 3, 4))
    y = np.arange(n) % 2
    X = np.where(y == 1, 0.4, -0.4)[:, None] * np.sign(rng.uniform(-0.2, 1, (n, 3)))
    model = CertifiedGPR(weights=1, r_max=1.15, lam=1e-2, alpha=100.0, rng=np.random.default_rng(1))
    model.fit(A + A.T, X, y, np.arange(20))
    path = tmp_path / "store"
    model.save(path)
    model.remove_edges([(i, i + 1) for i in range(0, n, 2)])
    model.close()
    result = verify(path)
    assert result.holds
    loaded = CertifiedGPR.load(path)
    assert loaded.certificate() == model.certificate().rounded()
    assert loaded._data.propagation.exact
    assert loaded.remove_edges([(1, 3)]).spent <= loaded.budget
    loaded.close()


def test_the_key_is_for_its_owner_only(rng, tmp_path):
    fitted(rng)[0].save(tmp_path / "store")
    assert (tmp_path / "store.key").stat().st_mode & 0o777 == 0o600


SERVICE = textwrap.dedent(
    """
    import os, signal, sys
    import numpy as np
    from nareg.unlearning import CertifiedGPR
    from nareg.unlearning.store import folder, journal, table

    path, left = sys.argv[1], int(sys.argv[2])
    model = CertifiedGPR.load(path)
    steps = 0

    def counted(function):
        def call(*arguments, **options):
            global steps
            steps += 1
            if steps == left:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)
        return call

    for module, name in (
        (folder, "sync"), (folder, "atomic_write"), (journal, "sync"), (journal, "write_all"), (table, "sync"),
        (table, "write_all"), (journal, "own_file"),
    ):
        setattr(module, name, counted(getattr(module, name)))
    for node in range(32, 40):
        model.remove_nodes([node])
        print(node, flush=True)
    """
)


WRITES = (1, 2, 5, 9, 14, 20, 26, 31, 35, 38, 41, 44, 47, 53, 90, 200)


@pytest.mark.slow
@pytest.mark.parametrize("writes", [(5, 38, 200), pytest.param(WRITES, marks=pytest.mark.nightly)])
def test_a_kill_at_any_write_loses_and_repeats_nothing_acknowledged(writes, rng, tmp_path):
    """SIGKILL before write 1, 2, ... of a service that removes nodes one by one; then another goes on."""
    model, graph, X, _ = fitted(rng)
    model.save(tmp_path / "whole", key=tmp_path / "store.key")
    model.close()
    for step in writes:
        shutil.rmtree(tmp_path / "store", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "store")
        stated = [sys.executable, "-c", SERVICE, str(tmp_path / "store"), str(step)]
        done = subprocess.run(stated, capture_output=True, text=True, check=False)
        assert done.returncode in (-signal.SIGKILL, 0), done.stderr
        acknowledged = [int(line) for line in done.stdout.split()]
        back = CertifiedGPR.load(tmp_path / "store")
        assert not (tmp_path / "store" / "journal").exists()
        gone = np.flatnonzero(back._data.gone).tolist()
        assert gone[: len(acknowledged)] == acknowledged
        assert len(gone) <= len(acknowledged) + 1  # one may have been written and not told
        assert len(back._data.store.history()) == len(gone) + 1
        remaining = X.copy()
        A = graph.adjacency.toarray()
        A[gone] = A[:, gone] = remaining[gone] = 0
        np.testing.assert_allclose(back.embedding(), reference.embedding(A, remaining, back.weights), atol=1e-12)
        for node in gone:
            with pytest.raises(InputError, match="was removed before"):
                back.remove_nodes([node])
        back.close()


@pytest.mark.slow
@pytest.mark.parametrize("waits", [2, pytest.param(8, marks=pytest.mark.nightly)])
def test_a_kill_at_any_time_leaves_a_whole_store(waits, rng, tmp_path):
    model, *_ = fitted(rng)
    model.save(tmp_path / "whole", key=tmp_path / "store.key")
    model.close()
    for wait in np.linspace(0.0, 0.1, waits):
        shutil.rmtree(tmp_path / "store", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "store")
        stated = [sys.executable, "-c", SERVICE, str(tmp_path / "store"), "0"]
        with subprocess.Popen(stated, stdout=subprocess.PIPE, text=True) as service:
            first = service.stdout.readline()
            signal.sigtimedwait([], wait)
            os.kill(service.pid, signal.SIGKILL)
            acknowledged = [int(first), *(int(line) for line in service.stdout.read().split())]
        back = CertifiedGPR.load(tmp_path / "store")
        gone = np.flatnonzero(back._data.gone).tolist()
        assert gone[: len(acknowledged)] == acknowledged
        assert len(gone) <= len(acknowledged) + 1
        back.close()


@pytest.mark.slow
def test_a_killed_save_leaves_no_store(tmp_path):
    code = """
        import os, signal, sys
        import numpy as np, nareg
        from nareg.unlearning import CertifiedGPR
        from nareg.unlearning.store import ledger
        ledger.write_state = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
        d = nareg.datasets.node_classification.synthetic(60, 3, n_features=6, rng=np.random.default_rng(0))
        CertifiedGPR().fit(d.graph, d.features, d.labels, np.arange(40)).save(sys.argv[1])
    """
    stated = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "s")]
    assert subprocess.run(stated, check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / "s").exists()
    (tmp_path / "s.key").unlink()
    fitted(np.random.default_rng(0))[0].save(tmp_path / "s").close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["s", "s.key"]


def test_a_damaged_store_is_named(rng, tmp_path):
    fitted(rng)[0].save(tmp_path / "store").close()
    opened = Ledger(tmp_path / "store")
    stored = opened.read()
    opened.close()
    damaged = replace(stored, settings={**stored.settings, "classes": [2, 1, 0]})  # as one who has the key could write it
    with pytest.raises(LedgerError, match=rf"{tmp_path}.store: its settings are damaged"):
        CertifiedGPR.from_stored(damaged)


@pytest.mark.parametrize("name", [*state.HISTORY, state.SUMS])
def test_a_flipped_bit_in_the_data_of_a_store_is_found(name, rng, tmp_path):
    """Wherever it is: a small change of a feature would not show in the model's gradient."""
    fitted(rng)[0].save(tmp_path / "store").close()
    file = tmp_path / "store" / f"{name}.npy"
    content = file.read_bytes()
    for _ in range(12):
        flipped = bytearray(content)
        flipped[int(rng.integers(128, len(content)))] ^= 1 << int(rng.integers(8))
        file.write_bytes(flipped)
        with pytest.raises(LedgerError, match="damaged"):
            CertifiedGPR.load(tmp_path / "store")


def test_a_flipped_bit_in_the_state_of_a_store_is_found(rng, tmp_path):
    fitted(rng)[0].save(tmp_path / "store").close()
    file = tmp_path / "store" / "state.json"
    content = file.read_bytes()
    for place in range(0, len(content), 7):
        file.write_bytes(bytes([*content[:place], content[place] ^ 4, *content[place + 1 :]]))
        with pytest.raises(LedgerError, match=r"damaged|has the format"):
            CertifiedGPR.load(tmp_path / "store")


@pytest.mark.parametrize("name", ["features.npy", "state.json", "journal", "lock", "other"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "second name", "pipe"])
def test_what_leads_out_of_a_store_is_refused(name, kind, rng, tmp_path):
    path, victim = tmp_path / "store", tmp_path / "victim"
    fitted(rng)[0].save(path).close()
    if (path / name).exists():
        os.replace(path / name, victim)
    else:
        victim.write_bytes(b"x" * 400)
    content = victim.read_bytes()
    if kind == "pipe":
        os.mkfifo(path / name)
    elif kind == "second name":
        os.link(victim, path / name)
    else:
        (path / name).symlink_to(victim if kind == "link" else tmp_path / "new")
    for act in (CertifiedGPR.load, Ledger, verify):
        with pytest.raises(NaregError, match=f"{name} is (a link|no plain file|one of several names)|{name} is damaged"):
            act(path)
    assert victim.read_bytes() == content
    assert not (tmp_path / "new").exists()
