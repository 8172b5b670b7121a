"""The folder of a store: its tables, the journal of a request, and the lock.

A store keeps the remaining data and the model, and beside them either the embedding, of a model that works on the files, or
the history of requests, of one that is in memory. A request is in the journal before it is answered; from there its rows go
to the tables, also after a crash.

=========================  ===================================================================================
``state.json``             settings and counts; beside an embedding the last certificate
``features.npy``           X, (N, F) float64; beside an embedding float32 or float64, as given
``labels.npy``, ...        ``labels``, ``gone``
``coefficients.npy``, ...  the model: ``coefficients`` and ``term``, (F, C) float64
``checksums.npy``          of blocks of rows, (B, T) uint64: one column per table, in the order of their names
``journal``                a request on its way to the tables
of a store with history
``trained.npy``            whether a node is trained on
``edges.npy``              rows of edges, see :mod:`nareg.unlearning.store.edge_table`
``requests.npy``           hashes and certificate of every request, see :mod:`nareg.unlearning.store.entries`
of a store with embedding
``reserve-1.npy``, ...     ``q_l = D^1/2 P^l X``, 0 < l < L, (N, F) float64
``sum.npy``                ``S = sum_l w_l q_l``, (N, F) float64; rows of training nodes first
``node.npy``, ``row.npy``  the node of a row of S, and the row of a node
``neighbors.npy``, ...     the graph: rows of neighbors; ``start``, ``live`` and ``room`` of each
``largest.npy``, ...       ``largest`` and ``peaks`` of the bound on rounding errors
``stale``                  there while reserves and sums are being computed from features and graph
=========================  ===================================================================================

Every file of N rows may have spare ones behind them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from nareg._core.process import fcntl, only_here, process
from nareg._storage.files import atomic_write, own_file, refuse_links, sync
from nareg._storage.folders import whole_folder
from nareg.errors import InputError, LedgerError
from nareg.unlearning.store import journal
from nareg.unlearning.store.state import FORMAT, PER_NODE, STATE, SUMS, damaged, digest_of, names_of, read_state
from nareg.unlearning.store.table import Table

JOURNAL, STALE, LOCK = "journal", "stale", "lock"


class StateFolder:
    """An open store: the process that opened it is its only writer, and it is not copied.

    Parameters
    ----------
    path : path
    names : sequence of str
        Of its tables.
    lock : file
        That of :func:`locked`; it is closed with the folder.

    Attributes
    ----------
    tables : dict of Table
        By their names, the checksums among them.
    is_torn : bool
        Whether a request is in the journal, but only partly in the tables: loading the store again completes it.
    """

    def __init__(self, path: Path, names: Iterable[str], lock: Any) -> None:
        self.path, self._lock, self._process = path, lock, process()
        self.tables = tables(path, names)
        self.is_torn = False
        self._summed = sorted(set(self.tables) - {SUMS})
        if self[SUMS].row_shape != (len(self._summed),) or self[SUMS].dtype != np.uint64:
            raise damaged(self[SUMS].path, "is damaged")
        self._show_sums()

    @property
    def reserves(self) -> list[Table]:
        """Tables of the reserves, level by level."""
        return [self[name] for name in self.tables if name.startswith("reserve-")]

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

    def check(self, rows: Mapping[str, int]) -> None:
        """Compare the first rows of some tables with their checksums, so many of each.

        What was compared before is compared again: bits may have flipped since.

        Raises
        ------
        LedgerError
            If a block is damaged.
        """
        for name in self._summed:
            self[name].forget_checks()
        for name, count in rows.items():
            self[name].check_first(count)

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

    def grow(self, n_nodes: int) -> None:
        """Make room for so many nodes beside an embedding; views of tables have to be taken again."""
        for table in (*self.embedding, *(self[name] for name in PER_NODE)):
            table.grow(n_nodes)

    def put(self, name: str, rows: np.ndarray, values: np.ndarray) -> None:
        """Change rows of a table, and note them; it grows where they are behind the others."""
        table = self[name]
        table.grow(int(rows.max(initial=-1)) + 1)
        table.array[rows] = values
        table.note(rows)

    def commit(self, state: dict[str, Any], *, up_to_date: bool = False) -> None:
        """Write what was noted: durably to the journal, and from there to the tables, whose views have to be taken again.

        Parameters
        ----------
        state : dict
            Settings and counts from now on.
        up_to_date : bool
            Whether reserves and sums were computed in place for it.

        Raises
        ------
        LedgerError
            If the journal cannot be written, and nothing was changed; or the tables cannot.
        """
        self.sum_up()
        try:
            journal.write(self.path / JOURNAL, self.tables, state, up_to_date=up_to_date)
        except BaseException as error:
            (self.path / JOURNAL).unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise LedgerError(f"{self.path} cannot be written ({error.strerror}). Nothing was changed.") from None
            raise
        try:
            finish(self.path, state, self.tables)
            self.attach()
        except BaseException as error:
            self.is_torn = True
            raise LedgerError(
                f"{self.path}: the request is in the journal, but not yet carried out ({error}): load the store again."
            ) from error

    def refuse_elsewhere(self) -> None:
        """Raise if this is a fork of the process that opened the folder, or another folder took its place.

        Raises
        ------
        LedgerError
        """
        if self._process != process():
            raise LedgerError(
                f"{self.path} is open in process {self._process[0]}, of which this is a fork: load it again here when it is "
                "closed there."
            )
        if not _is_at(self.path / LOCK, self._lock):
            raise LedgerError(f"{self.path} is another folder than the one that was opened: load it again.")

    def __reduce__(self) -> NoReturn:
        raise InputError(
            f"{self.path} is open, and a store has one writer: close() the model, then copy the folder, or load it."
        )

    def close(self) -> None:
        """Unlock the folder; a fork leaves it to the process that opened it."""
        if fcntl is not None and self._process == process() and not self._lock.closed:
            with suppress(OSError):  # a fork that just began may have the file open still
                fcntl.flock(self._lock, fcntl.LOCK_UN)
        self._lock.close()

    def __del__(self) -> None:
        self._lock.close()  # of a model that was left open


def tables(path: Path, names: Iterable[str]) -> dict[str, Table]:
    """Tables of a folder and that of the checksums, by name."""
    return {name: Table(path / f"{name}.npy") for name in (*names, SUMS)}


def create_tables(path: Path, shapes: Mapping[str, tuple[Any, tuple[int, ...]]]) -> None:
    """Write tables of zeros, of these types and shapes, and one for their checksums."""
    made = [Table.create(path / f"{name}.npy", kind, shape) for name, (kind, shape) in shapes.items()]
    Table.create(path / f"{SUMS}.npy", "<u8", (max(table.n_blocks for table in made), len(made)))


def open_store(path: str | os.PathLike[str]) -> tuple[StateFolder, dict[str, Any]]:
    """A locked store and its state. A request that a killed process left in the journal is carried out.

    Raises
    ------
    InputError
        If it is not a store.
    LedgerError
        If it is damaged, or open elsewhere.
    """
    place = whole_folder(path)
    read_state(place)  # or it is not a store, and stays as it is
    try:
        refuse_links(place)
    except (InputError, OSError) as error:
        raise LedgerError(str(error)) from None
    lock = locked(place)
    try:
        state = read_state(place)
        finish(place, state)
        state = read_state(place)
        return StateFolder(place, names_of(state), lock), state
    except BaseException:
        lock.close()
        raise


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
        known = tables(path, names_of(state)) if open_tables is None else open_tables
        content = journal.read(file, known)
        if content is None or any(content.state.get(name) != state[name] for name in ("settings", "embedding")):
            raise LedgerError(
                f"{file} is not a journal of this store, and was not carried out: delete it, if you trust where the store is "
                "from, or restore the store from a copy."
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
    """Write settings and counts."""
    with atomic_write(path / STATE, own=True) as handle:
        handle.write(json.dumps({"format": FORMAT, **state, "sha256": digest_of(state)}).encode())
    sync(path)


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
