"""Edge weights that require a gradient: against autograd through dense matrices, and against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

import nareg
from nareg.errors import InputError
from nareg.gnn import NGC, RNGC, Chebyshev, ConjugateGradients, Neumann, NodeAdaptiveConv

N, LAM = 14, 3.0
GRAPH = nareg.graphs.erdos_renyi(N, 0.3, rng=np.random.default_rng(0))
INDEX, WEIGHT = (torch.tensor(part) for part in GRAPH.to_edge_index())
#: One way of every edge, and the place of its weight for either.
ONE_WAY = INDEX[:, INDEX[0] < INDEX[1]]
BOTH_WAYS = torch.cat([ONE_WAY, ONE_WAY.flip(0)], 1)
M = ONE_WAY.shape[1]
CG, CHEBYSHEV = ConjugateGradients(1e-12), Chebyshev(1e-12)
SOLVERS = {"neumann": Neumann(5), "unit gain": Neumann(5, unit_gain=True), "cg": CG, "chebyshev": CHEBYSHEV}


def leaf(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def weights(seed: int = 0) -> torch.Tensor:
    return (torch.rand(M, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 0.5).requires_grad_()


def dense_adjacency(w: torch.Tensor, normalization: str) -> torch.Tensor:
    A = torch.zeros(N, N, dtype=torch.float64).index_put((BOTH_WAYS[0], BOTH_WAYS[1]), torch.cat([w, w]))
    A = A + torch.eye(N, dtype=torch.float64)
    d = A.sum(1)
    return A / (d[:, None] * d).sqrt() if normalization == "sym" else A / d[:, None]


def dense_filter(A, x, solver, eps=0.0, masked=False):
    """The truncated series, or the filter itself, of the matrices as they are defined."""
    P = x @ x.T
    if masked:
        P = P * (A.detach() != 0)
    matrix = A - eps * P / P.norm()
    if isinstance(solver, Neumann):
        Z = x
        for _ in range(solver.order):
            Z = x + LAM / (LAM + 1) * matrix @ Z
        return Z / (LAM + 1) * solver.factor(LAM)
    return torch.linalg.solve((1 + LAM) * torch.eye(N, dtype=torch.float64) - LAM * matrix, x)


CASES = [
    *((solver, 0.0, kind, False) for solver in SOLVERS for kind in ("sym", "rw")),
    *((solver, 0.3, "sym", False) for solver in SOLVERS),
    ("neumann", 0.1, "rw", False),
    ("neumann", 0.3, "sym", True),
    ("cg", 0.1, "sym", True),
]


@pytest.mark.parametrize(("solver", "eps", "normalization", "masked"), CASES)
@pytest.mark.parametrize("out_channels", [2, 6])
def test_results_and_gradients_are_those_of_dense_matrices(solver, eps, normalization, masked, out_channels):
    torch.manual_seed(0)
    common = {"lam": LAM, "solver": SOLVERS[solver], "normalization": normalization}
    layer = (RNGC(4, out_channels, eps=eps, masked=masked, **common) if eps else NGC(4, out_channels, **common)).double()
    results = []
    for dense in (True, False):
        layer.zero_grad()
        x, w = leaf(N, 4), weights()
        if dense:
            out = dense_filter(dense_adjacency(w, normalization), x, SOLVERS[solver], eps, masked) @ layer.weight + layer.bias
        else:
            out = layer(x, BOTH_WAYS, torch.cat([w, w]))
        out.sin().sum().backward()
        results.append((out.detach(), x.grad, w.grad, layer.weight.grad))
    for theirs, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("laplacian", ["augmented", "combinatorial"])
def test_node_adaptive_layers(laplacian):
    torch.manual_seed(0)
    layer = NodeAdaptiveConv(4, 2, n_nodes=N, lam=2.0, laplacian=laplacian, tol=1e-13).double()
    results = []
    for dense in (True, False):
        layer.zero_grad()
        x, w = leaf(N, 4), weights()
        if dense:
            L = torch.eye(N, dtype=torch.float64) - dense_adjacency(w, "sym")
            if laplacian == "combinatorial":
                A = torch.zeros(N, N, dtype=torch.float64).index_put((BOTH_WAYS[0], BOTH_WAYS[1]), torch.cat([w, w]))
                L = torch.diag(A.sum(1)) - A
            v = layer.node_weights[:, None]
            out = torch.linalg.solve(torch.eye(N, dtype=torch.float64) + v * L * v.T, x) @ layer.weight + layer.bias
        else:
            out = layer(x, BOTH_WAYS, torch.cat([w, w]))
        out.sin().sum().backward()
        results.append((out.detach(), x.grad, w.grad, layer.weight.grad, layer.theta.grad))
    for theirs, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_finite_differences(solver, normalization):
    layer = NGC(3, 2, lam=LAM, solver=SOLVERS[solver], normalization=normalization).double()
    assert gradcheck(lambda x, w: layer(x, BOTH_WAYS, torch.cat([w, w])), (leaf(N, 3), weights()))


def test_finite_differences_of_directed_weights_that_are_symmetrized():
    layer = NGC(3, 2, lam=LAM, symmetrize=True).double()
    w = (torch.rand(2 * M, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 0.5).requires_grad_()
    assert gradcheck(lambda w: layer(leaf(N, 3), BOTH_WAYS, w), (w,))


def test_self_loops_keep_their_own_weight():
    index = torch.cat([BOTH_WAYS, torch.tensor([[2, 5], [2, 5]])], 1)
    layer = NGC(3, 2, lam=LAM).double()
    loops = torch.tensor([0.7, 1.9], dtype=torch.float64, requires_grad=True)
    w = weights().detach()
    assert gradcheck(lambda own: layer(leaf(N, 3), index, torch.cat([w, w, own])), (loops,))
    expected = layer(leaf(N, 3), index, torch.cat([w, w, loops.detach()]))
    torch.testing.assert_close(layer(leaf(N, 3), index, torch.cat([w, w, loops])), expected)


@pytest.mark.parametrize("masked", [False, True])
def test_a_weight_of_zero_is_no_edge(masked):
    layer = RNGC(3, 2, lam=LAM, eps=0.2, masked=masked).double()
    w = weights().detach()
    w[::3] = 0
    x = leaf(N, 3).detach()
    torch.testing.assert_close(layer(x, BOTH_WAYS, torch.cat([w, w]).requires_grad_()), layer(x, BOTH_WAYS, torch.cat([w, w])))


def test_a_step_leaves_the_two_directions_equal_and_lowers_the_loss():
    layer, x = NGC(4, 4, lam=LAM), torch.randn(N, 4, generator=torch.Generator().manual_seed(0))
    w = WEIGHT.float().clone().requires_grad_()
    optimizer = torch.optim.Adam([w], lr=0.02)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (layer(x, INDEX, w) - x).square().mean()
        loss.backward()
        assert w.grad.dtype == torch.float32
        optimizer.step()
        with torch.no_grad():
            w.clamp_(min=0)
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    mirror = torch.argsort(INDEX[1] * N + INDEX[0])
    assert torch.equal(w, w[mirror])


def test_edges_are_placed_once(monkeypatch):
    from nareg.gnn import _learned

    count, made = [], _learned.EdgePlaces.__init__
    monkeypatch.setattr(_learned.EdgePlaces, "__init__", lambda *a: count.append(1) or made(*a))
    layer = NGC(4, 2)
    for _ in range(3):
        layer(torch.ones(N, 4), INDEX, WEIGHT.float().requires_grad_())
    assert len(count) == 1


GOOD = torch.ones(INDEX.shape[1])
REFUSED = {
    "nan": (lambda w: w.index_fill(0, torch.tensor([3]), torch.nan), r"edge_weight\[3\] is nan: weights must be finite"),
    "negative": (lambda w: w.index_fill(0, torch.tensor([2]), -1.0), r"edge_weight\[2\] is -1: .* not negative"),
    "too few": (lambda w: w[:-1], r"edge_weight has shape .* for \d+ edges: pass one weight per edge"),
    "a column": (lambda w: w[:, None], "edge_weight has shape"),
    "directed": (lambda w: w.index_fill(0, torch.tensor([0]), 2.0), "graph is directed: .*symmetrize=True"),
    "nowhere": (lambda w: w.to("meta"), "edge_weight is a meta tensor"),
}


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_sentence(name, learned):
    change, said = REFUSED[name]
    w = change(GOOD).requires_grad_(learned)
    if not learned:  # the words of weights that are not learned are older
        said = {"nan": "edge_weight.3. is nan", "negative": "weight -1: weights must not be negative"}.get(name, said)
        said = {"too few": "one per edge", "a column": "edge_weight has shape"}.get(name, said)
    with pytest.raises(InputError, match=said) as caught:
        NGC(4, 2)(torch.ones(N, 4), INDEX, w)
    assert "\n" not in str(caught.value)


def test_weights_of_a_matrix_have_no_gradient():
    matrix = torch.eye(N).to_sparse_coo().requires_grad_()
    with pytest.raises(InputError, match="graph requires a gradient"):
        NGC(4, 2)(torch.ones(N, 4), matrix)
    with pytest.raises(InputError, match="edge_weight goes with edge_index only"):
        NGC(4, 2)(torch.ones(N, 4), GRAPH, GOOD.clone().requires_grad_())
