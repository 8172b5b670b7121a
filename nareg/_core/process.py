"""What belongs to one process: locks, open files and generators, none of which a fork may use as its own."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import numpy as np

try:
    import fcntl as fcntl
except ModuleNotFoundError:  # a system without locks: drafts of files stay
    fcntl = None  # type: ignore[assignment]

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


class Noise:
    """The generator of a model.

    Two versions of a model that share a noise term reveal, together, what was removed between them. So a copy of the model,
    deep or pickled, and a forked process go on with a generator that the operating system seeds. Only the original in its own
    process keeps the one that the user passed.

    Parameters
    ----------
    rng : numpy.random.Generator, optional
        By default the operating system seeds one.
    """

    def __init__(self, rng: np.random.Generator | None = None) -> None:
        self._rng = np.random.default_rng() if rng is None else rng
        self._process = process()

    @property
    def generator(self) -> np.random.Generator:
        """The generator of this copy in this process."""
        if self._process != process():
            self._rng, self._process = np.random.default_rng(), process()
        return self._rng

    def __reduce__(self) -> tuple[type[Noise], tuple[()]]:
        return Noise, ()


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
