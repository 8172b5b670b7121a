"""Where a search for the parameters begins: at what readings show of memory, swings, noise, and calm times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.fft import next_fast_len, rfft

from nareg._core.arrays import robust_std
from nareg.spacetime._dense.parametric import ETA_PRIOR, SMALLEST, STEEPEST, Parameters
from nareg.spacetime._readings.space import Space

#: Variance of third differences of white noise, and how many times as much noise as before is worth another search.
THIRDS, MUCH = 20.0, 2.0
#: Steps over which a time's activity is averaged, by what factor busy times have more of it than calm ones, and the least share
#: of the record that each are: fewer are events.
AROUND, BUSIER, BY_TURNS = 5, 5.0, 0.2
#: Second differences at so many steps that calm and busy times have at least.
FEWEST_CALM = 30
#: White noise has a covariance of second differences, two steps apart, of a sixth of their variance: in calm times it is
#: between these shares of that, in busy ones below the last.
WHITE, NOT_WHITE = (0.7, 1.5), 0.8
#: A wave that explains this share of the readings, in so many turns, is a swing; what is left of it after a turn in a search's
#: start.
SWING, TURNS, SWUNG = 0.3, 8, 0.8
#: Median of the square of a standard normal number.
MEDIAN_SQUARE = 0.4549
#: Squares beyond so many times their mean are not of a normal distribution, whose other squares have this share of its mean;
#: and rounds in which that mean is looked for.
CLIPPED, LEFT, CLIPPING = 6.6, 0.9231, 10
#: Memory that a search starts with, where readings a step apart have less than a share in common.
MEMORY, TELLS = 0.76, 0.05


def first_guess(windows: Sequence[np.ndarray], space: Space, family: str, noise: np.ndarray | None) -> Parameters:
    """Where the search starts, of the first order: by what readings one and two steps apart have in common."""
    y = np.concatenate(windows)
    level = max(float(np.nanvar(y)), SMALLEST)
    products = [np.concatenate([(w[k:] * w[:-k]).ravel() for w in windows if len(w) > k] or [np.zeros(0)]) for k in (1, 2)]
    lag_one, lag_two = (float(np.mean(part[known])) if (known := np.isfinite(part)).any() else 0.0 for part in products)
    # readings that alternate have a negative memory, which no step leads to from a positive one
    memory = float(np.clip(lag_two / lag_one, -0.99, 0.99)) if abs(lag_one) > TELLS * level else MEMORY
    memory = memory if abs(memory) > TELLS else MEMORY
    share = float(np.clip(1 - lag_one / memory / level, 0.02, 0.9))
    log_noise = np.full(space.n, np.log(share * level)) if noise is None else np.log(noise)
    variance, reach = float(np.log((1 - share) * level)), float(np.log(space.typical_range(family)))
    return Parameters(family, variance, reach, ETA_PRIOR[0], np.arctanh([memory]), log_noise)


def second_order(parameters: Parameters) -> Parameters:
    """A critically damped process of second order with the time scale of one of first order."""
    rho = 1 - min(2 * (1 - abs(float(np.tanh(parameters.partials[0])))), 0.9)
    partials = np.array([2 * rho / (1 + rho**2), -(rho**2)])
    limits = np.array(STEEPEST) - 0.1
    return replace(parameters, partials=np.clip(np.arctanh(partials), -limits, limits))


def with_shown_swing(parameters: Parameters, windows: Sequence[np.ndarray]) -> Parameters | None:
    """Of second order, with the swing that waves through the readings show; None where no wave explains much of them.

    The likelihood has a top for a swing and another for a smooth field, and no slope between them.
    """
    n = 2 * next_fast_len(max(map(len, windows)))  # a wave between two of these frequencies still shows
    angles = 2 * np.pi * np.arange(n // 2 + 1) / n
    explained, squares = np.zeros(angles.size), 0.0
    for w in windows:
        known = np.isfinite(w)
        power = np.abs(rfft(np.where(known, w, 0.0), n, axis=0)) ** 2
        explained += 2 * (power / np.maximum(known.sum(axis=0), 1)).sum(axis=1)
        squares += float(np.sum(w[known] ** 2))
    explained[-1] = 0.0  # a change of sign at every step is no turn
    explained[angles * min(map(len, windows)) < 2 * np.pi * TURNS] = 0.0
    k = int(np.argmax(explained))
    if explained[k] < SWING * squares:
        return None
    root = SWUNG ** (angles[k] / (2 * np.pi)) * np.exp(1j * angles[k])
    return parameters.with_coefficients(np.array([2 * root.real, -(abs(root) ** 2)]))


def shown_noise(windows: Sequence[np.ndarray]) -> np.ndarray:
    """(N,) noise variances of which third differences of the readings would be as large."""
    thirds = np.concatenate([np.diff(w, n=3, axis=0) for w in windows])
    return np.array([robust_std(column[np.isfinite(column)]) for column in thirds.T]) ** 2 / THIRDS


def with_shown_noise(parameters: Parameters, windows: Sequence[np.ndarray]) -> Parameters | None:
    """With the noise that third differences of the readings show; None where that is not much more.

    What a rough field explains may be noise of a smooth one, and the likelihood has a ridge between the two.
    """
    shown = np.log(np.maximum(shown_noise(windows), 1e-300))
    if float(np.median(shown - parameters.log_noise)) < np.log(MUCH):
        return None
    return replace(parameters, log_noise=np.maximum(parameters.log_noise, shown))


def calm_noise(y: np.ndarray) -> np.ndarray | None:
    """Noise variances (N,) that readings (T, N) show in calm times; None where these may not stand for the busy ones.

    To a model with steps of one size, the jumps of a field that rests and moves by turns are noise. In calm times noise is all
    that is left. It stands for the busy ones if these do not look like white noise around a slow field: then it is the field
    that is busy, and not the sensors.
    """
    second = np.diff(y, n=2, axis=0)
    live = np.flatnonzero(np.isfinite(second).sum(axis=0) >= FEWEST_CALM)
    busy = _busy(y[:, live]) if live.size else None
    if busy is None:
        return None
    noise = np.full(y.shape[1], np.nan)
    for times, (least, most) in ((~busy, WHITE), (busy, (-np.inf, NOT_WHITE))):
        starts = np.flatnonzero(np.convolve(times, np.ones(5), "valid") == 5)  # two second differences, two steps apart
        enough = np.isfinite(second[starts] * second[starts + 2]).sum(axis=0) >= FEWEST_CALM
        one, other = second[starts][:, enough], second[starts + 2][:, enough]
        variances = _clipped_mean(np.concatenate([one, other]) ** 2)
        if not variances.size or not variances.all():  # too few, or readings that stand still
            return None
        if times is not busy:
            noise[enough] = variances / 6
        # beyond three standard deviations a few jumps would outweigh all else
        limits = 3 * np.sqrt(variances)
        one, other = (np.clip(part, -limits, limits) / limits for part in (one, other))
        if not least < 6 * float(np.nanmean(one * other) / np.nanmean(one**2)) < most:
            return None
    return np.where(np.isnan(noise), np.nanmedian(noise), noise)


def _busy(y: np.ndarray) -> np.ndarray | None:
    """(T,) True at times of readings (T, N) around which steps are large, the network's mean; None if they are all alike."""
    squares = np.diff(y, axis=0, prepend=np.nan) ** 2
    typical = np.nanmedian(squares, axis=0)
    squares = squares[:, typical > 0] / typical[typical > 0]
    around = np.ones(AROUND)
    total, count = (
        np.convolve(rows, around, "same") for rows in (np.nansum(squares, axis=1), np.isfinite(squares).sum(axis=1))
    )
    if not (total > 0).any():
        return None
    activity = np.log(np.maximum(total, total[total > 0].min()) / np.maximum(count, 1))
    ordered = np.sort(activity[count > 0])
    below = np.arange(1, ordered.size)
    sums = ordered.cumsum()[:-1]
    # the cut for which the two means are farthest apart (Otsu)
    gaps = (ordered.sum() - sums) / (ordered.size - below) - sums / below
    cut = int(np.argmax(gaps**2 * below * (ordered.size - below)))
    turns = BY_TURNS < (cut + 1) / ordered.size < 1 - BY_TURNS
    return activity > ordered[cut] if turns and gaps[cut] > np.log(BUSIER) else None


def _clipped_mean(squares: np.ndarray) -> np.ndarray:
    """Mean squares (N,) of normal numbers (T, N), some of which are far larger."""
    result: np.ndarray = np.nanmedian(squares, axis=0) / MEDIAN_SQUARE
    for _ in range(CLIPPING):
        result = np.nanmean(np.where(squares <= CLIPPED * result, squares, np.nan), axis=0) / LEFT
    return result
