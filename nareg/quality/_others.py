"""Prediction of a station from the other stations only, for all stations from one pass.

The precision of all readings of a station, given those of the others, is Toeplitz with the spectrum::

    M_i(w) = [(g(w) K + R)^-1]_ii,    g(w) K the field's spectrum of the parametric model, R the noise

so the station's own weight in its smoothed value, and with it the prediction without it, is a convolution. The parametric
model serves here, for its correlation knows only where stations are: one that learned correlations learns an exchange as well.
Gaps of the other stations enter as larger noise. The test of any slow error of shape u is ``u' M e / sqrt(u' M u)``, and
``M = F' F`` with the filter F of :class:`Whitener`, which knows where the record begins and ends.

There an autoregression of high order predicts each value from those before it (Durbin and Levinson); the first values, which
have fewer before them, have shorter predictors of their own. What is left has unit variance and counts as independent, so that
evidence is a sum over steps, however slowly a series changes. The infinite record's precision would not do: cut to a record, it
takes the series for zero outside, and finds a fault at both ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from nareg._core.arrays import MAD_TO_STD
from nareg.quality._residuals import Residuals
from nareg.spacetime import fewest_sharing, robust_spread, run

#: Whitened residuals count up to so many standard deviations: a few of them decide nothing.
LARGEST = 5.0
#: The others say nothing of a station where they leave this share of the field's variance.
NOTHING = 0.97
#: Bad readings are spikes, which say nothing of slow errors, where the median error up to so many steps around is less than
#: this share of theirs.
AROUND, SHARED = 7, 0.5
#: Steps on each side that tell a level, and times that tell how much it usually changes.
AROUND_CHANGE, SAMPLES = 8, 200
#: A level changes with others': by so many robust standard deviations of their changes, and this share of its own.
CHANGE, ALONG = 3.0, 0.2
#: A station hardly changes by less than this share of what it is off by.
HARDLY = 0.5
#: What all but this share rise by at least is common.
COMMON = 0.1
#: Some stations are nearer to one than others if their correlations with it differ by this.
UNLIKE = 0.1
#: Stations of so much correlation tell of each other.
NEAR = 0.3
#: Orders of the autoregressions: at most so many, and this share of the record.
HIGHEST, SHARE = 48, 0.1


@dataclass(frozen=True, eq=False)
class Whitener:
    """One filter per series.

    Attributes
    ----------
    first : (p, p, N) array
        ``first[t, s]`` weighs the value of step s in that of step t, for the first p steps.
    filter : (p + 1, N) array
        The same for all later steps.
    """

    first: np.ndarray
    filter: np.ndarray

    @classmethod
    def of(cls, covariance: np.ndarray) -> Whitener:
        """From autocovariances (T, N); a series without variance gets a filter of zeros."""
        T, N = covariance.shape
        order = max(min(HIGHEST, int(SHARE * T)), 1)
        live = covariance[0] > 0
        c = np.where(live, covariance / np.where(live, covariance[0], 1.0), 0.0)
        first, weights = np.zeros((order, order, N)), np.zeros((order + 1, N))
        variance = np.ones(N)
        predictor = np.zeros((0, N))  # of the value after, from the nearest value before it on
        for t in range(order + 1):
            row = np.concatenate([np.ones((1, N)), -predictor]) / np.sqrt(variance)
            if t < order:
                first[t, : t + 1] = row[::-1]
            else:
                weights = row
                break
            reflection = (c[t + 1] - (predictor * c[t:0:-1]).sum(axis=0)) / variance if t + 1 < T else np.zeros(N)
            predictor = np.concatenate([predictor - reflection * predictor[::-1], reflection[None]])
            variance = np.maximum(variance * (1 - reflection**2), 1e-12)
        scale = np.where(live, 1 / np.sqrt(np.where(live, covariance[0], 1.0)), 0.0)
        return cls(first * scale, weights * scale)

    @property
    def order(self) -> int:
        return len(self.first)

    def of_series(self, series: list[int]) -> Whitener:
        """The filters of some series."""
        return Whitener(self.first[:, :, series], self.filter[:, series])

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Values (T, N) as white noise."""
        T, p = len(values), min(self.order, len(values))
        n = next_fast_len(T + self.order, real=True)
        result: np.ndarray = irfft(rfft(self.filter, n, axis=0) * rfft(values, n, axis=0), n, axis=0)[:T]
        result[:p] = np.einsum("tsn,sn->tn", self.first[:p, :p], values[:p])
        return result

    def adjoint(self, white: np.ndarray) -> np.ndarray:
        """The transpose of :meth:`apply`: applied to white noise, the precision times the values."""
        T, p = len(white), min(self.order, len(white))
        n = next_fast_len(T + self.order, real=True)
        later = white.copy()
        later[:p] = 0.0
        result: np.ndarray = irfft(rfft(self.filter, n, axis=0).conj() * rfft(later, n, axis=0), n, axis=0)[:T]
        result[:p] += np.einsum("tsn,tn->sn", self.first[:p, :p], white[:p])
        return result


@dataclass(frozen=True, eq=False)
class Others:
    """Predictions without a station's own readings, in the model's unit, rows are steps of the grid.

    Attributes
    ----------
    prediction : (rows, N) array
        Field at a station from the other stations' readings, without mean and cycles.
    residual : (rows, N) array
        Reading minus prediction; where there is no usable reading, smoothed value minus prediction.
    white : (rows, N) array
        ``F e``, of unit variance and independent, at most :data:`LARGEST` in size; zero where there is no usable reading.
    whitener : Whitener
        The filters F.
    std : (N,) array
        Of a residual.
    observed : (rows, N) bool array
        Readings that count.
    slow : (rows, K) array
        Functions of time that every station's fit took from its readings: its mean, and its yearly cycle if there is one.
    leapt : (rows, N) bool array
        First readings after a leap that stays.
    K : (N, N) array
        Covariance of the stations' fields.
    """

    prediction: np.ndarray
    residual: np.ndarray
    white: np.ndarray
    whitener: Whitener
    std: np.ndarray
    observed: np.ndarray
    slow: np.ndarray
    leapt: np.ndarray
    K: np.ndarray

    @cached_property
    def read(self) -> np.ndarray:
        """(rows, N) readings that count, without mean and cycles."""
        return np.where(self.observed, self.prediction + self.residual, np.nan)

    def changes(self, times: np.ndarray) -> np.ndarray:
        """(n, N) by how much the level of every station is another one from some times on; NaN where too little is read."""
        at = times[:, None] + np.arange(-AROUND_CHANGE, AROUND_CHANGE)
        near = self.read[np.clip(at, 0, len(self.read) - 1)]
        before, after = near[:, :AROUND_CHANGE], near[:, AROUND_CHANGE:]
        known = np.minimum(np.isfinite(before).sum(axis=1), np.isfinite(after).sum(axis=1)) > AROUND_CHANGE // 2
        middle = [np.nanmedian(np.where(known[:, None], part, 0.0), axis=1) for part in (before, after)]
        return np.where(known, middle[1] - middle[0], np.nan)

    @cached_property
    def some_changes(self) -> np.ndarray:
        """(n, N) changes of level at times all over the record."""
        last = max(len(self.read) - AROUND_CHANGE, AROUND_CHANGE)
        return self.changes(np.unique(np.linspace(AROUND_CHANGE, last, SAMPLES).astype(int)))

    @cached_property
    def usual_change(self) -> np.ndarray:
        """(N,) robust standard deviation of the changes of level."""
        return robust_spread(self.some_changes)

    def share(self, station: int, row: int, jump: float) -> bool:
        """Whether others change their level as well where a station is off by ``jump`` from then on, as after an earthquake.

        Where it hardly changes itself, they change to the other side of it.
        """
        size = np.sign(jump) * self.changes(np.array([row]))[0]
        if not jump or not np.isfinite(size).any():
            return False
        return self._change(station, size, abs(jump)) or (
            bool(size[station] < HARDLY * abs(jump)) and self._change(station, -size, abs(jump))
        )

    def _change(self, station: int, size: np.ndarray, jump: float) -> bool:
        """Whether changes of the others are more than usual, and than a share of a jump.

        They are of enough stations, beyond what nearly all change by: a front says nothing of one that rises more. Or stations
        change the more, the more they tell of the one.
        """
        others, fewest = np.arange(size.size) != station, fewest_sharing(int(self.observed.any(axis=0).sum()))
        beyond = size - max(np.nanquantile(size, COMMON), 0.0)
        clear, some = (beyond > times * self.usual_change for times in (CHANGE, CHANGE / 2))
        if (clear & (beyond > ALONG * jump))[others].sum() >= fewest:
            return True
        known = np.isfinite(size) & others
        near = self.K[station, known] / np.sqrt(self.K[station, station] * self.K.diagonal()[known])
        # one that changes with it may be as wrong
        if some[others].sum() < fewest + 1 or np.ptp(near) < UNLIKE:
            return False
        near -= near.mean()
        slope, usual = np.maximum(size[known], 0.0) @ near, np.abs(np.nan_to_num(self.some_changes[:, known]) @ near)
        return bool(slope > max(CHANGE * MAD_TO_STD * np.median(usual), ALONG * jump * (near @ near)))


def convolve(kernel: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Symmetric Toeplitz matrices, given by their first columns (T, N), times the columns of values (T, N)."""
    T = len(values)
    n = next_fast_len(2 * T, real=True)
    whole = np.zeros((n, kernel.shape[1]))
    whole[:T] = kernel
    whole[n - T + 1 :] = kernel[1:][::-1]
    return irfft(rfft(whole, axis=0) * rfft(values, n, axis=0), n, axis=0)[:T]


def others(residuals: Residuals, without: Sequence[int] = ()) -> Others:
    """One pass of the parametric model, and from it every station's prediction without its own readings.

    Readings of the stations ``without`` are compared with the others', and tell nothing of these.
    """
    model, y = residuals.model, residuals.y
    parameters = model.parameters
    noise = parameters.noise
    usable = residuals.usable
    judged = usable.any(axis=0)
    usable[:, list(without)] = False
    done = run(np.where(usable, y, np.nan), parameters.dynamics(model.space), noise)
    conditional = covariances(residuals, usable)
    own = np.where(usable, (y - done.x) / noise, 0.0)
    prediction = done.x - convolve(conditional, own)
    counted = judged & np.isfinite(y) & ~residuals.frozen
    counted &= ~_spiky(residuals.bad, np.where(counted, y - prediction, np.nan))
    residual = np.where(counted, y - prediction, done.x - prediction)
    covariance = conditional.copy()
    covariance[0] += np.where(judged, noise, 0.0)
    whitener = Whitener.of(covariance)
    white = np.where(counted, np.clip(whitener.apply(residual), -LARGEST, LARGEST), 0.0)
    slow, K = model.cycles.slow(residuals.grid.seconds), parameters.covariance(model.space)
    return Others(prediction, residual, white, whitener, np.sqrt(conditional[0] + noise), counted, slow, residuals.leapt, K)


def _spiky(bad: np.ndarray, error: np.ndarray) -> np.ndarray:
    """(rows, N) ``bad`` readings whose error, NaN where there is none, the median one around them does not share.

    Nor does that of as many from them on, or up to them: the first readings after a step are no spikes. At the end of a record
    or of a part, few are on that side, and tell nothing.
    """
    rows, stations = np.nonzero(bad & np.isfinite(error))
    padded, own = np.pad(error, ((2 * AROUND, 2 * AROUND), (0, 0)), constant_values=np.nan), error[rows, stations]
    result = np.zeros(bad.shape, dtype=bool)
    result[rows, stations] = True
    for first in (0, AROUND, 2 * AROUND):
        near = padded[rows[:, None] + first + np.arange(2 * AROUND + 1), stations[:, None]]
        few = np.isfinite(near).sum(axis=1) <= AROUND if first != AROUND else False
        result[rows, stations] &= few | (np.sign(own) * np.nanmedian(near, axis=1) < SHARED * np.abs(own))
    return result


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Spectra of the precision of all readings, ``M_ij = root_i root_j W_i (1 + g L)^-1 W_j'``, on ``n`` frequencies.

    Attributes
    ----------
    live : (L,) int array
        Stations with usable readings.
    root : (L,) array
        One over the noise's standard deviation, which gaps enlarge.
    W : (L, L) array
    g : (F,) array
    filtered : (L, F) array
        ``1 / (1 + g L)``.
    excess : (L,) array
        By how much gaps enlarge the noise variance.
    n : int
    """

    live: np.ndarray
    root: np.ndarray
    W: np.ndarray
    g: np.ndarray
    filtered: np.ndarray
    excess: np.ndarray
    n: int

    @classmethod
    def of(cls, residuals: Residuals, n: int, usable: np.ndarray | None = None) -> Spectrum:
        parameters = residuals.model.parameters
        share = (residuals.usable if usable is None else usable).mean(axis=0)
        live = np.flatnonzero(share > 0)
        noise = parameters.noise[live]
        inflated = noise / share[live]
        K = parameters.covariance(residuals.model.space)[np.ix_(live, live)]
        a, _, q = parameters.autoregression()
        wave = np.exp(-2j * np.pi * np.arange(n // 2 + 1) / n)
        g = q / np.abs(1 - sum(c * wave ** (k + 1) for k, c in enumerate(a))) ** 2
        root = 1 / np.sqrt(inflated)
        eigenvalues, W = np.linalg.eigh(root[:, None] * K * root)
        filtered = 1 / (1 + np.maximum(eigenvalues, 0.0)[:, None] * g)
        return cls(live, root, W, g, filtered, inflated - noise, n)

    def row(self, a: int) -> np.ndarray:
        """(L, F) spectra between the a-th live station and all."""
        return self.root[a] * self.root[:, None] * ((self.W * self.W[a]) @ self.filtered)

    def entry(self, a: int, b: int) -> np.ndarray:
        """(F,) spectrum between two live stations."""
        return self.root[a] * self.root[b] * ((self.W[a] * self.W[b]) @ self.filtered)

    def own(self) -> np.ndarray:
        """(L, F) spectra of every live station with itself."""
        return self.root[:, None] ** 2 * (self.W**2 @ self.filtered)


def isolated(residuals: Residuals) -> np.ndarray:
    """(N,) True for stations of which the others say nothing, in a network where others say more of each other."""
    live = np.flatnonzero(residuals.usable.any(axis=0))
    K = residuals.model.parameters.covariance(residuals.model.space)[np.ix_(live, live)]
    left = 1 / (np.linalg.inv(K).diagonal() * K.diagonal())
    result = np.zeros(residuals.n_nodes, dtype=bool)
    result[live] = (left > NOTHING) & (not (left > NOTHING).all())
    return result


def covariances(residuals: Residuals, usable: np.ndarray) -> np.ndarray:
    """(rows, N) autocovariance of a station's field given the usable readings of the others."""
    T, N = residuals.y.shape
    spectrum = Spectrum.of(residuals, next_fast_len(4 * T, real=True), usable)
    live, K = spectrum.live, residuals.model.parameters.covariance(residuals.model.space)
    conditional = np.empty((N, spectrum.g.size))
    conditional[live] = 1 / spectrum.own() - 1 / spectrum.root[:, None] ** 2
    silent = np.setdiff1d(np.arange(N), live)
    weights = spectrum.W.T @ (spectrum.root[:, None] * K[np.ix_(live, silent)])
    conditional[silent] = spectrum.g * K[silent, silent][:, None] - spectrum.g**2 * ((weights.T**2) @ spectrum.filtered)
    return irfft(np.maximum(conditional, 0.0), spectrum.n, axis=1)[:, :T].T


def nearest(residuals: Residuals, station: int) -> int:
    """The other station with readings that tells most of one."""
    K = residuals.model.parameters.covariance(residuals.model.space)
    likeness = np.where(residuals.usable.any(axis=0), np.abs(K[station]) / np.sqrt(K.diagonal()), -1.0)
    likeness[station] = -1.0
    return int(np.argmax(likeness))


def tell(K: np.ndarray, i: int, j: int) -> bool:
    """Whether two stations tell of each other."""
    return bool(K[i, j] ** 2 > NEAR**2 * K[i, i] * K[j, j])
