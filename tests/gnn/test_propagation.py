"""Every way to propagate against dense float64 linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg.gnn import Adjacency, Chebyshev, ConjugateGradients, Neumann, Perturbation, propagate, series
from nareg.gnn._operators import TorchSparse, clenshaw, horner, neumann
from nareg.gnn.adjacency import csr_tensor
from nareg.graph import Graph


def random_graph(n: int, seed: int) -> Graph:
    """A weighted graph that may have isolated nodes."""
    rng = np.random.default_rng(seed)
    upper = sp.triu(sp.random_array((n, n), density=min(3 / n, 1), rng=rng), 1)
    return Graph(upper + upper.T)


def perturbed(adjacency: Adjacency, U: np.ndarray, eps: float, masked: bool = False) -> np.ndarray:
    M = adjacency.matrix.toarray()
    P = U @ U.T
    if masked:
        P = np.where(M != 0, P, 0.0)
    return M - eps * P / np.linalg.norm(P)


def truncated(M: np.ndarray, X: np.ndarray, lam: float, order: int) -> np.ndarray:
    c = lam / (lam + 1)
    return sum(np.linalg.matrix_power(c * M, s) for s in range(order + 1)) @ X / (lam + 1)


def exact(M: np.ndarray, X: np.ndarray, lam: float) -> np.ndarray:
    return np.linalg.solve((1 + lam) * np.eye(len(M)) - lam * M, X)


def propagated(graph, x, *, lam=32.0, solver="neumann", order=16, tol=1e-3, eps=0.0, weights=None, **more):
    """``propagate`` with solver and perturbation given by their numbers."""
    solvers = {"neumann": Neumann(order), "chebyshev": Chebyshev(tol), "cg": ConjugateGradients(tol)}
    perturbation = Perturbation(eps, **more) if eps else None
    return propagate(graph, x, lam=lam, solver=solvers[solver], perturbation=perturbation, weights=weights)


def both(x: np.ndarray) -> list:
    return [x, torch.from_numpy(x)]


@pytest.mark.slow
@given(
    n=st.integers(1, 25), F=st.integers(1, 30), seed=st.integers(0, 99), lam=st.floats(0, 40), order=st.integers(0, 9),
    eps=st.sampled_from([0.0, 0.02, 0.3]), normalization=st.sampled_from(["sym", "rw"]),
)  # fmt: skip
def test_truncated_series(n, F, seed, lam, order, eps, normalization):
    g = random_graph(n, seed)
    x = np.random.default_rng(seed).standard_normal((n, F))
    A = Adjacency(g, normalization=normalization)
    M = perturbed(A, x, eps) if eps else A.matrix.toarray()
    if lam / (lam + 1) * np.abs(np.linalg.eigvals(M)).max() > 0.999:  # refused, or within the eigenvalue's accuracy of it
        return
    for features in both(x):
        np.testing.assert_allclose(
            propagated(A, features, lam=lam, order=order, eps=eps), truncated(M, x, lam, order), atol=1e-10
        )


@pytest.mark.slow
@given(
    n=st.integers(1, 25), seed=st.integers(0, 99), lam=st.floats(0, 2000), order=st.integers(0, 9),
    eps=st.sampled_from([0.0, 0.02]), normalization=st.sampled_from(["sym", "rw"]),
)  # fmt: skip
def test_series_of_unit_gain_leaves_what_the_filter_leaves(n, seed, lam, order, eps, normalization):
    g = random_graph(n, seed)
    A = Adjacency(g, normalization=normalization)
    x = np.random.default_rng(seed).standard_normal((n, 3))
    solver, perturbation = Neumann(order, unit_gain=True), Perturbation(eps) if eps else None
    M = perturbed(A, x, eps) if eps else A.matrix.toarray()
    if lam / (lam + 1) * np.abs(np.linalg.eigvals(M)).max() > 0.999:
        M = None  # refused, or within the eigenvalue's accuracy of it
    # the eigenvector of the eigenvalue 1: ones for a random walk, roots of degrees for the symmetric matrix
    smooth = np.ones((n, 1)) if normalization == "rw" else np.sqrt(A.degrees)[:, None]
    np.testing.assert_allclose(propagate(A, smooth, lam=lam, solver=solver), smooth, rtol=1e-9)
    if M is None:
        return
    gain = 1 - (lam / (lam + 1)) ** (order + 1)
    for features in both(x):
        scaled = propagate(A, features, lam=lam, solver=solver, perturbation=perturbation)
        np.testing.assert_allclose(np.asarray(scaled) * gain, truncated(M, x, lam, order), atol=1e-9)


@pytest.mark.slow
@given(
    n=st.integers(1, 25), F=st.integers(1, 30), seed=st.integers(0, 99), lam=st.floats(0, 200),
    eps=st.sampled_from([0.0, 0.5, 5.0]), solver=st.sampled_from(["cg", "chebyshev"]),
)  # fmt: skip
def test_the_filter_itself_whatever_eps(n, F, seed, lam, eps, solver):
    A = Adjacency(random_graph(n, seed))
    x = np.random.default_rng(seed).standard_normal((n, F))
    M = perturbed(A, x, eps) if eps else A.matrix.toarray()
    for features in both(x):
        result = propagated(A, features, lam=lam, solver=solver, tol=1e-9, eps=eps)
        assert np.linalg.norm(np.asarray(result) - exact(M, x, lam)) <= 1e-7 * np.linalg.norm(x)


@pytest.mark.parametrize("solver", ["cg", "chebyshev"])
def test_random_walk_filter(solver):
    A = Adjacency(random_graph(20, 1), normalization="rw")
    x = np.random.default_rng(1).standard_normal((20, 3))
    for features in both(x):
        result = propagated(A, features, lam=7.0, solver=solver, tol=1e-10)
        np.testing.assert_allclose(result, exact(A.matrix.toarray(), x, 7.0), atol=1e-8)


@pytest.mark.parametrize("solver", ["neumann", "cg"])
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_edge_masked_perturbation(solver, kind):
    A = Adjacency(random_graph(25, 2))
    x = np.random.default_rng(2).standard_normal((25, 4))
    M = perturbed(A, x, 0.2, masked=True)
    result = propagated(A, kind(x), lam=4.0, order=6, eps=0.2, masked=True, solver=solver, tol=1e-10)
    expected = truncated(M, x, 4.0, 6) if solver == "neumann" else exact(M, x, 4.0)
    np.testing.assert_allclose(result, expected, atol=1e-8)


@pytest.mark.parametrize("numbers", [1, 50])
def test_edge_masked_perturbation_taken_in_slices(numbers, monkeypatch):
    A, x = Adjacency(random_graph(25, 3)), np.random.default_rng(4).normal(size=(25, 7))
    whole = propagated(A, x, lam=4.0, order=6, eps=0.2, masked=True)
    monkeypatch.setattr("nareg.gnn.robust.CHUNK", numbers)
    np.testing.assert_array_equal(propagated(A, x, lam=4.0, order=6, eps=0.2, masked=True), whole)


def test_perturbation_of_other_features_than_those_filtered():
    A = Adjacency(random_graph(15, 3))
    rng = np.random.default_rng(3)
    x, U = rng.standard_normal((15, 4)), rng.standard_normal((15, 6))
    M = perturbed(A, U, 0.4)
    for solver in ("cg", "chebyshev"):
        result = propagated(A, x, lam=3.0, eps=0.4, factor=U, solver=solver, tol=1e-10)
        np.testing.assert_allclose(result, exact(M, x, 3.0), atol=1e-8)
    np.testing.assert_allclose(propagated(A, x, lam=3.0, order=5, eps=0.4, factor=U), truncated(M, x, 3.0, 5), atol=1e-12)


def test_exact_rngc_is_exact_ngc_times_an_invertible_matrix(rng):
    """Why RNGC and NGC hardly differ: with the filter itself a linear layer can undo what RNGC does."""
    A = Adjacency(random_graph(30, 4))
    x = rng.standard_normal((30, 5))
    plain, robust = (propagated(A, x, lam=8.0, solver="cg", tol=1e-12, eps=eps) for eps in (0.0, 1.0))
    T, *_ = np.linalg.lstsq(plain, robust, rcond=None)
    np.testing.assert_allclose(plain @ T, robust, atol=1e-8)
    assert np.linalg.cond(T) < 1e3


def test_generalized_pagerank(rng):
    A = Adjacency(random_graph(12, 5))
    x, weights = rng.standard_normal((12, 2)), [0.3, -0.2, 0.0, 0.5]
    expected = sum(w * np.linalg.matrix_power(A.matrix.toarray(), k) for k, w in enumerate(weights)) @ x
    for features in both(x):
        np.testing.assert_allclose(propagated(A, features, weights=weights), expected, atol=1e-12)
    np.testing.assert_array_equal(propagate(A, x, weights=[2.0]), 2 * x)


@pytest.mark.parametrize(
    ("lam", "tol", "chebyshev", "products"), [(32.0, 1e-2, 18, 149), (32.0, 1e-3, 28, 224), (1.0, 1e-3, 5, 9)]
)
def test_products_that_an_accuracy_takes(lam, tol, chebyshev, products):
    assert series.products_needed(lam, tol) == chebyshev
    assert series.products_needed(lam, tol, "neumann") == products


@given(lam=st.floats(1e-3, 2000), tol=st.sampled_from([1e-1, 1e-3, 1e-6]))
def test_chebyshev_coefficients_keep_their_promise(lam, tol):
    x = np.cos(np.linspace(0, np.pi, 501))
    values = np.polynomial.chebyshev.chebval(x, series.chebyshev_coefficients(lam, tol))
    error = np.abs(values - 1 / (1 + lam * (1 - x))).max()
    assert error <= tol * (1 + 1e-9) + 1e-12


def test_known_series_sum_to_what_they_should():
    assert series.pagerank_weights(0.1, 7).sum() == pytest.approx(1)
    assert series.heat_weights(3.0, 40).sum() == pytest.approx(1)
    np.testing.assert_array_equal(series.heat_weights(0.0, 2), [1, 0, 0])
    assert series.neumann_weights(4.0, 9).sum() == pytest.approx(1 - 0.8**10)


def test_rows_sum_as_the_theory_says_for_random_walks_only():
    A = Adjacency(nareg.graphs.sensor(40, rng=np.random.default_rng(0)), normalization="rw")
    ones = np.ones((40, 1))
    expected = 1 - (32 / 33) ** 17
    np.testing.assert_allclose(propagated(A, ones), expected, atol=1e-12)
    assert np.ptp(propagate(A.symmetric, ones)) > 0.01


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "arguments", [{}, {"eps": 0.1}, {"solver": "cg"}, {"solver": "chebyshev", "eps": 0.3}, {"weights": [1, 2]}]
)
def test_dtype_is_kept_and_arguments_are_not_changed(dtype, arguments, rng):
    A = Adjacency(random_graph(20, 6))
    x = rng.standard_normal((20, 3)).astype(dtype)
    before = x.copy()
    for features in (x, torch.from_numpy(x)):
        result = propagated(A, features, lam=2.0, order=3, **arguments)
        assert str(result.dtype).removeprefix("torch.") == np.dtype(dtype).name
    np.testing.assert_array_equal(x, before)


@pytest.mark.slow
def test_every_form_of_a_graph_gives_the_same():
    g = nareg.graphs.sensor(30, rng=np.random.default_rng(0))
    index, weight = g.to_edge_index()
    x = np.random.default_rng(0).standard_normal((30, 2))
    expected = propagate(Adjacency(g), x)
    csr = g.adjacency
    tensor = csr_tensor(csr, torch.float64, torch.device("cpu"))
    for graph in (g, csr, csr.tocoo(), tensor, tensor.to_sparse_coo()):
        np.testing.assert_allclose(propagated(graph, x), expected, atol=1e-12)
    for convert in (np.asarray, torch.tensor):
        result = propagate(Adjacency(convert(index), edge_weight=convert(weight)), x)
        np.testing.assert_allclose(result, expected, atol=1e-12)


def test_self_loops_keep_their_weight_and_isolated_nodes_their_features():
    A = Adjacency(sp.csr_array([[3.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    np.testing.assert_array_equal(A.degrees, [4, 2, 1])
    x = np.array([[1.0], [2.0], [5.0]])
    for solver in ("cg", "chebyshev"):
        assert propagated(A, x, solver=solver, tol=1e-9)[2] == pytest.approx(5.0)


class Counting(TorchSparse):
    """Notes where results are written."""

    def __init__(self, matrix):
        super().__init__(matrix, matrix)
        self.places: set[int] = set()

    def multiply_add(self, Z, X, alpha, beta, out):
        self.places.add(out.data_ptr())
        return super().multiply_add(Z, X, alpha, beta, out)


@pytest.mark.parametrize(
    "run",
    [
        lambda M, X: neumann(M, X, lam=32.0, order=16),
        lambda M, X: horner(M, X, [0.1] * 17),
        lambda M, X: clenshaw(M, X, [0.1] * 17),
    ],
)
def test_recurrences_use_two_arrays(run):
    A = Adjacency(random_graph(30, 7))
    X = torch.randn(30, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    operator = Counting(A.tensor(X.dtype, X.device))
    result = run(operator, X)
    assert len(operator.places | {result.data_ptr()}) == 2
    assert X.data_ptr() not in operator.places


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1.0, 1e12, 1e25])
@pytest.mark.parametrize(
    "arguments", [{}, {"solver": "cg"}, {"eps": 0.3}, {"solver": "cg", "eps": 2.0}, {"solver": "chebyshev", "eps": 2.0}]
)
def test_float32_at_any_scale(scale, arguments, rng):
    """Squares and fourth powers of features leave float32 long before the features do."""
    A = Adjacency(random_graph(20, 6))
    x = rng.standard_normal((20, 3))
    expected = propagated(A, x, lam=3.0, order=4, **arguments)
    for features in ((scale * x).astype(np.float32), torch.tensor(scale * x, dtype=torch.float32)):
        result = np.asarray(propagated(A, features, lam=3.0, order=4, **arguments), dtype=np.float64) / scale
        assert np.linalg.norm(result - expected) < 3e-3 * np.linalg.norm(x)


def test_solver_reports_what_a_precision_cannot_reach():
    A = Adjacency(nareg.graphs.grid((100,)))
    x = np.random.default_rng(0).standard_normal((100, 2)).astype(np.float32)
    with pytest.raises(nareg.errors.SolverError, match=r"reached a residual of .* instead of tol = 1e-09.*float64"):
        propagated(A, x, lam=1e5, solver="cg", tol=1e-9)


def test_numpy_and_torch_need_not_be_contiguous(rng):
    A = Adjacency(random_graph(20, 8))
    x = rng.standard_normal((6, 20)).T[:, ::2]
    expected = truncated(A.matrix.toarray(), x, 32.0, 16)
    np.testing.assert_allclose(propagated(A, x), expected, atol=1e-12)
    np.testing.assert_allclose(propagated(A, torch.from_numpy(x.copy().T).T), expected, atol=1e-12)


@pytest.mark.slow
def test_propagation_without_torch():
    import subprocess
    import sys

    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np, nareg\n"
        "x = nareg.gnn.propagate(nareg.graphs.grid((2, 2)), np.eye(4), perturbation=nareg.gnn.Perturbation(0.1))\n"
        "assert x.shape == (4, 4)\n"
        "try:\n    nareg.gnn.NGC\n"
        "except nareg.errors.MissingDependencyError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "nareg.gnn.NGC needs torch: pip install 'nareg[torch]'."


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
def test_gpu_gives_what_the_cpu_gives(rng):
    A = Adjacency(random_graph(50, 9))
    x = torch.from_numpy(rng.standard_normal((50, 6)))
    for arguments in ({}, {"eps": 0.1}, {"solver": "cg"}, {"solver": "chebyshev", "eps": 0.3}):
        there = propagated(A, x.cuda(), **arguments).cpu()
        np.testing.assert_allclose(there, propagated(A, x, **arguments), atol=1e-9)
