"""Features, labels and node numbers from a user, checked: copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg import _checks
from nareg.errors import InputError
from nareg.graph import node_indices


def features(name: str, value: Any, n_nodes: int | None) -> np.ndarray:
    """(N, F) in float64."""
    if sp.issparse(value):
        _checks.whole_sparse(name, value)
        _checks.memory(f"{name} as a dense array", 8.0 * np.prod(value.shape, dtype=float), alternative="leave columns out")
    X = np.array(_checks.floats(name, value.toarray() if sp.issparse(value) else value, ndim=(2,)), dtype=np.float64, order="C")
    if X.shape[1] == 0 or (n_nodes is not None and len(X) != n_nodes):
        raise InputError(f"{name} has shape {X.shape}: ({'M' if n_nodes is None else n_nodes}, F) is expected, F at least 1.")
    return X


def whole(name: str, value: Any, n: int) -> np.ndarray:
    """(N,) whole numbers."""
    array = _checks.array_of(name, value)
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise InputError(f"{name} have shape {array.shape} and dtype {array.dtype}: ({n},) integers are expected, -1 for none.")
    return array.astype(np.int64)


def numbers(name: str, value: Any, n: int) -> np.ndarray:
    """Distinct node numbers, from a mask or integers of any type; negative ones would count from the end, and are refused."""
    given = _checks.array_of(name, value)
    if given.dtype.kind in "iu" or given.size == 0:
        given = given.astype(np.int64)
        if (given < 0).any():
            raise InputError(f"{name} holds {int(given[given < 0].flat[0])}: nodes are numbered from 0.")
    return node_indices(name, given, n)
