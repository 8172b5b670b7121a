"""PETSc on one, two and three ranks gives what a dense float64 solve gives, from arrays and from files."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from nareg._storage.array_files import read_npy

ARRAYS = """
import numpy as np, scipy.sparse as sp, nareg
from mpi4py import MPI

rank = MPI.COMM_WORLD.rank
rng = np.random.default_rng(5)
worst = 0.0
for trial in range(6):
    n = int(rng.integers(5, 90))
    upper = sp.triu(sp.random_array((n, n), density=min(1, 4 / n), rng=rng), 1)
    graph = nareg.Graph(sp.csr_array(upper + upper.T))
    w = 10 ** rng.uniform(-2, 2, n) * rng.choice([-1, 1], n)
    w[rng.integers(n)] = 0
    c = rng.uniform(0.5, 2, n)
    y = rng.standard_normal((n, 3))
    y[:, 1] = 0
    K = np.diag(c) + w[:, None] * graph.laplacian().toarray() * w
    expected = np.linalg.solve(K, c[:, None] * y)
    for method in ("auto", "cg", "multigrid", "direct"):
        s = nareg.filters.denoise(graph, w, y, data_weight=c, method=method, backend="petsc", tol=1e-11)
        assert s.status.name == "CONVERGED", (method, s)
        assert ("ranks" in s.method) == (MPI.COMM_WORLD.size > 1)
        # by the residual's own norm: what tol promises
        assert np.abs(K @ s.x - c[:, None] * y).max() <= 1e-9 * np.abs(c[:, None] * y).max() * 10
        if method == "direct":
            worst = max(worst, np.abs(s.x - expected).max())
    one = nareg.filters.denoise(graph, w, y[:, 0].astype(np.float32), backend="petsc")
    assert one.x.dtype == np.float32 and one.x.shape == (n,)
    # a user's own S, not dominant
    B = rng.standard_normal((n, n)) / n
    S = sp.csr_array(B @ B.T)
    s = nareg.filters.denoise(graph, S, y, backend="petsc", tol=1e-12)
    assert np.allclose(s.x, np.linalg.solve(np.eye(n) + S.toarray(), y), atol=1e-9)
assert worst < 1e-8, worst

graph = nareg.graphs.grid((6, 7))
seen = rng.random((42, 4)) < 0.7
y = np.where(seen, rng.standard_normal((42, 4)), np.nan)
a = nareg.filters.interpolate(graph, 2.0, y, seen, backend="petsc", tol=1e-11)
b = nareg.filters.interpolate(graph, 2.0, y, seen)
assert np.allclose(a.x, b.x, atol=1e-8)

indefinite = sp.csr_array(sp.diags_array(np.where(np.arange(42) == 3, -5.0, 1.0)))
assert nareg.filters.denoise(graph, indefinite, np.ones(42), backend="petsc").status.name == "INDEFINITE"
print(f"rank {rank} done")
"""

FILES = """
import numpy as np, nareg
from nareg._solvers.backends import Petsc
for partition in ("none", "ptscotch"):
    for method in ("auto", "cg", "multigrid", "direct"):
        s = nareg.filters.denoise("g.graph", "w.npy", "y.npy", out=f"x-{partition}-{method}.npy", data_weight="c.npy",
                                  method=method, backend=Petsc(partition), tol=1e-11)
        assert s.status.name == "CONVERGED", (method, s)
    for kind in ("augmented", "normalized"):
        nareg.gnn.propagate("g.graph", "y.npy", out=f"z-{partition}-{kind}.npy", weights=[0.5, 0.3, 0.2, 0.1],
                            normalization=kind, backend=Petsc(partition))
print("done")
"""


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_arrays_on_any_number_of_ranks_agree_with_a_dense_solve(mpirun, ranks):
    done = mpirun(ranks, ARRAYS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == ranks


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_files_on_any_number_of_ranks_agree_with_a_dense_solve(mpirun, tmp_path, rng, ranks):
    n = 500  # random node order: half of the edges lie between two ranks
    order = rng.permutation(n)
    grid = nareg.graphs.grid((25, 20)).adjacency[order][:, order]
    upper = sp.coo_array(sp.triu(grid))
    upper.data = rng.uniform(0.5, 2, upper.nnz)
    graph = nareg.Graph(sp.csr_array(upper + upper.T))
    w, c, y = 10.0 ** (3 * order / n), rng.uniform(0.5, 2, n), rng.standard_normal((n, 3))
    w[:3] = 0
    graph.save(tmp_path / "g.graph")
    for name, array in (("w", w), ("c", c), ("y", y)):
        np.save(tmp_path / f"{name}.npy", array)
    done = mpirun(ranks, FILES)
    assert done.returncode == 0, done.stderr
    K = np.diag(c) + w[:, None] * graph.laplacian().toarray() * w
    for x in tmp_path.glob("x-*.npy"):
        assert np.abs(K @ read_npy(x) - c[:, None] * y).max() < 1e-8
        assert np.abs(read_npy(x) - np.linalg.solve(K, c[:, None] * y)).max() < 1e-7
    for kind in ("augmented", "normalized"):
        M = np.eye(n) - graph.laplacian(kind).toarray()
        expected = sum(a * np.linalg.matrix_power(M, k) @ y for k, a in enumerate([0.5, 0.3, 0.2, 0.1]))
        for partition in ("none", "ptscotch"):
            assert np.abs(read_npy(tmp_path / f"z-{partition}-{kind}.npy") - expected).max() < 1e-12
    assert len(list(tmp_path.glob("x-*.npy"))) == 8
    assert not list(tmp_path.glob(".*nareg-part"))


def test_the_command_line_reads_rows_and_only_one_rank_speaks(mpirun, tmp_path, rng):
    graph = nareg.graphs.grid((30, 20))
    graph.save(tmp_path / "g.graph")
    w, y = np.linspace(1, 20, 600), rng.standard_normal((600, 2)).astype(np.float32)
    np.save(tmp_path / "w.npy", w)
    np.save(tmp_path / "y.npy", y)
    command = ["-m", "nareg", "denoise", "g.graph", "y.npy", "--weights", "w.npy", "--out", "x.npy", "--backend", "petsc"]
    done = mpirun(2, arguments=tuple(command))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("converged") == 1
    assert "PETSc on 2 ranks" in done.stdout
    assert np.abs(read_npy(tmp_path / "x.npy") - nareg.filters.denoise(graph, w, y).x).max() < 1e-6


def test_the_command_line_takes_station_tables(mpirun, tmp_path, station_files):
    folder, *_ = station_files
    weights = "station,weight\n" + "\n".join(f"station {i},{0.5 + i / 40}" for i in range(40))
    (tmp_path / "weights.csv").write_text(weights + "\n")
    tables = ["-m", "nareg", "denoise", f"{folder}/stations.csv", f"{folder}/readings.csv", "--weights", "weights.csv"]
    assert mpirun(0, arguments=(*tables, "--out", "one.csv")).returncode == 0
    done = mpirun(2, arguments=(*tables, "--out", "two.csv", "--backend", "petsc"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("written") == 1
    one, two = (np.loadtxt(tmp_path / f"{n}.csv", delimiter=",", skiprows=1, usecols=range(1, 41)) for n in ("one", "two"))
    assert np.abs(one - two).max() < 1e-5
