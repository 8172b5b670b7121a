"""Statements of the NGC paper that no experiment judges, as they hold: dense matrices, small graphs."""

from __future__ import annotations

import numpy as np
import pytest

from nareg import graphs
from nareg.gnn import Neumann, Perturbation, propagate
from nareg.gnn.adjacency import Adjacency


def normalized(A: np.ndarray, kind: str) -> np.ndarray:
    """A~ of an adjacency without self-loops."""
    A = A + np.eye(len(A))
    d = A.sum(axis=1)
    return A / d[:, None] if kind == "rw" else A / np.sqrt(np.outer(d, d))


@pytest.mark.parametrize("kind", ["sym", "rw"])
def test_the_series_converges_to_the_filter(kind, rng):
    graph = graphs.erdos_renyi(20, 0.3, rng=rng)
    A = normalized(graph.adjacency.toarray(), kind)
    assert abs(np.linalg.eigvals(A)).max() <= 1 + 1e-12
    x, lam = rng.standard_normal((20, 3)), 8.0
    limit = np.linalg.solve((1 + lam) * np.eye(20) - lam * A, x)
    adjacency = Adjacency(graph, normalization=kind)
    off = [np.abs(propagate(adjacency, x, lam=lam, solver=Neumann(order)) - limit).max() for order in (20, 80, 320)]
    assert off[0] > off[1] > off[2]
    assert off[2] < 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_the_inner_maximum_is_the_normalized_gradient(seed):
    """Of ``tr(F^T (L + delta) F)`` over perturbations of norm eps; it is what RNGC subtracts from A~."""
    rng = np.random.default_rng(seed)
    F, eps = rng.standard_normal((8, 3)), 0.7
    gradient = F @ F.T
    best = eps * gradient / np.linalg.norm(gradient)
    assert np.trace(F.T @ best @ F) == pytest.approx(eps * np.linalg.norm(gradient))
    for _ in range(200):
        other = rng.standard_normal((8, 8))
        other *= eps / np.linalg.norm(other)
        assert np.trace(F.T @ other @ F) < np.trace(F.T @ best @ F)
    graph, c = graphs.erdos_renyi(8, 0.5, rng=rng), 4.0 / 5.0
    A = normalized(graph.adjacency.toarray(), "sym")
    once = propagate(graph, F, lam=4.0, solver=Neumann(1), perturbation=Perturbation(eps))
    np.testing.assert_allclose(once, (F + c * (A - best) @ F) / 5.0, atol=1e-12)


def test_quadratic_forms_are_sums_of_squares_for_the_symmetric_laplacian_alone(rng):
    """That of the random walk, printed as a sum of squares too, is negative for a star of nine nodes."""
    A = graphs.erdos_renyi(12, 0.4, rng=rng).adjacency.toarray()
    F = rng.standard_normal((12, 2))
    G = F / np.sqrt(A.sum(axis=1) + 1)[:, None]
    squares = 0.5 * float((A * ((G[:, None] - G) ** 2).sum(axis=2)).sum())
    assert np.trace(F.T @ (np.eye(12) - normalized(A, "sym")) @ F) == pytest.approx(squares)
    star = np.zeros((9, 9))
    star[0, 1:] = star[1:, 0] = 1
    x = np.where(np.arange(9) == 0, 1.0, 0.6)
    assert x @ (np.eye(9) - normalized(star, "sym")) @ x > 0
    assert x @ (np.eye(9) - normalized(star, "rw")) @ x < -0.5
