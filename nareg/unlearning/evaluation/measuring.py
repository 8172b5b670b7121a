"""Seconds and memory of a call."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

#: Linux: where a process reads its memory, and forgets its peak.
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class MeasuredCall(Generic[T]):
    """Result, seconds, and bytes by which the process grew at its peak; None where the system does not tell.

    Memory that the process had and did not use is not counted: ``peak_memory`` is a lower bound, and 0 if that was enough.
    """

    result: T
    seconds: float
    peak_memory: int | None


def measured_call(call: Callable[[], T]) -> MeasuredCall[T]:
    """Call a function and measure it.

    Memory is that of the whole process, of all threads and libraries. It is known on Linux only.

    Examples
    --------
    >>> import numpy as np
    >>> measured_call(lambda: int(np.ones(3).sum())).result
    3
    """
    before = _forget_peak()
    start = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - start
    peak = None if before is None else max(_bytes("VmHWM") - before, 0)
    return MeasuredCall(result, seconds, peak)


def _forget_peak() -> int | None:
    """Reset the peak of this process, and return its present memory."""
    try:
        CLEAR.write_text("5")
        return _bytes("VmRSS")
    except (OSError, KeyError):
        return None


def _bytes(name: str) -> int:
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines() if ":" in line)
    return 1024 * int(lines[name].split()[0])
