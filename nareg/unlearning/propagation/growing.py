"""Arrays that rows are appended to."""

from __future__ import annotations

import numpy as np

#: Spare rows that a new array gets, as a share of those it holds.
SPARE = 0.25


def extended(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The array with rows behind its own: in the spare room of what it is a view of, or else copied to where there is some.

    The array itself must not be used any more.
    """
    held, wanted = len(array), len(array) + len(rows)
    whole = array.base
    if whole is None or len(whole) < wanted or whole.dtype != array.dtype or whole.shape[1:] != array.shape[1:]:
        whole = np.empty((wanted + int(SPARE * wanted) + 1, *array.shape[1:]), dtype=array.dtype)
        whole[:held] = array
    whole[held:wanted] = rows
    found: np.ndarray = whole[:wanted]
    return found
