"""Differences of dates as seconds, over any span: nanoseconds in 64 bits overflow after 292 years."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Units of NumPy's dates that are finer than a second.
FINER = ("ms", "us", "ns", "ps", "fs", "as")
SECOND = np.timedelta64(1, "s")


def since(times: np.ndarray, start: Any) -> np.ndarray:
    """Seconds from one date to others, float64; NaN for no date.

    Examples
    --------
    >>> import numpy as np
    >>> since(np.array(["2200-01-01"], dtype="datetime64[ns]"), np.datetime64("1700-01-01", "ns"))
    array([1.57784544e+10])
    """
    whole, rest = _parts(times)
    first, of_first = _parts(np.asarray(start))
    return np.asarray((whole - first) / SECOND + (rest - of_first), dtype=np.float64)


def _parts(times: np.ndarray) -> tuple[np.ndarray, Any]:
    """Whole seconds as dates, and what is left of each in seconds."""
    whole = times.astype("datetime64[s]")
    if np.datetime_data(times.dtype)[0] not in FINER:
        return whole, 0.0
    return whole, (times - whole.astype(times.dtype)) / SECOND
