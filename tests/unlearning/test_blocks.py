"""Edges in rows of one size: a set of pairs, whose bytes tell nothing of what was there before."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from nareg._storage.checksums import checksums
from nareg.unlearning.store import edge_table


def connected(path=":memory:"):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript("PRAGMA secure_delete=ON;" + edge_table.TABLE)
    return connection


def some_pairs(count, n, rng):
    ends = np.sort(rng.integers(n, size=(4 * count, 2)), axis=1)
    return rng.permutation(np.unique(ends[ends[:, 0] < ends[:, 1]], axis=0))[:count].astype(np.int64)


def stored_edges(connection):
    return {tuple(pair) for pair in edge_table.read(connection).tolist()}


@pytest.mark.parametrize("room", [4, edge_table.ROOM])
def test_a_set_of_pairs(room, rng, monkeypatch):
    monkeypatch.setattr(edge_table, "ROOM", room)
    pairs, connection = some_pairs(3000, 2**31 - 1, rng), connected()
    edge_table.fill(connection, pairs[:1000])
    (before,) = connection.execute("SELECT count(*) FROM edges").fetchone()
    here = {tuple(pair) for pair in pairs[:1000].tolist()}
    assert stored_edges(connection) == here
    for k in range(20):  # grows to three times what there was room for
        gone = rng.permutation(np.array(sorted(here)))[:50]
        new = pairs[1000 + 100 * k : 1100 + 100 * k]
        edge_table.change(connection, gone, new)
        here = here - {tuple(pair) for pair in gone.tolist()} | {tuple(pair) for pair in new.tolist()}
        assert stored_edges(connection) == here
    (after,) = connection.execute("SELECT count(*) FROM edges").fetchone()
    assert after > before
    assert {size for (size,) in connection.execute("SELECT length(pairs) FROM edges")} == {8 * room + 8}
    edge_table.change(connection, np.array(sorted(here)), pairs[:0])
    assert stored_edges(connection) == set()


@pytest.mark.slow
@pytest.mark.parametrize(("count", "more"), [(300, 40), (4000, 200)])
def test_the_bytes_are_those_of_what_is_there(count, more, rng, tmp_path):
    """Added and removed again, in another order: the same file but for what counts changes."""
    pairs = some_pairs(count + more, 10**6, rng)
    files = []
    for extra in (pairs[:0], pairs[count:]):
        path = tmp_path / f"{len(extra)}"
        connection = connected(path)
        edge_table.fill(connection, pairs[:count])
        for some in np.array_split(rng.permutation(extra), 7):
            edge_table.change(connection, pairs[:0], some)
        for some in np.array_split(rng.permutation(extra), 11):
            edge_table.change(connection, some, pairs[:0])
        connection.close()
        files.append(path.read_bytes())
    assert len(files[0]) == len(files[1])
    assert files[0][100:] == files[1][100:]


def test_damage_is_noticed(rng):
    pairs = some_pairs(500, 10**6, rng)

    def sign(row):
        return np.where(np.arange(row.size) == 1, -row, row)

    def twice(row):
        return np.concatenate([row[:2], row[:2], row[4:]])

    def gap(row):
        return np.where(np.arange(row.size) // 2 == 1, 0, row)

    def elsewhere(row):
        for more in range(1, 100):
            new = row.reshape(-1, 2) + [[-more, 0]] * (np.arange(row.size // 2) == 0)[:, None]
            if new[0, 0] >= 0 and edge_table._homes(edge_table._codes(new[:1]), 3) != 1:
                return new
        raise AssertionError

    for damaged in (sign, twice, gap, elsewhere, lambda row: row[:-2]):
        connection = connected()
        edge_table.fill(connection, pairs)
        (row,) = connection.execute("SELECT pairs FROM edges WHERE block = 1").fetchone()
        new = damaged(np.frombuffer(row[:-8], dtype="<i4")).astype("<i4")
        new = new.tobytes() + (~checksums(new.reshape(-1).view(np.uint8), np.arange(1), new.nbytes)).tobytes()
        connection.execute("UPDATE edges SET pairs = ? WHERE block = 1", (new,))
        with pytest.raises(sqlite3.DatabaseError, match="damaged"):
            edge_table.read(connection)
        connection.execute("UPDATE edges SET pairs = ? WHERE block = 1", (row[:9] + bytes([row[9] ^ 4]) + row[10:],))
        with pytest.raises(sqlite3.DatabaseError, match="checksum"):
            edge_table.read(connection)
    connection.execute("DELETE FROM edges WHERE block = 1")
    with pytest.raises(sqlite3.DatabaseError, match="missing"):
        edge_table.read(connection)


def test_pages_of_a_table_that_was_enlarged_are_zeroed(rng, tmp_path):
    pairs = some_pairs(4000, 10**6, rng)
    connection = connected(tmp_path / "edges")
    edge_table.fill(connection, pairs[:2000])
    edge_table.change(connection, pairs[:0], pairs[2000:])
    edge_table.change(connection, pairs, pairs[:0])
    assert stored_edges(connection) == set()
    connection.close()
    bytes_ = (tmp_path / "edges").read_bytes()
    assert not any(pair.astype("<i4").tobytes() in bytes_ for pair in pairs)


def test_an_edge_that_is_not_there_is_no_database(rng):
    connection = connected()
    edge_table.fill(connection, np.array([[0, 1], [2, 5]]))
    with pytest.raises(sqlite3.DatabaseError, match="an edge is missing"):
        edge_table.change(connection, np.array([[0, 2]]), np.empty((0, 2), dtype=np.int64))


def test_rows_are_filled_evenly():
    """Neighbors of a hub, and of one node after another."""
    for pairs in (
        np.stack([np.zeros(100_000, dtype=np.int64), np.arange(1, 100_001)], axis=1),
        np.stack([np.arange(100_000), np.arange(1, 100_001)], axis=1),
    ):
        counts = np.bincount(edge_table._homes(edge_table._codes(pairs), 600), minlength=600)
        assert counts.size == 600
        assert abs(counts - counts.mean()).max() < 6 * np.sqrt(counts.mean())
