"""The command line inside this process: what a shell shows of a run, without seconds of imports for each."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from nareg import cli


class Finished:
    """Exit status, standard output and standard error."""

    def __init__(self, returncode: int, stdout: str, stderr: str) -> None:
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr


def run(*arguments: object, cwd: Path | None = None, columns: int = 80) -> Finished:
    """``nareg`` with these arguments, in this folder, in a terminal of so many columns."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with (
        mock.patch.object(sys, "argv", ["nareg", *map(str, arguments)]),
        mock.patch.dict(os.environ, {"COLUMNS": str(columns)}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        _shown_warnings(),
        contextlib.chdir(cwd or Path.cwd()),
    ):
        try:
            cli.run()
        except SystemExit as exit_:
            status = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    return Finished(status, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _shown_warnings() -> Iterator[None]:
    """Warnings go to standard error, as in a shell; pytest would raise them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield
    for warning in caught:
        sys.stderr.write(warnings.formatwarning(warning.message, warning.category, warning.filename, warning.lineno))


def process(*arguments: object, cwd=None) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "nareg", *map(str, arguments)], capture_output=True, text=True, cwd=cwd, check=False
    )
