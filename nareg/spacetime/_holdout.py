"""Readings that are hidden from a fit, and the errors of their predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nareg.spacetime._outliers import MAD_TO_STD

#: Errors are cut at so many robust standard deviations: a broken sensor must not choose a model.
WINSOR = 5.0


def hide(y: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """(T, N) True for hidden readings: half of them single ones, half in runs as long as the file's own gaps.

    Where gaps are times at which no station reads, as many of the runs are of all stations at once.
    """
    observed = np.isfinite(y)
    hidden = np.zeros_like(observed)
    t, i = np.nonzero(observed)
    wanted = int(share * t.size)
    if wanted < 1:
        return hidden
    lengths = gap_lengths(observed)
    singles = wanted if lengths.size == 0 else wanted // 2
    chosen = rng.choice(t.size, singles, replace=False)
    hidden[t[chosen], i[chosen]] = True
    live = np.flatnonzero(observed.any(axis=0))
    budget, count = 20 * wanted, singles
    together = round((wanted - singles) * _simultaneous(observed, live))
    silent = gap_lengths(observed.any(axis=1)[:, None])
    for length in rng.choice(silent, together) if silent.size and together else ():
        if count >= singles + together:
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


def _simultaneous(observed: np.ndarray, live: np.ndarray) -> float:
    """Share of the missing readings at times between the first and the last at which no station reads."""
    reading = np.flatnonzero(observed.any(axis=1))
    within = observed[reading[0] : reading[-1] + 1, live]
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


def winsorized_squares(errors: np.ndarray, scale: float) -> np.ndarray:
    """Squared errors, cut where they are beyond :data:`WINSOR` times ``scale``."""
    result: np.ndarray = np.minimum(errors**2, (WINSOR * scale) ** 2)
    return result


def robust_scale(errors: np.ndarray) -> float:
    """Robust standard deviation of errors around zero."""
    return MAD_TO_STD * float(np.median(np.abs(errors))) if errors.size else 1.0


def improvement(old: np.ndarray, new: np.ndarray, scale: float) -> tuple[float, float]:
    """Fall of the mean squared error from old to new errors, and its standard error, both relative to the old."""
    before, after = winsorized_squares(old, scale), winsorized_squares(new, scale)
    gain = before - after
    level = max(float(before.mean()), 1e-300)
    return float(gain.mean()) / level, float(gain.std() / np.sqrt(gain.size)) / level
