"""Modules that are imported when first used: those that need an optional library, and those of a checkout."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nareg.errors import MissingDependencyError


@contextmanager
def needed(libraries: str, what: str, *, extra: str) -> Iterator[None]:
    """Where optional libraries, in words, are imported: without one of them, an error says what needs it and how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in libraries.split():
            raise
        raise MissingDependencyError(f"{what}: pip install 'nareg[{extra}]'.") from None


def names_that_need(library: str, package: str, modules: Mapping[str, str], *, extra: str, title: str) -> Callable[[str], Any]:
    """A module's ``__getattr__``: finds each name of ``modules`` in the module of ``package`` that it maps to."""

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needed(library, f"{package}.{name} needs {title}", extra=extra):
            return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)

    return find


def load_package(name: str, folder: Path) -> None:
    """Import ``name`` from ``folder``, unless it is imported already. Worker processes call it before they unpickle."""
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} holds no package {name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def find(package: str) -> Path | None:
    """The folder of a package that lies beside nareg or in the current folder."""
    for place in (Path(__file__).resolve().parents[2], Path.cwd()):
        if (place / package / "__init__.py").is_file():
            return place / package
    return None


def call(package: str, module: str, function: str, *arguments: Any) -> Any:
    """What a function of a package of this machine's checkout returns, for workers that know nareg alone."""
    folder = find(package)
    if folder is None:
        raise ImportError(f"no folder {package} beside nareg or in {Path.cwd()}: start this process in a checkout of nareg")
    load_package(package, folder)
    return getattr(importlib.import_module(f"{package}.{module}"), function)(*arguments)
