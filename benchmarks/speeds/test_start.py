"""A fresh interpreter imports nareg."""

from __future__ import annotations

import subprocess
import sys


def test_import(benchmark):
    assert benchmark(subprocess.run, [sys.executable, "-c", "import nareg"], check=True).returncode == 0
