"""Damaged stores: said in a sentence, with and without the key, and never read as something else."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from nareg.errors import InputError, NaregError
from nareg.unlearning import CertifiedGPR, Ledger, LedgerError, verify
from nareg.unlearning.store import folder, ledger, state
from tests.unlearning.stores import (
    changed_certificate,
    changed_counts,
    changed_request,
    changed_settings,
    changed_state,
    changed_tables,
    emptied,
)  # fmt: skip
from tests.unlearning.test_ledger import fitted

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
        lambda path: np.save(path / "checksums.npy", np.load(path / "checksums.npy")[:, 1:]),
        lambda path: np.save(path / "checksums.npy", np.load(path / "checksums.npy").astype(float)),
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


def test_values_that_are_no_numbers_are_no_store(rng, tmp_path):
    model, *_ = fitted(rng)
    model.save(tmp_path / "store").close()

    def spoiled(rows):
        rows[3, -1] = np.nan

    changed_tables(tmp_path / "store", features=spoiled)
    for act in (CertifiedGPR.load, verify):
        with pytest.raises(LedgerError, match="contain NaN or infinity"):
            act(tmp_path / "store")


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
