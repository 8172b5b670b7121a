"""Statements of the HERTA paper that do not hold as printed, and some that do: small dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.special import logsumexp, softmax

from nareg import graphs


@pytest.mark.parametrize("c0", [0.1, 0.5, 0.9])
def test_the_condition_number_of_lemma_5_4_is_a_quotient(c0):
    """P within c0 of the Hessian, at both ends: more than (1 + c0)^2, and exactly (1 + c0) / (1 - c0)."""
    hessian, P = np.eye(2), np.diag([1 - c0, 1 + c0])
    root = np.diag(np.diag(P) ** -0.5)
    condition = np.linalg.cond(root @ hessian @ root)
    assert condition == pytest.approx((1 + c0) / (1 - c0))
    assert condition > (1 + c0) ** 2


def excess(H: np.ndarray) -> float:
    """Smallest of diagonal less the other entries' sizes, over rows."""
    return float((2 * np.diag(H) - abs(H).sum(axis=1)).min())


@pytest.mark.parametrize("lam", [5.0, 20.0, 100.0])
def test_the_system_is_dominant_after_scaling_alone(lam, rng):
    star = np.zeros((50, 50))
    star[0, 1:] = star[1:, 0] = 1
    for A in (star, graphs.power_law(60, mean_degree=6, rng=rng).adjacency.toarray()):
        A = A + np.eye(len(A))
        root = np.sqrt(A.sum(axis=1))
        H = (1 + lam) * np.eye(len(A)) - lam * A / np.outer(root, root)
        assert excess(H) < 0
        assert excess(H * np.outer(root, root)) >= 1 - 1e-9


def psi(A: np.ndarray, B: np.ndarray) -> float:
    """(D.12)."""
    values = np.linalg.eigvals(np.linalg.solve(A, B)).real
    return float(max(values.max(), 1 / values.min()))


def test_squares_of_near_matrices_are_apart_by_the_condition_number():
    """The construction of Appendix D.2."""
    gamma, delta = 1e6, 1e-3
    turn = np.array([[np.sqrt(1 - delta**2), -delta], [delta, np.sqrt(1 - delta**2)]])
    A = np.diag([gamma, 1.0])
    B = turn @ A @ turn.T
    assert psi(A, B) < 3
    assert psi(A @ A, B @ B) > 0.1 * gamma * psi(A, B)


def cross_entropy_hessian(F: np.ndarray, W: np.ndarray) -> np.ndarray:
    """(C, d, C, d), by the definition: ``sum_u (diag(s_u) - s_u s_u^T) x (f_u f_u^T)``."""
    S = softmax(F @ W, axis=1)
    coupling = np.einsum("ui,ij->uij", S, np.eye(W.shape[1])) - np.einsum("ui,uj->uij", S, S)
    return np.einsum("uij,up,uq->ipjq", coupling, F, F)


def test_the_hessian_under_cross_entropy_is_a_rescaled_one_for_one_node_and_class_alone(rng):
    """D.1: (D.11) holds. Classes are coupled, though, and a sum over nodes is no multiple of the squared error's Hessian."""
    F, W = rng.standard_normal((40, 3)), rng.standard_normal((3, 4))
    step, i = 1e-4, 1
    s = softmax(F[:1] @ W, axis=1)[0]
    one = cross_entropy_hessian(F[:1], W)

    def loss(w):
        moved = W.copy()
        moved[:, i] = w
        Z = F[0] @ moved
        return logsumexp(Z) - Z[0]

    moves = step * np.eye(3)
    w = W[:, i]
    differences = [
        [(loss(w + a + b) - loss(w + a - b) - loss(w - a + b) + loss(w - a - b)) / (4 * step**2) for b in moves] for a in moves
    ]
    np.testing.assert_allclose(one[i, :, i], differences, atol=1e-6)
    np.testing.assert_allclose(one[i, :, i], (s[i] - s[i] ** 2) * np.outer(F[0], F[0]), rtol=1e-12)
    np.testing.assert_allclose(one[i, :, 0], -s[i] * s[0] * np.outer(F[0], F[0]), rtol=1e-12)
    spreads = []
    for size in (0.0, 1.0, 10.0):
        values = eigh(cross_entropy_hessian(F, size * W)[i, :, i], F.T @ F, eigvals_only=True)
        spreads.append(values[-1] / values[0])
    assert spreads[0] == pytest.approx(1)
    assert 1.1 < spreads[1] < spreads[2]
    assert spreads[2] > 2


def test_the_gradient_of_algorithm_1_is_autograd_s_where_both_solves_have_the_same_graph(rng):
    """Appendix E. As printed the first solve has a sparsified graph, and the gradient is another one."""
    torch = pytest.importorskip("torch")
    graph = graphs.erdos_renyi(40, 0.5, rng=rng)
    L, X, Y = graph.laplacian().toarray(), rng.standard_normal((40, 5)), rng.standard_normal((20, 3))
    kept = graph.adjacency.toarray() * (np.add.outer(np.arange(40), np.arange(40)) % 3 > 0)
    sparse = np.diag(kept.sum(axis=1)) - kept
    W, lam, train = rng.standard_normal((5, 3)), 2.0, np.arange(20)

    def gradient(first):
        R = np.zeros((40, 3))
        R[train] = np.linalg.solve(np.eye(40) + lam * first, X @ W)[train] - Y
        return X.T @ np.linalg.solve(np.eye(40) + lam * L, R)

    V = torch.tensor(W, requires_grad=True)
    outputs = torch.linalg.solve(torch.eye(40, dtype=torch.float64) + lam * torch.tensor(L), torch.tensor(X) @ V)
    (0.5 * (outputs[train] - torch.tensor(Y)).square().sum()).backward()
    np.testing.assert_allclose(gradient(L), V.grad.numpy(), rtol=1e-9)
    assert abs(gradient(sparse) - V.grad.numpy()).max() > 0.01 * abs(gradient(L)).max()
