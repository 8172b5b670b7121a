"""A certified model on disk: in a store that requests write to, or in a folder that holds all of it."""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from nareg._storage.folders import is_folder
from nareg.errors import InputError, LedgerError, brief
from nareg.unlearning import _stored, head
from nareg.unlearning._locking import request
from nareg.unlearning.calibration import Calibrated, Calibration
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.forgetting import Forgetting
from nareg.unlearning.store.entries import Stored, StoredSettings
from nareg.unlearning.store.ledger import Ledger


class KeptModel(Forgetting[Certificate]):
    """Saving, loading and closing. A subclass learns what is saved."""

    folder: Path | None
    _calibration: Calibration
    _calibrated: Calibrated | None
    _head: head.Head
    _ledger: Ledger | None = None
    _certificate: Certificate | None = None

    @abstractmethod
    def _settings(self, classes: np.ndarray, *, given: bool) -> StoredSettings:
        """What a store keeps of the model beside its numbers."""

    @abstractmethod
    def _options(self) -> dict[str, Any]:
        """Of the head's problem."""

    @abstractmethod
    def _fits(self) -> bool:
        """Whether the last certificate can have been issued for this model and these data."""

    def _before_request(self) -> None:
        if self._ledger is not None:
            self._ledger.refuse_elsewhere()
        super()._before_request()

    def _refuse_stored(self, what: str) -> None:
        path = self.folder if self._ledger is None else self._ledger.path
        if self._ledger is not None or (self.folder is not None and self._fitted is not None):
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
        entry = _stored.whole(self._data, self._head, self._certificate)
        settings = self._settings(self.classes, given=self._data.classes_given)
        self._ledger = Ledger.create(path, settings, entry, key)
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
        if is_folder(path):
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
                raise LedgerError(f"{path}: the model does not belong to the data of the store: restore it from a copy.")
        except BaseException:
            ledger.close()
            raise
        model._ledger = ledger
        return model

    @classmethod
    def from_stored(
        cls, stored: Stored, rng: np.random.Generator | None = None, *, device: str | None = None, exact: bool = False
    ) -> Self:
        """The model of a store, with its ``r_max`` or, if ``exact``, with 0. The store does not record its requests."""
        settings, classes, given = _stored.checked(stored)
        model = cls._from_settings(settings, device=device, rng=rng)
        data = model._data = _stored.data(stored, classes, given, model.weights, 0.0 if exact else model.r_max, model._device)
        model._head = head.evaluate(data.propagation, data.targets(), stored.term, stored.coefficients, **model._options())
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
        from nareg.unlearning.mapped.data import open_folder

        data, settings, certificate = open_folder(path, memory)
        try:
            try:
                cls._from_settings(settings)  # by themselves: a device that is not there is no damage
            except InputError as error:
                raise LedgerError(
                    f"{path}: its settings are damaged ({brief(error)}): restore the folder from a copy."
                ) from None
            model = cls._from_settings(settings, folder=path, memory=memory, device=device, rng=rng)
            model._data, model._certificate = data, certificate
            B, W = data.noise_and_coefficients()
            with np.errstate(over="ignore", invalid="ignore"):  # a damaged head may hold any numbers: it does not fit then
                model._head = head.evaluate(data.propagation, data.targets(), B, W, **model._options())
            if not model._fits():
                raise LedgerError(f"{path}: the model does not belong to the data of the folder: restore it from a copy.")
        except BaseException:
            data.close()
            raise
        return model

    def close(self) -> None:
        """Close the store or folder, so that others can open it. A request of another thread ends first.

        Without its folder a model is not fitted any more.
        """
        with self._lock.mutex:
            self._lock.refuse_changing("close")
            if self.folder is not None and self._fitted is not None:
                self._fitted.close()
                self._fitted = None
            if self._ledger is not None:
                self._ledger.close()
            self._ledger = None
