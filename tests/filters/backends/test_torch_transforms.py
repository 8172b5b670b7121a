"""Filters within the transforms of torch.func: forward and batched derivatives, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.errors import InputError
from nareg.filters import denoise, interpolate

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def grid():
    return nareg.graphs.grid((6, 7))


def test_of_torch_func(grid, rng):
    y = torch.tensor(rng.standard_normal((grid.n_nodes, 2)))
    gradient = torch.func.grad(lambda y: (denoise(grid, 0.7, y).x ** 2).sum())(y)
    H = np.linalg.inv(np.eye(grid.n_nodes) + 0.49 * grid.laplacian().toarray())
    assert np.abs(gradient.numpy() - 2 * H @ H @ y.numpy()).max() < 1e-12


def test_of_torch_func_in_weights_and_of_gaps(grid, rng):
    y = torch.tensor(rng.standard_normal((grid.n_nodes, 2)))
    w = torch.linspace(0.5, 1.0, grid.n_nodes, dtype=torch.float64)
    gappy = torch.where(torch.arange(grid.n_nodes)[:, None] % 3 == 0, torch.nan, y)
    for function, value in (
        (lambda v: denoise(grid, v, y).x.pow(3).sum(), w),
        (lambda c: denoise(grid, 0.7, y, data_weight=c).x.pow(3).sum(), w),
        (lambda z: interpolate(grid, 0.7, z).x.pow(3).sum(), gappy),
    ):
        leaf = value.clone().requires_grad_()
        function(leaf).backward()
        torch.testing.assert_close(torch.func.grad(function)(value), leaf.grad)


def functions(grid, rng):
    """The filter as a function of y, of w, and of c, computed here and by torch's dense inverse; and their arguments."""
    L, n = torch.tensor(grid.laplacian().toarray()), grid.n_nodes
    values = [torch.tensor(rng.uniform(0.3, 1.2, shape)) for shape in ((n, 2), n, n)]

    def of_ours(y, w, c):
        return denoise(grid, w, y, data_weight=c, tol=1e-12).x

    def of_torch(y, w, c):
        return torch.linalg.inv(torch.diag(c) + w[:, None] * L * w) @ (c[:, None] * y)

    for place, value in enumerate(values):
        before, after = values[:place], values[place + 1 :]
        yield value, *(lambda v, f=f, b=before, a=after: f(*b, v, *a) for f in (of_ours, of_torch))


def test_forward_and_batched_derivatives(rng):
    def penalty(function, value):
        return torch.func.grad(lambda v: torch.func.jvp(function, (v,), (value,))[1].pow(2).sum())(value)

    def squares(function):
        return lambda v: function(v).pow(2).sum()

    for value, ours, theirs in functions(nareg.graphs.grid((2, 3)), rng):
        for derivative in (
            lambda f, v: torch.func.jvp(f, (v,), (v.sin(),)),
            lambda f, v: torch.func.jacfwd(f)(v),
            lambda f, v: torch.func.jacrev(f)(v),
            lambda f, v: torch.func.hessian(squares(f))(v),
            penalty,
        ):
            torch.testing.assert_close(derivative(ours, value), derivative(theirs, value), rtol=1e-9, atol=1e-9)


def test_a_tangent_of_a_tangent_is_refused(rng):
    """Torch would take the outer one as zero."""
    for value, function, _ in functions(nareg.graphs.grid((2, 3)), rng):
        with pytest.raises(InputError, match=r"jacfwd within jacfwd: take torch\.func\.hessian"):
            torch.func.jacfwd(torch.func.jacfwd(function))(value)


def test_weights_that_are_replaced_have_no_tangent(grid):
    w = torch.ones(grid.n_nodes, dtype=torch.float64)
    w[0] = 1e-9
    y = torch.ones(grid.n_nodes, dtype=torch.float64)
    with pytest.raises(InputError, match="some would inflate estimates"):
        torch.func.jvp(lambda w: interpolate(grid, w, y, np.arange(grid.n_nodes) > 0).x, (w,), (w,))


def test_batched_readings(grid, rng):
    y, w = torch.tensor(rng.standard_normal((3, grid.n_nodes, 2))), torch.full((grid.n_nodes,), 0.7).double()
    expected = torch.stack([denoise(grid, w, part).x for part in y])
    torch.testing.assert_close(torch.func.vmap(lambda y: denoise(grid, w, y).x)(y), expected)
    moved = torch.func.vmap(lambda y: denoise(grid, w, y).x, in_dims=2, out_dims=2)(y.movedim(0, 2))
    torch.testing.assert_close(moved.movedim(2, 0), expected)

    def gradient(part):
        return torch.func.grad(lambda w: denoise(grid, w, part).x.pow(2).sum())(w)

    torch.testing.assert_close(torch.func.vmap(gradient)(y), torch.stack([gradient(part) for part in y]))


def test_batched_weights_and_gaps_are_refused(grid):
    y = torch.ones(2, grid.n_nodes, 1)
    with pytest.raises(InputError, match=r"torch\.func\.vmap batches"):
        torch.func.vmap(lambda w: denoise(grid, w, y[0]).x)(torch.ones(2, grid.n_nodes))
    with pytest.raises(InputError, match=r"torch\.func\.vmap batches"):
        torch.func.vmap(lambda y: interpolate(grid, 0.7, y).x)(y)
    y[1, 3] = torch.nan
    with pytest.raises(InputError, match=r"torch\.func\.vmap batches"):
        torch.func.vmap(lambda y: denoise(grid, 0.7, y).x)(y)
