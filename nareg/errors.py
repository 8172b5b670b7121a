"""The few exceptions that nareg raises on purpose.

Every message is one sentence that names the argument, the offending value and the remedy.
"""

from __future__ import annotations

import zipfile
import zlib

#: What readers of files that are damaged, or are something else, raise.
UNREADABLE = (
    ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, EOFError, OSError, NotImplementedError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


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


class AmplificationWarning(UserWarning):
    """An estimate where nothing was observed can be several times as large as every reading.

    Attributes
    ----------
    node : int
        Where it is worst.
    amplification : float
        The largest estimate there, over the largest reading.
    """

    def __init__(self, node: int, amplification: float, nodes: int) -> None:
        self.node, self.amplification = node, amplification
        super().__init__(
            f"the estimate at node {node}, not observed, can be {amplification:.3g} times the largest reading ({nodes} such "
            "nodes): its weight is small beside its neighbours'; design with fit=observed.astype(float), or a larger lower."
        )


class SolverError(NaregError, RuntimeError):
    """A numerical solver returned nothing usable."""
