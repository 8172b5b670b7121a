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
    codes = np.sort(_codes(pairs))
    count = int(codes.size / (LOAD * ROOM)) + 1
    while np.bincount(homes := _homes(codes, count), minlength=1).max() > ROOM:
        count = int(GROWTH * count) + 1
    order = np.argsort(homes, kind="stable")
    homes, codes = homes[order], codes[order]
    for first in range(0, count, CHUNK):
        blocks = np.arange(first, min(first + CHUNK, count))
        here = slice(*np.searchsorted(homes, (first, first + CHUNK)))
        rows = _packed(codes[here], homes[here], blocks)
        connection.executemany("INSERT INTO edges (pairs, block) VALUES (?, ?)", zip(rows, blocks.tolist(), strict=True))


def change(connection: sqlite3.Connection, removed: np.ndarray, added: np.ndarray) -> None:
    """Take out edges that are there, put in edges that are not; the smaller end first."""
    (count,) = connection.execute("SELECT count(*) FROM edges").fetchone()
    leaving, coming = _codes(removed), _codes(added)
    homes_of_leaving, homes_of_coming = _homes(leaving, count), _homes(coming, count)
    every = np.union1d(homes_of_leaving, homes_of_coming)
    over = [np.empty(0, dtype=np.int64)]
    for first in range(0, every.size, CHUNK):
        blocks = every[first : first + CHUNK]
        told = [connection.execute("SELECT pairs FROM edges WHERE block = ?", (block,)).fetchone() for block in blocks.tolist()]
        if None in told:
            raise sqlite3.DatabaseError("rows of edges are missing")
        codes, gone = _unpacked([row for (row,) in told]), leaving[np.isin(homes_of_leaving, blocks)]
        kept = codes[(codes != 0) & ~np.isin(codes, gone)]
        if kept.size + gone.size != np.count_nonzero(codes):
            raise sqlite3.DatabaseError("an edge that is there is missing in its table")
        codes = np.sort(np.concatenate([kept, coming[np.isin(homes_of_coming, blocks)]]))
        homes = _homes(codes, count)
        full = np.isin(homes, blocks[np.bincount(np.searchsorted(blocks, homes), minlength=blocks.size) > ROOM])
        over.append(codes[full])
        rows = _packed(codes[~full], homes[~full], blocks)
        connection.executemany("UPDATE edges SET pairs = ? WHERE block = ?", zip(rows, blocks.tolist(), strict=True))
    more = np.concatenate(over)
    if more.size:
        pairs = np.concatenate([read(connection), _pairs(more)])
        connection.execute("DELETE FROM edges")  # pages that are freed are zeroed
        fill(connection, pairs)


def read(connection: sqlite3.Connection) -> np.ndarray:
    """(E, 2) int64 array of all edges, the smaller end first.

    Raises
    ------
    sqlite3.DatabaseError
        If a row is not where it should be, or not what :func:`fill` and :func:`change` write.
    """
    (count,) = connection.execute("SELECT count(*) FROM edges").fetchone()
    rows = connection.execute("SELECT block, pairs FROM edges ORDER BY block")
    parts, before = [np.empty(0, dtype=np.int64)], 0
    while some := rows.fetchmany(CHUNK):
        blocks = np.arange(before, before + len(some))
        if [block for block, _ in some] != blocks.tolist():
            raise sqlite3.DatabaseError("rows of edges are missing")
        codes = _unpacked([row for _, row in some])
        homes, here = np.repeat(blocks, ROOM)[codes != 0], codes[codes != 0]
        pairs = _pairs(here)
        wrong = (pairs < 0).any() or (pairs[:, 0] >= pairs[:, 1]).any() or (_homes(here, count) != homes).any()
        if wrong or _packed(np.unique(here), _homes(np.unique(here), count), blocks) != [row for _, row in some]:
            raise sqlite3.DatabaseError("rows of edges are damaged")
        parts.append(here)
        before += len(some)
    return _pairs(np.concatenate(parts))


def _homes(codes: np.ndarray, count: int) -> np.ndarray:
    """The row of each edge: bits mixed as in SplitMix64, its upper 32 scaled to the number of rows."""
    code = codes.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        code = (code ^ code >> np.uint64(shift)) * np.uint64(factor)
    code ^= code >> np.uint64(31)
    found: np.ndarray = ((code >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.int64)
    return found


def _codes(pairs: np.ndarray) -> np.ndarray:
    """A number for each edge, none of them zero."""
    found: np.ndarray = pairs[:, 0].astype(np.int64) << 32 | pairs[:, 1].astype(np.int64) & 0xFFFFFFFF
    return found


def _pairs(codes: np.ndarray) -> np.ndarray:
    """Back, the second end with its sign."""
    return np.stack([codes >> 32, codes.astype(np.int32).astype(np.int64)], axis=1)


def _packed(codes: np.ndarray, homes: np.ndarray, blocks: np.ndarray) -> list[bytes]:
    """Rows of these blocks, from codes in rising order, each of which has one of them for its home; zeros behind."""
    rows = np.zeros((blocks.size, ROOM), dtype=np.int64)
    block = np.searchsorted(blocks, homes)
    order = np.argsort(block, kind="stable")
    lengths = np.bincount(block, minlength=blocks.size)
    rows[block[order], np.arange(codes.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)] = codes[order]
    pairs = _pairs(rows.ravel()).astype(PAIR).reshape(blocks.size, -1)
    return [row.tobytes() for row in pairs]


def _unpacked(rows: list[bytes]) -> np.ndarray:
    """Codes, the zeros among them."""
    if any(len(row) != ROOM * 2 * PAIR.itemsize for row in rows):
        raise sqlite3.DatabaseError("rows of edges are damaged")
    return _codes(np.frombuffer(b"".join(rows), dtype=PAIR).reshape(-1, 2))
