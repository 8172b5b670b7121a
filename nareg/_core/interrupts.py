"""Delay Ctrl-C and other signals until the data are consistent, and lose none."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Delay signals until the block is done; then call their handlers, once per signal.

    This includes every signal with a handler in Python: that of a timeout or a service manager may raise, as Ctrl-C does.
    """
    if threading.current_thread() is not threading.main_thread():  # signals are delivered to that alone
        yield
        return
    # ignored signals and the system's own handlers stay; a handler from outside Python could not be restored
    handlers: dict[int, Any] = {
        number: handler for number in signal.valid_signals() if callable(handler := signal.getsignal(number))
    }
    caught: dict[int, FrameType | None] = {}
    try:
        for number in handlers:
            signal.signal(number, caught.setdefault)
        yield
    finally:
        _restore(list(handlers.items()))
    _call([(handlers[number], number, frame) for number, frame in caught.items()])


@contextmanager
def interrupts_remembered() -> Iterator[Callable[[], None]]:
    """Remember Ctrl-C in the block; what is yielded raises KeyboardInterrupt if there was one.

    The exception that Ctrl-C raises is lost where a library written in C was calling Python back, as LLVM does while loops
    are compiled. Such a computation goes on, and only a later question tells that it should not.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or usual is not signal.default_int_handler:
        yield lambda: None
        return
    caught = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal caught
        caught = True
        signal.default_int_handler(number, frame)

    def check() -> None:
        if caught:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, remember)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, usual)


def _restore(handlers: list[tuple[int, Any]]) -> None:
    """Restore every handler, even if one that is restored already raises."""
    if handlers:
        try:
            signal.signal(*handlers[0])
        finally:
            _restore(handlers[1:])


def _call(caught: list[tuple[Any, int, FrameType | None]]) -> None:
    """Call every handler, even if one raises."""
    if caught:
        handler, number, frame = caught[0]
        try:
            handler(number, frame)
        finally:
            _call(caught[1:])
