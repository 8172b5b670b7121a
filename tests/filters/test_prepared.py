"""A prepared filter: the numbers of ``denoise`` and ``interpolate``, and its factor made once."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import nareg
from nareg._solvers import costs, direct, engines, multigrid
from nareg.errors import AmplificationWarning, InputError, SingularSystemError
from nareg.filters import prepare
from nareg.results import Status
from tests.helpers import dense_filter


@pytest.fixture
def grid():
    return nareg.graphs.grid((12, 11))


def smooth_weights(graph):
    return 10 ** (2 * np.arange(graph.n_nodes) / graph.n_nodes)


@pytest.mark.parametrize("method", engines.METHODS)
def test_every_call_gives_what_denoise_gives(grid, rng, method):
    w = np.full(grid.n_nodes, 0.3) if method == "recursion" else rng.random(grid.n_nodes) + 0.2
    data_weight = None if method == "recursion" else rng.random(grid.n_nodes) + 0.1
    denoiser = prepare(grid, w, data_weight=data_weight, method=method, tol=1e-10)
    for shape in ((grid.n_nodes,), (grid.n_nodes, 3)):
        y = rng.standard_normal(shape)
        once = nareg.filters.denoise(grid, w, y, data_weight=data_weight, method=method, tol=1e-10)
        for _ in range(2):
            solution = denoiser.denoise(y)
            np.testing.assert_allclose(solution.x, once.x, rtol=0, atol=1e-9)
            assert solution.status is Status.CONVERGED
        np.testing.assert_allclose(solution.x, dense_filter(grid, w, data_weight) @ y, atol=1e-8)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda denoiser: pickle.loads(pickle.dumps(denoiser))])
@pytest.mark.parametrize("method", ["auto", "multigrid", "cg"])
def test_it_goes_to_other_processes_after_a_call_too(grid, rng, method, copied):
    y, w = rng.standard_normal(grid.n_nodes), rng.random(grid.n_nodes) + 0.2
    denoiser = prepare(grid, w, method=method, tol=1e-10)
    denoiser.denoise(y)
    np.testing.assert_allclose(copied(denoiser).denoise(y).x, dense_filter(grid, w) @ y, atol=1e-8)


def counted(monkeypatch, owner, name):
    """Calls of a function, which goes on working."""
    calls, function = [], getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *a, **k: (calls.append(1), function(*a, **k))[1])
    return calls


def test_one_factor_serves_all_calls(grid, rng, monkeypatch):
    made = counted(monkeypatch, direct, "factorize")
    denoiser = prepare(grid, 1.5)
    for _ in range(4):
        denoiser.denoise(rng.standard_normal(grid.n_nodes))
    assert len(made) == 1


@pytest.mark.parametrize("method", ["direct", "multigrid"])
def test_auto_keeps_what_it_makes_where_cg_is_slow(rng, monkeypatch, method):
    grid = nareg.graphs.grid((75, 74))
    cheap = {"direct": 1.0, "multigrid": 1.0, method: 1e-9}
    monkeypatch.setattr(engines.Outlook, "_alternatives", costs.Costs(**cheap))
    factors, levels = counted(monkeypatch, direct, "factorize"), counted(monkeypatch, multigrid, "Levels")
    w, y = smooth_weights(grid), rng.standard_normal((grid.n_nodes, 2))
    denoiser = prepare(grid, w)
    first, second = denoiser.denoise(y), denoiser.denoise(y)
    assert first.method.startswith(f"cg, then {method} (auto: CG would take")
    assert second.method.startswith(f"{method} (auto: CG was slow at the first call)")
    assert (len(factors), len(levels)) == ((1, 0) if method == "direct" else (0, 1))
    reference = nareg.filters.denoise(grid, w, y, method="direct").x
    for solution in (first, second):
        np.testing.assert_allclose(solution.x, reference, atol=1e-6)


def test_auto_makes_nothing_where_cg_is_quick(rng, monkeypatch):
    grid = nareg.graphs.grid((75, 74))
    factors = counted(monkeypatch, direct, "factorize")
    denoiser = prepare(grid, 1.0)
    for _ in range(2):
        assert denoiser.denoise(rng.standard_normal(grid.n_nodes)).method == f"cg (auto: {grid.n_nodes} nodes)"
    assert not factors


@pytest.mark.parametrize("columns", [None, 4])
@pytest.mark.parametrize("w", ["one", "random", "smooth"])
def test_gaps_after_a_factor_give_what_interpolate_gives(grid, rng, monkeypatch, columns, w):
    n = grid.n_nodes
    w = {"one": np.full(n, 2.0), "random": rng.random(n) + 0.5, "smooth": smooth_weights(grid)}[w]
    y = rng.standard_normal(n if columns is None else (n, columns))
    seen = rng.random(y.shape) < 0.9
    gappy = np.where(seen, y, np.nan)
    denoiser = prepare(grid, w, tol=1e-11)
    reference = nareg.filters.interpolate(grid, w, gappy, seen, tol=1e-11)
    before = denoiser.interpolate(gappy, seen)
    denoiser.denoise(y)
    monkeypatch.setattr(engines, "SMALL", 0)
    monkeypatch.setattr(engines, "TINY", 0)
    monkeypatch.setattr(engines, "NEARBY", 60)
    after = denoiser.interpolate(gappy, seen)
    np.testing.assert_allclose(before.x, reference.x, atol=1e-9)
    np.testing.assert_allclose(after.x, reference.x, atol=1e-8)
    assert "preconditioned by direct" in after.method
    assert after.status is Status.CONVERGED


@pytest.mark.parametrize("size", [1.0, 1e4, 1e6])
def test_huge_weights_with_gaps_are_as_exact_as_without_a_factor(grid, rng, size):
    w, y = size * (1 + rng.random(grid.n_nodes)), rng.standard_normal(grid.n_nodes)
    seen = rng.random(grid.n_nodes) < 0.9
    denoiser = prepare(grid, w)
    denoiser.denoise(y)
    solution, reference = denoiser.interpolate(y, seen), nareg.filters.interpolate(grid, w, y, seen)
    assert solution.status is reference.status is Status.CONVERGED
    np.testing.assert_allclose(solution.x, reference.x, atol=1e-10)


def test_many_gaps_are_solved_without_the_factor(grid, rng, monkeypatch):
    y = rng.standard_normal(grid.n_nodes)
    seen = rng.random(grid.n_nodes) < 0.5
    denoiser = prepare(grid, 1.0)
    denoiser.denoise(y)
    monkeypatch.setattr(engines, "SMALL", 0)
    monkeypatch.setattr(engines, "TINY", 0)
    monkeypatch.setattr(engines, "NEARBY", 1)
    solution = denoiser.interpolate(y, seen)
    assert solution.method == f"cg (auto: {grid.n_nodes} nodes)"
    np.testing.assert_allclose(solution.x, nareg.filters.interpolate(grid, 1.0, y, seen, method="direct").x, atol=1e-6)


def test_weights_that_inflate_gaps_are_replaced_and_the_caller_is_named(grid, rng):
    w = rng.random(grid.n_nodes) + 0.5
    w[7] = 1e-4
    seen = np.arange(grid.n_nodes) != 7
    y = rng.standard_normal(grid.n_nodes)
    denoiser = prepare(grid, w)
    denoiser.denoise(y)
    for call in (lambda: denoiser.interpolate(y, seen), lambda: nareg.filters.interpolate(grid, w, y, seen)):
        with pytest.warns(AmplificationWarning) as caught:
            solution = call()
        assert caught[0].filename == __file__
        assert np.abs(solution.x).max() <= 2 * np.abs(y).max()


def test_what_cannot_work_is_refused_at_once(grid):
    for arguments, words in (
        ({"method": "lu"}, "choose one of"),
        ({"tol": 0.0}, "tol is 0"),
        ({"max_iterations": 0}, "max_iterations is 0"),
        ({"data_weight": np.zeros(grid.n_nodes)}, "data_weight is zero everywhere"),
    ):
        with pytest.raises(InputError, match=words):
            prepare(grid, 1.0, **arguments)
    denoiser = prepare(grid, 1.0)
    with pytest.raises(InputError, match="y has shape"):
        denoiser.denoise(np.ones(5))
    with pytest.raises(InputError, match="data_weight is zero on every observed node"):
        prepare(grid, 1.0, data_weight=(np.arange(grid.n_nodes) == 0).astype(float)).interpolate(
            np.ones(grid.n_nodes), np.arange(grid.n_nodes) > 0
        )
    two = nareg.Graph([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    with pytest.raises(SingularSystemError, match="node 2"):
        prepare(two, 1.0).interpolate(np.ones(4), np.array([True, True, False, False]))
