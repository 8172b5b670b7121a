"""The ledger of a model that unlearns: remaining data, model, and every request with its certificate, in one store.

Removed data are overwritten in place, and the new model is written with the certificate, before the call returns. Rows never
change their size, so no copy stays in the files. The request itself is stored as a keyed hash, chained to the one before: the
holder of the key (a file beside the store) can show what it was. Without the key, the noise term and the coefficients still
let a reader of the store check guesses, until the model is renewed.
"""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

import numpy as np

from nareg._core import checks
from nareg._storage.files import DRAFT, sync
from nareg._storage.folders import atomic_folder
from nareg.errors import InputError, LedgerError, brief
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.store import edge_table
from nareg.unlearning.store.entries import (
    RECORD,
    Entry,
    Recorded,
    RequestDetails,
    Stored,
    StoredSettings,
    chained,
    in_order,
    keyed_hash,
    model_hash,
)
from nareg.unlearning.store.folder import StateFolder, create_tables, locked, open_store, write_state
from nareg.unlearning.store.keys import KEY, paths, read_key, refuse_taken, write_key
from nareg.unlearning.store.state import HISTORY, certificate_of, damage, damaged, keeps_embedding

#: Tables with a row per node, and of the model.
NODES, MODEL = ("features", "labels", "trained", "gone"), ("coefficients", "term")


class Ledger:
    """An open store, locked against other processes.

    Parameters
    ----------
    path : path
        What :meth:`CertifiedGPR.save` wrote.
    key : path, optional
        File with the key of the hashes; by default ``path.key``. Without it everything can be read, but hashes are not checked
        and nothing can be recorded.

    Raises
    ------
    InputError
        If it is not a store, or keeps no history.
    LedgerError
        If it is damaged, or another process has it open.

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
        self.path, self._key_path = paths(path, key)
        if keeps_embedding(self.path):
            raise InputError(
                f"{self.path} is the folder of a model, which keeps no history of requests: pass a path that save() wrote."
            )
        self._key = read_key(self._key_path, required=key is not None)
        self._folder, self._state = open_store(self.path)

    @property
    def has_key(self) -> bool:
        """Whether hashes can be checked, and requests recorded."""
        return self._key is not None

    @property
    def is_torn(self) -> bool:
        """Whether the last request is only partly in the tables: opening the store again completes it."""
        return self._folder.is_torn

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
        secret, draft_status, key_written = secrets.token_bytes(KEY), None, False
        try:
            write_key(key_path, secret)
            key_written = True  # from here on its file keeps other processes out
            with atomic_folder(path, mark=DRAFT) as draft:  # which no folder has: none is replaced
                draft_status = os.stat(draft)
                os.chmod(draft, 0o700)
                fill(draft, settings, entry, secret)
            sync(path.parent)
        except BaseException as error:
            stored = draft_status is not None and path.exists() and os.path.samestat(path.stat(), draft_status)
            if key_written and not stored:
                key_path.unlink(missing_ok=True)
            if isinstance(error, FileExistsError) or (isinstance(error, InputError) and path.exists() and not stored):
                raise InputError(f"{path} or {key_path} was created by another process: pass another path.") from None
            if isinstance(error, (OSError, InputError)) and not stored:
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
        self.refuse_elsewhere()
        try:
            state = {**self._state, "counts": self._changed(entry, self._key)}
            self._folder.commit(state)
            self._state = state
        except BaseException as error:
            if not self.is_torn:
                self._folder.attach()
            if isinstance(error, OSError):
                raise LedgerError(f"{self.path} cannot be written ({error.strerror}). Nothing was changed.") from None
            raise

    def _changed(self, entry: Entry, key: bytes) -> dict[str, int]:
        """Change rows of the tables in memory; returns the counts after that."""
        folder, counts = self._folder, self._state["counts"]
        for name in NODES:
            folder.put(name, entry.nodes, getattr(entry, name))
        for name in MODEL:
            folder.put(name, np.arange(len(entry.term)), getattr(entry, name))
        pairs, rows = np.concatenate([entry.removed, entry.added]), folder["edges"].array[: counts["n_rows"]]
        folder["edges"].check(edge_table.homes(pairs, len(rows)))
        with damage(self.path):
            blocks, changed = edge_table.changed(rows, entry.removed, entry.added)
        folder.put("edges", blocks, changed)
        before = Recorded.of_row(folder["requests"].array[counts["n_requests"] - 1]).digest
        folder.put("requests", np.array([counts["n_requests"]]), chained(key, before, entry).row())
        return {
            "n_nodes": max(counts["n_nodes"], int(entry.nodes.max(initial=-1)) + 1),
            "n_rows": max(counts["n_rows"], int(blocks.max(initial=-1)) + 1),
            "n_requests": counts["n_requests"] + 1,
        }

    def read(self) -> Stored:
        """The content of the store.

        Raises
        ------
        LedgerError
            If the store is damaged.
        """
        self.refuse_elsewhere()
        with damage(self.path):
            self._folder.check_files()
            last = self._chain()[-1]
            n, rows = (self._state["counts"][name] for name in ("n_nodes", "n_rows"))
            features, labels, trained, gone = (np.array(self._folder[name].array[:n]) for name in NODES)
            W, B = (np.array(self._folder[name].array) for name in MODEL)
            edges, certificate = edge_table.read(self._folder["edges"].array[:rows]), certificate_of(last.certificate)
        if len(edges) and edges.max() >= n:
            raise damaged(self.path, "is damaged, edges name nodes that are missing")
        if self._key is not None and last.parameters != model_hash(self._key, W, B):
            raise damaged(self.path, "is damaged, the model is not the one of the last certificate")
        if not all(np.isfinite(array).all() for array in (features, W, B)):
            raise damaged(self.path, "is damaged, features or the model contain NaN or infinity")
        return Stored(str(self.path), self._state["settings"], features, labels, trained, gone, edges, W, B, certificate)

    def _chain(self) -> list[Recorded]:
        """All requests; with the key their hashes are checked."""
        self.refuse_elsewhere()
        self._refuse_damage()
        self._folder["requests"].check_file()
        count, before = self._state["counts"]["n_requests"], self._state["settings"]
        requests = [Recorded.of_row(row) for row in self._folder["requests"].array[:count]]
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

    def _refuse_damage(self) -> None:
        """Raise LedgerError if rows are missing, or tables are not of the kind that a store has."""
        folder, counts = self._folder, self._state["counts"]
        shapes = {"labels": (), "trained": (), "gone": (), "edges": (2 * edge_table.ROOM,), "requests": (RECORD,)}
        fits = all(folder[name].dtype == kind for name, kind in HISTORY.items())
        fits &= all(folder[name].row_shape == shape for name, shape in shapes.items())
        fits &= len(folder["features"].row_shape) == len(folder["coefficients"].row_shape) == 1
        fits &= {name: type(count) for name, count in counts.items()} == dict.fromkeys(("n_nodes", "n_rows", "n_requests"), int)
        least = dict.fromkeys(NODES, "n_nodes") | {"edges": "n_rows", "requests": "n_requests"}
        if not fits or any(not 0 < counts[count] <= folder[name].capacity for name, count in least.items()):
            raise damaged(self.path, "is damaged, nodes or requests are missing")

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

    def refuse_elsewhere(self) -> None:
        """Raise if this is a fork of the process that opened the store, or another folder took its place."""
        self._folder.refuse_elsewhere()

    def close(self) -> None:
        """Close the store, so that others can open it; in a forked process, leave it to the one that has it open."""
        self._folder.close()


def fill(draft: Path, settings: StoredSettings, entry: Entry, key: bytes) -> None:
    """Make an empty folder a store."""
    first = chained(key, settings, entry).row()
    values = {"edges": edge_table.packed(entry.added), "requests": first}
    values |= {name: getattr(entry, name) for name in (*NODES, *MODEL)}
    create_tables(draft, {name: (kind, values[name].shape) for name, kind in HISTORY.items()})
    folder = StateFolder(draft, HISTORY, locked(draft))
    try:
        for name, rows in values.items():
            folder[name].write(0, rows)
        folder.sum_up_files(HISTORY)
        folder.write_sums()
    finally:
        folder.close()
    counts = {"n_nodes": len(entry.nodes), "n_rows": len(values["edges"]), "n_requests": 1}
    write_state(draft, {"embedding": False, "settings": settings, "counts": counts})
