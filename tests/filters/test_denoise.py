from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg.errors import DivergentMethodError, InputError, SingularSystemError, TooLargeError
from nareg.filters import denoise, interpolate, uncertainty
from nareg.results import Status
from tests.helpers import dense_filter

ITERATIVE = ("cg", "multigrid", "jacobi", "chebyshev")


@pytest.mark.slow
@given(st.integers(0, 10_000), st.floats(-3, 3), st.booleans())
def test_filter_is_linear_and_keeps_the_mean_for_one_weight(seed, log_weight, columns):
    rng = np.random.default_rng(seed)
    g = nareg.graphs.erdos_renyi(12, 0.5, rng=rng)
    y, z = rng.standard_normal((2, 12, 3) if columns else (2, 12))
    w = 10**log_weight
    x = denoise(g, w, y).x
    np.testing.assert_allclose(denoise(g, w, 2 * y - z).x, 2 * x - denoise(g, w, z).x, atol=1e-6)
    np.testing.assert_allclose(x.mean(axis=0), y.mean(axis=0), atol=1e-6)


def test_zero_weights_return_the_readings_and_node_with_zero_weight_is_left_alone(us, rng):
    y = rng.standard_normal(us.n_nodes)
    w = rng.random(us.n_nodes) + 0.5
    w[::3] = 0.0
    for method in ("direct", *ITERATIVE):
        np.testing.assert_allclose(denoise(us.graph, 0.0, y, method=method).x, y, atol=1e-12)
        x = denoise(us.graph, w, y, method=method, tol=1e-12).x
        np.testing.assert_allclose(x[::3], y[::3], atol=1e-9)
        np.testing.assert_allclose(x, dense_filter(us.graph, w) @ y, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["direct", "cg", "jacobi"])
def test_dtype_and_shape_are_kept_and_input_is_untouched(us, dtype, method, rng):
    for shape in ((us.n_nodes,), (us.n_nodes, 1), (us.n_nodes, 4)):
        y = rng.standard_normal(shape).astype(dtype)
        w = rng.random(us.n_nodes)
        original = y.copy(), w.copy()
        x = denoise(us.graph, w, y, method=method).x
        assert (x.dtype, x.shape) == (dtype, shape)
        np.testing.assert_array_equal(y, original[0])
        np.testing.assert_array_equal(w, original[1])


def test_integers_become_float64(us):
    y = np.arange(us.n_nodes)
    assert denoise(us.graph, 1.0, y).x.dtype == np.float64
    np.testing.assert_array_equal(denoise(us.graph, 1, y).x, denoise(us.graph, 1.0, y.astype(float)).x)


def test_zero_columns_do_not_divide_by_zero(us, rng):
    y = rng.standard_normal((us.n_nodes, 3))
    y[:, 1] = 0.0
    for method in ("direct", *ITERATIVE):
        x = denoise(us.graph, 1.0, y, method=method).x
        assert not x[:, 1].any()
        assert np.isfinite(x).all()


def test_user_operator_and_user_matrix(us, rng):
    y = rng.standard_normal(us.n_nodes)
    L = us.graph.laplacian()
    squared = sp.csr_array(L @ L)
    reference = np.linalg.solve(np.eye(us.n_nodes) + 0.25 * squared.toarray(), y)
    for method in ("direct", "cg", "chebyshev", "auto"):
        np.testing.assert_allclose(denoise(squared, 0.5, y, method=method, tol=1e-10).x, reference, atol=1e-6)
        np.testing.assert_allclose(denoise(us.graph, 0.25 * squared, y, method=method, tol=1e-10).x, reference, atol=1e-6)
    # L^2 has positive off-diagonal entries: not diagonally dominant
    with pytest.raises(InputError, match="multigrid"):
        denoise(squared, 0.5, y, method="multigrid")


def test_indefinite_matrix_is_reported_and_not_called_converged(us, rng):
    y = rng.standard_normal(us.n_nodes)
    bad = sp.csr_array(-2.0 * us.graph.laplacian())
    for method in ("direct", "cg", "chebyshev", "jacobi"):
        assert denoise(us.graph, bad, y, method=method).status is Status.INDEFINITE
    # positive definite, but too far from its diagonal for Jacobi
    full = np.full((us.n_nodes, us.n_nodes), 0.9)
    with pytest.raises(DivergentMethodError, match="jacobi"):
        denoise(us.graph, full, y, method="jacobi")


def test_published_recursion_refuses_before_iterating(us, rng):
    calls = []
    with pytest.raises(DivergentMethodError, match=r"\|\|S\|\| = .*use method='jacobi' or 'chebyshev'"):
        denoise(us.graph, 3.0, np.ones(us.n_nodes), method="recursion", progress=calls.append)
    assert not calls
    with pytest.raises(DivergentMethodError, match="data-term"):
        denoise(us.graph, 0.1, np.ones(us.n_nodes), data_weight=np.full(us.n_nodes, 2.0), method="recursion")


def test_published_recursion_would_indeed_diverge(us, rng):
    # the refusal is no formality: ten rounds of (19) with such weights already exceed the readings a millionfold
    S = 9.0 * us.graph.laplacian()
    y = rng.standard_normal(us.n_nodes)
    x = y.copy()
    for _ in range(10):
        x = y - S @ x
    assert np.linalg.norm(x) > 1e6 * np.linalg.norm(y)


def test_rounds_and_messages_are_counted(us, rng):
    y = rng.standard_normal(us.n_nodes)
    for method in ("jacobi", "chebyshev"):
        solution = denoise(us.graph, 1.0, y, method=method)
        assert solution.rounds == solution.iterations == len(solution.residuals) - 1
        assert solution.messages == solution.rounds * 2 * us.graph.n_edges
    assert denoise(us.graph, 1.0, y, method="cg").messages is None


def test_history_ends_at_the_recomputed_residual(us, rng):
    y = rng.standard_normal((us.n_nodes, 4))
    seen: list[nareg.progress.Progress] = []
    solution = denoise(us.graph, 2.0, y, method="cg", tol=1e-9, progress=seen.append)
    assert [report.values["residual"] for report in seen] == solution.residuals.tolist()
    K = np.eye(us.n_nodes) + 4.0 * us.graph.laplacian().toarray()
    true = np.max(np.linalg.norm(y - K @ solution.x, axis=0) / np.linalg.norm(y, axis=0))
    assert solution.residual == pytest.approx(true, rel=1e-6)
    assert solution.residuals[-1] == pytest.approx(true, rel=1e-3)


def test_iteration_limit_is_reported(us, rng):
    y = rng.standard_normal(us.n_nodes)
    for method in ("cg", "jacobi", "chebyshev"):  # multigrid solves 140 nodes on its coarsest level at once
        solution = denoise(us.graph, 30.0, y, method=method, max_iterations=2, tol=1e-12)
        assert solution.status is Status.MAX_ITERATIONS
        assert not solution.status.ok


def test_auto_says_what_it_picked(rng):
    small, large = nareg.graphs.sensor(100, rng=rng), nareg.graphs.sensor(6000, rng=rng)
    assert denoise(small, 1.0, np.ones(100)).method.startswith("direct (auto: 100 nodes)")
    assert denoise(large, 1.0, rng.standard_normal(6000)).method == "cg (auto: 6000 nodes)"
    # smooth large weights: slow for CG
    smooth = 30.0 * (1 + large.coordinates[:, 0]) ** 5
    picked = denoise(large, smooth, rng.standard_normal(6000))
    assert picked.method.startswith("cg, then direct (auto: CG would take some")
    assert picked.status.ok


def test_multigrid_and_factorization_refuse_graphs_that_are_no_mesh(rng):
    g = nareg.graphs.power_law(25_000, rng=rng)
    y = np.ones(g.n_nodes)
    with pytest.raises(InputError, match="not mesh-like"):
        denoise(g, 1.0, y, method="multigrid")
    with pytest.raises(TooLargeError, match="method='direct' could fill 2 GiB"):
        denoise(g, 1.0, y, method="direct")
    assert denoise(g, 30.0, rng.standard_normal(g.n_nodes)).method == "cg (auto: 25000 nodes)"


def test_masks_per_signal_equal_one_solve_each(us, rng):
    seen = rng.random((us.n_nodes, 6)) < 0.7
    y = np.where(seen, us.signals[:, :6], np.nan)
    together = interpolate(us.graph, 1.5, y, seen)
    for t in range(6):
        np.testing.assert_allclose(together.x[:, t], interpolate(us.graph, 1.5, y[:, t], seen[:, t]).x, atol=1e-8)
    assert "6 masks" in together.method


def test_unobserved_component_is_named():
    g = nareg.Graph(np.kron(np.eye(2), np.ones((3, 3)) - np.eye(3)), names=["a", "b", "c", "Oslo", "Bergen", "Narvik"])
    y, seen = np.ones(6), np.array([True, True, False, False, False, False])
    with pytest.raises(SingularSystemError, match=r"3 of 6 nodes: node 3 \('Oslo'\), node 4 \('Bergen'\)"):
        interpolate(g, 1.0, y, seen)
    # a zero weight cuts a node off as surely as a missing edge
    w = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    with pytest.raises(SingularSystemError, match=r"node 2 \('c'\)"):
        interpolate(g, w, y, np.array([True, True, False, True, False, False]))
    # with a penalty that is positive definite by itself there is nothing to refuse
    P = sp.csr_array(np.diag([0.0, 0, 0, 1, 1, 1]) + g.laplacian().toarray())
    np.testing.assert_allclose(interpolate(P, 1.0, y, seen).x[3:], 0.0, atol=1e-12)


def test_isolated_node_is_kept_where_read_and_refused_where_not():
    g = nareg.Graph([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    y = np.array([1.0, 2.0, 7.0])
    assert denoise(g, 2.0, y).x[2] == pytest.approx(7.0)
    with pytest.raises(SingularSystemError, match="node 2"):
        interpolate(g, 2.0, y, np.array([True, True, False]))


@pytest.mark.slow
def test_uncertainty_dense_against_monte_carlo_and_probes(us, rng):
    w = rng.random(us.n_nodes) + 0.5
    noise = rng.random(us.n_nodes)
    exact = uncertainty(us.graph, w, noise=noise)
    H = dense_filter(us.graph, w)
    np.testing.assert_allclose(exact, np.sqrt(np.diag(H @ np.diag(noise) @ H.T)), rtol=1e-10)
    big = nareg.graphs.grid((60, 60))
    estimated = uncertainty(big, 1.0, noise=0.25, n_probes=400, rng=rng)
    # the interior of a grid is homogeneous: compare the mean over the middle with a smaller dense grid's center
    small = uncertainty(nareg.graphs.grid((41, 41)), 1.0, noise=0.25).reshape(41, 41)[20, 20]
    assert estimated.reshape(60, 60)[15:45, 15:45].mean() == pytest.approx(small, rel=0.01)


def test_design_of_another_graph_is_refused(us, rng):
    other = nareg.Graph(2.0 * us.graph.adjacency)
    d = nareg.design.node_invariant(us.graph, rule="gcv", measurements=us.signals[:, :20])
    y = np.ones(us.n_nodes)
    assert denoise(us.graph, d, y).status.ok
    with pytest.raises(InputError, match="another graph"):
        denoise(other, d, y)


def test_design_carries_its_fit(us):
    noise = np.linspace(1, 9, us.n_nodes)
    d = nareg.design.node_invariant(
        us.graph, rule="oracle", signals=us.signals - us.signals.mean(), noise=noise, data_weight="noise"
    )
    y = us.signals[:, 0]
    np.testing.assert_allclose(denoise(us.graph, d, y).x, denoise(us.graph, d.weights, y, data_weight=1 / noise).x)
    np.testing.assert_allclose(denoise(us.graph, d, y, data_weight=np.ones(us.n_nodes)).x, denoise(us.graph, d.weights, y).x)


@pytest.mark.parametrize("weight", [1e-2, 1e-4, 1e-5])
def test_faint_weights_fill_gaps_right(weight):
    """A residual small against the readings is large against the row of an unobserved node: both are tested."""
    g = nareg.graphs.grid((75, 75))
    field = 20 + np.sin(np.arange(5625) / 300)
    seen = np.random.default_rng(0).random(5625) > 0.3
    y = np.where(seen, field, np.nan)
    reference = interpolate(g, weight, y, seen, method="direct").x
    for method in ("auto", "cg", "multigrid", "jacobi"):
        solution = interpolate(g, weight, y, seen, method=method)
        assert solution.status.ok
        np.testing.assert_allclose(solution.x, reference, rtol=1e-5, err_msg=method)


def test_risk_and_uncertainty_refuse_what_cannot_be_solved(us):
    L = us.graph.laplacian()
    for weights in (sp.csr_array(-0.9 * L), 1e9):
        with pytest.raises(SingularSystemError, match="indefinite or too ill-conditioned"):
            uncertainty(us.graph, weights, noise=1.0)
        with pytest.raises(SingularSystemError, match="indefinite or too ill-conditioned"):
            nareg.design.risk(us.graph, weights, signals=us.signals, noise=1.0)


@pytest.mark.parametrize("method", ["direct", "cg", "jacobi", "chebyshev", "auto"])
@pytest.mark.parametrize(
    "S", [[[-1.0, 1.0], [1.0, -1.0]], [[0.0, 2.0], [2.0, 0.0]], [[0, -0.6, -0.6], [-0.6, 0, -0.6], [-0.6, -0.6, 0]]]
)
def test_small_indefinite_systems_never_pass(S, method):
    S = np.array(S)
    g = nareg.Graph(np.ones(S.shape) - np.eye(len(S)))
    assert denoise(g, S, np.ones(len(S)), method=method).status is Status.INDEFINITE


@pytest.mark.slow
def test_multigrid_gives_the_same_numbers_every_time_and_leaves_the_global_random_state(rng):
    g = nareg.graphs.sensor(900, rng=rng)
    y = rng.standard_normal((900, 2))
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    first, second = (nareg.filters.denoise(g, 0.3, y, method="multigrid").x for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
