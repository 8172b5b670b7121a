"""Recognize an object that was seen before, without keeping it alive."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from nareg.graph import Graph


@dataclass(frozen=True, eq=False)
class ObjectKey:
    """An object that can be recognized without being kept alive."""

    reference: weakref.ref[Any]
    version: Any

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectKey):
            return NotImplemented
        mine = self.reference()
        return mine is not None and mine is other.reference() and self.version == other.version

    __hash__ = None  # type: ignore[assignment]


def object_key(value: Any) -> ObjectKey | str | None:
    """The key of a tensor or a Graph; None for objects that can change unnoticed (never recognized)."""
    if value is None:
        return "none"
    if isinstance(value, Graph):
        return ObjectKey(weakref.ref(value), 0)
    if not hasattr(value, "data_ptr") or value.is_inference():
        return None
    return ObjectKey(weakref.ref(value), (value._version, value.data_ptr() if str(value.layout) == "torch.strided" else 0))
