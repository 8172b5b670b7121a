"""Damage of a store or folder, and checks of the texts in it: without a key nothing else shows that they were changed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from nareg.errors import UNREADABLE, LedgerError, NaregError, brief
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.store.entries import Stored

#: Settings of a store: numbers, and the types of the others.
NUMBERS = ("lam", "alpha", "eps_scale", "eps", "delta", "r_max")
OTHERS = {"weights": list, "loss": str, "classes": list, "classes_given": bool}
#: Largest count.
LARGEST_COUNT = np.iinfo(np.int64).max


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
