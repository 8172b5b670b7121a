"""Edges in rows of one size: a set of pairs, whose bytes tell nothing of what was there before."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.unlearning.store import edge_table

NONE = np.empty((0, 2), dtype=np.int64)


def changed(rows, removed, added):
    """All rows after a change."""
    places, new = edge_table.changed(rows, removed, added)
    after = np.zeros((max(len(rows), places.max(initial=-1) + 1), rows.shape[1]), rows.dtype)
    after[: len(rows)] = rows
    after[places] = new
    return after


def some_pairs(count, n, rng):
    ends = np.sort(rng.integers(n, size=(4 * count, 2)), axis=1)
    return rng.permutation(np.unique(ends[ends[:, 0] < ends[:, 1]], axis=0))[:count].astype(np.int64)


def stored_edges(rows):
    return {tuple(pair) for pair in edge_table.read(rows).tolist()}


@pytest.mark.parametrize("room", [4, edge_table.ROOM])
def test_a_set_of_pairs(room, rng, monkeypatch):
    monkeypatch.setattr(edge_table, "ROOM", room)
    pairs = some_pairs(3000, 2**31 - 1, rng)
    rows = edge_table.packed(pairs[:1000])
    before = len(rows)
    here = {tuple(pair) for pair in pairs[:1000].tolist()}
    assert stored_edges(rows) == here
    for k in range(20):  # grows to three times what there was room for
        gone = rng.permutation(np.array(sorted(here)))[:50]
        new = pairs[1000 + 100 * k : 1100 + 100 * k]
        rows = changed(rows, gone, new)
        here = here - {tuple(pair) for pair in gone.tolist()} | {tuple(pair) for pair in new.tolist()}
        assert stored_edges(rows) == here
    assert len(rows) > before
    assert rows.shape[1:] == (2 * room,)
    assert stored_edges(changed(rows, np.array(sorted(here)), NONE)) == set()


@pytest.mark.slow
@pytest.mark.parametrize(("count", "more"), [(300, 40), (4000, 200)])
def test_the_bytes_are_those_of_what_is_there(count, more, rng):
    """Added and removed again, in another order: the same rows."""
    pairs = some_pairs(count + more, 10**6, rng)
    rows = edge_table.packed(pairs[:count])
    for some in np.array_split(rng.permutation(pairs[count:]), 7):
        rows = changed(rows, NONE, some)
    for some in np.array_split(rng.permutation(pairs[count:]), 11):
        rows = changed(rows, some, NONE)
    np.testing.assert_array_equal(rows, edge_table.packed(pairs[:count]))


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
                return new.ravel()
        raise AssertionError

    for damaged in (sign, twice, gap, elsewhere):
        rows = edge_table.packed(pairs)
        rows[1] = damaged(rows[1])
        with pytest.raises(ValueError, match="damaged"):
            edge_table.read(rows)


def test_a_table_that_was_enlarged_has_nothing_of_the_one_before(rng):
    pairs = some_pairs(4000, 10**6, rng)
    rows = edge_table.packed(pairs[:2000])
    larger = changed(rows, NONE, pairs[2000:])
    assert len(larger) > len(rows)
    rows = changed(larger, pairs, NONE)
    assert stored_edges(rows) == set()
    assert not rows.any()


def test_an_edge_that_is_not_there_is_damage():
    rows = edge_table.packed(np.array([[0, 1], [2, 5]]))
    with pytest.raises(ValueError, match="an edge is missing"):
        edge_table.changed(rows, np.array([[0, 2]]), NONE)


def test_rows_are_filled_evenly():
    """Neighbors of a hub, and of one node after another."""
    for pairs in (
        np.stack([np.zeros(100_000, dtype=np.int64), np.arange(1, 100_001)], axis=1),
        np.stack([np.arange(100_000), np.arange(1, 100_001)], axis=1),
    ):
        counts = np.bincount(edge_table._homes(edge_table._codes(pairs), 600), minlength=600)
        assert counts.size == 600
        assert abs(counts - counts.mean()).max() < 6 * np.sqrt(counts.mean())
