"""Two stations exchanged, from some time on, up to some time, or throughout.

An exchange is believed where the readings of each fit what all stations but the two say of the other's place, and where both
places gain. The prediction without the two follows from the residuals without one: ``(e_i, e_j) = C_ij (M_i e_i, M_j e_j)``
where ``C_ij`` inverts the two stations' block of the precision, frequency by frequency. Squares are those of whitened
residuals, so that what changes slowly counts once. Means and cycles are free, for the fit took them from these readings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.fft import irfft, next_fast_len, rfft

from nareg.quality._others import LARGEST, Others, Spectrum, Whitener
from nareg.quality._residuals import Residuals

#: Pairs that the exact comparison looks at, per station, of those with the largest simple gain.
PAIRS = 2
#: Times of exchange that it tries, all where one of so many of their spans gains.
TIMES, COARSE = 80, 5
#: An exchange lasts for this share of the record at least, and so many steps.
SHORTEST_SHARE, SHORTEST = 0.05, 16
#: Parts of the span whose median gain counts, so that a few odd times decide nothing.
PARTS = 8
#: Exchanged, the readings of both places fit: mean squares of at most this, in variances of the model. The noise of a station
#: was estimated with the exchange in its readings, so that it may be off; what an exchange gains is divided by the misfit.
FITS = 6.0
#: Correlations with the other stations have so much smaller squared changes without an exchange than with one.
SAME = 0.5
#: Exchanged, they change by this in the mean square at most, or by so many times what chance changes them by, unless without an
#: exchange they change by more, of which it is the last share.
STRANGE, CHANCES, LESS = 0.15, 2.0, 0.7
#: Throughout the record, the neighbors' correlations rise by this in the mean, and of a slow field an exchange gains so much.
#: Humidity that stood still gained 350 without an exchange, and correlations 0.03; of simulated exchanges these gained 0.07.
SURE, CLOSER = 64.0, 0.05
#: And neither place loses more than this share of what both gain: where one does, one of the stations is odd. Or it is noisier,
#: and took its noise along, if squares compare inside the span as outside once exchanged, to :data:`SAME` of what they did not.
#: Odd is a station as well with which another exchange gains the second share: any readings fit its place better than its own.
LOSES, RIVAL = 0.1, 0.5
#: What an exchange gains is at least this share of what a mean and cycles of the stations' own in the span do, and more than
#: these by so much, nine for three standard deviations, as each of their functions has to gain the logarithm of the readings.
OWN, CLEARLY = 0.8, 9.0
#: And this share of the squares: no model is right to a fiftieth, which in a long record is many standard deviations.
MISFIT = 0.02


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
    given = readings, seen.whitener.adjoint(seen.white), seen.observed, residuals.offset
    parts = [part[:, spectrum.live] for part in given]
    pairs = _Pairs(spectrum, residuals.model.cycles.basis(residuals.grid.seconds), *parts)
    ranked = sorted((pairs.exact(a, b) for a, b in pairs.candidates()), key=lambda entry: -entry[4])
    weights = residuals.model.graph.adjacency[spectrum.live][:, spectrum.live]
    memory = float((spectrum.g**2).mean() / spectrum.g.mean() ** 2)  # steps that tell as much as one of white noise
    gains: dict[int, float] = {}
    believed = []
    for a, b, start, stop, gain in ranked:
        both = parts[2][:, a] & parts[2][:, b]
        if gain <= 0 or {a, b} & {*gains} or _denied(parts[0], a, b, slice(start, stop), both, weights, memory, gain):
            continue
        gains |= {a: gain, b: gain}
        believed.append((a, b, start, stop, gain))
    # of two exchanges, a station of either fits a place of the other as well, which makes no place odd
    rivals = [entry for entry in ranked if entry[4] > min(gains.get(station, 0.0) for station in entry[:2])]
    live = [int(station) for station in spectrum.live]
    return [
        SwappedPair(live[a], live[b], start, stop, float(np.sqrt(gain)))
        for a, b, start, stop, gain in believed
        if not any(RIVAL * gain < other[4] <= gain and {a, b} & {*other[:2]} for other in rivals)
    ]


def _denied(
    readings: np.ndarray, a: int, b: int, span: slice, both: np.ndarray, weights: sp.csr_array, memory: float, gain: float
) -> bool:
    """Whether the others that two stations go up and down with say that nobody exchanged them.

    These are the same inside a span as outside, where an exchanged station keeps the company of the other one. Or neither
    keeps any that it had, as soils that thaw one after the other. Where the two have much the same company, nothing follows.
    Exchanged throughout, both go along with the neighbors of the other one's place more than with those of their own: without
    places, neighbors are those that the readings themselves go along with. Counted are times at which both read; those of a
    field as slow as the record is long prove little, so that the exchange has to gain more.
    """
    rest = np.setdiff1d(np.arange(readings.shape[1]), [a, b])
    readings = readings[both]
    inside = np.zeros(both.size, dtype=bool)
    inside[span] = True
    inside = inside[both]
    if min(inside.sum(), (~inside).sum()) < SHORTEST:
        beside, along = weights[[a, b]][:, rest].toarray(), _correlations(readings, [a, b], rest)
        more = float((beside * (along[::-1] - along)).sum())
        return more <= CLOSER * float(beside.sum()) or (gain < SURE and len(readings) < SHORTEST * memory)
    now, usual = (_correlations(readings[part], [a, b], rest) for part in (inside, ~inside))
    own, exchanged = (float(np.mean((part - usual) ** 2)) for part in (now, now[::-1]))
    # of a slow field, a span tells correlations roughly
    chance = memory * (1 / inside.sum() + 1 / (~inside).sum()) * float(np.mean((1 - usual**2) ** 2))
    return own < SAME * exchanged or exchanged > max(STRANGE, CHANCES * chance, LESS * own)


def _correlations(values: np.ndarray, some: list[int], others: np.ndarray) -> np.ndarray:
    """Correlations of some columns with others, 0 where one is constant."""
    z = values - values.mean(axis=0)
    size = np.sqrt((z**2).sum(axis=0))
    z /= np.where(size > 0, size, 1.0)
    return z[:, some].T @ z[:, others]


class _Pairs:
    """Predictions of two live stations from all the others, and what an exchange gains."""

    def __init__(
        self, spectrum: Spectrum, basis: np.ndarray, readings: np.ndarray, weighted: np.ndarray, observed: np.ndarray,
        offset: np.ndarray,
    ) -> None:  # fmt: skip
        self.spectrum, self.basis, self.readings, self.observed, self.offset = spectrum, basis, readings, observed, offset
        self.own = spectrum.own()
        self.weighted = rfft(weighted, spectrum.n, axis=0).T
        self.T = T = len(readings)
        cuts = np.unique(np.linspace(0, T - 1, min(TIMES, T)).astype(int))
        self.start = np.concatenate([[0], cuts, np.zeros(cuts.size - 1, dtype=int)])  # of every span: first none
        self.stop = np.concatenate([[0], np.full(cuts.size, T), cuts[1:]])
        steps = np.arange(T)[:, None]
        self.inside = (steps >= self.start) & (steps < self.stop)

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
        n, T = self.offset.shape[1], self.T
        gains = np.full((n, n), -np.inf)
        for a in range(n - 1):
            rest = np.arange(a + 1, n)
            first, second = self.residuals(a, rest, self.spectrum.row(a)[rest])
            D = self.readings[:, [a]] - self.readings[:, rest]
            d = D - first + second
            # sum (s D - d - c)^2 with the sign s(t) = 1 or -1, c free, is sum D^2 + sum d^2 - 2 sum s D d - T mean(s D - d)^2
            both_read = self.observed[:, [a]] & self.observed[:, rest]
            apart = self.offset[:, [a]] - self.offset[:, rest]
            D, d = np.where(both_read, D + apart, 0.0), np.where(both_read, d + apart - apart.mean(axis=0), 0.0)
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
        """Best span of an exchange, and the fall of the pair's whitened sum of squares, in variances of the model."""
        T = self.T
        pair = np.array([b])
        cross = self.spectrum.entry(a, b)[None]
        first, second = self.residuals(a, pair, cross)
        aa, _, bb = (part[0] for part in self._covariance(a, pair, cross))
        both = self.observed[:, a] & self.observed[:, b]
        # exchanged where nobody reads as well: a series that went back there would show a jump, which its filter spreads
        gap = (self.readings + self.offset)[:, [b]] - (self.readings + self.offset)[:, [a]]
        whitener = Whitener.of(irfft(np.array([aa, bb]), self.spectrum.n)[:, :T].T)
        whiteners = [whitener.of_series([k]) for k in range(2)]
        for spans in (slice(None, None, COARSE), slice(None)):
            inside = self.inside[:, spans]
            change = np.where(inside, gap, 0.0)
            each = zip((first + change, second - change), whiteners, strict=True)
            squares = [_squares(part, whitener, both, self.basis) for part, whitener in each]
            cost = sum(part.sum(axis=0) for part in squares)
            long_enough = inside[both].sum(axis=0) >= max(SHORTEST, SHORTEST_SHARE * T)
            best = int(np.argmin(np.where(long_enough, cost, np.inf)))
            if not long_enough[best] or cost[best] >= cost[0]:
                return a, b, 0, 0, 0.0
        after = max(float(part[both, best].mean()) for part in squares)
        shares = np.array([part[:, 0] - part[:, best] for part in squares])
        total = float(shares.sum())
        if total < MISFIT * len(squares) * inside[both, best].sum():
            return a, b, 0, 0, 0.0
        now, exchanged = _uneven(squares, inside[:, best], [0, best])
        if after > FITS or (shares.sum(axis=1).min() < -LOSES * total and not exchanged < SAME * now):
            return a, b, 0, 0, 0.0
        # a season or a calibration: another mean and other cycles in the span, not those of the other place
        span = inside[:, [best]]
        free = np.hstack([self.basis * span, self.basis * ~span])
        own = cost[0] - sum(
            float(_squares(part, whitener, both, free).sum()) for part, whitener in zip((first, second), whiteners, strict=True)
        )
        if total < max(OWN * own, own + CLEARLY - 2 * self.basis.shape[1] * np.log(both.sum())):
            return a, b, 0, 0, 0.0
        start, stop = int(self.start[best]), int(self.stop[best])
        # means and cycles, which the fit took from all readings, put half of an exchange at half time into the times before it
        sides = (shares[:, side].sum(axis=0) for side in (inside[:, best], ~inside[:, best]))
        usual = sum(PARTS * float(np.median([part.sum() for part in np.array_split(side, PARTS)])) for side in sides)
        return a, b, start, stop, min(total, usual) / max(after, 1.0)


def _uneven(squares: list[np.ndarray], inside: np.ndarray, columns: list[int]) -> np.ndarray:
    """(k,) by how much more the squares (T, m) of one series than those of the other change in a span, as a logarithm."""
    if min(inside.sum(), (~inside).sum()) < SHORTEST:
        return np.full(len(columns), np.inf)
    sums = np.array([[part[side].sum(axis=0)[columns] for side in (inside, ~inside)] for part in squares])
    first, second = np.diff(np.log(np.maximum(sums, 1e-300)), axis=1)[:, 0]
    return np.abs(first - second)


def _squares(series: np.ndarray, whitener: Whitener, counted: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """(T, k) squares of series (T, k), whitened, around a mean and cycles of their own, of functions (T, c)."""
    functions, white = (np.where(counted[:, None], whitener.apply(part), 0.0) for part in (basis, series))
    directions, sizes, _ = np.linalg.svd(functions, full_matrices=False)
    directions = directions[:, sizes > 1e-9 * sizes.max(initial=0.0)]  # a step of half a day hides part of a daily cycle
    white -= directions @ (directions.T @ white)
    return np.minimum(white**2, LARGEST**2)
