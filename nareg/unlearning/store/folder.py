"""The folder of a mapped model: its tables, the journal of a request, and the lock.

=========================  ===================================================================================
``state.json``             settings, counts and the last certificate
``features.npy``           X, (N, F), float32 or float64 as given
``reserve-1.npy``, ...     ``q_l = D^1/2 P^l X``, 0 < l < L, (N, F) float64
``sum.npy``                ``S = sum_l w_l q_l``, (N, F) float64; rows of training nodes first
``node.npy``, ``row.npy``  the node of a row of S, and the row of a node
``neighbors.npy``, ...     the graph: rows of neighbors; ``start``, ``live`` and ``room`` of each
``labels.npy``, ...        ``labels``, ``gone``; ``largest`` and ``peaks`` of the bound on rounding errors
``coefficients.npy``, ...  the model: ``coefficients`` and ``term``, (F, C) float64
``checksums.npy``          of blocks of rows, (B, T) uint64: one column per table, in the order of their names
``journal``                a request on its way to the tables
``stale``                  there while reserves and sums are being computed from features and graph
=========================  ===================================================================================

Every file of N rows may have spare ones behind them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from nareg._core.process import only_here, process
from nareg._storage.files import atomic_write, own_file
from nareg.errors import InputError, LedgerError
from nareg.unlearning._locking import OneWriter
from nareg.unlearning.store import journal
from nareg.unlearning.store.table import Table, sync
from nareg.unlearning.store.validation import damaged

try:
    import fcntl
except ModuleNotFoundError:  # a system without locks
    fcntl = None  # type: ignore[assignment]

FORMAT = "nareg-unlearning-folder-2"
#: File that marks a folder as one of a model.
STATE = "state.json"
JOURNAL, STALE, LOCK = "journal", "stale", "lock"
#: Tables of one number per node.
PER_NODE = {
    "start": "<i8", "live": "<i8", "room": "<i8", "node": "<i8", "row": "<i8", "labels": "<i8", "gone": "|b1",
    "largest": "<f8", "peaks": "<f8",
}  # fmt: skip
#: Table of the checksums of all others.
SUMS = "checksums"
#: All tables but the reserves and the checksums.
OTHERS = (*PER_NODE, "features", "sum", "neighbors", "coefficients", "term")


class StateFolder(OneWriter):
    """An open folder, locked against other processes.

    Parameters
    ----------
    path : path
    order : int
        L.
    lock : file
        That of :func:`locked`; it is closed with the folder.
    """

    _only = "a folder has one writer: a model in a folder is not copied, load it there"

    def __init__(self, path: Path, order: int, lock: Any) -> None:
        super().__init__()
        self.path, self._lock = path, lock
        self.tables = tables(path, order)
        self.reserves = [self.tables[f"reserve-{level}"] for level in range(1, order)]
        self._summed = sorted(set(self.tables) - {SUMS})
        self._show_sums()

    @property
    def embedding(self) -> list[Table]:
        """Tables of F numbers per node: features, reserves level by level, and sums."""
        return [self["features"], *self.reserves, self["sum"]]

    def __getitem__(self, name: str) -> Table:
        return self.tables[name]

    @property
    def is_stale(self) -> bool:
        """Whether reserves and sums may be those of neither the old nor the new state."""
        return (self.path / STALE).exists()

    def mark_stale(self) -> None:
        """Mark reserves and sums as unusable, durably, before they are computed in place."""
        os.close(own_file(self.path / STALE, os.O_WRONLY | os.O_CREAT))
        sync(self.path)

    def clear_stale(self) -> None:
        """Take the mark away: reserves and sums are on the disk."""
        (self.path / STALE).unlink(missing_ok=True)
        sync(self.path)

    def move(self, path: Path) -> None:
        """Note that the folder was renamed to this path."""
        self.path = path
        for name, table in self.tables.items():
            table.path = path / f"{name}.npy"
        sync(path.parent)

    def grow(self, n_nodes: int) -> None:
        """Make room for so many nodes; views of tables have to be taken again."""
        for table in (*self.embedding, *(self[name] for name in PER_NODE)):
            table.grow(n_nodes)

    def attach(self) -> None:
        """Map all tables as the files are now; views have to be taken again."""
        for table in self.tables.values():
            table.attach()
        self._show_sums()

    def _show_sums(self) -> None:
        """Make room for all checksums, and tell the tables where theirs are."""
        sums = self[SUMS]
        sums.grow(max(self[name].n_blocks for name in self._summed))
        for column, name in enumerate(self._summed):
            self[name].sums = sums.array[:, column]

    def check(self, n_nodes: int, n_train: int) -> None:
        """Compare with their checksums what every certificate relies on: numbers of nodes, the model, rows of training nodes.

        What was compared before is compared again: bits may have flipped since.

        Raises
        ------
        LedgerError
            If a block is damaged.
        """
        for name in self._summed:
            self[name].forget_checks()
        for name in PER_NODE:
            self[name].check_first(n_nodes)
        for name in ("coefficients", "term"):
            self[name].check_first(self[name].capacity)
        self["sum"].check_first(n_train)

    def check_files(self) -> None:
        """The same for all files as a whole."""
        for name in self._summed:
            self[name].check_file()

    def sum_up(self) -> None:
        """Take the checksums of rows that were noted, which go to the journal with them.

        Raises
        ------
        LedgerError
            If such a row is in a block that is damaged.
        """
        self._show_sums()
        for column, name in enumerate(self._summed):
            self._take(column, *self[name].new_sums())

    def sum_up_files(self, names: Iterable[str]) -> None:
        """Take the checksums of files that were written as a whole."""
        self._show_sums()
        for name in names:
            sums = self[name].file_sums()
            self._take(self._summed.index(name), np.arange(sums.size), sums)

    def write_sums(self) -> None:
        """Write the checksums to their file, outside of a journal: of a new model, or while the folder is stale."""
        self[SUMS].write(0, self[SUMS].array)
        self[SUMS].sync()

    def _take(self, column: int, blocks: np.ndarray, sums: np.ndarray) -> None:
        self[SUMS].array[blocks, column] = sums
        self[SUMS].note(blocks)

    def write_journal(self, state: dict[str, Any], *, up_to_date: bool) -> None:
        """Write what changes to the journal, durably. ``up_to_date``: reserves and sums were computed in place for it.

        Raises
        ------
        LedgerError
            If it cannot be written; then nothing was changed.
        """
        try:
            journal.write(self.path / JOURNAL, self.tables, state, up_to_date=up_to_date)
        except BaseException as error:
            (self.path / JOURNAL).unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise LedgerError(f"{self.path} cannot be written ({error.strerror}). Nothing was changed.") from None
            raise

    def refuse_elsewhere(self) -> None:
        """Raise if this is a fork of the process that opened the folder, or another folder took its place."""
        super().refuse_elsewhere()
        if not _is_at(self.path / LOCK, self._lock):
            raise LedgerError(f"{self.path} is another folder than the one that was opened: load it again.")

    def close(self) -> None:
        """Unlock the folder; a fork leaves it to the process that opened it."""
        if fcntl is not None and self._process == process() and not self._lock.closed:
            with suppress(OSError):  # a fork that just began may have the file open still
                fcntl.flock(self._lock, fcntl.LOCK_UN)
        self._lock.close()


def tables(path: Path, order: int) -> dict[str, Table]:
    """The tables of a folder, by name."""
    names = (*OTHERS, *(f"reserve-{level}" for level in range(1, order)), SUMS)
    return {name: Table(path / f"{name}.npy") for name in names}


def finish(path: Path, state: dict[str, Any], open_tables: Mapping[str, Table] | None = None) -> None:
    """Carry out the journal of a folder if it is whole, and delete it.

    Raises
    ------
    LedgerError
        If it is whole, but not one of this folder and state; then nothing was changed.
    """
    file = path / JOURNAL
    if not os.path.lexists(file):
        return
    if journal.is_whole(file):
        known = tables(path, len(state["settings"]["weights"]) - 1) if open_tables is None else open_tables
        content = journal.read(file, known)
        if content is None or content.state.get("settings") != state["settings"]:
            raise LedgerError(
                f"{file} is not a journal of this folder, and was not carried out: delete it, if you trust where the folder is "
                "from, or restore the folder from a copy."
            )
        journal.apply(file, content)
        state, up_to_date = content.state, content.up_to_date
        write_state(path, state)
        if up_to_date:
            (path / STALE).unlink(missing_ok=True)
            sync(path)
    file.unlink()
    sync(path)


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Write settings, counts and certificate."""
    with atomic_write(path / STATE, own=True) as handle:
        handle.write(json.dumps({"format": FORMAT, **state, "sha256": _digest(state)}).encode())
    sync(path)


def _digest(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def read_state(path: Path) -> dict[str, Any]:
    """Settings, counts and certificate.

    Raises
    ------
    InputError
        If it is not the folder of a model.
    """
    try:
        with os.fdopen(own_file(path / STATE), "rb") as handle:
            state = json.loads(handle.read())
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} is not the folder of a model (it has no {STATE}): pass one that fit() wrote.") from None
    except (OSError, ValueError) as error:
        raise damaged(path / STATE, f"is damaged ({type(error).__name__})") from None
    if not isinstance(state, dict) or state.pop("format", None) != FORMAT:
        raise LedgerError(f"{path / STATE} does not have the format {FORMAT!r}: fit again.")
    if state.pop("sha256", None) != _digest(state):
        raise damaged(path / STATE, "is damaged, it does not have its checksum")
    return state


def locked(path: Path) -> Any:
    """The folder's lock, to be closed.

    Raises
    ------
    LedgerError
        If it is locked, or may not be written.
    """
    try:
        handle = only_here(os.fdopen(own_file(path / LOCK, os.O_RDWR | os.O_CREAT), "r+b", buffering=0))
    except OSError as error:
        raise LedgerError(f"{path / LOCK} cannot be written ({error.strerror}): check the folder.") from None
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            raise _open_elsewhere(path) from None
        except OSError:  # a file system without locks
            pass
    if not _is_at(path / LOCK, handle):  # another folder took the place of this one
        handle.close()
        raise _open_elsewhere(path)
    return handle


def _open_elsewhere(path: Path) -> LedgerError:
    return LedgerError(f"{path}: another model or process has it open: close() that one first.")


def _is_at(path: Path, handle: Any) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(handle.fileno()))
    except OSError:
        return False
