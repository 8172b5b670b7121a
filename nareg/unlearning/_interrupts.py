"""Ctrl-C at a moment at which everything is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Let a KeyboardInterrupt wait until the block is done."""
    if threading.current_thread() is not threading.main_thread():  # signals are not delivered here
        yield
        return
    pressed = False

    def note(*_: Any) -> None:
        nonlocal pressed
        pressed = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
