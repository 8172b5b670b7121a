"""The graph Fourier transform: orthogonal, in order, and PyGSP's up to signs."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.errors import InputError, TooLargeError
from nareg.spectral import fourier_basis, gft, igft


@pytest.fixture
def graph(rng):
    return nareg.graphs.sensor(60, rng=rng)


@pytest.mark.parametrize("laplacian", ["combinatorial", "normalized", "augmented"])
def test_basis_diagonalizes_its_laplacian(graph, laplacian):
    basis = fourier_basis(graph, laplacian=laplacian)
    U, L = basis.vectors, graph.laplacian(laplacian).toarray()
    np.testing.assert_allclose(U.T @ U, np.eye(60), atol=1e-12)
    np.testing.assert_allclose(U @ np.diag(basis.frequencies) @ U.T, L, atol=1e-12)
    assert (np.diff(basis.frequencies) >= 0).all()
    assert basis.frequencies[0] >= 0
    assert (np.take_along_axis(U, np.abs(U).argmax(axis=0)[None], axis=0) > 0).all()


@pytest.mark.parametrize("laplacian", ["combinatorial", "normalized"])
def test_transform_is_that_of_pygsp_up_to_signs(graph, laplacian, rng):
    pygsp = pytest.importorskip("pygsp", reason="PyGSP is not installed")
    there = pygsp.graphs.Graph(graph.adjacency.toarray(), lap_type=laplacian)
    there.compute_fourier_basis()
    y = rng.standard_normal((60, 3))
    basis = fourier_basis(graph, laplacian=laplacian)
    np.testing.assert_allclose(basis.frequencies, there.e, atol=1e-10)
    ours, theirs = gft(graph, y, laplacian=laplacian), there.gft(y)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-9)
    np.testing.assert_allclose(igft(graph, ours, laplacian=laplacian), y, atol=1e-12)
    np.testing.assert_allclose(there.igft(theirs), y, atol=1e-12)


def test_the_lowest_frequencies_by_lanczos_are_those_of_the_dense_basis(rng):
    graph = nareg.graphs.sensor(3300, rng=rng)
    with pytest.raises(TooLargeError, match="pass n_frequencies"):
        fourier_basis(graph)
    basis = fourier_basis(graph, n_frequencies=5)
    assert basis.vectors.shape == (3300, 5)
    np.testing.assert_allclose(
        graph.laplacian() @ basis.vectors, basis.vectors * basis.frequencies, atol=1e-9 * graph.degrees.max()
    )
    # none below is missed: the frequencies of a grid are known
    smaller = fourier_basis(nareg.graphs.grid((60, 52)), n_frequencies=4).frequencies
    path = lambda n: 2 - 2 * np.cos(np.pi * np.arange(3) / n)  # noqa: E731
    exact = np.sort(np.add.outer(path(60), path(52)).ravel())[:4]
    np.testing.assert_allclose(smaller, exact, atol=1e-10)


def test_transform_keeps_shape_and_dtype(graph, rng):
    y = rng.standard_normal(60).astype(np.float32)
    basis = fourier_basis(graph)
    assert basis.transform(y).dtype == np.float32
    assert basis.inverse(basis.transform(y)).shape == (60,)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g: fourier_basis(g, laplacian="random-walk"), "laplacian is 'random-walk'"),
        (lambda g: fourier_basis(g, n_frequencies=61), "choose at most 60"),
        (lambda g: fourier_basis(g.laplacian()), r"pass a nareg.Graph"),
        (lambda g: fourier_basis(g).inverse(np.ones(59)), "60 frequencies"),
        (lambda g: gft(g, np.ones(59)), "rows are nodes"),
    ],
)
def test_what_cannot_work_is_refused(graph, call, words):
    with pytest.raises(InputError, match=words):
        call(graph)
