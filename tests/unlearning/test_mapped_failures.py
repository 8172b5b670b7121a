"""A request to a model in files is carried out whole or not at all, and what was removed is in no file."""

from __future__ import annotations

import errno
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import nareg
from nareg.errors import TooLargeError
from nareg.unlearning import CertificateError, CertifiedGPR, LedgerError
from nareg.unlearning.head import CertifiedTraining
from nareg.unlearning.store import blocks, folder, journal
from tests.unlearning.mapped_models import LITTLE, assert_equal, everything, mapped
from tests.unlearning.requests import REQUESTS, problem


@pytest.mark.slow
@pytest.mark.parametrize("memory", [None, LITTLE])
@pytest.mark.parametrize("request_of", REQUESTS.values(), ids=list(REQUESTS))
@pytest.mark.parametrize("fault", [KeyboardInterrupt, CertificateError])
def test_a_request_that_fails_changes_nothing(request_of, fault, memory, rng, tmp_path, monkeypatch):
    model = mapped(rng, tmp_path / "m", memory=memory, alpha=2.0)
    before, certificate = everything(model), model.certificate()

    def fail(*_, **__):
        raise fault("now")

    with monkeypatch.context() as patch:
        patch.setattr(CertifiedTraining, "adjusted", fail)
        with pytest.raises(fault):
            request_of(model)
    assert_equal(everything(model), before)
    assert model.certificate() is certificate
    assert not (tmp_path / "m" / "stale").exists()
    assert request_of(model) is model.certificate() is not certificate  # it goes through after that
    after = everything(model)
    model.close()
    back = CertifiedGPR.load(tmp_path / "m")
    assert_equal(everything(back), after)
    back.close()


@pytest.mark.parametrize("memory", [None, LITTLE])
def test_a_full_disk_changes_nothing(memory, rng, tmp_path, monkeypatch):
    model = mapped(rng, tmp_path / "m", memory=memory)
    before, calls, real = everything(model), [], journal.write_all

    def full(handle, array):
        calls.append(1)
        if len(calls) == 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle, array)

    with monkeypatch.context() as patch:
        patch.setattr(journal, "write_all", full)
        with pytest.raises(LedgerError, match=r"cannot be written \(No space left on device\)\. Nothing was changed"):
            model.remove_nodes([3])
    assert_equal(everything(model), before)
    model.close()
    back = CertifiedGPR.load(tmp_path / "m")
    assert_equal(everything(back), before)
    back.close()


def test_a_journal_counts_when_it_is_whole(rng, tmp_path, monkeypatch):
    """It is whole when the files fail: then loading carries it out. Cut off or changed anywhere, it never was."""
    model = mapped(rng, tmp_path / "m")
    before = everything(model)

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(folder, "finish", fail)
        with pytest.raises(LedgerError, match="in the journal, but not yet carried out"):
            model.remove_nodes([3, 50])
    with pytest.raises(nareg.errors.SolverError, match="load the store"):
        model.predict()
    model.close()
    whole = (tmp_path / "m" / "journal").read_bytes()
    cuts = [whole[:0], whole[:10], whole[:31], whole[: len(whole) // 2], whole[:-1]]
    flips = [bytes([*whole[:at], whole[at] ^ 1, *whole[at + 1 :]]) for at in (0, 40, len(whole) // 2, len(whole) - 1)]
    for torn in (*cuts, *flips):
        (tmp_path / "m" / "journal").write_bytes(torn)
        back = CertifiedGPR.load(tmp_path / "m")
        assert_equal(everything(back), before)
        assert not (tmp_path / "m" / "journal").exists()
        back.close()
    (tmp_path / "m" / "journal").write_bytes(whole)
    for _ in range(2):
        back = CertifiedGPR.load(tmp_path / "m")
        assert back.remaining.tolist() == [i for i in range(60) if i not in (3, 50)]
        back.close()
        (tmp_path / "m" / "journal").write_bytes(whole)  # as if it had been killed before the journal was deleted


SERVICE = textwrap.dedent(
    """
    import os, signal, sys
    from nareg.unlearning import CertifiedGPR
    from nareg.unlearning.store import folder, journal, table as tables

    path, memory, left = sys.argv[1], int(sys.argv[2]) or None, int(sys.argv[3])
    model = CertifiedGPR.load(path, memory=memory)
    steps = 0

    def counted(function):
        def call(*arguments, **options):
            global steps
            if steps == left:
                os.kill(os.getpid(), signal.SIGKILL)
            steps += 1
            return function(*arguments, **options)
        return call

    for module, name in (
        (folder, "sync"), (folder, "atomic_write"), (journal, "sync"), (journal, "write_all"), (tables, "sync"),
        (tables, "write_all"),
    ):
        setattr(module, name, counted(getattr(module, name)))
    model.remove_nodes([3, 50])
    print(steps)
    """
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("memory", "drills"),
    [(LITTLE, 2), *(pytest.param(memory, 14, marks=pytest.mark.nightly) for memory in (None, LITTLE))],
)
def test_a_kill_at_any_write_leaves_the_old_or_the_new_state(memory, drills, rng, tmp_path):
    """SIGKILL before the k-th write of a request: the first ones leave the old state, the last ones the new state."""
    model = mapped(rng, tmp_path / "m", memory=memory)
    old = everything(model)
    model.close()
    shutil.copytree(tmp_path / "m", tmp_path / "new")
    model = CertifiedGPR.load(tmp_path / "new", memory=memory)
    model.remove_nodes([3, 50])
    new = everything(model)
    model.close()

    def killed(step):
        shutil.copytree(tmp_path / "m", tmp_path / str(step))
        stated = [sys.executable, "-c", SERVICE, str(tmp_path / str(step)), str(memory or 0), str(step)]
        done = subprocess.run(stated, capture_output=True, text=True, check=False)
        assert done.returncode in (-signal.SIGKILL, 0), done.stderr
        return int(done.stdout or -1)

    steps = killed(10**6)
    assert steps > 40
    points = sorted({*np.linspace(0, steps - 1, drills).astype(int).tolist(), 1, steps - 2})
    seen = []
    for step in points:
        assert killed(step) == -1
        back = CertifiedGPR.load(tmp_path / str(step), memory=memory)
        seen.append(back.remaining.size == 58)
        for one, other in zip(everything(back), new if seen[-1] else old, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)  # what was stale is computed anew
        assert sorted(file.name for file in (tmp_path / str(step)).iterdir() if file.suffix not in (".npy", ".json")) == [
            "lock"
        ]
        back.remove_nodes([7])
        back.close()
    assert seen == sorted(seen)
    assert seen[0] is False
    assert seen[-1] is True


@pytest.mark.slow
def test_a_killed_fit_leaves_no_folder(tmp_path):
    code = """
        import os, signal, sys
        import numpy as np, nareg
        from nareg.unlearning import CertifiedGPR
        from nareg.unlearning.head import CertifiedTraining
        CertifiedTraining.adjusted = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
        d = nareg.datasets.node_classification.synthetic(60, 3, n_features=6, rng=np.random.default_rng(0))
        CertifiedGPR(folder=sys.argv[1]).fit(d.graph, d.features, d.labels, np.arange(40))
    """
    stated = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "m")]
    assert subprocess.run(stated, check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / "m").exists()
    assert len(list(tmp_path.iterdir())) == 1  # the draft
    mapped(np.random.default_rng(0), tmp_path / "m").close()
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_a_fit_that_fails_leaves_the_older_model(rng, tmp_path, monkeypatch):
    mapped(rng, tmp_path / "m").close()
    before = (tmp_path / "m" / "state.json").read_bytes()
    with pytest.raises(CertificateError):
        mapped(rng, tmp_path / "m", alpha=1e-12)
    monkeypatch.setattr(blocks.checks, "memory", _too_large)
    with pytest.raises(TooLargeError):
        mapped(rng, tmp_path / "m")
    assert [file.name for file in tmp_path.iterdir()] == ["m"]
    assert (tmp_path / "m" / "state.json").read_bytes() == before
    CertifiedGPR.load(tmp_path / "m").close()


def _too_large(*_, **__):
    raise TooLargeError("now")


def test_what_was_removed_is_in_no_file(rng, tmp_path):
    graph, X, y = problem(rng)
    X[50] = np.pi * np.arange(1, 7)
    model = CertifiedGPR(rng=rng, folder=tmp_path / "m", weights=[0.2, 0.3, 0.5]).fit(graph, X, y, np.arange(40))
    root = np.sqrt(model._data.graph.degrees[50])
    pair = sorted(model._data.graph.neighbors_of(50).tolist())

    def held():
        files = b"".join(file.read_bytes() for file in (tmp_path / "m").iterdir())
        return X[50].tobytes() in files, (root * X[50] * 0.2).tobytes() in files, np.array(pair, np.int32).tobytes() in files

    assert held()[0]
    assert held()[2]
    model.remove_nodes([50])
    assert held() == (False, False, False)
    model.close()
