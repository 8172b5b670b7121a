"""The store of a service that forgets: what remains, the model, and every request with its certificate, in one SQLite file.

A request is one transaction, on the disk before the call returns: what it removes is overwritten where it stands, and the new
model written with the certificate. Every row that ever changes has one size for good, so that SQLite writes it in place, and
the journal, which has what was before, is cut to nothing: no copy is left in the file. Of the request itself a keyed hash is
kept, chained to the one before: who holds the key (the file beside the store) can show what was asked; who does not cannot
tell what was removed.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
import re
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nareg import _checks
from nareg.errors import InputError, NaregError
from nareg.unlearning import _blocks
from nareg.unlearning.certificate import Certificate

FORMAT = "nareg-unlearning-2"
#: Bytes of a key.
KEY = 32
_TABLES = """
PRAGMA secure_delete=ON;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE nodes (node INTEGER PRIMARY KEY, row BLOB NOT NULL);
CREATE TABLE model (one INTEGER PRIMARY KEY CHECK (one = 1), coefficients BLOB NOT NULL, term BLOB NOT NULL);
CREATE TABLE requests (
    number INTEGER PRIMARY KEY, asked TEXT NOT NULL, certificate TEXT NOT NULL, parameters TEXT NOT NULL, digest TEXT NOT NULL
);
"""
#: Requests that can be shown to have been made by their hash.
SHOWN = ("remove_edges", "remove_nodes", "remove_features", "add_edges")
#: Rows that are written and read at a time.
CHUNK = 4096


class LedgerError(NaregError, RuntimeError):
    """The store cannot be read or written; what it holds is as it was."""


@dataclass(frozen=True, eq=False)
class Stored:
    """All that a store holds of the data, and the model.

    Attributes
    ----------
    settings : dict
        Arguments of the model, and its classes.
    features : (N, F) array
    labels : (N,) array
    trained, gone : (N,) boolean arrays
    edges : (E, 2) array
    coefficients, term : (F, C) arrays
    certificate : Certificate or None
        Of the last request.
    """

    settings: dict[str, Any]
    features: np.ndarray
    labels: np.ndarray
    trained: np.ndarray
    gone: np.ndarray
    edges: np.ndarray
    coefficients: np.ndarray
    term: np.ndarray
    certificate: Certificate | None


@dataclass(frozen=True)
class _Recorded:
    """Keyed hash of a request, its certificate as JSON, hash of the parameters, and the chained hash of all that."""

    asked: str
    certificate: str
    parameters: str
    digest: str


@dataclass(frozen=True, eq=False)
class Entry:
    """What a request changes.

    Attributes
    ----------
    told : dict
        The request, of which the hash is kept.
    removed, added : (E, 2) arrays
    nodes : (K,) array
        Whose features, label or standing changed.
    features, labels, trained, gone : arrays
        Of these nodes, afterwards.
    coefficients, term : (F, C) arrays
    certificate : Certificate or None
    """

    told: dict[str, Any]
    removed: np.ndarray
    added: np.ndarray
    nodes: np.ndarray
    features: np.ndarray
    labels: np.ndarray
    trained: np.ndarray
    gone: np.ndarray
    coefficients: np.ndarray
    term: np.ndarray
    certificate: Certificate | None


class Ledger:
    """An open store, which nobody else can open meanwhile.

    Parameters
    ----------
    path : path
    key : path, optional
        The file with the key of its hashes; by default ``path.key``. Without it everything can be read, hashes are not checked
        and nothing can be recorded.
    """

    def __init__(self, path: str | os.PathLike[str], key: str | os.PathLike[str] | None = None) -> None:
        path, self._key_path = _paths(path, key)
        self.path = path
        if not path.is_file():
            raise InputError(f"{path} is no store: name one that save() wrote.")
        if key is not None and not self._key_path.is_file():
            raise InputError(f"key is {key}, which is no file.")
        _drop_drafts(path)
        self._key = _read_key(self._key_path) if self._key_path.is_file() else None
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=0)
        try:
            self._settings = self._opened()
        except NaregError:
            self._connection.close()
            raise

    def _opened(self) -> dict[str, Any]:
        """Lock it for as long as it is open; the settings. Another database than ours is not touched."""
        run = self._connection.execute
        with self._spoken():
            run("PRAGMA locking_mode=EXCLUSIVE")
            run("BEGIN IMMEDIATE")
            has_meta = run("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'meta'").fetchone()[0]
            meta = dict(run("SELECT name, value FROM meta")) if has_meta else {}
            run("COMMIT")
            if meta.get("format") != FORMAT:
                raise LedgerError(f"{self.path} has the format {meta.get('format')!r}, {FORMAT!r} is expected.")
            # freed pages are overwritten, and the journal, which has the old ones, is cut to nothing
            for pragma in ("secure_delete=ON", "journal_mode=TRUNCATE", "synchronous=EXTRA"):
                run(f"PRAGMA {pragma}")
        settings: dict[str, Any] = json.loads(meta["settings"])
        return settings

    @property
    def has_key(self) -> bool:
        """Whether hashes can be checked, and requests recorded."""
        return self._key is not None

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        settings: dict[str, Any],
        entry: Entry,
        key: str | os.PathLike[str] | None = None,
    ) -> Ledger:
        """A new store, whole or not at all, and its key in a file of its own.

        Raises
        ------
        InputError
            If there is one already.
        LedgerError
        """
        path, key_path = refuse_taken(path, key)
        draft, secret = path.with_name(f".{path.name}.{secrets.token_hex(4)}"), secrets.token_bytes(KEY)
        made_key = made = False
        try:
            with open(os.open(key_path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as handle:
                made_key = True
                handle.write(secret.hex() + "\n")
                handle.flush()
                os.fsync(handle.fileno())
            _drop_drafts(path)  # not before: whoever has the key's file is at work here
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            _fill(draft, settings, entry, secret)
            _link(draft, path)
            made = True
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except BaseException as error:
            draft.unlink(missing_ok=True)
            if made_key and not made:
                key_path.unlink(missing_ok=True)
            if isinstance(error, FileExistsError):
                raise InputError(f"{error.filename} was made meanwhile by somebody else: name another file.") from None
            if isinstance(error, (OSError, sqlite3.Error)) and not made:
                raise LedgerError(f"{path} cannot be written ({error}): no store was made.") from None
            raise
        return cls(path, key)

    def record(self, entry: Entry) -> None:
        """Write a request, durably.

        Raises
        ------
        LedgerError
            If that cannot be done; the store is as it was.
        """
        if self._key is None:
            raise LedgerError(f"{self._key_path}, the key of {self.path}, is not there: nothing can be recorded without.")
        with self._spoken():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                _put(self._connection, entry)
                _sign(self._connection, self._key, entry)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def read(self) -> Stored:
        """Everything.

        Raises
        ------
        LedgerError
            If it is damaged.
        """
        with self._spoken():
            run = self._connection.execute
            coefficients, term = run("SELECT coefficients, term FROM model").fetchone()
            edges, nodes = _blocks.read(self._connection), self._nodes()
        if nodes is None:
            raise LedgerError(f"{self.path}: nodes or requests are missing; restore it from a copy.")
        if len(edges) and edges.max() >= len(nodes):
            raise LedgerError(f"{self.path}: its edges name nodes that are missing; restore it from a copy.")
        last = self._chain()[-1]
        if last.parameters != hashlib.sha256(coefficients + term).hexdigest():
            raise LedgerError(f"{self.path}: the model is not the one that its last certificate was issued for.")
        certificate, features = json.loads(last.certificate), np.ascontiguousarray(nodes["features"], dtype=float)
        W, B = (np.frombuffer(held, dtype="<f8").reshape(features.shape[1], -1).astype(float) for held in (coefficients, term))
        if not all(np.isfinite(held).all() for held in (features, W, B)):
            raise LedgerError(f"{self.path}: features or the model hold values that are no numbers; restore it from a copy.")
        return Stored(
            settings=self._settings,
            features=features,
            labels=nodes["label"].astype(np.int64),
            trained=nodes["trained"] != 0,
            gone=nodes["gone"] != 0,
            edges=edges,
            coefficients=W,
            term=B,
            certificate=None if certificate is None else Certificate(**certificate),
        )

    def _chain(self) -> list[_Recorded]:
        """All requests; with the key, that their hashes follow from one another."""
        with self._spoken():
            query = "SELECT number, asked, certificate, parameters, digest FROM requests ORDER BY number"
            numbers, requests = [], []
            for number, *columns in self._connection.execute(query):
                numbers.append(number)
                requests.append(_Recorded(*columns))
        if not requests or numbers != list(range(len(requests))):
            raise LedgerError(f"{self.path}: nodes or requests are missing; restore it from a copy.")
        before = ""
        for one in requests:
            wanted = None if self._key is None else _hash(self._key, before, one.asked, one.certificate, one.parameters)
            if wanted is not None and not hmac.compare_digest(one.digest, wanted):
                raise LedgerError(
                    f"{self.path}: its hashes do not follow from one another with the key in {self._key_path}: another store's "
                    "key, or a request or certificate was changed."
                )
            before = one.digest
        return requests

    def _nodes(self) -> np.ndarray | None:
        """Their rows; none if there are not as many as there should be, or they differ in size."""
        run = self._connection.execute
        count, last, size, largest = run("SELECT count(*), max(node), min(length(row)), max(length(row)) FROM nodes").fetchone()
        if not count or count != last + 1 or size != largest or size <= _row(0).itemsize or size % 8:
            return None
        found = np.empty(count, dtype=_row((size - _row(0).itemsize) // 8))
        rows = run("SELECT row FROM nodes ORDER BY node")
        for first in range(0, count, CHUNK):
            found[first : first + CHUNK] = np.frombuffer(b"".join(row for (row,) in rows.fetchmany(CHUNK)), dtype=found.dtype)
        return found

    def history(self) -> list[tuple[str, Certificate | None]]:
        """Keyed hash and certificate of every request, the training first.

        Raises
        ------
        LedgerError
            If hashes do not follow from one another (which is seen with the key).
        """
        held = [(one.digest, json.loads(one.certificate)) for one in self._chain()]
        return [(digest, None if certificate is None else Certificate(**certificate)) for digest, certificate in held]

    def proves(self, number: int, told: dict[str, Any]) -> bool:
        """Whether a request, by its number in the history, was this one, whole.

        Parameters
        ----------
        number : int
            0 is the training or saving of the store.
        told : dict
            ``{"request": "remove_edges", "edges": [(3, 5)]}``, ``{"request": "remove_nodes", "nodes": [17, 30]}``,
            ``{"request": "remove_features", "nodes": [3], "labels": False}``, or "add_edges"; in whichever order and direction.

        Raises
        ------
        InputError
            If there are not so many requests; for what cannot be one.
        LedgerError
            Without the key; if hashes do not follow from one another.
        """
        found, count = self.find(told), len(self._chain())
        if _checks.integer("number", number, low=0) >= count:
            raise InputError(f"number is {number}, but there are requests 0 to {count - 1}.")
        return number in found

    def find(self, told: dict[str, Any]) -> list[int]:
        """Numbers of the requests that were this one, whole; ``told`` as in :meth:`proves`.

        Raises
        ------
        InputError
            For what cannot be a request.
        LedgerError
            Without the key; if hashes do not follow from one another.
        """
        if self._key is None:
            raise LedgerError(f"{self._key_path}, the key of {self.path}, is not there: nothing can be shown without.")
        asked = _hash(self._key, _in_order(told))
        return [number for number, one in enumerate(self._chain()) if hmac.compare_digest(one.asked, asked)]

    def close(self) -> None:
        """Let others open it."""
        with suppress(sqlite3.Error):  # the empty journal goes, too
            self._connection.execute("PRAGMA journal_mode=DELETE")
        self._connection.close()

    @contextmanager
    def _spoken(self) -> Iterator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except sqlite3.Error as error:
            why = "another process has it open" if "locked" in str(error) else str(error)
            raise LedgerError(f"{self.path}: {why}. Nothing was changed.") from None


def _row(n_features: int) -> np.dtype[np.void]:
    """Of a node."""
    return np.dtype([("label", "<i8"), ("trained", "<i4"), ("gone", "<i4"), ("features", "<f8", (n_features,))])


def _model(entry: Entry) -> tuple[bytes, bytes]:
    return entry.coefficients.astype("<f8").tobytes(), entry.term.astype("<f8").tobytes()


def _put(connection: sqlite3.Connection, entry: Entry) -> None:
    """What a request changes, in the transaction at hand."""
    _blocks.change(connection, entry.removed, entry.added)
    (count,) = connection.execute("SELECT max(node) + 1 FROM nodes").fetchone()
    new = bool(entry.nodes.size) and int(entry.nodes[0]) >= count
    statement = "INSERT INTO nodes (row, node) VALUES (?, ?)" if new else "UPDATE nodes SET row = ? WHERE node = ?"
    _put_nodes(connection, statement, entry)
    connection.execute("UPDATE model SET coefficients = ?, term = ?", _model(entry))


def _put_nodes(connection: sqlite3.Connection, statement: str, entry: Entry) -> None:
    for first in range(0, entry.nodes.size, CHUNK):
        part = slice(first, first + CHUNK)
        rows = np.empty(entry.nodes[part].size, dtype=_row(entry.features.shape[1]))
        rows["label"], rows["trained"], rows["gone"] = entry.labels[part], entry.trained[part], entry.gone[part]
        rows["features"] = entry.features[part]
        connection.executemany(
            statement, ((row.tobytes(), node) for row, node in zip(rows, entry.nodes[part].tolist(), strict=True))
        )


def _sign(connection: sqlite3.Connection, key: bytes, entry: Entry) -> None:
    """The request, chained to the one before."""
    last = connection.execute("SELECT number, digest FROM requests ORDER BY number DESC LIMIT 1").fetchone()
    number, before = (0, "") if last is None else (last[0] + 1, last[1])
    certificate = json.dumps(None if entry.certificate is None else asdict(entry.certificate))
    parameters = hashlib.sha256(b"".join(_model(entry))).hexdigest()
    asked = _hash(key, entry.told)
    digest = _hash(key, before, asked, certificate, parameters)
    connection.execute("INSERT INTO requests VALUES (?, ?, ?, ?, ?)", (number, asked, certificate, parameters, digest))


def _in_order(told: dict[str, Any]) -> dict[str, Any]:
    """A request as it was hashed: edges with their smaller end first, edges and nodes in rising order."""
    name = told.get("request")
    named = "edges" if name in ("remove_edges", "add_edges") else "nodes"
    expected = {"request", named} | ({"labels"} if name == "remove_features" else set())
    if name not in SHOWN or named not in told or not set(told) <= expected:
        raise InputError(
            f"told is {told!r}: {', '.join(SHOWN)} can be shown, as {{'request': 'remove_edges', 'edges': [(3, 5)]}} or "
            "{'request': 'remove_features', 'nodes': [3], 'labels': False}."
        )
    numbers, labels = _checks.array_of("told", told[named]), told.get("labels", False)
    if numbers.dtype.kind not in "iu" or (named == "edges" and (numbers.ndim != 2 or numbers.shape[1] != 2)):
        what = "pairs of integers (u, v)" if named == "edges" else "integers"
        raise InputError(f"told has {named} of shape {numbers.shape} and dtype {numbers.dtype}: {what} are expected.")
    if not isinstance(labels, (bool, np.bool_)):
        raise InputError(f"told has labels {labels!r}: True or False is expected.")
    ordered = np.unique(np.sort(numbers, axis=1), axis=0) if named == "edges" else np.unique(numbers)
    found = {"request": name, named: ordered.tolist()}
    return found | {"labels": bool(labels)} if name == "remove_features" else found


def _hash(key: bytes, *parts: Any) -> str:
    """Keyed."""
    return hmac.new(key, json.dumps(parts, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def _read_key(path: Path) -> bytes:
    try:
        key = bytes.fromhex(path.read_text().strip())
    except ValueError:
        key = b""
    if len(key) != KEY:
        raise LedgerError(f"{path} is no key: put the one back that save() wrote.")
    return key


def _fill(draft: Path, settings: dict[str, Any], entry: Entry, secret: bytes) -> None:
    """Make a store of an empty file."""
    made = sqlite3.connect(draft, isolation_level=None)
    try:
        made.executescript(_TABLES + _blocks.TABLE)
        made.execute("BEGIN")
        made.executemany("INSERT INTO meta VALUES (?, ?)", [("format", FORMAT), ("settings", json.dumps(settings))])
        made.execute("INSERT INTO model VALUES (1, ?, ?)", _model(entry))
        _blocks.fill(made, entry.added)
        _put_nodes(made, "INSERT INTO nodes (row, node) VALUES (?, ?)", entry)
        _sign(made, secret, entry)
        made.execute("COMMIT")
    finally:
        made.close()


def _link(draft: Path, path: Path) -> None:
    """Give a file its name, unless something else has it; where a file can have one name only, unless it had just before."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, "exists", str(path)) from None
    except OSError:
        if path.exists():
            raise FileExistsError(errno.EEXIST, "exists", str(path)) from None
        os.replace(draft, path)
    else:
        draft.unlink()


def _drop_drafts(path: Path) -> None:
    """What a save that was killed has left."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}(-journal)?")
    if path.parent.is_dir():
        for left in path.parent.iterdir():
            if ours.fullmatch(left.name):
                left.unlink(missing_ok=True)


def key_file(path: Path) -> Path:
    """Where the key of a store is, if nothing else is said."""
    return path.with_name(path.name + ".key")


def _paths(path: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    """Of a store and of its key."""
    store = Path(path)
    return store, key_file(store) if key is None else Path(key)


def refuse_taken(path: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    """Where a new store and its key will be.

    Raises
    ------
    InputError
        If there is something already, or both are one.
    """
    store, key_path = _paths(path, key)
    if store.exists():
        raise InputError(f"{store} exists: load it, or name another file.")
    if key_path.exists():
        raise InputError(f"key is {key_path}, which exists and may be another store's: name another file, or delete it.")
    if key_path.resolve() == store.resolve():
        raise InputError(f"key is {key_path}, the store itself: name another file, best on another disk.")
    return store, key_path
