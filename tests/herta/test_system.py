from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import nareg
from nareg.herta._system import KINDS, System, largest_eigenvalue, scaled_laplacian_of


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lam", [0.0, 0.3, 20.0])
def test_solves_are_within_their_tolerance_of_the_dense_inverse(kind, lam, rng):
    graph = nareg.graphs.power_law(200, rng=rng)
    L = scaled_laplacian_of(graph, kind)[0]
    system, B = System(L, lam), rng.standard_normal((200, 5))
    exact = np.linalg.solve(np.eye(200) + lam * L.toarray(), B)
    for tol in (1e-2, 1e-6, 1e-10):
        found = system.solve(torch.as_tensor(B), tol=tol).numpy()
        assert (np.linalg.norm(found - exact, axis=0) <= 1.5 * tol * np.linalg.norm(B, axis=0) + 1e-12).all()


def test_wide_spectra_are_solved_by_conjugate_gradients(rng):
    """A star with 400 leaves at lam = 100: Chebyshev would take over a thousand products."""
    star = sp.csr_array((np.ones(400), (np.zeros(400, int), np.arange(1, 401))), shape=(401, 401))
    L = scaled_laplacian_of(nareg.Graph(star + star.T), "combinatorial")[0]
    system, B = System(L, 100.0), rng.standard_normal((401, 2))
    found = system.solve(torch.as_tensor(B), tol=1e-9).numpy()
    assert np.abs(found - np.linalg.solve(np.eye(401) + 100 * L.toarray(), B)).max() < 1e-7
    assert System(L, 100.0, solver="chebyshev").degree(1e-9) > 1000 > system.products


@pytest.mark.parametrize("part", [1e-3, 0.0])
def test_a_guess_saves_products_and_changes_nothing_else(part, rng):
    graph = nareg.graphs.grid((12, 12))
    L = scaled_laplacian_of(graph, "augmented")[0]
    system, B = System(L, 5.0), torch.as_tensor(rng.standard_normal((144, 3)))
    exact = system.solve(B, tol=1e-12)
    before = system.products
    system.solve(B, tol=1e-6)
    cold, before = system.products - before, system.products
    found = system.solve(B, tol=1e-6, start=exact + part * torch.as_tensor(rng.standard_normal((144, 3))))
    assert system.products - before < cold
    assert float((found - exact).norm() / B.norm()) < 2e-6


def test_products_are_counted_by_column(rng):
    system = System(scaled_laplacian_of(nareg.graphs.grid((5, 5)), "augmented")[0], 1.0)
    P = torch.as_tensor(rng.standard_normal((25, 4)))
    system.product(P, torch.empty_like(P))
    assert system.products == 4
    system.solve(P, tol=1e-3)
    assert system.products == 4 + 4 * system.degree(1e-3)


def test_the_largest_eigenvalue_is_bounded_from_above(rng):
    for graph in (
        nareg.graphs.grid((15, 15)),
        nareg.graphs.power_law(300, rng=rng),
        nareg.graphs.erdos_renyi(10, 0.5, rng=rng),
    ):
        for kind in KINDS:
            L = scaled_laplacian_of(graph, kind)[0]
            top = np.linalg.eigvalsh(L.toarray())[-1]
            bound = largest_eigenvalue(L)
            assert top <= bound
            assert bound <= 1.05 * top or L.shape[0] < 20


@pytest.mark.parametrize("guess", [1e12, 1e176, 1e308, np.inf, np.nan])
def test_a_guess_that_is_worse_than_none_does_no_harm(guess, rng):
    """An outer iteration may leave guesses a million times the solution's size, and a line search some that overflowed."""
    star = sp.csr_array((np.ones(400), (np.zeros(400, int), np.arange(1, 401))), shape=(401, 401))
    L = scaled_laplacian_of(nareg.Graph(star + star.T), "combinatorial")[0]
    system, B = System(L, 100.0), torch.as_tensor(rng.standard_normal((401, 2)))
    exact = np.linalg.solve(np.eye(401) + 100 * L.toarray(), B.numpy())
    found = system.solve(B, tol=1e-9, start=torch.full_like(B, guess)).numpy()
    assert np.abs(found - exact).max() < 1e-7


@pytest.mark.parametrize("lam", [5.0, 1e5])
def test_a_right_hand_side_that_overflowed_is_not_answered_with_numbers(lam, rng):
    """By a polynomial, and by an approximate Cholesky factor."""
    system = System(scaled_laplacian_of(nareg.graphs.grid((12, 12)), "augmented")[0], lam)
    B = torch.as_tensor(rng.standard_normal((144, 2)))
    start = system.solve(B, tol=1e-3)
    B[7, 0] = np.nan
    assert bool(system.solve(B, tol=1e-3, start=start)[:, 0].isnan().any())
