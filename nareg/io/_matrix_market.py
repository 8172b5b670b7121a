"""A graph from a MatrixMarket file."""

from __future__ import annotations

import os

import scipy.sparse as sp

from nareg import _sparse_files
from nareg.errors import UNREADABLE, InputError


def read_adjacency(path: str | os.PathLike[str]) -> sp.csr_array:
    """Read a MatrixMarket file."""
    try:
        return sp.csr_array(_sparse_files.read_matrix_market(path))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except InputError:
        raise
    except (*UNREADABLE, MemoryError) as error:
        raise InputError(f"{path} is not a MatrixMarket file, or one too large ({error}).") from None
