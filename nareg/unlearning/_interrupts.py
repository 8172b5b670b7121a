"""Ctrl-C, and whatever else a handler makes of a signal, at a moment at which everything is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Let signals wait until the block is done; then whoever handled them before does, of each the first time.

    All that have a handler in Python: a timeout's or a service manager's may raise as Ctrl-C's does.
    """
    if threading.current_thread() is not threading.main_thread():  # signals are delivered to that alone
        yield
        return
    # who ignores a signal, or leaves it to the system, may; a handler from outside Python could not be put back
    handlers: dict[int, Any] = {
        number: handler for number in signal.valid_signals() if callable(handler := signal.getsignal(number))
    }
    caught: dict[int, FrameType | None] = {}
    try:
        for number in handlers:
            signal.signal(number, caught.setdefault)
        yield
    finally:
        _put_back(list(handlers.items()))
    _handle([(handlers[number], number, frame) for number, frame in caught.items()])


def _put_back(handlers: list[tuple[int, Any]]) -> None:
    """All, though those that are in their place again may raise."""
    if handlers:
        try:
            signal.signal(*handlers[0])
        finally:
            _put_back(handlers[1:])


def _handle(caught: list[tuple[Any, int, FrameType | None]]) -> None:
    """All, though each may raise."""
    if caught:
        handler, number, frame = caught[0]
        try:
            handler(number, frame)
        finally:
            _handle(caught[1:])
