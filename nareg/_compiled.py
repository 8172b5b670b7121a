"""Compiled loops that share their rows among threads, and run small work in the calling thread."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

import numba

#: Array elements below which a loop, of a millisecond or less, stays in the calling thread. Threads would save part of that,
#: but cost several where another process uses the cores: each call waits for a thread without a core. (``exact`` for 1,500
#: nodes with two processes beside it on two cores: 13.4 s with a limit of 2^16, 2.8 s with this one.)
SHARED = 2**20


def serial(function: Callable[..., Any]) -> Callable[..., Any]:
    """``numba.njit(cache=True)``."""
    compiled: Callable[..., Any] = numba.njit(cache=True)(function)
    return compiled


def parallel(
    function: Callable[..., Any], *, size: Callable[..., int] | None = None, fastmath: Collection[str] = ()
) -> Callable[..., Any]:
    """``numba.njit(parallel=True, cache=True)``, with threads only for large arguments.

    ``size`` computes from the arguments how many array elements the loop visits; by default all of theirs. ``fastmath``
    lists the floating-point transformations that LLVM may apply.
    """
    compiled = numba.njit(parallel=True, cache=True, fastmath=set(fastmath))(function)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        threads = numba.get_num_threads()
        if threads == 1:
            return compiled(*arguments)
        elements = size(*arguments) if size is not None else sum(getattr(a, "size", 0) for a in arguments)
        if elements >= SHARED:
            return compiled(*arguments)
        numba.set_num_threads(1)
        try:
            return compiled(*arguments)
        finally:
            numba.set_num_threads(threads)

    return call


def by_width(make: Callable[[int], Callable[..., Any]], *, constant: Collection[int] = (1, 4)) -> Callable[..., Any]:
    """A :func:`parallel` loop over the columns of its first matrix, whose number the compiler knows where it is one of these.

    ``make(width)`` is the loop for so many columns, ``make(0)`` for any number. A constant width keeps a row in registers:
    the product of a grid with one column takes 4 nanoseconds per row instead of 41.
    """

    @functools.cache
    def compiled(width: int) -> Callable[..., Any]:
        function = make(width)
        # numba finds what a loop needs by its name: loops from several processes' caches must not share one
        function.__name__ = function.__qualname__ = f"{function.__name__}_{width or 'any'}"
        return parallel(function)

    @functools.wraps(make(0))
    def call(*arguments: Any) -> Any:
        width = next(a.shape[1] for a in arguments if getattr(a, "ndim", 0) == 2)
        return compiled(width if width in constant else 0)(*arguments)

    return call
