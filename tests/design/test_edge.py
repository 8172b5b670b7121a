from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import nareg
from nareg.design import edge, node_invariant, risk
from nareg.design._edge.cone import LikelihoodObjective, Proximal, RiskObjective
from nareg.design._edge.support import Support
from nareg.design._risk.newton import Limits, newton
from nareg.errors import InputError, TooLargeError
from nareg.filters import denoise
from nareg.results import upper_edges
from tests.helpers import dense_risk, little_memory


def field(graph, T: int, rng) -> np.ndarray:
    """Signals whose smoothness and size differ from node to node."""
    n = graph.n_nodes
    white = rng.standard_normal((n, T))
    smooth = np.linalg.solve(graph.laplacian().toarray() + np.diag(np.linspace(0.05, 2, n)), white)
    return np.linspace(0.5, 2, n)[:, None] * smooth


def covariance(n: int, rng) -> np.ndarray:
    root = rng.standard_normal((n, n))
    return root @ root.T / n


def random_objective(rng, kind: str = "risk"):
    g = nareg.graphs.sensor(20, k=4, rng=rng)
    support = Support(20, *upper_edges(g.laplacian()))
    R, Sigma, c = covariance(20, rng), covariance(20, rng), rng.uniform(0.5, 2, 20)
    u = rng.uniform(-0.1, 0.5, 20 + support.i.size) + np.r_[np.ones(20), np.zeros(support.i.size)]
    if kind == "likelihood":
        return LikelihoodObjective(support, R), u
    cross = c[:, None] * R
    objective = RiskObjective(support, c, c[:, None] * (R + Sigma) * c, (cross + cross.T) / 2, float(np.trace(R)))
    H = np.linalg.inv(np.diag(c) + support.matrix(u)) * c
    assert objective.at(u).value == pytest.approx(sum(dense_risk(H, R, Sigma)), rel=1e-10)
    return (Proximal(objective, rng.random(u.size), u + rng.standard_normal(u.size)) if kind == "proximal" else objective), u


@pytest.mark.parametrize("kind", ["risk", "proximal", "likelihood"])
def test_gradient_and_hessian_against_finite_differences(rng, kind):
    objective, u = random_objective(rng, kind)
    point = objective.at(u)
    lower = objective.curvature(point)[1]
    hessian = np.tril(lower) + np.tril(lower, -1).T
    for _ in range(5):
        direction = rng.standard_normal(u.size)
        ahead, behind = (objective.at(u + step * direction) for step in (1e-6, -1e-6))
        slope = (ahead.value - behind.value) / 2e-6
        assert objective.slope(point) @ direction == pytest.approx(slope, rel=1e-6)
        bend = (objective.slope(ahead) - objective.slope(behind)) / 2e-6
        np.testing.assert_allclose(hessian @ direction, bend, rtol=1e-5, atol=1e-6 * np.abs(bend).max())


def test_gauss_newton_part_is_positive_semidefinite_and_its_diagonal_is_right(rng):
    objective, u = random_objective(rng)
    point = objective.at(u)
    lower = objective.gauss_newton(point)
    values = np.linalg.eigvalsh(lower)
    assert values[0] > -1e-12 * values[-1]
    np.testing.assert_allclose(objective.curvature(point)[0], np.diagonal(lower))


def test_unknowns_and_entries_are_inverse(rng):
    objective, u = random_objective(rng)
    support = objective.support
    np.testing.assert_allclose(support.unknowns(support.entries(u)), u)
    np.testing.assert_allclose(support.matrix(u)[support.i, support.j], support.entries(u)[support.n :])


def test_outside_the_cone_there_is_no_value(rng):
    objective, u = random_objective(rng)
    assert objective.at(u - 100) is None


@pytest.mark.parametrize("kind", ["risk", "likelihood"])
def test_newton_agrees_with_a_quasi_newton_method(rng, kind):
    objective, u = random_objective(rng, kind)
    objective = Proximal(objective, np.full(u.size, 0.01), u)

    def function(v):
        point = objective.at(v)
        return (1e10, np.zeros_like(v)) if point is None else (point.value, objective.slope(point))

    reached = newton(objective, u, Limits(tolerance=1e-9))
    other = minimize(function, u, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15})
    assert reached.value == pytest.approx(other.fun, rel=1e-6)


@pytest.mark.parametrize("shape", [(30,), "tree"])
@pytest.mark.parametrize("equal", [True, False])
def test_reaches_the_wiener_filter_where_the_precision_lies_on_the_graph(rng, shape, equal):
    if shape == "tree":
        parents = np.array([rng.integers(k) for k in range(1, 30)])
        A = np.zeros((30, 30))
        A[np.arange(1, 30), parents] = A[parents, np.arange(1, 30)] = 1
        g = nareg.Graph(A)
    else:
        g = nareg.graphs.grid(shape)
    scale = np.exp(rng.standard_normal(30))
    precision = scale[:, None] * (g.laplacian().toarray() + np.diag(rng.uniform(0.1, 1, 30))) * scale
    R = np.linalg.inv(precision)
    noise = 0.3 if equal else rng.uniform(0.1, 1, 30)
    d = edge(g, second_moment=R, noise=noise, data_weight=None if equal else "noise")
    result = risk(g, d, second_moment=R, noise=noise)
    assert result.nmse == pytest.approx(result.lmmse, rel=1e-8)
    assert d.status.name == "CONVERGED"
    assert d.certificate.gradient_norm < 1e-4
    likely = edge(g, second_moment=R, noise=noise, data_weight=None if equal else "noise", criterion="likelihood")
    assert risk(g, likely, second_moment=R, noise=noise).nmse == pytest.approx(result.lmmse, rel=1e-8)


def test_likelihood_matches_the_moment_on_the_support(rng):
    g = nareg.graphs.sensor(40, k=4, rng=rng)
    X = field(g, 200, rng)
    d = edge(g, signals=X, criterion="likelihood", shrink=None)
    S, R = d.matrix.toarray(), X @ X.T / 200
    np.testing.assert_allclose(np.linalg.inv(S)[S != 0], R[S != 0], rtol=1e-4, atol=1e-5 * np.abs(R).max())
    # the scale of S follows the data term
    other = edge(g, signals=X, criterion="likelihood", shrink=None, noise=0.7)
    np.testing.assert_allclose(other.weights, 0.7 * d.weights)


@pytest.mark.parametrize("noise", [0.3, 0.02])
def test_stations_without_a_data_term_leave_the_scale_of_the_likelihood_alone(rng, noise):
    """Where half of the stations are silent, S is still the noise variance times the precision."""
    g = nareg.graphs.grid((5, 6))
    precision = g.laplacian().toarray() + np.diag(rng.uniform(0.1, 1, 30))
    silent = (np.arange(30) % 2).astype(float)
    d = edge(g, second_moment=np.linalg.inv(precision), noise=noise, data_weight=silent, criterion="likelihood")
    np.testing.assert_allclose(d.matrix.toarray(), noise * precision, rtol=1e-5, atol=1e-8)


def test_likelihood_with_fewer_signals_than_nodes_is_shrunk(rng):
    g = nareg.graphs.sensor(40, k=4, rng=rng)
    d = edge(g, signals=field(g, 8, rng), noise=0.5, criterion="likelihood")
    assert d.certificate.details["shrink"] > 0
    assert d.certificate.details["smallest_eigenvalue_K"] > 0


@pytest.mark.parametrize("structure", ["symmetric", "laplacian"])
@pytest.mark.parametrize("noise", ["equal", "unequal", "full", "zero fit"])
@pytest.mark.slow
def test_never_worse_than_one_weight_on_the_training_signals(rng, structure, noise):
    g = nareg.graphs.sensor(40, k=5, rng=rng)
    X = field(g, 60, rng)
    Sigma = {"equal": 0.5, "unequal": rng.uniform(0.1, 2, 40), "full": covariance(40, rng), "zero fit": 0.5}[noise]
    data_weight = {"unequal": "noise", "zero fit": np.arange(40) % 3 > 0}.get(noise)
    data_weight = data_weight.astype(float) if isinstance(data_weight, np.ndarray) else data_weight
    for shrink in ("auto", 0.1, None):
        d = edge(g, signals=X, noise=Sigma, data_weight=data_weight, structure=structure, shrink=shrink)
        result = risk(g, d, signals=X, noise=Sigma).mse
        assert result == pytest.approx(d.objective, rel=1e-9)
        assert result <= d.certificate.details["best_scalar_risk"]
        assert d.certificate.details["smallest_eigenvalue_K"] > 0
        assert d.weights.size == 40 + g.n_edges
    if noise != "zero fit":
        one = node_invariant(g, rule="oracle", signals=X, noise=Sigma, data_weight=data_weight)
        assert d.certificate.details["best_scalar_risk"] == pytest.approx(one.objective, rel=1e-6)


def test_shrink_one_is_the_best_single_weight(rng):
    g = nareg.graphs.sensor(30, k=5, rng=rng)
    X = field(g, 50, rng)
    one = node_invariant(g, rule="oracle", signals=X, noise=0.5)
    d = edge(g, signals=X, noise=0.5, shrink=1)
    np.testing.assert_allclose(d.matrix.toarray(), one.matrix.toarray(), rtol=1e-3)


@pytest.mark.parametrize("data_weight", [None, "noise", "odd"])
def test_shrinkage_has_the_single_weight_as_its_limit(rng, data_weight):
    g = nareg.graphs.sensor(30, k=5, rng=rng)
    noise = rng.uniform(0.1, 2, 30)
    data_weight = rng.uniform(0.5, 2, 30) if data_weight == "odd" else data_weight
    X = field(g, 50, rng)
    designs = [edge(g, signals=X, noise=noise, data_weight=data_weight, shrink=a) for a in (0.9999, 1.0)]
    np.testing.assert_allclose(designs[0].weights, designs[1].weights, rtol=0.05, atol=0.02 * designs[1].weights.max())


def test_effective_parameters_fall_with_shrinkage(rng):
    g = nareg.graphs.sensor(30, k=5, rng=rng)
    X = field(g, 50, rng)
    counts = [
        edge(g, signals=X, noise=0.5, shrink=a).certificate.details["effective_degrees_of_freedom"] for a in (None, 0.1, 0.5)
    ]
    assert counts[0] == 30 + g.n_edges
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("T", [1, 3])
def test_next_to_no_signals_keep_one_weight(rng, T):
    g = nareg.graphs.sensor(30, k=5, rng=rng)
    d = edge(g, signals=field(g, T, rng), noise=0.5)
    assert d.status.name == "NO_IMPROVEMENT"
    assert d.certificate.details["shrink"] == 1.0


def test_signals_that_one_weight_suits_fall_back_to_it():
    """Signals with the precision ``L``: the single weight is optimal, and few signals cannot show more."""
    g = nareg.graphs.grid((6, 6))
    values, vectors = np.linalg.eigh(g.laplacian().toarray())
    fallen = 0
    for seed in range(8):
        white = np.random.default_rng(seed).standard_normal((35, 12))
        d = edge(g, signals=vectors[:, 1:] @ (white / np.sqrt(values[1:, None])), noise=0.5)
        fallen += d.status.name == "NO_IMPROVEMENT"
    assert fallen >= 5


@pytest.mark.slow
@pytest.mark.parametrize("data_weight", [None, "noise"])
def test_laplacian_structure_allows_every_solver(rng, data_weight):
    g = nareg.graphs.sensor(60, k=5, rng=rng)
    noise = rng.uniform(0.1, 2, 60)
    X = field(g, 100, rng)
    d = edge(g, signals=X, noise=noise, data_weight=data_weight, structure="laplacian", shrink=0.02)
    assert d.status.name == "CONVERGED"
    S = d.matrix.toarray()
    assert S.sum(axis=1).min() > -1e-9
    assert (S - np.diag(np.diag(S))).max() <= 0
    y = X[:, :3] + rng.standard_normal((60, 3))
    wanted = denoise(g, d, y, method="direct").x
    for method in ("jacobi", "chebyshev", "multigrid", "cg"):
        solution = denoise(g, d, y, method=method)
        assert solution.status.ok
        np.testing.assert_allclose(solution.x, wanted, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("unit", [10.0, 1e-4])
@pytest.mark.parametrize("shrink", ["auto", 0.1])
def test_the_physical_unit_does_not_matter(rng, unit, shrink):
    g = nareg.graphs.sensor(30, k=4, rng=rng)
    X = field(g, 80, rng)
    plain, scaled = edge(g, signals=X, noise=0.5, shrink=shrink), edge(g, signals=unit * X, noise=0.5 * unit**2, shrink=shrink)
    np.testing.assert_allclose(scaled.weights, plain.weights, rtol=1e-3, atol=1e-4 * np.abs(plain.weights).max())


def test_save_load_and_denoise(rng, tmp_path):
    g = nareg.graphs.sensor(30, k=4, rng=rng)
    X, noise = field(g, 80, rng), rng.uniform(0.1, 1, 30)
    d = edge(g, signals=X, noise=noise, data_weight="noise")
    d.save(tmp_path / "edge.npz")
    again = nareg.design.load(tmp_path / "edge.npz")
    np.testing.assert_array_equal(again.weights, d.weights)
    wanted = np.linalg.solve(np.diag(1 / noise) + d.matrix.toarray(), X / noise[:, None])
    np.testing.assert_allclose(denoise(g, again, X).x, wanted, rtol=1e-6, atol=1e-8)
    assert "|entry of S|" in again.summary()


def test_interrupt_keeps_the_best_so_far_and_progress_sees_every_step(rng):
    g = nareg.graphs.sensor(30, k=4, rng=rng)
    X, seen = field(g, 80, rng), []

    def impatient(now):
        seen.append((now.step, now.values["objective"]))
        if now.step == 2:
            raise KeyboardInterrupt

    d = edge(g, signals=X, noise=0.5, shrink=None, progress=impatient)
    assert d.status.name == "INTERRUPTED"
    assert [k for k, _ in seen] == [1, 2]
    assert d.objective < d.certificate.details["best_scalar_risk"]


def test_interrupt_while_shrinkage_is_chosen_keeps_one_weight(rng, monkeypatch):
    g = nareg.graphs.sensor(30, k=4, rng=rng)
    calls = []
    original = RiskObjective.curvature

    def impatient(self, point):
        calls.append(None)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return original(self, point)

    monkeypatch.setattr(RiskObjective, "curvature", impatient)
    d = edge(g, signals=field(g, 80, rng), noise=0.5)
    assert d.status.name == "INTERRUPTED"
    assert d.objective == d.certificate.details["best_scalar_risk"]


def test_no_noise_needs_no_filter(rng):
    g = nareg.graphs.sensor(30, k=4, rng=rng)
    d = edge(g, signals=field(g, 80, rng), noise=0.0)
    assert d.status.ok
    assert d.objective < 1e-6


# --- refusals


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g: edge(g, signals=np.ones(9)), "noise is None"),
        (lambda g: edge(g, noise=1.0), "exactly one of signals"),
        (lambda g: edge(g, signals=np.ones(9), noise=1.0, criterion="map"), "criterion is 'map'"),
        (lambda g: edge(g, signals=np.ones(9), noise=1.0, structure="psd"), "structure is 'psd'"),
        (lambda g: edge(g, signals=np.ones(9), noise=1.0, shrink="some"), "shrink is 'some'"),
        (lambda g: edge(g, signals=np.ones(9), noise=1.0, shrink=1.5), "shrink is 1.5"),
        (lambda g: edge(g, signals=np.zeros(9), noise=1.0), "zero everywhere"),
        (lambda g: edge(g, signals=np.ones(9), noise=-1.0), r"noise\[0\] is -1"),
        (lambda g: edge(g, signals=np.ones(9), noise=1.0, rng=3), "numpy generator"),
        (lambda g: edge(nareg.Graph(np.zeros((3, 3))), signals=np.ones(3), noise=1.0), "no edges"),
        (lambda g: edge(g.laplacian() @ g.laplacian(), signals=np.ones(9), noise=1.0, structure="laplacian"), "Laplacian"),
    ],
)
def test_bad_arguments_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call(nareg.graphs.grid((3, 3)))


def test_too_many_columns(monkeypatch):
    little_memory(monkeypatch)
    with pytest.raises(TooLargeError, match="pass fewer signals"):
        edge(nareg.graphs.grid((40, 40)), signals=np.ones((1600, 9)), noise=1.0)


@pytest.mark.slow
def test_edge_for_interpolation_counts_what_singular_data_leave(data_root):
    network = nareg.datasets.load("pm25-california")
    network = network.select(np.sort(np.argsort(-network.observed.mean(axis=1), kind="stable")[:17]))
    X = network.signals[:, network.observed.all(axis=0)][:, :800]
    train = X[:, np.arange(X.shape[1]) * 20 // X.shape[1] % 2 == 0]
    train, power = train - train.mean(), np.mean((X - train.mean()) ** 2)
    observed = np.zeros(17, dtype=bool)
    observed[np.random.default_rng([10, 17, 0]).permutation(17)[:8]] = True
    result = nareg.design.edge(network.graph, signals=train, noise=power, data_weight=observed.astype(float))
    details = result.certificate.details
    assert 0 < details["effective_degrees_of_freedom"] <= details["degrees_of_freedom"]
    H = nareg.filters.interpolate(network.graph, result, np.eye(17), observed, method="direct").x * observed
    one = nareg.design.node_invariant(network.graph, rule="oracle", signals=train, noise=power)
    H_one = nareg.filters.interpolate(network.graph, one, np.eye(17), observed, method="direct").x * observed
    error, error_one = (np.sum((h @ train - train) ** 2) + np.sum(h**2) * power * train.shape[1] for h in (H, H_one))
    assert error < 0.9 * error_one
