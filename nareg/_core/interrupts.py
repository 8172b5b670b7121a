"""Delay Ctrl-C and other signals until the data are consistent."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
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
