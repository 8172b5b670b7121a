"""Tables of a store in SQLite: rows of nodes, the model and requests, written in the current transaction."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict
from pathlib import Path

import numpy as np

from nareg._storage.checksums import checksums
from nareg.unlearning.store import edge_table
from nareg.unlearning.store.entries import Entry, StoredSettings, keyed_hash, model_hash

FORMAT = "nareg-unlearning-5"
TABLES = """
PRAGMA secure_delete=ON;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE nodes (node INTEGER PRIMARY KEY, row BLOB NOT NULL);
CREATE TABLE model (one INTEGER PRIMARY KEY CHECK (one = 1), coefficients BLOB NOT NULL, term BLOB NOT NULL);
CREATE TABLE requests (
    number INTEGER PRIMARY KEY, asked TEXT NOT NULL, certificate TEXT NOT NULL, parameters TEXT NOT NULL, digest TEXT NOT NULL
);
"""
#: Rows per write and read.
CHUNK = 4096


def fill(draft: Path, settings: StoredSettings, entry: Entry, secret: bytes) -> None:
    """Make an empty file a store."""
    connection = sqlite3.connect(draft, isolation_level=None)
    try:
        connection.executescript(TABLES + edge_table.TABLE)
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO meta VALUES (?, ?)", [("format", FORMAT), ("settings", json.dumps(settings))])
        connection.execute("INSERT INTO model VALUES (1, ?, ?)", model_row(entry))
        edge_table.fill(connection, entry.added)
        put_nodes(connection, "INSERT INTO nodes (row, node) VALUES (?, ?)", entry)
        sign(connection, secret, entry)
        connection.execute("COMMIT")
    finally:
        connection.close()


def row_type(n_features: int) -> np.dtype[np.void]:
    """Type of the row of a node, with a checksum of the rest of it."""
    kinds = [("sum", "<u8"), ("label", "<i8"), ("trained", "<i4"), ("gone", "<i4"), ("features", "<f8", (n_features,))]
    return np.dtype(kinds)


def sums_of(rows: np.ndarray) -> np.ndarray:
    """Checksums of rows of nodes, whatever they state themselves; a row of zeros has not the checksum zero."""
    size = rows.dtype.itemsize
    data = np.ascontiguousarray(rows).view(np.uint8).reshape(-1, size)[:, 8:]
    return ~checksums(np.ascontiguousarray(data).reshape(-1), np.arange(len(rows)), size - 8)


def model_row(entry: Entry) -> tuple[bytes, bytes]:
    """Coefficients and noise term as they are stored."""
    return entry.coefficients.astype("<f8").tobytes(), entry.term.astype("<f8").tobytes()


def put(connection: sqlite3.Connection, entry: Entry) -> None:
    """Write what a request changes, in the current transaction."""
    edge_table.change(connection, entry.removed, entry.added)
    (count,) = connection.execute("SELECT max(node) + 1 FROM nodes").fetchone()
    new = bool(entry.nodes.size) and int(entry.nodes[0]) >= count
    statement = "INSERT INTO nodes (row, node) VALUES (?, ?)" if new else "UPDATE nodes SET row = ? WHERE node = ?"
    put_nodes(connection, statement, entry)
    connection.execute("UPDATE model SET coefficients = ?, term = ?", model_row(entry))


def put_nodes(connection: sqlite3.Connection, statement: str, entry: Entry) -> None:
    """Write the rows of the nodes that a request changes, in chunks."""
    for first in range(0, entry.nodes.size, CHUNK):
        part = slice(first, first + CHUNK)
        rows = np.empty(entry.nodes[part].size, dtype=row_type(entry.features.shape[1]))
        rows["label"], rows["trained"], rows["gone"] = entry.labels[part], entry.trained[part], entry.gone[part]
        rows["features"] = entry.features[part]
        rows["sum"] = sums_of(rows)
        connection.executemany(
            statement, ((row.tobytes(), node) for row, node in zip(rows, entry.nodes[part].tolist(), strict=True))
        )


def settings_of(connection: sqlite3.Connection) -> str:
    """The settings as JSON; the chain of hashes starts with them."""
    (settings,) = connection.execute("SELECT value FROM meta WHERE name = 'settings'").fetchone()
    return str(settings)


def sign(connection: sqlite3.Connection, key: bytes, entry: Entry) -> None:
    """Write the hashes of a request, chained to the one before."""
    last = connection.execute("SELECT number, digest FROM requests ORDER BY number DESC LIMIT 1").fetchone()
    number, before = (0, settings_of(connection)) if last is None else (last[0] + 1, last[1])
    certificate = json.dumps(None if entry.certificate is None else asdict(entry.certificate.rounded()))
    parameters = model_hash(key, *model_row(entry))
    asked = keyed_hash(key, entry.details)
    digest = keyed_hash(key, before, asked, certificate, parameters)
    connection.execute("INSERT INTO requests VALUES (?, ?, ?, ?, ?)", (number, asked, certificate, parameters, digest))
