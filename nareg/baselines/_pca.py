"""Principal components: the low-rank part of many signals, with gaps filled by it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nareg._core import checks
from nareg._core.arrays import briefly_shown
from nareg.baselines._masks import series
from nareg.errors import InputError
from nareg.results import Status
from nareg.typing import ArrayLike


@briefly_shown
@dataclass(frozen=True, eq=False)
class PrincipalComponents:
    """Result of :func:`pca`.

    Attributes
    ----------
    x : (N, T) float64 array
        Projection of the readings; at gaps their estimate.
    rank : int
        Number of components R.
    components : (N, R) array
        Orthonormal maps, the strongest first.
    scores : (R, T) array
        Their strength at each time: ``x`` is ``mean + components @ scores``, in each node's own unit of noise if ``noise``
        has one variance per node.
    mean : (N,) array
        Mean of each node over time; with gaps that of the filled readings.
    status : Status
        Whether gaps changed by less than ``tol`` in the last iteration.
    iterations : int
        Decompositions taken.
    """

    x: np.ndarray
    rank: int
    components: np.ndarray
    scores: np.ndarray
    mean: np.ndarray
    status: Status
    iterations: int


def pca(
    y: ArrayLike,
    observed: ArrayLike | None = None,
    *,
    rank: int | None = None,
    noise: ArrayLike | None = None,
    tol: float = 1e-7,
    max_iterations: int = 5000,
) -> PrincipalComponents:
    """Project signals on their principal components; it uses no graph.

    Every node's mean is removed and put back. Gaps are filled by the projection itself, again and again, which minimizes the
    squared error at the observed readings over all means and matrices of the rank (to a local minimum).

    Parameters
    ----------
    y : (N, T) array
        NaN where missing. Every node needs a reading.
    observed : (N, T) or (N,) bool array, optional
        Default: where ``y`` is not NaN.
    rank : int, optional
        Number of components, below N and T. Exactly one of ``rank`` and ``noise``.
    noise : number or (N,) array, optional
        Noise variance, above 0. Components stay whose singular value is above the optimal threshold for white noise of that
        variance; with one variance per node, rows are divided by their standard deviations first. With gaps components are
        added one by one, while what is left at the readings is above that threshold.
    tol : float
        Largest change at the gaps, relative to the norm of the readings around their means.
    max_iterations : int

    Returns
    -------
    PrincipalComponents

    References
    ----------
    Gavish, Donoho, "The optimal hard threshold for singular values is 4/sqrt(3)", IEEE Transactions on Information Theory
    2014, equation 11. Troyanskaya et al., "Missing value estimation methods for DNA microarrays", Bioinformatics 2001 (gaps).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> y = np.outer([1.0, 2.0, 3.0, 4.0], [0.0, 1.0, -1.0, 0.5, 2.0])
    >>> y[1, 2] = np.nan
    >>> result = nareg.baselines.pca(y, rank=1)
    >>> float(result.x[1, 2].round(3))
    -2.0
    """
    values = series(y, observed)
    n, t = values.shape
    seen = np.isfinite(values)
    if (rank is None) == (noise is None):
        raise InputError("rank and noise are both given or both missing: pass exactly one.")
    if not seen.any(axis=1).all():
        raise InputError(f"y has no reading at node {int((~seen.any(axis=1)).argmax())}: drop it, for pca knows no neighbors.")
    tol = checks.number("tol", tol, low=0, strict=True)
    max_iterations = checks.integer("max_iterations", max_iterations, low=1)
    unit = np.ones((n, 1))
    if noise is not None:
        variance = checks.node_vector("noise", noise, n)
        if (variance <= 0).any():
            i = int(variance.argmin())
            raise InputError(f"noise[{i}] is {variance[i]:g}: pass variances above 0.")
        unit = np.sqrt(variance)[:, None]
    count = None if rank is None else checks.integer("rank", rank, low=1)
    if count is not None and count >= min(n, t):
        raise InputError(f"rank is {count} but y has shape {values.shape}: choose less than {min(n, t)}.")
    filled = np.where(seen, values, 0.0) / unit
    means = filled.sum(axis=1, keepdims=True) / seen.sum(axis=1, keepdims=True)
    filled = np.where(seen, filled, means)
    gaps = ~seen
    chosen = count if count is not None else (0 if gaps.any() else _above_noise(filled, 1.0))
    filled, iterations, status = _fill(filled, gaps, chosen, tol, 0, max_iterations)
    if count is None and gaps.any():  # one by one: while a strong component is not in it, gaps look like noise
        while status.ok and chosen < min(n, t) - 1 and _above_noise(_residual(filled, gaps, chosen), float(seen.mean())):
            chosen += 1
            filled, iterations, status = _fill(filled, gaps, chosen, tol, iterations, max_iterations)
    mean = filled.mean(axis=1, keepdims=True)
    U, s, V = np.linalg.svd(filled - mean, full_matrices=False)
    x = unit * (mean + (U[:, :chosen] * s[:chosen]) @ V[:chosen])
    return PrincipalComponents(
        x=x,
        rank=chosen,
        components=U[:, :chosen],
        scores=s[:chosen, None] * V[:chosen],
        mean=(unit * mean).ravel(),
        status=status,
        iterations=iterations + 1,
    )


def _fill(
    filled: np.ndarray, gaps: np.ndarray, rank: int, tol: float, iterations: int, max_iterations: int
) -> tuple[np.ndarray, int, Status]:
    """Replace the gaps by the projection on the components until they stay."""
    filled = filled.copy()
    while gaps.any():
        if iterations >= max_iterations:
            return filled, iterations, Status.MAX_ITERATIONS
        mean = filled.mean(axis=1, keepdims=True)
        U, s, V = np.linalg.svd(filled - mean, full_matrices=False)
        new = (mean + (U[:, :rank] * s[:rank]) @ V[:rank])[gaps]
        change = np.linalg.norm(new - filled[gaps])
        filled[gaps] = new
        iterations += 1
        if change <= tol * np.linalg.norm(s):
            break
    return filled, iterations, Status.CONVERGED


def _residual(filled: np.ndarray, gaps: np.ndarray, rank: int) -> np.ndarray:
    """What the components leave of the readings; zero at gaps."""
    mean = filled.mean(axis=1, keepdims=True)
    U, s, V = np.linalg.svd(filled - mean, full_matrices=False)
    return np.where(gaps, 0.0, filled - mean - (U[:, :rank] * s[:rank]) @ V[:rank])


def _above_noise(matrix: np.ndarray, share: float) -> int:
    """Singular values above the optimal hard threshold for white noise of variance one in this share of the entries."""
    n, t = matrix.shape
    beta = min(n, t) / max(n, t)
    cut = np.sqrt(2 * (beta + 1) + 8 * beta / (beta + 1 + np.sqrt(beta**2 + 14 * beta + 1)))
    values = np.linalg.svd(matrix - matrix.mean(axis=1, keepdims=True), compute_uv=False)
    return int((values > cut * np.sqrt(share * max(n, t))).sum())
