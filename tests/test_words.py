"""How nareg speaks: names that say something, American spelling, messages without riddles."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for part in ("nareg", "experiments", "benchmarks") for path in (ROOT / part).rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

#: Everyday words and puns that tell the next reader nothing.
NAMES = {"told", "found", "held", "kept", "drive", "recovered", "thin", "deal"}
WORDS = re.compile(r"\w+")

#: British spellings, as patterns of whole words.
BRITISH = re.compile(
    r"\b(\w*(?:normali|regulari|optimi|minimi|maximi|generali|symmetri|standardi|initiali|factori|speciali|summari|randomi|"
    r"penali|linear|vectori|paralleli|recogni|organi|locali|visuali|synchroni|quanti|sparsi)s(?:e|es|ed|er|ers|ing|ation|ations)"
    r"|neighbour\w*|colour\w*|behaviour\w*|favour\w*|cent(?:re|res|red)|met(?:re|res)|licence[ds]?|analys(?:e|es|ed|ing)"
    r"|modell(?:ed|ing|er)|labell(?:ed|ing)|cancell(?:ed|ing)|travell\w+|catalogue|grey|artefact\w*|judgement\w*|whilst|amongst)\b",
    re.IGNORECASE,
)
#: Words that look British and are not: nouns in -ses, names of works.
EXEMPT = re.compile(r"Licence Ouverte|Open Licence|analyses\b|parameterless|DATA_LICENSES")

#: Phrases from before that no user should meet again.
RIDDLES = re.compile(
    r"stands there twice|was come by|is no store|tell too much|which is taken; leave|loss is another one|wait; 0 propagates",
    re.IGNORECASE,
)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def names_of(tree: ast.Module) -> set[str]:
    """Every name that a module gives: variables, parameters, functions, classes, attributes."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


@pytest.mark.slow
def test_names_say_what_they_hold():
    suspect = [path for path in SOURCES if NAMES & set(WORDS.findall(path.read_text()))]  # to parse all takes longer
    everyday = {relative(path): sorted(names_of(ast.parse(path.read_text())) & NAMES) for path in suspect}
    assert {path: names for path, names in everyday.items() if names} == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["code", "pages"])
def test_spelling_is_american(kind):
    british, american = [], set()
    for path in PAGES if kind == "pages" else SOURCES:
        text = path.read_text()
        if not any(BRITISH.fullmatch(word) for word in set(WORDS.findall(text)) - american):
            american |= set(WORDS.findall(text))
            continue
        for number, line in enumerate(text.splitlines(), 1):
            british += [f"{relative(path)}:{number}: {word[0]}" for word in BRITISH.finditer(EXEMPT.sub("", line))]
    assert not british


@pytest.mark.slow
def test_no_message_is_a_riddle():
    riddles = []
    for text, path in ((path.read_text(), path) for path in SOURCES):
        if RIDDLES.search(text) is None:
            continue
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.STRING and (match := RIDDLES.search(token.string)):
                riddles.append(f"{relative(path)}:{token.start[0]}: {match[0]}")
    assert not riddles


def test_normalized_is_one_laplacian():
    """ "normalized" has no self-loops; with them it is "augmented"."""
    from nareg.gnn.adjacency import Adjacency

    assert not hasattr(Adjacency, "normalized_laplacian")
