"""The command line: one file per command group."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nareg.cli.main import app as app

__all__ = ["app", "run"]

#: New objects between two searches for unreachable ones, and such searches between larger ones: imports make a million objects
#: that stay, and Python's own numbers would have them looked through again and again.
COLLECTED = 50_000, 20, 20


def run() -> None:
    """Entry point. Ctrl-C ends it with one word and status 130, from the first import on."""
    gc.set_threshold(*COLLECTED)
    atexit.register(gc.freeze)  # the end frees all memory at once: a search through all objects takes half a second
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # an exception may arrive as another one where a library is being imported
        signal.signal(signal.SIGINT, _leave)
    from nareg.cli.main import app

    try:
        signal.signal(signal.SIGINT, handler)
        app()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


def _leave(*_: Any) -> None:
    """End at once: nothing is open yet."""
    os.write(2, b"interrupted\n")
    os._exit(130)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The application, whose libraries take a while to import."""
        if name == "app":
            from nareg.cli.main import app

            return app
        raise AttributeError(f"module 'nareg.cli' has no attribute {name!r}")
