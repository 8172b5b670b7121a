"""The ledger of a model that unlearns: remaining data, model, and every request with its certificate, in one SQLite file.

A request is one transaction, on disk before the call returns: removed data are overwritten in place, and the new model is
written with the certificate. A row never changes its size, so that SQLite writes it in place; the journal, which has the old
rows, is truncated. So no copy stays in the file. The request itself is stored as a keyed hash, chained to the one before: the
holder of the key (a file beside the store) can show what it was. Without the key, the noise term and the coefficients still
let a reader of the store check guesses, until the model is renewed.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

import numpy as np

from nareg._core import checks
from nareg._core.process import StateLock, process
from nareg._storage.files import DRAFT
from nareg._storage.folders import is_folder
from nareg.errors import InputError, LedgerError, brief
from nareg.unlearning._locking import OneWriter
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.store import edge_table
from nareg.unlearning.store.entries import (
    Entry,
    Recorded,
    RequestDetails,
    Stored,
    StoredSettings,
    in_order,
    keyed_hash,
    model_hash,
)
from nareg.unlearning.store.files import KEY, drop_drafts, is_file, link, paths, read_key, refuse_foreign_journal, refuse_taken
from nareg.unlearning.store.folder import STATE
from nareg.unlearning.store.tables import CHUNK, FORMAT, fill, put, row_type, settings_of, sign, sums_of
from nareg.unlearning.store.validation import certificate_of, damage, damaged


class Ledger(OneWriter):
    """An open store, locked against other processes.

    Parameters
    ----------
    path : path
        File that :meth:`CertifiedGPR.save` wrote.
    key : path, optional
        File with the key of the hashes; by default ``path.key``. Without it everything can be read, but hashes are not checked
        and nothing can be recorded.

    Raises
    ------
    InputError
        If the file does not exist.
    LedgerError
        If it is not a store, is damaged, or another process has it open.

    Examples
    --------
    >>> import nareg, numpy as np, tempfile
    >>> from nareg.unlearning import CertifiedGPR, Ledger
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> model = CertifiedGPR().fit(data.graph, data.features, data.labels, np.arange(200))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/service.store").remove_nodes([5, 7]).count
    ...     model.close()
    ...     ledger = Ledger(f"{folder}/service.store")
    ...     [certificate.request for _, certificate in ledger.history()]
    ...     ledger.find({"request": "remove_nodes", "nodes": [7, 5]})
    ...     ledger.close()
    2
    ['fit', 'remove_nodes']
    [1]
    """

    _only = "a store has one writer: close() the model, then copy it, or load the store"

    def __init__(self, path: str | os.PathLike[str], key: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self._lock = StateLock()
        path, self._key_path = paths(path, key)
        self.path = path
        if is_folder(path) and is_file(path / STATE):
            raise InputError(f"{path} is the folder of a model, which keeps no history of requests: pass a file of save().")
        if not is_file(path):
            raise InputError(f"{path} is not a nareg store: pass a file written by save().")
        self._key = read_key(self._key_path, required=key is not None)
        drop_drafts(path)
        _close_inherited(path)
        refuse_foreign_journal(path)
        # from any thread, one at a time: a model has one request at a time
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
        try:
            self._settings = self._opened()
        except BaseException:
            self._connection.close()
            raise
        _open.add(self)

    def _opened(self) -> StoredSettings:
        """Lock the file until it is closed, and return the settings. Another database stays as it is."""
        run = self._connection.execute
        with self._sqlite_errors(), damage(self.path):
            run("PRAGMA locking_mode=EXCLUSIVE")
            run("BEGIN IMMEDIATE")
            has_meta = run("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'meta'").fetchone()[0]
            meta = dict(run("SELECT name, value FROM meta")) if has_meta else {}
            run("COMMIT")
            if meta.get("format") != FORMAT:
                raise LedgerError(f"{self.path} has the format {meta.get('format')!r}, {FORMAT!r} is expected: save again.")
            # freed pages are overwritten, and the journal, which has the old ones, is truncated
            if run("SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index')").fetchone()[0]:
                raise damaged(self.path, "has triggers or views, which a store has not")
            for pragma in ("secure_delete=ON", "journal_mode=TRUNCATE", "synchronous=EXTRA"):
                run(f"PRAGMA {pragma}")
            settings: StoredSettings = json.loads(meta["settings"])
        return settings

    @property
    def has_key(self) -> bool:
        """Whether hashes can be checked, and requests recorded."""
        return self._key is not None

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        settings: StoredSettings,
        entry: Entry,
        key: str | os.PathLike[str] | None = None,
    ) -> Ledger:
        """Write a new store, completely or not at all, and its key to a file of its own.

        Raises
        ------
        InputError
            If the store or the key exists.
        LedgerError
            If the store cannot be written.
        """
        path, key_path = refuse_taken(path, key)
        draft, secret = path.with_name(f".{path.name}.{secrets.token_hex(4)}.{DRAFT}"), secrets.token_bytes(KEY)
        key_written = stored = False
        try:
            with open(os.open(key_path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as handle:
                key_written = True
                handle.write(secret.hex() + "\n")
                handle.flush()
                os.fsync(handle.fileno())
            drop_drafts(path)  # only now: the key's file keeps other processes out
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            fill(draft, settings, entry, secret)
            link(draft, path)
            stored = True
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except BaseException as error:
            with suppress(OSError):  # without the folder there is no draft either
                draft.unlink(missing_ok=True)
            if key_written and not stored:
                key_path.unlink(missing_ok=True)
            if isinstance(error, FileExistsError):
                raise InputError(f"{error.filename} was created by another process: pass another path.") from None
            if isinstance(error, (OSError, sqlite3.Error)) and not stored:
                raise LedgerError(f"{path} cannot be written ({brief(error)}): no store was created.") from None
            raise
        return cls(path, key)

    def record(self, entry: Entry) -> None:
        """Write a request durably.

        Raises
        ------
        LedgerError
            If it cannot be written; the store is as it was.
        """
        if self._key is None:
            raise LedgerError(
                f"{self._key_path}, the key of {self.path}, cannot be read: without it no request can be recorded; pass key=."
            )
        with self._sqlite_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                put(self._connection, entry)
                sign(self._connection, self._key, entry)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def read(self) -> Stored:
        """The content of the store.

        Raises
        ------
        LedgerError
            If the store is damaged.
        """
        with damage(self.path):
            return self._read()

    def _read(self) -> Stored:
        with self._sqlite_errors():
            run = self._connection.execute
            coefficients, term = run("SELECT coefficients, term FROM model").fetchone()
            edges, nodes = edge_table.read(self._connection), self._nodes()
        if nodes is None:
            raise damaged(self.path, "is damaged, nodes or requests are missing")
        if len(edges) and edges.max() >= len(nodes):
            raise damaged(self.path, "is damaged, edges name nodes that are missing")
        last = self._chain()[-1]
        if self._key is not None and last.parameters != model_hash(self._key, coefficients, term):
            raise damaged(self.path, "is damaged, the model is not the one of the last certificate")
        certificate, features = certificate_of(last.certificate), np.ascontiguousarray(nodes["features"], dtype=float)
        W, B = (np.frombuffer(part, dtype="<f8").reshape(features.shape[1], -1).astype(float) for part in (coefficients, term))
        if not all(np.isfinite(array).all() for array in (features, W, B)):
            raise damaged(self.path, "is damaged, features or the model contain NaN or infinity")
        return Stored(
            source=str(self.path),
            settings=self._settings,
            features=features,
            labels=nodes["label"].astype(np.int64),
            trained=nodes["trained"] != 0,
            gone=nodes["gone"] != 0,
            edges=edges,
            coefficients=W,
            term=B,
            certificate=certificate,
        )

    def _chain(self) -> list[Recorded]:
        """All requests; with the key their hashes are checked."""
        with self._sqlite_errors():
            query = "SELECT number, asked, certificate, parameters, digest FROM requests ORDER BY number"
            numbers, requests = [], []
            for number, *columns in self._connection.execute(query):
                numbers.append(number)
                requests.append(Recorded(*columns))
        if not requests or numbers != list(range(len(requests))):
            raise damaged(self.path, "is damaged, nodes or requests are missing")
        with self._sqlite_errors():
            before = settings_of(self._connection)
        for recorded in requests:
            parts = before, recorded.asked, recorded.certificate, recorded.parameters
            expected = None if self._key is None else keyed_hash(self._key, *parts)
            if expected is not None and not hmac.compare_digest(recorded.digest, expected):
                raise LedgerError(
                    f"{self.path}: its hashes do not follow from one another with the key in {self._key_path}: pass the key of "
                    "this store; if it is the right one, a request, a certificate or the settings were changed."
                )
            before = recorded.digest
        return requests

    def _nodes(self) -> np.ndarray | None:
        """Rows of the nodes; None if some are missing or differ in size."""
        run = self._connection.execute
        count, last, size, largest = run("SELECT count(*), max(node), min(length(row)), max(length(row)) FROM nodes").fetchone()
        if not count or count != last + 1 or size != largest or size <= row_type(0).itemsize or size % 8:
            return None
        nodes = np.empty(count, dtype=row_type((size - row_type(0).itemsize) // 8))
        rows = run("SELECT row FROM nodes ORDER BY node")
        for first in range(0, count, CHUNK):
            nodes[first : first + CHUNK] = np.frombuffer(b"".join(row for (row,) in rows.fetchmany(CHUNK)), dtype=nodes.dtype)
        wrong = np.flatnonzero(sums_of(nodes) != nodes["sum"])
        if wrong.size:
            raise damaged(self.path, f"is damaged, the row of node {wrong[0]} does not have its checksum")
        return nodes

    def history(self) -> list[tuple[str, Certificate | None]]:
        """Keyed hash and certificate of every request, in order; the first is the training.

        Raises
        ------
        LedgerError
            If the hashes do not follow from one another, which is checked with the key.
        """
        with damage(self.path):
            return [(recorded.digest, certificate_of(recorded.certificate)) for recorded in self._chain()]

    def proves(self, number: int, request: RequestDetails) -> bool:
        """Whether the request with this number in the history was exactly this one.

        Parameters
        ----------
        number : int
            0 is the training or the saving of the store.
        request : dict
            Everything that was removed together, in any order and direction:
            ``{"request": "remove_edges", "edges": [(3, 5)]}``, ``{"request": "remove_nodes", "nodes": [17, 30]}``,
            ``{"request": "remove_features", "nodes": [3], "labels": False}``, or "add_edges".

        Raises
        ------
        InputError
            If there is no such number, or ``request`` is malformed.
        LedgerError
            Without the key, or if the hashes do not follow from one another.
        """
        numbers = self.find(request)
        with damage(self.path):
            count = len(self._chain())
        if checks.integer("number", number, low=0) >= count:
            raise InputError(f"number is {number}, but the store has requests 0 to {count - 1}: pass one of these.")
        return number in numbers

    def find(self, request: RequestDetails) -> list[int]:
        """Numbers of the requests that were exactly this one; ``request`` as in :meth:`proves`.

        Raises
        ------
        InputError
            If ``request`` is malformed.
        LedgerError
            Without the key, or if the hashes do not follow from one another.
        """
        if self._key is None:
            raise LedgerError(
                f"{self._key_path}, the key of {self.path}, cannot be read: without it nothing can be proved; pass key=."
            )
        asked = keyed_hash(self._key, in_order(request))
        with damage(self.path):
            return [number for number, recorded in enumerate(self._chain()) if hmac.compare_digest(recorded.asked, asked)]

    def close(self) -> None:
        """Close the store, so that others can open it; in a forked process, leave it to the one that has it open."""
        with self._lock.mutex, suppress(sqlite3.Error):  # deletes the empty journal, which may be the other process's
            if self._process == process():
                self._connection.execute("PRAGMA journal_mode=DELETE")
        self._connection.close()

    @contextmanager
    def _sqlite_errors(self) -> Iterator[None]:
        """Errors of SQLite as a LedgerError. Nothing of it runs in a fork, and no fork happens meanwhile."""
        self.refuse_elsewhere()
        try:
            with self._lock.mutex:
                yield
        except sqlite3.Error as error:
            why = "another process has it open" if "locked" in str(error) else str(error)
            raise LedgerError(f"{self.path}: {why}. Nothing was changed.") from None


#: Stores that this process has open, or that it inherited open.
_open: WeakSet[Ledger] = WeakSet()
#: Locks that a thread holds while it forks.
_forking: list[StateLock] = []
_forks = StateLock()


def _close_inherited(path: Path) -> None:
    """Close connections from before a fork: for SQLite they would still hold the locks of the other process."""
    for ledger in list(_open):
        if ledger._process != process() and path.exists() and ledger.path.exists() and ledger.path.samefile(path):
            ledger._connection.close()


def _before_fork() -> None:
    """Wait until no store is being read or written: a fork would inherit half of that."""
    _forks.mutex.acquire()
    for ledger in list(_open):
        ledger._lock.mutex.acquire()
        _forking.append(ledger._lock)


def _after_fork() -> None:
    while _forking:
        _forking.pop().mutex.release()
    _forks.mutex.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork, after_in_parent=_after_fork)
