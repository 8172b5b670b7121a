"""Folders that a bit flipped in, or that came from somebody who means harm: refused, and nothing outside of them changes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil

import numpy as np
import pytest

from nareg.errors import NaregError
from nareg.unlearning import CertifiedGPR, LedgerError, verify
from nareg.unlearning.store import folder, journal
from nareg.unlearning.store.state import PER_NODE
from tests.unlearning import reference
from tests.unlearning.mapped_models import LITTLE, mapped
from tests.unlearning.requests import problem


def flipped(file, byte, bit):
    content = bytearray(file.read_bytes())
    content[byte] ^= 1 << bit
    file.write_bytes(content)


@pytest.fixture
def kept(rng, tmp_path):
    """A folder, its graph, features and labels."""
    graph, X, y = problem(rng)
    CertifiedGPR(rng=rng, folder=tmp_path / "m", weights=[0.2, 0.3, 0.5]).fit(graph, X, y, np.arange(40)).close()
    return tmp_path / "m", graph.adjacency.toarray(), X, y


def gradient(model, A, X, y):
    Z = reference.embedding(A, X, model.weights)[model.train]
    signs = reference.signs(y[model.train], model.classes)
    return np.linalg.norm(reference.gradient(Z, signs, model.coefficients, model._head.B, model.lam))


@pytest.mark.slow
@pytest.mark.parametrize("memory", [None, LITTLE])
def test_a_flipped_bit_makes_no_false_certificate(memory, kept, rng):
    """In any file, at any place, before loading or while the folder is open: an error, or a certificate that is true."""
    path, A, X, y = kept
    A[18] = A[:, 18] = X[18] = 0
    files = sorted(file.name for file in path.iterdir() if file.suffix in (".npy", ".json"))
    found = 0
    for name in [*files, *files]:
        for open_before in (False, True):
            copy = path.with_name("copy")
            shutil.copytree(path, copy)
            size = (copy / name).stat().st_size
            try:
                model = CertifiedGPR.load(copy, memory=memory) if open_before else None
                flipped(copy / name, int(rng.integers(128 if name.endswith("npy") else 0, size)), int(rng.integers(8)))
                model = CertifiedGPR.load(copy, memory=memory) if model is None else model
                try:
                    certificate = model.remove_nodes([18])
                    assert gradient(model, A, X, y) <= certificate.spent * (1 + 1e-9) + 1e-12, (name, open_before)
                finally:
                    model.close()
            except NaregError:
                found += 1
            shutil.rmtree(copy)
    assert found > len(files)


@pytest.mark.parametrize("name", ["features", "reserve-1", "sum", "neighbors", "checksums", *PER_NODE])
def test_a_scrub_finds_a_flip_anywhere(name, kept, rng):
    path, *_ = kept
    assert verify(path).holds
    size = (path / f"{name}.npy").stat().st_size
    flipped(path / f"{name}.npy", int(rng.integers(128, size)), 3)
    with pytest.raises(LedgerError, match=rf"{name}.*checksum|checksum"):
        verify(path)


def test_a_refused_request_leaves_the_model_as_it_was(kept):
    path, A, X, y = kept
    model = CertifiedGPR.load(path)
    row = 128 + 8 * X.shape[1] * 18
    flipped(path / "features.npy", row, 5)
    with pytest.raises(LedgerError, match=r"features\.npy: rows 0 to 59 are damaged, they do not have their checksum"):
        model.remove_nodes([18])
    flipped(path / "features.npy", row, 5)  # back again
    A[18] = A[:, 18] = X[18] = 0
    assert gradient(model, A, X, y) > model.budget / 100
    certificate = model.remove_nodes([18])
    assert gradient(model, A, X, y) <= certificate.spent * (1 + 1e-9) + 1e-12
    model.close()


def forged(path, parts, rows=b"", **changes):
    """A journal with the right hash."""
    state = json.loads((path / "state.json").read_bytes())
    state = {name: state[name] for name in ("embedding", "settings", "counts", "certificate")}
    header = {"state": state, "up_to_date": False, "parts": parts} | changes
    body = journal.FORMAT + json.dumps(header).encode() + b"\n" + rows
    (path / "journal").write_bytes(body + hashlib.sha256(body).digest())


def runs(*numbers):
    return np.array(numbers, np.int64).tobytes()


@pytest.mark.parametrize(("parts", "rows", "changes"), [
    ([["peaks", 8, 1]], runs(-4, 1) + bytes(8), {}), ([["peaks", 8, 1]], runs(60, 1) + bytes(8), {}),
    ([["peaks", 8, 1]], runs(2**62, 2**62), {}), ([["peaks", 8, 1]], runs(3, -1), {}), ([["peaks", 8, 1]], runs(3, 2**40), {}),
    ([["peaks", 8, 2]], runs(3, 3, 1, 1) + bytes(16), {}), ([["peaks", 32, 1]], runs(3, 1) + bytes(32), {}),
    ([["peaks", 8, -1]], b"", {}), ([["peaks", 8, 10**9]], runs(3, 1), {}), ([["../victim", 8, 1]], runs(3, 1) + bytes(8), {}),
    ([["peaks", 8, 1]], runs(3, 1) + bytes(9), {}), ([["peaks", 8, 1]] * 2, (runs(3, 1) + bytes(8)) * 2, {}),
    ([], b"", {"state": {}}), ([], b"", {"state": []}), ([], b"", {"up_to_date": 1}), ("peaks", b"", {}),
    ([[[], 8, 1]], b"", {}),
])  # fmt: skip
def test_a_forged_journal_is_refused_before_any_of_it_is_carried_out(parts, rows, changes, kept):
    path, *_ = kept
    forged(path, parts, rows, **changes)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    with pytest.raises(LedgerError, match="is not a journal of this store, and was not carried out"):
        CertifiedGPR.load(path)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    (path / "journal").unlink()
    CertifiedGPR.load(path).close()


@pytest.mark.parametrize("name", ["peaks.npy", "state.json", "journal", "stale", "lock", "checksums.npy", "other"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "second name", "pipe"])
def test_what_leads_out_of_a_folder_is_refused(name, kind, kept, tmp_path):
    path, *_ = kept
    victim = tmp_path / "victim"
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
    with pytest.raises(NaregError, match=f"{name} is (a link|no plain file|one of several names)|{name} is damaged"):
        CertifiedGPR.load(path)
    assert victim.read_bytes() == content
    assert not (tmp_path / "new").exists()


def test_a_link_that_is_planted_while_the_folder_is_open_is_not_followed(kept, tmp_path):
    path, *_ = kept
    victim = tmp_path / "victim"
    victim.write_bytes(b"x" * 400)
    model = CertifiedGPR.load(path)
    for name in ("journal", ".state.json"):
        (path / name).symlink_to(victim)
    os.replace(path / "state.json", path / "old")
    (path / "state.json").symlink_to(victim)
    model.remove_nodes([3])
    model.close()
    assert victim.read_bytes() == b"x" * 400
    for name in ("old", ".state.json"):
        (path / name).unlink()
    back = CertifiedGPR.load(path)
    assert back.remaining.size == 59
    back.close()


def test_a_whole_journal_of_the_folder_is_carried_out(rng, tmp_path, monkeypatch):
    model = mapped(rng, tmp_path / "m")

    def fail(*_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(folder, "finish", fail)
        with pytest.raises(LedgerError, match="in the journal"):
            model.add_nodes(np.ones((9, 6)), labels=[0] * 9)
    model.close()
    back = CertifiedGPR.load(tmp_path / "m")
    assert back.remaining.size == 69
    back.close()
    assert verify(tmp_path / "m").holds
