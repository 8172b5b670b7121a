"""Compiled loops that share their rows among threads, and run small work in the calling thread.

Numba's threads are those of one library per process, and not each survives all that a program does. GNU OpenMP ends a process
that was forked from one that had used it: there the loops run in the calling thread. Numba's own "workqueue", which it takes
where OpenMP and TBB are absent, ends a process in which two threads start a loop at once: there they take turns.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import types
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import numba
from numba.core import event

#: Array elements below which a loop, of a millisecond or less, stays in the calling thread. Threads would save part of that,
#: but cost several where another process uses the cores: each call waits for a thread without a core. (``exact`` for 1,500
#: nodes with two processes beside it on two cores: 13.4 s with a limit of 2^16, 2.8 s with this one.)
SHARED = 2**20
#: Only loops over ``prange`` have threads: an array expression inside one would be compiled for them, too.
PRANGE = dict.fromkeys(("comprehension", "reduction", "inplace_binop", "setitem", "numpy", "stencil", "fusion"), False) | {
    "prange": True
}


class _Layer:
    """What is known of Numba's threads in this process."""

    #: Whether they were started before this process was forked.
    forked = False
    #: Whether several threads may use them at once; None before the first loop has run.
    safe: bool | None = None
    lock = threading.RLock()

    @classmethod
    def name(cls) -> str | None:
        """Their library; None before they were started, by whatever loop."""
        with suppress(ValueError):
            return str(numba.threading_layer())
        return None

    @classmethod
    def after_fork(cls) -> None:
        """In the child, which may have been forked while a thread held the lock."""
        cls.lock = threading.RLock()
        cls.forked = cls.forked or cls.name() not in (None, "tbb")

    @classmethod
    def run(cls, compiled: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Call a loop that uses the threads, one at a time where that is not known to be unnecessary."""
        if cls.safe:
            return compiled(*arguments)
        with cls.lock:
            result = compiled(*arguments)
            if cls.safe is None:
                cls.safe = cls.name() in ("omp", "tbb")
        return result


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Layer.after_fork)


class _Notice(event.Listener):  # type: ignore[misc]
    """Logs once per process that loops are compiled, which a first call in an environment waits for."""

    said = False

    def on_start(self, event: Any) -> None:
        if not self.said and event.data["dispatcher"].py_func.__module__.startswith("nareg."):
            self.said = True
            logging.getLogger("nareg").info("Loops are compiled, once for this environment: this may take half a minute.")

    def on_end(self, event: Any) -> None:
        """Nothing: Numba asks for it."""


event.register("numba:compile", _Notice())


def _jit(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """``numba.njit`` without an entry from C, and with Numba's cache wherever there is a folder for it."""
    options = {"no_cfunc_wrapper": True, **options}
    try:
        compiled: Callable[..., Any] = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither beside the code nor in the user's home
        _note_without_cache()
        compiled = numba.njit(**options)(function)
    return compiled


@functools.cache
def _note_without_cache() -> None:
    logging.getLogger("nareg").warning(
        "Compiled loops cannot be kept, so that each start compiles them again: set NUMBA_CACHE_DIR to a folder that can be "
        "written."
    )


def serial(
    function: Callable[..., Any] | None = None, *, fastmath: Collection[str] = (), nogil: bool = False
) -> Callable[..., Any]:
    """``numba.njit(cache=True)``; ``fastmath`` lists the floating-point transformations that LLVM may apply.

    Several threads can be in a loop at once if it is ``nogil``.
    """
    if function is None:
        return functools.partial(serial, fastmath=fastmath, nogil=nogil)
    return _jit(function, fastmath=set(fastmath), nogil=nogil)


def inner(
    function: Callable[..., Any] | None = None, *, fastmath: Collection[str] = (), once: bool = False
) -> Callable[..., Any]:
    """A :func:`serial` loop that only others call: without an entry from Python, which takes a while to compile.

    One that each of them calls at one place, ``once``, is compiled as a part of them, instead of alone and then again there.
    """
    if function is None:
        return functools.partial(inner, fastmath=fastmath, once=once)
    return _jit(function, fastmath=set(fastmath), no_cpython_wrapper=True, inline="always" if once else "never")


def parallel(
    function: Callable[..., Any], *, size: Callable[..., int] | None = None, fastmath: Collection[str] = ()
) -> Callable[..., Any]:
    """``numba.njit(parallel=True, cache=True)``, with threads only for large arguments.

    ``size`` computes from the arguments how many array elements the loop visits; by default all of theirs. ``fastmath``
    lists the floating-point transformations that LLVM may apply.
    """
    compiled: Any = _jit(function, parallel=PRANGE, fastmath=set(fastmath))

    @functools.cache
    def in_this_thread() -> Callable[..., Any]:
        # Numba's cache tells functions apart by their names, not by whether they are parallel
        name = f"{function.__name__}_serial"
        copied = types.FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
        copied.__qualname__, copied.__module__ = f"{function.__qualname__}_serial", function.__module__
        alone: Callable[..., Any] = serial(copied, fastmath=fastmath)
        return alone

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        elements = size(*arguments) if size is not None else sum(getattr(a, "size", 0) for a in arguments)
        # a loop with threads takes three times as long to compile, but once it is there, it serves all
        if _Layer.forked or (elements < SHARED and not compiled.signatures):
            return in_this_thread()(*arguments)
        threads = numba.get_num_threads()
        if threads == 1 or elements >= SHARED:
            return _Layer.run(compiled, arguments)
        numba.set_num_threads(1)
        try:
            return _Layer.run(compiled, arguments)
        finally:
            numba.set_num_threads(threads)

    return call


def summed(loop: Callable[..., Any]) -> Callable[..., Any]:
    """A loop that returns partial sums: these are added in their order, by NumPy, whose sums Numba takes seconds to compile."""

    @functools.wraps(loop)
    def call(*arguments: Any) -> Any:
        return loop(*arguments).sum(axis=0)

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
