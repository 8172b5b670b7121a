"""The store when something goes wrong: nothing acknowledged is lost or repeated, nothing is written over."""

from __future__ import annotations

import ast
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest

from nareg.errors import InputError, NaregError
from nareg.unlearning import CertifiedGPR, Ledger, LedgerError, verify
from nareg.unlearning.store import ledger
from tests.unlearning import reference
from tests.unlearning.test_ledger import alter, assert_alike, emptied, first_edges, fitted, with_rows

# these noise terms are chosen for their budgets, not for accuracy
pytestmark = pytest.mark.filterwarnings("ignore::nareg.errors.UtilityWarning")


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM model", "DELETE FROM meta WHERE name = 'settings'", "UPDATE meta SET value = '{' WHERE name = 'settings'",
        "UPDATE requests SET certificate = '[1]'", "UPDATE requests SET certificate = '{\"request\": 1}'",
        "UPDATE model SET term = 'text'", "UPDATE model SET coefficients = x'00'", "DELETE FROM requests", "DELETE FROM nodes",
    ],
)  # fmt: skip
@pytest.mark.parametrize("with_key", [True, False])
def test_a_damaged_store_is_said_to_be_damaged(damage, with_key, rng, tmp_path):
    fitted(rng)[0].save(tmp_path / "store").close()
    alter(tmp_path / "store", damage)
    if not with_key:
        (tmp_path / "store.key").unlink()
    with pytest.raises(LedgerError):
        verify(tmp_path / "store")
    sqlite3.connect(tmp_path / "store", timeout=0).execute("BEGIN EXCLUSIVE")  # it was closed


def altered(column, where, **changes):
    """A statement that changes the JSON of a text in a store."""

    def change(path):
        connection = sqlite3.connect(path)
        (text,) = connection.execute(f"SELECT {column} FROM {where}").fetchone()
        text = json.dumps({**json.loads(text), **changes})
        table, _, row = where.partition(" WHERE ")
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {row}", [text])
        connection.commit()
        connection.close()

    return change


SETTINGS, LAST = ("value", "meta WHERE name = 'settings'"), ("certificate", "requests WHERE number = 0")
TEXTS = ["[" * 100000, '{"a":' * 2000, "1" * 5000, "[]", "3", "null", '"x"', "{}", "{", b"\xff\xfe"]


@pytest.mark.parametrize(
    "damage",
    [
        *(altered(*SETTINGS, classes=value) for value in ([], [0], ["a", "b"], [[0, 1]], {"a": 1}, None, [2, 1, 0], [0, 1])),
        *(altered(*SETTINGS, lam=value) for value in (None, "x", -1, 10**400, [], True, float("nan"))),
        *(altered(*SETTINGS, weights=value) for value in (None, [], ["a"], [[1]], {}, 3, [float("nan")])),
        *(altered(*SETTINGS, **{name: value}) for name, value in (("loss", []), ("loss", "hinge"), ("more", 1))),
        altered(*SETTINGS, classes_given=3),
        *(altered(*LAST, **{name: value}) for name in ("eps", "budget") for value in (None, "x", 10**400, [], float("inf"), 0)),
        *(altered(*LAST, **{name: value}) for name in ("count", "n_edges") for value in (None, "x", -1, 0.5, 10**400)),
        *(altered(*LAST, timings=value) for value in (None, [], {"training": "long"})),
        *(altered(*LAST, **{name: value}) for name, value in (("request", 3), ("retrained", None), ("more", 1))),
        *(f"UPDATE {where.partition(' WHERE ')[0]} SET {column} = ? WHERE {where.partition(' WHERE ')[2]}|{text!r}"
          for column, where in (SETTINGS, LAST) for text in TEXTS[:-1] if (text, column) != ("null", "certificate")),
        "UPDATE requests SET digest = CAST(x'fffe' AS TEXT)", "UPDATE meta SET value = x'00ff' WHERE name = 'format'",
        "UPDATE model SET term = x''", "UPDATE model SET coefficients = zeroblob(8)",
        "UPDATE nodes SET row = 'text' WHERE node = 3",
    ],
)  # fmt: skip
def test_damaged_texts_are_said_in_a_sentence_without_the_key_too(damage, rng, tmp_path):
    """With the key their hashes say so."""
    path = tmp_path / "store"
    fitted(rng)[0].save(path).close()
    if callable(damage):
        damage(path)
    else:
        statement, _, text = damage.partition("|")
        alter(path, statement, *([[ast.literal_eval(text)]] if text else []))
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


@pytest.mark.parametrize("digest", ["é", b"\x00", "x"])
@pytest.mark.parametrize("column", ["digest", "asked", "parameters"])
def test_hashes_of_another_kind_are_said_by_whoever_looks_for_a_request(column, digest, rng, tmp_path):
    fitted(rng)[0].save(tmp_path / "store").close()
    alter(tmp_path / "store", f"UPDATE requests SET {column} = ?", [digest])
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
    settings = '{"classes": [0, 1], "classes_given": false, "odd": 1}'
    alter(tmp_path / "store", "UPDATE meta SET value = ? WHERE name = 'settings'", [settings])
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


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "UPDATE edges", "INSERT INTO requests", "COMMIT"])
def test_a_write_that_fails_changes_nothing(statement, rng, tmp_path):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store.sqlite")
    before, certificate, pair = model.certificate(), model.embedding(), first_edges(model)
    connection = model._data.store._connection

    def deny(action, first, second, *_):
        asked = {
            "BEGIN IMMEDIATE": (sqlite3.SQLITE_TRANSACTION, "BEGIN"),
            "COMMIT": (sqlite3.SQLITE_TRANSACTION, "COMMIT"),
            "UPDATE edges": (sqlite3.SQLITE_UPDATE, "edges"),
            "INSERT INTO requests": (sqlite3.SQLITE_INSERT, "requests"),
        }[statement]
        return sqlite3.SQLITE_DENY if (action, first) == asked else sqlite3.SQLITE_OK

    connection.set_authorizer(deny)
    with pytest.raises(LedgerError, match="Nothing was changed"):
        model.remove_edges(pair)
    connection.set_authorizer(None)
    assert model.certificate() is before
    np.testing.assert_allclose(model.embedding(), certificate, atol=1e-12)
    model.remove_edges(pair)  # goes through afterwards
    model.close()
    assert_alike(model, CertifiedGPR.load(tmp_path / "store.sqlite"))


def test_ctrl_c_while_a_request_is_written_comes_after_it(rng, tmp_path):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store.sqlite")
    certificate = model.certificate()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    model._data.store._connection.set_trace_callback(lambda _: os.kill(os.getpid(), signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt):
            model.remove_nodes([3])
    finally:
        signal.signal(signal.SIGINT, before)
    model._data.store._connection.set_trace_callback(None)
    assert model.certificate() is not certificate
    assert 3 not in model.remaining
    model.close()
    assert_alike(model, CertifiedGPR.load(tmp_path / "store.sqlite"))


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no timers")
def test_a_timeout_while_a_request_is_written_comes_after_it(rng, tmp_path):
    """The handler of a timer raises in the moment in which the transaction is on the disk."""
    model, *_ = fitted(rng)
    model.save(tmp_path / "store.sqlite")
    pairs = first_edges(model, 2)

    def late(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    model._data.store._connection.set_trace_callback(
        lambda statement: os.kill(os.getpid(), signal.SIGALRM) if statement == "COMMIT" else None
    )
    try:
        with pytest.raises(TimeoutError):
            model.remove_edges(pairs[:1])
    finally:
        signal.signal(signal.SIGALRM, before)
    model._data.store._connection.set_trace_callback(None)
    with pytest.raises(InputError, match="was removed before"):
        model.remove_edges(pairs[:1])
    model.remove_edges(pairs[1:])
    model.close()
    assert_alike(model, CertifiedGPR.load(tmp_path / "store.sqlite"))


def test_a_full_disk_and_a_read_only_folder_are_said(rng, tmp_path):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store.sqlite")
    connection = model._data.store._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(LedgerError, match="full"):
        model.add_nodes(np.ones((500, 5)))
    assert model.n_nodes == 40
    with pytest.raises(LedgerError, match="cannot be written"):
        fitted(rng)[0].save(tmp_path / "nowhere" / "store.sqlite")
    model.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store.sqlite", "store.sqlite.key"]


def test_stores_that_are_not_there_or_not_whole_are_refused(rng, tmp_path):
    path = tmp_path / "store.sqlite"
    with pytest.raises(InputError, match="is not a nareg store"):
        CertifiedGPR.load(path)
    model, *_ = fitted(rng)
    model.save(path)
    with pytest.raises(InputError, match="exists: load it, or pass another path"):
        fitted(rng)[0].save(path)
    with pytest.raises(LedgerError, match="another process has it open"):
        CertifiedGPR.load(path)
    model.close()
    with_rows(path, range(20), emptied)
    connection = sqlite3.connect(path)
    with pytest.raises(LedgerError, match="the model does not belong to the data"):
        CertifiedGPR.load(path)
    connection.execute("UPDATE model SET coefficients = zeroblob(120)")
    connection.commit()
    with pytest.raises(LedgerError, match="not the one of the last certificate"):
        CertifiedGPR.load(path)
    connection.execute("DELETE FROM nodes WHERE node = 4")
    connection.commit()
    with pytest.raises(LedgerError, match="nodes or requests are missing"):
        CertifiedGPR.load(path)
    connection.execute("UPDATE meta SET value = 'other' WHERE name = 'format'")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="has the format 'other'"):
        CertifiedGPR.load(path)
    path.write_bytes(b"no store")
    with pytest.raises(LedgerError, match="not a database"):
        CertifiedGPR.load(path)


def test_another_database_is_left_as_it_is(rng, tmp_path):
    path = tmp_path / "somebody.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="has the format None"):
        verify(path)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_values_that_are_no_numbers_are_no_store(rng, tmp_path):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store.sqlite").close()

    def spoiled(rows):
        rows["features"][0, -1] = np.nan

    with_rows(tmp_path / "store.sqlite", [3], spoiled)
    for act in (CertifiedGPR.load, verify):
        with pytest.raises(LedgerError, match="contain NaN or infinity"):
            act(tmp_path / "store.sqlite")


def test_neither_store_nor_key_is_written_over(rng, tmp_path, monkeypatch):
    model, *_ = fitted(rng)
    path = tmp_path / "store.sqlite"
    with pytest.raises(InputError, match="the store itself"):
        model.save(path, key=tmp_path / "." / "store.sqlite")
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
    assert sorted(one.name for one in tmp_path.iterdir()) == ["k", "other", "store.sqlite"]


def test_residues_of_a_new_embedding_are_no_damage(tmp_path):
    """Pushed from the features alone, more waits than the budget has room for: what is loaded is exact, and so is verify."""
    n, rng = 60, np.random.default_rng(0)
    A = sum(np.roll(np.eye(n), k, axis=1) for k in (1, 2, 3, 4))
    y = np.arange(n) % 2
    X = np.where(y == 1, 0.4, -0.4)[:, None] * np.sign(rng.uniform(-0.2, 1, (n, 3)))
    model = CertifiedGPR(weights=1, r_max=1.15, lam=1e-2, alpha=100.0, rng=np.random.default_rng(1))
    model.fit(A + A.T, X, y, np.arange(20))
    path = tmp_path / "store.sqlite"
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
    fitted(rng)[0].save(tmp_path / "store.sqlite")
    assert (tmp_path / "store.sqlite.key").stat().st_mode & 0o777 == 0o600


SERVICE = textwrap.dedent(
    """
    import os, signal, sys
    import numpy as np
    from nareg.unlearning import CertifiedGPR

    path, statement = sys.argv[1], int(sys.argv[2])
    model = CertifiedGPR.load(path)
    seen = 0

    def watch(_):
        global seen
        seen += 1
        if seen == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    model._data.store._connection.set_trace_callback(watch)
    for node in range(32, 40):
        model.remove_nodes([node])
        print(node, flush=True)
    """
)


@pytest.mark.slow
def test_a_kill_at_any_statement_loses_and_repeats_nothing_acknowledged(rng, tmp_path):
    """SIGKILL before statement 1, 2, ... of a service that removes nodes one by one; then another goes on."""
    model, graph, X, _ = fitted(rng)
    model.save(tmp_path / "store.sqlite")
    model.close()
    whole = (tmp_path / "store.sqlite").read_bytes()
    for statement in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 17, 22, 31):
        (tmp_path / "store.sqlite").write_bytes(whole)
        stated = [sys.executable, "-c", SERVICE, str(tmp_path / "store.sqlite"), str(statement)]
        done = subprocess.run(stated, capture_output=True, text=True, check=False)
        assert done.returncode in (-signal.SIGKILL, 0), done.stderr
        acknowledged = [int(line) for line in done.stdout.split()]
        back = CertifiedGPR.load(tmp_path / "store.sqlite")
        gone = np.flatnonzero(back._data.gone).tolist()
        assert gone[: len(acknowledged)] == acknowledged
        assert len(gone) <= len(acknowledged) + 1  # one may have been written and not told
        remaining = X.copy()
        A = graph.adjacency.toarray()
        A[gone] = A[:, gone] = remaining[gone] = 0
        np.testing.assert_allclose(back.embedding(), reference.embedding(A, remaining, back.weights), atol=1e-12)
        for node in gone:
            with pytest.raises(InputError, match="was removed before"):
                back.remove_nodes([node])
        back.close()


@pytest.mark.slow
def test_a_kill_at_any_time_leaves_a_whole_store(rng, tmp_path):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store.sqlite")
    model.close()
    whole = (tmp_path / "store.sqlite").read_bytes()
    for wait in np.linspace(0.0, 0.02, 8):
        (tmp_path / "store.sqlite").write_bytes(whole)
        stated = [sys.executable, "-c", SERVICE, str(tmp_path / "store.sqlite"), "0"]
        with subprocess.Popen(stated, stdout=subprocess.PIPE, text=True) as service:
            first = service.stdout.readline()
            signal.sigtimedwait([], wait)
            os.kill(service.pid, signal.SIGKILL)
            acknowledged = [int(first), *(int(line) for line in service.stdout.read().split())]
        back = CertifiedGPR.load(tmp_path / "store.sqlite")
        gone = np.flatnonzero(back._data.gone).tolist()
        assert gone[: len(acknowledged)] == acknowledged
        assert len(gone) <= len(acknowledged) + 1
        back.close()


def test_a_damaged_store_is_named(rng, tmp_path):
    fitted(rng)[0].save(tmp_path / "store").close()
    opened = Ledger(tmp_path / "store")
    stored = opened.read()
    opened.close()
    damaged = replace(stored, settings={**stored.settings, "classes": [2, 1, 0]})  # as one who has the key could write it
    with pytest.raises(LedgerError, match=rf"{tmp_path}.store: its settings are damaged"):
        CertifiedGPR.from_stored(damaged)


@pytest.mark.parametrize(("table", "column"), [("nodes", "row"), ("edges", "pairs")])
def test_a_flipped_bit_in_the_data_of_a_store_is_found(table, column, rng, tmp_path):
    """Wherever it is: a small change of a feature would not show in the model's gradient."""
    fitted(rng)[0].save(tmp_path / "store").close()
    content = (tmp_path / "store").read_bytes()
    for _ in range(12):
        (tmp_path / "store").write_bytes(content)
        connection = sqlite3.connect(tmp_path / "store")
        ((number, row),) = connection.execute(f"SELECT rowid, {column} FROM {table} ORDER BY random() LIMIT 1")
        row = bytearray(row)
        row[int(rng.integers(len(row)))] ^= 1 << int(rng.integers(8))
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", [bytes(row), number])
        connection.commit()
        connection.close()
        with pytest.raises(LedgerError, match="damaged"):
            CertifiedGPR.load(tmp_path / "store")


@pytest.mark.parametrize("kind", ["several databases", "link", "pipe", "log"])
def test_a_journal_that_leads_elsewhere_is_refused(kind, rng, tmp_path):
    """SQLite deletes the file that a journal of several databases names, and writes through links."""
    fitted(rng)[0].save(tmp_path / "store").close()
    victim, beside = tmp_path / "victim", tmp_path / "store-journal"
    victim.write_bytes(b"x" * 400)
    if kind == "several databases":
        name = str(victim).encode()
        head = bytes.fromhex("d9d505f920a163d7") + (0).to_bytes(4, "big") + bytes(500)
        parts = [(0).to_bytes(4, "big"), name, len(name).to_bytes(4, "big"), sum(name).to_bytes(4, "big"), head[:8]]
        beside.write_bytes(head + b"".join(parts))
    elif kind == "link":
        beside.symlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(beside)
    else:
        beside = tmp_path / "store-wal"
        beside.write_bytes(bytes(32))
    with pytest.raises(LedgerError, match=r"store-(journal|wal) is not a journal of a store"):
        CertifiedGPR.load(tmp_path / "store")
    assert victim.read_bytes() == b"x" * 400
    beside.unlink()
    CertifiedGPR.load(tmp_path / "store").close()


def test_a_store_with_a_trigger_is_refused(rng, tmp_path):
    """It could undo what a request writes."""
    fitted(rng)[0].save(tmp_path / "store").close()
    alter(tmp_path / "store", "CREATE TRIGGER t AFTER UPDATE ON nodes BEGIN DELETE FROM edges; END")
    with pytest.raises(LedgerError, match="has triggers or views"):
        CertifiedGPR.load(tmp_path / "store")
