from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg._core.neighbors import great_circle_km
from nareg.errors import InputError


def random_adjacency(seed: int, n: int = 12) -> np.ndarray:
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.4), 1)
    return A + A.T


@pytest.mark.slow
@given(st.integers(0, 10_000))
def test_laplacians_are_psd_and_follow_their_definitions(seed):
    A = random_adjacency(seed)
    g = nareg.Graph(A)
    d = A.sum(axis=1)
    np.testing.assert_allclose(g.laplacian().toarray(), np.diag(d) - A, atol=1e-15)
    scale = np.where(d > 0, 1 / np.sqrt(np.where(d > 0, d, 1)), 0)
    normalized = np.diag((d > 0).astype(float)) - scale[:, None] * A * scale
    np.testing.assert_allclose(g.laplacian("normalized").toarray(), normalized, atol=1e-15)
    assert np.linalg.eigvalsh(g.laplacian().toarray())[0] > -1e-12
    x = np.random.default_rng(seed).standard_normal(len(A))
    assert x @ g.laplacian() @ x == pytest.approx(0.5 * np.sum(A * (x[:, None] - x) ** 2))


def test_graph_is_frozen_and_does_not_share_memory_with_its_input():
    A = random_adjacency(0)
    original = A.copy()
    g = nareg.Graph(A)
    A[0, 1] = A[1, 0] = 99.0
    np.testing.assert_array_equal(g.adjacency.toarray(), original)
    for matrix in (g.adjacency, g.laplacian(), g.laplacian("normalized")):
        with pytest.raises(ValueError, match="read-only"):
            matrix.data[0] = 1.0
    with pytest.raises(AttributeError):
        g.adjacency = g.adjacency


def test_sparse_input_is_copied_and_stays_writable():
    A = sp.csr_matrix(random_adjacency(1))
    nareg.Graph(A)
    A.data[0] = 5.0


def test_stored_zeros_are_no_edges():
    A = sp.csr_array((np.array([1.0, 1.0, 0.0, 0.0]), ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(3, 3))
    g = nareg.Graph(A)
    assert (g.n_edges, g.is_connected) == (1, False)
    assert g.components.tolist() == [0, 0, 1]


def test_narrow_integers_do_not_overflow():
    twice = sp.coo_array((np.array([200, 200, 100, 100], np.uint8), ([0, 1, 0, 1], [1, 0, 1, 0])), shape=(2, 2))
    assert nareg.Graph(twice).adjacency[0, 1] == 300
    nodes = nareg.graphs.grid((20, 20)).subgraph(np.array([1, 2, 3], np.uint8))
    assert nodes.n_nodes == 3
    ends = np.array([[0, 200], [200, 0]], np.uint8)
    assert nareg.Graph.from_edge_index(ends, n_nodes=300).n_edges == 1


def test_components_cannot_be_changed():
    g = nareg.graphs.grid((3, 3))
    with pytest.raises(ValueError, match="read-only"):
        g.components[0] = 1


@pytest.mark.parametrize(
    ("adjacency", "words"),
    [
        ([[0, 1], [2, 0]], r"adjacency\[0, 1\] differs from its mirror"),
        ([[0, -1], [-1, 0]], r"adjacency\[0, 1\] is -1"),
        ([[1, 0], [0, 0]], r"adjacency\[0, 0\] is 1: self-loops"),
        ([[0, np.nan], [np.nan, 0]], r"adjacency\[0, 1\] is nan"),
        (sp.csr_array([[0, np.inf], [np.inf, 0]]), r"adjacency\[0, 1\] is inf"),
        ([[0, 1], [1 + 2**-39, 0]], r"adjacency\[0, 1\] differs from its mirror by 1.81899e-12: "),
        (np.zeros((0, 0)), "adjacency is empty"),
        (np.zeros((2, 3)), "must be square"),
        ([[0, 1j], [1j, 0]], r"complex128.*pass adjacency.real, then adjacency.imag"),
        (None, "adjacency is None: pass real numbers"),
        ([[0, 1e308], [1e308, 0]], r"adjacency\[0, 1\] is 1e\+308: degrees would overflow; divide all weights"),
        (sp.csr_array([[0, 1j], [1j, 0]]), "complex"),
        ([["a", "b"], ["c", "d"]], "dtype"),
    ],
)
def test_bad_adjacency_is_named(adjacency, words):
    with pytest.raises(InputError, match=words):
        nareg.Graph(adjacency)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"names": ["a"]}, "names has 1 entries"),
        ({"names": ["a", "a", "b"]}, "'a' more than once"),
        ({"names": [1, 2, 3]}, "names must be strings"),
        ({"coordinates": [[0.0, 1.0]]}, "coordinates has 1 rows"),
        ({"coordinates": [[0.0, 1.0], [np.nan, 0], [0, 0]]}, r"coordinates\[1, 0\] is nan"),
    ],
)
def test_bad_names_and_coordinates_are_named(arguments, words):
    with pytest.raises(InputError, match=words):
        nareg.Graph(random_adjacency(0, 3), **arguments)


def test_knn_matches_brute_force(rng):
    points = rng.random((40, 2))
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    g = nareg.Graph.from_knn(points, 4)
    nearest = np.argsort(distance + np.diag(np.full(40, np.inf)), axis=1)[:, :4]
    joined = np.zeros((40, 40), bool)
    joined[np.arange(40)[:, None], nearest] = True
    joined |= joined.T
    np.testing.assert_array_equal(g.adjacency.toarray() > 0, joined)
    scale = np.take_along_axis(distance, nearest, axis=1).mean()
    expected = np.where(joined, np.exp(-((distance / scale) ** 2)), 0)
    np.testing.assert_allclose(g.adjacency.toarray(), expected, rtol=1e-12)


def test_knn_self_tuning_and_callable_kernels(rng):
    points = rng.random((30, 2))
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    local = np.sort(distance, axis=1)[:, 5]
    A = nareg.Graph.from_knn(points, 5, kernel="self-tuning").adjacency.toarray()
    i, j = np.nonzero(A)
    np.testing.assert_allclose(A[i, j], np.exp(-(distance[i, j] ** 2) / (local[i] * local[j])), rtol=1e-10)
    A = nareg.Graph.from_knn(points, 5, kernel=lambda d: 1 / (1 + d)).adjacency.toarray()
    i, j = np.nonzero(A)
    np.testing.assert_allclose(A[i, j], 1 / (1 + distance[i, j]), rtol=1e-12)


@pytest.mark.parametrize("settings", [{}, {"scale": 0.3}, {"kernel": "self-tuning"}, {"kernel": lambda d: 1 / (1 + d)}])
def test_distances_give_the_graph_of_their_coordinates(rng, settings):
    points = rng.random((40, 3))
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    names = [f"s{i}" for i in range(40)]
    g = nareg.Graph.from_distances(distances, 5, names=names, **settings)
    expected = nareg.Graph.from_knn(points, 5, **settings).adjacency
    np.testing.assert_array_equal(g.adjacency.indices, expected.indices)
    np.testing.assert_allclose(g.adjacency.data, expected.data, rtol=1e-12)
    assert (g.coordinates, g.names) == (None, tuple(names))


@pytest.mark.parametrize(
    ("distances", "k", "words"),
    [
        (np.zeros((2, 3)), 1, r"distances has shape \(2, 3\): pass an \(N, N\) matrix"),
        (np.zeros((1, 1)), 1, "at least two nodes"),
        ([[0, 1], [1, 0]], 2, "k is 2 but there are 2 nodes: choose k from 1 to 1"),
        ([[0, -1], [-1, 0]], 1, r"distances\[0, 1\] is -1: a distance is not negative"),
        ([[0, 1], [1, 0.5]], 1, r"distances\[1, 1\] is 0.5: a node is at distance 0 from itself"),
        ([[0, 1], [2, 0]], 1, r"distances\[0, 1\] is 1: the matrix must be symmetric"),
        ([[0, np.inf], [np.inf, 0]], 1, "inf"),
    ],
)
def test_what_is_no_matrix_of_distances_is_refused(distances, k, words):
    with pytest.raises(InputError, match=words):
        nareg.Graph.from_distances(distances, k)


def test_great_circle_distances_against_known_ones():
    # Paris, New York, and a point on the other side of Paris
    lat, lon = np.array([48.8566, 40.7128, -48.8566]), np.array([2.3522, -74.0060, 2.3522 - 180])
    d = great_circle_km(lat, lon)
    assert d[0, 1] == pytest.approx(5837, abs=5)
    assert d[0, 2] == pytest.approx(np.pi * 6371.0088, rel=1e-6)


def test_knn_on_the_sphere_crosses_the_date_line():
    points = [[0.0, 179.9], [0.0, -179.9], [0.0, 170.0], [0.0, -170.0]]
    A = nareg.Graph.from_knn(points, 1, metric="haversine").adjacency
    assert A[0, 1] > 0


def test_coincident_points_are_joined_with_weight_one():
    g = nareg.Graph.from_knn(np.zeros((5, 2)), 2)
    assert set(g.adjacency.data) == {1.0}
    assert g.adjacency.diagonal().max() == 0
    assert (np.diff(g.adjacency.indptr) >= 2).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"k": 0}, "k is 0"),
        ({"k": 5}, "choose k from 1 to 4"),
        ({"k": 2.5}, "an integer"),
        ({"k": 2, "metric": "cosine"}, "choose one of"),
        ({"k": 2, "kernel": "box"}, "choose one of"),
        ({"k": 2, "scale": 0.0}, "scale is 0"),
        ({"k": 2, "scale": 1e-9}, "choose a larger scale"),
        ({"k": 2, "kernel": lambda d: -d}, "kernel gives weight"),
        ({"k": 2, "kernel": lambda d: d[:1]}, "kernel returned shape"),
    ],
)
def test_bad_knn_arguments_are_named(arguments, words):
    with pytest.raises(InputError, match=words):
        nareg.Graph.from_knn(np.random.default_rng(0).random((5, 2)), **arguments)


def test_swapped_latitude_and_longitude_are_noticed():
    with pytest.raises(InputError, match=r"coordinates\[0, 0\] is -122, not a latitude"):
        nareg.Graph.from_knn([[-122.0, 40.0], [-121.0, 40.0]], 1, metric="haversine")


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_networkx_round_trip_is_exact(seed, named, placed):
    A = random_adjacency(seed, 7)
    g = nareg.Graph(
        A,
        names=[f"s{i}" for i in range(7)] if named else None,
        coordinates=np.random.default_rng(seed).random((7, 2)) if placed else None,
    )
    back = nareg.Graph.from_networkx(g.to_networkx())
    assert back == g
    assert (back.names, back.hash) == (g.names, g.hash)


@given(st.integers(0, 10_000))
def test_edge_index_round_trip_is_exact(seed):
    g = nareg.Graph(random_adjacency(seed, 9))
    index, weight = g.to_edge_index()
    assert (index.dtype, index.shape) == (np.int64, (2, 2 * g.n_edges))
    assert nareg.Graph.from_edge_index(index, n_nodes=9, edge_weight=weight) == g


class TestFramesOfPandas:
    """What is named has names, and no order of columns gives other numbers."""

    A = np.array([[0.0, 2, 0], [2, 0, 1], [0, 1, 0]])
    frame = pd.DataFrame(A, index=list("abc"), columns=list("abc"))

    @pytest.mark.parametrize("order", ["abc", "cab"])
    def test_an_adjacency_names_its_nodes(self, order):
        graph = nareg.Graph(self.frame[list(order)])
        assert graph == nareg.Graph(self.A, names=["a", "b", "c"])
        y = np.array([1.0, 5.0, -2.0])
        expected = np.linalg.solve(np.eye(3) + graph.laplacian().toarray(), y)
        x = nareg.filters.denoise(graph, 1.0, pd.DataFrame([y], columns=list("abc"))[list(order)]).x
        np.testing.assert_allclose(x[list("abc")].to_numpy()[0], expected)

    def test_names_that_are_given_and_labels_that_are_none(self):
        assert nareg.Graph(self.frame, names=["x", "y", "z"]).names == ("x", "y", "z")
        assert nareg.Graph(pd.DataFrame(self.A)).names is None
        numbered = self.frame.set_axis([3, 5, 7]).set_axis([3, 5, 7], axis=1)
        assert nareg.Graph(numbered[[7, 3, 5]]) == nareg.Graph(self.A)
        assert nareg.Graph(self.frame > 0).adjacency.toarray().tolist() == (self.A > 0).tolist()
        assert nareg.Graph(self.frame.set_axis(range(3), axis=1)).names == ("a", "b", "c")

    def test_distances_and_places_do_too(self):
        distances = pd.DataFrame(np.abs(np.subtract.outer(range(3), range(3))), index=list("abc"), columns=list("abc"))
        assert nareg.Graph.from_distances(distances[list("bca")], 1) == nareg.Graph.from_distances(
            distances.to_numpy(), 1, names=list("abc")
        )
        places = pd.DataFrame({"lat": [50.0, 51, 52], "lon": [1.0, 2, 3]}, index=list("abc"))
        graph = nareg.Graph.from_knn(places, 1, metric="haversine")
        assert graph == nareg.Graph.from_knn(places.to_numpy(), 1, metric="haversine", names=list("abc"))

    def test_a_mask_of_nodes_may_be_in_any_order(self):
        graph = nareg.Graph(self.frame)
        mask = pd.Series([True, False, True], index=list("cab"))  # stations c and b
        assert graph.subgraph(mask).names == ("b", "c")
        assert graph.subgraph(mask.to_numpy()).names == ("a", "c")
        assert nareg.Graph(self.A).subgraph(mask).adjacency.toarray().tolist() == [[0, 0], [0, 0]]

    def test_what_does_not_fit_is_named(self):
        with pytest.raises(InputError, match="adjacency has a row or a column 'c', but not one of each"):
            nareg.Graph(self.frame.set_axis(list("abd"), axis=1))
        places = pd.DataFrame({"Longitude": [1.0, 2, 3], "Latitude": [50.0, 51, 52]})
        with pytest.raises(InputError, match="columns 'Longitude', 'Latitude': pass latitude first"):
            nareg.Graph.from_knn(places, 1, metric="haversine")


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("layout", ["to_dense", "to_sparse_coo", "to_sparse_csr"])
def test_an_adjacency_may_be_a_torch_tensor(layout):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    g = nareg.graphs.grid((3, 2))
    adjacency = getattr(torch.from_numpy(g.adjacency.toarray()), layout)()
    assert nareg.Graph(adjacency).hash == g.hash


def test_edge_index_takes_torch_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    g = nareg.Graph(random_adjacency(3))
    index, weight = map(torch.from_numpy, g.to_edge_index())
    assert nareg.Graph.from_edge_index(index, n_nodes=g.n_nodes, edge_weight=weight) == g


@pytest.mark.parametrize("kind", ["normalized", "augmented"])
def test_laplacians_are_those_of_their_formulas(kind, rng):
    A = np.triu(rng.random((6, 6)) * (rng.random((6, 6)) < 0.5), 1)
    A[:, 5] = 0.0  # an isolated node
    A = A + A.T
    loops = A + np.eye(6) * (kind == "augmented")
    half = np.diag([1 / np.sqrt(d) if d else 0.0 for d in loops.sum(axis=1)])
    expected = np.diag((loops.sum(axis=1) > 0).astype(float)) - half @ loops @ half
    result = nareg.Graph(A).laplacian(kind)
    np.testing.assert_allclose(result.toarray(), expected, rtol=1e-14, atol=1e-15)
    assert not result.toarray()[5].any()


def test_the_random_walk_laplacian_follows_its_formula_and_is_refused_by_filters(rng):
    A = np.triu(rng.random((6, 6)) * (rng.random((6, 6)) < 0.7), 1)
    A[:, 5] = 0.0  # an isolated node
    A = A + A.T
    degrees = A.sum(axis=1)
    expected = np.diag((degrees > 0).astype(float))
    expected[:5] -= A[:5] / degrees[:5, None]
    g = nareg.Graph(A)
    L = g.laplacian("random-walk")
    np.testing.assert_allclose(L.toarray(), expected, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(L @ np.ones(6), 0.0, atol=1e-14)
    values = np.sort(np.linalg.eigvals(L.toarray()).real)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(g.laplacian("normalized").toarray()), atol=1e-12)
    with pytest.raises(InputError, match=r"laplacian\('normalized'\) in place of the random-walk Laplacian"):
        nareg.filters.denoise(L, 1.0, np.ones(6))


@pytest.mark.parametrize("library", ["networkx", "pygsp"])
def test_a_graph_of_another_library_is_refused_with_its_converter(library):
    pytest.importorskip(library, reason=f"{library} is not installed")
    theirs = getattr(nareg.graphs.grid((3,)), f"to_{library}")()
    with pytest.raises(InputError, match=f"adjacency is a graph of {library}: convert it with nareg.Graph.from_{library}."):
        nareg.Graph(theirs)


def test_a_pygsp_graph_with_another_laplacian_is_refused(rng):
    pygsp = pytest.importorskip("pygsp", reason="PyGSP is not installed")
    there = pygsp.graphs.Graph(nareg.graphs.grid((3, 3)).adjacency.toarray(), lap_type="normalized")
    with pytest.raises(InputError, match=r"lap_type='normalized'.*pass graph\.L"):
        nareg.Graph.from_pygsp(there)
    nareg.filters.denoise(there.L, 1.0, rng.standard_normal(9))  # the remedy


def test_pygsp_round_trip_is_exact(rng):
    pytest.importorskip("pygsp", reason="PyGSP is not installed")
    g = nareg.graphs.sensor(25, rng=rng)
    there = g.to_pygsp()
    np.testing.assert_allclose(there.L.toarray(), g.laplacian().toarray(), atol=1e-12)
    assert nareg.Graph.from_pygsp(there) == g


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"edge_index": [[0, 1], [1, 0], [0, 0]]}, "edge_index has shape"),
        ({"edge_index": [[0.0, 1.0], [1.0, 0.0]]}, "integers"),
        ({"edge_index": np.zeros((2, 0), int)}, "pass n_nodes"),
        ({"edge_index": [[0, -1], [-1, 0]]}, "node indices start at 0"),
        ({"edge_index": [[0, 5], [5, 0]], "n_nodes": 3}, "node 5, out of range: there are 3 nodes"),
        ({"edge_index": [[0, 1, 1], [1, 0, 2]]}, "edge from node 1 to 2 but none back: list both .*to_undirected"),
        ({"edge_index": [[0, 1], [1, 0]], "edge_weight": [1.0, 2.0]}, "differs from its mirror"),
        ({"edge_index": [[0, 1, 0, 1], [1, 0, 1, 0]]}, "lists an edge twice"),
        ({"edge_index": [[0, 1], [1, 0]], "edge_weight": [1.0]}, "edge_weight has 1 entries"),
        ({"edge_index": [[1], [1]]}, "self-loop at node 1: leave self-loops out .*remove_self_loops"),
    ],
)
def test_bad_edge_index_is_named(arguments, words):
    with pytest.raises(InputError, match=words):
        nareg.Graph.from_edge_index(**arguments)


def test_directed_and_multi_graphs_are_refused():
    nx = pytest.importorskip("networkx")
    for graph in (nx.DiGraph([(0, 1)]), nx.MultiGraph([(0, 1), (0, 1)])):
        with pytest.raises(InputError, match="directed or multigraph"):
            nareg.Graph.from_networkx(graph)
    with pytest.raises(InputError, match="no nodes"):
        nareg.Graph.from_networkx(nx.Graph())


def test_subgraph_keeps_names_and_coordinates(rng):
    g = nareg.Graph.from_knn(rng.random((10, 2)), 3, names=list("abcdefghij"))
    part = g.subgraph(np.arange(10) % 2 == 0)
    assert part.names == ("a", "c", "e", "g", "i")
    np.testing.assert_array_equal(part.adjacency.toarray(), g.adjacency.toarray()[::2, ::2])


def test_hash_depends_on_weights_only(rng):
    A = random_adjacency(5)
    assert nareg.Graph(A).hash == nareg.Graph(sp.coo_array(A), names=[str(i) for i in range(12)]).hash
    assert nareg.Graph(A).hash != nareg.Graph(2 * A).hash


def test_copies_and_pickles_cannot_be_changed_either():
    """scikit-learn's clone copies its parameters deeply, joblib pickles them."""
    graph = nareg.Graph([[0, 2.0], [2.0, 0]], coordinates=[[1.0, 2.0], [3.0, 4.0]], names=["a", "b"], metric="haversine")
    assert copy.deepcopy(graph) is graph
    again = pickle.loads(pickle.dumps(graph))
    assert again == graph
    with pytest.raises(ValueError, match="read-only"):
        again.adjacency.data[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        again.coordinates[0] = 0.0
