"""What the texts of a store say, checked: without the key nothing else shows that they were changed."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from typing import Any

import numpy as np

from nareg.unlearning.certificate import Certificate
from nareg.unlearning.store.entries import Stored

#: Settings of a store: numbers, and the others by their type.
NUMBERS = ("lam", "alpha", "eps", "delta", "r_max")
OTHERS = {"weights": list, "loss": str, "classes": list, "told": bool}
#: Largest number that counts anything.
MOST = np.iinfo(np.int64).max


def certificate_of(text: str) -> Certificate | None:
    """The certificate of a request, if it has one.

    Raises
    ------
    ValueError, RecursionError
        If it is none.
    """
    found = json.loads(text)
    if found is None:
        return None
    kinds = {field.name: str(field.type) for field in fields(Certificate)}
    if not isinstance(found, dict) or set(found) != set(kinds):
        raise ValueError("a certificate lacks a number, or has another")
    for name, kind in kinds.items():
        value = found[name]
        if kind == "float":
            found[name] = _number(name, value)
        elif kind == "int":
            _counted(name, value)
        elif kind == "dict[str, float]":
            if not isinstance(value, dict):
                raise ValueError(f"{name} is {type(value).__name__}")
            found[name] = {part: _number(part, seconds) for part, seconds in value.items()}
        elif type(value).__name__ != kind:
            raise ValueError(f"{name} is {type(value).__name__}")
    if not all(found[name] > 0 for name in ("eps", "delta", "alpha", "budget")):
        raise ValueError("a certificate promises nothing")
    return Certificate(**found)


def settings_of(held: Any) -> tuple[dict[str, Any], np.ndarray, bool]:
    """Arguments of the model, its classes, and whether these were told.

    Raises
    ------
    ValueError
        If they are not those of a model.
    """
    if not isinstance(held, dict) or set(held) != {*NUMBERS, *OTHERS}:
        raise ValueError("they are not those of a model")
    found = {name: _number(name, held[name]) for name in NUMBERS}
    for name, kind in OTHERS.items():
        if not isinstance(held[name], kind):
            raise ValueError(f"{name} is {type(held[name]).__name__}")
    weights = [_number("weights", weight, low=-math.inf) for weight in held["weights"]]
    classes = [_counted("classes", one) for one in held["classes"]]
    if len(classes) < 2 or sorted(set(classes)) != classes:
        raise ValueError("classes are not two or more numbers that rise")
    return {**found, "weights": weights, "loss": held["loss"]}, np.array(classes), held["told"]


def refuse_unlike(held: Stored, classes: np.ndarray) -> None:
    """Raise ValueError where rows, model and classes do not belong together."""
    shape = (held.features.shape[1], 1 if classes.size == 2 else classes.size)
    if held.coefficients.shape != shape or held.term.shape != shape:
        raise ValueError(f"the model has the shape {held.coefficients.shape} and a term of {held.term.shape}, not {shape}")
    if not held.trained.any() or not np.isin(held.labels[held.trained], classes).all():
        raise ValueError("a training node has no class")
    if (held.trained & held.gone).any() or (held.labels < -1).any() or held.features[held.gone].any():
        raise ValueError("a node that was removed has features, or a label that is none")
    if np.isin(held.edges, np.flatnonzero(held.gone)).any():
        raise ValueError("a node that was removed has edges")


def _number(name: str, value: Any, *, low: float = 0.0) -> float:
    """Finite, and at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} is {type(value).__name__}")
    if not low <= value <= float(np.finfo(float).max):
        raise ValueError(f"{name} is out of range")
    return float(value)


def _counted(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise ValueError(f"{name} is no whole number from 0")
    return value
