"""The lock of a model: one request at a time, and no read in the middle of one."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from nareg._core.process import StateLock
from nareg.errors import BusyError, SolverError

P = ParamSpec("P")
R = TypeVar("R")


class ModelLock(StateLock):
    """The lock of a model. A copy of the model has a lock of its own, and so has a forked process.

    A request enters ``requests`` before it reads its arguments, and is refused if another one is there. It waits for reads of
    other threads, which are short, and holds ``mutex`` until it is done. Reads of other threads wait for that. Both are
    released whatever interrupts: nothing runs between acquiring and ``try``.
    """

    def __init__(self) -> None:
        super().__init__()
        #: Empty, or the token of the request in progress: its thread.
        self.requests: dict[str, list[int]] = {}
        #: Reads in progress; the holder of the lock sees only those of its own thread.
        self.reads = 0

    def refuse_changing(self) -> None:
        """Raise if the holder of the lock wants to close in the middle of a request."""
        if self.changing:
            raise _busy("close")

    def refuse_torn(self) -> None:
        """Raise if the model may be half changed, because another thread was changing it when this process was forked."""
        if self.torn:
            raise SolverError(
                "this process was forked in the middle of a request of another thread: load the store here, or fit again."
            )

    def after_fork(self) -> None:
        """In the forked process: no thread but this one has requests or reads in progress."""
        before = self.mutex
        super().after_fork()
        if self.mutex is not before:
            self.reads = 0
        if self.requests.get("") != [threading.get_ident()]:
            self.requests = {}


def request(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method that changes the model: refused in the middle of another."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> R:
        lock, token = self._lock, [threading.get_ident()]
        try:
            if lock.requests.setdefault("", token) is not token:  # atomic
                raise _busy(method.__name__)
            with lock.mutex:
                if lock.reads:  # of token thread: a signal's handler, say
                    raise _busy(method.__name__)
                lock.refuse_torn()
                self._before_request()
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
        lock, token = self._lock, [threading.get_ident()]
        try:
            if lock.requests.setdefault("", token) is not token:
                raise _busy(method.__name__)
            result = method(self, *arguments, **options)
            lock.torn = False
            return result
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
            lock.refuse_torn()
            before = lock.reads
            try:
                lock.reads = before + 1
                return method(self, *arguments, **options)
            finally:
                lock.reads = before

    return call


def _busy(name: str) -> BusyError:
    return BusyError(f"{name} was called in the middle of another call on this model: call it again when that has returned.")
