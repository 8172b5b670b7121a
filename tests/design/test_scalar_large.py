"""One weight and noise variances on networks of any size, against the dense rules."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls

import nareg
from nareg._solvers.system import penalty
from nareg.design import blind, estimate_noise, node_invariant
from nareg.design._node import estimate_noise as noise_module
from nareg.design._node.node_invariant_large import node_invariant_large
from nareg.errors import InputError, TooLargeError
from tests.helpers import at_night


def smooth_problem(n, n_signals, seed, graph=None):
    rng = np.random.default_rng(seed)
    g = nareg.graphs.sensor(n, rng=rng) if graph is None else graph
    X = nareg.filters.denoise(g, 3.0, rng.standard_normal((n, n_signals))).x * 5
    variance = 10 ** rng.uniform(-1, 0, n)
    return g, X, X + np.sqrt(variance)[:, None] * rng.standard_normal(X.shape), variance


def arguments(rule, X, Y, variance):
    data = {"signals": X} if rule == "oracle" else {"measurements": Y}
    return data | ({} if rule == "gcv" else {"noise": variance})


@pytest.mark.slow
@pytest.mark.parametrize("data_weight", [None, "noise"])
@pytest.mark.parametrize("rule", ["oracle", "sure", "gcv", "discrepancy"])
@pytest.mark.parametrize("n", [200, *at_night([900])])
def test_agrees_with_the_dense_rule(n, rule, data_weight):
    g, X, Y, variance = smooth_problem(n, 40, 3)
    dense = node_invariant(g, rule=rule, **{**arguments(rule, X, Y, variance), "noise": variance}, data_weight=data_weight)
    data = X if rule == "oracle" else Y
    large = node_invariant_large(penalty(g), rule, data, variance, data_weight, 200, np.random.default_rng(0))
    assert large.certificate.details["strength"] == pytest.approx(dense.certificate.details["strength"], rel=0.01)
    assert large.objective == pytest.approx(dense.objective, rel=1e-3)
    assert large.method == dense.method
    assert large.graph_hash == dense.graph_hash
    if data_weight is not None:
        np.testing.assert_array_equal(large.data_weight, dense.data_weight)


@pytest.mark.slow
def test_one_column_and_weighted_data_term():
    g, _, Y, variance = smooth_problem(900, 1, 4)
    c = np.random.default_rng(0).uniform(0.5, 2, 900)
    dense = node_invariant(g, rule="sure", measurements=Y[:, 0], noise=variance, data_weight=c)
    large = node_invariant_large(penalty(g), "sure", Y, variance, c, 200, np.random.default_rng(0))
    assert large.certificate.details["strength"] == pytest.approx(dense.certificate.details["strength"], rel=0.01)


@pytest.mark.parametrize("rule", ["oracle", "sure", "gcv", "discrepancy"])
@pytest.mark.slow
def test_thousands_of_nodes_without_dense_matrices(rule, monkeypatch):
    g, X, Y, variance = smooth_problem(4000, 16, 5)
    for name in ("inv", "solve", "cholesky", "eigh", "eigvalsh"):
        monkeypatch.delattr(np.linalg, name)  # whatever is dense goes through one of them
    d = node_invariant(g, rule=rule, **arguments(rule, X, Y, variance))
    monkeypatch.undo()
    assert d.status.ok
    risks = {f: np.mean((nareg.filters.denoise(g, d.rescaled(f), Y).x - X) ** 2) for f in (0.5, 1.0, 2.0)}
    if rule in ("oracle", "sure"):
        assert min(risks, key=risks.get) == 1.0
        assert d.objective / 4000 == pytest.approx(risks[1.0], rel=0.05)
    if rule == "discrepancy":
        residual = np.mean(np.sum((Y - nareg.filters.denoise(g, d, Y).x) ** 2, axis=0))
        assert residual == pytest.approx(variance.sum(), rel=1e-4)


@pytest.mark.slow
def test_the_generator_draws_the_probes():
    g, _, Y, variance = smooth_problem(3100, 8, 6)
    one, two, other = (
        node_invariant(g, rule="sure", measurements=Y, noise=variance, rng=np.random.default_rng(s)).objective
        for s in (1, 1, 2)
    )
    assert one == two != other
    assert one == pytest.approx(other, rel=0.01)


@pytest.mark.slow
def test_extremes_end_at_the_limits():
    """A constant signal wants the largest weight there is; readings without noise the smallest."""
    g = nareg.graphs.grid((56, 56))
    smooth = node_invariant(g, rule="oracle", signals=np.ones(3136), noise=1.0)
    assert smooth.objective < 5
    rng = np.random.default_rng(0)
    rough = node_invariant(g, rule="oracle", signals=10 * rng.standard_normal((3136, 8)), noise=1e-6)
    assert rough.objective < 1.01e-6 * 3136
    constant = node_invariant(g, rule="discrepancy", measurements=np.ones((3136, 2)), noise=1.0)
    assert constant.weights[0] >= 100
    assert node_invariant(g, rule="gcv", measurements=rng.standard_normal((3136, 4))).objective == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"rule": "chen-liu", "signals": 1, "noise": 1.0}, TooLargeError, "rule='chen-liu' needs .* use rule='sure', or 'gcv'"),
        ({"rule": "l-curve", "measurements": 1}, TooLargeError, "rule='l-curve' needs .* use rule='sure', or 'gcv'"),
        ({"rule": "oracle", "second_moment": np.eye(2), "noise": 1.0}, TooLargeError, "pass signals"),
        ({"rule": "sure", "measurements": 1, "noise": np.eye(2)}, TooLargeError, "pass variances"),
        ({"rule": "oracle", "noise": 1.0}, InputError, "rule='oracle' needs signals"),
        ({"rule": "sure", "noise": 1.0}, InputError, "needs measurements"),
        ({"rule": "sure", "measurements": 1}, InputError, "needs noise"),
        ({"rule": "gcv", "measurements": 1, "data_weight": "noise"}, InputError, "data_weight='noise' needs noise"),
        ({"rule": "gcv", "measurements": 1, "n_probes": 0}, InputError, "n_probes is 0"),
        (
            {"rule": "gcv", "measurements": 1, "data_weight": np.arange(3025.0)},
            InputError,
            r"data_weight\[0\] is 0: a single weight",
        ),
    ],
)
def test_what_cannot_work_names_the_argument(options, error, words):
    given = {key: np.ones(3025) if key in ("signals", "measurements") else value for key, value in options.items()}
    with pytest.raises(error, match=words):
        node_invariant(nareg.graphs.grid((55, 55)), **given)


def test_graph_without_edges_is_refused():
    with pytest.raises(InputError, match="no edges"):
        node_invariant(nareg.Graph(sp.csr_array((3025, 3025))), rule="gcv", measurements=np.ones(3025))


def reference_differences(g, Y):
    """The equations of method="differences", solved by dense non-negative least squares."""
    L = g.laplacian().toarray()
    Y = Y - Y.mean(axis=1, keepdims=True)
    P = L / np.diag(L)[:, None]
    D = P @ Y
    observed = (1.4826 * np.median(np.abs(D - np.median(D, axis=1, keepdims=True)), axis=1)) ** 2
    return P**2, observed, nnls(P**2, observed)[0]


@pytest.mark.parametrize("spread", [1, 3])
def test_differences_are_the_dense_minimizer(spread):
    rng = np.random.default_rng(spread)
    g = nareg.graphs.sensor(1000, rng=rng)
    Y = 10 ** (spread * rng.uniform(-1, 0, 1000))[:, None] * rng.standard_normal((1000, 12))
    _, _, expected = reference_differences(g, Y)
    assert (expected == 0).mean() > (0.2 if spread == 3 else 0.0)
    centered = Y - Y.mean(axis=1, keepdims=True)
    result = noise_module._nonnegative_least_squares(*noise_module._differences(g.laplacian(), centered)[:2])
    np.testing.assert_allclose(result, expected, atol=1e-6 * expected.max())
    np.testing.assert_array_equal(result == 0, expected == 0)


def test_least_squares_meet_the_optimality_conditions(rng):
    """Also where the matrix is singular: a pair of nodes that are each other's only neighbor."""
    for _ in range(20):
        A = sp.random_array((40, 30), density=0.15, rng=rng) + sp.eye_array(40, 30)
        b = rng.standard_normal(40)
        x = noise_module._nonnegative_least_squares(sp.csr_array(A), b)
        np.testing.assert_allclose(x, nnls(A.toarray(), b)[0], atol=1e-8)
    pair = sp.csr_array(np.ones((2, 2)))
    np.testing.assert_allclose(noise_module._nonnegative_least_squares(pair, np.array([1.0, 3.0])), [1.0, 1.0])
    np.testing.assert_array_equal(noise_module._nonnegative_least_squares(pair, np.array([-1.0, -3.0])), 0.0)
    np.testing.assert_array_equal(noise_module._nonnegative_least_squares(pair, np.zeros(2)), 0.0)


def test_least_squares_that_do_not_settle_are_not_returned(rng, monkeypatch):
    monkeypatch.setattr(noise_module, "EXCHANGES", 1)
    A = sp.csr_array(sp.random_array((40, 30), density=0.5, rng=rng))
    with pytest.raises(nareg.errors.SolverError, match="did not converge"):
        noise_module._nonnegative_least_squares(A, rng.standard_normal(40))


def test_default_method_and_refusal_by_size(rng):
    small, large = nareg.graphs.grid((6, 6)), nareg.graphs.grid((56, 56))
    Y = rng.standard_normal((36, 30))
    np.testing.assert_array_equal(estimate_noise(small, Y), estimate_noise(small, Y, method="gcv"))
    Y = rng.standard_normal((3136, 30))
    np.testing.assert_array_equal(estimate_noise(large, Y), estimate_noise(large, Y, method="differences"))
    with pytest.raises(TooLargeError, match=r"method='gcv' needs .* use method='differences'"):
        estimate_noise(large, Y, method="gcv")


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(50, 80), *at_night([((100, 200),)])])
def test_thousands_of_nodes_from_readings_alone(shape):
    """Noise estimate, single weight and blind design."""
    g, X, Y, variance = smooth_problem(shape[0] * shape[1], 32, 8, nareg.graphs.grid(shape))
    result = estimate_noise(g, Y)
    assert np.corrcoef(np.log(result), np.log(variance))[0, 1] > 0.6
    assert np.median(result / variance) == pytest.approx(1.0, abs=0.15)
    oracle = node_invariant(g, rule="oracle", signals=X, noise=variance)
    sure = node_invariant(g, rule="sure", measurements=Y, noise=variance)
    assert sure.certificate.details["strength"] == pytest.approx(oracle.certificate.details["strength"], rel=0.05)
    error = np.mean(np.sum((nareg.filters.denoise(g, sure, Y).x - X) ** 2, axis=0))
    assert sure.objective == pytest.approx(error, rel=0.02)
    from_readings = blind(g, measurements=Y[:, :4], noise=result)
    assert from_readings.objective < result.sum()
