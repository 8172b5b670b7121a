"""Numbers and times in sentences of evidence."""

from __future__ import annotations

import numpy as np


def number(value: float) -> str:
    """Three digits, without an exponent where that is short; ``-0`` is ``0``."""
    text = f"{value:.3g}"
    if "e" in text and 1e-4 <= abs(value) < 1e6:
        text = f"{value:.0f}"
    return text if float(text) else "0"


def time(value: np.datetime64 | float) -> str:
    """A date to the minute, or a number."""
    if isinstance(value, np.datetime64):
        minutes = np.datetime_as_string(value, unit="m").replace("T", " ")
        return minutes.removesuffix(" 00:00")
    return number(float(value)) if float(value) % 1 else f"{float(value):.0f}"


def span(start: np.datetime64 | float, stop: np.datetime64 | float) -> str:
    """``from A to B``, or ``at A``."""
    first, last = time(start), time(stop)
    return f"at {first}" if first == last else f"from {first} to {last}"


def count(value: int, noun: str) -> str:
    """``1 reading``, ``1,234 readings``."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def duration(seconds: float) -> str:
    """``6 h``, ``90 min``, ``1 day``, in the largest unit of which it is a whole number."""
    for unit, size in (("day", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f} {unit}"
    return f"{number(seconds)} s"
