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
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from nareg._array_files import NPY_HEADER
from nareg.unlearning.mapped.tables import Table, sync, write_all

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
    with open(path, "wb", buffering=0) as handle:

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
    left, digest = path.stat().st_size - DIGEST, hashlib.sha256()
    with open(path, "rb") as handle:
        while left > 0:
            piece = handle.read(min(left, PIECE))
            digest.update(piece)
            left -= len(piece) or left
        return handle.read(DIGEST) == digest.digest()


def apply(path: Path) -> tuple[dict[str, Any], bool]:
    """Write the rows of a whole journal to the tables beside it, durably.

    Returns the state, and whether reserves and sums are up to date.
    """
    with open(path, "rb") as handle:
        handle.readline()
        header = json.loads(handle.readline())
        for name, row_bytes, n_runs in header["parts"]:
            firsts, lengths = (np.frombuffer(handle.read(8 * n_runs), np.int64).tolist() for _ in range(2))
            table = path.with_name(f"{name}.npy")
            with open(table, "r+b", buffering=0) as target:
                for first, length in zip(firsts, lengths, strict=True):
                    target.seek(NPY_HEADER + first * row_bytes)
                    _copy(handle, target, length * row_bytes)
            sync(table)
    return header["state"], header["up_to_date"]


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
