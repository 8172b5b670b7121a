"""A graph whose edges come and go."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from nareg.errors import InputError
from nareg.unlearning.propagation.dynamic_graph import LiveGraph


@pytest.fixture
def live(rng):
    return LiveGraph(nareg.graphs.erdos_renyi(30, 0.15, rng=rng))


def test_edges_come_and_go_as_in_a_dense_matrix(live, rng):
    dense = live.adjacency().toarray()
    for step in range(200):
        if step % 25 == 0:
            live.add_nodes(2)
            dense = np.pad(dense, (0, 2))
        for value, change in ((1, live.remove), (0, live.add)):
            there = np.argwhere(np.triu(dense == value, 1))
            some = rng.permutation(there)[: rng.integers(0, 5)].astype(np.int64)
            change(some)
            dense[some[:, 0], some[:, 1]] = dense[some[:, 1], some[:, 0]] = 1 - value
        np.testing.assert_array_equal(live.adjacency().toarray(), dense)
        assert live.n_edges == dense.sum() / 2
        np.testing.assert_array_equal(live.degrees, dense.sum(1) + 1)
        assert sorted(live.neighbors_of(3)) == np.flatnonzero(dense[3]).tolist()


def test_a_star_grows_to_a_complete_graph():
    """Every row outgrows its room again and again."""
    live = LiveGraph(nareg.Graph(sp.csr_array((40, 40))))
    for u in range(40):
        live.add(np.array([(u, v) for v in range(u + 1, 40)], dtype=np.int64).reshape(-1, 2))
    np.testing.assert_array_equal(live.adjacency().toarray(), 1 - np.eye(40))


def test_part_of_a_change_is_undone(live):
    before = live.adjacency().toarray()
    removed, added = (
        np.argwhere(np.triu(before)).astype(np.int64)[:4],
        np.argwhere(np.triu(before == 0, 1))[:4].astype(np.int64),
    )
    live.remove(removed[:2])
    live.add(added[:3])
    live.restore(removed, added)
    np.testing.assert_array_equal(live.adjacency().toarray(), before)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 30)], r"edges has \(0, 30\) but nodes are 0 to 29"),
        ([(-1, 3)], r"edges has \(-1, 3\) but nodes are 0 to 29"),
        ([(4, 4)], r"edges has \(4, 4\): a self-loop is not an edge"),
        ([(0, 1), (1, 0)], r"edges has \(0, 1\) twice"),
        ([(0, 1)], r"edges has \(0, 1\), which is not an edge, or was removed before"),
        ([], "edges is empty: pass pairs of nodes"),
        ([(0.0, 1.0)], "pairs of nodes"),
        ([0, 1, 2], "pairs of nodes"),
        ([(0, 1), (2,)], "edges is not an array"),
    ],
)
def test_what_cannot_be_removed_is_refused(edges, message):
    live = LiveGraph(nareg.Graph(sp.csr_array((30, 30))))
    with pytest.raises(InputError, match=message):
        live.checked_pairs("edges", edges, present=True)


def test_what_cannot_be_added_is_refused(live):
    u, v = np.argwhere(live.adjacency().toarray())[0]
    with pytest.raises(InputError, match="which is an edge already"):
        live.checked_pairs("edges", [(u, v)], present=False)
    assert live.checked_pairs("edges", (u, v), present=True).shape == (1, 2)  # a single pair


def test_weights_are_refused():
    with pytest.raises(InputError, match=r"graph has an edge of weight 0.5"):
        LiveGraph(nareg.Graph(np.array([[0, 0.5], [0.5, 0]])))
