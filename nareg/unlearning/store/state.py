"""What a store says of itself in ``state.json``, and checks of it: without a key nothing else shows that it was changed."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from nareg._storage.files import own_file
from nareg._storage.folders import is_folder, whole_folder
from nareg.errors import UNREADABLE, InputError, LedgerError, NaregError, brief
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.store.entries import Stored

#: Settings of a store: numbers, and the types of the others.
NUMBERS = ("lam", "alpha", "eps_scale", "eps", "delta", "r_max")
OTHERS = {"weights": list, "loss": str, "classes": list, "classes_given": bool}
#: Largest count.
LARGEST_COUNT = np.iinfo(np.int64).max

FORMAT = "nareg-unlearning-store-6"
#: File that marks a folder as a store.
STATE = "state.json"
#: Tables of one number per node.
PER_NODE = {
    "start": "<i8", "live": "<i8", "room": "<i8", "node": "<i8", "row": "<i8", "labels": "<i8", "gone": "|b1",
    "largest": "<f8", "peaks": "<f8",
}  # fmt: skip
#: Table of the checksums of all others.
SUMS = "checksums"
#: Tables of a store with history.
HISTORY = {
    "features": "<f8", "labels": "<i8", "trained": "|b1", "gone": "|b1", "edges": "<i4", "coefficients": "<f8",
    "term": "<f8", "requests": "|u1",
}  # fmt: skip


def damaged(path: Path | str, why: str) -> LedgerError:
    """An error that says what is wrong with a store or folder, and what to do."""
    return LedgerError(f"{path} {why}: restore it from a copy.")


@contextmanager
def damage(path: Path | str, what: str = "is damaged") -> Iterator[None]:
    """Errors of readers of what is damaged as a LedgerError."""
    try:
        yield
    except NaregError:
        raise
    except UNREADABLE as error:
        raise damaged(path, f"{what} ({type(error).__name__}: {brief(error)})") from None


def certificate_of(record: Any) -> Certificate | None:
    """The certificate of a request, or None.

    Raises
    ------
    ValueError
        If the record is not one of a certificate.
    """
    if record is None:
        return None
    kinds = {field.name: str(field.type) for field in fields(Certificate)}
    if not isinstance(record, dict) or set(record) != set(kinds):
        raise ValueError("a certificate lacks a field, or has one too many")
    record = dict(record)
    for name, kind in kinds.items():
        value = record[name]
        if kind == "float":
            record[name] = _number(name, value)
        elif kind == "int":
            _count(name, value)
        elif kind == "dict[str, float]":
            if not isinstance(value, dict):
                raise ValueError(f"{name} is {type(value).__name__}")
            record[name] = {part: _number(part, seconds) for part, seconds in value.items()}
        elif type(value).__name__ != kind:
            raise ValueError(f"{name} is {type(value).__name__}")
    if not all(record[name] > 0 for name in ("eps", "delta", "alpha", "budget")):
        raise ValueError("a certificate guarantees nothing")
    return Certificate(**record)


def settings_of(settings: Any) -> tuple[dict[str, Any], np.ndarray, bool]:
    """Arguments of the model, its classes, and whether the user named them.

    Raises
    ------
    ValueError
        If these are not the settings of a model.
    """
    if not isinstance(settings, dict) or set(settings) != {*NUMBERS, *OTHERS}:
        raise ValueError("these are not the settings of a model")
    arguments = {name: _number(name, settings[name]) for name in NUMBERS}
    for name, kind in OTHERS.items():
        if not isinstance(settings[name], kind):
            raise ValueError(f"{name} is {type(settings[name]).__name__}")
    weights = [_number("weights", weight, low=-math.inf) for weight in settings["weights"]]
    classes = [_count("classes", one) for one in settings["classes"]]
    if len(classes) < 2 or sorted(set(classes)) != classes:
        raise ValueError("classes are not two or more ascending numbers")
    return {**arguments, "weights": weights, "loss": settings["loss"]}, np.array(classes), settings["classes_given"]


def refuse_mismatch(stored: Stored, classes: np.ndarray) -> None:
    """Raise ValueError if rows, model and classes do not fit together."""
    shape = (stored.features.shape[1], 1 if classes.size == 2 else classes.size)
    if stored.coefficients.shape != shape or stored.term.shape != shape:
        raise ValueError(f"the model has the shape {stored.coefficients.shape} and a term of {stored.term.shape}, not {shape}")
    if not stored.trained.any() or not np.isin(stored.labels[stored.trained], classes).all():
        raise ValueError("a training node has no class")
    if (stored.trained & stored.gone).any() or (stored.labels < -1).any() or stored.features[stored.gone].any():
        raise ValueError("a removed node has features, or a label is below -1")
    if np.isin(stored.edges, np.flatnonzero(stored.gone)).any():
        raise ValueError("a removed node has edges")


def _number(name: str, value: Any, *, low: float = 0.0) -> float:
    """A finite number of at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} is {type(value).__name__}")
    if not low <= value <= float(np.finfo(float).max):
        raise ValueError(f"{name} is out of range")
    return float(value)


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_COUNT:
        raise ValueError(f"{name} is not an integer of at least 0")
    return value


def names_of(state: dict[str, Any]) -> tuple[str, ...]:
    """The names of the tables of a store."""
    if not state["embedding"]:
        return tuple(HISTORY)
    reserves = (f"reserve-{level}" for level in range(1, len(state["settings"]["weights"]) - 1))
    return (*PER_NODE, "features", "sum", "neighbors", "coefficients", "term", *reserves)


def keeps_embedding(path: str | os.PathLike[str]) -> bool:
    """Whether a store keeps the embedding; else it keeps the history of requests. Raises as :func:`read_state`."""
    return bool(read_state(whole_folder(path))["embedding"])


def read_state(path: Path) -> dict[str, Any]:
    """Whether a store keeps an embedding, its settings, and counts.

    Raises
    ------
    InputError
        If it is not a store.
    LedgerError
        If its state is damaged.
    """
    if not is_folder(path) or not os.path.lexists(path / STATE):
        raise InputError(f"{path} is not a nareg store (it has no {STATE}): pass one that save() or fit() wrote.")
    with damage(path / STATE):
        with os.fdopen(own_file(path / STATE), "rb") as handle:
            state = json.loads(handle.read())
        written = state.pop("format", None) if isinstance(state, dict) else None
        if written != FORMAT:
            raise LedgerError(f"{path} has the format {written!r}, {FORMAT!r} is expected: save or fit again.")
        if state.pop("sha256", None) != digest_of(state):
            raise damaged(path / STATE, "is damaged, it does not have its checksum")
        if not isinstance(state.get("embedding"), bool):
            raise ValueError("it does not say what the store keeps")
    with damage(f"{path}:", "its settings are damaged"):
        settings_of(state["settings"])
    return state


def digest_of(state: dict[str, Any]) -> str:
    """Its checksum."""
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
