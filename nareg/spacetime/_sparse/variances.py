"""Variances of the smoothed field, station by station: exact for a steady coverage, a chain in time where it is not.

With every station's mean coverage the system is diagonal in time's frequencies, and the diagonal of its inverse follows from
selected inverses of sparse matrices in space. To each station that leaves a posterior that is (nearly) an autoregression of
its own: its variance and its covariance from one time to the next are kept. Gaps then change the diagonal of that chain's
precision, by the station's own readings exactly and by those of its neighbors in proportion to what they tell.

What readings of a large network leave of the errors of means and cycles.

The dense engine sends draws of these errors through every pass. Here a few are solved for once, while hidden readings are
predicted: what is left of them goes with what is left of the field's variance, and a curve of one over the other serves all
estimates and streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from nareg.spacetime._sparse.field import eliminated
from nareg.spacetime._sparse.system import TOO_SMALL, Process, Share, one_by_one

#: Values of the precision in time at which the inverses in space are computed; between them, in logarithms, lines serve.
NODES = 8
#: Autoregressions below this are none.
SMALLEST_RHO = 1e-6
#: Frequencies that a station's spectrum is summed over.
FREQUENCIES = 256


@dataclass(frozen=True, eq=False)
class Chain:
    """One autoregression in time per station: what its posterior is like where its readings, or none, are."""

    others: np.ndarray  # (N,) information from other stations
    increments: np.ndarray  # (N,) precision of the increments, for a unit process's

    @classmethod
    def of(cls, process: Process, spectra: np.ndarray, waves: np.ndarray, own: np.ndarray) -> Chain:
        """From spectra (F, N) at frequencies of cosine ``waves``, where a station's own information is ``own``."""
        rho = process.rho
        v0, v1 = spectra.mean(axis=0), waves @ spectra / len(waves)
        if abs(rho) < SMALLEST_RHO:
            return cls(np.clip(1 / v0 - own - 1 / process.variance, 0.0, None), np.full(v0.size, 1 / process.variance))
        # the posterior's autoregression has the sign of the prior's
        phi = np.sign(rho) * np.clip(np.sign(rho) * v1 / v0, 1e-6 * abs(rho), 0.9999)
        increments = phi / ((1 - phi**2) * v0) * (1 - rho**2) / rho
        alpha = (1 + phi**2) / ((1 - phi**2) * v0) - increments * (1 + rho**2) / (1 - rho**2)
        return cls(np.clip(alpha - own, 0.0, None), increments)


@dataclass(frozen=True, eq=False)
class Chains:
    """Chains of all stations or some rows, for their own mean coverage and without readings of their own."""

    process: Process
    rows: slice
    seen: Chain
    unseen: Chain
    weights: sp.csr_array  # (rows, N): whose readings tell of a station; rows sum to 1 at the mean coverage

    @classmethod
    def of(
        cls, process: Process, coverage: np.ndarray, adjacency: sp.csr_array, rows: slice = slice(None),
        share: Share = one_by_one,
    ) -> Chains:  # fmt: skip
        """``coverage`` (N,): mean over time of ``1 / r`` where there is a reading."""
        rho = process.rho
        waves = np.cos(np.pi * (np.arange(FREQUENCIES) + 0.5) / FREQUENCIES)
        values = (1 + rho**2 - 2 * rho * waves) / (1 - rho**2)
        spectra = _spectra(process, values, coverage, rows, share)
        reachable = sp.csr_array(adjacency + adjacency @ adjacency)
        reachable.setdiag(0.0)
        reachable = reachable[rows]
        level = reachable @ coverage
        weights = sp.csr_array(sp.diags_array(1 / np.where(level > 0, level, 1.0)) @ reachable)
        own = coverage[rows]
        alone = 1 / np.maximum(1 / spectra - own, 1e-9 / spectra)
        seen = Chain.of(process, spectra, waves, own)
        unseen = Chain.of(process, alone, waves, np.zeros_like(own))
        return cls(process, rows, seen, unseen, weights)

    def smoothed(self, weights: np.ndarray) -> np.ndarray:
        """(rows, T) variances given all readings, for ``weights`` (N, T) of ``1 / r`` where there is a reading."""
        informed, own = self.weights @ weights, weights[self.rows]
        result = self._pass(self.seen, own, informed)
        missing = own == 0
        if missing.any():
            result[missing] = self._pass(self.unseen, own, informed)[missing]
        return result

    def _pass(self, chain: Chain, weights: np.ndarray, informed: np.ndarray) -> np.ndarray:
        rho = self.process.rho
        precision = self.increments(chain, informed[:, :-1], informed[:, 1:])
        d = weights + chain.others[:, None] * informed
        d[:, :1] += 1 / self.process.variance if d.shape[1] == 1 else self.at_end * precision[:, :1]
        if d.shape[1] > 1:
            d[:, -1:] += self.at_end * precision[:, -1:]
            d[:, :-1] += self.at_step * precision
            d[:, 1:] += self.at_step * precision
        square = (rho / (1 - rho**2) * precision) ** 2
        forward, backward = d.copy(), d.copy()
        for t in range(1, d.shape[1]):
            forward[:, t] -= square[:, t - 1] / forward[:, t - 1]
        for t in range(d.shape[1] - 2, -1, -1):
            backward[:, t] -= square[:, t] / backward[:, t + 1]
        return 1.0 / (forward + backward - d)

    def increments(self, chain: Chain, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Precision of the increments between two times, at which others tell so much: the prior's if they tell nothing."""
        prior = 1 / self.process.variance
        share = 0.5 * (np.minimum(before, 1.0) + np.minimum(after, 1.0))
        extra = chain.increments - prior
        return prior + (extra[:, None] if share.ndim == 2 else extra) * share

    # A unit process has ``at_step`` on the diagonal at both times of every step, ``at_end`` more at the record's two ends, and
    # ``-rho / (1 - rho^2)`` between the two.
    at_end = 0.5

    @property
    def at_step(self) -> float:
        rho = self.process.rho
        return 0.5 * (1 + rho**2) / (1 - rho**2)


def _spectra(process: Process, values: np.ndarray, coverage: np.ndarray, rows: slice, share: Share) -> np.ndarray:
    """(F, rows) variances of stations' fields per frequency, for the precisions in time ``values``."""
    low, high = values.min(), values.max()
    nodes = np.geomspace(low, high, NODES if high > low * (1 + 1e-9) else 1)
    inverses = share(lambda node: _inverse_diagonal(process, node / process.variance, coverage), list(nodes), coverage.size)
    logs = np.log(inverses[:, rows])
    if len(nodes) == 1:
        return np.exp(np.repeat(logs, values.size, axis=0))
    place = np.clip(np.searchsorted(nodes, values) - 1, 0, len(nodes) - 2)
    part = (np.log(values / nodes[place]) / np.log(nodes[place + 1] / nodes[place]))[:, None]
    return np.exp((1 - part) * logs[place] + part * logs[place + 1])


def _inverse_diagonal(process: Process, precision: float, coverage: np.ndarray) -> np.ndarray:
    """Diagonal of ``(precision Theta + diag(coverage))^-1``."""
    spatial, how = process.field, process.field.family.elimination
    return how.inverse_entries(eliminated(how, spatial.informed(precision, coverage), TOO_SMALL)[1])[: spatial.n]


#: Points of the curve.
POINTS = 20


@dataclass(frozen=True, eq=False)
class OffsetShares:
    """Share of the errors' variance that stays, as a curve over the share that stays of the field's."""

    field: np.ndarray  # (B,) increasing, from 0 to 1
    offset: np.ndarray  # (B,) never decreasing; at 1 it is 1
    known: np.ndarray  # (N,) bool: the station had readings; of the errors of others all stays

    def at(self, share: np.ndarray) -> np.ndarray:
        """Shares (..., N) where these shares of the field's variance stay."""
        return np.where(self.known, np.interp(share, self.field, self.offset), 1.0)


def everything(known: np.ndarray) -> OffsetShares:
    """Nothing is known of what stays, so all does."""
    return OffsetShares(np.array([0.0, 1.0]), np.ones(2), known)


def shares_of(parts: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], known: np.ndarray) -> OffsetShares:
    """The curve from parts of a record: shares (T, N) that stay of the field's variance; errors, and what stays, (T, N, J)."""
    field = np.concatenate([share[:, known].ravel() for share, _, _ in parts])
    before, after = (np.concatenate([(part[k][:, known] ** 2).sum(axis=-1).ravel() for part in parts]) for k in (1, 2))
    order = np.argsort(field, kind="stable")
    groups = np.array_split(order, min(POINTS, order.size))
    sums = np.array([[field[g].mean(), before[g].sum(), after[g].sum()] for g in groups]).reshape(-1, 3)
    sums = sums[(sums[:, 1] > 0) & (sums[:, 0] > 0) & (sums[:, 0] < 1)]
    if not len(sums):
        return everything(known)
    place, index = np.unique(sums[:, 0], return_index=True)
    before, after = sums[index, 1:].T
    from scipy.optimize import isotonic_regression

    share = isotonic_regression(np.minimum(after / before, 1.0), weights=before).x
    return OffsetShares(np.concatenate([[0.0], place, [1.0]]), np.concatenate([share[:1], share, [1.0]]), known)
