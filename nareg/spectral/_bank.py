"""A bank of spectral filters on one graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.fft import dct

from nareg._core import checks
from nareg._solvers.eigenvalues import extreme_eigenvalue
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.io import takes_tables
from nareg.spectral._basis import SYMMETRIC, FourierBasis, SymmetricLaplacian, fourier_basis
from nareg.typing import ArrayLike

#: Frequencies to responses, elementwise.
Kernel = Callable[[np.ndarray], np.ndarray]
METHODS = ("auto", "chebyshev", "exact")
#: Frequencies between zero and the largest at which frame bounds are looked for.
GRID = 1000


def largest_frequency(graph: Graph, laplacian: str) -> float:
    """Largest eigenvalue of the Laplacian; a bound on it where Lanczos does not converge; 1 if there is no edge."""
    if not isinstance(graph, Graph):
        raise InputError(f"graph is a {type(graph).__name__}: pass a nareg.Graph.")
    L = graph.laplacian(checks.choice("laplacian", laplacian, SYMMETRIC))  # type: ignore[arg-type]
    if graph.n_edges == 0:
        return 1.0
    return extreme_eigenvalue(L, "LA", tol=1e-9) or float(abs(L).sum(axis=1).max())


class FilterBank:
    """A list of kernels, applied to signals as ``g_f(L) y``.

    Parameters
    ----------
    graph : Graph
    kernels : callable or sequence of F callables
        Each maps an array of frequencies from 0 to the largest one to an array of responses.
    laplacian : {"combinatorial", "normalized", "augmented"}
        As in :meth:`Graph.laplacian`.

    Notes
    -----
    ``method="chebyshev"`` takes one product with the sparse Laplacian per order and builds no dense (N, N) matrix. On
    ``[0, x_max]`` a kernel is ``sum_k c_k T_k(2 x / x_max - 1)``. The error of ``g(L) y`` is at most the largest error of the
    polynomial there times ``||y||`` (Hammond, Vandergheynst, Gribonval, Applied and Computational Harmonic Analysis 2011).
    ``method="exact"`` takes the whole Fourier basis, of at most 3,000 nodes, and keeps it. ``"auto"`` takes it where no
    polynomial of an order up to 2,048 meets ``tol``, as for the kernels of :func:`meyer` and :func:`itersine`.

    PyGSP's default order is 30, whatever the kernel. Here the default order is the lowest one that keeps the error below
    ``tol`` times the largest response. PyGSP's estimate of the largest frequency is 1 % too large; here it is exact.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> bank = nareg.spectral.FilterBank(nareg.graphs.grid((4,)), [lambda x: 1 / (1 + x), lambda x: x / (1 + x)])
    >>> low, high = bank.analyze(np.array([0.0, 0.0, 1.0, 1.0])).T
    >>> low.round(2), high.round(2)
    (array([0.14, 0.29, 0.71, 0.86]), array([-0.14, -0.29,  0.29,  0.14]))
    """

    def __init__(
        self, graph: Graph, kernels: Kernel | Sequence[Kernel], *, laplacian: SymmetricLaplacian = "combinatorial"
    ) -> None:
        #: The largest eigenvalue of the Laplacian.
        self.largest_frequency = largest_frequency(graph, laplacian)
        self.graph, self.laplacian = graph, laplacian
        functions = (kernels,) if callable(kernels) else tuple(kernels)
        if not functions or not all(callable(g) for g in functions):
            raise InputError("kernels holds no function: pass a function of the frequencies, or a list of them.")
        self.kernels: tuple[Kernel, ...] = functions

    def __len__(self) -> int:
        """Number of filters F."""
        return len(self.kernels)

    def __getitem__(self, index: int | slice) -> FilterBank:
        return FilterBank(self.graph, self.kernels[index], laplacian=self.laplacian)

    def __add__(self, other: FilterBank) -> FilterBank:
        if not isinstance(other, FilterBank):
            return NotImplemented
        if other.graph != self.graph or other.laplacian != self.laplacian:
            raise InputError("the two banks have different graphs or Laplacians: build both on the same.")
        return FilterBank(self.graph, self.kernels + other.kernels, laplacian=self.laplacian)

    def __repr__(self) -> str:
        return f"FilterBank(n_filters={len(self)}, n_nodes={self.graph.n_nodes}, laplacian={self.laplacian!r})"

    @cached_property
    def basis(self) -> FourierBasis:
        """The graph's Fourier basis, computed when first used."""
        return fourier_basis(self.graph, laplacian=self.laplacian)

    def evaluate(self, frequencies: ArrayLike) -> np.ndarray:
        """Responses of all filters.

        Parameters
        ----------
        frequencies : (M,) array

        Returns
        -------
        (F, M) array

        Examples
        --------
        >>> import nareg
        >>> nareg.spectral.FilterBank(nareg.graphs.grid((4,)), lambda x: 1 / (1 + x)).evaluate([0.0, 1.0])
        array([[1. , 0.5]])
        """
        x = checks.floats("frequencies", frequencies, ndim=(1,)).astype(np.float64)
        out = np.empty((len(self), x.size))
        for f, kernel in enumerate(self.kernels):
            values = checks.floats(f"kernels[{f}](frequencies)", kernel(x), ndim=(0, 1))
            if values.shape not in ((), x.shape):
                raise InputError(
                    f"kernels[{f}] returns shape {values.shape} for {x.size} frequencies: return one response per frequency."
                )
            out[f] = values
        return out

    @takes_tables("y")
    def analyze(self, y: ArrayLike, *, method: str = "auto", order: int | None = None, tol: float = 1e-8) -> np.ndarray:
        """Filter signals by every filter.

        Parameters
        ----------
        y : (N,) or (N, T) array
        method : {"auto", "chebyshev", "exact"}
        order : int, optional
            Order of the Chebyshev polynomials. Default: the lowest that meets ``tol``.
        tol : float
            Largest error of a polynomial relative to the largest response of the bank; the error of the result is at most
            that times ``||y||``.

        Returns
        -------
        (N, F) or (N, T, F) array
            In the dtype of ``y``.

        Raises
        ------
        InputError
            If no order up to 2,048 meets ``tol``, as for a kernel with a jump, and the graph has more than 3,000 nodes or
            ``method`` is ``"chebyshev"``.
        TooLargeError
            If ``method="exact"`` and the graph has more than 3,000 nodes.

        Examples
        --------
        >>> import numpy as np, nareg
        >>> g = nareg.graphs.grid((30, 30))
        >>> nareg.spectral.heat(g, scales=[5, 10]).analyze(np.ones(900)).shape
        (900, 2)
        """
        signals = checks.signals("y", y, self.graph.n_nodes)
        Y = signals.reshape(len(signals), -1).astype(np.float64)
        polynomials = self._polynomials(method, order, tol)
        if polynomials is None:
            coefficients = (self.basis.vectors.T @ Y)[..., None] * self.evaluate(self.basis.frequencies).T[:, None]
            out = np.tensordot(self.basis.vectors, coefficients, axes=1)
        else:
            out = apply_polynomials(self._matrix, polynomials, self.largest_frequency, Y)
        return out.reshape(*signals.shape, len(self)).astype(signals.dtype)

    def synthesize(
        self, coefficients: ArrayLike, *, method: str = "auto", order: int | None = None, tol: float = 1e-8
    ) -> np.ndarray:
        """Add up signals, each filtered by its own filter: the transpose of :meth:`analyze`.

        With ``bank.inverse().synthesize(bank.analyze(y))`` a signal is recovered.

        Parameters
        ----------
        coefficients : (N, F) or (N, T, F) array
        method, order, tol
            As in :meth:`analyze`.

        Returns
        -------
        (N,) or (N, T) array

        Examples
        --------
        >>> import numpy as np, nareg
        >>> bank = nareg.spectral.itersine(nareg.graphs.grid((4,)))
        >>> bank.synthesize(bank.analyze(np.arange(4.0))).round(3) + 0.0
        array([0., 1., 2., 3.])
        """
        array = checks.floats("coefficients", coefficients, ndim=(2, 3))
        if array.shape[0] != self.graph.n_nodes or array.shape[-1] != len(self):
            raise InputError(
                f"coefficients has shape {array.shape}: pass ({self.graph.n_nodes}, {len(self)}) or "
                f"({self.graph.n_nodes}, T, {len(self)}), nodes first and filters last."
            )
        C = array.reshape(len(array), -1, len(self)).astype(np.float64)
        polynomials = self._polynomials(method, order, tol)
        if polynomials is None:
            parts = np.tensordot(self.basis.vectors.T, C, axes=1) * self.evaluate(self.basis.frequencies).T[:, None]
            out = self.basis.vectors @ parts.sum(axis=-1)
        else:
            out = sum_polynomials(self._matrix, polynomials, self.largest_frequency, C)
        return out.reshape(array.shape[:-1]).astype(array.dtype)

    def localize(self, node: int, *, method: str = "auto", order: int | None = None, tol: float = 1e-8) -> np.ndarray:
        """The atoms of the bank at a node: ``sqrt(N) g_f(L) e_node``, as PyGSP scales them.

        Parameters
        ----------
        node : int
        method, order, tol
            As in :meth:`analyze`.

        Returns
        -------
        (N, F) array

        Examples
        --------
        >>> import nareg
        >>> nareg.spectral.heat(nareg.graphs.grid((3,)), scales=2.0).localize(1).round(3).ravel()
        array([0.499, 0.734, 0.499])
        """
        n = self.graph.n_nodes
        impulse = np.zeros(n)
        i = checks.integer("node", node, low=0)
        if i >= n:
            raise InputError(f"node is {i} but the graph has {n} nodes: choose 0 to {n - 1}.")
        impulse[i] = np.sqrt(n)
        return self.analyze(impulse, method=method, order=order, tol=tol)

    def frame_bounds(self, frequencies: ArrayLike | None = None) -> tuple[float, float]:
        """Smallest and largest ``sum_f g_f(x)^2``: ``A ||y||^2 <= ||analyze(y)||^2 <= B ||y||^2``.

        Parameters
        ----------
        frequencies : (M,) array, optional
            Where to look. Default: 1,000 frequencies from 0 to the largest. ``bank.basis.frequencies`` gives the bounds
            that no signal on this graph beats.

        Returns
        -------
        (A, B)

        Examples
        --------
        >>> import nareg
        >>> low, high = nareg.spectral.itersine(nareg.graphs.grid((4,))).frame_bounds()
        >>> round(low, 6), round(high, 6)
        (1.0, 1.0)
        """
        x = np.linspace(0, self.largest_frequency, GRID) if frequencies is None else frequencies
        power = np.sum(self.evaluate(x) ** 2, axis=0)
        return float(power.min()), float(power.max())

    def inverse(self) -> FilterBank:
        """The canonical dual: ``bank.inverse().synthesize(bank.analyze(y))`` is y.

        Where all filters vanish the dual does, too, and that part of the signal is lost.

        Examples
        --------
        >>> import numpy as np, nareg
        >>> bank = nareg.spectral.mexican_hat(nareg.graphs.grid((5,)))
        >>> bank.inverse().synthesize(bank.analyze(np.arange(5.0))).round(4) + 0.0
        array([0., 1., 2., 3., 4.])
        """
        return FilterBank(self.graph, [self._dual(f) for f in range(len(self))], laplacian=self.laplacian)

    def approximation_error(self, order: int) -> float:
        """Largest error of the Chebyshev polynomials of an order, over all filters and 1,000 frequencies.

        Parameters
        ----------
        order : int

        Examples
        --------
        >>> import nareg
        >>> bank = nareg.spectral.heat(nareg.graphs.grid((4,)), scales=10)
        >>> bank.approximation_error(5) > bank.approximation_error(10) > bank.approximation_error(20)
        True
        """
        order = checks.integer("order", order, low=0)
        c = chebyshev_coefficients(self.evaluate, self.largest_frequency, order)
        x = np.linspace(0, 1, GRID)
        polynomials = np.polynomial.chebyshev.chebval(2 * x - 1, c.T)
        return float(np.abs(polynomials - self.evaluate(self.largest_frequency * x)).max())

    @property
    def _matrix(self) -> sp.csr_array:
        return self.graph.laplacian(self.laplacian)

    def _dual(self, f: int) -> Kernel:
        def kernel(x: np.ndarray) -> np.ndarray:
            responses = self.evaluate(x)
            power = np.sum(responses**2, axis=0)
            return np.divide(responses[f], power, out=np.zeros_like(power), where=power > 0)

        return kernel

    def _polynomials(self, method: str, order: int | None, tol: float) -> np.ndarray | None:
        """Coefficients of the polynomials; None where the basis is taken."""
        if checks.choice("method", method, METHODS) == "exact":
            return None
        if order is not None:
            return chebyshev_coefficients(self.evaluate, self.largest_frequency, checks.integer("order", order, low=0))
        tol = checks.number("tol", tol, low=0, strict=True)
        c = converged_coefficients(self.evaluate, self.largest_frequency, tol)
        small = self.graph.n_nodes <= checks.DENSE_LIMIT
        if c is None and not (small and method == "auto"):
            raise InputError(
                f"tol is {tol:g} but no order up to {SAMPLES // 2} meets it for these kernels: pass a larger tol"
                + (", an order, or method='exact'." if small else ", or an order.")
            )
        return c


#: Points at which a kernel is sampled to find the order that it needs; the order stays below half of them.
SAMPLES = 4096

#: Frequencies (M,) to responses (F, M).
Response = Callable[[np.ndarray], np.ndarray]


def chebyshev_coefficients(response: Response, top: float, order: int) -> np.ndarray:
    """Chebyshev coefficients (F, order + 1) of the interpolant at ``order + 1`` Chebyshev points of ``[0, top]``."""
    points = order + 1
    nodes = np.cos(np.pi * (np.arange(points) + 0.5) / points)
    c = dct(response(0.5 * top * (nodes + 1)), type=2, axis=-1) / points
    c[:, 0] /= 2
    return c


def converged_coefficients(response: Response, top: float, tol: float) -> np.ndarray | None:
    """The shortest coefficients whose left-out tail is below ``tol`` times the largest response; None beyond the limit."""
    c = chebyshev_coefficients(response, top, SAMPLES - 1)
    tails = np.cumsum(np.abs(c[:, ::-1]), axis=1)[:, ::-1]  # |T_k| is at most 1: a tail bounds what it leaves out
    scale = np.abs(response(np.linspace(0, top, 1000))).max()
    enough = (tails <= tol * max(scale, np.finfo(float).tiny)).all(axis=0)
    first = int(enough.argmax()) if enough.any() else SAMPLES
    return c[:, : max(first, 1)] if first <= SAMPLES // 2 else None


def apply_polynomials(L: sp.csr_array, c: np.ndarray, top: float, Y: np.ndarray) -> np.ndarray:
    """``p_f(L) Y`` for every row f of ``c``, (N, T, F), with one product per order for all of them."""
    out = np.multiply.outer(Y, c[:, 0])
    before, now = Y, _scaled(L, top, Y)
    for k in range(1, c.shape[1]):
        for f in np.flatnonzero(c[:, k]):
            out[..., f] += c[f, k] * now
        if k + 1 < c.shape[1]:
            before, now = now, 2 * _scaled(L, top, now) - before
    return out


def sum_polynomials(L: sp.csr_array, c: np.ndarray, top: float, C: np.ndarray) -> np.ndarray:
    """``sum_f p_f(L) C[..., f]``, (N, T), by Clenshaw's recurrence."""
    later = after = np.zeros(C.shape[:2])
    for k in range(c.shape[1] - 1, 0, -1):
        later, after = C @ c[:, k] + 2 * _scaled(L, top, later) - after, later
    return C @ c[:, 0] + _scaled(L, top, later) - after


def _scaled(L: sp.csr_array, top: float, Y: np.ndarray) -> np.ndarray:
    """``(2 L / top - I) Y``."""
    return L @ (Y * (2 / top)) - Y
