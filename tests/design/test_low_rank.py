"""The low-rank solver of (25) and (30): engine, optimum, proof, designs on networks of any size."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from nareg.design import _prony, _relaxation, prony, relaxation
from nareg.design._convex import dual_bound as _dual
from nareg.design._convex import filter_fit as _filter_fit
from nareg.design._convex import low_rank as _low_rank
from nareg.design._convex import quadratic as _quadratic
from nareg.design._risk import descent as _groups
from nareg.design._risk import problem as _problem
from nareg.design._risk import sparse_problem as _sparse
from nareg.errors import InputError, TooLargeError
from nareg.results import Status

SupportQuadratic, Groups = _quadratic.SupportQuadratic, _groups.Groups


def network(n: int, T: int, kind: str = "sensor"):
    rng = np.random.default_rng(n + T)
    random = kind == "random"
    g = nareg.graphs.erdos_renyi(n, 0.3, rng=rng) if random else nareg.Graph.from_knn(rng.random((n, 2)), k=5)
    X = nareg.filters.denoise(g, 3.0, rng.standard_normal((n, T))).x + 0.3 * rng.standard_normal(T)
    return g, 3 * X


def solved(g, X, low, rank=None):
    quadratic = SupportQuadratic(g.laplacian(), X / np.sqrt(X.shape[1]), Groups(None, g.n_nodes))
    high = np.full(g.n_nodes, 1e8)
    return quadratic, _low_rank.minimize(quadratic, low, high, _low_rank.spread(np.sqrt(low), rank))


# -- engine -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [2, 40])
@pytest.mark.parametrize("labels", [None, np.arange(12) % 5])
def test_value_gradient_and_hessian_equal_dense_ones_and_finite_differences(rng, columns, labels):
    g, X = network(12, columns)
    n, L, R = 12, g.laplacian().toarray(), X @ X.T
    B = rng.standard_normal((n, n))
    B += B.T
    groups = Groups(labels, n)
    quadratic = SupportQuadratic(g.laplacian(), X, groups, constant=2.0)
    rows = np.repeat(np.arange(n), np.diff(quadratic.L.indptr))
    quadratic.slope = B[rows, quadratic.L.indices]
    assert (quadratic.blocks is None) == (columns == 2)

    def dense(V):
        nodes = V if labels is None else V[labels]
        S = (nodes @ nodes.T) * L
        return np.trace(S @ R @ S) + 2 * np.sum(B * (S * (L != 0))) + 2.0

    V, D = (rng.standard_normal((groups.count, 3)) for _ in range(2))
    point = quadratic.at(V)
    assert point.value == pytest.approx(dense(V))
    slope = 2 * np.sum(quadratic.apply(point.Y, V) * D)
    assert slope == pytest.approx((dense(V + 1e-6 * D) - dense(V - 1e-6 * D)) / 2e-6, rel=1e-6)
    product = 2 * (quadratic.apply(quadratic.image(V, D), V) + quadratic.apply(point.Y, D))
    after, before = (2 * quadratic.apply(quadratic.at(V + t * D).Y, V + t * D) for t in (1e-6, -1e-6))
    np.testing.assert_allclose(product, (after - before) / 2e-6, rtol=1e-5, atol=1e-6 * np.abs(product).max())


def test_row_curvature_is_the_hessian_of_one_row(rng):
    g, X = network(12, 40)
    quadratic = SupportQuadratic(g.laplacian(), X, Groups(None, 12))
    V, D = rng.standard_normal((12, 3)), np.zeros((12, 3))
    D[4] = rng.standard_normal(3)
    s = quadratic.entries(V, D)
    assert D[4] @ quadratic.row_curvature(V)[4] @ D[4] == pytest.approx(quadratic._image(s)[1])


@pytest.mark.parametrize("low", [np.ones(30), np.r_[np.zeros(10), np.full(10, 0.1), np.full(10, 3.0)]])
def test_no_feasible_omega_is_below_the_dual_bound_and_rows_keep_their_bounds(rng, low):
    g, X = network(30, 50)
    quadratic, result = solved(g, X, np.maximum(low, 1e-3))
    assert result.status is Status.CONVERGED
    assert (np.sum(result.V**2, axis=1) >= np.maximum(low, 1e-3) * (1 - 1e-9)).all()
    for scale in (0.01, 0.3, 2.0):
        V = result.V + scale * rng.standard_normal(result.V.shape)
        V *= np.maximum(1.0, np.sqrt(np.maximum(low, 1e-3)) / np.linalg.norm(V, axis=1))[:, None]
        assert quadratic.at(V).value >= result.bound
    assert result.value - result.bound <= 1e-3 * result.value


def test_a_dual_bound_holds_far_from_the_optimum_too(rng):
    g, X = network(20, 40)
    low, high = np.ones(20), np.full(20, 10.0)
    quadratic, result = solved(g, X, low)
    for _ in range(20):
        V = rng.standard_normal((20, 3)) * 2
        V *= (np.clip(np.linalg.norm(V, axis=1), 1, np.sqrt(10)) / np.linalg.norm(V, axis=1))[:, None]
        point = quadratic.at(V)
        pull = np.einsum("ik,ik->i", point.Y @ V, V) / np.sum(V**2, axis=1)
        poor = _dual.certify(point.Y, point, pull, (low, high), np.ones(20), margin=1e-6, small=1e-7, mesh_like=True)
        assert poor.bound <= result.value


def test_a_start_of_too_low_rank_escapes():
    g, X = network(40, 60)
    low = np.ones(40)
    _, one = solved(g, X, low, rank=1)
    _, many = solved(g, X, low, rank=8)
    assert one.escapes > 0
    assert one.value == pytest.approx(many.value, rel=1e-4)


def test_eigenvalues_and_sparse_factor_prove_the_same(monkeypatch):
    g, X = network(40, 60)
    _, dense = solved(g, X, np.ones(40))
    monkeypatch.setattr(_dual, "DENSE_NODES", 10)
    _, sparse = solved(g, X, np.ones(40))
    assert sparse.certificate.reason == "sparse factor"
    assert sparse.bound == pytest.approx(dense.bound, rel=3e-4)
    monkeypatch.setattr(_dual, "FACTOR_ANY", 10)
    quadratic = SupportQuadratic(g.laplacian(), X, Groups(None, 40))
    none = _low_rank.minimize(quadratic, np.ones(40), np.full(40, 1e8), _low_rank.spread(np.ones(40)), mesh_like=False)
    assert none.bound is None
    assert "no sparse factor" in none.details()["dual_proof"]


# -- against the reference solver -------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "T", "kind"), [(20, 30, "sensor"), (24, 6, "random")])
@pytest.mark.parametrize("data_weight", [None, "noise"])
@pytest.mark.slow
def test_the_optimum_of_prony_is_clarabels_and_the_bound_is_below(n, T, kind, data_weight):
    g, X = network(n, T, kind)
    noise = np.linspace(0.5, 2.0, n)
    fast, sdp = (
        prony(g, signals=X, noise=noise, data_weight=data_weight, solver=s, scale="bound") for s in ("low-rank", "clarabel")
    )
    value = sdp.certificate.relaxed_objective
    details = fast.certificate.details
    assert details["low_rank_objective"] == pytest.approx(value, rel=1e-3)
    assert value * (1 - 1e-3) <= details["dual_bound"] <= value * (1 + 1e-6)
    assert fast.objective <= sdp.objective * (1 + 1e-4)
    assert fast.status is Status.CONVERGED


@pytest.mark.parametrize(("n", "T"), [(20, 30), (24, 6)])
@pytest.mark.parametrize("lower", [None, 0.0])
@pytest.mark.slow
def test_the_optimum_of_the_fit_is_clarabels_and_the_bound_is_below(n, T, lower):
    g, X = network(n, T)
    noise = np.linspace(0.5, 2.0, n)
    fast, sdp = (relaxation(g, signals=X, noise=noise, lower=lower, solver=s) for s in ("closed-form", "clarabel"))
    value = sdp.certificate.relaxed_objective
    details = fast.certificate.details
    assert details["low_rank_objective"] == pytest.approx(value, rel=1e-3)
    assert value * (1 - 1e-3) <= details["dual_bound"] <= value * (1 + 1e-6)
    assert fast.objective <= sdp.objective * (1 + 1e-4)


@pytest.mark.slow
def test_the_optimum_is_clarabels_on_a_real_network(data_root):
    g = nareg.datasets.load("molene", root=data_root).graph
    X = nareg.datasets.load("molene", root=data_root).signals[:, ::7]
    X = X - X.mean()
    noise = float(np.mean(X**2))
    for design in (prony, relaxation):
        fast, sdp = (design(g, signals=X, noise=noise, solver=s) for s in ("auto", "clarabel"))
        value = sdp.certificate.relaxed_objective
        assert fast.certificate.details["low_rank_objective"] == pytest.approx(value, rel=1e-3)
        assert value * (1 - 1e-3) <= fast.certificate.relaxed_objective <= value * (1 + 1e-6)


# -- step one ---------------------------------------------------------------------------------------------


def test_step_one_of_low_rank_equals_the_dense_lyapunov_solution():
    g, X = network(40, 7)
    A = np.zeros((42, 42))
    A[:40, :40] = g.adjacency.toarray()  # and two isolated nodes
    g, X = nareg.Graph(A), np.vstack([X, X[:2]])
    task = _problem.problem(g, signals=X, noise=0.7, needs="test")
    dense = _filter_fit.dense_step_one(task)
    low_rank = _filter_fit.low_rank_step_one(X / np.sqrt(7), 0.7, task.L.diagonal() > 0)
    np.testing.assert_allclose(low_rank.matrix, dense.matrix, atol=1e-10)
    assert low_rank.value == pytest.approx(dense.value, rel=1e-10)
    H = np.eye(42)
    R = task.R[:40, :40]
    H[:40, :40] = R @ np.linalg.inv(R + 0.7 * np.eye(40))
    np.testing.assert_allclose(low_rank.matrix, H, atol=1e-10)
    assert low_rank.constant == pytest.approx(np.sum((H - np.eye(42)) ** 2))


def test_the_fit_by_sparse_products_equals_the_dense_criterion(rng):
    g, X = network(30, 8)
    task = _problem.problem(g, signals=X, noise=np.linspace(0.5, 1.5, 30), needs="test")
    step = _filter_fit.dense_step_one(task)
    ours = _filter_fit.doubled(_filter_fit.fit_quadratic(g.laplacian(), step, Groups(None, 30)))
    reference = _filter_fit.fit_criterion(task.L, step.matrix)
    w = rng.standard_normal(30)
    assert ours(w)[0] == pytest.approx(reference(w)[0])
    np.testing.assert_allclose(ours(w)[1], reference(w)[1], rtol=1e-8, atol=1e-8 * np.abs(ours(w)[1]).max())


# -- the designs ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("data_weight", [None, "noise"])
def test_with_and_without_dense_matrices_prony_is_the_same(monkeypatch, data_weight):
    g, X = network(150, 40)
    noise = np.linspace(0.5, 2.0, 150)
    dense = prony(g, signals=X, noise=noise, data_weight=data_weight)
    monkeypatch.setattr(_prony, "DENSE_NODES", 10)
    sparse = prony(g, signals=X, noise=noise, data_weight=data_weight)
    assert sparse.settings["lower"] == pytest.approx(dense.settings["lower"], rel=1e-6)
    for name in ("low_rank_objective", "objective_before_scaling"):
        assert sparse.certificate.details[name] == pytest.approx(dense.certificate.details[name], rel=1e-3)
    risks = [nareg.design.risk(g, d, signals=X, noise=noise).mse for d in (dense, sparse)]
    assert risks[1] == pytest.approx(risks[0], rel=0.02)  # the scale is chosen by a sampled risk


@pytest.mark.slow
@pytest.mark.parametrize("data_weight", [None, "noise"])
def test_with_and_without_dense_matrices_the_relaxation_is_the_same(monkeypatch, data_weight):
    g, X = network(150, 40)
    noise = 0.5 if data_weight is None else np.linspace(0.5, 2.0, 150)
    dense = relaxation(g, signals=X, noise=noise, data_weight=data_weight)
    monkeypatch.setattr(_relaxation, "DENSE_NODES", 10)
    sparse = relaxation(g, signals=X, noise=noise, data_weight=data_weight)
    assert sparse.certificate.details["symmetric_limit"] == pytest.approx(dense.certificate.details["symmetric_limit"])
    assert sparse.objective == pytest.approx(dense.objective, rel=1e-4)
    assert sparse.certificate.relaxed_objective == pytest.approx(dense.certificate.relaxed_objective, rel=1e-3)


@pytest.mark.nightly
def test_two_thousand_nodes_without_any_dense_matrix():
    g, X = network(2000, 30)
    task = _sparse.sparse_problem(nareg._solvers.system.penalty(g), signals=X, noise=0.5, data_weight=None, needs="test")
    dense = _problem.problem(g, signals=X, noise=0.5, needs="test")
    assert task.published_strength == pytest.approx(dense.published_strength, rel=1e-6)
    d = prony(g, signals=X, noise=0.5)
    assert d.status is Status.CONVERGED
    assert d.certificate.details["gap"] < 1e-3
    assert d.certificate.violation <= 1e-9
    w = d.weights
    dense_value = np.sum(((w[:, None] * dense.L) * w @ X) ** 2) / X.shape[1]
    assert d.objective == pytest.approx(dense_value, rel=1e-8)


@pytest.mark.parametrize("unit", [1e-8, 1e8])
@pytest.mark.parametrize("data_weight", [None, "noise"])
def test_prony_does_not_depend_on_the_unit(unit, data_weight):
    g, X = network(30, 50)
    noise = np.linspace(0.5, 2.0, 30)
    a, b = (prony(g, signals=s * X, noise=s**2 * noise, data_weight=data_weight) for s in (1.0, unit))
    risks = [nareg.design.risk(g, d, signals=s * X, noise=s**2 * noise).nmse for d, s in ((a, 1.0), (b, unit))]
    assert risks[1] == pytest.approx(risks[0], rel=1e-3)
    assert b.certificate.details["gap"] < 1e-3


@pytest.mark.parametrize("design", [prony, relaxation])
def test_groups_share_a_weight_and_the_bound_holds_for_them(design):
    g, X = network(40, 60)
    labels = np.arange(40) // 4
    d = design(g, signals=X, noise=0.5, groups=labels, **({"scale": "bound"} if design is prony else {}))
    for label in range(10):
        assert np.ptp(np.abs(d.weights[labels == label])) == pytest.approx(0, abs=1e-12)
    assert d.status is Status.CONVERGED
    free = design(g, signals=X, noise=0.5, **({"scale": "bound"} if design is prony else {}))
    assert free.certificate.relaxed_objective <= d.certificate.relaxed_objective * (1 + 1e-3) <= d.objective * (1 + 2e-3)
    with pytest.raises(InputError, match="solver='sdp' gives every node its own weight and cannot take groups: use solver="):
        design(g, signals=X, noise=0.5, groups=labels, solver="sdp")


@pytest.mark.slow
@pytest.mark.parametrize("design", [prony, relaxation])
def test_tied_weights_stay_tied_inside_a_weighted_data_term(design):
    g, X = network(40, 60)
    labels, noise = np.arange(40) // 4, np.geomspace(0.05, 5.0, 40)
    free, tied = (design(g, signals=X, noise=noise, data_weight="noise", groups=groups) for groups in (None, labels))
    assert all(np.ptp(tied.weights[labels == label]) == pytest.approx(0, abs=1e-9) for label in range(10))
    assert [d.certificate.details["degrees_of_freedom"] for d in (free, tied)] == [40, 10]
    # one group a node is no tie: the same program in other coordinates
    alone = design(g, signals=X, noise=noise, data_weight="noise", groups=np.arange(40))
    for bound, value in ((free, alone), (alone, free), (free, tied)):
        details = value.certificate.details
        before = value.objective if design is relaxation else details["objective_before_scaling"]
        assert bound.certificate.relaxed_objective <= before * (1 + 1e-9)
    assert alone.certificate.relaxed_objective == pytest.approx(free.certificate.relaxed_objective, rel=2e-3)


@pytest.mark.parametrize("design", [prony, relaxation])
def test_upper_bounds_are_kept_and_interruption_keeps_the_best(design):
    g, X = network(30, 50)
    d = design(g, signals=X, noise=0.5, lower=0.5, upper=2.0)
    assert (d.weights**2 <= 2.0 * (1 + 1e-9)).all()
    assert (d.weights**2 >= 0.5 * (1 - 1e-9)).all()
    assert d.certificate.relaxed_objective <= d.objective * (1 + 1e-9)

    def stop(now):
        if now.step >= 3:
            raise KeyboardInterrupt

    cut = design(g, signals=X, noise=0.5, lower=0.5, progress=stop)
    assert cut.status is Status.INTERRUPTED
    assert np.isfinite(cut.weights).all()


@pytest.mark.slow
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("design", [prony, relaxation])
def test_other_penalties_without_dense_matrices(design, power):
    """The normalized Laplacian and its square, on more nodes than the dense path takes."""
    rng = np.random.default_rng(power)
    g = nareg.graphs.sensor(600, rng=rng)
    field = nareg.graphs.heterogeneous_field(g, 24, rng=rng)
    operator = sp.csr_array(g.laplacian("normalized") ** power) if power > 1 else g.laplacian("normalized")
    more = {"scale": "bound"} if design is prony else {}
    d = design(operator, signals=field.signals, noise=1.0, **more)
    details = d.certificate.details
    assert d.certificate.solver.startswith(("low-rank", "eigenvalues; low-rank"))
    assert details["gap"] < 1e-3
    assert d.certificate.relaxed_objective <= d.objective
    # the objective again, by dense matrices
    S = d.weights[:, None] * operator.toarray() * d.weights
    R = field.signals @ field.signals.T / 24
    if design is prony:
        assert d.objective == pytest.approx(np.trace(S @ R @ S), rel=1e-9)
    else:
        H = _filter_fit.lyapunov(R, np.eye(600))
        assert d.objective == pytest.approx(2 * np.sum((H @ (np.eye(600) + S) - np.eye(600)) ** 2), rel=1e-6)


def test_frequencies_by_lanczos_are_the_dense_ones():
    first, second = network(60, 3)[0].laplacian(), network(40, 3, "random")[0].laplacian()
    L = sp.csr_array(sp.block_diag([first, second, sp.csr_array((1, 1))]))
    values = np.linalg.eigvalsh(L.toarray())
    expected = (values[values > 1e-9 * values[-1]][0], values[-1])
    for factored in (True, False):
        assert _sparse.extreme_frequencies(L, np.ones(101), True, factored) == pytest.approx(expected, rel=1e-5)
    assert _sparse.extreme_frequencies(L, np.ones(101), False, True) == pytest.approx(expected, rel=1e-5)


def test_large_networks_are_refused_where_h_is_dense_with_the_remedy():
    g = nareg.graphs.grid((60, 60))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3600, 4))
    with pytest.raises(TooLargeError, match="data_weight='noise'"):
        relaxation(g, signals=X, noise=np.linspace(1, 2, 3600))
    with pytest.raises(InputError, match="positive data term"):
        prony(g, signals=X, noise=1.0, data_weight=np.r_[0.0, np.ones(3599)])


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_holds_with_a_node_that_has_no_neighbor_but_an_entry_of_its_own(seed):
    rng = np.random.default_rng(seed)
    path = nareg.graphs.grid((3,)).laplacian()
    operator = sp.csr_array(sp.block_diag([path, sp.csr_array([[5.0]])]))
    X = rng.standard_normal((4, 6))
    d = relaxation(operator, signals=X, noise=0.5, lower=0.0)
    reference = relaxation(operator, signals=X, noise=0.5, lower=0.0, solver="clarabel")
    assert d.certificate.relaxed_objective <= d.objective * (1 + 1e-9)
    assert d.certificate.relaxed_objective <= reference.certificate.relaxed_objective * (1 + 1e-6)


@pytest.mark.parametrize("solver", ["low-rank", "clarabel"])
@pytest.mark.parametrize("x", [np.r_[0.0, np.ones(8)], np.arange(9.0)])
def test_prony_is_never_worse_than_the_bound_itself(x, solver):
    g = nareg.graphs.grid((3, 3))
    L = g.laplacian().toarray()
    d = prony(g, signals=x, lower=1.0, solver=solver)
    assert d.objective <= x @ L @ L @ x * (1 + 1e-9)


@pytest.mark.slow
def test_edge_weights_over_150_decades_end_with_a_status(data_root):
    # LAPACK's relatively robust representations fail on the certificate's matrix here ("Internal Error")
    network = nareg.datasets.load("molene").complete()
    network = network.select(~np.isin(np.arange(network.n_nodes), [11, 13, 18, 21, 31]))
    graph = nareg.Graph.from_knn(network.coordinates, 5, metric="haversine", kernel=lambda d: np.exp(-5 * (d / 10) ** 2))
    x = network.signals[:, 364] - network.signals.mean()
    result = nareg.design.prony(graph, signals=x, lower=1e5, scale="bound")
    assert np.isfinite(result.objective)
    assert result.certificate.violation < 1e-9
