"""Add sensor faults to readings, to test a quality control."""

from __future__ import annotations

import numpy as np

from nareg._core import checks
from nareg._core.arrays import MAD_TO_STD
from nareg.errors import InputError
from nareg.typing import ArrayLike

#: Kinds of faults that :func:`inject` knows.
KINDS = ("spikes", "stuck", "drift", "swapped", "unit")


def inject(
    readings: ArrayLike,
    kind: str,
    stations: ArrayLike,
    *,
    rng: np.random.Generator,
    step_hours: float = 1.0,
    sigma: ArrayLike | None = None,
    size: float | None = None,
    share: float = 0.01,
    duration_hours: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Put a fault into the readings of some stations.

    Parameters
    ----------
    readings : (N, T) array
        NaN where missing.
    kind : {"spikes", "stuck", "drift", "swapped", "unit"}
        ``"spikes"``: a share of the readings is off by ``size`` (5) times sigma, up or down.
        ``"stuck"``: a reading is repeated for ``duration_hours`` (12).
        ``"drift"``: an error grows from a random time of the first half on by ``size`` (3) times sigma per week.
        ``"swapped"``: two stations exchange their readings from a random time of the first half on.
        ``"unit"``: readings are in degrees Fahrenheit from a random time of the first half on.
    stations : int or sequence of int
        Stations whose readings change; for ``"swapped"`` an even number, exchanged in pairs.
    rng : numpy.random.Generator
    step_hours : float
        Time between two readings.
    sigma : number or (N,) array, optional
        Scale of spikes and drift. Default: per station that of the change from one reading to the next, 1.05 times the
        median absolute step (the standard deviation of white noise with such steps).
    size : float, optional
        Spikes: multiple of sigma. Drift: multiple of sigma per week.
    share : float
        Share of the readings that spike.
    duration_hours : float, optional
        How long a sensor is stuck (12) or how long drift, exchange and wrong unit last (to the end).

    Returns
    -------
    changed : (N, T) float64 array
    bad : (N, T) bool array
        Readings that the fault changed.

    Examples
    --------
    >>> import numpy as np
    >>> from nareg.datasets import inject
    >>> changed, bad = inject(np.zeros((2, 5)), "unit", 1, rng=np.random.default_rng(0), duration_hours=2)
    >>> changed[1][bad[1]]
    array([32., 32.])
    """
    clean = checks.floats("readings", readings, ndim=(2,), finite=False).astype(np.float64)
    kind = checks.choice("kind", kind, KINDS)
    rng = checks.generator(rng)
    step = checks.number("step_hours", step_hours, low=0, strict=True)
    rows = _stations(stations, clean.shape[0], kind)
    present = np.isfinite(clean)
    silent = [i for i in rows.tolist() if present[i].sum() < 3]
    if silent:
        raise InputError(f"stations contains {silent[0]}, which has fewer than 3 readings: choose stations with readings.")
    changed = clean.copy()
    if kind == "spikes":
        scale, times = _sigma(sigma, clean), checks.number("size", 5.0 if size is None else size, low=0)
        part = checks.number("share", share, low=0, high=1)
        for i in rows.tolist():
            where = np.flatnonzero(present[i])
            hit = rng.choice(where, max(1, round(part * where.size)), replace=False)
            changed[i, hit] += rng.choice([-1.0, 1.0], hit.size) * times * scale[i]
    elif kind == "stuck":
        length = _steps(12.0 if duration_hours is None else duration_hours, step)
        for i in rows.tolist():
            where = np.flatnonzero(present[i])
            first = int(rng.choice(where[: max(1, where.size - length)]))
            changed[i, first : first + length + 1] = clean[i, first]
    else:
        weekly = checks.number("size", 3.0 if size is None else size, low=0)
        scale = _sigma(sigma, clean) if kind == "drift" else np.zeros(clean.shape[0])
        groups = rows.reshape(-1, 2) if kind == "swapped" else rows.reshape(-1, 1)
        for group in groups:
            first = int(rng.integers(0, max(1, clean.shape[1] // 2)))
            last = clean.shape[1] if duration_hours is None else first + _steps(duration_hours, step)
            span = slice(first, min(last, clean.shape[1]))
            i = int(group[0])
            if kind == "drift":
                weeks = np.arange(span.stop - span.start) * step / (24 * 7)
                changed[i, span] += rng.choice([-1.0, 1.0]) * weekly * scale[i] * weeks
            elif kind == "unit":
                changed[i, span] = 1.8 * clean[i, span] + 32
            else:
                changed[group, span] = clean[group[::-1], span]
    if kind != "swapped":
        changed[~present] = np.nan
    both = np.isfinite(changed)
    return changed, both & (changed != clean)


def _stations(stations: ArrayLike, n: int, kind: str) -> np.ndarray:
    rows = np.atleast_1d(checks.array_of("stations", stations))
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or rows.size == 0:
        raise InputError(f"stations is {stations!r}, an index or a sequence of indices is expected.")
    if rows.min() < 0 or rows.max() >= n:
        bad = rows.max() if rows.max() >= n else rows.min()
        raise InputError(f"stations contains {bad}, but readings has rows 0 to {n - 1}.")
    if np.unique(rows).size != rows.size:
        raise InputError("stations lists a station twice: name each once.")
    if kind == "swapped" and rows.size % 2:
        raise InputError(f"stations has {rows.size} entries: pass an even number, because stations are swapped in pairs.")
    return rows


def _sigma(sigma: ArrayLike | None, readings: np.ndarray) -> np.ndarray:
    if sigma is not None:
        return checks.nonnegative_vector("sigma", sigma, readings.shape[0], why="a standard deviation is at least 0")
    return noise_scale(readings)


def noise_scale(readings: np.ndarray) -> np.ndarray:
    """Scale per station of the change from one reading to the next, (N,).

    This is the standard deviation of white noise with the readings' median absolute step. Stations whose steps are mostly zero
    or missing get the network's median.
    """
    steps = np.abs(np.diff(readings, axis=1))
    medians = np.array([np.median(row[np.isfinite(row)]) if np.isfinite(row).any() else 0.0 for row in steps])
    scale = MAD_TO_STD * medians / np.sqrt(2.0)
    usable = scale > 0
    return np.where(usable, scale, np.median(scale[usable]) if usable.any() else 1.0)


def _steps(hours: float, step: float) -> int:
    """Steps that last this long; two at least, for a single repeated reading is no fault."""
    return max(2, round(checks.number("duration_hours", hours, low=0, strict=True) / step))
