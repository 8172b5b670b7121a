"""Imports point one way: from the command line down to the graph, never up, and never in a circle."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import nareg
from benchmarks import house

ROOT = Path(nareg.__file__).parent

#: The floors of the house, lowest first. A part may import from its own floor's left, and from every floor below.
FLOORS = (
    ("errors", "_version"),
    ("progress",),
    ("_core",),
    ("_storage",),
    ("graph",),
    ("results",),
    ("typing", "_solvers"),
    ("io",),
    ("filters",),
    ("graphs", "datasets", "design", "spectral"),
    ("baselines", "plotting", "spacetime", "gnn"),
    ("quality", "herta", "unlearning", "estimators"),
    ("cleaning",),
    ("explorer",),
    ("cli",),
    ("__main__",),
)
FLOOR = {part: floor for floor, parts in enumerate(FLOORS) for part in parts}

#: Optional or heavy libraries, and the parts that may import them when a module is imported.
LAZY = {
    "torch": {"gnn", "herta", "unlearning", "_solvers._torch"},
    "petsc4py": set(),
    "mpi4py": set(),
    "cvxpy": set(),
    "matplotlib": {"plotting", "cleaning", "cli.demo_report"},
    "pygsp": set(),
    "torch_geometric": {"gnn"},
    "sklearn": {"estimators"},
}


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """Names below ``nareg.``, and their syntax trees."""
    return [(".".join(p.relative_to(ROOT).with_suffix("").parts), ast.parse(p.read_text())) for p in sorted(ROOT.rglob("*.py"))]


def for_type_checkers(tree: ast.Module) -> set[ast.AST]:
    """What stands under ``if TYPE_CHECKING``, which never runs."""
    blocks = (node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    return {inner for block in blocks for statement in block.body for inner in ast.walk(statement)}


@cache
def imports_of(name: str, *, everywhere: bool) -> list[str]:
    """What a module imports when it runs: at its top, or everywhere in it."""
    tree = dict(modules())[name]
    skipped = for_type_checkers(tree)
    nodes = ast.walk(tree) if everywhere else iter(tree.body)
    return [target for node in nodes if node not in skipped for target in imported(node)]


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        return [f"nareg.{alias.name}" for alias in node.names] if node.module == "nareg" else [node.module]
    return []


def test_every_part_stands_on_a_floor():
    parts = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert parts - {"__init__"} == set(FLOOR)


@pytest.mark.slow
def test_no_import_runs_upwards():
    """Imports inside functions count, too."""
    upwards = []
    for name, _ in modules():
        part = name.partition(".")[0]
        if part == "__init__":  # the public names, loaded when first used
            continue
        for target in imports_of(name, everywhere=True):
            other = target.split(".")[1] if target.startswith("nareg.") else None
            if other in FLOOR and other != part and FLOOR[other] >= FLOOR[part]:
                upwards.append(f"nareg.{name} imports {target}")
    assert not upwards


@pytest.mark.slow
def test_the_picture_of_the_parts_is_that_of_their_imports():
    assert house.PICTURE.read_text() == house.drawing(), "run make house"


@pytest.mark.slow
def test_no_circle_within_a_part():
    """Modules that import each other when they are imported can be put in an order."""
    imports = {
        name: {target.removeprefix("nareg.") for target in imports_of(name, everywhere=False) if target.startswith("nareg.")}
        for name, _ in modules()
    }
    done: set[str] = set()
    while ready := {name for name in imports if name not in done and imports[name] & set(imports) <= done}:
        done |= ready
    assert not set(imports) - done


@pytest.mark.parametrize("library", LAZY)
@pytest.mark.slow
def test_optional_libraries_are_imported_when_first_used(library):
    eager = {
        name for name, _ in modules() for target in imports_of(name, everywhere=False) if target.partition(".")[0] == library
    }
    assert not {name for name in eager if not any(f"{name}.".startswith(f"{part}.") for part in LAZY[library])}


@pytest.mark.slow
def test_nothing_but_the_command_that_runs_them_imports_the_experiments():
    users = {name for name, _ in modules() for t in imports_of(name, everywhere=True) if t.startswith("experiments")}
    assert users <= {"cli.reproduce"}


def test_no_module_gives_a_constant_two_values():
    """Two files that were joined had a limit each, of one name: the first was lost without a word."""
    for name, tree in modules():
        constants = [
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for part in node.targets
            for target in ast.walk(part)
            if isinstance(target, ast.Name) and target.id.isupper() and not target.id.startswith("_")
        ]
        assert len(constants) == len(set(constants)), name


def test_no_public_function_shadows_its_module():
    """``nareg.design.prony`` is the function for every importer, whatever was imported before."""
    for part in ("baselines", "design", "filters", "gnn", "herta", "quality", "spacetime", "spectral", "unlearning"):
        package = __import__(f"nareg.{part}", fromlist=["__all__"])
        for name in package.__all__:
            shadows = (ROOT / part / f"{name}.py").exists() and not isinstance(getattr(package, name), ModuleType)
            assert not shadows, f"nareg.{part}.{name} is both a module and another public name"


def test_sparse_factors_and_their_pivot_test_have_one_place():
    named = {path.relative_to(ROOT).parts[0] for path in ROOT.rglob("*.py") if "splu" in path.read_text(encoding="utf-8")}
    assert named == {"_solvers"}
