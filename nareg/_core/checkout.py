"""A package that lies beside nareg in a checkout, imported from its folder and from nowhere else."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any


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
