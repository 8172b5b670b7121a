"""Log-likelihood of a large process: determinants from the preconditioner's factors, the rest by stochastic quadrature.

``log det (P + C) = log det M + log det M^-1 (P + C)`` with M the preconditioner, whose determinant its factors give. The second
term is small and averaged over probes: the steps of conjugate gradients from a probe with covariance M give the quadrature of
Golub and Meurant for the logarithm, as Ubaru, Chen and Saad (SIMAX 2017) use it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.linalg import eigh_tridiagonal

from nareg.spacetime._sparse.system import Process, Share, SpaceTimeSystem, one_by_one

#: Probes of the determinant: as many as make this many cells, within limits; and the most steps from each.
CELLS, PROBES, STEPS = 1_000_000, (1, 16), 20
#: Quadrature is done when the residual has fallen by so much.
SMALL = 1e-3


def log_likelihood(
    y: np.ndarray, x: np.ndarray, process: Process, pool: ThreadPoolExecutor | None = None,
    system: SpaceTimeSystem | None = None, share: Share = one_by_one,
) -> float:  # fmt: skip
    """Log-likelihood of readings (N, T), NaN where missing, whose posterior mean is ``x``; ``system`` is theirs, if made."""
    observed = np.isfinite(y)
    if not observed.any():
        return 0.0
    system = system or SpaceTimeSystem(process, observed)
    n, T = y.shape
    known = np.where(observed, y, 0.0)
    right = known / process.noise[:, None]
    fit = float(np.sum(right * known) - np.sum(right * x))
    prior = T * process.field.log_det - n * T * np.log(process.variance) - n * (T - 1) * np.log(1 - process.rho**2)
    noise = float(observed.sum(axis=1) @ np.log(process.noise))
    probes = int(np.clip(CELLS // observed.size, *PROBES))
    relative = _relative(system, probes, np.random.default_rng(0), pool)
    determinant = system.preconditioner.log_det(share) + relative - prior + noise
    return -0.5 * (fit + determinant + observed.sum() * np.log(2 * np.pi))


def _relative(system: SpaceTimeSystem, probes: int, rng: np.random.Generator, pool: ThreadPoolExecutor | None) -> float:
    """``log det M^-1 (P + C)``, averaged over probes."""
    R = system.preconditioner.noise(probes, rng)
    Z = system.preconditioner.solve(R, pool)
    size = rz = system.dots(R, Z)
    P = Z.copy()
    alphas, betas = [], []
    for _ in range(STEPS):
        Q = system.product(P)
        alpha = rz / system.dots(P, Q)
        R -= alpha[:, None] * Q
        Z = system.preconditioner.solve(R, pool)
        new = system.dots(R, Z)
        alphas.append(alpha)
        betas.append(new / rz)
        P = Z + betas[-1][:, None] * P
        rz = new
        if (rz <= SMALL**2 * size).all():
            break
    total = 0.0
    for s in range(probes):
        a, b = np.array(alphas)[:, s], np.array(betas)[:, s]
        diagonal = 1 / a
        diagonal[1:] += b[:-1] / a[:-1]
        values, vectors = eigh_tridiagonal(diagonal, np.sqrt(b[:-1]) / a[:-1])
        total += float(size[s] * (vectors[0] ** 2 @ np.log(np.maximum(values, 1e-300)))) / probes
    return total
