"""Checks of a folder when it is opened: compiled loops trust the graph's tables and would read anywhere."""

from __future__ import annotations

import numpy as np

from nareg.errors import LedgerError
from nareg.unlearning.mapped.folder import PER_NODE, StateFolder
from nareg.unlearning.mapped.propagation import Counts

#: Neighbors that are looked at at a time.
PIECE = 2**23


def refuse_damage(folder: StateFolder, counts: Counts, n_classes: int) -> None:
    """Raise LedgerError if the tables do not fit together. The numbers in the rows of F are not looked at."""
    if not _shapes_fit(folder, counts, n_classes):
        raise LedgerError(f"{folder.path}: its files do not fit together: restore the folder from a copy.")
    for name in PER_NODE:
        folder[name].check_first(counts.n_nodes)
    if not (_graph_fits(folder, counts) and _order_fits(folder, counts)):
        raise LedgerError(f"{folder.path}: its files do not fit together: restore the folder from a copy.")


def _shapes_fit(folder: StateFolder, counts: Counts, n_classes: int) -> bool:
    n, width, columns = counts.n_nodes, folder["features"].row_shape, 1 if n_classes == 2 else n_classes
    rows = all(table.row_shape == width and len(width) == 1 and table.capacity >= n for table in folder.embedding)
    vectors = all(folder[name].row_shape == () and folder[name].capacity >= n for name in PER_NODE)
    model = all((folder[name].capacity, *folder[name].row_shape) == (*width, columns) for name in ("coefficients", "term"))
    return rows and vectors and model


def _graph_fits(folder: StateFolder, counts: Counts) -> bool:
    n, neighbors = counts.n_nodes, folder["neighbors"]
    start, live, room = (folder[name].array[:n] for name in ("start", "live", "room"))
    if not (live.min() >= 0 and start.min() >= 0 and (live <= room).all() and counts.used <= neighbors.capacity):
        return False
    if (start + room).max() > counts.used or live.sum() != 2 * counts.n_edges:
        return False
    pieces = (neighbors.read(first, min(first + PIECE, counts.used)) for first in range(0, counts.used, PIECE))
    return all(piece.min() >= -1 and piece.max() < n for piece in pieces)


def _order_fits(folder: StateFolder, counts: Counts) -> bool:
    n, row, node = counts.n_nodes, folder["row"].array, folder["node"].array
    fits = 0 < counts.n_train <= n and row[:n].min() >= 0 and row[:n].max() < n
    return bool(fits) and bool((node[row[:n]] == np.arange(n)).all())
