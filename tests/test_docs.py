"""The documentation: examples run as written, and links between pages lead somewhere."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
GUIDES = sorted(page for page in (DOCS / "guides").glob("*.md") if page.stem != "index")
#: Pages whose whole code runs in a test of their own, tests/*/test_page.py and tests/test_pages_time.py.
ELSEWHERE = ("clean", "gnn", "herta", "spacetime", "unlearning")
#: Examples stand before this line of a guide.
OPENING = 25


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_guide_opens_with_an_example(guide):
    lines = guide.read_text().splitlines()
    assert any(line.startswith("```") for line in lines[:OPENING]), f"{guide.name} has no example in its first {OPENING} lines"


@pytest.mark.guide
@pytest.mark.parametrize(
    "page",
    [DOCS / "index.md", DOCS / "tutorial.md", DOCS / "choose.md", *(path for path in GUIDES if path.stem not in ELSEWHERE)],
    ids=lambda path: path.stem,
)
def test_examples_of_the_page_run(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    command = [sys.executable, "-W", "error", "-c", "\n".join(blocks)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@cache
def anchors(page: Path) -> set[str]:
    """Of the headings of a page, as MyST and GitHub make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "document",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_links_lead_somewhere(document):
    check_links(document.read_text(), document)


def check_links(text: str, document: Path) -> None:
    """Of a text on a page."""
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith(("http", "gallery/")):  # the gallery is written by the build, which checks these
            continue
        path, _, anchor = target.partition("#")
        page = (document.parent / path).resolve() if path else document
        assert page.exists(), f"{document.name} links to {target}"
        assert not anchor or anchor in anchors(page), f"{document.name} links to {target}, a heading that is not there"


def test_every_page_is_on_a_shelf():
    """The front page names the shelves and the pages beside it; a shelf's index names the pages in its folder."""
    for page in DOCS.rglob("*.md"):
        shelf = page.parent if page.stem != "index" else page.parent.parent
        if page == DOCS / "index.md":
            continue
        name = page.relative_to(shelf).with_suffix("").as_posix()
        index = (shelf / "index.md").read_text()
        assert f"\n{name}\n" in index or f" <{name}>\n" in index, page


def test_every_example_of_the_gallery_has_a_title_and_a_picture():
    examples = sorted((ROOT / "examples").glob("*/plot_*.py"))
    assert len(examples) >= 16
    for example in examples:
        opening = ast.get_docstring(ast.parse(example.read_text()))
        assert opening, example
        title, line, *_ = opening.splitlines()
        assert set(line) == {"="}, example
        assert len(line) >= len(title), example
        assert "plt.subplots" in example.read_text() or "nareg.plotting" in example.read_text(), example
