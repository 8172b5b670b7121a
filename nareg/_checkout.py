"""A package that lies beside nareg in a checkout, imported from its folder and from nowhere else."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


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
