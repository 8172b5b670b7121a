"""What a release would be, built once, and fresh environments to install it in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def command(*words: str | Path, cwd: Path) -> str:
    """Standard output of a command that succeeds, without the caller's PYTHONPATH; else a failure with all that it printed."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def release(tmp_path_factory) -> Path:
    """Folder with the sdist and the wheel that was built from it, as ``python -m build`` leaves them."""
    pytest.importorskip("build", reason="build is not installed (extra release)")
    folder = tmp_path_factory.mktemp("release")
    command(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="session")
def wheel(release) -> Path:
    (path,) = release.glob("*.whl")
    return path


@pytest.fixture
def environment(tmp_path, wheel) -> Iterator[Callable[[str], Path]]:
    """Makes a fresh environment with nareg and these extras, such as ``"[torch]"``; returns its Python. Removed after."""

    def make(extras: str) -> Path:
        command(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
        python = tmp_path / "venv" / "bin" / "python"
        constraints = ROOT / "constraints.txt"
        command(python, "-m", "pip", "install", "--quiet", "--constraint", constraints, f"{wheel}{extras}", cwd=tmp_path)
        command(python, "-m", "pip", "check", cwd=tmp_path)
        return python

    yield make
    shutil.rmtree(tmp_path / "venv", ignore_errors=True)  # a gigabyte each
