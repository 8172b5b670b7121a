"""The page on training: its examples run as written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "herta.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
assert len(BLOCKS) == 2


@pytest.mark.guide
@pytest.mark.parametrize("code", BLOCKS)
def test_examples_run_and_end_where_they_say(code):
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if "Preconditioned" in code:
        assert done.stdout.startswith(re.search(r"print\(loss.item\(\) / 1200\)  # ([\d.]+);", code)[1])
