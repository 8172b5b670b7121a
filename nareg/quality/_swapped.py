"""Two stations exchanged, from some time on, up to some time, or throughout.

An exchange is believed where the readings of each fit what all stations but the two say of the other's place, and where both
places gain. The prediction without the two follows from the residuals without one: ``(e_i, e_j) = C_ij (M_i e_i, M_j e_j)``
where ``C_ij`` inverts the two stations' block of the precision, frequency by frequency. Station means are free, for the fit
took them from these readings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from nareg.quality._others import Others, Spectrum
from nareg.quality._residuals import Residuals

#: Pairs that the exact comparison looks at, per station, of those with the largest simple gain.
PAIRS = 2
#: Times of exchange that it tries.
TIMES = 80
#: An exchange lasts for this share of the record at least, and so many steps.
SHORTEST_SHARE, SHORTEST = 0.05, 16
#: Parts of the span whose median gain counts, so that a few odd times decide nothing.
PARTS = 8
#: The gain counts up to so many times that of the place that gains less: where one place loses, nothing was exchanged, one
#: of the stations is odd.
BOTH = 4.0


@dataclass(frozen=True)
class SwappedPair:
    """A pair, the steps that it exchanges, and by how many standard deviations that fits better."""

    first: int
    second: int
    start: int
    stop: int
    ratio: float


def exchanges(residuals: Residuals, seen: Others) -> list[SwappedPair]:
    """Pairs whose readings fit better exchanged, best first; a station is in one pair at most."""
    T = len(residuals.y)
    spectrum = Spectrum.of(residuals, next_fast_len(2 * T, real=True))
    if spectrum.live.size < 3:
        return []
    readings = seen.prediction + seen.residual  # gaps filled with what the readings around say
    level = residuals.offset.mean(axis=0)
    parts = (part[:, spectrum.live] for part in (readings, seen.weighted, seen.observed))
    pairs = _Pairs(spectrum, level[spectrum.live], *parts)
    ranked = [pairs.exact(a, b) for a, b in pairs.candidates()]
    taken: set[int] = set()
    result = []
    for a, b, start, stop, gain in sorted(ranked, key=lambda entry: -entry[4]):
        if gain > 0 and not taken & {a, b}:
            taken |= {a, b}
            result.append(SwappedPair(int(spectrum.live[a]), int(spectrum.live[b]), start, stop, float(np.sqrt(gain))))
    return result


class _Pairs:
    """Predictions of two live stations from all the others, and what an exchange gains."""

    def __init__(self, spectrum: Spectrum, level: np.ndarray, readings: np.ndarray, weighted: np.ndarray, observed: np.ndarray):
        self.spectrum, self.readings, self.level, self.observed = spectrum, readings, level, observed
        self.own = spectrum.own()
        self.weighted = rfft(weighted, spectrum.n, axis=0).T
        self.T = len(readings)

    def residuals(self, a: int, b: np.ndarray, cross: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(T, k) residuals of station a and of stations b, both left out; ``cross`` (k, F) are their spectra."""
        blocks = self._covariance(a, b, cross)
        mine, theirs = self.weighted[a], self.weighted[b]
        parts = (blocks[0] * mine + blocks[1] * theirs, blocks[1] * mine + blocks[2] * theirs)
        first, second = (irfft(part, self.spectrum.n, axis=1)[:, : self.T].T for part in parts)
        return first, second

    def _covariance(self, a: int, b: np.ndarray, cross: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Spectra of both stations' readings given all others."""
        determinant = self.own[a] * self.own[b] - cross**2
        excess = self.spectrum.excess
        return (
            self.own[b] / determinant - excess[a],
            -cross / determinant,
            self.own[a] / determinant - excess[b][:, None],
        )

    def candidates(self) -> list[tuple[int, int]]:
        """Pairs with the largest fall of the plain sum of squares, for every station."""
        n, T = self.level.size, self.T
        gains = np.full((n, n), -np.inf)
        for a in range(n - 1):
            rest = np.arange(a + 1, n)
            first, second = self.residuals(a, rest, self.spectrum.row(a)[rest])
            D = self.readings[:, [a]] - self.readings[:, rest]
            d = D - first + second
            # sum (s D - d - c)^2 with the sign s(t) = 1 or -1, c free, is sum D^2 + sum d^2 - 2 sum s D d - T mean(s D - d)^2
            both_read = self.observed[:, [a]] & self.observed[:, rest]
            D, d = np.where(both_read, D + self.level[a] - self.level[rest], 0.0), np.where(both_read, d, 0.0)
            product, sums = np.cumsum(D * d, axis=0), np.cumsum(D, axis=0)
            total, mean = product[-1], d.mean(axis=0)
            unswapped = -2 * total - T * (sums[-1] / T - mean) ** 2
            later = -2 * (2 * product - total) - T * ((2 * sums - sums[-1]) / T - mean) ** 2
            earlier = -2 * (total - 2 * product) - T * ((sums[-1] - 2 * sums) / T - mean) ** 2
            fall = unswapped - np.minimum(later.min(axis=0), earlier.min(axis=0))
            gains[a, rest] = fall / np.maximum((D - d).var(axis=0), 1e-300)
        either = np.maximum(gains, gains.T)
        best = np.argsort(-either, axis=1)[:, :PAIRS]
        return sorted({(min(a, int(b)), max(a, int(b))) for a in range(n) for b in best[a] if a != b and either[a, b] > 0})

    def exact(self, a: int, b: int) -> tuple[int, int, int, int, float]:
        """Best span of an exchange, and the fall of the pair's generalized sum of squares, in its mean per reading."""
        T, n = self.T, self.spectrum.n
        pair = np.array([b])
        cross = self.spectrum.entry(a, b)[None]
        first, second = self.residuals(a, pair, cross)
        aa, ab, bb = (part[0] for part in self._covariance(a, pair, cross))
        determinant = aa * bb - ab**2
        precision = (bb / determinant, -ab / determinant, aa / determinant)
        steps = np.arange(T)[:, None]
        cuts = np.unique(np.linspace(0, T - 1, min(TIMES, T)).astype(int))
        inside = np.hstack([np.zeros((T, 1), dtype=bool), steps >= cuts, steps < cuts[1:]])
        start = np.concatenate([[0], cuts, np.zeros(cuts.size - 1, dtype=int)])
        stop = np.concatenate([[0], np.full(cuts.size, T), cuts[1:]])
        inside &= (self.observed[:, a] & self.observed[:, b])[:, None]
        gap = self.readings[:, [b]] - self.readings[:, [a]] + self.level[b] - self.level[a]
        moved = (first + np.where(inside, gap, 0.0), second - np.where(inside, gap, 0.0))
        ones = np.ones((T, 1))
        spectra = [rfft(np.hstack([part, ones]), n, axis=0) for part in moved]
        products = [
            irfft(x[:, None] * spectra[0] + z[:, None] * spectra[1], n, axis=0)[:T]
            for x, z in ((precision[0], precision[1]), (precision[1], precision[2]))
        ]
        quadratic = sum(np.einsum("tk,tk->k", part, product[:, :-1]) for part, product in zip(moved, products, strict=True))
        single = [rfft(ones[:, 0], n) * part for part in precision]
        information = np.array([[irfft(single[k], n)[:T].sum() for k in row] for row in ((0, 1), (1, 2))])
        linear = np.array([product[:, :-1].sum(axis=0) for product in products])
        cost = quadratic - np.einsum("ik,ik->k", linear, np.linalg.solve(information, linear))
        long_enough = inside.sum(axis=0) >= max(SHORTEST, SHORTEST_SHARE * T)
        best = int(np.argmin(np.where(long_enough, cost, np.inf)))
        if not long_enough[best]:
            return a, b, 0, 0, 0.0
        per_reading = max(float(cost[best]) / (2 * T), 1.0)
        constants = np.linalg.solve(information, linear)
        calm = [part[:, [0, best]] - constant[[0, best]] for part, constant in zip(moved, constants, strict=True)]
        spectra = [rfft(part, n, axis=0) for part in calm]
        shares = np.zeros((2, T))
        for k, (x, z) in enumerate(((precision[0], precision[1]), (precision[1], precision[2]))):
            squares = calm[k] * irfft(x[:, None] * spectra[0] + z[:, None] * spectra[1], n, axis=0)[:T]
            shares[k] = squares[:, 0] - squares[:, 1]
        span = shares[:, start[best] : stop[best]]
        parts = [float(p.sum()) for p in np.array_split(span.sum(axis=0), PARTS)]
        gain = min(float(cost[0] - cost[best]), PARTS * float(np.median(parts)), BOTH * float(span.sum(axis=1).min()))
        return a, b, int(start[best]), int(stop[best]), gain / per_reading
