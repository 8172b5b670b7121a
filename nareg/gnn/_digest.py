"""A hash of everything that shapes a training: arrays by their bytes, networks by their parts, functions by their names."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from nareg._core.arrays import as_numpy, is_tensor
from nareg.errors import InputError
from nareg.gnn.networks import Network


def digest(*values: Any) -> str:
    """Hash of nested dictionaries, lists, dataclasses, numbers, texts, arrays and networks; anything else is refused."""
    sha = hashlib.sha256()
    for part in _parts("what is compared", values):
        sha.update(len(part).to_bytes(8, "little") + part)
    return sha.hexdigest()[:24]


def _parts(name: str, value: Any) -> list[bytes]:
    """The value as byte strings, its kind first, so that no two different values share them."""
    if is_tensor(value):
        value = as_numpy(value)
    if isinstance(value, np.ndarray):
        return [f"array {value.dtype} {value.shape}".encode(), np.ascontiguousarray(value).tobytes()]
    if isinstance(value, Network):
        return _network(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return [f"{type(value).__module__}.{type(value).__qualname__}".encode(), *_parts(name, fields)]
    if isinstance(value, Mapping):
        items = sorted(value.items(), key=lambda item: str(item[0]))
        return [b"mapping", *(part for k, v in items for part in (*_parts(name, k), *_parts(f"{name}.{k}", v)))]
    if isinstance(value, (list, tuple)):
        return [f"sequence {len(value)}".encode(), *(part for v in value for part in _parts(name, v))]
    if value is None or isinstance(value, (bool, int, float, str, np.generic)):
        return [f"{type(value).__name__} {value!r}".encode()]
    named = getattr(value, "__qualname__", "<")
    if callable(value) and "<" not in named:  # not a lambda, not a function in a function
        return [f"function {getattr(value, '__module__', '')}.{named}".encode()]
    raise InputError(f"{name} is a {type(value).__name__}, which cannot be hashed: leave cache out.")


def _network(network: Network) -> list[bytes]:
    """Classes, settings, buffers and the shapes of parameters of all modules; what is decayed.

    Names that begin with an underscore hold what is derived, by torch's convention and ours.
    """
    decayed = {id(p) for p in network.decayed()}
    parts = [b"network"]
    for path, module in network.named_modules():
        kind = type(module)
        settings = {key: value for key, value in vars(module).items() if not key.startswith("_") and key != "training"}
        parts += [f"{path}: {kind.__module__}.{kind.__qualname__}".encode(), *_parts(f"{path}:{kind.__name__}", settings)]
    parts += [f"{name} {tuple(p.shape)} {id(p) in decayed}".encode() for name, p in network.named_parameters()]
    return parts + [part for name, b in network.named_buffers() for part in (name.encode(), *_parts(name, b))]
