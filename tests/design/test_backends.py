"""Designs whose systems torch solves: the formulas, SciPy's risk, levels that serve other weights, and refusals."""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg._solvers.backends import Torch
from nareg._solvers.system import penalty
from nareg.design import blind, edge, exact, risk
from nareg.design._edge.cone import RiskObjective
from nareg.design._edge.sparse_risk import EdgeRisk
from nareg.design._risk.sampled import SampledRisk, blind_columns, clean_and_noise, oracle_columns
from nareg.errors import InputError, MissingDependencyError
from nareg.results import Status
from tests.design.test_edge import random_objective
from tests.helpers import at_night, examples

DESIGNS = {"exact": exact, "blind": blind}


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(scope="module")
def field():
    rng = np.random.default_rng(1)
    return nareg.graphs.heterogeneous_field(nareg.graphs.sensor(150, rng=rng), 32, rng=rng)


def data_of(kind, field):
    if kind == "exact":
        return {"signals": field.signals, "noise": field.noise}
    noisy = field.signals + np.sqrt(field.noise)[:, None] * np.random.default_rng(2).standard_normal(field.signals.shape)
    return {"measurements": noisy, "noise": field.noise}


def backend_of(torch, precision):
    return Torch(device="cpu", dtype=getattr(torch, precision))


def dense_value(L, c, w, columns):
    """The sampled risk by dense solves."""
    K = np.diag(c) + w[:, None] * L.toarray() * w
    error = np.linalg.solve(K, c[:, None] * columns.inputs) - columns.targets
    value = np.sum(error**2) + columns.constant
    return value if columns.sure is None else value + 2 * np.sum(columns.sure * np.linalg.solve(K, columns.sure))


@pytest.mark.slow
@examples(3, 30)
@given(st.integers(0, 2**31), st.sampled_from(["float64", "float32"]), st.booleans(), st.booleans())
def test_gradient_against_finite_differences_of_dense_solves(torch, seed, precision, is_blind, squared):
    """Weights of both signs and zero, nodes that are not observed, an isolated node, operators that are no Laplacian."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 16))
    upper = sp.triu(sp.random_array((n, n), density=min(1.0, 4 / n), rng=rng), 1).tolil()
    upper[0, :] = 0
    L = nareg.Graph(sp.csr_array(upper + upper.T)).laplacian()
    L = sp.csr_array(L @ L) if squared else L
    coupled = L.diagonal() > 0
    c = rng.uniform(0.5, 2, n)
    w = 10 ** rng.uniform(-1, 1, n) * rng.choice([-1, 1], n)
    if coupled.any():
        c[np.flatnonzero(coupled)[0]] = 0.0
        w[np.flatnonzero(coupled)[-1]] = 0.0
    X, variance, Z = rng.standard_normal((n, 3)), rng.uniform(0.1, 1, n), rng.choice([-1.0, 1.0], (n, 4))
    columns = blind_columns(X, variance, c, Z) if is_blind else oracle_columns(X, variance, Z)
    sampled = SampledRisk(penalty(L), c, backend_of(torch, precision))
    sampled.systems.tol = 1e-12
    value, gradient = sampled.value_and_gradient(w, sampled.arranged(columns))
    step = 1e-6
    slope = [
        (dense_value(L, c, w + step * e, columns) - dense_value(L, c, w - step * e, columns)) / (2 * step) for e in np.eye(n)
    ]
    assert value == pytest.approx(dense_value(L, c, w, columns), rel=1e-8, abs=1e-8)
    np.testing.assert_allclose(gradient, slope, atol=1e-5 * (1 + np.abs(slope).max()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "side", "count"), [("float64", 25, 4), *at_night([("float64", 45, 20), ("float32", 45, 20)])]
)
def test_levels_serve_until_weights_have_moved_far(torch, precision, side, count):
    """Large smooth weights on a mesh: pyamg's levels of one w precondition its neighbors, and exact answers come out."""
    rng = np.random.default_rng(3)
    graph = nareg.graphs.grid((side, side))
    n = graph.n_nodes
    columns = oracle_columns(np.cumsum(rng.standard_normal((n, count)), axis=0), np.ones(n), rng.choice([-1.0, 1.0], (n, 4)))
    ours, theirs = (SampledRisk(penalty(graph), np.ones(n), b) for b in (backend_of(torch, precision), "scipy"))
    arranged = []
    for sampled in (ours, theirs):
        sampled.systems.tol = 1e-10
        arranged.append(sampled.arranged(columns))
    made = []
    smooth, silent = np.linspace(200, 300, n), np.arange(n) == 7
    for w in (smooth, 1.2 * smooth, 0.8 * smooth, np.where(silent, 0.0, smooth), 0.01 * smooth):
        value, gradient = ours.value_and_gradient(w, arranged[0])
        reference, slope = theirs.value_and_gradient(w, arranged[1])
        made.append(ours.systems.factorizations)
        assert value == pytest.approx(reference, rel=1e-8)
        np.testing.assert_allclose(gradient, slope, atol=1e-6 * np.abs(slope).max())
    assert made[0] >= 1
    assert made[0] == made[1] == made[2]
    assert made[3] == made[2] + 1  # a node lost its weight: levels that couple it cannot serve


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "data_weight", "kind"),
    [("float64", None, "exact"), *at_night([*itertools.product(["float64", "float32"], [None, "noise"], DESIGNS)][1:])],
)
def test_designs_have_the_risk_of_those_of_scipy(torch, field, kind, data_weight, precision):
    data = data_of(kind, field)
    ours = DESIGNS[kind](field.graph, **data, data_weight=data_weight, backend=backend_of(torch, precision))
    theirs = DESIGNS[kind](field.graph, **data, data_weight=data_weight, solver="sampled")
    both = [risk(field.graph, d, signals=field.signals, noise=field.noise).mse for d in (ours, theirs)]
    # float32 takes other iterations: the searches end elsewhere within their tolerances
    within = 1e-6 if precision == "float64" else 1e-4
    assert both[0] == pytest.approx(both[1], rel=within)
    assert ours.status is theirs.status
    assert ours.objective == pytest.approx(theirs.objective, rel=within)
    assert "[torch, cpu" in ours.certificate.solver
    assert ("float32" in ours.certificate.solver) == (precision == "float32")
    again = DESIGNS[kind](field.graph, **data, data_weight=data_weight, backend=backend_of(torch, precision))
    np.testing.assert_array_equal(again.weights, ours.weights)


@pytest.mark.slow
def test_groups_bounds_and_gaps_go_to_torch_as_well(torch, field):
    labels = np.arange(150) % 7
    d = exact(field.graph, signals=field.signals, noise=field.noise, groups=labels, lower=0.01, upper=4.0, backend="torch")
    assert all(np.unique(d.weights[labels == k]).size == 1 for k in range(7))
    assert 0.01 * (1 - 1e-9) <= (d.weights**2).min() <= (d.weights**2).max() <= 4.0 * (1 + 1e-9)
    data = data_of("blind", field)
    seen = np.random.default_rng(4).random(field.signals.shape) < 0.9
    seen[5] = False
    d = blind(
        field.graph, **{**data, "measurements": np.where(seen, data["measurements"], np.nan)}, observed=seen, backend="torch"
    )
    assert d.weights.shape == (150,)
    assert "[torch, c" in d.certificate.solver


@pytest.mark.parametrize("kind", DESIGNS)
def test_ctrl_c_keeps_the_best_weights(torch, field, kind):
    def impatient(progress):
        if progress.step == 4:
            raise KeyboardInterrupt

    d = DESIGNS[kind](field.graph, **data_of(kind, field), backend="torch", progress=impatient)
    assert d.status is Status.INTERRUPTED
    single = risk(field.graph, d.certificate.details["best_scalar"], signals=field.signals, noise=field.noise).mse
    assert risk(field.graph, d, signals=field.signals, noise=field.noise).mse < single


@pytest.mark.slow
def test_a_step_reads_as_often_for_many_columns_as_for_few(torch, monkeypatch):
    """On an accelerator all columns go together, and one flag is read in eight iterations."""
    from nareg._solvers import iterate
    from nareg._solvers._torch import _device, _matrix
    from nareg._solvers._torch._passes import DevicePasses
    from tests.synchronizations import Synchronizations

    monkeypatch.setattr(_matrix, "passes_of", DevicePasses)
    monkeypatch.setattr(iterate, "check_every", lambda array: 8)
    monkeypatch.setattr(_device, "BLOCK", 1000)
    rng = np.random.default_rng(5)
    graph = nareg.graphs.grid((20, 20))
    w, counts = rng.uniform(0.5, 1, 400), []
    for count in (4, 64):
        sampled = SampledRisk(penalty(graph), np.ones(400), Torch(device="cpu"))
        columns = blind_columns(
            rng.standard_normal((400, count)), np.ones(400), np.ones(400), rng.choice([-1.0, 1.0], (400, 4))
        )
        inside = sampled.arranged(columns)
        sampled.value_and_gradient(w, inside)  # columns go to the device once
        with Synchronizations() as seen:
            sampled.value_and_gradient(1.01 * w, inside)
        counts.append(seen.count)
    # a flag of positive diagonals, three solves of at most 24 iterations with their histories, two results of each product
    assert max(counts) <= 1 + 3 * (4 + 1) + 2 * 4
    assert abs(counts[0] - counts[1]) <= 3


def test_edge_value_and_gradient_agree_with_the_dense_ones(torch, rng):
    objective, u = random_objective(rng)
    n, support, c = 20, objective.support, objective.c
    X, Sigma = rng.standard_normal((n, 5)), rng.uniform(0.1, 1, 20)
    R = X @ X.T / 5
    cross = c[:, None] * R
    dense = RiskObjective(support, c, c[:, None] * (R + np.diag(Sigma)) * c, (cross + cross.T) / 2, float(np.trace(R)))
    A = sp.csr_array((np.ones(support.i.size), (support.i, support.j)), shape=(n, n))
    base = penalty(nareg.Graph(A + A.T))
    columns = clean_and_noise(X, np.diag(np.sqrt(Sigma)))  # identity probes are exact
    point = dense.at(u)
    for precision in ("float64", "float32"):
        ours = EdgeRisk(base, support, c, backend_of(torch, precision))
        value, gradient = ours.value_and_gradient(u, columns)
        assert value == pytest.approx(point.value, rel=1e-5)
        np.testing.assert_allclose(gradient, dense.slope(point), rtol=1e-3, atol=1e-4 * np.abs(gradient).max())
        assert ours.value(u - 100, columns) == np.inf
        outside = u.copy()
        outside[n:] += 10 * np.abs(u).max()  # a positive diagonal, and K indefinite
        outside[:n] -= 10 * np.abs(u).max()
        assert dense.at(outside) is None
        assert ours.value_and_gradient(outside, columns)[0] == np.inf
        columns.placed.clear()
        columns.last.clear()


def test_edge_products_in_another_node_order(torch, rng):
    """Beyond 20,000 nodes the nodes are reordered inside; the order must not show."""
    from nareg._solvers._torch._systems import TorchEdges

    graph = nareg.graphs.sensor(30, rng=rng)
    i, j = nareg.results.upper_edges(graph.laplacian())
    c, u = rng.uniform(1, 2, 30), rng.uniform(0.1, 1, 30 + i.size)
    Y, Z = rng.standard_normal((2, 30, 5))
    answers = []
    for order in (None, rng.permutation(30)):
        systems = TorchEdges(c, i, j, order, Torch(device="cpu"), tol=1e-12)
        solve = systems.inverse(u)
        A, B = (solve(systems.scaled(systems.keep(V))) for V in (Y, Z))
        answers.append((systems.products(A, B), systems.dots(A, B)))
    for first, second in zip(*answers, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("structure", "shrink"), [("symmetric", 0.7), ("laplacian", 0.9)])
@pytest.mark.parametrize("size", [20, pytest.param(60, marks=pytest.mark.nightly)])
def test_edge_designs_agree(torch, field, size, structure, shrink):
    part = np.arange(size)
    graph, X, noise = field.graph.subgraph(part), field.signals[part], field.noise[part]
    options = {"signals": X, "noise": noise, "shrink": shrink, "structure": structure}
    ours = edge(graph, **options, backend="torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nareg.design._edge.edge.DENSE_UNKNOWNS", 0)
        theirs = edge(graph, **options)
    assert "conjugate gradients [torch, c" in ours.certificate.solver
    assert ours.certificate.details["smallest_eigenvalue_K"] > 0
    both = [risk(graph, d, signals=X, noise=noise).mse for d in (ours, theirs)]
    assert both[0] == pytest.approx(both[1], rel=1e-6)
    assert ours.certificate.gradient_norm < 1e-3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: exact(f.graph, signals=f.signals, noise=1.0, backend="cupy"), "backend"),
        (lambda f: exact(f.graph, signals=f.signals, noise=1.0, backend="auto"), "backend"),
        (lambda f: exact(f.graph, signals=f.signals, noise=1.0, backend="torch", solver="dense"), "backend='scipy'"),
        (lambda f: exact(f.graph, second_moment=np.eye(150), noise=1.0, backend="torch"), "backend='scipy'"),
        (lambda f: blind(f.graph, measurements=f.signals, noise=np.eye(150), backend="torch"), "backend='scipy'"),
        (lambda f: blind(f.graph, measurements=f.signals, noise=0.1, backend=Torch(device="gpu")), "device is 'gpu'"),
        (lambda f: edge(f.graph, signals=f.signals, noise=1.0, backend="petsc"), "exact and blind run on PETSc"),
        (lambda f: edge(f.graph, signals=f.signals, criterion="likelihood", backend="torch"), "needs sparse factors"),
    ],
)
def test_refusals(torch, field, call, words):
    with pytest.raises(InputError, match=words):
        call(field)


@pytest.mark.skipif(importlib.util.find_spec("petsc4py") is not None, reason="petsc4py is installed")
@pytest.mark.parametrize("kind", DESIGNS)
def test_petsc_that_is_not_installed_is_named(field, kind):
    with pytest.raises(MissingDependencyError, match=r"pip install 'nareg\[petsc\]'"):
        DESIGNS[kind](field.graph, **data_of(kind, field), backend="petsc")


@pytest.mark.slow
def test_torch_that_is_not_installed_is_named():
    """And nothing of a design imports torch or PETSc before they are named."""
    script = """
import sys
sys.modules["torch"] = None
import numpy as np, nareg
graph, x = nareg.graphs.grid((3, 3)), np.arange(9.0)
nareg.design.exact(graph, signals=x, noise=1.0, solver="sampled")
assert not {"petsc4py", "mpi4py"} & set(sys.modules)
for design in (nareg.design.exact, nareg.design.edge):
    try:
        design(graph, signals=x, noise=1.0, backend="torch")
    except nareg.errors.MissingDependencyError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == 2 * ["backend='torch' needs torch: pip install 'nareg[torch]'."]
