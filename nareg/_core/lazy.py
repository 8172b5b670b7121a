"""Public names of a package that need an optional library: imported on first use, with an install hint if it is missing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from nareg.errors import MissingDependencyError


def names_that_need(library: str, package: str, modules: Mapping[str, str], *, extra: str, title: str) -> Callable[[str], Any]:
    """A module's ``__getattr__``: finds each name of ``modules`` in the module of ``package`` that it maps to."""

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = importlib.import_module(f"{package}.{modules[name]}")
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != library:
                raise
            raise MissingDependencyError(f"{package}.{name} needs {title}: pip install 'nareg[{extra}]'.") from None
        return getattr(module, name)

    return find
