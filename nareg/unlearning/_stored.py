"""A model in its store: the entries that requests write, and the data that a store gives back."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg.errors import LedgerError, brief
from nareg.graph import Graph
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.data import Data
from nareg.unlearning.head import Head
from nareg.unlearning.propagation.base import Change
from nareg.unlearning.propagation.device import Device
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.store.entries import Entry, RequestDetails, Stored
from nareg.unlearning.store.validation import refuse_mismatch, settings_of


def entry(data: Data, details: RequestDetails, change: Change, result: Head, certificate: Certificate | None) -> Entry:
    """The entry of a request for the ledger."""
    nodes = change.nodes
    return Entry(
        details=details, removed=change.removed, added=change.added, nodes=nodes, features=data.propagation.features[nodes],
        labels=data.labels[nodes], trained=data.propagation.trains(nodes), gone=data.gone[nodes], coefficients=result.W,
        term=result.B, certificate=certificate,
    )  # fmt: skip


def whole(data: Data, result: Head, certificate: Certificate | None) -> Entry:
    """The first entry of a store: all remaining data."""
    A = sp.triu(data.graph.adjacency()).tocoo()
    change = Change(added=np.stack([A.row, A.col], axis=1).astype(np.int64), nodes=np.arange(data.n_nodes))
    return entry(data, {"request": "save"}, change, result, certificate)


def checked(stored: Stored) -> tuple[dict[str, Any], np.ndarray, bool]:
    """Arguments of the model, its classes, and whether the user named them.

    Raises
    ------
    LedgerError
        If the settings are not those of a model, or do not fit the data.
    """
    part = "settings"
    try:
        settings, classes, given = settings_of(stored.settings)
        part = "data"
        refuse_mismatch(stored, classes)
    except ValueError as error:
        raise LedgerError(f"{stored.source}: its {part} are damaged ({brief(error)}); restore the store from a copy.") from None
    return settings, classes, given


def data(
    stored: Stored, classes: np.ndarray, classes_given: bool, weights: np.ndarray, r_max: float, device: Device | None
) -> Data:
    """The remaining data of a store, propagated."""
    n, ends = len(stored.labels), np.concatenate([stored.edges, stored.edges[:, ::-1]])
    graph = LiveGraph(Graph(sp.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))))
    return Data(
        graph, stored.features, stored.labels, np.flatnonzero(stored.trained), classes, classes_given=classes_given,
        weights=weights, r_max=r_max, gone=stored.gone, device=device,
    )  # fmt: skip
