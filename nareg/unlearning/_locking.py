"""The lock of a model: one request at a time, and no read in the middle of one."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from nareg.errors import BusyError

P = ParamSpec("P")
R = TypeVar("R")


class ModelLock:
    """The lock of a model. A copy of the model has a lock of its own.

    A request enters ``requests`` before it reads its arguments, and is refused if another one is there. It waits for reads of
    other threads, which are short, and holds ``mutex`` until it is done. Reads of other threads wait for that. Both are
    released whatever interrupts: nothing runs between acquiring and ``try``.
    """

    def __init__(self) -> None:
        #: Empty, or the token of the request in progress.
        self.requests: dict[str, object] = {}
        self.mutex = threading.RLock()
        #: Reads in progress; the holder of the lock sees only those of its own thread.
        self.reads = 0
        #: Whether a request that holds the lock is in progress.
        self.changing = False

    def refuse_changing(self, name: str) -> None:
        """Raise if the holder of the lock is in the middle of a request."""
        if self.changing:
            raise _busy(name)

    def __reduce__(self) -> tuple[type[ModelLock], tuple[()]]:
        return ModelLock, ()


def request(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method that changes the model: refused in the middle of another."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> R:
        lock, token = self._lock, object()
        try:
            if lock.requests.setdefault("", token) is not token:  # atomic
                raise _busy(method.__name__)
            with lock.mutex:
                if lock.reads:  # of token thread: a signal's handler, say
                    raise _busy(method.__name__)
                try:
                    lock.changing = True
                    return method(self, *arguments, **options)
                finally:
                    lock.changing = False
        finally:
            if "" in lock.requests and lock.requests[""] is token:
                del lock.requests[""]

    return call


def training(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method that trains a new model; the present one can be read until the method locks it to replace it."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> R:
        lock, token = self._lock, object()
        try:
            if lock.requests.setdefault("", token) is not token:
                raise _busy(method.__name__)
            return method(self, *arguments, **options)
        finally:
            if "" in lock.requests and lock.requests[""] is token:
                del lock.requests[""]

    return call


def reading(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method that reads the model: it waits for a request of another thread."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> R:
        lock = self._lock
        with lock.mutex:
            before = lock.reads
            try:
                lock.reads = before + 1
                return method(self, *arguments, **options)
            finally:
                lock.reads = before

    return call


def _busy(name: str) -> BusyError:
    return BusyError(f"{name} was called in the middle of another call on this model: call it again when that has returned.")
