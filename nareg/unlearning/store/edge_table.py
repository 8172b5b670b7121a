"""Edges in rows of one size: changes overwrite in place, and the place of an edge shows no history.

A hash of its ends and the number of rows give the row of an edge; a row holds its edges in order, then zeros. A removed edge
leaves no gap, and a change writes one or two rows. A row that overflows makes the table larger: only the number of rows shows
that there were more edges before.
"""

from __future__ import annotations

import numpy as np

#: Edges per row: two rows fill a block of the table.
ROOM = 240
#: Share of the rows that is filled at first, and growth of the number of rows where a row overflows.
LOAD, GROWTH = 0.7, 1.3
#: Numbers of the ends, the smaller end of an edge first.
END = np.dtype("<i4")


def packed(pairs: np.ndarray, least: int = 1) -> np.ndarray:
    """Rows (R, 2 ROOM) for all edges, (E, 2) with the smaller end first; so many rows at least."""
    codes = np.sort(_codes(pairs))
    count = max(int(codes.size / (LOAD * ROOM)) + 1, least)
    while np.bincount(places := _homes(codes, count), minlength=1).max() > ROOM:
        count = int(GROWTH * count) + 1
    return _rows(codes, places, np.arange(count))


def homes(pairs: np.ndarray, count: int) -> np.ndarray:
    """Which of so many rows have these edges, or would have them; in rising order."""
    return np.unique(_homes(_codes(pairs), count))


def changed(rows: np.ndarray, removed: np.ndarray, added: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and values of the rows that change if edges that are there go, and others that are not there come.

    They are all rows of a larger table if one overflows.

    Raises
    ------
    ValueError
        If an edge that goes is not there.
    """
    count, gone, new = len(rows), _codes(removed), _codes(added)
    blocks = homes(np.concatenate([removed, added]), count)
    codes = _codes(rows[blocks].reshape(blocks.size * ROOM, 2))
    remaining = codes[(codes != 0) & ~np.isin(codes, gone)]
    if remaining.size + gone.size != np.count_nonzero(codes):
        raise ValueError("an edge is missing in its table")
    codes = np.sort(np.concatenate([remaining, new]))
    places = _homes(codes, count)
    if np.bincount(places, minlength=1).max() > ROOM:
        others = np.delete(rows, blocks, axis=0).reshape(-1, 2)
        larger = packed(np.concatenate([others[others.any(axis=1)], _pairs(codes)]), int(GROWTH * count) + 1)
        return np.arange(len(larger)), larger
    return blocks, _rows(codes, places, blocks)


def read(rows: np.ndarray) -> np.ndarray:
    """All edges as an (E, 2) int64 array, the smaller end first.

    Raises
    ------
    ValueError
        If a row is not as :func:`packed` and :func:`changed` write it.
    """
    codes, count = _codes(rows.reshape(-1, 2)), len(rows)
    pairs = _pairs(codes[codes != 0])
    codes = np.unique(_codes(pairs))
    wrong = (pairs < 0).any() or (pairs[:, 0] >= pairs[:, 1]).any() or np.bincount(_homes(codes, count)).max(initial=0) > ROOM
    if wrong or (_rows(codes, _homes(codes, count), np.arange(count)) != rows).any():
        raise ValueError("rows of edges are damaged")
    return pairs


def _homes(codes: np.ndarray, count: int) -> np.ndarray:
    """The row of each edge: bits mixed as in SplitMix64, its upper 32 scaled to the number of rows."""
    code = codes.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        code = (code ^ code >> np.uint64(shift)) * np.uint64(factor)
    code ^= code >> np.uint64(31)
    return ((code >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.int64)


def _codes(pairs: np.ndarray) -> np.ndarray:
    """One number per edge, never zero."""
    return pairs[:, 0].astype(np.int64) << 32 | pairs[:, 1].astype(np.int64) & 0xFFFFFFFF


def _pairs(codes: np.ndarray) -> np.ndarray:
    """Edges of codes, the second end with its sign."""
    return np.stack([codes >> 32, codes.astype(np.int32).astype(np.int64)], axis=1)


def _rows(codes: np.ndarray, places: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Rows of these blocks, from codes in ascending order whose rows are among the blocks; filled up with zeros."""
    rows = np.zeros((blocks.size, ROOM), dtype=np.int64)
    block = np.searchsorted(blocks, places)
    order = np.argsort(block, kind="stable")
    lengths = np.bincount(block, minlength=blocks.size)
    rows[block[order], np.arange(codes.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)] = codes[order]
    return _pairs(rows.ravel()).astype(END).reshape(blocks.size, 2 * ROOM)
