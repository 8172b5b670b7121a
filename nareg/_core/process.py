"""What belongs to one process: locks, open files and generators, none of which a fork may use as its own."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any
from weakref import WeakSet

_forks = 0


def process() -> tuple[int, int]:
    """A mark of this process. No fork of it has the same, even one that the system gives the id of an ancestor."""
    return os.getpid(), _forks


class StateLock:
    """The lock of an object's state. A copy of the object has one of its own, and a forked process can take it.

    Attributes
    ----------
    mutex : RLock
        Held while the state is read or changed.
    changing : bool
        Whether its holder is in the middle of a change.
    torn : bool
        Whether this process was forked while another thread was in the middle of a change: that thread is not here to end it.
    """

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.changing = self.torn = False
        _locks.add(self)

    def after_fork(self) -> None:
        """In the forked process, whose only thread is the one that forked: release what other threads held."""
        if self.mutex.acquire(blocking=False):
            self.mutex.release()
            return
        self.torn = self.torn or self.changing
        self.mutex, self.changing = threading.RLock(), False

    def __reduce__(self) -> tuple[type[StateLock], tuple[()]]:
        return type(self), ()


_locks: WeakSet[StateLock] = WeakSet()
_files: WeakSet[Any] = WeakSet()


def only_here(handle: Any) -> Any:
    """An open file of this process alone; forks get the null device in its place.

    So they neither keep its lock when this process ends, nor write what is buffered a second time.
    """
    _files.add(handle)
    return handle


def _after_fork() -> None:
    global _forks
    _forks += 1
    for lock in list(_locks):
        lock.after_fork()
    open_files = [file for file in list(_files) if not file.closed]
    if open_files:
        null = os.open(os.devnull, os.O_RDWR)
        for file in open_files:
            with suppress(OSError, ValueError):  # closed meanwhile
                os.dup2(null, file.fileno(), inheritable=False)
        os.close(null)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
