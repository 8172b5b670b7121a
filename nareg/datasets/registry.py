"""The registry of data sets: origin, license, files with checksums, as ``bundled/registry.toml`` states them."""

from __future__ import annotations

import tomllib
from typing import Any

from nareg.datasets._info import BUNDLED, DatasetInfo, data_root
from nareg.errors import InputError

__all__ = ["BUNDLED", "REGISTRY", "DatasetInfo", "data_root", "info", "names"]


def _entries() -> dict[str, DatasetInfo]:
    stated = tomllib.loads((BUNDLED / "registry.toml").read_text(encoding="utf-8"))
    entries = {}
    for name, own in stated["sets"].items():
        facts: dict[str, Any] = {**stated["shared"].get(own.pop("like", ""), {}), **own}
        facts["files"] = {path: digest or None for path, digest in facts["files"].items()}
        entries[name] = DatasetInfo(name=name, **{**facts, "notes": tuple(facts.get("notes", ()))})
    return entries


REGISTRY = _entries()


def names() -> list[str]:
    """Names that :func:`load` takes.

    Examples
    --------
    >>> import nareg
    >>> nareg.datasets.names()[:2]
    ['us-weather', 'au-weather']
    """
    return list(REGISTRY)


def info(name: str) -> DatasetInfo:
    """Registry entry of a data set: origin, license, citation, files, and how to get it.

    Parameters
    ----------
    name : str
        One of :func:`names`, in upper or lower case.

    Returns
    -------
    DatasetInfo

    Examples
    --------
    >>> import nareg
    >>> nareg.datasets.info("us-weather").bundled
    True
    """
    known = {entry.lower(): entry for entry in REGISTRY}
    if not isinstance(name, str) or name.lower() not in known:
        raise InputError(f"name is {name!r}; choose one of {', '.join(names())}.")
    return REGISTRY[known[name.lower()]]
