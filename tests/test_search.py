"""Breadth-first search against SciPy's, and what counts as a mesh."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import shortest_path

import nareg
from nareg._solvers import search
from nareg._solvers.system import build, penalty


def random_graph(n, share, seed):
    rng = np.random.default_rng(seed)
    upper = sp.triu(sp.csr_array((rng.random((n, n)) < share) * rng.random((n, n))), 1)
    return sp.csr_array(upper + upper.T)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(2, 30), st.floats(0, 0.3), st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_levels_are_distances_over_entries_that_are_not_zero(n, share, seed, enough):
    A = random_graph(n, share, seed)
    A.data[::3] = 0.0
    A = sp.csr_array((A + A.T) / 2)
    support = A.copy()
    support.eliminate_zeros()
    distance = shortest_path(support, unweighted=True, indices=n // 2)
    reached = distance[np.isfinite(distance)]
    depth, count, last = search.levels(A.indptr, A.indices, A.data, n // 2, enough)
    assert distance[last] == depth
    assert depth == min(enough, int(reached.max()))
    assert count == int((reached <= depth).sum())


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 30), st.floats(0, 0.3), st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_a_ball_holds_the_nearest_nodes_and_then_other_components(n, share, seed, size):
    A = random_graph(n, share, seed)
    nodes = search.ball(A.indptr, A.indices, n // 2, size)
    assert nodes[0] == n // 2
    assert len(set(nodes.tolist())) == nodes.size == min(size, n)
    distance = shortest_path(A, unweighted=True, indices=n // 2)[nodes]
    near = np.isfinite(distance)
    assert (np.diff(distance[near]) >= 0).all()
    if near.sum() < nodes.size:  # another component only once this one is complete
        assert near.sum() == np.isfinite(shortest_path(A, unweighted=True, indices=n // 2)).sum()
        assert near[: near.sum()].all()


@pytest.mark.parametrize(
    ("make", "mesh"),
    [
        (lambda rng: nareg.graphs.grid((70, 60)), True),
        (lambda rng: nareg.graphs.grid((16, 16, 16)), True),
        (lambda rng: nareg.graphs.sensor(4_000, rng=rng), True),
        (lambda rng: nareg.graphs.power_law(4_000, mean_degree=8, rng=rng), False),
        (lambda rng: nareg.graphs.erdos_renyi(4_000, 6 / 4_000, rng=rng), False),
    ],
    ids=["grid", "three dimensions", "nearest neighbors", "power law", "random"],
)
def test_meshes_are_told_from_expanders(make, mesh, rng):
    graph = make(rng)
    assert build(penalty(graph), 1.0, np.ones(graph.n_nodes)).mesh_like is mesh


def test_the_diameter_is_that_of_the_graph(rng):
    for graph in (nareg.graphs.grid((20, 31)), nareg.graphs.grid((7, 8, 9)), nareg.graphs.sensor(400, rng=rng)):
        distance = shortest_path(graph.adjacency, unweighted=True)
        diameter = int(distance[np.isfinite(distance)].max())
        estimate = build(penalty(graph), 1.0, np.ones(graph.n_nodes)).diameter
        assert 0.8 * diameter <= estimate <= diameter
