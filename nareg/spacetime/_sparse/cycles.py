"""Station means and smooth cycles of large networks: the same as the dense model's, with a sparse field for the shrinkage."""

from __future__ import annotations

import numpy as np

from nareg.spacetime._learn.cycle_errors import of_coefficient, read_together, shown_errors, unit_errors
from nareg.spacetime._learn.cycles import FEWEST_PER_WAVE, OPEN_MEAN, Cycles, beside, find, none, slow_power
from nareg.spacetime._sparse.field import FieldFamily
from nareg.spacetime._sparse.shrinkage import Shrinkage

#: Draws of the coefficients' errors: many stations make up for few draws.
DRAWS = 2


def fit(
    y: np.ndarray, seconds: np.ndarray, step: float, dated: bool, family: FieldFamily, wanted: str | tuple[str, ...]
) -> Cycles:
    """Means and cycles of readings (T, N), NaN where missing. ``family`` is the field that coefficients are shrunk by."""
    names, harmonics = find(seconds, step, dated, wanted)
    n = y.shape[1]
    empty = none(names, harmonics)
    B = empty.basis(seconds)
    K = B.shape[1]
    X = np.column_stack([B, beside(seconds, step, names)])
    coefficients, spreads, power, apart = _least_squares(y, X, K)
    rng = np.random.default_rng(0)  # fixed: the same readings have the same bands
    apart /= np.sqrt(power or 1.0)
    unit = unit_errors(apart, y, rng, DRAWS)
    counts = np.isfinite(y).sum(axis=0)
    shrink = Shrinkage(family, counts)
    alike = shrink.alike(shown_errors(apart, y).T, read_together(apart, counts))
    draws = [of_coefficient(unit, k).T for k in range(K)]
    parts = [shrink(coefficients[k], spreads[k] * power, alike, draws[k], rng) for k in range(K)]
    level, common, spread, errors = (
        np.array([getattr(part, name) for part in parts]) for name in ("level", "common", "spread", "errors")
    )
    # a place without a station has the network's own level: no dense correlation is stored
    return Cycles(names, harmonics, level, common, np.zeros(K), np.zeros((K, n)), np.zeros(K), spread, errors)


def _least_squares(y: np.ndarray, X: np.ndarray, K: int) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """Coefficients (K, N) of every station, NaN where it has too few readings, their spreads, and the noise's power.

    The last are the coefficients of waves beside the cycles over the roots of their spreads.
    """
    n, m = y.shape[1], X.shape[1]
    observed = np.isfinite(y)
    counts = observed.sum(axis=0)
    first, second = np.triu_indices(m)
    products = (X[:, first] * X[:, second]).T @ observed.astype(float)
    right = X.T @ np.where(observed, y, 0.0)
    coefficients, spreads, apart = (np.full((count, n), np.nan) for count in (K, K, m - K))
    rich = np.flatnonzero(counts >= FEWEST_PER_WAVE * m)
    if rich.size:
        normal = np.zeros((rich.size, m, m))
        normal[:, first, second] = normal[:, second, first] = products[:, rich].T
        # coefficients that a short record leaves open have a large variance; the mean may be large, and is never open
        ridge = np.arange(m) > 0
        normal[:, np.arange(m), np.arange(m)] += 1e-9 * counts[rich, None] * ridge
        inverse = np.linalg.inv(normal)
        solution = np.einsum("nij,jn->in", inverse, right[:, rich])
        diagonal = np.einsum("nii->in", inverse)
        coefficients[:, rich], spreads[:, rich] = solution[:K], diagonal[:K]
        closed = diagonal[0] * counts[rich] <= OPEN_MEAN
        apart[:, rich[closed]] = (solution[K:] / np.sqrt(diagonal[K:]))[:, closed]
        few = np.linalg.inv(normal[~closed, :K, :K])
        coefficients[:, rich[~closed]] = np.einsum("nij,jn->in", few, right[:K, rich[~closed]])
        spreads[:, rich[~closed]] = np.einsum("nii->in", few)
    powers = (apart**2).mean(axis=0)
    power = float(np.nanmedian(powers)) if np.isfinite(powers).any() else slow_power(y)
    poor = np.flatnonzero((counts > 0) & (counts < FEWEST_PER_WAVE * m))
    coefficients[0, poor] = right[0, poor] / counts[poor]
    spreads[0, poor] = 1.0 / counts[poor]
    return coefficients, spreads, power, apart
