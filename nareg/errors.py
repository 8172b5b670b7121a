"""The few exceptions that nareg raises on purpose.

Every message is one sentence that names the argument, the offending value and the remedy.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

#: What readers of files that are damaged, or are something else, raise.
UNREADABLE = (
    ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, EOFError, OSError, NotImplementedError,
    RecursionError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def brief(error: BaseException) -> str:
    """What another library says of a file, as part of a sentence: its first line, which may quote the file, shortened."""
    line = str(error).partition("\n")[0]
    return line if len(line) <= 200 else f"{line[:160]}..."


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


@contextmanager
def read_errors(
    what: str, remedy: str, *, kind: type[NaregError] = InputError, passed: type[Exception] = InputError
) -> Iterator[None]:
    """Turn what readers of a damaged file raise into one error, ``what (reason): remedy.``; ``passed`` errors stay."""
    try:
        yield
    except passed:
        raise
    except (*UNREADABLE, MemoryError) as error:
        if isinstance(error, MemoryError) and kind is not InputError:  # the file may well be whole
            raise
        raise kind(f"{what} ({brief(error)}): {remedy}.") from None


class DatasetNotFoundError(NaregError, FileNotFoundError):
    """A data set is not on this machine; the message says what to put where."""


class DatasetCorruptError(NaregError):
    """A data file exists but its checksum or its content is not what the registry says."""


class MissingDependencyError(NaregError, ImportError):
    """An optional dependency is not installed; the message says how to install it."""


class AmplificationWarning(UserWarning):
    """With the given weights an estimate at an unobserved node could be several times as large as every reading.

    The message says what was computed with other weights instead, and what was not.

    Attributes
    ----------
    node : int
        The node with the largest possible estimate.
    amplification : float
        Largest possible estimate there over the largest reading, with the given weights.
    nodes : int
        Number of nodes that exceed the limit in the same signal; of a matrix S above 250 nodes, of those that were looked at.
    done : str
        The replacement, and the number of signals with it; empty if there is none.
    unchanged : str
        The number of signals whose estimates are those of the given weights; empty if there is none.
    remedy : str
        What to design instead.
    """

    def __init__(
        self,
        node: int,
        amplification: float,
        nodes: int,
        *,
        place: str = "",
        done: str = "",
        unchanged: str = "",
        remedy: str = "",
    ) -> None:
        self.node, self.amplification, self.nodes = node, amplification, nodes
        self.done, self.unchanged, self.remedy = done, unchanged, remedy
        super().__init__(
            f"with these weights the estimate at {place or f'node {node}'}, not observed, could be {amplification:.3g} times "
            f"the largest reading ({nodes} such nodes); {self.outcome}. {remedy}"
        )

    @property
    def outcome(self) -> str:
        """What was done about it."""
        parts = [f"used instead: {self.done}"] if self.done else []
        return "; ".join([*parts, f"used as they are: {self.unchanged}"] if self.unchanged else parts)


class DegenerateFitWarning(UserWarning):
    """The likelihood of a space-time model has no maximum for these readings; the message says what runs to zero."""


class UtilityWarning(UserWarning):
    """Ridge and noise of a model that unlearns cost more than five points of accuracy; the message says the remedy."""


class BusyError(NaregError, RuntimeError):
    """A model is busy with another call; nothing was changed. Call again when that call has returned."""


class CertificateError(NaregError, RuntimeError):
    """A removal cannot be certified; nothing was changed.

    Examples
    --------
    >>> import nareg, numpy as np
    >>> from nareg.unlearning import CertifiedGPR
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> model = CertifiedGPR(alpha=0.0).fit(data.graph, data.features, data.labels, np.arange(200))
    >>> try:
    ...     model.remove_nodes([5])
    ... except nareg.errors.CertificateError as error:
    ...     print(error)
    alpha is 0, so that nothing is certified: fit with alpha above 0.
    """


class LedgerError(NaregError, RuntimeError):
    """A store of a model that unlearns cannot be read or written; its content is unchanged.

    Examples
    --------
    >>> import nareg, pathlib, tempfile
    >>> from nareg.unlearning import Ledger
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "state.json").write_text("{}")
    ...     try:
    ...         Ledger(folder)
    ...     except nareg.errors.LedgerError as error:
    ...         print(str(error).partition(" has ")[2])
    the format None, 'nareg-unlearning-store-6' is expected: save or fit again.
    """


class SolverError(NaregError, RuntimeError):
    """A numerical solver returned nothing usable."""
