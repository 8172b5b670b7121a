"""The README's Python is run and prints what the README says it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nareg.datasets._sources import SOURCES

ROOT = Path(__file__).parent.parent


@pytest.mark.guide
def test_readme_examples_print_what_they_say():
    text = (ROOT / "README.md").read_text()
    codes, outputs = zip(*re.findall(r"```python\n(.*?)```\s*\n```\n(.*?)```", text, re.DOTALL), strict=True)
    assert len(codes) == 2  # the second goes on where the first ends
    done = subprocess.run([sys.executable, "-c", "".join(codes)], capture_output=True, text=True, check=True)
    # which factorization is used depends on what is installed
    assert re.sub(r"\[\w+\]", "[]", done.stdout) == re.sub(r"\[\w+\]", "[]", "".join(outputs))


def test_readme_begins_with_the_commands_that_do_all_the_set_up():
    commands = re.search(r"^## .*?```\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)[1]
    assert [line.split("#")[0].strip() for line in commands.splitlines()] == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        stamp = re.search(rf"^{target}: (\S+)$", makefile, re.MULTILINE)[1]
        assert re.search(rf"^{re.escape(stamp)}:.*BIN\)/python$", makefile, re.MULTILINE), (
            f"make {target} does not set up {stamp}"
        )


def test_readme_counts_the_data_sets_that_can_be_fetched():
    assert f"one of {len(SOURCES)} public data sets" in (ROOT / "README.md").read_text()


def test_readme_is_read_in_three_minutes():
    prose = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    words = [word for line in prose.splitlines() if not line.startswith("|") for word in line.split()]
    assert len(words) <= 650
