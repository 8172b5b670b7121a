"""The guide: its examples run as written, one after the other."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "unlearning.md"
FIRST, *LATER = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.guide
def test_the_example_runs_and_verifies(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIRST], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "(1, 0.0001)-certified: remove_edges of 1 (eps + 0.024 per removed row for the features' scale)" in done.stdout
    assert "the last certificate holds; 5 requests" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["service.store", "service.store.key"]


@pytest.mark.guide
@pytest.mark.parametrize("code", LATER)
def test_later_examples_run_after_the_first(code, tmp_path):
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIRST + code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("True\n")  # the hidden node retrained
