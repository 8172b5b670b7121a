"""The store of a service that forgets: what remains, the model, and every request with its certificate, in one SQLite file.

A request is one transaction, on the disk before the call returns: what it removes is overwritten where it stands, and the new
model written with the certificate. Every row that ever changes has one size for good, so that SQLite writes it in place, and
the journal, which has what was before, is cut to nothing: no copy is left in the file. Of the request itself a keyed hash is
kept, chained to the one before: who holds the key (the file beside the store) can show what was asked. Who does not has the
random term and the coefficients to check guesses by, as training leaves them, until the model is renewed.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from nareg import _checks
from nareg._files import DRAFT
from nareg.errors import UNREADABLE, InputError, NaregError
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.store import edge_table
from nareg.unlearning.store.entries import Entry, LedgerError, Recorded, Stored
from nareg.unlearning.store.files import KEY, drop_drafts, is_file, link, paths, read_key, refuse_taken
from nareg.unlearning.store.hashes import in_order, keyed_hash, model_hash
from nareg.unlearning.store.tables import CHUNK, FORMAT, fill, put, row_type, settings_of, sign
from nareg.unlearning.store.validation import certificate_of


class Ledger:
    """An open store, which nobody else can open meanwhile.

    Parameters
    ----------
    path : path
    key : path, optional
        The file with the key of its hashes; by default ``path.key``. Without it everything can be read, hashes are not checked
        and nothing can be recorded.

    Raises
    ------
    InputError
        If there is no such file.
    LedgerError
        If it is no store, is damaged, or somebody has it open.

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

    def __init__(self, path: str | os.PathLike[str], key: str | os.PathLike[str] | None = None) -> None:
        path, self._key_path = paths(path, key)
        self.path = path
        if not is_file(path):
            raise InputError(f"{path} is no store: name one that save() wrote.")
        self._key = read_key(self._key_path, told=key is not None)
        drop_drafts(path)
        # from any thread, but by one at a time: a model's requests take turns
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
        try:
            self._settings = self._opened()
        except BaseException:
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
        with self._whole():
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
        draft, secret = path.with_name(f".{path.name}.{secrets.token_hex(4)}.{DRAFT}"), secrets.token_bytes(KEY)
        made_key = made = False
        try:
            with open(os.open(key_path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as handle:
                made_key = True
                handle.write(secret.hex() + "\n")
                handle.flush()
                os.fsync(handle.fileno())
            drop_drafts(path)  # not before: whoever has the key's file is at work here
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            fill(draft, settings, entry, secret)
            link(draft, path)
            made = True
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except BaseException as error:
            with suppress(OSError):  # a folder that is none has no draft either
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
            raise LedgerError(
                f"{self._key_path}, the key of {self.path}, is not there or not to be read: nothing can be recorded without."
            )
        with self._spoken():
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
        """Everything.

        Raises
        ------
        LedgerError
            If it is damaged.
        """
        with self._whole():
            return self._read()

    def _read(self) -> Stored:
        with self._spoken():
            run = self._connection.execute
            coefficients, term = run("SELECT coefficients, term FROM model").fetchone()
            edges, nodes = edge_table.read(self._connection), self._nodes()
        if nodes is None:
            raise LedgerError(f"{self.path}: nodes or requests are missing; restore it from a copy.")
        if len(edges) and edges.max() >= len(nodes):
            raise LedgerError(f"{self.path}: its edges name nodes that are missing; restore it from a copy.")
        last = self._chain()[-1]
        if self._key is not None and last.parameters != model_hash(self._key, coefficients, term):
            raise LedgerError(f"{self.path}: the model is not the one that its last certificate was issued for.")
        certificate, features = certificate_of(last.certificate), np.ascontiguousarray(nodes["features"], dtype=float)
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
            certificate=certificate,
        )

    def _chain(self) -> list[Recorded]:
        """All requests; with the key, that their hashes follow from one another."""
        with self._spoken():
            query = "SELECT number, asked, certificate, parameters, digest FROM requests ORDER BY number"
            numbers, requests = [], []
            for number, *columns in self._connection.execute(query):
                numbers.append(number)
                requests.append(Recorded(*columns))
        if not requests or numbers != list(range(len(requests))):
            raise LedgerError(f"{self.path}: nodes or requests are missing; restore it from a copy.")
        with self._spoken():
            before = settings_of(self._connection)
        for one in requests:
            wanted = None if self._key is None else keyed_hash(self._key, before, one.asked, one.certificate, one.parameters)
            if wanted is not None and not hmac.compare_digest(one.digest, wanted):
                raise LedgerError(
                    f"{self.path}: its hashes do not follow from one another with the key in {self._key_path}: another store's "
                    "key, or a request, a certificate or the settings were changed."
                )
            before = one.digest
        return requests

    def _nodes(self) -> np.ndarray | None:
        """Their rows; none if there are not as many as there should be, or they differ in size."""
        run = self._connection.execute
        count, last, size, largest = run("SELECT count(*), max(node), min(length(row)), max(length(row)) FROM nodes").fetchone()
        if not count or count != last + 1 or size != largest or size <= row_type(0).itemsize or size % 8:
            return None
        found = np.empty(count, dtype=row_type((size - row_type(0).itemsize) // 8))
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
        with self._whole():
            return [(one.digest, certificate_of(one.certificate)) for one in self._chain()]

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
        found = self.find(told)
        with self._whole():
            count = len(self._chain())
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
            raise LedgerError(
                f"{self._key_path}, the key of {self.path}, is not there or not to be read: nothing can be shown without."
            )
        asked = keyed_hash(self._key, in_order(told))
        with self._whole():
            return [number for number, one in enumerate(self._chain()) if hmac.compare_digest(one.asked, asked)]

    def close(self) -> None:
        """Let others open it."""
        with suppress(sqlite3.Error):  # the empty journal goes, too
            self._connection.execute("PRAGMA journal_mode=DELETE")
        self._connection.close()

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """What a damaged store makes of its readers as an error that says so."""
        try:
            yield
        except NaregError:
            raise
        except UNREADABLE as error:
            raise LedgerError(f"{self.path} is damaged ({type(error).__name__}: {error}); restore it from a copy.") from None

    @contextmanager
    def _spoken(self) -> Iterator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except sqlite3.Error as error:
            why = "another process has it open" if "locked" in str(error) else str(error)
            raise LedgerError(f"{self.path}: {why}. Nothing was changed.") from None
