"""The content of a store, and the changes of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Required, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from nareg.unlearning.certificate import Certificate


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
