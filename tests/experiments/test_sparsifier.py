from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import nareg
from experiments import _sparsifier as sparsifier
from experiments._leverage import approximate_scores, effective_dimension, exact_scores
from experiments._sparsifier import sparsify, spectral_error
from nareg.errors import InputError
from nareg.herta._attention import Incidence
from nareg.herta._system import KINDS, System
from tests.helpers import at_night
from tests.herta.helpers import laplacian


def dense_error(L, sparse, lam):
    """Smallest eps of the inequality, from all eigenvalues."""
    eye = np.eye(len(L))
    values = scipy.linalg.eigvalsh(eye + lam * L, eye + lam * sparse)
    return max(values[-1] - 1, 1 - values[0])


@pytest.mark.parametrize("kind", KINDS)
def test_the_incidence_matrix_makes_the_laplacian(kind, rng):
    graph = nareg.Graph.from_knn(rng.random((40, 2)), 4)
    incidence = Incidence.of(graph, kind)
    np.testing.assert_allclose(incidence.laplacian().toarray(), laplacian(graph, kind), atol=1e-12)
    np.testing.assert_allclose((incidence.matrix.T @ incidence.matrix).toarray(), laplacian(graph, kind), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lam", [0.5, 20.0])
def test_scores_are_leverages_and_add_up_to_the_effective_dimension(kind, lam, rng):
    graph = nareg.Graph.from_knn(rng.random((50, 2)), 5)
    incidence = Incidence.of(graph, kind)
    system = System(incidence.laplacian(), lam)
    scores = exact_scores(incidence, system)
    L = laplacian(graph, kind)
    B = incidence.matrix.toarray()
    np.testing.assert_allclose(scores, np.einsum("ei,ij,ej->e", B, np.linalg.inv(L + np.eye(50) / lam), B))
    n_lam = np.trace(L @ np.linalg.inv(L + np.eye(50) / lam))
    assert scores.sum() == pytest.approx(n_lam) == effective_dimension(system, rng=rng)[0]
    assert (scores > 0).all()
    assert (scores <= 1 + 1e-12).all()


def test_projected_scores_are_unbiased_and_near(rng):
    graph = nareg.graphs.power_law(300, mean_degree=8, rng=rng)
    incidence = Incidence.of(graph, "augmented")
    system = System(incidence.laplacian(), 3.0)
    ratio = approximate_scores(incidence, system, rng=rng) / exact_scores(incidence, system)
    low, high = np.quantile(ratio, [0.05, 0.95])
    assert 0.6 < low < 1 < high < 1.5
    many = approximate_scores(incidence, system, rng=rng, projections=4000) / exact_scores(incidence, system)
    assert abs(many - 1).max() < 0.15


@pytest.mark.parametrize("lam", [2.0, 1e-5])
def test_the_effective_dimension_of_large_graphs_is_estimated_within_its_error(lam, rng):
    graph = nareg.graphs.grid((60, 60))  # above the dense limit
    L = Incidence.of(graph, "combinatorial").laplacian()
    found, error = effective_dimension(System(L, lam), rng=rng)
    waves = 4 * np.sin(np.pi * np.arange(60) / 120) ** 2
    values = waves[:, None] + waves[None, :]
    assert abs(found - (values / (values + 1 / lam)).sum()) < 4 * error < 0.02 * found


def test_an_accuracy_out_of_reach_keeps_the_whole_graph(rng):
    graph = nareg.graphs.erdos_renyi(60, 0.3, rng=rng)
    found = sparsify(graph, lam=1.0, epsilon=1e-9, rng=rng)
    assert (found.n_edges, found.error, found.draws) == (graph.n_edges, 0.0, 0)


@pytest.mark.parametrize(("n", "limit"), [(80, 80), (400, 399)])  # exact, and by projections
@pytest.mark.slow
def test_effective_resistances_are_taken_at_any_lam(n, limit, rng, monkeypatch):
    monkeypatch.setattr(sparsifier.checks, "DENSE_LIMIT", limit)
    graph = nareg.graphs.erdos_renyi(n, 20 / n, rng=rng)
    found = sparsify(graph, lam=1e7, epsilon=0.5, rng=rng, scores="effective-resistance", draws=500, measure=False)
    # of a connected graph they add up to N - 1 (Foster)
    assert found.scores.sum() == pytest.approx(n - 1, rel=0.1)


def test_an_edge_index_may_end_in_isolated_nodes(rng):
    edge_index = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    found = sparsify(edge_index, lam=1.0, epsilon=0.5, rng=rng, n_nodes=6)
    assert found.laplacian.shape == (6, 6)


@pytest.fixture
def lanczos(monkeypatch):
    """Errors by Lanczos of graphs that dense eigenvalues would do for."""
    monkeypatch.setattr(sparsifier, "SMALL", 50)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("small", [1000, 50])  # dense, and Lanczos
@pytest.mark.parametrize("n", [80, 450])
def test_the_measured_error_is_the_true_one(kind, n, small, rng, monkeypatch):
    monkeypatch.setattr(sparsifier, "SMALL", small)
    graph = nareg.graphs.erdos_renyi(n, 40 / n, rng=rng)
    found = sparsify(graph, lam=2.0, epsilon=0.5, rng=rng, kind=kind, draws=4 * graph.n_edges)
    true = dense_error(laplacian(graph, kind), found.laplacian.toarray(), 2.0)
    assert true - 1e-9 <= found.error <= 1.1 * true
    again = spectral_error(Incidence.of(graph, kind).laplacian(), found.laplacian, 2.0, rng=rng)
    assert again == pytest.approx(found.error, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("draws", [0.1, 1.0, 4.0])
def test_large_errors_are_the_true_ones_too(draws, rng, lanczos):
    graph = nareg.graphs.power_law(600, mean_degree=4, rng=rng)
    told = {"lam": 100.0, "epsilon": 0.5, "kind": "augmented", "draws": round(draws * graph.n_edges)}
    found = sparsify(graph, rng=rng, **told)
    true = dense_error(laplacian(graph), found.laplacian.toarray(), 100.0)
    assert true > 4
    assert true * (1 - 1e-9) <= found.error <= 1.01 * true


def bottleneck():
    """A ring of ten cliques, with edges of a hundredth of the weight between them."""
    A = np.kron(np.eye(10), np.ones((45, 45)) - np.eye(45))
    for i in range(10):
        a, b = 45 * i, 45 * ((i + 1) % 10) + 1
        A[a, b] = A[b, a] = 0.01
    return nareg.Graph(A)


def heavy_tailed(n=450):
    rng = np.random.default_rng(7)
    W = np.triu((rng.random((n, n)) < 0.05) * rng.pareto(1.0, (n, n)), 1)
    return nareg.Graph(W + W.T)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [bottleneck, heavy_tailed])
@pytest.mark.parametrize("draws", [0.3, 3.0])
def test_errors_are_the_true_ones_where_little_weight_holds_much_together(make, kind, draws, rng, lanczos):
    graph = make()
    told = {"lam": 1e4, "epsilon": 0.5, "kind": kind, "draws": round(draws * graph.n_edges), "scores": "uniform"}
    found = sparsify(graph, rng=rng, **told)
    true = dense_error(laplacian(graph, kind), found.laplacian.toarray(), 1e4)
    assert found.error == pytest.approx(true, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("scores", ["uniform", "approximate"])
def test_what_is_returned_holds_where_little_weight_holds_much_together(scores, rng, lanczos):
    graph = bottleneck()
    found = sparsify(graph, lam=1e4, epsilon=0.5, kind="combinatorial", scores=scores, rng=rng)
    assert dense_error(laplacian(graph, "combinatorial"), found.laplacian.toarray(), 1e4) <= 0.5 + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("small", "seeds"), [(1000, 40), (50, 20), *at_night([(1000, 200), (50, 60)])]
)  # errors by dense eigenvalues, or by Lanczos
def test_the_error_holds_for_nearly_every_seed(small, seeds, monkeypatch):
    monkeypatch.setattr(sparsifier, "SMALL", small)
    graphs = [nareg.graphs.erdos_renyi(90, 0.5, rng=np.random.default_rng(s)) for s in range(4)]
    held = []
    for seed in range(seeds):
        graph = graphs[seed % 4]
        found = sparsify(graph, lam=1.0, epsilon=0.5, rng=np.random.default_rng(seed))
        held.append(dense_error(laplacian(graph), found.laplacian.toarray(), 1.0) <= 0.5)
        assert found.n_edges < 0.6 * graph.n_edges
    assert np.mean(held) >= 0.95


def test_leverage_finds_the_bridge_that_uniform_sampling_drops():
    """Two cliques joined by one edge, at a large lam: the bridge has a score near one."""
    n = 40
    A = np.kron(np.eye(2), np.ones((n, n)) - np.eye(n))
    A[0, n] = A[n, 0] = 1
    graph = nareg.Graph(A)
    kept = {"exact": 0, "uniform": 0}
    for seed in range(10):
        for scores in kept:
            found = sparsify(
                graph, lam=1e3, epsilon=0.5, rng=np.random.default_rng(seed), kind="combinatorial", scores=scores, draws=600
            )
            kept[scores] += bool(((found.edges[0] == 0) & (found.edges[1] == n)).any())
    assert kept["exact"] == 10 > 6 > kept["uniform"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_edges_and_weights_have_the_right_mean():
    graph = nareg.graphs.erdos_renyi(60, 0.5, rng=np.random.default_rng(0))
    told = {"lam": 1.0, "epsilon": 0.4, "draws": 500}
    first, second = (sparsify(graph, rng=np.random.default_rng(3), **told) for _ in range(2))
    np.testing.assert_array_equal(first.factors, second.factors)
    mean = np.mean([sparsify(graph, rng=np.random.default_rng(s), **told).laplacian.toarray() for s in range(300)], axis=0)
    assert np.linalg.norm(mean - laplacian(graph)) < 0.1 * np.linalg.norm(laplacian(graph))


def test_graphs_without_edges_or_with_few_stay_as_they_are(rng):
    empty = sparsify(nareg.Graph(np.zeros((5, 5))), lam=1.0, epsilon=0.5, rng=rng)
    assert (empty.n_edges, empty.error, empty.effective_dimension) == (0, 0.0, 0.0)
    A = np.zeros((6, 6))
    A[0, 1] = A[1, 0] = A[1, 2] = A[2, 1] = 1  # three isolated nodes
    path = sparsify(nareg.Graph(A), lam=5.0, epsilon=0.2, rng=rng)
    assert (path.n_edges, path.draws, path.error) == (2, 0, 0.0)
    np.testing.assert_allclose(path.laplacian.toarray(), laplacian(nareg.Graph(A)))
    assert "2 of 2 edges (100.0%) after 0 draws" in path.summary()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"lam": 0.0}, "lam is 0.0, it must be above 0"),
        ({"epsilon": 1.0}, "epsilon is 1, it must be below 1"),
        ({"epsilon": -0.1}, "epsilon is -0.1"),
        ({"rng": 0}, "rng is 0, a numpy generator is expected"),
        ({"scores": "random"}, "scores is 'random'; choose one of"),
        ({"kind": "signless"}, "kind is 'signless'; choose one of"),
        ({"draws": 0}, "draws is 0, an integer of at least 1"),
        ({"draws": 10**20}, "draws is 100000000000000000000, an integer of at most"),
        ({"measure": False}, "measure is False but draws is None"),
    ],
)
def test_what_cannot_work_is_refused(told, message):
    with pytest.raises(InputError, match=message):
        sparsify(nareg.graphs.grid((4, 4)), **{"lam": 1.0, "epsilon": 0.5, "rng": np.random.default_rng(0), **told})
