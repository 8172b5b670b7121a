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

import numpy as np
import pytest

from nareg.errors import InputError, NaregError, SolverError
from nareg.unlearning import CertifiedGPR, Ledger, LedgerError, verify
from nareg.unlearning.store import folder, journal, ledger
from tests.unlearning import reference
from tests.unlearning.test_ledger import assert_alike, first_edges, fitted

# these noise terms are chosen for their budgets, not for accuracy
pytestmark = pytest.mark.filterwarnings("ignore::nareg.errors.UtilityWarning")


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
