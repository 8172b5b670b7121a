"""Keyed hashes of requests: who holds the key can show what was asked, who does not cannot tell."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import numpy as np

from nareg import _checks
from nareg.errors import InputError

#: Requests that can be shown to have been made by their hash.
SHOWN = ("remove_edges", "remove_nodes", "remove_features", "add_edges")


def keyed_hash(key: bytes, *parts: Any) -> str:
    """Keyed."""
    return hmac.new(key, json.dumps(parts, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def model_hash(key: bytes, coefficients: bytes, term: bytes) -> str:
    """Keyed, too: the random term is in the store, so that without a key guesses at what was removed could be checked by it."""
    return hmac.new(key, coefficients + term, hashlib.sha256).hexdigest()


def in_order(told: dict[str, Any]) -> dict[str, Any]:
    """A request as it was hashed: edges with their smaller end first, edges and nodes in rising order."""
    name = told.get("request")
    named = "edges" if name in ("remove_edges", "add_edges") else "nodes"
    expected = {"request", named} | ({"labels"} if name == "remove_features" else set())
    if name not in SHOWN or named not in told or not set(told) <= expected:
        raise InputError(
            f"told is {told!r}: {', '.join(SHOWN)} can be shown, as {{'request': 'remove_edges', 'edges': [(3, 5)]}} or "
            "{'request': 'remove_features', 'nodes': [3], 'labels': False}."
        )
    numbers, labels = _checks.array_of("told", told[named]), told.get("labels", False)
    if numbers.dtype.kind not in "iu" or (named == "edges" and (numbers.ndim != 2 or numbers.shape[1] != 2)):
        what = "pairs of integers (u, v)" if named == "edges" else "integers"
        raise InputError(f"told has {named} of shape {numbers.shape} and dtype {numbers.dtype}: {what} are expected.")
    if not isinstance(labels, (bool, np.bool_)):
        raise InputError(f"told has labels {labels!r}: True or False is expected.")
    ordered = np.unique(np.sort(numbers, axis=1), axis=0) if named == "edges" else np.unique(numbers)
    found = {"request": name, named: ordered.tolist()}
    return found | {"labels": bool(labels)} if name == "remove_features" else found
