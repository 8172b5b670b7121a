"""Station means and a seasonal cycle, removed and restored, alone or around any estimator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from nareg._core import checks
from nareg._core.arrays import since
from nareg.errors import InputError
from nareg.estimators._base import CheckedReadings, FieldEstimator, StationTransformer, times_of
from nareg.estimators._denoisers import NodeAdaptiveDenoiser
from nareg.spacetime import checked_cycles
from nareg.spacetime import cycles as _cycles

#: Periods that X must span, and steps per period, for a cycle of one harmonic; with two periods it has two.
FEWEST_PERIODS, FEWEST_STEPS = _cycles.FEWEST_PERIODS["year"], _cycles.FEWEST_STEPS


class SeasonalCycleRemover(StationTransformer):
    """X is (times, stations): subtract each station's mean and seasonal cycle; ``inverse_transform`` adds them back.

    Means and cycles are least squares over the readings of ``fit``. Times are the index of a pandas frame: dates (with a time
    zone: taken to UTC), ISO texts, or numbers. Rows of an array are 0, 1, 2, ...

    Parameters
    ----------
    cycles : "auto", None or sequence of {"day", "year"}
        Cycles to remove where times are dates. ``"auto"``: those that the readings can show (1.9 days or 0.9 years, six steps
        each). None: only the means.
    period : number, optional
        Where times are numbers: the length of the cycle, in their unit; in rows for an array. Default: only the means are
        removed.

    Attributes
    ----------
    names_ : tuple of str
        The cycles that are removed: "day", "year" or "period".
    harmonics_ : tuple of int
        Harmonics of each.
    coefficients_ : (K, N) array
        The mean, then cosine and sine of every harmonic. A station with fewer than 3 K readings takes the others' mean cycle,
        and one without any reading their mean, too.
    n_features_in_ : int
    feature_names_in_ : (N,) array
        Where X has names.

    Raises
    ------
    InputError
        A ``ValueError``: if times cannot show the cycle, or are of another kind than in ``fit``.

    Notes
    -----
    NaN stays NaN. In a pipeline ``transform`` returns what is left of X; its ``inverse_transform`` puts means and cycle back,
    and needs the dates: call ``set_output(transform="pandas")``. :class:`SeasonallyAdjusted` does both in one step, and scores
    in the unit of X: a pipeline's score would compare what is left of X with all of y.

    Examples
    --------
    >>> import numpy as np
    >>> from nareg.estimators import SeasonalCycleRemover
    >>> X = 10 + np.cos(2 * np.pi * np.arange(24) / 12)[:, None] * [1.0, 2.0]
    >>> remover = SeasonalCycleRemover(period=12)
    >>> rest = remover.fit_transform(X)
    >>> bool(np.abs(rest).max() < 1e-9), bool(np.allclose(remover.inverse_transform(rest), X))
    (True, True)
    """

    _least_stations = 1
    _least_times = 1

    def __init__(self, *, cycles: str | Iterable[str] | None = "auto", period: float | None = None) -> None:
        self.cycles, self.period = cycles, period

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        """Add means and cycle.

        Parameters
        ----------
        X : (times, stations) array or frame
            Times count as in ``transform``: an array has the rows 0, 1, 2, ...

        Returns
        -------
        (times, stations) array
        """
        values = self._same_stations(X)
        return (values + self._cycle_at(times_of(X), len(values))).astype(values.dtype, copy=False)

    def _learn(self, samples: CheckedReadings, y: Any) -> None:
        values = samples.values
        self.dated_ = samples.times is not None and samples.times.dtype.kind == "M"
        clock = self._clock(samples.times, len(values))
        self.names_, self.harmonics_, self.periods_ = self._choose(np.unique(clock))
        self.coefficients_ = _least_squares(self._basis(clock), values)

    def _estimate(self, values: np.ndarray, times: np.ndarray | None) -> np.ndarray:
        return values - self._cycle_at(times, len(values))

    def _cycle_at(self, times: np.ndarray | None, n_times: int) -> np.ndarray:
        if self.names_ and (times is not None and times.dtype.kind == "M") != self.dated_:
            kinds = ("dates", "numbers") if self.dated_ else ("numbers", "dates")
            raise InputError(f"X has {kinds[1]} as times but the fit had {kinds[0]}: pass a frame with such an index.")
        return self._basis(self._clock(times, n_times)) @ self.coefficients_

    def _clock(self, times: np.ndarray | None, n_times: int) -> np.ndarray:
        """Seconds since 1970, or the numbers."""
        if times is None:
            return np.arange(n_times, dtype=float)
        clock = since(times, np.datetime64(0, "s")) if times.dtype.kind == "M" else times
        if not np.isfinite(clock).all():
            i = int(np.flatnonzero(~np.isfinite(clock))[0])
            raise InputError(f"the index of X holds {times[i]} at row {i}: give every row a time.")
        return np.asarray(clock, dtype=float)

    def _choose(self, clock: np.ndarray) -> tuple[tuple[str, ...], tuple[int, ...], tuple[float, ...]]:
        """Names, harmonics and periods of the cycles, from increasing times."""
        if self.dated_:
            if self.period is not None:
                raise InputError(f"period is {self.period!r} but X has dates: pass cycles=('year',) or ('day',).")
            names, harmonics = _cycles.find(clock, _step(clock), True, checked_cycles(self.cycles))
            return names, harmonics, tuple(_cycles.PERIODS[name] for name in names)
        if self.cycles not in ("auto", None):
            raise InputError(f"cycles is {self.cycles!r} but the times of X are numbers: pass period=, or a frame with dates.")
        if self.period is None:
            return (), (), ()
        period = checks.number("period", self.period, low=0, strict=True)
        step = _step(clock)
        periods, steps = (clock[-1] - clock[0] + step) / period, period / step
        if periods < FEWEST_PERIODS or steps < FEWEST_STEPS:
            raise InputError(
                f"period is {period:g} but X spans {periods:.3g} of them with {steps:.3g} steps each: pass at least "
                f"{FEWEST_PERIODS:g} with {FEWEST_STEPS} steps each, or omit period."
            )
        two = periods >= _cycles.FEWEST_PERIODS["day"] and steps >= 8
        return ("period",), (2 if two else 1,), (period,)

    def _basis(self, clock: np.ndarray) -> np.ndarray:
        """The functions of time, (T, K)."""
        columns = [np.ones_like(clock)]
        for period, count in zip(self.periods_, self.harmonics_, strict=True):
            columns += _cycles.waves(clock, period, range(1, count + 1))
        return np.column_stack(columns)


def _step(clock: np.ndarray) -> float:
    """Usual distance of increasing times."""
    return float(np.median(np.diff(clock))) if clock.size > 1 else 1.0


def _least_squares(basis: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(K, N) coefficients of every station's readings (T, N), NaN where missing; the first function of time is one."""
    seen = np.isfinite(values)
    counts, K = seen.sum(axis=0), basis.shape[1]
    rich = counts >= _cycles.FEWEST_PER_WAVE * K
    coefficients = np.zeros((K, values.shape[1]))
    for i in np.flatnonzero(rich):
        coefficients[:, i] = np.linalg.lstsq(basis[seen[:, i]], values[seen[:, i], i])[0]
    if rich.any():
        coefficients[1:, ~rich] = coefficients[1:, rich].mean(axis=1, keepdims=True)
    rest = np.where(seen, values - basis[:, 1:] @ coefficients[1:], 0.0)
    few = ~rich & (counts > 0)
    coefficients[0, few] = rest[:, few].sum(axis=0) / counts[few]
    if counts.any():
        coefficients[0, counts == 0] = coefficients[0, counts > 0].mean()
    return coefficients


class SeasonallyAdjusted(FieldEstimator):
    """X is (times, stations): remove means and cycle, run an estimator on the rest, and add means and cycle back.

    As scikit-learn's ``TransformedTargetRegressor`` does for targets. ``score`` compares in the unit of X: y is the clean field
    as it is. A y of the shape of X in ``fit`` reaches the estimator without means and cycle, too.

    Parameters
    ----------
    estimator : transformer, optional
        Takes and returns (times, stations), as those of this module do. Default: ``NodeAdaptiveDenoiser()``.
    remover : transformer with inverse_transform, optional
        Default: ``SeasonalCycleRemover()``.
    random_state : int, Generator, RandomState or None
        Draws held-out readings in ``score``; None is a fixed seed.

    Attributes
    ----------
    estimator_, remover_ : estimators
        Fitted clones.
    n_features_in_ : int
    feature_names_in_ : (N,) array
        Where X has names.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg.estimators import EdgeDenoiser, SeasonalCycleRemover, SeasonallyAdjusted
    >>> rng = np.random.default_rng(0)
    >>> clean = 10 * np.sin(2 * np.pi * np.arange(120) / 24)[:, None] + np.arange(9.0) + rng.standard_normal((120, 1))
    >>> X = clean + rng.standard_normal((120, 9))
    >>> denoiser = SeasonallyAdjusted(EdgeDenoiser(nareg.graphs.grid((3, 3))), remover=SeasonalCycleRemover(period=24)).fit(X)
    >>> bool(denoiser.score(X, clean) > -0.3)  # the noise alone gives -1
    True
    """

    def __init__(self, estimator: Any = None, *, remover: Any = None, random_state: Any = None) -> None:
        self.estimator, self.remover, self.random_state = estimator, remover, random_state

    def _learn(self, samples: CheckedReadings, y: Any) -> None:
        remover = SeasonalCycleRemover() if self.remover is None else self.remover
        estimator = NodeAdaptiveDenoiser() if self.estimator is None else self.estimator
        self.remover_ = clone(remover).fit(self._table(samples.values, samples.times))
        given = np.asarray(y)
        clean = self._rest(given.astype(float), samples.times) if given.shape == samples.values.shape else None
        self.estimator_ = clone(estimator).fit(self._rest(samples.values, samples.times), clean)

    def _estimate(self, values: np.ndarray, times: np.ndarray | None) -> np.ndarray:
        x = np.asarray(self.estimator_.transform(self._rest(values, times)))
        return np.asarray(self.remover_.inverse_transform(self._table(x, times)))

    def _rest(self, values: np.ndarray, times: np.ndarray | None) -> Any:
        """Values without means and cycle."""
        return self._table(np.asarray(self.remover_.transform(self._table(values, times))), times)

    def _table(self, values: np.ndarray, times: np.ndarray | None) -> Any:
        """Values with the times and names of X, for estimators that read them."""
        names = getattr(self, "feature_names_in_", None)
        if times is None and names is None:
            return values
        import pandas as pd

        return pd.DataFrame(values, index=times, columns=names)
