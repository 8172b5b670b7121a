"""How long a descent will still take, judged by how fast its gradient shrinks."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import numpy as np

#: Relative projected gradient at which designs call a descent converged.
TARGET = 1e-4


class TimeLeft:
    """Estimates the seconds left from the last steps' gradient norms (a straight line through their logarithms)."""

    def __init__(self, *, memory: int = 20, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steps: deque[tuple[float, float]] = deque(maxlen=memory)

    def step(self, gradient: float) -> float | None:
        """Record a step; seconds left, or None while the gradient does not shrink."""
        self._steps.append((self._clock(), float(np.log(max(gradient, 1e-300)))))
        if len(self._steps) < 4:
            return None
        seconds, logs = np.array(self._steps).T
        spread = seconds - seconds.mean()
        if not spread.any():
            return None
        slope = float(spread @ logs / (spread @ spread))
        ahead = float(logs[-1] - np.log(TARGET))
        if ahead <= 0:
            return 0.0
        return None if slope >= 0 else -ahead / slope


def duration(seconds: float | None) -> str:
    """The time left as text: ``about 3 min left``."""
    if seconds is None:
        return "time left unknown"
    if seconds < 90:
        return f"about {max(seconds, 1):.0f} s left"
    return f"about {seconds / 60:.0f} min left" if seconds < 5400 else f"about {seconds / 3600:.0f} h left"
