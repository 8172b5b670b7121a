"""Edges in a table of rows of one size: what changes is overwritten where it stands, and where it stands tells no history.

The row of an edge follows from its ends by a hash, and the number of rows; in a row edges are sorted, zeros behind them. Thus
no cell of the database ever moves (SQLite overwrites with zeros what is deleted, but not copies of what it moved), a removed
edge leaves no gap between two others, and a change takes a row or two to write. A row that would run over makes the table
larger: only the number of rows tells that there were more edges once.
"""

from __future__ import annotations

import sqlite3

import numpy as np

TABLE = "CREATE TABLE edges (block INTEGER PRIMARY KEY, pairs BLOB NOT NULL);"
#: Edges a row: two rows fill a page of the database.
ROOM = 240
#: Share of the rows that is filled at first; by how much more rows there are where that does not do.
LOAD, GROWTH = 0.7, 1.3
#: As bytes: both ends, the smaller first.
PAIR = np.dtype("<i4")
#: Rows that are read at a time.
CHUNK = 1000


def fill(connection: sqlite3.Connection, pairs: np.ndarray) -> None:
    """Rows for all edges, (E, 2), the smaller end first, in an empty table."""
    count = int(len(pairs) / (LOAD * ROOM)) + 1
    while len(pairs) and np.bincount(_homes(pairs, count)).max() > ROOM:
        count = int(GROWTH * count) + 1
    homes = _homes(pairs, count)
    order = np.argsort(homes, kind="stable")
    ends = np.searchsorted(homes[order], np.arange(count + 1))
    connection.executemany(
        "INSERT INTO edges VALUES (?, ?)",
        ((block, _packed(pairs[order[ends[block] : ends[block + 1]]])) for block in range(count)),
    )


def change(connection: sqlite3.Connection, removed: np.ndarray, added: np.ndarray) -> None:
    """Take out edges that are there, put in edges that are not; the smaller end first."""
    (count,) = connection.execute("SELECT count(*) FROM edges").fetchone()
    gone, new = _homes(removed, count), _homes(added, count)
    over = []
    for block in np.union1d(gone, new).tolist():
        found = connection.execute("SELECT pairs FROM edges WHERE block = ?", (block,)).fetchone()
        codes, leaving = _codes(_unpacked(found[0] if found else b"")), _codes(removed[gone == block])
        if not np.isin(leaving, codes).all():
            raise sqlite3.DatabaseError("an edge that is there is missing in its table")
        codes = np.union1d(np.setdiff1d(codes, leaving), _codes(added[new == block]))
        if codes.size > ROOM:
            over.append(codes)
            codes = codes[:0]
        connection.execute("UPDATE edges SET pairs = ? WHERE block = ?", (_packed(_pairs(codes)), block))
    if over:
        every = np.concatenate([read(connection), *(_pairs(codes) for codes in over)])
        connection.execute("DELETE FROM edges")  # pages that are freed are zeroed
        fill(connection, every)


def read(connection: sqlite3.Connection) -> np.ndarray:
    """(E, 2) int64 array of all edges, the smaller end first.

    Raises
    ------
    sqlite3.DatabaseError
        If a row is not where it should be, or not what :func:`fill` and :func:`change` write.
    """
    (count,) = connection.execute("SELECT count(*) FROM edges").fetchone()
    rows = connection.execute("SELECT block, pairs FROM edges ORDER BY block")
    parts, before = [np.empty((0, 2), dtype=np.int64)], 0
    while some := rows.fetchmany(CHUNK):
        if [block for block, _ in some] != list(range(before, before + len(some))):
            raise sqlite3.DatabaseError("rows of edges are missing")
        pairs = np.concatenate([_unpacked(row) for _, row in some])
        lengths = np.array([len(row) for _, row in some]) // (2 * PAIR.itemsize)
        kept = pairs[:, 1] != 0
        if kept.any():
            homes = np.repeat(np.arange(before, before + len(some)), lengths)[kept]
            if (pairs < 0).any() or (pairs[kept, 0] >= pairs[kept, 1]).any() or (_homes(pairs[kept], count) != homes).any():
                raise sqlite3.DatabaseError("rows of edges are damaged")
        if any(row != _packed(_unpacked(row)) for _, row in some):
            raise sqlite3.DatabaseError("rows of edges are damaged")
        parts.append(pairs[kept])
        before += len(some)
    return np.concatenate(parts)


def _homes(pairs: np.ndarray, count: int) -> np.ndarray:
    """The row of each edge: bits mixed as in SplitMix64, its upper 32 scaled to the number of rows."""
    code = _codes(pairs).astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        code = (code ^ code >> np.uint64(shift)) * np.uint64(factor)
    code ^= code >> np.uint64(31)
    found: np.ndarray = ((code >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.int64)
    return found


def _codes(pairs: np.ndarray) -> np.ndarray:
    """A number each."""
    found: np.ndarray = pairs[:, 0].astype(np.int64) << 32 | pairs[:, 1].astype(np.int64)
    return found


def _pairs(codes: np.ndarray) -> np.ndarray:
    return np.stack([codes >> 32, codes & 0xFFFFFFFF], axis=1)


def _packed(pairs: np.ndarray) -> bytes:
    """Sorted, each once, zeros behind."""
    row, sorted_ = np.zeros((ROOM, 2), dtype=PAIR), np.unique(_codes(pairs[pairs[:, 1] != 0]))
    row[: sorted_.size] = _pairs(sorted_)
    return row.tobytes()


def _unpacked(row: bytes) -> np.ndarray:
    """With the zeros."""
    if len(row) != ROOM * 2 * PAIR.itemsize:
        raise sqlite3.DatabaseError("rows of edges are damaged")
    return np.frombuffer(row, dtype=PAIR).reshape(-1, 2).astype(np.int64)
