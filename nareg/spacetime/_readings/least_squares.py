"""Coefficients of functions of time at each station, by least squares from its own readings."""

from __future__ import annotations

import numpy as np

#: Readings per function of time that a station needs for a cycle of its own.
FEWEST_PER_WAVE = 3
#: Largest autoregression that a record without enough readings for waves is taken to have.
SLOWEST = 0.9
#: Waves beside the cycles are left out at a station whose readings lie so close together that they raise the variance of its
#: mean by this factor: a mean with a huge variance would spoil estimates in the unit of the readings.
OPEN_MEAN = 4.0


def least_squares(y: np.ndarray, X: np.ndarray, K: int) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """Coefficients (K, N) of every station, NaN where it has too few readings, their spreads, and the noise's power.

    The last are the coefficients of the control waves over the roots of their spreads.
    """
    n, m = y.shape[1], X.shape[1]
    observed = np.isfinite(y)
    counts = observed.sum(axis=0)
    first, second = np.triu_indices(m)
    products = (X[:, first] * X[:, second]).T @ observed.astype(float)
    right = X.T @ np.where(observed, y, 0.0)
    coefficients, spreads, controls = (np.full((count, n), np.nan) for count in (K, K, m - K))
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
        controls[:, rich[closed]] = (solution[K:] / np.sqrt(diagonal[K:]))[:, closed]
        few = np.linalg.inv(normal[~closed, :K, :K])
        coefficients[:, rich[~closed]] = np.einsum("nij,jn->in", few, right[:K, rich[~closed]])
        spreads[:, rich[~closed]] = np.einsum("nii->in", few)
    powers = (controls**2).mean(axis=0)
    power = float(np.nanmedian(powers)) if np.isfinite(powers).any() else slow_power(y)
    poor = np.flatnonzero((counts > 0) & (counts < FEWEST_PER_WAVE * m))
    coefficients[0, poor] = right[0, poor] / counts[poor]
    spreads[0, poor] = 1.0 / counts[poor]
    return coefficients, spreads, power, controls


def slow_power(y: np.ndarray) -> float:
    """Power at the slowest frequencies of readings (T, N) around their stations' means, as that of an autoregression."""
    counts = np.isfinite(y).sum(axis=0)
    if not (counts > 1).any():
        return float(np.nanvar(y)) if counts.any() else 1.0
    rest = y - np.where(counts > 0, np.nansum(y, axis=0) / np.maximum(counts, 1), 0.0)
    variance = float(np.nansum(rest**2) / (counts - 1)[counts > 1].sum())
    neighbors = rest[1:] * rest[:-1]
    pairs = int(np.isfinite(neighbors).sum())
    rho = float(np.nansum(neighbors)) / pairs / variance if pairs and variance > 0 else 0.0
    rho = float(np.clip(rho, 0.0, SLOWEST))
    return variance * (1 + rho) / (1 - rho)
