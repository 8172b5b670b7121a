"""Read design files: headers are checked before any array is read, and facts after that."""

from __future__ import annotations

import json
import numbers
import os
from typing import Any

import numpy as np

from nareg._storage.array_files import Npz, open_npz

#: Bytes of the facts beside the arrays: so many, and so many times the size of the file.
FACTS, SHARE = 2**24, 16
#: Lists and tables in them: so many, and so many for each node.
LISTS = 10
#: Arrays of a design, and those that every design has.
ARRAYS = ("weights", "penalty_data", "penalty_indices", "penalty_indptr", "meta", "data_weight", "omega")
NEEDED = ARRAYS[:5]
#: What the facts are.
TYPES: dict[str, type | tuple[type, ...]] = {
    "format": str, "method": str, "objective": numbers.Real, "status": str, "certificate": dict, "timings": dict,
    "settings": dict, "graph_hash": str, "version": str,
}  # fmt: skip
#: And those of the certificate.
CERTIFICATE: dict[str, type | tuple[type, ...]] = {
    "smallest_eigenvalue": numbers.Real, "violation": numbers.Real, "solver": str, "solver_status": str,
    "relaxed_objective": (numbers.Real, type(None)), "gradient_norm": (numbers.Real, type(None)), "details": dict,
}  # fmt: skip


def read(path: str | os.PathLike[str], form: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and facts of a design; other arrays in the file are not read.

    Raises
    ------
    ValueError, OSError, ...
        One of ``nareg.errors.UNREADABLE`` if it is no such file.
    """
    with open_npz(path) as stored:
        n = _compared(stored, os.stat(path).st_size)
        text = str(stored.read("meta"))
        if text.count("[") + text.count("{") > LISTS * (n + 1000):
            raise ValueError("its facts are nested too deeply")
        facts = _typed(json.loads(text), TYPES)
        if facts["format"] != form:
            raise ValueError(f"format {facts['format']!r}, expected {form!r}")
        _typed(facts["certificate"], CERTIFICATE)
        _typed(facts["timings"], dict.fromkeys(facts["timings"], numbers.Real))
        return {name: stored.read(name) for name in ARRAYS if name in stored.headers and name != "meta"}, facts


def _compared(stored: Npz, size: int) -> int:
    """Number of nodes, if the arrays are declared as those of one design."""
    headers = stored.headers
    absent = [name for name in NEEDED if name not in headers]
    if absent:
        raise ValueError(f"it has no array {absent[0]!r}")
    starts, entries, meta = (headers[name].shape for name in ("penalty_indptr", "penalty_data", "meta"))
    if len(starts) != 1 or len(entries) != 1 or headers["penalty_indices"].shape != entries or starts[0] < 2:
        raise ValueError(f"its penalty has row starts of shape {starts} and entries of shape {entries}")
    n = starts[0] - 1
    shapes = {name: header.shape for name, header in headers.items()}
    weights = shapes["weights"]
    if len(weights) != 1 or not n <= weights[0] <= n + entries[0]:
        raise ValueError(f"weights has shape {weights} for {n} nodes")
    for name, expected in (("data_weight", (n,)), ("omega", (n, n))):
        if shapes.get(name, expected) != expected:
            raise ValueError(f"{name} has shape {shapes[name]} for {n} nodes")
    for name in ("weights", "data_weight", "omega"):
        if name in headers and headers[name].dtype.kind != "f":
            raise ValueError(f"{name} has dtype {headers[name].dtype}")
    if meta != () or headers["meta"].dtype.kind != "U" or headers["meta"].n_bytes > FACTS + SHARE * size:
        raise ValueError(f"meta has shape {meta} and {headers['meta'].n_bytes} bytes of {headers['meta'].dtype.kind!r}")
    return n


def _typed(value: Any, types: dict[str, Any]) -> dict[str, Any]:
    """A table that has these, of these types, and nothing else."""
    if not isinstance(value, dict) or set(value) != set(types):
        raise ValueError("its facts are not those of a design")
    for name, wanted in types.items():
        if not isinstance(value[name], wanted) or isinstance(value[name], bool):
            raise ValueError(f"{name} is a {type(value[name]).__name__}")
        if isinstance(value[name], int):
            value[name] = float(value[name])  # or OverflowError
    return value
