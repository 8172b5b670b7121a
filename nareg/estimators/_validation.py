"""Errors at readings that are hidden from an estimator, at random ones and of whole stations; and blocks of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator

from nareg._core import checks
from nareg.errors import InputError

#: Groups of stations, one of which is hidden at every time.
GROUPS = 5


def generator_of(random_state: Any) -> np.random.Generator:
    """A generator from what scikit-learn takes as ``random_state``; None is a fixed seed, so that results repeat."""
    if random_state is None:
        return np.random.default_rng(0)
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    return np.random.default_rng(checks.integer("random_state", random_state, low=0))


def station_groups(n_stations: int, n_groups: int, rng: np.random.Generator) -> np.ndarray:
    """The group of every station, (N,), drawn at random; groups differ in size by at most one."""
    return rng.permutation(np.arange(n_stations) % n_groups)


def hidden_readings(seen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(T, N) True for readings to hide: at every time those of one of five groups of stations, drawn at random.

    So few patterns of gaps cost few factorizations.
    """
    n_times, n = seen.shape
    groups = min(GROUPS, n)
    station, time = station_groups(n, groups, rng), rng.integers(groups, size=n_times)
    hidden: np.ndarray = seen & (station == time[:, None])
    if not hidden.any():  # a few gappy rows: hide the first reading
        hidden.flat[np.flatnonzero(seen)[:1]] = True
    return hidden


def negative_error(estimate: np.ndarray, truth: np.ndarray, where: np.ndarray) -> float:
    """Negative mean squared error at some cells."""
    if not where.any():
        raise InputError("X (or y) has no finite value to compare with: pass times at which some station reads.")
    return -float(np.mean((estimate - truth)[where] ** 2))


def clean_field(y: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The clean field that a score compares with, of the shape of X."""
    truth = checks.floats("y", np.asarray(y), ndim=(1, 2), finite=False).astype(np.float64)
    if truth.shape != shape:
        raise InputError(
            f"y has shape {truth.shape} but X has {shape}: pass the clean field at all times and stations, or None."
        )
    return truth


def score_of(estimated: Callable[[np.ndarray], np.ndarray], values: np.ndarray, y: Any, rng: np.random.Generator) -> float:
    """Negative mean squared error of an estimate: against a clean field, or at readings that it did not see."""
    if y is not None:
        truth = clean_field(y, values.shape)
        return negative_error(estimated(values), truth, np.isfinite(truth))
    hidden = hidden_readings(np.isfinite(values), rng)
    return negative_error(estimated(np.where(hidden, np.nan, values)), values, hidden)


class HeldOutStations:
    """Scorer, X is (times, stations): the negative mean squared error at stations whose readings are hidden.

    Pass it as ``scoring=`` to :class:`sklearn.model_selection.GridSearchCV` or ``cross_val_score``. Each of ``n_splits`` groups
    of stations is hidden in turn: all its readings in X become NaN, the fitted estimator transforms X, and its estimate there
    is compared with y, or with the hidden readings where y is None. The estimator was fitted with these stations: the score
    tells how well it stands in for stations that fall silent.

    Parameters
    ----------
    n_splits : int
        Groups of stations.
    random_state : int, Generator, RandomState or None
        Draws the groups; None is a fixed seed.

    Notes
    -----
    A splitter yields rows, and so cannot hide a column. Where the rows of a table are stations, scikit-learn's ``KFold`` with
    ``shuffle=True`` splits by stations; where they are single readings, its ``GroupKFold`` does.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from sklearn.model_selection import GridSearchCV
    >>> from nareg.estimators import GraphInterpolator, HeldOutStations
    >>> rng = np.random.default_rng(0)
    >>> X = np.cumsum(rng.standard_normal((60, 9)), axis=1) + 0.1 * rng.standard_normal((60, 9))
    >>> search = GridSearchCV(GraphInterpolator(nareg.graphs.grid((9,))), {"weights": [0.1, 1.0]}, scoring=HeldOutStations(3))
    >>> sorted(search.fit(X).best_params_)
    ['weights']
    """

    def __init__(self, n_splits: int = 5, *, random_state: Any = None) -> None:
        self.n_splits, self.random_state = n_splits, random_state

    def __call__(self, estimator: Any, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """The score of a fitted estimator on X; y is the clean field, if it is known."""
        values = checks.floats("X", np.asarray(X), ndim=(2,), finite=False).astype(np.float64)
        truth = values if y is None else clean_field(y, values.shape)
        n_splits = checks.integer("n_splits", self.n_splits, low=2)
        if n_splits > values.shape[1]:
            raise InputError(f"n_splits is {n_splits} but X has {values.shape[1]} stations: pass at most that many.")
        group = station_groups(values.shape[1], n_splits, generator_of(self.random_state))
        estimates = np.empty_like(values)
        for k in range(n_splits):
            estimates[:, group == k] = np.asarray(estimator.transform(_without(X, group == k)))[:, group == k]
        return negative_error(estimates, truth, np.isfinite(truth))

    def __repr__(self) -> str:
        return f"HeldOutStations(n_splits={self.n_splits}, random_state={self.random_state!r})"


def _without(X: Any, stations: np.ndarray) -> Any:
    """X, an array or a frame as before, with NaN in the columns of some stations."""
    if hasattr(X, "iloc"):
        hidden = X.astype(float)
        hidden.iloc[:, np.flatnonzero(stations)] = np.nan
        return hidden
    values = np.array(X, dtype=float)
    values[:, stations] = np.nan
    return values


class TimeBlockSplit(BaseCrossValidator):
    """X is (times, stations), rows in the order of time: each block of consecutive rows is the test set once.

    Readings that follow each other resemble each other. A gap keeps the rows beside the test block out of training, before it
    and after it. Training sets hold the past and the future of their test block; where only the past may be used, take
    :class:`sklearn.model_selection.TimeSeriesSplit`.

    Parameters
    ----------
    n_splits : int
        Blocks, of equal length within one row.
    gap : int
        Rows left out on each side of the test block.

    Raises
    ------
    InputError
        A ``ValueError``: with more blocks than rows, or a gap that leaves nothing to train with.

    Examples
    --------
    >>> import numpy as np
    >>> from nareg.estimators import TimeBlockSplit
    >>> for train, test in TimeBlockSplit(3, gap=1).split(np.zeros((9, 2))):
    ...     print(train, test)
    [4 5 6 7 8] [0 1 2]
    [0 1 7 8] [3 4 5]
    [0 1 2 3 4] [6 7 8]
    """

    def __init__(self, n_splits: int = 5, *, gap: int = 0) -> None:
        self.n_splits, self.gap = n_splits, gap

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of blocks.

        Parameters
        ----------
        X, y, groups : ignored

        Returns
        -------
        int
        """
        return checks.integer("n_splits", self.n_splits, low=2)

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows to train with and the rows of the test block.

        Parameters
        ----------
        X : (times, stations) array or frame
        y, groups : ignored

        Yields
        ------
        train, test : arrays of int
        """
        n_splits, gap = self.get_n_splits(), checks.integer("gap", self.gap, low=0)
        rows = np.arange(np.shape(X)[0])
        if n_splits > rows.size:
            raise InputError(f"n_splits is {n_splits} but X has {rows.size} rows: pass at most that many blocks.")
        for test in np.array_split(rows, n_splits):
            train = rows[(rows < test[0] - gap) | (rows > test[-1] + gap)]
            if train.size == 0:
                raise InputError(f"gap is {gap}, which leaves none of {rows.size} rows to train with: pass a smaller gap.")
            yield train, test
