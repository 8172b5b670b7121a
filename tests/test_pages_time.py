"""The pages on cleaning and on the space-time model: their examples run as written, and their options exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.mark.parametrize(("page", "count"), [("guides/clean.md", 3), ("guides/spacetime.md", 15), ("theory/spacetime.md", 2)])
@pytest.mark.guide
def test_examples_run(page, count, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert len(blocks) == count
    command = [sys.executable, "-W", "error", "-c", "\n".join(blocks)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_lists_the_options_of_the_command():
    import typer

    from nareg.cli import app

    listed = set(re.findall(r"^\| `(--[a-z-]+)` \|", (DOCS / "guides" / "clean.md").read_text(), re.MULTILINE))
    command = typer.main.get_command(app).get_command(None, "clean")
    known = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    assert listed == known - {"--help"}
