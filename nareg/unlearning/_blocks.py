"""Edges in a table of rows of one size: what changes is overwritten where it stands, and where it stands tells no history.

The row of an edge follows from its ends by a hash; in a row edges are sorted, zeros behind them. Thus no cell of the database
ever moves (SQLite overwrites zeros what is deleted, but not copies of what it moved), a removed edge leaves no gap between two
others, and a change takes a row or two to write. Edges that find their row full stand in one of the next.
"""

from __future__ import annotations

import sqlite3

import numpy as np

TABLE = "CREATE TABLE edges (block INTEGER PRIMARY KEY, pairs BLOB NOT NULL);"
#: Edges a row: two rows fill a page of the database.
ROOM = 240
#: Share of the rows that is filled at first.
LOAD = 0.7
#: Rows that are looked at for a free place before the table is made larger.
PROBES = 8
#: As bytes: both ends, the smaller first.
PAIR = np.dtype("<i4")


def fill(connection: sqlite3.Connection, pairs: np.ndarray, room: int | None = None) -> None:
    """Rows for all edges, (E, 2), the smaller end first, in an empty table."""
    count = int(len(pairs) / (LOAD * ROOM)) + 1 if room is None else room
    homes = _homes(pairs, count)
    order = np.lexsort((pairs[:, 1], pairs[:, 0], homes))
    pairs, ends = pairs[order], np.searchsorted(homes[order], np.arange(count + 1))
    left = []  # beyond what a row takes, which is rare
    for block in range(count):
        here = pairs[ends[block] : ends[block + 1]]
        left.append(here[ROOM:])
        connection.execute("INSERT INTO edges VALUES (?, ?)", (block, _packed(here[:ROOM])))
    change(connection, pairs[:0], np.concatenate(left))


def change(connection: sqlite3.Connection, removed: np.ndarray, added: np.ndarray) -> None:
    """Take out edges that are there, put in edges that are not; the smaller end first."""
    if not len(removed) and not len(added):
        return
    (count,) = connection.execute("SELECT max(block) + 1 FROM edges").fetchone()
    rows: dict[int, set[tuple[int, int]]] = {}

    def held(block: int) -> set[tuple[int, int]]:
        if block not in rows:
            rows[block] = {(int(u), int(v)) for u, v in _row(connection, block)}
        return rows[block]

    for pair, home in zip(removed.tolist(), _homes(removed, count).tolist(), strict=True):
        near = (held((home + k) % count) for k in range(count))
        place = next((row for row in near if tuple(pair) in row), None)
        if place is None:
            raise sqlite3.DatabaseError(f"the edge {tuple(pair)} is missing")
        place.remove(tuple(pair))
    waiting = []
    for pair, home in zip(added.tolist(), _homes(added, count).tolist(), strict=True):
        near = (held((home + k) % count) for k in range(min(PROBES, count)))
        place = next((row for row in near if len(row) < ROOM), None)
        if place is None:
            waiting.append(pair)
        else:
            place.add(tuple(pair))
    for block, row in rows.items():
        pairs = np.array(sorted(row), dtype=np.int64).reshape(-1, 2)
        connection.execute("UPDATE edges SET pairs = ? WHERE block = ?", (_packed(pairs), block))
    if waiting:
        _enlarge(connection, np.array(waiting), count)


def read(connection: sqlite3.Connection) -> np.ndarray:
    """(E, 2) int64 array of all edges."""
    rows = connection.execute("SELECT pairs FROM edges ORDER BY block")
    parts = [np.empty((0, 2), dtype=PAIR)]
    while some := rows.fetchmany(1000):
        part = np.frombuffer(b"".join(row for (row,) in some), dtype=PAIR).reshape(-1, 2)
        parts.append(part[part[:, 1] > 0])
    return np.concatenate(parts).astype(np.int64)


def _enlarge(connection: sqlite3.Connection, more: np.ndarray, count: int) -> None:
    """A table twice as large; the pages of the old one are zeroed as they are freed."""
    pairs = np.concatenate([read(connection), more])
    connection.execute("DELETE FROM edges")
    fill(connection, pairs, max(2 * count, int(len(pairs) / (LOAD * ROOM)) + 1))


def _homes(pairs: np.ndarray, count: int) -> np.ndarray:
    """The row of each edge: bits mixed as in SplitMix64, its upper 32 scaled to the number of rows."""
    code = pairs[:, 0].astype(np.uint64) << np.uint64(32) | pairs[:, 1].astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        code = (code ^ code >> np.uint64(shift)) * np.uint64(factor)
    code ^= code >> np.uint64(31)
    found: np.ndarray = ((code >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.int64)
    return found


def _row(connection: sqlite3.Connection, block: int) -> np.ndarray:
    (pairs,) = connection.execute("SELECT pairs FROM edges WHERE block = ?", (block,)).fetchone()
    found = np.frombuffer(pairs, dtype=PAIR).reshape(-1, 2)
    return found[found[:, 1] > 0]


def _packed(pairs: np.ndarray) -> bytes:
    row = np.zeros((ROOM, 2), dtype=PAIR)
    row[: len(pairs)] = pairs
    return row.tobytes()
