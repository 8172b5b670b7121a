"""Space-time smoothing on one to four ranks: the dense filter's estimate, the same bits on every rank, and one end for all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nareg

SETUP = """
from dataclasses import replace
import hashlib, os, signal, numpy as np, nareg
from mpi4py import MPI
from nareg.spacetime import load
from tests.spacetime.large.reference import dense, model_of, process, readings
comm = MPI.COMM_WORLD
rank = comm.rank
def same_everywhere(*arrays):
    return len(set(comm.allgather(hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()))) == 1
def refused(call, *words, by=nareg.errors.NaregError):
    try:
        call()
    except by as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError("not refused")
"""

AGREEMENT = """
from nareg.spacetime._sparse.estimates import open_solver
rng = np.random.default_rng(3)
# fewer stations than ranks, fewer times than ranks, gaps, a dead station, a time without readings
for n, T, gaps in ((2, 30, 0.0), (40, 1, 0.0), (35, 2, 0.0), (40, 60, 0.3), (60, 25, 0.7), (25, 80, 0.0)):
    graph, p = process(
        int(rng.integers(100)), n=n, smoothness=int(rng.integers(1, 3)), reach=rng.uniform(1, 8), rho=rng.uniform(-0.5, 0.97),
        noise=10 ** rng.uniform(-1, 1),
    )
    _, y = readings(p, T, rng, gaps)
    case, exact = (n, T, gaps), dense(p, y)
    with open_solver("petsc", p, graph, threads=1) as engine:
        x, _ = engine.estimate(y.T, 1e-13)
    assert np.abs(x - exact.x).max() < 1e-9, (case, np.abs(x - exact.x).max())
    ours, theirs = (model_of(graph, p, y).smooth(backend=backend) for backend in ("petsc", "scipy"))
    assert same_everywhere(ours.x, ours.std, np.array(ours.log_likelihood)), case
    assert np.abs(ours.x - exact.x.T).max() < 1e-6, case  # what the model promises
    assert np.abs(ours.x - theirs.x).max() < 1e-9, (case, np.abs(ours.x - theirs.x).max())
    assert np.abs(ours.std / theirs.std - 1).max() < 1e-9, case
    assert abs(ours.log_likelihood / theirs.log_likelihood - 1) < 1e-9, case

# noise over five decades, and hours in which none reads
hard = replace(p, noise=10 ** rng.uniform(-5, 0, p.field.n), rho=0.9995, variance=100.0)
_, z = readings(hard, 60, rng, 0.1)
z[::2, 10:40] = z[:, 20:24] = np.nan
with open_solver("petsc", hard, graph, threads=1) as engine:
    x, _ = engine.estimate(z.T, 1e-10)
    assert engine._system.hard
assert np.abs(x - dense(hard, z).x).max() < 1e-4, np.abs(x - dense(hard, z).x).max()

# outliers are left out, and readings may have gaps of their own, and times
wild = y.copy()
wild[rng.random(y.shape) < 0.01] += 30
seen = rng.random(y.shape) < 0.8
options = {"readings": wild, "observed": seen, "times": np.arange(float(T)) * 2}
ours, theirs = (model_of(graph, p, y).smooth(backend=backend, **options) for backend in ("petsc", "scipy"))
assert np.abs(ours.x - theirs.x).max() < 1e-9
assert np.abs(theirs.x - model_of(graph, p, y).smooth(**options, robust=False).x).max() > 0.1
none = model_of(graph, p, np.full(y.shape, np.nan)).smooth(backend="petsc")
assert np.abs(none.x).max() == 0 and abs(none.std / p.variance**0.5 - 1).max() < 0.1
print("done")
"""

FROM_FILE = """
model = load("model.npz")
stages = []
smoothed = model.smooth(backend="petsc", progress=lambda p: stages.append(p.fraction))
assert stages[-1] == 1.0
assert same_everywhere(smoothed.x)
theirs = np.load("scipy.npz")
assert np.abs(smoothed.x - theirs["x"]).max() < 1e-8 * np.abs(theirs["x"]).max()
assert np.abs(smoothed.std - theirs["std"]).max() < 1e-8 * theirs["std"].max()
print("done")
"""

DISAGREEING = """
graph, p = process(n=40)
_, y = readings(p, 50, np.random.default_rng(0))
model = model_of(graph, p, y)
def smooth(readings=y, of=model, **options):
    return of.smooth(readings, backend="petsc", **options)
refused(lambda: smooth(y + rank), "ranks 0 and 1", "readings")
refused(lambda: smooth(y[:, rank:], times=np.arange(float(50 - rank))), "ranks 0 and 1", "readings")
refused(lambda: smooth(robust=rank == 0), "ranks 0 and 1", "robust")
refused(lambda: smooth(of=model_of(*process(n=40, rho=0.9 - 0.1 * rank), y)), "ranks 0 and 1", "model")
refused(lambda: smooth(of=model_of(*process(rank, n=40), y)), "ranks 0 and 1", "graph")
# wrong on one rank only: the other does not wait for it
bad = np.where(rank, np.inf, y)
refused(lambda: smooth(bad), "is infinite" if rank else "rank 1 of 2 failed: readings[0, 0] is infinite")
refused(lambda: smooth(y[: 40 - rank]), "has shape (39, 50)", *([] if rank else ["rank 1 of 2 failed"]))
def progress(p):
    if rank == 1 and p.fraction > 0.3:
        raise nareg.errors.InputError("the log is full")
refused(lambda: smooth(progress=progress), "the log is full")
def interrupt(p):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGINT)
refused(lambda: smooth(progress=interrupt), by=KeyboardInterrupt)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert same_everywhere(smooth().x)  # and the ranks are in step again
print("done")
"""


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_estimates_agree_with_scipy_and_the_dense_filter(mpirun, ranks):
    done = mpirun(ranks, SETUP + AGREEMENT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == ranks


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_fitted_model_is_read_and_smoothed_on_all_ranks(mpirun, tmp_path, rng, ranks):
    graph = nareg.graphs.grid((12, 10))
    level = np.cumsum(0.3 * rng.standard_normal(80))
    y = 20 + level + 0.5 * rng.standard_normal((120, 80))
    y[rng.random(y.shape) < 0.2] = np.nan
    model = nareg.spacetime.fit(graph, y, engine="sparse", rng=rng)
    model.save(tmp_path / "model.npz")
    expected = model.smooth()
    np.savez(tmp_path / "scipy.npz", x=expected.x, std=expected.std)
    done = mpirun(ranks, SETUP + FROM_FILE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == ranks


def test_ranks_that_disagree_or_fail_stop_together(mpirun):
    done = mpirun(2, SETUP + DISAGREEING)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 2


def test_petsc_that_is_not_installed_is_named():
    """A fresh Python in which the import of petsc4py fails as it does without it."""
    script = """
import sys
sys.modules["petsc4py"] = None
import numpy as np
from tests.spacetime.large.reference import model_of, process
model_of(*process(), np.ones((40, 3))).smooth(backend="petsc")
"""
    root = str(Path(nareg.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True, timeout=120
    )
    assert "MissingDependencyError: backend='petsc' needs petsc4py and mpi4py" in done.stderr
    assert "pip install 'nareg[petsc]'" in done.stderr
