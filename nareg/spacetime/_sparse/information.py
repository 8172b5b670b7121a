"""Fisher information of a process's shared parameters, as if the readings were complete: a sum over modes of space and time.

With white noise of one variance n a stationary field with spectrum S has the information ``1/2 sum w^2 d log S d log S'`` with
``w = S / (S + n)`` (Whittle 1953). The spatial modes enter by the density of the Laplacian's eigenvalues alone (Golub
and Meurant 2010, chapter 11).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh_tridiagonal

from nareg.spacetime._sparse.system import Process

#: Probes of the eigenvalues' density, and steps of Lanczos from each.
PROBES, STEPS = 4, 40
#: Frequencies in time that are summed over.
FREQUENCIES = 128


def eigenvalue_density(L: sp.csr_array, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights with ``sum_j h(l_j) / N`` nearly ``weights @ h(nodes)``, by Lanczos quadrature."""
    n = L.shape[0]
    nodes, weights = [], []
    for _ in range(PROBES):
        v = rng.choice([-1.0, 1.0], n) / np.sqrt(n)
        basis, a, b = [v], [], []
        for _ in range(min(STEPS, n)):
            w = L @ basis[-1]
            a.append(float(w @ basis[-1]))
            Q = np.array(basis)
            w -= Q.T @ (Q @ w)
            w -= Q.T @ (Q @ w)  # once more: against rounding
            b.append(float(np.linalg.norm(w)))
            if b[-1] <= 1e-10:
                break
            basis.append(w / b[-1])
        values, vectors = eigh_tridiagonal(np.array(a), np.array(b[: len(a) - 1]))
        nodes.append(np.maximum(values, 0.0))
        weights.append(vectors[0] ** 2 / PROBES)
    return np.concatenate(nodes), np.concatenate(weights)


def information(process: Process, rows: int, coverage: float, density: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """(4, 4) for log variance, atanh(rho), log reach and mean log noise; ``coverage`` is the mean of ``1 / r``, 0 in gaps."""
    nodes, weights = density
    rho, spatial = process.rho, process.field
    shift, power = spatial.reach**-2.0, spatial.family.smoothness
    raw = nodes + shift
    level = float(weights @ raw**-power)  # the fields are scaled to unit variances
    log_theta = power * np.log(raw) + np.log(level)
    by_reach = 2 * shift * power * (1 / raw - float(weights @ raw ** (-power - 1)) / level)
    waves = np.cos(np.pi * (np.arange(FREQUENCIES) + 0.5) / FREQUENCIES)
    gap = 1 + rho**2 - 2 * rho * waves
    log_time = np.log((1 - rho**2) / gap)
    by_rho = -2 * rho - (1 - rho**2) * (2 * rho - 2 * waves) / gap
    S = process.variance * np.exp(log_time[:, None] - log_theta)
    share = S * coverage / (1 + S * coverage)
    mass = np.broadcast_to(weights / FREQUENCIES, S.shape) * (0.5 * spatial.n * rows)
    slopes = [share, share * by_rho[:, None], share * by_reach, 1 - share]
    return np.array([[float(np.sum(mass * first * second)) for second in slopes] for first in slopes])
