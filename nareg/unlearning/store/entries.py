"""The content of a store, the changes of a request, and keyed hashes: only the holder of the key can show what it was."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass
from typing import Any, Required, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg.errors import InputError
from nareg.unlearning.certificate import Certificate

#: Bytes of the row of a request, which has certificate and hashes.
RECORD = 1024
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
    """Keyed hash of a request, its certificate, the hash of the model, and the chained hash of all three."""

    asked: str
    certificate: dict[str, Any] | None
    parameters: str
    digest: str

    def row(self) -> np.ndarray:
        """(1, RECORD) bytes: JSON, filled up with zeros."""
        text = json.dumps([self.asked, self.certificate, self.parameters, self.digest]).encode()
        assert len(text) <= RECORD
        return np.frombuffer(text.ljust(RECORD, b"\0"), np.uint8)[None]

    @classmethod
    def of_row(cls, row: np.ndarray) -> Recorded:
        """What :meth:`row` wrote."""
        asked, certificate, parameters, digest = json.loads(row.tobytes().rstrip(b"\0"))
        if not isinstance(digest, str):
            raise ValueError("a request has no hash")
        return cls(asked, certificate, parameters, digest)


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


def model_hash(key: bytes, coefficients: np.ndarray, term: np.ndarray) -> str:
    """HMAC-SHA256 of the model. It is keyed because the store holds the noise term, which would let anyone check a guess."""
    parts = (part.astype("<f8").tobytes() for part in (coefficients, term))
    return hmac.new(key, b"".join(parts), hashlib.sha256).hexdigest()


def chained(key: bytes, before: Any, entry: Entry) -> Recorded:
    """What a store keeps of a request: hashes chained to the digest before, or of the first one to the settings."""
    asked, parameters = keyed_hash(key, entry.details), model_hash(key, entry.coefficients, entry.term)
    certificate = None if entry.certificate is None else asdict(entry.certificate.rounded())
    return Recorded(asked, certificate, parameters, keyed_hash(key, before, asked, certificate, parameters))


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
