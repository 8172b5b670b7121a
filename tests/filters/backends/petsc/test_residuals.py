"""As ``tests/filters/backends/test_residuals.py``, for PETSc on one and two ranks, from arrays and from files."""

from __future__ import annotations

import pytest

SCRIPT = """
import pathlib
import nareg
from mpi4py import MPI
from nareg.errors import SingularSystemError
from tests.filters.exact import LOST, graded_systems

comm = MPI.COMM_WORLD
judged = 0
for system in LOST + graded_systems(12):
    graph = nareg.Graph(system.A)
    if comm.rank == 0:
        graph.save("g.graph")
    comm.barrier()
    for method in ("auto", "cg", "multigrid", "direct"):
        try:
            solution = nareg.filters.denoise(
                graph, system.w, system.y, data_weight=system.c, method=method, backend="petsc", max_iterations=300
            )
        except SingularSystemError:
            continue
        system.judge(solution, 1e-8, rounded=False)
        judged += 1
        if (system.c > 0).all():
            solution = nareg.filters.denoise(
                "g.graph", system.w, system.y, out="x.npy", data_weight=system.c, method=method, backend="petsc",
                max_iterations=300,
            )  # fmt: skip
            system.judge(solution, 1e-8, rounded=False)
    comm.barrier()
assert judged > 30
print("judged", judged)
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_converged_is_so_and_the_residual_is_that_of_the_answer(mpirun, ranks):
    done = mpirun(ranks, SCRIPT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("judged") == ranks
