"""Whose turn it is: one request at a time, and no look at a model in the middle of one."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from nareg.errors import BusyError

P = ParamSpec("P")
R = TypeVar("R")


class Turns:
    """The lock of a model. A copy of the model has a lock of its own.

    A request takes ``requests`` before it reads its arguments; where another has it, it is refused. It then waits for reads of
    other threads, which are short, and keeps ``lock`` until it is done; reads of other threads wait for that. Both are released
    whatever interrupts: nothing here runs between taking and ``try``.
    """

    def __init__(self) -> None:
        #: Empty, or what identifies the request that is under way.
        self.requests: dict[str, object] = {}
        self.lock = threading.RLock()
        #: Reads under way; whoever holds the lock sees those of its own thread alone.
        self.reads = 0
        #: Whether a request that holds the lock is under way.
        self.changing = False

    def refuse_changing(self, name: str) -> None:
        """Raise where whoever has the lock is in the middle of a request."""
        if self.changing:
            raise _busy(name)

    def __reduce__(self) -> tuple[type[Turns], tuple[()]]:
        return Turns, ()


def request(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method that changes the model: refused in the middle of another one."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> R:
        turns, this = self._turns, object()
        try:
            if turns.requests.setdefault("", this) is not this:  # atomic
                raise _busy(method.__name__)
            with turns.lock:
                if turns.reads:  # of this thread: a signal's handler, say
                    raise _busy(method.__name__)
                try:
                    turns.changing = True
                    return method(self, *arguments, **options)
                finally:
                    turns.changing = False
        finally:
            if "" in turns.requests and turns.requests[""] is this:
                del turns.requests[""]

    return call


def training(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method that makes a new model; the one at hand can be read until the method locks it, to replace it."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> R:
        turns, this = self._turns, object()
        try:
            if turns.requests.setdefault("", this) is not this:
                raise _busy(method.__name__)
            return method(self, *arguments, **options)
        finally:
            if "" in turns.requests and turns.requests[""] is this:
                del turns.requests[""]

    return call


def reading(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method that reads the model: it waits for a request of another thread."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> R:
        turns = self._turns
        with turns.lock:
            before = turns.reads
            try:
                turns.reads = before + 1
                return method(self, *arguments, **options)
            finally:
                turns.reads = before

    return call


def _busy(name: str) -> BusyError:
    return BusyError(f"{name} is asked of a model in the middle of another call: call it again when that has returned.")
