"""Filter banks: kernels and coefficients of PyGSP, Chebyshev against the dense definition, frames that are tight."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg import spectral
from nareg.errors import InputError, TooLargeError
from tests.helpers import at_night

BANKS = {
    "heat": (lambda g, **k: spectral.heat(g, [3.0, 20.0], **k), lambda p, G: p.filters.Heat(G, [3.0, 20.0])),
    "normalized heat": (
        lambda g, **k: spectral.heat(g, [3.0, 20.0], normalize=True, **k),
        lambda p, G: p.filters.Heat(G, [3.0, 20.0], normalize=True),
    ),
    "mexican hat": (spectral.mexican_hat, lambda p, G: p.filters.MexicanHat(G)),
    "normalized mexican hat": (
        lambda g, **k: spectral.mexican_hat(g, 4, low_pass_factor=30, normalize=True, **k),
        lambda p, G: p.filters.MexicanHat(G, Nf=4, lpfactor=30, normalize=True),
    ),
    "meyer": (spectral.meyer, lambda p, G: p.filters.Meyer(G)),
    "itersine": (lambda g, **k: spectral.itersine(g, 7, overlap=3, **k), lambda p, G: p.filters.Itersine(G, Nf=7, overlap=3)),
    "gabor": (
        lambda g, **k: spectral.gabor(g, spectral.heat(g, 10.0, **k).kernels[0], **k),
        lambda p, G: p.filters.Gabor(G, p.filters.Heat(G, 10.0)),
    ),
}


def step(x: np.ndarray) -> np.ndarray:
    return (x < 1) * 1.0


@pytest.fixture
def graph(rng):
    return nareg.graphs.sensor(50, rng=rng)


@pytest.fixture
def y(rng):
    return rng.standard_normal((50, 3))


@pytest.mark.slow
@pytest.mark.parametrize("laplacian", ["combinatorial", "normalized"])
@pytest.mark.parametrize("name", BANKS)
def test_banks_are_those_of_pygsp(graph, y, name, laplacian):
    pygsp = pytest.importorskip("pygsp", reason="PyGSP is not installed")
    there = pygsp.graphs.Graph(graph.adjacency.toarray(), lap_type=laplacian)
    there.compute_fourier_basis()
    ours, theirs = BANKS[name]
    bank, other = ours(graph, laplacian=laplacian), theirs(pygsp, there)
    x = np.linspace(0, there.lmax * (1 - 1e-12), 300)
    np.testing.assert_allclose(bank.evaluate(x), other.evaluate(x), atol=1e-9)
    np.testing.assert_allclose(bank.analyze(y, method="exact"), other.filter(y, method="exact"), atol=1e-9)
    np.testing.assert_allclose(bank.frame_bounds(there.e), other.estimate_frame_bounds(there.e), atol=1e-9)


@pytest.mark.parametrize("name", ["heat", "mexican hat", "meyer", "itersine"])
def test_a_given_order_gives_the_polynomial_of_pygsp(graph, y, name):
    pygsp = pytest.importorskip("pygsp", reason="PyGSP is not installed")
    there = pygsp.graphs.Graph(graph.adjacency.toarray())
    there.compute_fourier_basis()
    bank, other = BANKS[name][0](graph), BANKS[name][1](pygsp, there)
    coefficients = bank.analyze(y, order=30)
    np.testing.assert_allclose(coefficients, other.analyze(y, order=30), atol=1e-8)
    np.testing.assert_allclose(bank.synthesize(coefficients, order=30), other.synthesize(coefficients, order=30), atol=1e-8)
    np.testing.assert_allclose(bank.localize(7, order=30), other.localize(7, order=30), atol=1e-8)


@pytest.mark.parametrize("laplacian", ["combinatorial", "normalized", "augmented"])
def test_chebyshev_meets_its_tolerance_against_the_dense_definition(graph, y, laplacian):
    kernels = [lambda x: 1 / (1 + 3 * x), lambda x: np.exp(-2 * x), lambda x: x**2, lambda x: 2.0]
    bank = spectral.FilterBank(graph, kernels, laplacian=laplacian)
    values, U = np.linalg.eigh(graph.laplacian(laplacian).toarray())
    expected = np.stack([(U * g(values)) @ U.T @ y for g in kernels], axis=-1)
    scale = bank.evaluate(values).max() * np.linalg.norm(y, axis=0)[:, None]
    for tol in (1e-3, 1e-6, 1e-10):
        error = np.linalg.norm(bank.analyze(y, tol=tol) - expected, axis=0)
        assert (error <= tol * scale).all()
    np.testing.assert_allclose(bank.analyze(y, method="exact"), expected, atol=1e-10)
    C = np.random.default_rng(1).standard_normal((50, 3, 4))
    adjoint = np.sum(bank.analyze(y) * C), np.sum(y * bank.synthesize(C))
    assert adjoint[0] == pytest.approx(adjoint[1], rel=1e-7)
    np.testing.assert_allclose(bank.synthesize(C), bank.synthesize(C, method="exact"), atol=1e-6)


@pytest.mark.parametrize("bank", [spectral.meyer, spectral.itersine])
def test_tight_frames_reconstruct(graph, y, bank):
    filters = bank(graph)
    np.testing.assert_allclose(filters.frame_bounds(), (1.0, 1.0), atol=1e-12)
    np.testing.assert_allclose(filters.synthesize(filters.analyze(y, method="exact"), method="exact"), y, atol=1e-12)


@pytest.mark.parametrize("bank", [spectral.meyer, spectral.itersine, lambda g: spectral.FilterBank(g, step)])
def test_kernels_that_no_polynomial_meets_take_the_basis(graph, y, bank):
    filters = bank(graph)
    values, U = np.linalg.eigh(graph.laplacian().toarray())
    expected = np.stack([(U * g) @ U.T @ y for g in filters.evaluate(np.maximum(values, 0))], axis=-1)
    np.testing.assert_allclose(filters.analyze(y), expected, atol=1e-12)
    C = np.random.default_rng(1).standard_normal(expected.shape)
    assert np.sum(y * filters.synthesize(C)) == pytest.approx(np.sum(expected * C), rel=1e-9)
    np.testing.assert_allclose(filters.localize(3), filters.localize(3, method="exact"))


def test_the_dual_reconstructs(graph, y):
    bank = spectral.mexican_hat(graph)
    assert bank.frame_bounds(bank.basis.frequencies)[0] > 0
    coefficients = bank.analyze(y, method="exact")
    np.testing.assert_allclose(bank.inverse().synthesize(coefficients, method="exact"), y, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("side", [120, *at_night([300])])
def test_a_large_graph_needs_no_dense_matrix(side, rng):
    graph = nareg.graphs.grid((side, side))
    bank = spectral.heat(graph, 40.0)
    t = 40.0 / bank.largest_frequency
    # the grid's heat kernel is a product of two of its paths
    path = nareg.graphs.grid((side,)).laplacian().toarray()
    values, U = np.linalg.eigh(path)
    H = (U * np.exp(-t * values)) @ U.T
    image = rng.standard_normal((side, side))
    np.testing.assert_allclose(bank.analyze(image.ravel())[:, 0].reshape(side, side), H @ image @ H, atol=1e-6)
    with pytest.raises(TooLargeError, match="method='chebyshev'"):
        bank.analyze(image.ravel(), method="exact")


def test_the_approximation_error_is_what_it_says(graph):
    bank = spectral.meyer(graph)
    x = np.linspace(0, bank.largest_frequency, 1000)
    identity = spectral.FilterBank(graph, bank.kernels)
    for order in (10, 40):
        expected = np.abs(
            np.stack([np.polynomial.chebyshev.Chebyshev.interpolate(g, order, [0, x[-1]])(x) for g in identity.kernels])
            - bank.evaluate(x)
        ).max()
        assert bank.approximation_error(order) == pytest.approx(expected, rel=1e-8)


def test_banks_add_and_are_indexed(graph, y):
    both = spectral.heat(graph, [1.0, 2.0]) + spectral.meyer(graph, 3)
    assert len(both) == 5
    np.testing.assert_array_equal(both[0].analyze(y)[..., 0], spectral.heat(graph, 1.0).analyze(y)[..., 0])
    assert both.analyze(y[:, 0].astype(np.float32)).dtype == np.float32


def test_graphs_without_edges_and_with_isolated_nodes(rng):
    lonely = nareg.Graph(np.zeros((3, 3)))
    np.testing.assert_allclose(spectral.heat(lonely, 5.0).analyze(np.arange(3.0))[:, 0], np.arange(3.0), atol=1e-7)
    A = np.zeros((4, 4))
    A[0, 1] = A[1, 0] = 2.0
    y = rng.standard_normal(4)
    for laplacian in ("combinatorial", "normalized"):
        out = spectral.heat(nareg.Graph(A), 5.0, laplacian=laplacian).analyze(y)[:, 0]
        np.testing.assert_allclose(out[2:], y[2:], atol=1e-7)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g: spectral.FilterBank(g, []), "kernels holds no function"),
        (lambda g: spectral.FilterBank(g, [lambda x: x[:2]]).analyze(np.ones(50)), r"kernels\[0\] returns shape \(2,\)"),
        (lambda g: spectral.FilterBank(g, lambda x: x * np.nan).evaluate([1.0]), "finite"),
        (lambda g: spectral.FilterBank(g, step).analyze(np.ones(50), method="chebyshev"), "no order up to 2048.*'exact'"),
        (lambda g: spectral.FilterBank(nareg.graphs.grid((60, 60)), step).analyze(np.ones(3600)), "larger tol, or an order"),
        (lambda g: spectral.heat(g, -1.0), "holds -1"),
        (lambda g: spectral.meyer(g, 4, scales=[1.0, 2.0]), "pass 3, one per wavelet"),
        (lambda g: spectral.meyer(g, 1), "at least 2"),
        (lambda g: spectral.heat(g).analyze(np.ones(50), method="lanczos"), "choose one of 'auto', 'chebyshev', 'exact'"),
        (lambda g: spectral.heat(g).synthesize(np.ones((50, 2))), r"pass \(50, 1\)"),
        (lambda g: spectral.heat(g).localize(50), "choose 0 to 49"),
        (lambda g: spectral.gabor(g, 3.0), "pass a function"),
        (lambda g: spectral.heat(g.laplacian()), "pass a nareg.Graph"),
        (lambda g: spectral.heat(g, laplacian="random-walk"), "laplacian is 'random-walk'"),
    ],
)
def test_what_cannot_work_is_refused(graph, call, words):
    with pytest.raises(InputError, match=words):
        call(graph)
