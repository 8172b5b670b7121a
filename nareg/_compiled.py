"""Compiled loops that share their rows among threads, and run small work in the calling thread."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

import numba

#: Array elements below which a loop stays in the calling thread. Threads would save it microseconds, and lose it
#: milliseconds wherever another process wants the cores: each call then waits for a thread that has none. (50 nodes,
#: 10 columns, two processes on two cores: 1.2 ms a call with threads, 12 microseconds without.)
SHARED = 2**16


def serial(function: Callable[..., Any]) -> Callable[..., Any]:
    """``numba.njit(cache=True)``."""
    compiled: Callable[..., Any] = numba.njit(cache=True)(function)
    return compiled


def parallel(
    function: Callable[..., Any], *, size: Callable[..., int] | None = None, fastmath: Collection[str] = ()
) -> Callable[..., Any]:
    """``numba.njit(parallel=True, cache=True)``, with threads only where there is much to do.

    ``size`` tells from the arguments how many array elements the loop goes through; without it, all that they have.
    ``fastmath`` are the liberties with floating point that LLVM may take.
    """
    compiled = numba.njit(parallel=True, cache=True, fastmath=set(fastmath))(function)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        threads = numba.get_num_threads()
        if threads == 1:
            return compiled(*arguments)
        much = size(*arguments) if size is not None else sum(getattr(a, "size", 0) for a in arguments)
        if much >= SHARED:
            return compiled(*arguments)
        numba.set_num_threads(1)
        try:
            return compiled(*arguments)
        finally:
            numba.set_num_threads(threads)

    return call
