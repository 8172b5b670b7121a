"""Cross-validation by blocks of time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator

from nareg._core import checks
from nareg.errors import InputError


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
