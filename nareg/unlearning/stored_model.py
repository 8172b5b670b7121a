"""A certified model on disk: its store has every request and the remaining data, and may have the embedding too."""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg.errors import InputError, brief
from nareg.graph import Graph
from nareg.unlearning import head
from nareg.unlearning._locking import request
from nareg.unlearning.calibration import Calibrated, Calibration
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.data import Data, Labeling
from nareg.unlearning.forgetting import Forgetting
from nareg.unlearning.head import CertifiedTraining
from nareg.unlearning.propagation.base import Change
from nareg.unlearning.propagation.device import Device
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.store.entries import Entry, Stored, StoredSettings
from nareg.unlearning.store.ledger import Ledger
from nareg.unlearning.store.state import damaged, keeps_embedding, refuse_mismatch, settings_of


class StoredModel(Forgetting[Certificate]):
    """Saving, loading and closing. A subclass learns what is saved."""

    folder: Path | None
    _calibration: Calibration
    _calibrated: Calibrated | None
    _head: head.Head
    _certificate: Certificate | None = None

    @abstractmethod
    def _settings(self, data: Data) -> StoredSettings:
        """What a store keeps of the model beside its numbers."""

    @property
    @abstractmethod
    def _training(self) -> CertifiedTraining:
        """How the head is trained, and what it guarantees."""

    @abstractmethod
    def _fits(self) -> bool:
        """Whether the last certificate can have been issued for this model and these data."""

    def _refuse_stored(self, what: str) -> None:
        path = None if self._fitted is None else self._fitted.path
        if path is not None:
            raise InputError(f"{what} was called on a model with the open store {path}: call close() first.")

    @request
    def save(self, path: str | os.PathLike[str], *, key: str | os.PathLike[str] | None = None) -> Self:
        """Write the remaining data and the model to a store. From now on every request writes to it before it returns.

        The file ``key`` (default ``path.key``) gets a key for the hashes of requests; prefer another disk for it.

        Raises
        ------
        InputError
            If the store or the key exists.
        LedgerError
            If the store cannot be written.
        """
        if self.folder is not None:
            raise InputError(f"save was called on a model in the folder {self.folder}, which is its store: load that.")
        self._refuse_stored("save")
        entry = first_entry(self._data, self._head, self._certificate)
        self._data.store = Ledger.create(path, self._settings(self._data), entry, key)
        return self

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, key: str | os.PathLike[str] | None = None, device: str | None = None,
        memory: int | None = None, rng: np.random.Generator | None = None,
    ) -> Self:  # fmt: skip
        """Load the model of a store and recompute its embedding; further requests write to the same store.

        A ``folder`` is opened as it is, without a key; a request that a killed process left in its journal is carried out.

        The embedding is exact where the residuals that ``r_max`` allows would exceed the budget.

        Raises
        ------
        InputError
            If the store or its key does not exist.
        LedgerError
            If the store cannot be read, is damaged, or is open in another process.
        """
        if keeps_embedding(path):
            if key is not None:
                raise InputError(f"key is given, but {path} is the folder of a model, which has none: leave it out.")
            return cls._opened(path, device=device, memory=memory, rng=rng)
        ledger = Ledger(path, key)
        try:
            if not ledger.has_key:
                raise InputError(
                    f"the key of {path} cannot be read, and requests cannot be recorded without it: pass its file as key=."
                )
            stored = ledger.read()
            model = cls.from_stored(stored, rng, device=device)
            if model.r_max and not model._fits():
                model = cls.from_stored(stored, rng, device=device, exact=True)
            if not model._fits():
                raise damaged(f"{path}:", "the model does not belong to the data of the store")
        except BaseException:
            ledger.close()
            raise
        model._data.store = ledger
        return model

    @classmethod
    def from_stored(
        cls, stored: Stored, rng: np.random.Generator | None = None, *, device: str | None = None, exact: bool = False
    ) -> Self:
        """The model of a store, with its ``r_max`` or, if ``exact``, with 0. The store does not record its requests."""
        settings, classes, given = checked_settings(stored)
        model = cls._from_settings(settings, device=device, rng=rng)
        data = model._data = stored_data(stored, classes, given, model.weights, 0.0 if exact else model.r_max, model._device)
        model._head = model._training.evaluated(data, stored.term, stored.coefficients)
        model._certificate = stored.certificate
        return model

    @classmethod
    def _from_settings(cls, settings: dict[str, Any], **others: Any) -> Self:
        """An unfitted model with the settings of a store, whose choice of ``lam`` and ``alpha`` stays charged."""
        model = cls(**{name: value for name, value in settings.items() if name != "eps_scale"}, **others)
        model._calibration = replace(model._calibration, charged=settings["eps_scale"])
        model._calibrated = model._calibration.fixed
        return model

    @classmethod
    def _opened(
        cls, path: str | os.PathLike[str], *, device: str | None, memory: int | None, rng: np.random.Generator | None
    ) -> Self:
        """The model of a folder."""
        from nareg.unlearning.store.mapped_data import open_folder

        memory = None if memory is None else checks.integer("memory", memory, low=1)
        data, settings, certificate = open_folder(path, memory)
        try:
            try:
                cls._from_settings(settings)  # by themselves: a device that is not there is no damage
            except InputError as error:
                raise damaged(f"{path}:", f"its settings are damaged ({brief(error)})") from None
            model = cls._from_settings(settings, folder=path, device=device, rng=rng)
            model._data, model._certificate = data, certificate
            B, W = data.noise_and_coefficients()
            with np.errstate(over="ignore", invalid="ignore"):  # a damaged head may hold any numbers: it does not fit then
                model._head = model._training.evaluated(data, B, W)
            if not model._fits():
                raise damaged(f"{path}:", "the model does not belong to the data of the folder")
        except BaseException:
            data.close()
            raise
        return model

    def close(self) -> None:
        """Close the store or folder, so that others can open it. A request of another thread ends first.

        Without its folder a model is not fitted any more. Without its store it predicts, but refuses requests until it is saved
        to another path, because the closed store would still have what they remove.
        """
        with self._lock.mutex:
            self._lock.refuse_changing()
            if self._fitted is not None:
                self._fitted.close()
                self._fitted = self._fitted if self.folder is None else None


def first_entry(data: Data, result: head.Head, certificate: Certificate | None) -> Entry:
    """The first entry of a store: all remaining data."""
    A = sp.triu(data.graph.adjacency()).tocoo()
    change = Change(added=np.stack([A.row, A.col], axis=1).astype(np.int64), nodes=np.arange(data.n_nodes))
    return data.entry({"request": "save"}, change, result, certificate)


def checked_settings(stored: Stored) -> tuple[dict[str, Any], np.ndarray, bool]:
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
        raise damaged(f"{stored.source}:", f"its {part} are damaged ({brief(error)})") from None
    return settings, classes, given


def stored_data(
    stored: Stored, classes: np.ndarray, classes_given: bool, weights: np.ndarray, r_max: float, device: Device | None
) -> Data:
    """The remaining data of a store, propagated."""
    n, ends = len(stored.labels), np.concatenate([stored.edges, stored.edges[:, ::-1]])
    graph = LiveGraph(Graph(sp.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))))
    labeling = Labeling(stored.labels, np.flatnonzero(stored.trained), classes, classes_given)
    return Data(graph, stored.features, labeling, weights, r_max, gone=stored.gone, device=device)
