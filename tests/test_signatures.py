"""Public signatures: few parameters, typed, documented, in one order."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

#: Twelve are many; more ask for an object.
LIMIT = 12
#: What every design takes, the starts that only one has, and the rate of the rounds that compute the filter; what is known of
#: readings, of the model, and of the checks.
LONGER = {"nareg.clean": 15, "nareg.design.exact": 14, "nareg.design.blind": 13, "nareg.design.edge": 15}
PARTS = (
    "nareg", "nareg.baselines", "nareg.datasets", "nareg.design",
    "nareg.design.programs", "nareg.errors", "nareg.estimators",
    "nareg.filters", "nareg.gnn", "nareg.graphs", "nareg.herta", "nareg.io", "nareg.plotting",
    "nareg.progress", "nareg.quality", "nareg.results", "nareg.spacetime", "nareg.spectral", "nareg.unlearning",
)  # fmt: skip


def public(part: str) -> Iterator[tuple[str, Any]]:
    """The public names of a part that are nareg's own."""
    module = importlib.import_module(part)
    for name in getattr(module, "__all__", [n for n in dir(module) if not n.startswith("_")]):
        value = getattr(module, name)
        if getattr(value, "__module__", "").startswith("nareg") and callable(value):
            yield f"{part}.{name}", value


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions, constructors and methods, those of nareg's own bases among them."""
    for part in PARTS:
        for name, value in public(part):
            if not inspect.isclass(value):
                yield name, value
                continue
            for method, function in inspect.getmembers(value):
                plain = getattr(function, "__func__", function)
                own = inspect.isfunction(plain) and plain.__module__.startswith("nareg")
                if own and (method == "__init__" or not method.startswith("_")):
                    yield f"{name}.{method}", plain


def is_result(name: str) -> bool:
    """Dataclasses that the library fills in are results: nobody writes out their constructor."""
    part, _, owner = name.removesuffix(".__init__").rpartition(".")
    return hasattr(getattr(importlib.import_module(part), owner), "__dataclass_fields__")


FUNCTIONS = dict(functions())


def test_the_public_names_are_found():
    assert {"nareg.design.exact", "nareg.herta.fit", "nareg.gnn.NGC.forward", "nareg.Graph.from_knn"} <= set(FUNCTIONS)


def test_no_public_signature_is_longer_than_twelve_parameters():
    lengths = {
        name: len([p for p in inspect.signature(f).parameters if p not in ("self", "cls")])
        for name, f in FUNCTIONS.items()
        if not (name.endswith(".__init__") and is_result(name))
    }
    assert {name: n for name, n in lengths.items() if n > LONGER.get(name, LIMIT)} == {}


def test_every_public_name_has_a_docstring():
    missing = [name for name, f in FUNCTIONS.items() if not name.endswith("__init__") and not inspect.getdoc(f)]
    missing += [name for part in PARTS for name, value in public(part) if inspect.isclass(value) and not value.__doc__]
    assert not missing


@pytest.mark.parametrize("part", [p for p in PARTS if p not in ("nareg.errors", "nareg.results", "nareg.progress")])
def test_parameters_are_documented(part):
    """Every parameter of a public function appears in its numpydoc section, and none that is gone."""
    wrong = []
    for name, function in public(part):
        if inspect.isclass(function):
            continue
        text = inspect.getdoc(function) or ""
        section = re.search(r"Parameters\n-+\n(.*?)(?:\n\n[A-Z]\w+\n-+|\Z)", text, re.S)
        if section is None:
            continue
        listed = {
            n.strip().lstrip("*") for line in re.findall(r"^(\S.*)$", section[1], re.M) for n in line.split(" : ")[0].split(",")
        }
        actual = set(inspect.signature(function).parameters)
        wrong += [f"{name}: {p} is not documented" for p in sorted(actual - listed)]
        wrong += [f"{name}: {p} is documented and does not exist" for p in sorted(listed - actual)]
    assert not wrong


def test_the_graph_comes_first():
    later = []
    for name, function in FUNCTIONS.items():
        if name.endswith(".__init__") and is_result(name):
            continue
        names = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
        if "graph" in names and names[0] != "graph":
            later.append(name)
    assert not later


@pytest.mark.slow
def test_class_names_are_unique():
    """One name, one class, in the whole package."""
    import ast
    from pathlib import Path

    places: dict[str, list[str]] = {}
    root = Path(importlib.import_module("nareg").__file__ or "").parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(root)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_results_with_arrays_are_shown_in_short():
    """Each data class with arrays or frames has a ``repr`` of its own, which leaves their numbers out."""
    generated = []
    for part in PARTS:
        for name, value in public(part):
            fields = getattr(value, "__dataclass_fields__", {}) if inspect.isclass(value) else {}
            wide = any(re.search(r"ndarray|Frame|Tensor|csr_array", str(field.type)) for field in fields.values())
            if wide and hasattr(value.__repr__, "__wrapped__"):  # as dataclasses make it
                generated.append(name)
    assert generated == []
