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
``journal``                a request on its way to the tables
``stale``                  there while reserves and sums are being computed from features and graph
=========================  ===================================================================================

Every file of N rows may have spare ones behind them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nareg._files import atomic_write
from nareg.errors import InputError, LedgerError
from nareg.unlearning.mapped import journal
from nareg.unlearning.mapped.tables import Table, sync

try:
    import fcntl
except ModuleNotFoundError:  # a system without locks
    fcntl = None  # type: ignore[assignment]

FORMAT = "nareg-unlearning-folder-1"
#: File that marks a folder as one of a model.
STATE = "state.json"
JOURNAL, STALE, LOCK = "journal", "stale", "lock"
#: Tables of one number per node.
PER_NODE = {
    "start": "<i8", "live": "<i8", "room": "<i8", "node": "<i8", "row": "<i8", "labels": "<i8", "gone": "|b1",
    "largest": "<f8", "peaks": "<f8",
}  # fmt: skip
#: All tables but the reserves.
OTHERS = (*PER_NODE, "features", "sum", "neighbors", "coefficients", "term")


class StateFolder:
    """An open folder, locked against other processes.

    Parameters
    ----------
    path : path
    order : int
        L.
    lock : file
        That of :func:`locked`; it is closed with the folder.
    """

    def __init__(self, path: Path, order: int, lock: Any) -> None:
        self.path, self._lock = path, lock
        names = (*OTHERS, *(f"reserve-{level}" for level in range(1, order)))
        self.tables = {name: Table(path / f"{name}.npy") for name in names}
        self.reserves = [self.tables[f"reserve-{level}"] for level in range(1, order)]

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
        (self.path / STALE).touch()
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

    def close(self) -> None:
        """Unlock the folder."""
        self._lock.close()


def finish(path: Path) -> None:
    """Carry out the journal of a folder if it is whole, and delete it."""
    file = path / JOURNAL
    if not file.exists():
        return
    if journal.is_whole(file):
        state, up_to_date = journal.apply(file)
        write_state(path, state)
        if up_to_date:
            (path / STALE).unlink(missing_ok=True)
            sync(path)
    file.unlink()
    sync(path)


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Write settings, counts and certificate."""
    with atomic_write(path / STATE) as handle:
        handle.write(json.dumps({"format": FORMAT, **state}).encode())
    sync(path)


def read_state(path: Path) -> dict[str, Any]:
    """Settings, counts and certificate.

    Raises
    ------
    InputError
        If it is not the folder of a model.
    """
    try:
        state = json.loads((path / STATE).read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path} is not the folder of a model (it has no {STATE}): pass one that fit() wrote.") from None
    except (OSError, ValueError) as error:
        raise LedgerError(f"{path / STATE} is damaged ({type(error).__name__}): restore the folder from a copy.") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise LedgerError(f"{path / STATE} does not have the format {FORMAT!r}: fit again.")
    return state


def locked(path: Path) -> Any:
    """The folder's lock, to be closed."""
    handle = open(path / LOCK, "ab")  # noqa: SIM115
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            raise LedgerError(f"{path}: another model or process has it open: close() that one first.") from None
        except OSError:  # a file system without locks
            pass
    return handle
