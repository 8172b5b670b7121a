"""Every solver of H = I + lam L against the dense inverse: graph shapes, strengths, dtypes; and which one "auto" takes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

import nareg
from experiments._sparsifier import sparsify
from nareg import herta
from nareg.errors import InputError
from nareg.gnn import Adjacency
from nareg.herta._iterative import steps
from nareg.herta._system import SOLVERS, System, scaled_laplacian_of
from tests.herta.helpers import best_squared, propagated

ITERATIVE = ("cg", "cholesky")


def system_of(graph, kind, lam, solver, **options):
    L, scale = scaled_laplacian_of(graph, kind)
    return System(L, lam, scale=scale, solver=solver, **options)


def dense_solution(system, B):
    return np.linalg.solve(np.eye(system.n_nodes) + system.lam * system.laplacian.toarray(), B)


def longest_error(found, exact, B):
    """Largest error of a column over the length of its right-hand side."""
    size = np.linalg.norm(B, axis=0)
    return float((np.linalg.norm(found - exact, axis=0) / np.where(size > 0, size, 1)).max())


@st.composite
def graphs(draw):
    """Weights over decades, isolated nodes, several components, self-loops, stars and cliques."""
    n, rng = draw(st.integers(1, 50)), np.random.default_rng(draw(st.integers(0, 10**6)))
    shape = draw(st.sampled_from(["random", "star", "clique", "path"]))
    if shape == "random":
        m = draw(st.integers(0, 3 * n))
        i, j = rng.integers(0, n, m), rng.integers(0, n, m)
    elif shape == "star":
        i, j = np.zeros(n - 1, int), np.arange(1, n)
    elif shape == "clique":
        i, j = np.triu_indices(max(n // 2, 1), 1)  # the other half is isolated
    else:
        i, j = np.arange(n - 1), np.arange(1, n)
    upper = sp.csr_array((rng.lognormal(0, draw(st.sampled_from([0.0, 1.0])), i.size), (i, j)), shape=(n, n))
    return Adjacency(sp.csr_array(upper + upper.T)), rng


@pytest.mark.slow
@given(graphs(), st.sampled_from(["augmented", "combinatorial"]), st.sampled_from([0.0, 0.5, 30.0, 1e3, 1e6]))
@pytest.mark.parametrize("solver", SOLVERS)
def test_solves_are_within_their_tolerance(solver, graph, kind, lam):
    adjacency, rng = graph
    if solver == "chebyshev":
        lam = min(lam, 1e3)
    system = system_of(adjacency, kind, lam, solver)
    B = rng.standard_normal((system.n_nodes, 3)) * np.array([1e-150, 1.0, 0.0])
    exact = dense_solution(system, B)
    for tol in (1e-2, 1e-6, 1e-10):
        found = system.solve(torch.as_tensor(B), tol=tol).numpy()
        assert longest_error(found, exact, B) <= 1.6 * max(tol, system.floor)


@pytest.mark.parametrize("solver", ITERATIVE)
@pytest.mark.slow
def test_single_precision_has_its_own_floor(solver, rng):
    system = system_of(nareg.graphs.power_law(200, rng=rng), "augmented", 100.0, solver, dtype=torch.float32)
    B = rng.standard_normal((200, 5)).astype(np.float32)
    found = system.solve(torch.as_tensor(B), tol=1e-9)
    assert found.dtype == torch.float32
    assert longest_error(found.numpy(), dense_solution(system, B), B) <= 1.6 * system.floor < 2e-3


def test_the_iterations_with_the_factor_do_not_grow_with_lam(rng):
    """On a grid, where those with the diagonal grow with sqrt(lam)."""
    B, counts = torch.as_tensor(rng.standard_normal((1600, 4))), {}
    for solver in ITERATIVE:
        systems = [system_of(nareg.graphs.grid((40, 40)), "augmented", lam, solver) for lam in (1e2, 1e3, 1e4, 1e5)]
        for system in systems:
            system.solve(B, tol=1e-6)
        counts[solver] = [system.products / 4 for system in systems]
    assert max(counts["cholesky"]) < 25
    assert max(counts["cholesky"]) <= 1.5 * counts["cholesky"][0]
    assert counts["cg"][-1] > 4 * max(counts["cholesky"])


def test_auto_takes_the_polynomial_the_factor_or_conjugate_gradients(rng):
    graph = nareg.graphs.grid((40, 40))
    B = torch.as_tensor(rng.standard_normal((1600, 4)))

    def products(lam, solver):
        system = system_of(graph, "augmented", lam, solver)
        found = system.solve(B, tol=1e-6)
        return found, system.products

    for lam, taken in ((10.0, "chebyshev"), (1e4, "cholesky")):
        (own, count), (other, expected) = products(lam, "auto"), products(lam, taken)
        assert count == expected
        np.testing.assert_array_equal(own.numpy(), other.numpy())
    # nothing is known of an operator's null space, so that there is no factor
    L, _ = scaled_laplacian_of(graph, "augmented")
    system = System(L, 1e4)
    found = system.solve(B, tol=1e-6).numpy()
    assert longest_error(found, dense_solution(system, B.numpy()), B.numpy()) <= 1.5e-6
    assert system.products > 4 * 100


@pytest.mark.parametrize("lam", [50.0, 1e3, 1e5])
def test_the_factors_solves_are_linear(lam, rng):
    system = system_of(nareg.graphs.power_law(300, rng=rng), "augmented", lam, "cholesky")
    B = rng.standard_normal((300, 5))
    mixed = rng.standard_normal((5, 4))
    first, second = (system.solve(torch.as_tensor(A), tol=1e-2).numpy() for A in (B, B @ mixed))
    np.testing.assert_allclose(first @ mixed, second, atol=1e-12 * abs(second).max())


@pytest.mark.parametrize("solver", ["auto", "chebyshev", "cholesky"])
@pytest.mark.parametrize("lam", [30.0, 1e3])
def test_features_of_deficient_rank_are_no_noise_to_fit(lam, solver, rng):
    """By conjugate gradients the direct solve goes millions along the missing direction, and stalls."""
    graph = nareg.graphs.erdos_renyi(400, 0.05, rng=rng)
    X, labels = rng.standard_normal((400, 10)), rng.integers(0, 3, 400)
    X[:, 9] = X[:, 0] + X[:, 1]
    found = herta.fit(graph, X, labels, lam=herta.Unfolding(lam, solver=solver), optimizer="direct")
    assert (found.status.name, found.rank) == ("CONVERGED", 9)
    assert found.loss == pytest.approx(best_squared(propagated(graph, X[:, :9], lam), np.eye(3)[labels]), rel=1e-8)


def test_ends_of_the_spectrum_that_were_wrong_are_moved_apart(rng):
    system = system_of(nareg.graphs.grid((15, 15)), "augmented", 1e3, "cholesky")
    B = rng.standard_normal((225, 3))
    solver = system._iteration
    low, high = solver._low, solver._high
    solver._low, solver._high = 1.05 * (low + high) / 2, 0.9 * high
    found = system.solve(torch.as_tensor(B), tol=1e-8).numpy()
    assert longest_error(found, dense_solution(system, B), B) <= 1e-8
    assert solver.condition > high / low / 4


def test_ends_far_apart_take_more_steps_and_stay(rng):
    system = system_of(nareg.graphs.grid((6, 10)), "augmented", 1e4, "cholesky")
    B = rng.standard_normal((60, 3))
    solver = system._iteration
    solver._low, solver._high = ends = solver._low / 50, 10 * solver._high
    solved = system.solve(torch.as_tensor(B), tol=1e-9).numpy()
    assert longest_error(solved, dense_solution(system, B), B) <= 1e-9
    assert (solver._low, solver._high) == ends


def test_ends_that_are_right_take_no_more_steps(rng):
    solver = system_of(nareg.graphs.grid((30, 30)), "augmented", 100.0, "cholesky")._iteration
    _, products = solver.solve(rng.standard_normal((900, 3)), 1e-2)
    assert products == 3 * steps(solver.condition, 1e-2)


def test_a_sparsified_graph_keeps_the_factor(rng):
    """Dropped edges leave ``D^1/2 1`` in the null space of the augmented Laplacian."""
    graph = Adjacency(nareg.graphs.erdos_renyi(150, 0.4, rng=rng))
    sparse = sparsify(graph, lam=50.0, epsilon=0.5, rng=rng, draws=2000, measure=False)
    system = System(sparse.laplacian, 50.0, scale=np.sqrt(graph.degrees), solver="cholesky")
    B = rng.standard_normal((150, 2))
    found = system.solve(torch.as_tensor(B), tol=1e-9).numpy()
    assert longest_error(found, dense_solution(system, B), B) <= 1e-8


@pytest.mark.parametrize("loss", ["mse", "ce"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_trainings_reach_the_same_optimum(solver, loss, rng):
    graph, X, labels = nareg.graphs.grid((10, 12)), rng.standard_normal((120, 6)), rng.integers(0, 3, 120)
    loss = herta.Regularized(loss, 0.1 if loss == "ce" else 0.0)
    optimizer = herta.Optimizer("lbfgs" if loss.loss == "ce" else "pcg")
    found = herta.fit(graph, X, labels, lam=herta.Unfolding(500.0, solver=solver), loss=loss, optimizer=optimizer)
    assert found.status.name == "CONVERGED"
    if loss.loss == "mse":
        assert found.loss == pytest.approx(best_squared(propagated(graph, X, 500.0), np.eye(3)[labels]), rel=1e-7)
    else:
        direct = herta.fit(graph, X, labels, lam=500.0, loss=loss)
        assert found.loss == pytest.approx(direct.loss, rel=1e-7)


def test_the_layer_takes_a_solver(rng):
    Y = torch.as_tensor(rng.standard_normal((100, 2))).requires_grad_()
    graph = nareg.graphs.grid((10, 10))
    unfold = herta.Unfold(graph, lam=1e4, tol=1e-9, solver="cholesky")
    unfold(Y).sum().backward()
    np.testing.assert_allclose(unfold(Y).detach().numpy(), propagated(graph, Y.detach().numpy(), 1e4), atol=1e-7)
    np.testing.assert_allclose(Y.grad.numpy(), propagated(graph, np.ones((100, 2)), 1e4), atol=1e-6)
    assert unfold.float().system.solver == "cholesky"


def test_what_is_not_finite_stays_so(rng):
    B = torch.full((25, 2), torch.nan, dtype=torch.float64)
    for solver in SOLVERS:
        assert bool(system_of(nareg.graphs.grid((5, 5)), "augmented", 1e3, solver).solve(B, tol=1e-6).isnan().all())


def test_solvers_that_cannot_are_refused():
    X, labels = np.ones((4, 1)), np.array([0, 1, 0, 1])
    signed = sp.csr_array(np.array([[2.0, 1, 0, 0], [1, 2, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]))
    with pytest.raises(InputError, match="positive entries beside its diagonal"):
        herta.fit(signed, X, labels, lam=herta.Unfolding(1.0, "operator", solver="cholesky"))
    with pytest.raises(InputError, match="unrolled steps solve nothing"):
        herta.Unfolding(1.0, unrolled=3, solver="cg")
    with pytest.raises(InputError, match="solver"):
        herta.Unfolding(1.0, solver="cholmod")
    with pytest.raises(InputError, match="degree is too high"):
        herta.Unfold(nareg.graphs.grid((5, 5)), lam=1e8, solver="chebyshev")
    assert herta.fit(signed, X, labels, lam=herta.Unfolding(1e6, "operator")).status.ok
