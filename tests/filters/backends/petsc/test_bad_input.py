"""One clear sentence for each mistake, all ranks stop together, and nothing is half-written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nareg
from nareg._solvers._petsc.ranks import refuse_complex

SETUP = """
import os, sys, numpy as np, nareg
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
graph = nareg.graphs.grid((30, 20))
y, w = np.ones(600), np.full(600, 2.0)
def refused(call, *words):
    try:
        call()
    except nareg.errors.NaregError as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError("not refused")
def denoise(**options):
    data = [options.pop(name, default) for name, default in (("graph", graph), ("w", w), ("y", y))]
    return nareg.filters.denoise(*data, backend="petsc", **options)
"""

DISAGREEING = """
refused(lambda: denoise(graph=nareg.graphs.grid((30, 20)) if rank else nareg.graphs.grid((20, 30))), "ranks 0 and 1", "graph")
refused(lambda: denoise(w=w + rank), "ranks 0 and 1", "weights")
refused(lambda: denoise(y=y + rank), "ranks 0 and 1", "y")
refused(lambda: denoise(data_weight=1.0 + rank * np.ones(600)), "ranks 0 and 1", "data_weight")
refused(lambda: denoise(method="cg" if rank else "direct"), "ranks 0 and 1", "method")
seen = np.arange(600) % 2 == rank
refused(lambda: nareg.filters.interpolate(graph, w, y, seen, backend="petsc"), "ranks 0 and 1", "observed")
# wrong on one rank only: the other does not wait for it
refused(lambda: denoise(y=np.where(rank, np.nan, y)), "nan" if rank else "rank 1 of 2 failed")
refused(lambda: denoise(method="jacobi"), "not there with backend='petsc'")
print("done")
"""


def test_ranks_that_disagree_are_refused_on_all(mpirun):
    done = mpirun(2, SETUP + DISAGREEING)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 2


def test_a_rank_that_raises_ends_all(mpirun, tmp_path):
    """An error that the other rank cannot know of, in the middle of a solve."""
    script = """
def stop(report):
    if rank == 1 and report.step == 3:
        raise RuntimeError("the sensor bus is gone")
denoise(w=w * 10, progress=stop)
print("not reached")
"""
    done = mpirun(2, SETUP + script)
    assert done.returncode != 0
    assert "rank 1 of 2 failed (RuntimeError: the sensor bus is gone); all ranks stop." in done.stderr
    assert "not reached" not in done.stdout


@pytest.fixture
def files(tmp_path: Path) -> Path:
    nareg.graphs.grid((30, 20)).save(tmp_path / "g.graph")
    np.save(tmp_path / "w.npy", np.full(600, 2.0))
    np.save(tmp_path / "y.npy", np.ones(600))
    return tmp_path


DENOISE = tuple(["-m", "nareg", "denoise", "g.graph", "y.npy", "--weights", "w.npy", "--out", "x.npy", "--backend", "petsc"])


def ends_with(done: subprocess.CompletedProcess[str], folder: Path, *words: str) -> None:
    """One sentence, exit status 2, nothing written."""
    assert done.returncode == 2, done.stderr
    sentences = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(sentences) == 1
    assert all(word in sentences[0] for word in words), sentences
    assert not (folder / "x.npy").exists()
    assert not list(folder.glob(".*nareg-part"))


@pytest.mark.parametrize(
    "name", ["y.npy", "w.npy", "g.graph/indices.npy", "g.graph/indptr.npy"]
)  # fmt: skip
def test_a_file_cut_short_is_named(mpirun, files, name):
    whole = (files / name).read_bytes()
    (files / name).write_bytes(whole[: len(whole) - 40])
    ends_with(mpirun(2, arguments=DENOISE), files, name)


def test_a_value_that_only_one_rank_reads_is_refused_on_all(mpirun, files):
    y = np.ones(600)
    y[599] = np.nan
    np.save(files / "y.npy", y)
    ends_with(mpirun(2, arguments=DENOISE), files, "rank 1 of 2 failed", "y.npy[599, 0] is nan")


def test_weights_that_overflow_are_refused(mpirun, files):
    np.save(files / "w.npy", np.where(np.arange(600) == 7, 1e200, 1.0))
    ends_with(mpirun(2, arguments=DENOISE), files, "1e+200", "too large")


def test_more_ranks_than_nodes_are_refused(mpirun, files):
    nareg.graphs.grid((1, 2)).save(files / "g.graph")
    np.save(files / "w.npy", np.ones(2))
    np.save(files / "y.npy", np.ones(2))
    ends_with(mpirun(3, arguments=DENOISE), files, "2 nodes, fewer than the 3 ranks")


def test_an_output_that_cannot_be_written_is_refused(mpirun, files):
    (files / "x").write_text("")
    done = mpirun(2, arguments=tuple(a.replace("x.npy", "x/x.npy") for a in DENOISE))
    assert done.returncode == 2
    assert "x/x.npy cannot be written" in done.stderr


def test_a_killed_rank_leaves_no_output(mpirun, files):
    script = """
import os, signal
from nareg import filters
from mpi4py import MPI
def stop(report):
    if MPI.COMM_WORLD.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
filters.denoise("g.graph", "w.npy", "y.npy", out="x.npy", backend="petsc", progress=stop)
"""
    done = mpirun(2, script)
    assert done.returncode != 0
    assert not (files / "x.npy").exists()


def test_a_missing_preconditioner_is_named(mpirun, files):
    script = """
from nareg import errors, filters
from petsc4py import PETSc
if PETSc.Sys.hasExternalPackage("hypre"):
    print("hypre is there")
else:
    try:
        hypre = filters.Petsc(multigrid="hypre")
        filters.denoise("g.graph", "w.npy", "y.npy", out="x.npy", method="multigrid", backend=hypre)
    except errors.InputError as error:
        print(error)
"""
    done = mpirun(2, "import mpi4py.MPI\n" + script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("built without hypre: take multigrid='gamg'") == 2 or done.stdout.count("hypre is there") == 2
    assert not (files / "x.npy").exists()


def test_another_mpis_launcher_is_noticed(mpirun):
    """What Open MPI's mpiexec sets for its processes, in one that MPICH's library starts alone."""
    done = mpirun(0, SETUP + "denoise()", OMPI_COMM_WORLD_SIZE="4")
    assert done.returncode == 1
    assert "mpiexec started 4 processes, but each has an MPI of its own" in done.stderr


def test_petsc_that_is_not_installed_is_named(tmp_path):
    """A fresh Python in which the import of petsc4py fails as it does without it."""
    script = """
import sys, numpy as np
sys.modules["petsc4py"] = None
import nareg
nareg.filters.denoise(nareg.graphs.grid((2, 2)), 1.0, np.ones(4), backend="petsc")
"""
    root = str(Path(nareg.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True, timeout=120
    )
    assert "MissingDependencyError: backend='petsc' needs petsc4py and mpi4py" in done.stderr
    assert "pip install 'nareg[petsc]'" in done.stderr


def test_complex_petsc_is_refused():
    with pytest.raises(nareg.errors.InputError, match="built for complex128 scalars"):
        refuse_complex(np.dtype(np.complex128))
