"""Readings that are hidden from a fit, and the errors of their predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nareg._core.arrays import MAD_TO_STD

#: With fewer hidden readings nothing is compared by them.
FEWEST_HIDDEN = 20
#: Errors are cut at so many robust standard deviations: a broken sensor must not choose a model.
WINSOR = 5.0
#: Times whose readings tell the stations apart.
KEYS = 64
#: Share of the missing readings at silent times from which on these are imitated.
MOST = 0.5
#: Silence for more than this share of the times with readings is a break, as of a season, and no gap: one like it would be all
#: that is hidden.
BREAK = 0.1


def station_order(y: np.ndarray) -> np.ndarray:
    """(N,) stations by their readings (T, N): the same ones wherever their columns stand, in any unit and from any zero.

    What is drawn per station is drawn in this order, so that a permuted table has the same result.
    """
    rows = np.unique(np.linspace(0, len(y) - 1, min(len(y), KEYS)).astype(int))
    keys = np.where(np.isfinite(y[rows]), y[rows], -np.inf)
    return np.lexsort(keys[::-1])


def hide(y: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """(T, N) True for hidden readings, which the order of the stations does not change."""
    order = station_order(y)
    hidden = np.empty(y.shape, dtype=bool)
    hidden[:, order] = _hidden(y[:, order], share, rng)
    return hidden


def _hidden(y: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Half of the hidden readings are single ones, half lie in runs as long as the file's own gaps.

    Where most of what is missing is at times at which no station reads, as many of the runs are of all stations at once.
    """
    observed = np.isfinite(y)
    hidden = np.zeros_like(observed)
    t, i = np.nonzero(observed)
    wanted = int(share * t.size)
    if wanted < 1:
        return hidden
    without = _without_breaks(observed)
    lengths = gap_lengths(without)
    singles = wanted if lengths.size == 0 else wanted // 2
    chosen = rng.choice(t.size, singles, replace=False)
    hidden[t[chosen], i[chosen]] = True
    live = np.flatnonzero(observed.any(axis=0))
    budget, count = 20 * wanted, singles
    silent_share = _simultaneous(without, live)
    # a few long gaps are too few to choose a model by: on AQI-36, where they are a fifth of what is missing, they misled
    simultaneous = round((wanted - singles) * silent_share) if silent_share > MOST else 0
    silent = gap_lengths(np.any(without, axis=1, keepdims=True))
    for length in rng.choice(silent, simultaneous) if silent.size and simultaneous else ():
        if count >= singles + simultaneous:
            break
        start = int(rng.integers(y.shape[0]))
        run = observed[start : start + length]
        count += int((run & ~hidden[start : start + length]).sum())
        hidden[start : start + length] |= run
    while lengths.size and count < wanted and budget:
        budget -= 1
        station, start = int(rng.choice(live)), int(rng.integers(y.shape[0]))
        stop = min(start + int(rng.choice(lengths)), y.shape[0])
        run = observed[start:stop, station]
        count += int((run & ~hidden[start:stop, station]).sum())
        hidden[start:stop, station] |= run
    # a station keeps at least half of its readings
    hidden[:, 2 * hidden.sum(axis=0) > observed.sum(axis=0)] = False
    return hidden


def hide_times(y: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """(T, N) True at random times, of all stations: as many as bring what is missing up to ``share``.

    Neighbors tell what a single station reads. Only a time at which none reads shows what the dynamics are worth, and a
    complete record has no such gap to imitate.
    """
    observed = np.isfinite(y)
    hidden = np.zeros_like(observed)
    within = _within(_without_breaks(observed), np.flatnonzero(observed.any(axis=0)))
    wanted = share - 1 + within.mean() if within.size else 0.0
    reading = np.flatnonzero(observed.any(axis=1))
    hidden[rng.choice(reading, int(max(wanted, 0.0) * reading.size), replace=False)] = True
    return hidden & observed


def _without_breaks(observed: np.ndarray) -> np.ndarray:
    """Rows but for breaks."""
    reading = observed.any(axis=1)
    seen = np.flatnonzero(reading)
    silence = np.diff(np.concatenate([[-1], seen, [len(observed)]])) - 1  # before each time with a reading, and at the end
    following = np.searchsorted(seen, np.arange(len(observed)))
    rows: np.ndarray = observed[reading | (silence[following] <= BREAK * seen.size)]
    return rows


def _within(observed: np.ndarray, live: np.ndarray) -> np.ndarray:
    """Rows between the first and the last time at which a station reads, of the stations that read."""
    reading = np.flatnonzero(observed.any(axis=1))
    return observed[reading[0] : reading[-1] + 1, live] if reading.size else observed[:0]


def _simultaneous(observed: np.ndarray, live: np.ndarray) -> float:
    """Share of the missing readings at times between the first and the last at which no station reads."""
    within = _within(observed, live)
    missing = within.size - int(within.sum())
    return live.size * int((~within.any(axis=1)).sum()) / missing if missing else 0.0


def gap_lengths(observed: np.ndarray) -> np.ndarray:
    """Lengths of the gaps inside each station's series, of at most a quarter of it; dead stations have none."""
    lengths = []
    T = observed.shape[0]
    for column in observed.T:
        seen = np.flatnonzero(column)
        if seen.size > 1:
            gaps = np.diff(seen) - 1
            lengths.append(gaps[(gaps > 0) & (gaps <= T // 4)])
    return np.concatenate(lengths) if lengths else np.empty(0, dtype=int)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Hidden readings (H,) with their predictions, in the model's (transformed) unit."""

    truth: np.ndarray
    x: np.ndarray
    std: np.ndarray  # of reading minus prediction

    @property
    def errors(self) -> np.ndarray:
        return self.truth - self.x


def silent_times(seen: list[np.ndarray], masks: list[np.ndarray]) -> np.ndarray:
    """(H,) Time, counted over all windows, of hidden readings at whose time no other is seen; -1 for the rest."""
    seen_all, t = np.concatenate(seen), np.nonzero(np.concatenate(masks))[0]
    return np.where(np.isfinite(seen_all).any(axis=1)[t], -1, t)


def gaps_of(seen: list[np.ndarray], masks: list[np.ndarray]) -> np.ndarray:
    """(H,) Number of the gap of hidden readings, in windows (T, N), within which all errors may be alike.

    A gap is of one station, between two of its readings that are seen; or of all stations, between times at which one reads.
    """
    gaps, before = [], 0
    for readings, mask in zip(seen, masks, strict=True):
        observed, (t, i) = np.isfinite(readings), np.nonzero(mask)
        read = observed.any(axis=1)
        own = (observed.cumsum(axis=0)[t, i] + 1) * mask.shape[1] + i
        gaps.append(before + np.where(read[t], own, -read.cumsum()[t]))
        before += 2 * mask.size + 3 * mask.shape[1] + len(mask)  # more than these numbers are apart
    return np.unique(np.concatenate(gaps), return_inverse=True)[1]


@dataclass(frozen=True)
class Gain:
    """Fall of the mean squared error at hidden readings, relative to what it was."""

    value: float
    error: float  # its standard error
    better: bool


@dataclass(frozen=True, eq=False)
class Judge:
    """Compares models by two kinds of hidden readings, each for itself: with others at their time, and without any.

    The errors of the second kind are far larger, and of one time alike: in one mean they would drown what the first kind tells.
    """

    kinds: tuple[np.ndarray, ...]  # indices of the hidden readings
    groups: tuple[np.ndarray, ...]  # number of the group of each, within which errors are alike
    scales: tuple[float, ...]

    @classmethod
    def of(cls, errors: np.ndarray, silent: np.ndarray, gaps: np.ndarray | None = None) -> Judge:
        """From the errors (H,) of some model and the times (H,) by :func:`silent_times`, with groups by :func:`gaps_of`."""
        kinds = tuple(k for k in (np.flatnonzero(silent < 0), np.flatnonzero(silent >= 0)) if k.size >= FEWEST_HIDDEN)
        kinds = kinds or (np.arange(silent.size),)
        alike = np.where(silent < 0, silent.max(initial=0) + 1 + np.arange(silent.size), silent) if gaps is None else gaps
        return cls(kinds, tuple(alike[k] for k in kinds), tuple(robust_scale(errors[k]) for k in kinds))

    def loss(self, errors: np.ndarray) -> float:
        """Mean squared error, in the squared scale of each kind."""
        pairs = zip(self.kinds, self.scales, strict=True)
        return float(np.mean([winsorized_squares(errors[k], s).mean() / max(s, 1e-150) ** 2 for k, s in pairs]))

    def gain(self, old: np.ndarray, new: np.ndarray) -> Gain:
        """Mean over the kinds.

        Better is a gain of more than a standard error: of the mean, or of one kind where the other loses less.
        """
        gains, errors = self._improvements(old, new)
        value, error = float(gains.mean()), float(np.linalg.norm(errors)) / errors.size
        return Gain(value, error, value > error or bool((gains > errors).any() and (gains > -errors).all()))

    def better_overall(self, old: np.ndarray, new: np.ndarray) -> bool:
        """Whether the gain is more than a standard error where each kind counts by its readings, as many as the record has."""
        gains, errors = self._improvements(old, new)
        shares = np.array([k.size for k in self.kinds]) / sum(k.size for k in self.kinds)
        return float(shares @ gains) > float(np.linalg.norm(shares * errors))

    def _improvements(self, old: np.ndarray, new: np.ndarray) -> np.ndarray:
        """Gains of the kinds, and their standard errors."""
        parts = zip(self.kinds, self.scales, self.groups, strict=True)
        return np.array([improvement(old[k], new[k], s, g) for k, s, g in parts]).T


def winsorized_squares(errors: np.ndarray, scale: float) -> np.ndarray:
    """Squared errors, cut where they are beyond :data:`WINSOR` times ``scale``."""
    return np.minimum(errors**2, (WINSOR * scale) ** 2)


def robust_scale(errors: np.ndarray) -> float:
    """Robust standard deviation of errors around zero."""
    return MAD_TO_STD * float(np.median(np.abs(errors))) if errors.size else 1.0


def improvement(old: np.ndarray, new: np.ndarray, scale: float, groups: np.ndarray | None = None) -> tuple[float, float]:
    """Fall of the mean squared error from old to new errors, and its standard error, both relative to the old.

    ``groups`` numbers groups of readings, within which errors may be alike.
    """
    before, after = winsorized_squares(old, scale), winsorized_squares(new, scale)
    gain = before - after
    level = max(float(before.mean()), 1e-300)
    apart = gain - gain.mean()
    sums = apart if groups is None else np.bincount(groups, weights=apart)
    return float(gain.mean()) / level, float(np.linalg.norm(sums)) / gain.size / level
