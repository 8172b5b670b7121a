"""Arrays that rows are appended to."""

from __future__ import annotations

import numpy as np

#: Spare rows of a new array, as a share of its rows.
SPARE = 0.25


def extended(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The array with rows appended: in the spare rows behind it, or else in a copy with new spare rows.

    The array itself must not be used afterwards.
    """
    n_rows, total = len(array), len(array) + len(rows)
    whole = array.base
    if whole is None or len(whole) < total or whole.dtype != array.dtype or whole.shape[1:] != array.shape[1:]:
        whole = np.empty((total + int(SPARE * total) + 1, *array.shape[1:]), dtype=array.dtype)
        whole[:n_rows] = array
    whole[n_rows:total] = rows
    result: np.ndarray = whole[:total]
    return result
