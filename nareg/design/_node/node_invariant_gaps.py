"""One weight for all nodes from readings with gaps: cross-validation and Stein's estimate over what was read.

For each pattern of gaps the filter acts on the stations that read as on the reduced graph (:mod:`.gap_patterns`),
whose eigenvalues give both criteria for every weight. They are summed over patterns: the filter is judged as it will
be used, with the gaps. Without gaps there is one pattern, and the criteria are the usual ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nareg._core import checks
from nareg.design._node.gap_patterns import kron_reduction, patterns
from nareg.errors import InputError

#: Patterns are drawn at random above so many of them times N^3: one unknown needs no more (10 s on one core).
WORK = 1e10
#: At least so many patterns are used.
FEWEST_PATTERNS = 8


@dataclass(frozen=True)
class _Part:
    """One pattern: eigenvalues of the reduced graph, readings along its eigenvectors, and how many times."""

    lam: np.ndarray
    power: np.ndarray
    count: int
    #: The two quadratic forms of Stein's estimate, (n, n) or, where they are diagonal, (n,).
    moment: np.ndarray | None = None
    covariance: np.ndarray | None = None


class GappyScalar:
    """Criteria of one weight from readings (N, T) and where they were taken."""

    def __init__(
        self, L: np.ndarray, c: np.ndarray, Y: np.ndarray, seen: np.ndarray, Sigma: np.ndarray | None,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        selected = list(patterns(seen))
        max_patterns = max(FEWEST_PATTERNS, int(WORK / float(L.shape[0]) ** 3))
        if len(selected) > max_patterns:
            selected = [selected[p] for p in np.sort(rng.choice(len(selected), max_patterns, replace=False))]
        self.parts = [_part(L, c, Y[:, p.columns], p.seen, Sigma) for p in selected]
        self.n_nodes = L.shape[0]
        self.readings = sum(part.count * part.lam.size for part in self.parts)
        if not any(part.lam.any() for part in self.parts):
            raise InputError("observed has no two connected stations that read at the same time: nothing is smoothed over.")

    def sums(self, strength: float) -> tuple[float, float]:
        """Squared residuals, and trace of the filter, over all readings."""
        residual = trace = 0.0
        for part in self.parts:
            gain = 1.0 / (1.0 + strength * part.lam)
            residual += float(part.power @ (1 - gain) ** 2)
            trace += part.count * float(gain.sum())
        return residual, trace

    def gcv(self, strength: float) -> float:
        """Generalized cross-validation, pooled over patterns."""
        residual, trace = self.sums(strength)
        return (residual / self.readings) / (1 - trace / self.readings) ** 2

    def sure(self, strength: float) -> float:
        """Stein's unbiased estimate of the squared error at what was read, scaled to all nodes."""
        total = 0.0
        for part in self.parts:
            gain = 1.0 / (1.0 + strength * part.lam)
            assert part.moment is not None
            assert part.covariance is not None
            if part.moment.ndim == 1:
                total += part.count * float((1 - gain) ** 2 @ part.moment + gain**2 @ part.covariance)
            else:
                total += part.count * float((1 - gain) @ part.moment @ (1 - gain) + gain @ part.covariance @ gain)
        return total * self.n_nodes / self.readings


def _part(L: np.ndarray, c: np.ndarray, Y: np.ndarray, seen: np.ndarray, Sigma: np.ndarray | None) -> _Part:
    reduced, _ = kron_reduction(L, seen)
    root = np.sqrt(c[seen])
    lam, Q = np.linalg.eigh(reduced / root[:, None] / root)
    lam = np.maximum(lam, 0.0)
    lam[lam < 1e-12 * lam[-1]] = 0.0
    along = Q.T @ (root[:, None] * Y[seen])
    power, count = np.sum(along**2, axis=1), Y.shape[1]
    if Sigma is None:
        return _Part(lam, power, count)
    noise = checks.covariance(Sigma)[np.ix_(seen, seen)]
    whitened = Q.T @ (root[:, None] * noise * root) @ Q
    if (root == root[0]).all():  # the plain norm is the weighted one but for a factor
        scale = 1.0 / root[0] ** 2
        own = np.diag(whitened)
        return _Part(lam, power, count, scale * (power / count - own), scale * own)
    metric = Q.T @ (Q / root[:, None] ** 2)
    return _Part(lam, power, count, metric * (along @ along.T / count - whitened), metric * whitened)
