"""Choices on held-out columns: whether a gain on them exceeds its standard error."""

from __future__ import annotations

import numpy as np


def standard_error(differences: np.ndarray) -> float:
    """Standard error of the sum of differences, one per held-out column; infinite for a single one."""
    n = differences.size
    return float(np.sqrt(n) * differences.std(ddof=1)) if n > 1 else float("inf")


def worthwhile(differences: np.ndarray, *, standard_errors: float = 1.0, scattered: np.ndarray | slice = slice(None)) -> bool:
    """Whether losses fell, summed over held-out columns, by more than so many standard errors of that sum.

    ``scattered`` selects the columns whose scatter counts: probes of the noise, the same ones for every candidate, do not.
    """
    return bool(differences.sum() > standard_errors * standard_error(differences[scattered]))
