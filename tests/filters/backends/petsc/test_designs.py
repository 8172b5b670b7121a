"""Exact and blind designs on one to three ranks: SciPy's risk, the same bits on every rank, and one end for all."""

from __future__ import annotations

import pytest

SETUP = """
import os, signal, hashlib, numpy as np, scipy.sparse as sp, nareg
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank = comm.rank
rng = np.random.default_rng(7)
def refused(call, *words):
    try:
        call()
    except nareg.errors.NaregError as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError("not refused")
def same_everywhere(w):
    return len(set(comm.allgather(hashlib.sha256(w.tobytes()).hexdigest()))) == 1
field = nareg.graphs.heterogeneous_field(nareg.graphs.sensor(60, rng=rng), 24, rng=rng)
Y = field.signals + np.sqrt(field.noise)[:, None] * rng.standard_normal(field.signals.shape)
def exact(**options):
    return nareg.design.exact(
        field.graph, **{"signals": field.signals, "noise": field.noise, "backend": "petsc", "solver": "sampled", **options}
    )
"""

AGREEMENT = """
data = {"exact": {"signals": field.signals}, "blind": {"measurements": Y}}
for kind in data:
    for data_weight in (None, "noise"):
        designs = [
            getattr(nareg.design, kind)(
                field.graph, **data[kind], noise=field.noise, data_weight=data_weight, solver="sampled", backend=backend
            )
            for backend in ("petsc", "scipy")
        ]
        assert same_everywhere(designs[0].weights)
        ours, theirs = (nareg.design.risk(field.graph, d, signals=field.signals, noise=field.noise).mse for d in designs)
        assert abs(ours / theirs - 1) < 1e-6, (kind, data_weight, ours, theirs)
        assert ("ranks" in designs[0].certificate.solver) == (comm.size > 1)
seen = rng.random(Y.shape) < 0.9
seen[5] = False  # a station without readings
d = nareg.design.blind(field.graph, measurements=np.where(seen, Y, np.nan), observed=seen, noise=field.noise, backend="petsc")
assert same_everywhere(d.weights)
print("done")
"""

GRADIENTS = """
from nareg._solvers.system import penalty
from nareg.design._risk.sampled import SampledRisk, blind_columns, oracle_columns
for trial in range(6):
    n = int(rng.integers(4, 40))
    upper = sp.triu(sp.random_array((n, n), density=min(1, 4 / n), rng=rng), 1).tolil()
    upper[0, :] = 0  # an isolated node
    L = nareg.Graph(sp.csr_array(upper + upper.T)).laplacian()
    L = sp.csr_array(L @ L) if trial == 5 else L  # not dominant: no levels
    c = rng.uniform(0.5, 2, n)
    c[-1] = 0 if L.diagonal()[-1] > 0 else 1  # not observed
    w = 10 ** rng.uniform(-1, 1, n) * rng.choice([-1, 1], n)
    w[n // 2] = 0 if c[n // 2] > 0 else 1
    X, variance, Z = rng.standard_normal((n, 3)), rng.uniform(0.1, 1, n), rng.choice([-1.0, 1.0], (n, 4))
    for columns in (oracle_columns(X, variance, Z), blind_columns(X, variance, c, Z)):
        def dense(v):
            K = np.diag(c) + v[:, None] * L.toarray() * v
            error = np.linalg.solve(K, c[:, None] * columns.inputs) - columns.targets
            value = np.sum(error**2) + columns.constant
            return value if columns.sure is None else value + 2 * np.sum(columns.sure * np.linalg.solve(K, columns.sure))
        risk = SampledRisk(penalty(L), c, "petsc")
        risk.systems.tol = 1e-12
        value, gradient = risk.value_and_gradient(w, risk.arranged(columns))
        step = 1e-6
        slope = np.array([(dense(w + step * e) - dense(w - step * e)) / (2 * step) for e in np.eye(n)])
        assert abs(value - dense(w)) < 1e-8 * (1 + abs(value)), (value, dense(w))
        assert np.abs(gradient - slope).max() < 1e-5 * (1 + np.abs(slope).max()), (gradient, slope)
        assert same_everywhere(gradient)

# large smooth weights on a mesh: GAMG's levels of one w serve its neighbors
graph = nareg.graphs.grid((50, 50))
X = np.cumsum(rng.standard_normal((2500, 2)), axis=0)
columns = oracle_columns(X, np.ones(2500), rng.choice([-1.0, 1.0], (2500, 2)))
values = {}
for backend in ("petsc", "scipy"):
    risk = SampledRisk(penalty(graph), np.ones(2500), backend)
    risk.systems.tol = 1e-10
    inside = risk.arranged(columns)
    values[backend] = [risk.value_and_gradient(np.linspace(200, 300, 2500) * factor, inside) for factor in (1, 1.1, 0.9)]
    assert risk.systems.factorizations == 1, (backend, risk.systems.factorizations)
for (value, gradient), (other, slope) in zip(*values.values()):
    assert abs(value / other - 1) < 1e-8
    assert np.abs(gradient - slope).max() < 1e-6 * np.abs(slope).max()
print("done")
"""

DISAGREEING = """
refused(lambda: exact(signals=field.signals + rank), "ranks 0 and 1", "the data of the design")
refused(lambda: exact(noise=field.noise * (1 + rank), data_weight="noise"), "ranks 0 and 1", "data_weight")
refused(lambda: exact(sampling=nareg.design.Sampling(rng=np.random.default_rng(rank))), "ranks 0 and 1")
# wrong on one rank only: the other does not wait for it
bad = np.where(rank, np.nan, field.signals)
refused(lambda: exact(signals=bad), "nan" if rank else "rank 1 of 2 failed")
def progress(p):
    if rank == 1 and p.step == 3:
        raise nareg.errors.InputError("the log is full")
refused(lambda: exact(progress=progress), "the log is full")
assert exact().status.ok  # and the ranks are in step again
print("done")
"""

INTERRUPTED = """
def progress(p):
    if rank == comm.size - 1 and p.step == 4:
        os.kill(os.getpid(), signal.SIGINT)
d = exact(progress=progress)
assert d.status.name == "INTERRUPTED", d.status
assert same_everywhere(d.weights)
assert d.objective < d.certificate.details["best_scalar_risk"]
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print("done")
"""


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("script", [AGREEMENT, GRADIENTS], ids=["designs", "gradients"])
def test_designs_agree_with_scipy_and_dense_formulas(mpirun, ranks, script):
    done = mpirun(ranks, SETUP + script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == ranks


def test_ranks_that_disagree_or_fail_stop_together(mpirun):
    done = mpirun(2, SETUP + DISAGREEING)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 2


@pytest.mark.parametrize("ranks", [1, 2])
def test_ctrl_c_on_one_rank_keeps_one_result_on_all(mpirun, ranks):
    done = mpirun(ranks, SETUP + INTERRUPTED)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == ranks
