"""The content of a store, the changes of a request, and keyed hashes: only the holder of the key can show what it was."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any, Required, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg.errors import InputError
from nareg.unlearning.certificate import Certificate

#: Requests that their hash can prove.
SHOWN = ("remove_edges", "remove_nodes", "remove_features", "add_edges")


class RequestDetails(TypedDict, total=False):
    """A request as a store hashes it.

    ``{"request": "remove_edges", "edges": [(3, 5)]}``, ``{"request": "remove_nodes", "nodes": [17, 30]}``,
    ``{"request": "remove_features", "nodes": [3], "labels": False}``, or "add_edges".
    """

    request: Required[str]
    edges: ArrayLike
    nodes: ArrayLike
    features: ArrayLike
    labels: ArrayLike


class StoredSettings(TypedDict):
    """Arguments of a model, what the choice of lam and alpha costs, its classes, and whether the user named them."""

    lam: float
    alpha: float
    eps_scale: float
    eps: float
    delta: float
    r_max: float
    weights: list[float]
    loss: str
    classes: list[int]
    classes_given: bool


@dataclass(frozen=True, eq=False)
class Stored:
    """The data and the model of a store.

    Attributes
    ----------
    source : str
        The store, for messages.
    settings : StoredSettings
    features : (N, F) array
    labels : (N,) array
    trained, gone : (N,) boolean arrays
    edges : (E, 2) array
    coefficients, term : (F, C) arrays
    certificate : Certificate or None
        Of the last request.
    """

    source: str
    settings: StoredSettings
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
    """Keyed hash of a request, its certificate as JSON, the hash of the model, and the chained hash of all three."""

    asked: str
    certificate: str
    parameters: str
    digest: str


@dataclass(frozen=True, eq=False)
class Entry:
    """The changes of a request.

    Attributes
    ----------
    details : RequestDetails
        The request; the store keeps only its hash.
    removed, added : (E, 2) arrays
    nodes : (K,) array
        Nodes whose features, label or role changed.
    features, labels, trained, gone : arrays
        Values of these nodes after the request.
    coefficients, term : (F, C) arrays
    certificate : Certificate or None
    """

    details: RequestDetails
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
