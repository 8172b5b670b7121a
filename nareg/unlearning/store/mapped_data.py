"""The remaining data of a model in a folder: requests change memory, then a journal, then the files."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from nareg.errors import InputError
from nareg.progress import ProgressCallback
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.data import Data, Request
from nareg.unlearning.head import Head
from nareg.unlearning.store.folder import StateFolder, open_store, write_state
from nareg.unlearning.store.mapped_propagation import Counts, MappedPropagation
from nareg.unlearning.store.state import PER_NODE, STATE, certificate_of, damage, damaged, settings_of

#: Neighbors that are looked at at a time.
PIECE = 2**23


class MappedData(Data):
    """Graph, features, labels and embedding in a folder.

    Parameters
    ----------
    folder : StateFolder
        Of a new model, in a draft folder, or of one that is carried on.
    weights : (L + 1,) array
    classes : (C,) array
    given : bool
        Whether the user named the classes.
    counts : Counts
    memory : int, optional
        Bytes for propagation through the whole graph.
    draft : (path, ExitStack), optional
        Where a draft will be, and what moves it there when it is closed, or removes it.
    progress : callable, optional
        Of the first propagation.
    """

    propagation: MappedPropagation

    def __init__(
        self, folder: StateFolder, weights: np.ndarray, classes: np.ndarray, given: bool, counts: Counts,
        memory: int | None, draft: tuple[Path, ExitStack] | None = None, progress: ProgressCallback | None = None,
    ) -> None:  # fmt: skip
        self.folder, self._draft = folder, draft
        self.classes, self.classes_given = classes, given
        self.broken = False
        self.propagation = MappedPropagation(folder, weights, counts, memory)
        self._view()
        if draft is not None or folder.is_stale:
            self.propagation.progress = progress
            self._propagate()
            self.propagation.progress = None

    def _view(self) -> None:
        self.labels, self.gone = (self.folder[name].array[: self.n_nodes] for name in ("labels", "gone"))

    def _propagate(self) -> None:
        """Compute the embedding from features and graph as the files have them."""
        self.propagation.recompute()
        self.folder.write_sums()
        self.folder.clear_stale()
        self.propagation.attach(self.propagation.counts, self.propagation.scratch)

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder.path

    @property
    def is_torn(self) -> bool:
        """Whether a request is only partly in the files."""
        return self.folder.is_torn

    def record(self, request: Request | None, result: Head, certificate: Certificate | None) -> None:
        """Write what changed since the last call, durably, all or nothing; a new model's folder appears.

        Raises
        ------
        LedgerError
            If it cannot be written.
        """
        for name, values in (("coefficients", result.W), ("term", result.B)):
            self.folder.put(name, np.arange(len(values)), values)
        counts = self.propagation.counts
        state = {
            "embedding": True, "settings": self.settings, "counts": counts.as_dict(),
            "certificate": None if certificate is None else asdict(certificate.rounded()),
        }  # fmt: skip
        if self._draft is not None:
            self._publish(state)
            return
        self.folder.commit(state, up_to_date=self.propagation.is_anew)
        self._view_all(counts, reuse_scratch=True)

    def _publish(self, state: dict[str, Any]) -> None:
        assert self._draft is not None
        for name in ("coefficients", "term"):
            self.folder[name].write(0, self.folder[name].array)
        self.folder.sum_up_files(("coefficients", "term"))
        self.folder.write_sums()
        write_state(self.folder.path, state)
        (path, stack), self._draft = self._draft, None
        try:
            stack.close()
        except BaseException:
            self.folder.close()
            raise
        self.folder.move(path)
        self.folder.attach()
        self._view_all(self.propagation.counts, reuse_scratch=True)

    def noise_and_coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Noise term B and coefficients W, (F, C)."""
        return self.folder["term"].array.copy(), self.folder["coefficients"].array.copy()

    def check(self) -> None:
        """Compare with their checksums the parts that every request relies on; it compares the others when it reads them."""
        if not self.broken:
            self.refuse_elsewhere()
            model = dict.fromkeys(("coefficients", "term"), self.n_features)
            self.folder.check(dict.fromkeys(PER_NODE, self.n_nodes) | model | {"sum": self.propagation.train.size})

    def refuse_elsewhere(self) -> None:
        """Raise if this is a fork of the process that has the folder open."""
        self.folder.refuse_elsewhere()

    def close(self) -> None:
        """Unlock the folder; that of a model that was never recorded is removed."""
        if self._draft is not None:
            (_, stack), self._draft = self._draft, None
            unrecorded = InputError("the model was not recorded")
            stack.__exit__(InputError, unrecorded, None)
        self.folder.close()

    def _view_all(self, counts: Counts, *, reuse_scratch: bool) -> None:
        self.propagation.attach(counts, self.propagation.scratch if reuse_scratch else None)
        self._view()

    def _undo(self, request: Request) -> Callable[[], None]:
        counts = self.propagation.counts

        def undo() -> None:
            self.folder.attach()
            self._view_all(counts, reuse_scratch=False)
            if self.folder.is_stale:
                self._propagate()
            self.broken = False

        return undo

    def _apply(self, request: Request, *, fully: bool) -> None:
        self.folder["labels"].note(request.unlabeled)
        self.folder["gone"].note(request.gone)
        super()._apply(request, fully=fully)

    def _add(self, request: Request) -> None:
        rows, table = request.change.features, self.folder["features"]
        assert rows is not None
        if not np.array_equal(rows.astype(table.dtype), rows):
            raise InputError(
                f"features has values that {table.dtype.name}, in which the model's were given, cannot hold: round them to it."
            )
        self.folder.grow(self.n_nodes + len(rows))
        self._view()
        super()._add(request)
        new = np.arange(self.n_nodes - len(rows), self.n_nodes)
        for name in ("labels", "gone"):
            self.folder[name].note(new)


def open_folder(path: str | os.PathLike[str], memory: int | None) -> tuple[MappedData, dict[str, Any], Certificate | None]:
    """The data of a folder, the arguments of their model, and its last certificate.

    Raises as :func:`~nareg.unlearning.store.folder.open_store`.
    """
    folder, state = open_store(path)
    try:
        settings, classes, given = settings_of(state["settings"])
        with damage(folder.path / STATE):
            certificate, counts = certificate_of(state["certificate"]), Counts(**state["counts"])
        refuse_damage(folder, counts, classes.size)
        data = MappedData(folder, np.array(settings["weights"]), classes, given, counts, memory)
        data.check()
        data.settings = state["settings"]
    except BaseException:
        folder.close()
        raise
    return data, settings, certificate


def refuse_damage(folder: StateFolder, counts: Counts, n_classes: int) -> None:
    """Raise LedgerError if the tables do not fit together: compiled loops trust the graph's and would read anywhere.

    The numbers in the rows of F are not looked at.
    """
    if not _shapes_fit(folder, counts, n_classes):
        raise damaged(folder.path, "is damaged, its files do not fit together")
    for name in PER_NODE:
        folder[name].check_first(counts.n_nodes)
    if not (_graph_fits(folder, counts) and _order_fits(folder, counts)):
        raise damaged(folder.path, "is damaged, its files do not fit together")


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
