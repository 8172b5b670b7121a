"""Blocks of time: every row is tested once, and nothing near it is trained with."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold, cross_val_score

from nareg.errors import InputError
from nareg.estimators import GraphInterpolator, TimeBlockSplit


@given(n=st.integers(2, 200), n_splits=st.integers(2, 12), gap=st.integers(0, 5))
def test_blocks_cover_all_rows_and_keep_their_distance(n, n_splits, gap):
    splitter = TimeBlockSplit(n_splits, gap=gap)
    if n < n_splits:
        with pytest.raises(InputError, match="pass at most that many blocks"):
            list(splitter.split(np.zeros((n, 1))))
        return
    sizes = [len(block) for block in np.array_split(np.arange(n), n_splits)]
    # what is left beside the first, the last, and an inner block
    left = [max(sum(sizes[:k]) - gap, 0) + max(sum(sizes[k + 1 :]) - gap, 0) for k in range(n_splits)]
    if min(left) == 0:
        with pytest.raises(InputError, match="which leaves none"):
            list(splitter.split(np.zeros((n, 1))))
        return
    folds = list(splitter.split(np.zeros((n, 1))))
    assert len(folds) == splitter.get_n_splits() == n_splits
    np.testing.assert_array_equal(np.concatenate([test for _, test in folds]), np.arange(n))
    for train, test in folds:
        np.testing.assert_array_equal(np.diff(test), 1)
        assert np.abs(train[:, None] - test).min() == gap + 1
        near = (np.arange(n) >= test[0] - gap) & (np.arange(n) <= test[-1] + gap)
        assert train.size == n - near.sum()


def test_without_a_gap_it_is_an_unshuffled_kfold(rng):
    X = rng.standard_normal((23, 2))
    for mine, theirs in zip(TimeBlockSplit(4).split(X), KFold(4).split(X), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


def test_it_is_a_cv_of_scikit_learn(grid, waves):
    frame = pd.DataFrame(waves)
    scores = cross_val_score(GraphInterpolator(grid), frame, cv=TimeBlockSplit(4, gap=2))
    assert scores.shape == (4,)
    assert np.isfinite(scores).all()
    assert repr(TimeBlockSplit(4, gap=2)) == "TimeBlockSplit(gap=2, n_splits=4)"


@pytest.mark.parametrize(("n_splits", "gap"), [(1, 0), (2.5, 0), (3, -1)])
def test_numbers_that_cannot_work_are_refused(n_splits, gap):
    with pytest.raises(InputError, match="an integer of at least"):
        list(TimeBlockSplit(n_splits, gap=gap).split(np.zeros((10, 1))))
