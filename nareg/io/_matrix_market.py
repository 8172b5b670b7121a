"""A graph from a MatrixMarket file."""

from __future__ import annotations

import os

import scipy.sparse as sp

from nareg._storage import matrix_market_files
from nareg.errors import UNREADABLE, InputError, brief


def read_adjacency(path: str | os.PathLike[str]) -> sp.csr_array:
    """Read the adjacency of a graph from a MatrixMarket file.

    Parameters
    ----------
    path : path
        An ``.mtx`` file.

    Returns
    -------
    (N, N) CSR array

    Raises
    ------
    InputError
        If the file does not exist, or is not a MatrixMarket file.

    Examples
    --------
    >>> import tempfile, pathlib, scipy.io, nareg
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "graph.mtx"
    >>> scipy.io.mmwrite(path, nareg.graphs.grid((2, 2)).adjacency)
    >>> read_adjacency(path).shape
    (4, 4)
    """
    try:
        return sp.csr_array(matrix_market_files.read(path))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except InputError:
        raise
    except (*UNREADABLE, MemoryError) as error:
        raise InputError(f"{path} is not a MatrixMarket file, or too large ({brief(error)}): use scipy.io.mmwrite.") from None
