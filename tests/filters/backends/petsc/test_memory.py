"""What PETSc made for one call is freed by the next: a process that solves for weeks does not grow."""

from __future__ import annotations

SCRIPT = """
import os, numpy as np, scipy.sparse as sp, nareg
from nareg._solvers._petsc.matrices import local_range
from nareg._solvers._petsc.rows import RowMatrix

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20

L = nareg.graphs.grid((100, 200)).laplacian()
K = sp.csr_array(L @ L)
X = np.random.default_rng(0).standard_normal((20_000, 100))[slice(*local_range(20_000))]
grown = []
for round in range(4):
    for _ in range(10):
        product = RowMatrix(K) @ X
    grown.append(resident())
# ten products have 80 MiB per rank, ten matrices 15
assert grown[-1] - grown[0] < 40, grown
print("done")
"""


def test_products_and_matrices_are_freed(mpirun):
    done = mpirun(2, SCRIPT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 2
