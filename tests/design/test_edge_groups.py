"""Edge designs with weights shared by groups of nodes, against dense searches and the design without groups."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

import nareg
from nareg.design import edge
from nareg.design._edge.cone import LikelihoodObjective, RiskObjective
from nareg.design._edge.sparse_likelihood import EdgeLikelihood
from nareg.design._edge.sparse_risk import EdgeRisk
from nareg.design._edge.support import support_of
from nareg.design._risk.descent import Groups
from nareg.design._risk.sampled import SampleColumns, clean_and_noise
from nareg.errors import InputError
from nareg.results import Status
from tests.design.test_edge import covariance, field
from tests.helpers import dense_risk

STRUCTURES = pytest.mark.parametrize("structure", ["symmetric", "laplacian"])
CRITERIA = pytest.mark.parametrize("criterion", ["risk", "likelihood"])
PATHS = pytest.mark.parametrize("path", ["dense", "sparse"])


def network(rng, n: int = 30):
    """A sensor network whose edges weigh from 1 to 3."""
    g = nareg.graphs.sensor(n, k=4, rng=rng)
    upper = sp.triu(g.adjacency, format="coo")
    weighted = sp.coo_array((rng.uniform(1, 3, upper.nnz), upper.coords), shape=upper.shape)
    return nareg.Graph(sp.csr_array(weighted + weighted.T))


def take(path: str, monkeypatch) -> None:
    if path == "sparse":
        monkeypatch.setattr("nareg.design._edge.edge.DENSE_UNKNOWNS", 0)


def best_of_two(L: np.ndarray, value, *, nonnegative: bool) -> float:
    """Smallest value over ``kappa I + beta L``, by searches from a grid of starts."""
    least = np.inf
    for kappa in (0.01, 0.3, 3.0):
        for beta in (0.01, 0.3, 3.0):
            bounds = [(0.0 if nonnegative else None, None)] * 2
            found = minimize(
                lambda p: value(p[0] * np.eye(len(L)) + p[1] * L), [kappa, beta], bounds=bounds, method="Nelder-Mead",
                options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 2000},
            )  # fmt: skip
            least = min(least, found.fun)
    return least


def mean_squared_error(R: np.ndarray, Sigma: np.ndarray):
    def value(S: np.ndarray) -> float:
        K = np.eye(len(S)) + S
        return float("inf") if np.linalg.eigvalsh(K)[0] <= 0 else sum(dense_risk(np.linalg.inv(K), R, Sigma))

    return value


def negative_likelihood(R: np.ndarray):
    def value(S: np.ndarray) -> float:
        return float("inf") if np.linalg.eigvalsh(S)[0] <= 0 else float(np.sum(S * R) - np.linalg.slogdet(S)[1])

    return value


@CRITERIA
@STRUCTURES
@pytest.mark.slow
def test_one_group_is_the_best_filter_of_two_numbers(rng, criterion, structure):
    g = network(rng)
    X = field(g, 60, rng)
    R, L = X @ X.T / 60, g.laplacian().toarray()
    d = edge(g, signals=X, noise=0.5, criterion=criterion, structure=structure, shrink=None, groups=np.zeros(30))
    value = mean_squared_error(R, 0.5 * np.eye(30)) if criterion == "risk" else negative_likelihood(R)
    best = best_of_two(L, value, nonnegative=structure == "laplacian")
    assert d.objective == pytest.approx(best, rel=1e-6)
    scale = 1.0 if criterion == "risk" else 0.5
    assert value(d.matrix.toarray() / scale) == pytest.approx(best, rel=1e-6)
    assert d.certificate.details["degrees_of_freedom"] == 2


@pytest.mark.slow
@PATHS
def test_one_group_is_the_best_filter_of_two_numbers_for_other_operators(rng, monkeypatch, path):
    """The normalized Laplacian has row sums of its own and edges of unequal size."""
    take(path, monkeypatch)
    g = network(rng)
    X = field(g, 60, rng)
    L = g.laplacian("normalized")
    best = best_of_two(L.toarray(), negative_likelihood(X @ X.T / 60), nonnegative=False)
    d = edge(L, signals=X, criterion="likelihood", shrink=None, groups=["all"] * 30)
    assert d.objective == pytest.approx(best, rel=1e-6)
    assert d.certificate.details["degrees_of_freedom"] == 2


@pytest.mark.slow
@CRITERIA
@STRUCTURES
@PATHS
def test_groups_of_one_node_are_no_groups(rng, monkeypatch, criterion, structure, path):
    take(path, monkeypatch)
    g = network(rng)
    options = {"signals": field(g, 200, rng), "noise": 0.5, "criterion": criterion, "structure": structure, "shrink": 0.1}
    plain, own = edge(g, **options), edge(g, groups=rng.permutation(30), **options)
    both_converge = own.status is plain.status is Status.CONVERGED
    assert both_converge or (path, criterion) == ("sparse", "risk")  # L-BFGS crawls: rounding decides where it is at the limit
    assert own.objective == pytest.approx(plain.objective, rel=1e-5 if both_converge else 1e-3)
    if both_converge:
        np.testing.assert_allclose(own.weights, plain.weights, rtol=1e-2, atol=1e-3 * np.abs(plain.weights).max())
    assert own.certificate.details["degrees_of_freedom"] == plain.certificate.details["degrees_of_freedom"]


@CRITERIA
@STRUCTURES
def test_weights_are_shared(rng, criterion, structure):
    g = network(rng)
    groups = rng.integers(0, 3, 30)
    d = edge(g, signals=field(g, 60, rng), noise=0.5, criterion=criterion, structure=structure, groups=groups)
    S, A = d.matrix.toarray(), g.adjacency.toarray()
    sums = S.sum(axis=1)
    for label in range(3):
        assert np.ptp(sums[groups == label]) < 1e-8 * np.abs(S).max()
    for first, second in [(0, 0), (0, 1), (1, 2), (2, 2)]:
        i, j = np.nonzero(A * np.outer(groups == first, groups == second))
        ratio = -S[i, j] / A[i, j]
        assert np.ptp(ratio) < 1e-10 * np.abs(ratio).max()
    assert d.objective <= d.certificate.details["best_scalar_risk" if criterion == "risk" else "best_two_parameter_likelihood"]
    if structure == "laplacian":
        assert sums.min() > -1e-9 * np.abs(S).max()
        assert S[A > 0].max() <= 0


@CRITERIA
def test_more_groups_cannot_be_worse(rng, criterion):
    g = network(rng)
    options = {"signals": field(g, 60, rng), "noise": 0.5, "criterion": criterion, "shrink": None}
    coarse = np.arange(30) // 10
    one, three, ten, own = (
        edge(g, groups=labels, **options).objective for labels in (np.zeros(30), coarse, np.arange(30) // 3, None)
    )
    assert one > three > ten > own


@CRITERIA
@PATHS
def test_the_order_of_nodes_does_not_matter(rng, monkeypatch, criterion, path):
    take(path, monkeypatch)
    g = network(rng)
    X, groups, order = field(g, 80, rng), np.repeat(["north", "south", "west"], 10), rng.permutation(30)
    moved = nareg.Graph(g.adjacency[order][:, order])
    options = {"criterion": criterion, "shrink": None}
    if criterion == "risk":  # a second moment and identity covariance: probes of the noise are drawn by node
        options["noise"] = 0.5
    here = edge(g, signals=X, groups=groups, **options)
    there = edge(moved, signals=X[order], groups=groups[order], **options)
    close = 1e-5 if criterion == "likelihood" or path == "dense" else 5e-2
    assert there.objective == pytest.approx(here.objective, rel=close)
    if close < 1e-2:
        S = here.matrix.toarray()[np.ix_(order, order)]
        np.testing.assert_allclose(there.matrix.toarray(), S, rtol=1e-2, atol=1e-3 * np.abs(S).max())


@pytest.mark.parametrize("kind", ["combinatorial", "normalized"])
@CRITERIA
def test_gradient_and_hessian_against_finite_differences(rng, kind, criterion):
    g = network(rng, 20)
    base = nareg._solvers.system.penalty(g.laplacian(kind))
    support = support_of(base, Groups(rng.integers(0, 3, 20), 20))
    X, Sigma, c = rng.standard_normal((20, 6)), covariance(20, rng), rng.uniform(0.5, 2, 20)
    R = X @ X.T / 6
    cross = c[:, None] * R
    if criterion == "risk":
        dense = RiskObjective(support, c, c[:, None] * (R + Sigma) * c, (cross + cross.T) / 2, float(np.trace(R)))
        sparse, columns = EdgeRisk(base, support, c), clean_and_noise(X, np.linalg.cholesky(Sigma))
    else:
        dense = LikelihoodObjective(support, R)
        likelihood = EdgeLikelihood(base, support)
        sparse, columns = likelihood, likelihood.moments(SampleColumns(X / np.sqrt(6), X, 6))
    u = rng.uniform(0.3, 0.6, support.size) + support.identity
    point = dense.at(u)
    value, gradient = sparse.value_and_gradient(u, columns)
    assert value == pytest.approx(point.value, rel=1e-10)
    np.testing.assert_allclose(gradient, dense.slope(point), rtol=1e-8, atol=1e-9 * np.abs(gradient).max())
    stiffness, lower = dense.curvature(point)
    hessian = np.tril(lower) + np.tril(lower, -1).T
    np.testing.assert_allclose(stiffness, np.diagonal(dense.gauss_newton(point)), rtol=1e-12)
    for k in range(support.size):
        step = 1e-5 * np.eye(support.size)[k]
        ahead, behind = dense.at(u + step), dense.at(u - step)
        assert gradient[k] == pytest.approx((ahead.value - behind.value) / 2e-5, rel=1e-5, abs=1e-6)
        bend = (dense.slope(ahead) - dense.slope(behind)) / 2e-5
        np.testing.assert_allclose(hessian[k], bend, rtol=1e-4, atol=1e-6 * np.abs(bend).max())
    np.testing.assert_allclose(support.unknowns(support.entries(u)), u, rtol=1e-8)


def test_the_diagonal_from_columns_is_that_of_the_dense_hessian(rng):
    g = network(rng, 20)
    base = nareg._solvers.system.penalty(g)
    support = support_of(base, Groups(np.arange(20) // 6, 20))
    U = rng.standard_normal((20, 5))
    P = covariance(20, rng)
    exact = support.product_diagonal(U @ U.T, P @ P)
    np.testing.assert_allclose(support.column_product_diagonal(U, P), exact, rtol=1e-10)
    # identity probes: the sketches are exact
    eye = np.eye(20)
    each = np.concatenate([np.diagonal(P), np.diagonal(P)[support.i] + np.diagonal(P)[support.j] - 2 * P[support.i, support.j]])
    np.testing.assert_allclose(
        support.squared_diagonal(each, lambda: ((P, eye), (P, eye))), support.product_diagonal(P, P), rtol=1e-10
    )


@pytest.mark.parametrize("shrink", [None, 0.2])
@STRUCTURES
def test_sparse_likelihood_is_the_dense_one(rng, monkeypatch, structure, shrink):
    g = network(rng, 60)
    groups = np.arange(60) // 12
    options = {
        "signals": field(g, 60, rng),
        "criterion": "likelihood",
        "structure": structure,
        "shrink": shrink,
        "groups": groups,
    }
    dense = edge(g, **options)
    take("sparse", monkeypatch)
    ours = edge(g, **options)
    assert ours.status is Status.CONVERGED
    # the sparse path estimates the weights of the proximal term, which shrinkage adds
    assert ours.objective == pytest.approx(dense.objective, rel=1e-6 if shrink is None else 1e-3)


@STRUCTURES
def test_sparse_risk_is_near_the_dense_one(rng, monkeypatch, structure):
    """The dense risk has its expectation over the noise, the sampled one 32 probes."""
    g = network(rng, 60)
    X = field(g, 60, rng)
    options = {"signals": X, "noise": 0.5, "structure": structure, "shrink": None, "groups": np.arange(60) // 20}
    dense = edge(g, **options)
    take("sparse", monkeypatch)
    ours = edge(g, **options)
    assert ours.status is Status.CONVERGED
    found, least = (nareg.design.risk(g, d, signals=X, noise=0.5).mse for d in (ours, dense))
    assert least * (1 - 1e-6) <= found < 1.02 * least


def test_few_signals_want_few_weights(rng):
    """Test error with five signals: groups that are right beat a weight for every edge."""
    g = network(rng, 60)
    groups = (np.arange(60) >= 30).astype(int)
    strength = np.where(groups == 0, 0.05, 2.0)
    precision = g.laplacian().toarray() * np.sqrt(np.outer(strength, strength)) + np.diag(strength)
    X = np.linalg.solve(np.linalg.cholesky(precision).T, rng.standard_normal((60, 505)))
    train, test = X[:, :5], X[:, 5:]
    shared, full = (edge(g, signals=train, noise=0.5, shrink=None, groups=labels) for labels in (groups, None))
    errors = [nareg.design.risk(g, d, signals=test, noise=0.5).mse for d in (shared, full)]
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (np.zeros(8), r"groups has shape \(8,\), expected \(9,\)"),
        (np.r_[np.zeros(8), np.nan], r"groups\[8\] is not finite"),
        (np.zeros((9, 1)), "groups has shape"),
    ],
)
def test_bad_groups_are_named(groups, words):
    with pytest.raises(InputError, match=words):
        edge(nareg.graphs.grid((3, 3)), signals=np.ones(9), noise=1.0, groups=groups)
