"""Well-known filter banks, with the definitions of PyGSP; frequencies run from 0 to the largest, ``x_max``."""

from __future__ import annotations

from functools import partial

import numpy as np

from nareg._core import checks
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.spectral._bank import FilterBank, Kernel, largest_frequency
from nareg.spectral._basis import SymmetricLaplacian, fourier_basis
from nareg.typing import ArrayLike


def heat(
    graph: Graph,
    scales: ArrayLike = 10.0,
    *,
    normalize: bool = False,
    laplacian: SymmetricLaplacian = "combinatorial",
) -> FilterBank:
    """Heat kernels ``exp(-s x / x_max)``, one per scale: diffusion over the time ``s / x_max``.

    Parameters
    ----------
    graph : Graph
    scales : number or (F,) array
        At least 0. As in PyGSP they are relative to the largest frequency, so that a scale has the same effect on graphs with
        different weights.
    normalize : bool
        Whether to divide each kernel by its norm over the graph's frequencies, which takes the Fourier basis.
    laplacian : {"combinatorial", "normalized", "augmented"}

    Returns
    -------
    FilterBank

    Examples
    --------
    >>> import nareg
    >>> bank = nareg.spectral.heat(nareg.graphs.grid((4,)), scales=[1, 10])
    >>> bank.evaluate([0.0, bank.largest_frequency]).round(3)
    array([[1.   , 0.368],
           [1.   , 0.   ]])
    """
    top = largest_frequency(graph, laplacian)
    sizes = _scales("scales", np.atleast_1d(np.asarray(scales, dtype=float)), zero=True)
    norms = np.ones(sizes.size)
    if normalize:
        frequencies = fourier_basis(graph, laplacian=laplacian).frequencies
        norms = np.linalg.norm(np.exp(-np.multiply.outer(sizes, frequencies) / top), axis=1)
    kernels: list[Kernel] = [partial(_heat, s / top, norm) for s, norm in zip(sizes, norms, strict=True)]
    return FilterBank(graph, kernels, laplacian=laplacian)


def mexican_hat(
    graph: Graph,
    n_filters: int = 6,
    *,
    low_pass_factor: float = 20.0,
    scales: ArrayLike | None = None,
    normalize: bool = False,
    laplacian: SymmetricLaplacian = "combinatorial",
) -> FilterBank:
    """Mexican hat wavelets ``s x exp(-s x)``, and a low-pass filter for what they leave out.

    Parameters
    ----------
    graph : Graph
    n_filters : int
        Number of filters F, the low-pass filter included, at least 2.
    low_pass_factor : float
        The wavelets cover the frequencies from ``x_max / low_pass_factor``.
    scales : (F - 1,) array, optional
        Default: spaced evenly in their logarithm from ``2 low_pass_factor / x_max`` to ``1 / x_max``.
    normalize : bool
        Whether to multiply each wavelet by ``sqrt(s)``.
    laplacian : {"combinatorial", "normalized", "augmented"}

    Returns
    -------
    FilterBank

    Examples
    --------
    >>> import nareg
    >>> low, high = nareg.spectral.mexican_hat(nareg.graphs.grid((5, 5))).frame_bounds()
    >>> 0 < low < high
    True
    """
    top = largest_frequency(graph, laplacian)
    count = checks.integer("n_filters", n_filters, low=2)
    factor = checks.number("low_pass_factor", low_pass_factor, low=1)
    sizes = np.geomspace(2 * factor / top, 1 / top, count - 1) if scales is None else _given_scales(scales, count)
    kernels: list[Kernel] = [partial(_mexican_low_pass, top / factor)]
    kernels += [partial(_mexican_hat, s, np.sqrt(s) if normalize else 1.0) for s in sizes]
    return FilterBank(graph, kernels, laplacian=laplacian)


def meyer(
    graph: Graph,
    n_filters: int = 6,
    *,
    scales: ArrayLike | None = None,
    laplacian: SymmetricLaplacian = "combinatorial",
) -> FilterBank:
    """Meyer wavelets and their scaling function: a tight frame with the default scales.

    Parameters
    ----------
    graph : Graph
    n_filters : int
        Number of filters F, the scaling function included, at least 2.
    scales : (F - 1,) array, optional
        From the coarsest. Default: ``4 / (3 x_max)`` times powers of two, down to one.
    laplacian : {"combinatorial", "normalized", "augmented"}

    Returns
    -------
    FilterBank

    References
    ----------
    Leonardi, Van De Ville, "Wavelet frames on graphs defined by fMRI functional connectivity", ISBI 2011.

    Examples
    --------
    >>> import nareg
    >>> low, high = nareg.spectral.meyer(nareg.graphs.grid((5, 5))).frame_bounds()
    >>> round(low, 9), round(high, 9)
    (1.0, 1.0)
    """
    top = largest_frequency(graph, laplacian)
    count = checks.integer("n_filters", n_filters, low=2)
    sizes = 4 / (3 * top) * 2.0 ** np.arange(count - 2, -1, -1) if scales is None else _given_scales(scales, count)
    kernels: list[Kernel] = [partial(_meyer_scaling, sizes[0])]
    kernels += [partial(_meyer_wavelet, s) for s in sizes]
    return FilterBank(graph, kernels, laplacian=laplacian)


def itersine(
    graph: Graph, n_filters: int = 6, *, overlap: int = 2, laplacian: SymmetricLaplacian = "combinatorial"
) -> FilterBank:
    """Bands of equal width whose squares add up to one: a tight frame.

    Parameters
    ----------
    graph : Graph
    n_filters : int
        Number of filters F, at least ``overlap``.
    overlap : int
        Filters that share a frequency, at least 2.
    laplacian : {"combinatorial", "normalized", "augmented"}

    Returns
    -------
    FilterBank

    Examples
    --------
    >>> import nareg
    >>> len(nareg.spectral.itersine(nareg.graphs.grid((5, 5)), 8))
    8
    """
    top = largest_frequency(graph, laplacian)
    overlap = checks.integer("overlap", overlap, low=2)
    count = checks.integer("n_filters", n_filters, low=overlap)
    width = top / (count - overlap + 1) * overlap
    kernels: list[Kernel] = [
        partial(_itersine, width, (i - overlap / 2) / overlap, np.sqrt(2 / overlap)) for i in range(1, count + 1)
    ]
    return FilterBank(graph, kernels, laplacian=laplacian)


def gabor(
    graph: Graph,
    kernel: Kernel,
    *,
    centers: ArrayLike | None = None,
    laplacian: SymmetricLaplacian = "combinatorial",
) -> FilterBank:
    """One kernel, shifted to many frequencies: ``g(x - x_f)``. The result shows which frequencies live where.

    Parameters
    ----------
    graph : Graph
    kernel : callable
        Function of differences of frequencies, which are negative, too.
    centers : (F,) array, optional
        The frequencies ``x_f``. Default: all N frequencies of the graph, as in PyGSP; a signal then becomes (N, N) numbers.
    laplacian : {"combinatorial", "normalized", "augmented"}

    Returns
    -------
    FilterBank

    Examples
    --------
    >>> import numpy as np, nareg
    >>> bank = nareg.spectral.gabor(nareg.graphs.grid((4,)), lambda x: np.exp(-(x**2)), centers=[0.0, 1.0, 3.0])
    >>> bank.evaluate([1.0]).round(3).ravel()
    array([0.368, 1.   , 0.018])
    """
    if not callable(kernel):
        raise InputError(f"kernel is a {type(kernel).__name__}: pass a function of frequencies.")
    if centers is None:
        middle = fourier_basis(graph, laplacian=laplacian).frequencies
    else:
        middle = checks.floats("centers", centers, ndim=(1,)).astype(np.float64)
    kernels: list[Kernel] = [partial(_shifted, kernel, float(m)) for m in middle]
    return FilterBank(graph, kernels, laplacian=laplacian)


def _given_scales(scales: ArrayLike, n_filters: int) -> np.ndarray:
    sizes = _scales("scales", scales, zero=False)
    if sizes.size != n_filters - 1:
        raise InputError(f"scales has {sizes.size} entries for {n_filters} filters: pass {n_filters - 1}, one per wavelet.")
    return sizes


def _scales(name: str, value: ArrayLike, *, zero: bool) -> np.ndarray:
    sizes = checks.floats(name, value, ndim=(1,)).astype(np.float64)
    if sizes.size == 0:
        raise InputError(f"{name} is empty: pass at least one scale.")
    if (sizes < 0).any() or (not zero and (sizes == 0).any()):
        raise InputError(f"{name} holds {sizes.min():g}: pass scales {'of at least' if zero else 'above'} 0.")
    return sizes


def _heat(time: float, norm: float, x: np.ndarray) -> np.ndarray:
    return np.minimum(np.exp(-time * x), 1.0) / norm  # a shifted kernel is asked for negative frequencies


def _mexican_low_pass(lowest: float, x: np.ndarray) -> np.ndarray:
    return 1.2 * np.exp(-1) * np.exp(-((x / (0.4 * lowest)) ** 4))


def _mexican_hat(scale: float, factor: float, x: np.ndarray) -> np.ndarray:
    return factor * scale * x * np.exp(-scale * x)


def _meyer_step(x: np.ndarray) -> np.ndarray:
    """From 0 at 0 to 1 at 1, with three continuous derivatives."""
    return x**4 * (35 - 84 * x + 70 * x**2 - 20 * x**3)


def _meyer_scaling(scale: float, x: np.ndarray) -> np.ndarray:
    return np.cos(np.pi / 2 * _meyer_step(np.clip(1.5 * scale * x - 1, 0, 1)))


def _meyer_wavelet(scale: float, x: np.ndarray) -> np.ndarray:
    rise = np.sin(np.pi / 2 * _meyer_step(np.clip(1.5 * scale * x - 1, 0, 1)))
    return rise * np.cos(np.pi / 2 * _meyer_step(np.clip(0.75 * scale * x - 1, 0, 1)))


def _itersine(width: float, center: float, factor: float, x: np.ndarray) -> np.ndarray:
    z = x / width - center
    return factor * np.sin(0.5 * np.pi * np.cos(np.pi * z) ** 2) * (np.abs(z) <= 0.5)


def _shifted(kernel: Kernel, center: float, x: np.ndarray) -> np.ndarray:
    return kernel(x - center)
