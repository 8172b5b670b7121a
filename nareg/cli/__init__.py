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

#: New objects up to the first search for unreachable ones, for imports make about half a million that stay; objects between two
#: later ones, and such searches between larger ones. Python's own numbers would have all looked through again and again.
IMPORTED, COLLECTED = 500_000, (50_000, 20, 20)


def run() -> None:
    """Entry point. Ctrl-C ends it with one word and status 130, from the first import on."""
    gc.set_threshold(IMPORTED)
    gc.callbacks.append(_collect_more_often)
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


def _collect_more_often(*_: Any) -> None:
    """After the first search."""
    gc.callbacks.remove(_collect_more_often)
    gc.set_threshold(*COLLECTED)


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
