"""Keyed hashes of requests: only the holder of the key can show what a request was."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import numpy as np

from nareg._core import checks
from nareg.errors import InputError
from nareg.unlearning.store.entries import RequestDetails

#: Requests that their hash can prove.
SHOWN = ("remove_edges", "remove_nodes", "remove_features", "add_edges")


def keyed_hash(key: bytes, *parts: Any) -> str:
    """HMAC-SHA256 of the parts as JSON."""
    return hmac.new(key, json.dumps(parts, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def model_hash(key: bytes, coefficients: bytes, term: bytes) -> str:
    """HMAC-SHA256 of the model. It is keyed because the store holds the noise term, which would let anyone check a guess."""
    return hmac.new(key, coefficients + term, hashlib.sha256).hexdigest()


def in_order(request: RequestDetails) -> RequestDetails:
    """The request as it was hashed: edges with the smaller end first, edges and nodes in ascending order."""
    name = request.get("request")
    named = "edges" if name in ("remove_edges", "add_edges") else "nodes"
    expected = {"request", named} | ({"labels"} if name == "remove_features" else set())
    if name not in SHOWN or named not in request or not set(request) <= expected:
        raise InputError(
            f"request is {request!r}: {', '.join(SHOWN)} can be proved, as {{'request': 'remove_edges', 'edges': [(3, 5)]}} or "
            "{'request': 'remove_features', 'nodes': [3], 'labels': False}."
        )
    numbers, labels = checks.array_of(named, request.get(named)), request.get("labels", False)
    if numbers.dtype.kind not in "iu" or (named == "edges" and (numbers.ndim != 2 or numbers.shape[1] != 2)):
        what = "pairs of integers (u, v)" if named == "edges" else "integers"
        raise InputError(f"request has {named} of shape {numbers.shape} and dtype {numbers.dtype}: {what} are expected.")
    if not isinstance(labels, (bool, np.bool_)):
        raise InputError(f"request has labels {labels!r}: True or False is expected.")
    ordered = np.unique(np.sort(numbers, axis=1), axis=0) if named == "edges" else np.unique(numbers)
    if named == "edges":
        return {"request": name, "edges": ordered.tolist()}
    if name == "remove_features":
        return {"request": name, "nodes": ordered.tolist(), "labels": bool(labels)}
    return {"request": name, "nodes": ordered.tolist()}
