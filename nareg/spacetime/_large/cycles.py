"""Station means and smooth cycles of large networks: the same as the dense model's, with a sparse field for the shrinkage."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from nareg._linear.factorization import superlu
from nareg.errors import SolverError
from nareg.results import symmetric_from_entries
from nareg.spacetime._cycle_errors import of_coefficient, unit_errors
from nareg.spacetime._cycles import FEWEST_PER_WAVE, OPEN_MEAN, Cycles, beside, find, none, slow_power
from nareg.spacetime._large.field import FieldFamily, GraphField

#: Reaches in edges that the field of a coefficient may have, and its share of the coefficients' variance.
REACHES = (1.0, 4.0, 16.0)
SHARES = (0.0, 0.3, 0.7, 0.95)
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
    unit = unit_errors(apart / np.sqrt(power or 1.0), y, rng, DRAWS)
    fields = [family.at(reach) for reach in REACHES]
    parts = [_shrunk(coefficients[k], spreads[k] * power, fields, of_coefficient(unit, k).T, rng) for k in range(K)]
    level, common, spread, errors = (np.array(part) for part in zip(*parts, strict=True))
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
    power = 0.0 if rich.size else slow_power(y)
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
        power = float(np.median((solution[K:] ** 2 / diagonal[K:]).mean(axis=0)))
        apart[:, rich] = solution[K:] / np.sqrt(diagonal[K:])
        together = np.flatnonzero(diagonal[0] * counts[rich] > OPEN_MEAN)
        few = np.linalg.inv(normal[together, :K, :K])
        coefficients[:, rich[together]] = np.einsum("nij,jn->in", few, right[:K, rich[together]])
        spreads[:, rich[together]] = np.einsum("nii->in", few)
    poor = np.flatnonzero((counts > 0) & (counts < FEWEST_PER_WAVE * m))
    coefficients[0, poor] = right[0, poor] / counts[poor]
    spreads[0, poor] = 1.0 / counts[poor]
    return coefficients, spreads, power, apart


def _shrunk(
    b: np.ndarray, error: np.ndarray, fields: list[GraphField], unit: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """Coefficients at all stations from noisy ones at some, the network's own, and variances, by the likeliest field.

    Also draws (N, J) of their errors: those of fields of this kind, found from coefficients with errors ``unit`` (N, J) times
    their size.
    """
    n = b.size
    known = np.isfinite(b)
    if not known.any():
        return np.zeros(n), 0.0, np.zeros(n), np.zeros(unit.shape)
    z = np.where(known, b, 0.0)
    floor = 1e-12 * max(float(np.mean(b[known] ** 2)), 1e-300)
    weights = np.where(known, 1 / np.maximum(np.where(known, error, 1.0), floor), 0.0)
    common = float(weights @ z / weights.sum())
    total = float(weights @ (z - common) ** 2 / weights.sum())  # a station that knows next to nothing does not set it
    if known.sum() < 3 or total == 0:
        spread = np.where(known, 1 / np.maximum(weights, 1e-300), 1 / weights.sum())
        return np.where(known, z, common), common, spread, unit * np.sqrt(spread)[:, None]
    best_score = _score_without_field(z, weights, common)
    best = np.full(n, common), common, np.full(n, 1 / weights.sum())
    noise = np.where(known, np.sqrt(1 / np.maximum(weights, 1e-300)), 0.0)[:, None] * unit
    chosen: tuple[np.ndarray, GraphField, float] | None = None
    for spatial in fields:
        family = spatial.family
        for share in SHARES[1:]:
            variance = share * total
            entries = spatial.entries / variance
            entries[:n] += weights
            lu = superlu(sp.csc_array(symmetric_from_entries(entries, family.i, family.j)))
            if lu is None:
                continue
            # S = variance C + V: S^-1 = W - W A^-1 W with A = Theta / variance + W
            inner = lu.solve(np.column_stack([weights, weights * z]))
            ones, seen = weights - weights * inner[:, 0], weights * z - weights * inner[:, 1]
            middle = float(ones @ z / ones.sum())
            log_det = float(np.log(lu.U.diagonal()).sum()) - spatial.log_det + n * np.log(variance)
            log_det -= float(np.log(weights[known]).sum())
            quadratic = float(z @ (seen - middle * ones) - middle * (ones @ z - middle * ones.sum()))
            score = log_det + quadratic + float(np.log(ones.sum()))
            if score < best_score:
                best_score = score
                chosen = entries, spatial, variance
                best = (middle + inner[:, 1] - middle * inner[:, 0], middle, (1 - inner[:, 0]) ** 2 / ones.sum())
    done = None if chosen is None else fields[0].family.elimination.factor(chosen[0])
    if done is None or chosen is None:
        return *best, np.tile(-(weights @ noise) / weights.sum(), (n, 1))
    # of the field given the coefficients, and of the network's own, which is estimated with them
    spread = best[2] + fields[0].family.elimination.inverse_entries(done[1])[:n]
    return best[0], best[1], spread, _errors(*chosen, weights, noise, rng)


def _errors(
    entries: np.ndarray, spatial: GraphField, variance: float, weights: np.ndarray, noise: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Errors (N, J) of coefficients of drawn fields that were read with ``noise`` (N, J)."""
    family = spatial.family
    lu = superlu(sp.csc_array(symmetric_from_entries(entries, family.i, family.j)))
    if lu is None:
        raise SolverError("the field of the stations' coefficients is not positive definite in float64.")
    drawn = np.sqrt(variance) * spatial.factor.solve(spatial.root_noise((noise.shape[1],), rng))
    inner = lu.solve(np.column_stack([weights, weights[:, None] * (drawn + noise)]))
    ones = weights - weights * inner[:, 0]
    middle = ones @ (drawn + noise) / ones.sum()
    result: np.ndarray = drawn - (middle + inner[:, 1:] - inner[:, :1] * middle)
    return result


def _score_without_field(z: np.ndarray, weights: np.ndarray, common: float) -> float:
    seen = weights > 0
    value = float(weights @ np.where(seen, z - common, 0.0) ** 2) - float(np.log(weights[seen]).sum())
    return value + float(np.log(weights.sum()))
