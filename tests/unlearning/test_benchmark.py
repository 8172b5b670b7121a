"""The benchmark runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "unlearning.py"


@pytest.mark.slow
def test_the_benchmark_runs_as_its_first_lines_say():
    done = subprocess.run([sys.executable, SCRIPT, "--small", "--threads", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("rows touched") == 6
    assert done.stdout.count("factors of an edge: median") == 2
