"""The graph Fourier transform: eigenvectors of a Laplacian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from nareg._core import checks
from nareg._core.arrays import briefly_shown
from nareg._solvers.eigenvalues import smallest_eigenvectors
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.io import takes_tables
from nareg.typing import ArrayLike

#: Laplacians with orthogonal eigenvectors: the symmetric ones.
SymmetricLaplacian: TypeAlias = Literal["combinatorial", "normalized", "augmented"]
SYMMETRIC = ("combinatorial", "normalized", "augmented")


@briefly_shown
@dataclass(frozen=True, eq=False)
class FourierBasis:
    """Frequencies and Fourier basis of a graph, from :func:`fourier_basis`.

    Attributes
    ----------
    frequencies : (K,) array
        Eigenvalues of the Laplacian in rising order, at least 0.
    vectors : (N, K) array
        Orthonormal eigenvectors, one per column. The largest entry in size of each is positive.
    laplacian : str
        The kind of Laplacian.
    """

    frequencies: np.ndarray
    vectors: np.ndarray
    laplacian: str

    def transform(self, y: ArrayLike) -> np.ndarray:
        """Fourier coefficients ``U^T y``.

        Parameters
        ----------
        y : (N,) or (N, T) array

        Returns
        -------
        (K,) or (K, T) array

        Examples
        --------
        >>> import numpy as np, nareg
        >>> basis = nareg.spectral.fourier_basis(nareg.graphs.grid((4,)))
        >>> basis.transform(np.ones(4)).round(3) + 0.0
        array([2., 0., 0., 0.])
        """
        signals = checks.signals("y", y, len(self.vectors))
        return (self.vectors.T @ signals).astype(signals.dtype)

    def inverse(self, coefficients: ArrayLike) -> np.ndarray:
        """The signal ``U c`` with these Fourier coefficients.

        Parameters
        ----------
        coefficients : (K,) or (K, T) array

        Returns
        -------
        (N,) or (N, T) array

        Examples
        --------
        >>> import numpy as np, nareg
        >>> basis = nareg.spectral.fourier_basis(nareg.graphs.grid((4,)))
        >>> basis.inverse(np.array([2.0, 0.0, 0.0, 0.0])).round(3)
        array([1., 1., 1., 1.])
        """
        array = checks.floats("coefficients", coefficients, ndim=(1, 2))
        if array.shape[0] != self.frequencies.size:
            raise InputError(
                f"coefficients has shape {array.shape} but the basis has {self.frequencies.size} frequencies: pass a row each."
            )
        return (self.vectors @ array).astype(array.dtype)


def fourier_basis(
    graph: Graph, *, laplacian: SymmetricLaplacian = "combinatorial", n_frequencies: int | None = None
) -> FourierBasis:
    """Frequencies and Fourier basis of a graph.

    Parameters
    ----------
    graph : Graph
        At most 3,000 nodes for the whole basis.
    laplacian : {"combinatorial", "normalized", "augmented"}
        As in :meth:`Graph.laplacian`.
    n_frequencies : int, optional
        Only the K lowest frequencies, by Lanczos on large graphs. Default: all N.

    Returns
    -------
    FourierBasis

    Raises
    ------
    TooLargeError
        If the whole basis of more than 3,000 nodes is asked for.
    SolverError
        If Lanczos does not converge.

    Notes
    -----
    Equal to PyGSP's ``compute_fourier_basis`` up to signs, and up to rotations where a frequency repeats. PyGSP leaves signs
    as LAPACK returns them; here they are fixed.

    Examples
    --------
    >>> import nareg
    >>> nareg.spectral.fourier_basis(nareg.graphs.grid((4,))).frequencies.round(3)
    array([0.   , 0.586, 2.   , 3.414])
    """
    if not isinstance(graph, Graph):
        raise InputError(f"graph is a {type(graph).__name__}: pass a nareg.Graph.")
    checks.choice("laplacian", laplacian, SYMMETRIC)
    n = graph.n_nodes
    L = graph.laplacian(laplacian)
    k = n if n_frequencies is None else checks.integer("n_frequencies", n_frequencies, low=1)
    if k > n:
        raise InputError(f"n_frequencies is {k} but the graph has {n} nodes: choose at most {n}.")
    if n_frequencies is None or k >= n - 1:
        checks.dense_size(
            "fourier_basis", n, copies=2, alternative="pass n_frequencies, or filter with a FilterBank and method='chebyshev'"
        )
    values, vectors = smallest_eigenvectors(L, k, dense=checks.DENSE_LIMIT)
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    return FourierBasis(np.maximum(values, 0.0), vectors * np.where(largest < 0, -1.0, 1.0), laplacian)


@takes_tables("y")
def gft(graph: Graph, y: ArrayLike, *, laplacian: SymmetricLaplacian = "combinatorial") -> np.ndarray:
    """Graph Fourier transform ``U^T y``.

    Every call computes the basis. For many calls keep :func:`fourier_basis` and use its ``transform``.

    Parameters
    ----------
    graph : Graph
        At most 3,000 nodes.
    y : (N,) or (N, T) array
    laplacian : {"combinatorial", "normalized", "augmented"}

    Returns
    -------
    array like y
        Coefficients from the lowest frequency to the highest.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> nareg.spectral.gft(nareg.graphs.grid((4,)), np.ones(4)).round(3) + 0.0
    array([2., 0., 0., 0.])
    """
    return fourier_basis(graph, laplacian=laplacian).transform(y)


def igft(graph: Graph, coefficients: ArrayLike, *, laplacian: SymmetricLaplacian = "combinatorial") -> np.ndarray:
    """Inverse graph Fourier transform ``U c``.

    Parameters
    ----------
    graph : Graph
        At most 3,000 nodes.
    coefficients : (N,) or (N, T) array
    laplacian : {"combinatorial", "normalized", "augmented"}

    Returns
    -------
    array like coefficients

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((4,))
    >>> nareg.spectral.igft(g, nareg.spectral.gft(g, np.arange(4.0))).round(3)
    array([0., 1., 2., 3.])
    """
    return fourier_basis(graph, laplacian=laplacian).inverse(coefficients)
