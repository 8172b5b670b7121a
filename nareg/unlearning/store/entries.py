"""What a store holds, and what a request changes in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nareg.errors import NaregError
from nareg.unlearning.certificate import Certificate


class LedgerError(NaregError, RuntimeError):
    """The store cannot be read or written; what it holds is as it was.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from nareg.unlearning import Ledger, LedgerError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "notes.txt")
    ...     _ = path.write_text("no store, but long enough to be looked at")
    ...     try:
    ...         Ledger(path)
    ...     except LedgerError as error:
    ...         print(str(error).partition(": ")[2])
    file is not a database. Nothing was changed.
    """


@dataclass(frozen=True, eq=False)
class Stored:
    """All that a store holds of the data, and the model.

    Attributes
    ----------
    settings : dict
        Arguments of the model, and its classes.
    features : (N, F) array
    labels : (N,) array
    trained, gone : (N,) boolean arrays
    edges : (E, 2) array
    coefficients, term : (F, C) arrays
    certificate : Certificate or None
        Of the last request.
    """

    settings: dict[str, Any]
    features: np.ndarray
    labels: np.ndarray
    trained: np.ndarray
    gone: np.ndarray
    edges: np.ndarray
    coefficients: np.ndarray
    term: np.ndarray
    certificate: Certificate | None


@dataclass(frozen=True)
class Recorded:
    """Keyed hash of a request, its certificate as JSON, hash of the parameters, and the chained hash of all that."""

    asked: str
    certificate: str
    parameters: str
    digest: str


@dataclass(frozen=True, eq=False)
class Entry:
    """What a request changes.

    Attributes
    ----------
    told : dict
        The request, of which the hash is kept.
    removed, added : (E, 2) arrays
    nodes : (K,) array
        Whose features, label or standing changed.
    features, labels, trained, gone : arrays
        Of these nodes, afterwards.
    coefficients, term : (F, C) arrays
    certificate : Certificate or None
    """

    told: dict[str, Any]
    removed: np.ndarray
    added: np.ndarray
    nodes: np.ndarray
    features: np.ndarray
    labels: np.ndarray
    trained: np.ndarray
    gone: np.ndarray
    coefficients: np.ndarray
    term: np.ndarray
    certificate: Certificate | None
