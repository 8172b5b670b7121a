"""Linear estimators in closed form: on the smoothest frequencies, by the diffusion kernel, and the Wiener filter."""

from __future__ import annotations

import numpy as np

from nareg._core import checks
from nareg._solvers.eigenvalues import smallest_eigenvectors
from nareg._solvers.system import penalty
from nareg.baselines._masks import per_mask
from nareg.errors import InputError
from nareg.io import takes_tables
from nareg.typing import ArrayLike, GraphLike


@takes_tables("y", "observed", observed="observed")
def bandlimited(graph: GraphLike, y: ArrayLike, *, n_frequencies: int, observed: ArrayLike | None = None) -> np.ndarray:
    """Project the readings on the first eigenvectors of the Laplacian (least squares where observed).

    Parameters
    ----------
    graph : Graph or (N, N) operator
    y : (N,) or (N, T) array
    n_frequencies : int
        Number of graph frequencies, from the smoothest.
    observed : bool array, optional

    Returns
    -------
    array like y

    Raises
    ------
    InputError
        If the observed nodes do not determine the coefficients.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> nareg.baselines.bandlimited(nareg.graphs.grid((3,)), np.array([1.0, 0.0, 2.0]), n_frequencies=1)
    array([1., 1., 1.])
    """
    base = penalty(graph)
    n = base.n_nodes
    k = checks.integer("n_frequencies", n_frequencies, low=1)
    if k > n:
        raise InputError(f"n_frequencies is {k} but the graph has {n} nodes: choose at most {n}.")
    vectors = smallest_eigenvectors(base.L, k, dense=checks.DENSE_LIMIT)[1]

    def estimate(readings: np.ndarray, mask: np.ndarray) -> np.ndarray:
        coefficients, _, rank, _ = np.linalg.lstsq(vectors[mask], readings, rcond=1e-10)
        if rank < k:
            raise InputError(
                f"observed has {int(mask.sum())} nodes, which do not determine {k} frequencies: lower n_frequencies."
            )
        return vectors @ coefficients

    return per_mask(y, observed, n, estimate)


@takes_tables("y", "observed", observed="observed")
def kernel_ridge(
    graph: GraphLike, y: ArrayLike, *, sigma2: float = 1.0, mu: float = 1e-4, observed: ArrayLike | None = None
) -> np.ndarray:
    """Graph kernel ridge regression with the diffusion kernel ``exp(-sigma2 L / 2)``.

    Minimizes ``||y - x_M||^2 / S + mu x^T exp(sigma2 L / 2) x`` over the S observed nodes M:
    ``x = K_{:,M} (K_{M,M} + mu S I)^-1 y``.

    Parameters
    ----------
    graph : Graph or (N, N) operator, at most 3,000 nodes
    y : (N,) or (N, T) array
    sigma2 : float
        Diffusion time; the paper takes 1 on synthetic graphs and 5 on Molène.
    mu : float
        Ridge; the paper takes 1e-4.
    observed : bool array, optional

    Returns
    -------
    array like y

    References
    ----------
    Romero, Ma, Giannakis, "Kernel-based reconstruction of graph signals", IEEE TSP 2017.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> nareg.baselines.kernel_ridge(nareg.graphs.grid((3,)), np.array([1.0, 0.0, 1.0]), sigma2=2.0, mu=0.1).round(2)
    array([0.56, 0.42, 0.56])
    """
    base = penalty(graph)
    checks.dense_size("kernel_ridge", base.n_nodes, copies=3, alternative="use filters.denoise")
    sigma2 = checks.number("sigma2", sigma2, low=0, strict=True)
    mu = checks.number("mu", mu, low=0, strict=True)
    values, vectors = np.linalg.eigh(base.L.toarray())
    kernel = (vectors * np.exp(-sigma2 * values / 2)) @ vectors.T

    def estimate(readings: np.ndarray, mask: np.ndarray) -> np.ndarray:
        size = int(mask.sum())
        gram = kernel[np.ix_(mask, mask)] + mu * size * np.eye(size)
        return kernel[:, mask] @ np.linalg.solve(gram, readings)

    return per_mask(y, observed, base.n_nodes, estimate)


@takes_tables("y", "signals", "observed", observed="observed")
def lmmse(
    graph: GraphLike,
    y: ArrayLike,
    *,
    signals: ArrayLike | None = None,
    second_moment: ArrayLike | None = None,
    noise: ArrayLike,
    observed: ArrayLike | None = None,
) -> np.ndarray:
    """``x = R_{:,M} (R_{M,M} + Sigma_{M,M})^-1 y`` with the second moment R of the signal.

    A dense N x N filter that ignores the graph: the limit for the filters that run on it.

    Parameters
    ----------
    graph : Graph or (N, N) operator
        Only for the number of nodes.
    y : (N,) or (N, T) array
    signals : (N,) or (N, T) array, optional
        Clean training signals.
    second_moment : (N, N) array, optional
        ``E[x x^T]``; exactly one of the two.
    noise : number, (N,) or (N, N) array
        Noise variance(s) or covariance.
    observed : bool array, optional

    Returns
    -------
    array like y

    Examples
    --------
    >>> import numpy as np, nareg
    >>> nareg.baselines.lmmse(nareg.graphs.grid((2,)), np.array([1.0, 3.0]), second_moment=np.ones((2, 2)), noise=1.0)
    array([1.33333333, 1.33333333])
    """
    from nareg.design import moment  # and what it needs: when first needed

    n = penalty(graph).n_nodes
    checks.dense_size("lmmse", n, copies=3, alternative="use filters.denoise")
    R = moment(signals, second_moment, n, needs="lmmse")
    total = R + checks.covariance(checks.noise("noise", noise, n))
    size = np.sqrt(np.diagonal(total))
    size = np.where(size > 0, size, 1.0)

    def estimate(readings: np.ndarray, mask: np.ndarray) -> np.ndarray:
        # least squares in each node's own unit: R + Sigma may be singular where there is neither signal nor noise
        unit = size[mask, None]
        scaled = np.linalg.lstsq(
            total[np.ix_(mask, mask)] / unit / unit.T, readings.reshape(unit.size, -1) / unit, rcond=1e-12
        )[0]
        return (R[:, mask] @ (scaled / unit)).reshape(n, *readings.shape[1:])

    return per_mask(y, observed, n, estimate)
