"""Filters on torch: the numbers of the other solvers, gradients, devices, and what the host waits for."""

from __future__ import annotations

import os
from contextlib import contextmanager
from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st

import nareg
from nareg._solvers import iterate
from nareg._solvers.backends import Torch
from nareg.errors import AmplificationWarning, InputError, TooLargeError
from nareg.filters import denoise, interpolate, prepare
from nareg.results import Status
from tests.helpers import dense_filter, examples

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from nareg._solvers._torch import _device, _engines, _solver  # noqa: E402
from nareg._solvers._torch._passes import DevicePasses, HostPasses  # noqa: E402

METHODS = ("auto", "direct", "cg", "multigrid", "jacobi", "chebyshev")
#: Where fused kernels can be run: Triton interprets them on the CPU if its environment variable says so.
KERNELS_RUN_ON = "cuda" if torch.cuda.is_available() else "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else None
if find_spec("triton") is None:
    KERNELS_RUN_ON = None
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")


@pytest.fixture
def grid():
    return nareg.graphs.grid((6, 7))


def column_errors(x: np.ndarray, reference: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(reference, axis=0)
    return np.linalg.norm(x - reference, axis=0) / np.where(size > 0, size, 1.0)


@contextmanager
def solving_on(where):
    """Solves in an accelerator's way: with its passes, or the CPU's compiled ones in their place. "arrays" is the CPU's own."""
    with pytest.MonkeyPatch.context() as patch:
        if where == "host":
            patch.setattr(torch.cuda, "is_available", lambda: False)  # arrays would go there, and compiled loops cannot
        if where != "arrays":
            patch.setattr(_engines, "on_host", lambda device, dtype: False)
            patch.setattr(_solver, "passes_of", {"device": DevicePasses, "host": HostPasses}[where])
        yield


@pytest.mark.slow
@examples(6, 60)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(("np", "single", "tensor", "float32")),
    method=st.sampled_from(METHODS),
    where=st.sampled_from(("arrays", "host", "device")),
)
@example(24490, "np", "chebyshev", "host")  # a column's residual rises again while others go on
@example(120, "np", "chebyshev", "device")
def test_agrees_with_a_dense_solve(seed, kind, method, where):
    """Weights with signs and zeros, unequal data terms, a zero column, tiny and huge readings, several blocks of columns."""
    rng = np.random.default_rng(seed)
    g = nareg.graphs.erdos_renyi(int(rng.integers(2, 60)), 0.3, rng=rng)
    n = g.n_nodes
    w = rng.choice([-1.0, 1.0], n) * 10 ** rng.uniform(-1.5, 1, n)
    w[rng.random(n) < 0.1] = 0.0
    c = 10 ** rng.uniform(-1, 1, n)
    Y = rng.standard_normal((n, 19))
    Y[:, 1] = 0
    if kind != "float32":
        Y[:, 2:5] *= [1e-200, 1e-310, 1e120]
    else:
        Y[:, 2:4] *= [1e-30, 1e15]
        Y = Y.astype(np.float32).astype(float)
    y = {"tensor": torch.tensor(Y), "float32": torch.tensor(Y, dtype=torch.float32)}.get(kind, Y)
    backend = {"np": "torch", "single": Torch(dtype=torch.float32)}.get(kind, "auto")
    with solving_on(where):
        solution = denoise(g, w, y, data_weight=c, method=method, backend=backend, tol=1e-9)
    assert solution.status is Status.CONVERGED
    x = np.asarray(solution.x, dtype=float)
    reference = dense_filter(g, w, c) @ Y
    looser = 1e-6 if kind == "float32" else 0.0
    errors = np.delete(column_errors(x, reference), 3)  # of subnormal numbers few digits are left
    assert errors.max() < 1e-7 + looser
    assert (x[:, 1] == 0).all()
    K = np.diag(c) + np.diag(w) @ g.laplacian().toarray() @ np.diag(w)
    left = column_errors(K @ x[:, :1], c[:, None] * Y[:, :1])
    assert left.max() <= 2e-9 + 10 * looser


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("kind", "where"), [("array", "device"), ("tensor", "device"), ("tensor", "arrays")])
def test_agrees_with_scipy_on_a_scattered_graph_and_on_gaps(method, kind, where, rng):
    g = nareg.graphs.sensor(700, rng=rng)
    w = 10 ** rng.uniform(-0.14, 0.14, g.n_nodes)
    Y = rng.standard_normal((g.n_nodes, 3))
    seen = rng.random(Y.shape) < 0.8
    gappy = np.where(seen, Y, np.nan)
    y, backend = (torch.tensor(gappy), "auto") if kind == "tensor" else (gappy, "torch")
    observed = torch.tensor(seen) if kind == "tensor" else seen
    with solving_on(where):
        solution = interpolate(g, w, y, observed, method=method, backend=backend, tol=1e-10)
    assert isinstance(solution.x, torch.Tensor if kind == "tensor" else np.ndarray)
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(solution.x, interpolate(g, w, gappy, seen, tol=1e-11).x, atol=1e-7)


def test_auto_turns_to_multigrid_and_keeps_its_levels():
    g = nareg.graphs.grid((80, 80))
    w = 10 ** (3 * np.arange(g.n_nodes) / g.n_nodes)
    y = np.random.default_rng(0).standard_normal((g.n_nodes, 2))
    denoiser = prepare(g, w, backend="torch")
    with solving_on("device"):
        first, second = denoiser.denoise(y), denoiser.denoise(y)
    assert "then multigrid" in first.method
    assert "CG was slow at the first call" in second.method
    assert second.iterations < 30
    np.testing.assert_allclose(second.x, denoise(g, w, y, method="direct").x, atol=1e-6)


def test_a_matrix_is_refused_where_it_is_indefinite(grid):
    S = grid.laplacian() - 2 * np.diag(np.ones(grid.n_nodes))
    solution = denoise(grid, S, np.ones(grid.n_nodes), backend="torch", method="cg")
    assert solution.status is Status.INDEFINITE


def test_published_recursion(grid, rng):
    y = rng.standard_normal(grid.n_nodes)
    solution = denoise(grid, 0.2, y, method="recursion", backend="torch")
    assert solution.messages == solution.rounds * 2 * grid.n_edges
    np.testing.assert_allclose(solution.x, dense_filter(grid, np.full(grid.n_nodes, 0.2)) @ y, atol=1e-7)
    with pytest.raises(InputError, match="diverges"):
        denoise(grid, 2.0, y, method="recursion", backend="torch")


class TestGradients:
    @pytest.mark.slow
    @pytest.mark.parametrize("where", ["arrays", "device"])
    @pytest.mark.parametrize("method", ["direct", "cg", "multigrid", "chebyshev"])
    def test_first_and_second_derivatives(self, method, where):
        g, n = nareg.graphs.grid((2, 3)), 6
        torch.manual_seed(0)
        y = torch.randn(n, 1, dtype=torch.float64, requires_grad=True)
        w = torch.tensor([0.5, -0.8, 0.0, 1.2, 0.3, -0.4], dtype=torch.float64, requires_grad=True)
        c = torch.rand(n, dtype=torch.float64).add(0.2).requires_grad_()

        def function(y, w, c):
            with solving_on(where):
                return denoise(g, w, y, data_weight=c, method=method, tol=1e-12, max_iterations=2000).x

        assert torch.autograd.gradcheck(function, (y, w, c))
        if method == "direct":  # the others differ in the solves alone, and take as many rounds for each
            assert torch.autograd.gradgradcheck(function, (y, w, c))

    @pytest.mark.slow
    def test_of_one_weight_and_of_gaps(self, grid, rng):
        seen = rng.random((grid.n_nodes, 2)) < 0.8
        y = torch.tensor(np.where(seen, rng.standard_normal(seen.shape), np.nan))
        strength = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
        c = torch.full((grid.n_nodes,), 0.8, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda w, c: interpolate(grid, w, y, seen, data_weight=c, tol=1e-12).x, (strength, c))

    def test_readings_that_are_not_observed_have_none(self, grid):
        y = torch.ones(grid.n_nodes, dtype=torch.float64, requires_grad=True)
        seen = np.arange(grid.n_nodes) != 5
        interpolate(grid, 1.0, y, seen).x.sum().backward()
        assert y.grad[5] == 0
        assert (y.grad[seen] != 0).all()

    @pytest.mark.slow
    def test_a_network_with_a_filter_inside_is_trained(self, grid, rng):
        torch.manual_seed(0)
        truth = torch.tensor(rng.standard_normal((grid.n_nodes, 8)), dtype=torch.float32)
        truth = denoise(grid, 3.0, truth).x
        noisy = truth + 0.2 * torch.randn_like(truth)
        logs = torch.full((grid.n_nodes,), -2.0, requires_grad=True)
        head = torch.nn.Linear(8, 8)
        optimizer = torch.optim.Adam([logs, *head.parameters()], lr=0.05)
        losses = []
        for _ in range(40):
            optimizer.zero_grad()
            loss = torch.mean((denoise(grid, logs.exp(), head(noisy)).x - truth) ** 2)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.2 * losses[0]
        assert not torch.equal(logs.detach(), torch.full_like(logs, -2.0))

    def test_what_is_not_finite_stays_in_its_column(self, grid):
        y = torch.ones(grid.n_nodes, 2, dtype=torch.float64, requires_grad=True)
        x = denoise(grid, 1.0, y, method="cg").x
        x.backward(torch.tensor([torch.inf, 1.0]).expand(grid.n_nodes, 2).double())
        assert torch.isnan(y.grad[:, 0]).all()
        assert torch.isfinite(y.grad[:, 1]).all()


class Synchronizations(TorchDispatchMode):
    """Counts what makes a host wait: numbers read from tensors, and copies between devices."""

    count = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        keywords = keywords or {}
        device = keywords.get("device")
        copied = function is torch.ops.aten._to_copy.default and device is not None and device != arguments[0].device
        self.count += copied or function is torch.ops.aten._local_scalar_dense.default
        return function(*arguments, **keywords)


@pytest.mark.parametrize("method", ["cg", "multigrid", "jacobi", "chebyshev"])
@pytest.mark.parametrize("every", [1, 8])
def test_the_host_waits_once_in_so_many_iterations(method, every, grid, rng, monkeypatch):
    monkeypatch.setattr(iterate, "check_every", lambda array: every)
    monkeypatch.setattr(_engines, "on_host", lambda device, dtype: False)
    monkeypatch.setattr(_solver, "passes_of", DevicePasses)
    y = torch.tensor(rng.standard_normal((grid.n_nodes, 3)))
    denoiser = prepare(grid, 2.0, method=method, tol=1e-12)
    denoiser.denoise(y)  # sets up
    short = prepare(grid, 2.0, method=method, tol=1e-12, max_iterations=1)
    short.denoise(y)
    counts = []
    for prepared in (short, denoiser):
        with Synchronizations() as waits:
            solution = prepared.denoise(y)
        counts.append(waits.count)
    assert solution.status is Status.CONVERGED
    assert counts[1] - counts[0] <= solution.iterations / every
    assert len(solution.residuals) == solution.iterations + 1


class TestPasses:
    """Every pass against its formula on dense matrices, in place and as sums."""

    @pytest.mark.slow
    @given(seed=st.integers(0, 10**6), dtype=st.sampled_from((torch.float32, torch.float64)), t=st.sampled_from((1, 3, 4, 16)))
    @examples(5, 20)
    def test_on_the_host_and_on_a_device(self, seed, dtype, t):
        check_passes(HostPasses, "cpu", seed, dtype, t)
        check_passes(DevicePasses, "cuda" if torch.cuda.is_available() else "cpu", seed, dtype, t)

    @pytest.mark.skipif(KERNELS_RUN_ON is None, reason="kernels need a CUDA device, or Triton with TRITON_INTERPRET=1")
    @given(seed=st.integers(0, 10**6), dtype=st.sampled_from((torch.float32, torch.float64)), t=st.sampled_from((1, 3, 16, 37)))
    @examples(5, 20)
    def test_in_fused_kernels(self, seed, dtype, t):
        from nareg._solvers._torch import _fused

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_fused, "LARGE", 0)
            check_passes(_fused.FusedPasses, KERNELS_RUN_ON, seed, dtype, t, n_nodes=150)
            check_passes(_fused.FusedPasses, KERNELS_RUN_ON, seed, dtype, t, n_nodes=150, by_columns=True)
            patch.setattr(_fused, "LONGEST", 0)  # products by torch
            check_passes(_fused.FusedPasses, KERNELS_RUN_ON, seed, dtype, t, n_nodes=150)


def check_passes(kind, device, seed, dtype, t, n_nodes=40, *, by_columns=False):
    rng = np.random.default_rng(seed)
    g = nareg.graphs.erdos_renyi(int(rng.integers(2, n_nodes)), 0.3, rng=rng)
    dense = g.laplacian().toarray() + np.diag(10 ** rng.uniform(-1, 1, g.n_nodes))
    d = 1 / np.diagonal(dense)
    X, R, P, B = rng.standard_normal((4, g.n_nodes, t))
    alpha, beta = rng.standard_normal((2, t))

    def given(array):
        there = torch.tensor(array).to(device, dtype)
        return there.T.contiguous().T if by_columns and there.ndim == 2 else there

    def same(got, expected):
        np.testing.assert_allclose(
            got.cpu(), expected, atol=(2e-4 if dtype is torch.float32 else 1e-11) * np.abs(expected).max()
        )

    def squares(V):
        return np.stack([(V * V * weight[:, None]).sum(0) for weight in (d, np.ones_like(d), d * d)])

    passes = kind(_device.csr(sp.csr_array(dense), torch.device(device), dtype), given(d))
    x, r, p, b = (given(V) for V in (X, R, P, B))
    q = torch.empty_like(p)
    same(passes.squares(b), squares(B))
    same(passes.product(p, q), (P * (dense @ P)).sum(0))
    same(q, dense @ P)
    same(passes.step(x, r, p, q, given(alpha)), squares(R - alpha * (dense @ P)))
    same(x, X + alpha * P)
    same(r, R - alpha * (dense @ P))
    passes.turn(r, p, given(beta))
    same(p, d[:, None] * (R - alpha * (dense @ P)) + beta * P)
    for scaled in (True, False):
        y, before = given(X), given(R)
        left = B - dense @ X
        same(passes.relax(b, y, before, 0.7, 0.3, scaled=scaled)[1:], squares(left)[1:])
        same(before, X + 0.3 * (X - R) + 0.7 * (d[:, None] if scaled else 1.0) * left)


def test_tensors_on_the_cpu_get_the_choices_of_arrays(rng):
    """The same bits; a sparse factor of any size; for gaps it preconditions."""
    g = nareg.graphs.grid((80, 80))
    w = 10 ** (3 * np.arange(g.n_nodes) / g.n_nodes)
    y = rng.standard_normal((g.n_nodes, 2))
    arrays, tensors = prepare(g, w), prepare(g, w, backend="torch")
    for _ in range(2):
        of_array, of_tensor = arrays.denoise(y), tensors.denoise(torch.tensor(y))
        np.testing.assert_array_equal(of_tensor.x, of_array.x)
        assert of_tensor.method.replace(" [torch, cpu]", "") == of_array.method
    seen = np.arange(g.n_nodes) != 17
    gaps = tensors.interpolate(torch.tensor(y), seen)
    np.testing.assert_array_equal(gaps.x, arrays.interpolate(y, seen).x)
    assert "preconditioned by" in gaps.method


@pytest.mark.parametrize("where", ["arrays", "device"])
def test_progress_gets_every_iteration(where, grid, rng, monkeypatch):
    monkeypatch.setattr(iterate, "check_every", lambda array: 5)
    seen = []
    y = torch.tensor(rng.standard_normal(grid.n_nodes))
    with solving_on(where):
        solution = denoise(
            grid, 1.0, y, method="cg", progress=lambda report: seen.append((report.step, report.values["residual"]))
        )
    assert seen == list(enumerate(solution.residuals))


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.strided])
@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")
def test_an_operator_may_be_a_tensor_of_any_layout(grid, layout):
    L, y = torch.from_numpy(grid.laplacian().toarray()), torch.ones(grid.n_nodes, 1).cumsum(0).double()
    expected = torch.linalg.solve(torch.eye(grid.n_nodes) + 0.49 * L, y)
    operator = L if layout == torch.strided else L.to_sparse(layout=layout)
    torch.testing.assert_close(denoise(operator, 0.7, y).x, expected)
    with pytest.raises(InputError, match=r"graph requires a gradient.*pass graph\.detach\(\)"):
        denoise(operator.requires_grad_(), 0.7, y)


class TestBadInput:
    @pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
    def test_no_cuda(self, grid):
        with pytest.raises(InputError, match="no CUDA GPU here: leave it out"):
            prepare(grid, 1.0, backend=Torch(device="cuda"))

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"device": "gpu"}, "'cpu' or 'cuda' is expected"),
            ({"device": "meta"}, "'cpu' or 'cuda' is expected"),
            ({"dtype": torch.float16}, "pass torch.float64 or torch.float32"),
        ],
    )
    def test_options(self, grid, options, words):
        with pytest.raises(InputError, match=words):
            prepare(grid, 1.0, backend=Torch(**options))

    def test_two_devices(self, grid):
        y = torch.ones(grid.n_nodes, device="meta")
        with pytest.raises(InputError, match=r"y is on meta and weights on cpu: move them to one device"):
            denoise(grid, torch.ones(grid.n_nodes), y)
        with pytest.raises(InputError, match="y is on meta but the backend's device is cpu"):
            denoise(grid, 1.0, y, backend=Torch(device="cpu"))

    def test_tensors_for_scipy(self, grid):
        with pytest.raises(InputError, match="y is a torch tensor but backend is 'scipy'"):
            denoise(grid, 1.0, torch.ones(grid.n_nodes), backend="scipy")
        with pytest.raises(InputError, match="weights is a torch tensor but backend is 'scipy'"):
            denoise(grid, torch.ones(grid.n_nodes), np.ones(grid.n_nodes), backend="scipy")

    def test_readings(self, grid):
        n = grid.n_nodes
        for y, words in (
            (torch.ones(n + 1), "y has shape"),
            (torch.full((n,), torch.nan), "values must be finite"),
            (torch.ones(n, dtype=torch.bool), "y is boolean"),
            (torch.ones(n, dtype=torch.complex64), "real numbers are expected"),
        ):
            with pytest.raises(InputError, match=words):
                denoise(grid, 1.0, y)

    def test_weights_that_changed(self, grid):
        w = torch.ones(grid.n_nodes)
        denoiser = prepare(grid, w)
        w.mul_(2)
        with pytest.raises(InputError, match="changed after the filter was prepared"):
            denoiser.denoise(torch.ones(grid.n_nodes))

    def test_gradients_that_do_not_exist(self, grid):
        S = torch.tensor(grid.laplacian().toarray(), requires_grad=True)
        with pytest.raises(InputError, match="only node weights have one"):
            denoise(grid, S, torch.ones(grid.n_nodes))
        w = torch.ones(grid.n_nodes)
        w[7] = 1e-4
        seen = np.arange(grid.n_nodes) != 7
        with pytest.raises(InputError, match="are replaced there"):
            interpolate(grid, w.clone().requires_grad_(), torch.ones(grid.n_nodes), seen)
        with pytest.warns(AmplificationWarning):
            assert interpolate(grid, w, torch.ones(grid.n_nodes), seen).status is Status.CONVERGED

    def test_memory(self, grid):
        with pytest.raises(TooLargeError, match="needs about 931322"), _device.enough_memory(torch.device("cpu"), 10**18):
            pass
        with pytest.raises(TooLargeError, match="it needs about 1,000 bytes"), _device.enough_memory(torch.device("cpu"), 1000):
            raise torch.OutOfMemoryError
        with solving_on("device"), pytest.raises(TooLargeError, match="dense factor, for at most 5,000 nodes"):
            denoise(nareg.graphs.grid((80, 80)), 1.0, np.ones(6400), method="direct", backend="torch")


@needs_cuda
class TestCuda:
    def test_agrees_and_stays_on_the_device(self, grid, rng):
        Y = rng.standard_normal((grid.n_nodes, 3))
        y = torch.tensor(Y, device="cuda")
        for method in METHODS:
            solution = denoise(grid, 1.5, y, method=method)
            assert solution.x.device == y.device
            np.testing.assert_allclose(solution.x.cpu(), dense_filter(grid, np.full(grid.n_nodes, 1.5)) @ Y, atol=1e-6)

    @pytest.mark.parametrize("method", ["cg", "chebyshev"])
    def test_large_blocks_agree(self, method, rng):
        """Large enough for kernels, on a graph with short rows and on one with hubs."""
        for g in (nareg.graphs.grid((160, 160)), nareg.graphs.power_law(25_000, mean_degree=6, rng=rng)):
            w, Y = 10 ** rng.uniform(-1, 0, g.n_nodes), rng.standard_normal((g.n_nodes, 45))
            there = denoise(g, w, torch.tensor(Y, device="cuda"), method=method)
            np.testing.assert_allclose(there.x.cpu(), denoise(g, w, Y, method="cg", backend="scipy").x, atol=1e-6)

    def test_arrays_go_there_and_back(self, grid):
        solution = denoise(grid, 1.0, np.ones(grid.n_nodes), backend="torch")
        assert "cuda" in solution.method
        np.testing.assert_allclose(solution.x, 1.0, atol=1e-7)

    def test_out_of_memory_says_how_much(self):
        with pytest.raises(TooLargeError, match="bytes"), _device.enough_memory(torch.device("cuda"), 10**15):
            pass
