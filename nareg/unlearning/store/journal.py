"""The journal of a request: new values of all changed rows, written before any of them changes in its file.

    line      the name of the format
    line      JSON: the state, whether the embedding is up to date, and per table its name, bytes of a row, and runs
    per table int64 first rows of the runs, int64 lengths, and the rows' bytes
    32 bytes  SHA-256 of everything before

A journal whose hash is right is carried out, as often as it takes; any other was never finished, and is deleted. It holds new
values only, so that nothing of what was removed stays in it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from nareg._storage.array_files import NPY_HEADER
from nareg._storage.files import own_file, sync
from nareg._storage.graph_files import write_all
from nareg.errors import UNREADABLE
from nareg.unlearning.store.table import Table

FORMAT = b"nareg-journal-1\n"
#: Bytes of rows at a time.
PIECE = 2**24
#: Bytes of the hash.
DIGEST = 32


def write(path: Path, tables: Mapping[str, Table], state: dict[str, Any], *, up_to_date: bool) -> None:
    """Write the noted rows of all tables, durably: when this returns the request is carried out."""
    changed = {name: rows for name, table in tables.items() if (rows := table.noted()).size}
    runs = {name: _runs(rows) for name, rows in changed.items()}
    parts = [[name, tables[name].row_bytes, len(firsts)] for name, (firsts, _) in runs.items()]
    digest = hashlib.sha256()
    path.unlink(missing_ok=True)
    with os.fdopen(own_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb", buffering=0) as handle:

        def put(array: np.ndarray) -> None:
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            write_all(handle, np.ascontiguousarray(array))

        text = FORMAT + json.dumps({"state": state, "up_to_date": up_to_date, "parts": parts}).encode() + b"\n"
        put(np.frombuffer(text, np.uint8))
        for name, rows in changed.items():
            for numbers in runs[name]:
                put(numbers)
            step = max(PIECE // tables[name].row_bytes, 1)
            for first in range(0, rows.size, step):
                put(tables[name].array[rows[first : first + step]])
        write_all(handle, np.frombuffer(digest.digest(), np.uint8))
    sync(path)
    sync(path.parent)


def is_whole(path: Path) -> bool:
    """Whether a journal was written to its end."""
    digest = hashlib.sha256()
    with os.fdopen(own_file(path), "rb") as handle:
        left = os.fstat(handle.fileno()).st_size - DIGEST
        while left > 0:
            piece = handle.read(min(left, PIECE))
            digest.update(piece)
            left -= len(piece) or left
        return handle.read(DIGEST) == digest.digest()


@dataclass(frozen=True)
class JournalContent:
    """What a journal says, checked: the state, whether reserves and sums are up to date, and runs of rows of each table."""

    state: dict[str, Any]
    up_to_date: bool
    runs: list[tuple[Table, np.ndarray, np.ndarray]]


def read(path: Path, tables: Mapping[str, Table]) -> JournalContent | None:
    """What a whole journal says, before any of it is carried out; None if it is not one for these tables.

    Its hash has no key: whoever made the folder may have made the journal, too. So it may only change rows that there are.
    """
    try:
        with os.fdopen(own_file(path), "rb") as handle:
            if handle.readline(len(FORMAT)) != FORMAT:
                return None
            header = json.loads(handle.readline())
            parts, runs = header["parts"], []
            size = os.fstat(handle.fileno()).st_size - DIGEST
            for name, row_bytes, n_runs in parts:
                table = tables[name]
                if type(row_bytes) is not int or row_bytes != table.row_bytes or type(n_runs) is not int or n_runs < 0:
                    return None
                if handle.tell() + 16 * n_runs > size:
                    return None
                firsts, lengths = (np.frombuffer(handle.read(8 * n_runs), np.int64) for _ in range(2))
                if not _are_runs(firsts, lengths, table.capacity):
                    return None
                runs.append((table, firsts, lengths))
                handle.seek(int(lengths.sum()) * row_bytes, os.SEEK_CUR)
            if handle.tell() != size or len({part[0] for part in parts}) != len(parts):
                return None
            state, up_to_date = header["state"], header["up_to_date"]
    except UNREADABLE:
        return None
    return JournalContent(state, up_to_date, runs) if isinstance(state, dict) and isinstance(up_to_date, bool) else None


def _are_runs(firsts: np.ndarray, lengths: np.ndarray, capacity: int) -> bool:
    """Whether these are runs of rows in rising order, apart from one another, of so many rows."""
    if firsts.size == 0:
        return True
    if firsts.min() < 0 or lengths.min() < 1 or firsts.max() > capacity or lengths.max() > capacity:
        return False
    ends = firsts + lengths
    return bool((ends[:-1] <= firsts[1:]).all()) and int(ends[-1]) <= capacity


def apply(path: Path, content: JournalContent) -> None:
    """Write the rows of a journal to their tables, durably."""
    with os.fdopen(own_file(path), "rb") as handle:
        for _ in range(2):
            handle.readline()
        for table, firsts, lengths in content.runs:
            handle.seek(16 * firsts.size, os.SEEK_CUR)
            with os.fdopen(own_file(table.path, os.O_RDWR), "r+b", buffering=0) as target:
                for first, length in zip(firsts.tolist(), lengths.tolist(), strict=True):
                    target.seek(NPY_HEADER + first * table.row_bytes)
                    _copy(handle, target, length * table.row_bytes)
            table.sync()


def _copy(source: IO[bytes], target: Any, size: int) -> None:
    while size:
        piece = source.read(min(size, PIECE))
        if not piece:
            raise OSError("the journal is shorter than its hash says")
        write_all(target, np.frombuffer(piece, np.uint8))
        size -= len(piece)


def _runs(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First rows and lengths of the runs of consecutive numbers among rising ones."""
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    starts = np.concatenate([[0], breaks])
    return rows[starts], np.diff(np.concatenate([starts, [rows.size]]))
