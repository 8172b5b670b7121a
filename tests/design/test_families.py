"""The families of designs stand side by side: none imports another, and what they share lies below them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import nareg.design

ROOT = Path(nareg.design.__file__).parent
#: What a family may import from besides itself; the floors first.
BELOW = {
    "_risk": set(),
    "_convex": {"_risk"},
    "_node": {"_risk"},
    "_edge": {"_risk"},
    "programs": {"_risk", "_convex"},
}


def test_every_folder_is_a_family():
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == set(BELOW)


@pytest.mark.parametrize("family", BELOW)
def test_a_family_imports_no_other(family):
    """Imports inside functions count, too."""
    others = []
    for path in (ROOT / family).glob("*.py"):
        for module in imported(ast.parse(path.read_text())):
            parts = module.split(".")
            if parts[:2] == ["nareg", "design"] and len(parts) > 2 and parts[2] not in {family, *BELOW[family]}:
                others.append(f"{path.name}: {module}")
    assert not others


def imported(tree: ast.Module) -> list[str]:
    """Names of modules and of what is imported from them."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names
