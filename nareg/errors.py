"""The few exceptions that nareg raises on purpose.

Every message is one sentence that names the argument, the offending value and the remedy.
"""

from __future__ import annotations


class NaregError(Exception):
    """Base class: ``except nareg.errors.NaregError`` catches everything raised on purpose."""


class InputError(NaregError, ValueError):
    """An argument, a file or a combination of them cannot work."""


class SingularSystemError(InputError):
    """The filter system has no unique solution: some part of the graph has no data term."""


class DivergentMethodError(InputError):
    """The named iterative method would diverge on this system; the message says which converges."""


class TooLargeError(InputError):
    """The computation would not fit in memory; refused before anything is allocated."""


class DatasetNotFoundError(NaregError, FileNotFoundError):
    """A data set is not on this machine; the message says what to put where."""


class DatasetCorruptError(NaregError):
    """A data file exists but its checksum or its content is not what the registry says."""


class MissingDependencyError(NaregError, ImportError):
    """An optional dependency is not installed; the message says how to install it."""


class SolverError(NaregError, RuntimeError):
    """A numerical solver returned nothing usable."""
