"""Designs at a rate: the promise is kept, costs no more than it must, and is refused where nothing keeps it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

import nareg
from nareg.design import Sampling, blind, edge, exact, risk
from nareg.errors import InputError, TooLargeError
from nareg.filters import denoise
from tests.helpers import at_night, dense_risk


def factor(S, c):
    """Spectral radius of ``D^-1/2 M D^-1/2``, from its definition."""
    S = S.toarray() if sp.issparse(S) else S
    D = c + np.diag(S)
    M = S - np.diag(np.diag(S))
    return float(np.abs(np.linalg.eigvalsh(M / np.sqrt(np.outer(D, D)))).max())


def mse(S, c, R, noise):
    H = np.linalg.inv(np.diag(c) + S) * c
    return sum(dense_risk(H, R, noise * np.eye(len(c))))


def best_single(graph, R, noise, rate):
    """Smallest MSE of a single weight with the rate, by a fine search."""
    L, c = graph.laplacian().toarray(), np.ones(graph.n_nodes)
    low, high = -8.0, 8.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if factor(np.exp(middle) * L, c) <= rate else (low, middle)
    return min(mse(np.exp(t) * L, c, R, noise) for t in np.linspace(-8.0, low, 300))


def assert_promised(graph, d, readings, rate):
    """The recursion ends within the rounds of the certificate, at each of its accuracies."""
    details = d.certificate.details
    assert details["jacobi_factor"] <= rate
    for accuracy, rounds in details["jacobi_rounds"].items():
        solution = denoise(graph, d, readings, method="jacobi", tol=float(accuracy))
        assert solution.status.name == "CONVERGED"
        assert solution.rounds <= rounds
        assert solution.messages <= solution.rounds * 2 * graph.n_edges


@pytest.fixture(scope="module")
def weather():
    us = nareg.datasets.load("us-weather").complete()
    return us.graph, us.signals - us.signals.mean()


def noisy(signals, db, seed=0):
    noise = float(np.mean(signals**2)) / 10 ** (db / 10)
    return noise, signals + np.sqrt(noise) * np.random.default_rng(seed).standard_normal(signals.shape)


@pytest.mark.slow
@pytest.mark.parametrize(("db", "rate"), [(10, 0.9), *at_night([(-10, 0.8), (-10, 0.9), (0, 0.8), (0, 0.9), (10, 0.8)])])
@pytest.mark.parametrize("design", [exact, blind, *at_night([edge])])
def test_us_network_promise_and_error(weather, db, rate, design):
    """The promise is kept, with at most .97 times the expected error of the best single weight that keeps the rate."""
    g, X = weather
    noise, Y = noisy(X, db)
    d = design(g, **({"measurements": Y} if design is blind else {"signals": X}), noise=noise, rate=rate)
    assert_promised(g, d, Y, rate)
    assert factor(d.matrix, np.ones(140)) <= rate
    assert risk(g, d, signals=X, noise=noise).mse <= 0.97 * best_single(g, X @ X.T / X.shape[1], noise, rate)


@pytest.mark.nightly
@pytest.mark.parametrize("structure", ["symmetric", "laplacian"])
def test_us_network_edge_weights(weather, structure):
    g, X = weather
    noise, Y = noisy(X, 0)
    d = edge(g, signals=X, noise=noise, rate=0.9, structure=structure)
    assert_promised(g, d, Y, 0.9)
    assert factor(d.matrix, np.ones(140)) <= 0.9
    assert d.status.ok
    assert d.objective <= 0.9 * exact(g, signals=X, noise=noise, rate=0.9).objective


@pytest.mark.slow
def test_molene_with_unequal_noise(rng, data_root):
    net = nareg.datasets.load("molene", root=data_root).complete()
    X = net.signals - net.signals.mean()
    noise = np.mean(X**2) * 10 ** rng.uniform(-1, 1, net.n_nodes)
    Y = X + np.sqrt(noise)[:, None] * rng.standard_normal(X.shape)
    for design, data in ((exact, {"signals": X}), (blind, {"measurements": Y}), (edge, {"signals": X})):
        d = design(net.graph, **data, noise=noise, data_weight="noise", rate=0.8)
        assert_promised(net.graph, d, Y, 0.8)
        assert factor(d.matrix, 1 / noise) <= 0.8


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "size"), [("grid", 6), ("power law", 50), *at_night([("grid", 100), ("power law", 2000)])])
@pytest.mark.parametrize("design", [exact, blind])
@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_grids_and_power_laws(kind, size, design, rate):
    """The promised rounds are kept, and the error is at most that of the best single weight that keeps the rate.

    The bar of .97 is asserted on the US network alone: no design is sure to meet it on any field.
    """
    rng = np.random.default_rng(0)
    if kind == "grid":
        g = nareg.graphs.grid((size, size))
    else:
        g = nareg.Graph.from_networkx(pytest.importorskip("networkx").barabasi_albert_graph(size, 3, seed=0))
    X = nareg.graphs.heterogeneous_field(g, 12, rng=rng).signals
    noise, Y = noisy(X, 0)
    data = {"signals": X} if design is exact else {"measurements": Y}
    d = design(g, **data, noise=noise, rate=rate, sampling=Sampling(n_probes=8))
    assert d.settings["rate"] == rate
    assert_promised(g, d, Y, rate)
    assert d.objective <= d.certificate.details["best_scalar_risk"]


def small_problem(seed, n):
    rng = np.random.default_rng(seed)
    A = np.triu(rng.uniform(0.2, 2.0, (n, n)) * (rng.random((n, n)) < 0.8), 1) + np.diag(np.full(n - 1, 0.5), 1)
    X = rng.standard_normal((n, 3)) * rng.uniform(0.5, 2.0, (n, 1)) + 2.0
    return nareg.Graph(A + A.T), X @ X.T / 3, float(rng.uniform(0.5, 4.0))


def brute_force(value, limit, starts):
    """Smallest value with ``limit >= 0``, by SLSQP from many starts; only points that keep the limit count."""
    best = np.inf
    for start in starts:
        end = minimize(value, start, constraints={"type": "ineq", "fun": limit}, method="SLSQP", options={"maxiter": 500})
        if limit(end.x) >= -1e-7:
            best = min(best, end.fun)
    return best


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rate", [0.3, 0.7])
def test_node_weights_are_as_good_as_brute_force(seed, rate):
    n = 2 + seed % 3
    g, R, noise = small_problem(seed, n)
    L, c = g.laplacian().toarray(), np.ones(n)
    d = exact(g, second_moment=R, noise=noise, rate=rate)

    def S(w):
        return np.outer(w, w) * L

    rng = np.random.default_rng(1)
    starts = [0.3 * rng.standard_normal(n) for _ in range(20)] + [np.full(n, s) for s in (0.1, 0.3, 1.0)]
    best = brute_force(lambda w: mse(S(w), c, R, noise), lambda w: rate - factor(S(w), c), starts)
    assert factor(d.matrix, c) <= rate
    assert d.objective <= best * (1 + 2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_bounds_groups_and_nodes_without_data_are_as_good_as_brute_force(seed):
    n, rate = 4, 0.8
    g, R, noise = small_problem(seed + 10, n)
    L = g.laplacian().toarray()
    labels, c = np.array([0, 0, 1, 2]), np.array([1.0, 2.0, 1.0, 0.0])
    d = exact(g, second_moment=R, noise=noise, data_weight=c, groups=labels, lower=0.01, upper=0.5, rate=rate)

    def S(v):
        w = v[labels]
        return np.outer(w, w) * L

    def limits(v):
        return np.concatenate([[rate - factor(S(v), c)], v**2 - 0.01, 0.5 - v**2])

    rng = np.random.default_rng(1)
    starts = [rng.uniform(0.1, 0.7, 3) * np.where(rng.random(3) < 0.3, -1, 1) for _ in range(30)]
    best = brute_force(lambda v: mse(S(v), c, R, noise), lambda v: limits(v).min(), starts)
    assert factor(d.matrix, c) <= rate
    assert d.certificate.violation <= 1e-9
    assert d.weights[0] == d.weights[1]
    assert d.objective <= best * 1.01


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_edge_weights_are_as_good_as_brute_force(seed):
    n, rate = 3, 0.6
    g, R, noise = small_problem(seed + 20, n)
    c = np.ones(n)
    d = edge(g, second_moment=R, noise=noise, rate=rate)
    i, j = np.nonzero(np.triu(g.laplacian().toarray(), 1))

    def S(u):
        full = np.diag(u[:n])
        full[i, j] = full[j, i] = u[n:]
        return full

    def limit(u):
        D = 1 + u[:n]
        return -1.0 if D.min() <= 0.01 else rate - factor(S(u), c)

    rng = np.random.default_rng(1)
    starts = [np.concatenate([rng.uniform(0.2, 2, n), -0.2 * rng.random(i.size)]) for _ in range(20)]
    best = brute_force(lambda u: mse(S(u), c, R, noise) if limit(u) > -1 else 1e3, limit, starts)
    assert factor(d.matrix, c) <= rate
    assert d.objective <= best * (1 + 1e-3)


def test_a_rate_that_does_not_limit_changes_nothing(rng):
    g = nareg.graphs.sensor(30, rng=rng)
    X = rng.standard_normal((30, 60)) + 1.0
    free, limited = (exact(g, signals=X, noise=0.1, rate=rate) for rate in (None, 0.9999))
    np.testing.assert_allclose(limited.objective, free.objective, rtol=1e-9)
    assert "jacobi_factor" not in free.certificate.details
    assert "jacobi rounds" in limited.summary().lower()


def test_disconnected_parts_and_isolated_nodes_keep_the_rate(rng):
    A = np.zeros((9, 9))
    A[0, 1] = A[1, 2] = A[0, 2] = 1.0
    A[4, 5] = A[5, 6] = 3.0
    g = nareg.Graph(A + A.T)
    X = 3.0 + rng.standard_normal((9, 40))
    for d in (exact(g, signals=X, noise=4.0, rate=0.6), edge(g, signals=X, noise=4.0, rate=0.6)):
        assert factor(d.matrix, np.ones(9)) <= 0.6
        assert_promised(g, d, X, 0.6)


def test_other_operators_keep_the_rate(rng):
    L = nareg.graphs.sensor(20, rng=rng).laplacian("normalized")
    X = rng.standard_normal((20, 40)) + 2.0
    d = exact(L, signals=X, noise=2.0, rate=0.5)
    assert factor(d.matrix, np.ones(20)) <= 0.5
    assert d.certificate.details["jacobi_factor"] <= 0.5


def test_gaps_and_interrupts_keep_the_rate(rng):
    g = nareg.graphs.grid((4, 4))
    Y = 5.0 + rng.standard_normal((16, 40))
    seen = rng.random(Y.shape) < 0.8
    assert factor(blind(g, measurements=Y, observed=seen, noise=1.0, rate=0.6).matrix, np.ones(16)) <= 0.6

    def impatient(now):
        raise KeyboardInterrupt

    stopped = exact(g, signals=Y, noise=9.0, rate=0.6, progress=impatient)
    assert stopped.status.name == "INTERRUPTED"
    assert factor(stopped.matrix, np.ones(16)) <= 0.6


def test_the_promise_is_in_the_file(tmp_path, rng):
    g = nareg.graphs.grid((4, 4))
    d = exact(g, signals=rng.standard_normal((16, 30)) + 2, noise=1.0, rate=0.7)
    d.save(tmp_path / "d.npz")
    again = nareg.results.load_design(tmp_path / "d.npz")
    assert again.certificate.details["jacobi_rounds"] == d.certificate.details["jacobi_rounds"]
    assert again.settings["rate"] == 0.7


X9 = np.ones((9, 20)) + np.eye(9, 20)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda g: exact(g, signals=X9, noise=1.0, rate=1.0), InputError, r"rate is 1: .*between 0 and 1"),
        (lambda g: exact(g, signals=X9, noise=1.0, rate=0), InputError, r"rate is 0: "),
        (lambda g: blind(g, measurements=3 * X9, noise=1.0, rate=-0.5), InputError, r"rate is -0.5: "),
        (lambda g: edge(g, signals=X9, noise=1.0, rate=2), InputError, r"rate is 2: "),
        (lambda g: exact(g, signals=X9, noise=1.0, rate=np.nan), InputError, "rate is nan"),
        (lambda g: exact(g, signals=X9, noise=1.0, rate="0.9"), InputError, "rate is '0.9', a number"),
        (lambda g: exact(g, signals=X9, noise=1.0, rate=True), InputError, "rate is True, a number"),
        (
            lambda g: exact(g, signals=X9, noise=1.0, rate=0.3, lower=2.0),
            InputError,
            "rate is 0.3: .*lower allows.*smaller lower",
        ),
        (
            lambda g: exact(g, signals=X9, noise=1.0, rate=0.3, data_weight=np.r_[1.0, np.zeros(8)]),
            InputError,
            "rate is 0.3: nodes without a data term.*larger rate",
        ),
        (
            lambda g: blind(g, measurements=3 * X9, observed=np.arange(9)[:, None] > np.zeros(20), noise=0.1, rate=0.5),
            InputError,
            "rate is 0.5 and 1 stations have no reading",
        ),
        (lambda g: edge(g, measurements=3 * X9, noise=1.0, rate=0.5), InputError, "rate is 0.5 .*'likelihood'.*blind"),
        (
            lambda g: edge(nareg.graphs.grid((40, 40)), signals=np.ones((1600, 9)), noise=1.0, rate=0.5),
            TooLargeError,
            "rate is 0.5: .*2000 nodes and edges.*exact or blind",
        ),
    ],
)
def test_bad_rates_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call(nareg.graphs.grid((3, 3)))
