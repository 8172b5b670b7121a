"""Checked copies of features, labels and node numbers, and the path of a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._core.sparse_checks import whole_sparse
from nareg.errors import InputError
from nareg.graph import node_indices
from nareg.typing import ArrayLike


def features(name: str, value: Any, n_nodes: int | None) -> np.ndarray:
    """Features (N, F) in float64."""
    if sp.issparse(value):
        whole_sparse(name, value)
        checks.memory(f"{name} as a dense array", 8.0 * np.prod(value.shape, dtype=float), alternative="select columns")
        value = value.toarray()
    X = np.array(checks.floats(name, value, ndim=(2,)), dtype=np.float64, order="C")
    if X.shape[1] == 0 or (n_nodes is not None and len(X) != n_nodes):
        raise InputError(f"{name} has shape {X.shape}: ({'M' if n_nodes is None else n_nodes}, F) is expected, F at least 1.")
    return X


def integers(name: str, value: ArrayLike, n: int) -> np.ndarray:
    """Integers (n,)."""
    array = checks.array_of(name, value)
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise InputError(f"{name} have shape {array.shape} and dtype {array.dtype}: ({n},) integers are expected, -1 for none.")
    return array.astype(np.int64)


def node_numbers(name: str, value: ArrayLike, n: int) -> np.ndarray:
    """Distinct node numbers, from a mask or integers; negative ones are refused: they would count from the end."""
    array = checks.array_of(name, value)
    if array.dtype.kind in "iu" or array.size == 0:
        array = array.astype(np.int64)
        if (array < 0).any():
            raise InputError(f"{name} holds {int(array[array < 0].flat[0])}: nodes are numbered from 0.")
    return node_indices(name, array, n)


def folder(value: str | os.PathLike[str], r_max: float, device: str | None) -> Path:
    """The path of a model's folder, if its other options go with one."""
    if r_max:
        raise InputError(
            f"r_max is {r_max:g} and folder is given: each request would read the residuals of all nodes from the disk; pass "
            "r_max=0 with a folder."
        )
    if device is not None:
        raise InputError(f"device is {device!r} and folder is given: leave one out.")
    return Path(value)
