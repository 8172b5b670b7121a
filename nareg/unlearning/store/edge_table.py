"""Edges in a table with rows of one size: changes overwrite in place, and the place of an edge shows no history.

A hash of its ends and the number of rows give the row of an edge; a row holds its edges in order, then zeros, then a checksum
of both, by which bits that flip on the disk are found. Thus no cell of
the database ever moves: SQLite overwrites deleted cells with zeros, but not old copies of moved ones. A removed edge leaves no
gap, and a change writes one or two rows. A row that overflows makes the table larger: only the number of rows shows that there
were more edges before.
"""

from __future__ import annotations

import sqlite3

import numpy as np

from nareg._storage.checksums import checksums

TABLE = "CREATE TABLE edges (block INTEGER PRIMARY KEY, pairs BLOB NOT NULL);"
#: Edges per row: two rows fill a page of the database.
ROOM = 240
#: Share of the rows that is filled at first, and growth of the number of rows where a row overflows.
LOAD, GROWTH = 0.7, 1.3
#: Bytes of an edge: both ends, the smaller first.
PAIR = np.dtype("<i4")
#: Bytes of the checksum of a row.
SUM = 8
#: Rows that are read at a time.
CHUNK = 1000


def fill(connection: sqlite3.Connection, pairs: np.ndarray) -> None:
    """Write rows for all edges, (E, 2) with the smaller end first, to an empty table."""
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
    """Delete edges that are in the table and insert edges that are not; the smaller end first."""
    (count,) = connection.execute("SELECT count(*) FROM edges").fetchone()
    deleted, inserted = _codes(removed), _codes(added)
    homes_of_deleted, homes_of_inserted = _homes(deleted, count), _homes(inserted, count)
    every = np.union1d(homes_of_deleted, homes_of_inserted)
    overflow = [np.empty(0, dtype=np.int64)]
    for first in range(0, every.size, CHUNK):
        blocks = every[first : first + CHUNK]
        rows = [connection.execute("SELECT pairs FROM edges WHERE block = ?", (block,)).fetchone() for block in blocks.tolist()]
        if None in rows:
            raise sqlite3.DatabaseError("rows of edges are missing")
        codes, gone = _unpacked([row for (row,) in rows]), deleted[np.isin(homes_of_deleted, blocks)]
        remaining = codes[(codes != 0) & ~np.isin(codes, gone)]
        if remaining.size + gone.size != np.count_nonzero(codes):
            raise sqlite3.DatabaseError("an edge is missing in its table")
        codes = np.sort(np.concatenate([remaining, inserted[np.isin(homes_of_inserted, blocks)]]))
        homes = _homes(codes, count)
        full = np.isin(homes, blocks[np.bincount(np.searchsorted(blocks, homes), minlength=blocks.size) > ROOM])
        overflow.append(codes[full])
        packed = _packed(codes[~full], homes[~full], blocks)
        connection.executemany("UPDATE edges SET pairs = ? WHERE block = ?", zip(packed, blocks.tolist(), strict=True))
    spilled = np.concatenate(overflow)
    if spilled.size:
        pairs = np.concatenate([read(connection), _pairs(spilled)])
        connection.execute("DELETE FROM edges")  # pages that are freed are zeroed
        fill(connection, pairs)


def read(connection: sqlite3.Connection) -> np.ndarray:
    """All edges as an (E, 2) int64 array, the smaller end first.

    Raises
    ------
    sqlite3.DatabaseError
        If a row is missing, or is not as :func:`fill` and :func:`change` write it.
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


def _size() -> int:
    """Bytes of the edges of a row."""
    return ROOM * 2 * PAIR.itemsize


def _homes(codes: np.ndarray, count: int) -> np.ndarray:
    """The row of each edge: bits mixed as in SplitMix64, its upper 32 scaled to the number of rows."""
    code = codes.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        code = (code ^ code >> np.uint64(shift)) * np.uint64(factor)
    code ^= code >> np.uint64(31)
    homes: np.ndarray = ((code >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.int64)
    return homes


def _codes(pairs: np.ndarray) -> np.ndarray:
    """One number per edge, never zero."""
    codes: np.ndarray = pairs[:, 0].astype(np.int64) << 32 | pairs[:, 1].astype(np.int64) & 0xFFFFFFFF
    return codes


def _pairs(codes: np.ndarray) -> np.ndarray:
    """Edges of codes, the second end with its sign."""
    return np.stack([codes >> 32, codes.astype(np.int32).astype(np.int64)], axis=1)


def _packed(codes: np.ndarray, homes: np.ndarray, blocks: np.ndarray) -> list[bytes]:
    """Rows of these blocks, from codes in ascending order whose homes are among the blocks; filled up with zeros."""
    rows = np.zeros((blocks.size, ROOM), dtype=np.int64)
    block = np.searchsorted(blocks, homes)
    order = np.argsort(block, kind="stable")
    lengths = np.bincount(block, minlength=blocks.size)
    rows[block[order], np.arange(codes.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)] = codes[order]
    pairs = _pairs(rows.ravel()).astype(PAIR).reshape(blocks.size, -1)
    sums = ~checksums(pairs.reshape(-1).view(np.uint8), np.arange(blocks.size), _size()).astype("<u8")
    return [row.tobytes() + one.tobytes() for row, one in zip(pairs, sums, strict=True)]


def _unpacked(rows: list[bytes]) -> np.ndarray:
    """Codes of all places, zeros included."""
    if any(len(row) != _size() + SUM for row in rows):
        raise sqlite3.DatabaseError("rows of edges are damaged")
    data = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, _size() + SUM)
    pairs, stated = data[:, :-SUM].copy(), data[:, -SUM:].copy().view("<u8")[:, 0]
    if (~checksums(pairs.reshape(-1), np.arange(len(rows)), _size()) != stated).any():
        raise sqlite3.DatabaseError("rows of edges are damaged, they do not have their checksum")
    return _codes(pairs.view(PAIR).reshape(-1, 2))
