"""The command line: one file per command group."""

from nareg.cli.main import app, run

__all__ = ["app", "run"]
