from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.errors import InputError


def test_erdos_renyi_has_the_stated_density_and_is_reproducible():
    g = nareg.graphs.erdos_renyi(400, 0.1, rng=np.random.default_rng(1))
    pairs = 400 * 399 / 2
    # five standard deviations of a binomial count
    assert abs(g.n_edges - 0.1 * pairs) < 5 * np.sqrt(pairs * 0.1 * 0.9)
    assert g == nareg.graphs.erdos_renyi(400, 0.1, rng=np.random.default_rng(1))
    assert g != nareg.graphs.erdos_renyi(400, 0.1, rng=np.random.default_rng(2))


@pytest.mark.parametrize(("p", "edges"), [(0.0, 0), (1.0, 45)])
def test_erdos_renyi_extremes(p, edges, rng):
    assert nareg.graphs.erdos_renyi(10, p, rng=rng).n_edges == edges


def test_large_sparse_erdos_renyi_takes_the_sampling_path(rng):
    n = 20_000
    g = nareg.graphs.erdos_renyi(n, 1e-4, rng=rng)
    expected = n * (n - 1) / 2 * 1e-4
    assert abs(g.n_edges - expected) < 5 * np.sqrt(expected)


def test_stochastic_block_densities(rng):
    g = nareg.graphs.stochastic_block([150, 250], [[0.3, 0.02], [0.02, 0.1]], rng=rng)
    A = g.adjacency.toarray()
    assert A[:150, :150].sum() / (150 * 149) == pytest.approx(0.3, abs=0.02)
    assert A[:150, 150:].mean() == pytest.approx(0.02, abs=0.005)
    assert A[150:, 150:].sum() / (250 * 249) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4)])
def test_grid_is_the_product_of_paths(shape):
    g = nareg.graphs.grid(shape)
    L = np.zeros((1, 1))
    for s in shape:
        path = np.diag(np.r_[1, np.full(s - 2, 2), 1]) - np.eye(s, k=1) - np.eye(s, k=-1) if s > 1 else np.zeros((1, 1))
        L = np.kron(L, np.eye(s)) + np.kron(np.eye(len(L)), path)
    np.testing.assert_allclose(g.laplacian().toarray(), L)
    assert g.coordinates.shape == (int(np.prod(shape)), len(shape))


def test_power_law_degrees(rng):
    g = nareg.graphs.power_law(20_000, rng=rng)
    counts = np.diff(g.adjacency.indptr)
    assert counts.mean() == pytest.approx(14, rel=0.05)
    assert counts.max() > 30 * counts.mean()  # hubs, which a Poisson graph has not


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nareg.graphs.erdos_renyi(10, 0.5, rng=0), "numpy generator"),
        (lambda: nareg.graphs.erdos_renyi(0, 0.5, rng=np.random.default_rng(0)), "n is 0"),
        (lambda: nareg.graphs.erdos_renyi(5, 1.5, rng=np.random.default_rng(0)), "between 0 and 1"),
        (lambda: nareg.graphs.stochastic_block([2, 2], [[0.1]], rng=np.random.default_rng(0)), "p has shape"),
        (lambda: nareg.graphs.grid(()), "shape is empty"),
        (lambda: nareg.graphs.grid((3, 0)), r"shape\[1\] is 0"),
        (lambda: nareg.graphs.power_law(10, exponent=2.0, rng=np.random.default_rng(0)), "exponent is 2"),
    ],
)
def test_bad_arguments_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call()
