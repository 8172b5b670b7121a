"""The folder of a new model: a draft with graph, features and labels, propagated."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from nareg._storage.folders import atomic_folder
from nareg._storage.graph_files import StoredGraph
from nareg._storage.signals import SignalFile
from nareg.graph import Graph
from nareg.progress import ProgressCallback
from nareg.typing import ArrayLike, GraphLike, Sparse
from nareg.unlearning import _arguments
from nareg.unlearning.data import Labeling
from nareg.unlearning.forgetting import warn_of_centered
from nareg.unlearning.propagation.rounding import largest_of
from nareg.unlearning.store import mapped_graph as graphs
from nareg.unlearning.store.folder import StateFolder, create_tables, locked
from nareg.unlearning.store.mapped_data import MappedData
from nareg.unlearning.store.mapped_propagation import Counts
from nareg.unlearning.store.state import PER_NODE, STATE, SUMS
from nareg.unlearning.store.table import SPARE


def create(
    path: Path, graph: GraphLike | StoredGraph | str | os.PathLike[str], features: ArrayLike | Sparse | str,
    labeled: Callable[[int], Labeling], weights: np.ndarray, memory: int | None, progress: ProgressCallback | None,
) -> MappedData:  # fmt: skip
    """The data of a new model, in a draft that appears at ``path`` when they are first recorded.

    Parameters
    ----------
    path : path
        A folder; that of an older model is replaced.
    graph : Graph, (N, N) matrix, StoredGraph, or path of a graph's folder
        Read in parts where it is on disk.
    features : (N, F) array, or path of an ``.npy`` file
        Read in parts, and kept in float32 where that is their type.
    labeled : callable
        Checked labels of as many nodes as it is called with.
    weights : (L + 1,) array
    memory : int, optional
    progress : callable, optional
    """
    source = StoredGraph(graph) if isinstance(graph, (str, os.PathLike)) else graph
    given = source if isinstance(source, (StoredGraph, Graph)) else Graph(source)
    n = given.n_nodes
    labeling = labeled(n)
    X = _features(features, n)
    stack = ExitStack()
    try:
        if (path / STATE).is_file():  # that of another model: not while it is open
            stack.callback(locked(path).close)
        draft = stack.enter_context(atomic_folder(path, mark=STATE))
        order, classes = len(weights) - 1, labeling.classes
        shapes = _shapes(n, 2 * given.n_edges, X, 1 if classes.size == 2 else classes.size, order)
        create_tables(draft, shapes)
        folder = StateFolder(draft, shapes, locked(draft))
    except BaseException as error:
        stack.__exit__(type(error), error, error.__traceback__)
        raise
    try:
        graphs.fill(folder.tables, given)
        peak = _fill(folder, X, labeling.labels, labeling.train)
        folder.sum_up_files(name for name in folder.tables if name not in (SUMS, "coefficients", "term"))
        folder.write_sums()
        folder.attach()
        counts = Counts(n, given.n_edges, labeling.train.size, 2 * given.n_edges, peak, 1.0, 0)
        return MappedData(folder, weights, classes, labeling.classes_given, counts, memory, (path, stack), progress)
    except BaseException as error:
        folder.close()
        stack.__exit__(type(error), error, error.__traceback__)
        raise


def _features(value: Any, n: int) -> SignalFile:
    """Features of a file or an array; sparse ones become dense, as in memory."""
    import scipy.sparse as sp

    if sp.issparse(value) or not isinstance(value, (str, os.PathLike, np.ndarray)):
        value = _arguments.features("features", value, n)
    X = SignalFile("features", value, n)
    if len(X.shape) != 2:
        _arguments.features("features", value, n)
    return X


def _shapes(n: int, entries: int, X: SignalFile, columns: int, order: int) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Types and shapes of the tables."""
    width = X.shape[1]
    shapes: dict[str, tuple[Any, tuple[int, ...]]] = {name: (kind, (n,)) for name, kind in PER_NODE.items()}
    shapes |= {name: ("<f8", (n, width)) for name in ("sum", *(f"reserve-{level}" for level in range(1, order)))}
    shapes |= {name: ("<f8", (width, columns)) for name in ("coefficients", "term")}
    return shapes | {"features": (X.dtype, (n, width)), "neighbors": ("<i4", (entries + int(SPARE * entries),))}


def _fill(folder: StateFolder, X: SignalFile, labels: np.ndarray, train: np.ndarray) -> float:
    """Write features, labels and the order of the rows of S; returns the largest feature."""
    n, peak = len(labels), 0.0
    sums, squares, shift = np.zeros(X.shape[1]), np.zeros(X.shape[1]), None
    for place, rows in X.pieces(slice(0, X.shape[1])):
        folder["features"].write(place.start, rows)
        largest = largest_of(rows)
        folder["largest"].write(place.start, largest)
        peak = max(peak, float(largest.max(initial=0)))
        shift = rows[0].astype(np.float64) if shift is None else shift
        away = rows - shift  # squares of what is far from zero would cancel
        sums += away.sum(axis=0)
        squares += (away**2).sum(axis=0)
    assert shift is not None
    away = sums / n
    warn_of_centered(shift + away, np.sqrt(np.maximum(squares / n - away**2, 0)), n, stacklevel=7)
    others = np.ones(n, dtype=bool)
    others[train] = False
    node = np.concatenate([train, np.flatnonzero(others)])
    folder["node"].write(0, node)
    folder["row"].write(0, np.argsort(node))
    folder["labels"].write(0, labels)
    folder["live"].attach()
    folder["peaks"].write(0, folder["live"].array[:n] + 1.0)
    return peak
