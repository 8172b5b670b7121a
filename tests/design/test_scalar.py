from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.design import node_invariant
from nareg.errors import InputError
from tests.helpers import dense_filter, dense_risk


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(5)
    g = nareg.graphs.sensor(40, rng=rng)
    X = nareg.filters.denoise(g, 3.0, rng.standard_normal((40, 60))).x * 5
    noise = 10 ** rng.uniform(-1, 0, 40)
    return g, X, X + np.sqrt(noise)[:, None] * rng.standard_normal(X.shape), noise


def brute_force(criterion):
    grid = np.geomspace(1e-5, 1e5, 4001)
    values = [criterion(w0) for w0 in grid]
    return grid[int(np.argmin(values))], min(values)


@pytest.mark.parametrize("data_weight", [None, "noise"])
@pytest.mark.parametrize("rule", ["oracle", "sure", "gcv"])
@pytest.mark.slow
def test_rules_minimize_their_dense_criterion(problem, rule, data_weight):
    g, X, Y, noise = problem
    c = np.ones(40) if data_weight is None else 1 / noise
    R, S, T = X @ X.T / 60, Y @ Y.T / 60, np.diag(noise)
    root = np.sqrt(c)

    def criterion(w0):
        H = dense_filter(g, np.full(40, np.sqrt(w0)), c)
        if rule == "oracle":
            return sum(dense_risk(H, R, T))
        residual = np.eye(40) - H
        if rule == "sure":
            return np.trace(residual @ S @ residual.T) + 2 * np.trace(H @ T) - np.trace(T)
        weighted = root[:, None] * residual
        return (np.trace(weighted @ S @ weighted.T) / 40) / (1 - np.trace(H) / 40) ** 2

    d = node_invariant(
        g, rule=rule, signals=X if rule == "oracle" else None, measurements=Y, noise=noise, data_weight=data_weight
    )
    w0, best = brute_force(criterion)
    assert d.objective == pytest.approx(criterion(d.certificate.details["strength"]), rel=1e-8)
    assert d.objective <= best * (1 + 1e-9)
    assert d.certificate.details["strength"] == pytest.approx(w0, rel=0.02)
    np.testing.assert_allclose(d.weights, np.sqrt(d.certificate.details["strength"]))


def test_discrepancy_meets_the_noise_power(problem):
    g, _, Y, noise = problem
    d = node_invariant(g, rule="discrepancy", measurements=Y, noise=noise)
    H = dense_filter(g, d.weights)
    assert np.mean(np.sum((Y - H @ Y) ** 2, axis=0)) == pytest.approx(noise.sum(), rel=1e-6)


def test_l_curve_finds_the_corner(us):
    """A very smooth signal in a little noise, where there is one; reference: curvature by finite differences."""
    rng = np.random.default_rng(3)
    L = us.graph.laplacian().toarray()
    values, U = np.linalg.eigh(L)
    y = U[:, :3].sum(axis=1) + 0.01 * rng.standard_normal(140)
    t = np.linspace(np.log(1e-2), np.log(1e2), 4001)
    gain = 1 / (1 + np.exp(t)[:, None] * values)
    power = (U.T @ y) ** 2
    rho, eta = np.log(((1 - gain) ** 2) @ power), np.log((gain**2) @ (values * power))
    dx, dy = np.gradient(rho, t), np.gradient(eta, t)
    curvature = (dx * np.gradient(dy, t) - dy * np.gradient(dx, t)) / (dx**2 + dy**2) ** 1.5
    best = np.exp(t[10:-10][np.argmax(curvature[10:-10])])
    d = node_invariant(us.graph, rule="l-curve", measurements=y)
    assert d.certificate.details["strength"] == pytest.approx(best, rel=0.01)
    assert d.objective == pytest.approx(curvature[10:-10].max(), rel=1e-3)


def test_l_curve_without_a_corner_is_refused(problem):
    g, _, Y, _ = problem
    with pytest.raises(InputError, match="without a corner"):
        node_invariant(g, rule="l-curve", measurements=Y)


def test_published_rule(problem):
    g, X, _, _ = problem
    values = np.linalg.eigvalsh(g.laplacian().toarray())
    snr = np.mean(X**2) / 0.3
    expected = np.sqrt(np.sqrt(1 / snr) / (values[1] * values[-1]))
    assert node_invariant(g, signals=X, noise=0.3).certificate.details["strength"] == pytest.approx(expected)


def test_published_rule_takes_the_smallest_nonzero_eigenvalue_on_disconnected_graphs(rng):
    g = nareg.graphs.stochastic_block([10, 15], [[0.6, 0], [0, 0.6]], rng=rng)
    assert not g.is_connected
    values = np.linalg.eigvalsh(g.laplacian().toarray())
    expected = np.sqrt(1 / (values[2] * values[-1]))
    assert node_invariant(g, signals=np.ones(25), noise=1.0).certificate.details["strength"] == pytest.approx(expected)


def test_sure_is_unbiased_for_the_risk(problem, rng):
    """Averaged over noise draws, SURE at a fixed weight is the true risk."""
    g, X, _, noise = problem
    x = X[:, :1]
    Y = x + np.sqrt(noise)[:, None] * rng.standard_normal((40, 20_000))
    H = dense_filter(g, np.full(40, 1.3))
    losses = np.sum((Y - H @ Y) ** 2, axis=0) + 2 * np.sum(np.diag(H) * noise) - noise.sum()
    truth = sum(dense_risk(H, x @ x.T, np.diag(noise)))
    assert abs(losses.mean() - truth) < 4 * losses.std() / np.sqrt(losses.size)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-8, 1e-3, 1e3, 1e8])
def test_no_design_depends_on_the_physical_unit(problem, unit):
    """Readings in other units, noise in their square: the same filter, inside the weighted data term too."""
    g, X, Y, noise = problem
    low, high = X.min(axis=1), X.max(axis=1)
    designs = {
        "published rule": lambda s, **o: node_invariant(g, signals=s * X, **o),
        "SURE": lambda s, **o: node_invariant(g, rule="sure", measurements=s * Y, **o),
        "relaxation": lambda s, **o: nareg.design.relaxation(g, signals=s * X, **o),
        "min-max": lambda s, **o: nareg.design.minmax(g, signal_low=s * low, signal_high=s * high, criterion="mse", **o),
        "exact": lambda s, **o: nareg.design.exact(g, signals=s * X, **o),
    }
    for name, design in designs.items():
        for data_weight in (None, "noise"):
            risks = []
            for s in (1.0, unit):
                result = design(s, noise=s**2 * noise, data_weight=data_weight)
                risks.append(nareg.design.risk(g, result, signals=s * X, noise=s**2 * noise).nmse)
            assert risks[1] == pytest.approx(risks[0], rel=1e-3), (name, data_weight)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rule": "aic"}, "rule is 'aic'; choose one of"),
        ({"rule": "gcv"}, "needs measurements"),
        ({"rule": "sure", "measurements": np.ones(4)}, "needs noise"),
        ({"rule": "oracle", "noise": 1.0}, "exactly one of signals"),
        ({"rule": "chen-liu", "measurements": np.zeros((4, 2)), "noise": 1.0}, "no more power than noise"),
        ({"rule": "l-curve", "measurements": np.ones(4)}, "constant on every component"),
        ({"rule": "oracle", "signals": np.ones(4), "noise": 1.0, "data_weight": [1, 1, 1, 0]}, r"data_weight\[3\] is 0"),
        ({"rule": "oracle", "signals": np.ones(4), "noise": [1, 0, 1, 1], "data_weight": "noise"}, r"noise\[1\] is 0"),
        ({"rule": "oracle", "signals": np.ones(4), "noise": 1.0, "data_weight": "weights"}, "data_weight is 'weights'"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    with pytest.raises(InputError, match=words):
        node_invariant(nareg.graphs.grid((4,)), **arguments)


def test_graph_without_edges_is_refused():
    with pytest.raises(InputError, match="no edges"):
        node_invariant(nareg.Graph(np.zeros((3, 3))), signals=np.ones(3), noise=1.0)
