"""Every test starts its own processes: ranks under mpiexec, or a Python that loads PETSc."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")


@pytest.fixture(autouse=True)
def petsc() -> None:
    for name in ("mpi4py", "petsc4py"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: pip install 'nareg[petsc]' on Python 3.12 or later")
    if MPIEXEC is None:
        pytest.skip("no mpiexec beside this Python or on the PATH")


@pytest.fixture
def mpirun(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script, or ``python`` with these arguments, on some ranks in the test's folder; 0 is no mpiexec at all."""

    def run(
        ranks: int, script: str = "", *, arguments: tuple[str, ...] = (), **environment: str
    ) -> subprocess.CompletedProcess[str]:
        if script:
            (tmp_path / "script.py").write_text(script)
            arguments = ("script.py", *arguments)
        launcher = [str(MPIEXEC), "-n", str(ranks)] if ranks else []
        return subprocess.run(
            [*launcher, sys.executable, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run
