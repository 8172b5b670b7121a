"""Processes that are forked with an open model, and copies of models: one writer, and no noise term twice."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from experiments._unlearning_peers import CGU
from nareg.errors import InputError, LedgerError, SolverError
from nareg.unlearning import CertifiedGPR, Ledger, verify
from nareg.unlearning.store import folder
from tests.unlearning.requests import fitted, problem
from tests.unlearning.test_threads import Paused, started

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")


def in_a_fork(act):
    """What an act returns or raises in a forked process, as text."""
    there, here = os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.alarm(60)  # a child that waits for a lock is killed
            try:
                said = repr(act())
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
            os.write(here, said.encode())
        finally:
            os._exit(0)
    os.close(here)
    with os.fdopen(there, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    assert status == 0, "the child was killed"
    return said


def kept(kind, rng, path):
    """A model with a store, or in a folder."""
    graph, X, y = problem(rng)
    options = {"folder": path} if kind == "folder" else {}
    model = CertifiedGPR(rng=rng, **options).fit(graph, X, y, np.arange(40))
    return model if kind == "folder" else model.save(path)


@pytest.mark.parametrize("kind", ["store", "folder"])
@pytest.mark.slow
def test_a_fork_is_no_second_writer(kind, rng, tmp_path):
    model = kept(kind, rng, tmp_path / "m")
    for ask in (lambda: model.remove_nodes([11]), model.renew, lambda: model.add_nodes(np.ones((1, 6)))):
        said = in_a_fork(ask)
        assert said.startswith(f"LedgerError: {tmp_path / 'm'} is open in process {os.getpid()}, of which this is a fork")
    model.remove_nodes([3])
    said = in_a_fork(lambda: CertifiedGPR.load(tmp_path / "m"))
    assert said.startswith("LedgerError")
    assert "has it open" in said
    in_a_fork(model.close)  # leaves it to the parent
    model.remove_nodes([5])
    model.close()
    assert verify(tmp_path / "m").holds
    back = CertifiedGPR.load(tmp_path / "m")
    assert back.remaining.tolist() == [i for i in range(60) if i not in (3, 5)]
    back.close()


def test_a_fork_reads_its_model_in_memory_and_refuses_one_whose_files_change(rng, tmp_path):
    model = kept("store", rng, tmp_path / "s")
    assert in_a_fork(lambda: model.remaining.size) == "60"
    model.close()
    model = kept("folder", rng, tmp_path / "f")
    assert "of which this is a fork" in in_a_fork(model.predict)
    model.close()


@pytest.mark.parametrize("kind", ["store", "folder"])
def test_a_fork_takes_over_when_the_parent_has_closed(kind, rng, tmp_path):
    """The child has what it inherited open, and yet neither waits for it nor lets others wait."""
    model = kept(kind, rng, tmp_path / "m")
    go_on, closed = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm(60)
            os.read(go_on, 1)
            own = (
                Ledger(tmp_path / "m") if kind == "store" else folder.locked(tmp_path / "m")
            )  # compiled loops may not run in a fork
            own.close()
            status = 0
        finally:
            os._exit(status)
    model.close()
    CertifiedGPR.load(tmp_path / "m").close()
    os.write(closed, b"x")
    assert os.waitpid(child, 0)[1] == 0
    os.close(go_on)
    os.close(closed)


def test_a_fork_in_the_middle_of_a_request_neither_waits_nor_uses_half_of_it(rng):
    model, *_ = fitted(rng)
    nodes = Paused([11, 12])
    thread, outcome = started(lambda: model.remove_nodes(nodes))
    assert nodes.reached.wait(60)
    said = in_a_fork(lambda: model.predict([0]))
    assert said == f"{SolverError.__name__}: this process was forked in the middle of a request of another thread: " + (
        "load the store here, or fit again."
    )
    nodes.go_on.set()
    thread.join()
    assert [one.request for one in outcome] == ["remove_nodes"]
    assert in_a_fork(lambda: model.remaining.size) == "58"


def terms(model):
    """The next noise term, drawn but not used: compiled loops may not run in a fork."""
    return model._rng.normal(size=4).tolist()


@pytest.mark.parametrize("seeded", [True, False])
@pytest.mark.parametrize("make", [CertifiedGPR, CGU])
@pytest.mark.slow
def test_no_copy_draws_a_noise_term_again(make, seeded, rng):
    graph, X, y = problem(rng)
    user = np.random.default_rng(7) if seeded else None
    model = make(rng=user).fit(graph, X, y, np.arange(40))
    stored = pickle.dumps(model)
    first = in_a_fork(lambda: [terms(model), in_a_fork(lambda: terms(model))])
    others = [copy.deepcopy(model), copy.copy(model), pickle.loads(stored), pickle.loads(stored)]
    drawn = [first, in_a_fork(lambda: terms(model)), *(str(terms(one)) for one in others), str(terms(model))]
    numbers = [number for text in drawn for number in text.replace("[", "").replace("]", "").replace("'", "").split(", ")]
    assert len(set(numbers)) == len(numbers) == 32
    for one in others[:3]:
        one.renew()
    model.renew()
    assert len({one._head.B.tobytes() for one in (*others[:3], model)}) == 4


def test_only_the_original_keeps_the_generator_of_the_user(rng):
    graph, X, y = problem(rng)
    copied, alone = (CertifiedGPR(rng=np.random.default_rng(7)).fit(graph, X, y, np.arange(40)) for _ in range(2))
    copy.deepcopy(copied).renew()
    in_a_fork(lambda: terms(copied))
    for model in (copied, alone):
        model.renew()
    np.testing.assert_array_equal(copied._head.B, alone._head.B)


def test_a_shallow_copy_changes_no_data_of_the_original(rng):
    model, *_ = fitted(rng)
    copy.copy(model).remove_nodes([3])
    assert model.remaining.size == 60


@pytest.mark.parametrize("kind", ["store", "folder"])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, pickle.dumps])
def test_an_open_store_is_not_copied(duplicate, kind, rng, tmp_path):
    model = kept(kind, rng, tmp_path / "m")
    with pytest.raises(InputError, match=r"is open, and a store has one writer"):
        duplicate(model)
    model.close()


@pytest.mark.parametrize("kind", ["store", "folder"])
def test_a_fork_while_a_request_is_written_neither_waits_nor_disturbs_it(kind, rng, tmp_path, monkeypatch):
    """The child has half of what the journal says in memory, and can neither write it nor go on with it."""
    model = kept(kind, rng, tmp_path / "m")
    inside, go_on, real = threading.Event(), threading.Event(), folder.finish

    def finish(*arguments):
        inside.set()
        assert go_on.wait(60)
        real(*arguments)

    monkeypatch.setattr(folder, "finish", finish)
    thread, outcome = started(lambda: model.remove_nodes([7]))
    assert inside.wait(60)
    said = in_a_fork(lambda: model.remove_nodes([9]))
    assert said.startswith(("SolverError: this process was forked", "LedgerError", "BusyError"))
    in_a_fork(model.close)
    go_on.set()
    thread.join()
    assert [one.request for one in outcome] == ["remove_nodes"]
    model.close()
    assert verify(tmp_path / "m").holds


def test_a_folder_that_took_the_place_of_an_open_one_is_not_written(rng, tmp_path):
    model = kept("folder", rng, tmp_path / "m")
    os.rename(tmp_path / "m", tmp_path / "old")
    other = kept("folder", rng, tmp_path / "m")
    with pytest.raises(LedgerError, match="another folder than the one that was opened"):
        model.remove_nodes([3])
    other.remove_nodes([5])
    model.close()
    other.close()
    assert verify(tmp_path / "m").holds


@pytest.mark.nightly
def test_stores_survive_forks_threads_kills_flips_and_links():
    """Ten minutes of them at random, in a process that has run no compiled loop before it forks."""
    soak = Path(__file__).parents[2] / "benchmarks" / "soak.py"
    done = subprocess.run([sys.executable, str(soak), "--stores", "600"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 violations" in done.stdout
