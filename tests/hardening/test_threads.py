"""Pure functions called from eight threads at once give what one thread gives."""

from __future__ import annotations

import gc
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import nareg
from nareg import design, filters, gnn, spacetime, spectral
from nareg._storage import array_files
from tests.hardening.calls import CALLS
from tests.hardening.problems import problem
from tests.spacetime import reference

THREADS = 8
#: Of the table: what computes in NumPy, SciPy, numba, cvxpy and torch, and in caches. Training draws from torch's generator,
#: which a process has one of.
NAMES = [name for name in CALLS if not name.startswith(("gnn.", "estimators.SpaceTime")) and name != "spacetime.fit"]
NAMES += ["gnn.propagate", "gnn.similarity_weighted", "gnn.Adjacency"]
PROBLEMS = [problem(seed, 8, 6) for seed in range(THREADS)]


@pytest.fixture(autouse=True)
def one_thread_of_blas():
    """Eight times as many as the machine has cores would wait for each other."""
    with threadpool_limits(1):
        yield


def together(calls):
    """What each call returns, all begun at once."""
    barrier = threading.Barrier(len(calls))

    def run(call):
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(run, call) for call in calls]]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nareg.errors.AmplificationWarning")
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.nightly if CALLS[n].costly else ()) for n in NAMES])
def test_calls_do_not_disturb_each_other(name):
    """Each thread has a problem of its own: a buffer that two of them shared would mix these."""
    call = CALLS[name]
    alone = [call.run(p) for p in PROBLEMS]
    for values, expected in zip(together([lambda p=p: call.run(p) for p in PROBLEMS]), alone, strict=True):
        for key, value in values.items():
            np.testing.assert_allclose(value.array, expected[key].array, rtol=1e-9, atol=1e-12, err_msg=key)


def fresh() -> nareg.Graph:
    """A graph with nothing in its caches."""
    return nareg.graphs.sensor(120, rng=np.random.default_rng(0))


G = fresh()
Y = np.random.default_rng(1).standard_normal((120, THREADS))


def shared(make, *uses):
    """One object, whose lazy parts eight threads ask for at once, against one that a single thread uses."""
    for _ in range(2):  # threads do not always meet
        thing, other = make(), make()
        calls = [partial(uses[k % len(uses)], thing) for k in range(THREADS)]
        expected = [np.asarray(use(other)) for use in uses]
        for k, found in enumerate(together(calls)):
            np.testing.assert_allclose(np.asarray(found), expected[k % len(uses)], rtol=1e-9, atol=1e-12)


def test_a_graphs_laplacians_and_components():
    kinds = ("combinatorial", "normalized", "augmented", "random-walk")
    shared(fresh, *(lambda g, kind=kind: g.laplacian(kind).toarray() for kind in kinds), lambda g: g.components)


@pytest.mark.slow
def test_a_prepared_filter():
    for method in ("direct", "cg", "multigrid"):
        shared(
            lambda method=method: filters.prepare(fresh(), 1.0, method=method),
            lambda f: f.denoise(Y).x,
            lambda f: f.denoise(2 * Y).x,
        )


def test_a_prepared_filter_of_gaps():
    observed = np.random.default_rng(2).random(Y.shape) < 0.8
    shared(lambda: filters.prepare(fresh(), 1.0), lambda f: f.interpolate(Y, observed).x, lambda f: f.denoise(Y).x)


def test_a_designs_matrix():
    noise = np.full(120, 0.5)
    designs = [design.node_invariant(G, rule="oracle", signals=Y, noise=noise) for _ in range(2)]
    shared(lambda: designs[0], lambda d: d.matrix.toarray(), lambda d: filters.denoise(G, d, Y).x)


def test_a_filter_banks_basis():
    kernels = [lambda x: 1 / (1 + x), lambda x: np.exp(-x)]
    shared(
        lambda: spectral.FilterBank(fresh(), kernels),
        lambda b: b.analyze(Y), lambda b: b.analyze(Y, method="exact"), lambda b: b.basis.frequencies,
    )  # fmt: skip


def test_an_adjacency_of_graph_networks():
    x = Y.astype(np.float64)
    shared(
        lambda: gnn.Adjacency(fresh()),
        lambda a: gnn.propagate(a, x),
        lambda a: gnn.propagate(a, x, solver="chebyshev"),
        lambda a: gnn.propagate(a, x, solver="cg"),
    )


@pytest.fixture
def hasty():
    """Threads that take turns a thousand times as often."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["NGC", "RNGC", "GATConv", "Unfolded"])
@pytest.mark.usefixtures("hasty")
def test_a_layer_on_changing_graphs(name):
    """A layer keeps its last graph, and what it derives from it: each thread has others, small ones, again and again."""
    torch = pytest.importorskip("torch")
    from experiments._convolutions import GATConv
    from experiments._unfolded import Unfolded

    layers = {
        "NGC": lambda: gnn.NGC(THREADS, 3), "RNGC": lambda: gnn.RNGC(THREADS, 3, eps=0.5),
        "GATConv": lambda: GATConv(THREADS, 3), "Unfolded": lambda: Unfolded(8, attention=True),
    }  # fmt: skip
    layer = layers[name]()
    graphs = [nareg.graphs.grid((2, 3 + seed)) for seed in range(THREADS // 2)] * 2
    rows = [torch.as_tensor(Y[k : k + g.n_nodes], dtype=torch.float32) for k, g in enumerate(graphs)]
    with torch.no_grad():
        alone = [layer(x, g) for x, g in zip(rows, graphs, strict=True)]
        for _ in range(60):
            calls = [lambda x=x, g=g: layer(x, g) for x, g in zip(rows, graphs, strict=True)]
            for found, expected in zip(together(calls), alone, strict=True):
                torch.testing.assert_close(found, expected)


def test_a_space_time_model():
    def make() -> spacetime.SpaceTimeModel:
        return reference.network(n=6, T=30)

    y = make().readings
    shared(
        make,
        lambda m: m.smooth().x,
        lambda m: m.smooth(y + 1).x,
        lambda m: m.smooth().std,
        lambda m: m.stream().update(y[:, 0]).x,
        lambda m: m.scores(),
    )


def test_a_graph_on_disk(tmp_path):
    G.save(tmp_path / "g.graph")
    np.save(tmp_path / "y.npy", Y)
    stored = nareg.io.StoredGraph(tmp_path / "g.graph")
    outs = [tmp_path / f"x{k}.npy" for k in range(THREADS)]
    together([lambda out=out: filters.denoise(stored, np.ones(120), tmp_path / "y.npy", out=out) for out in outs])
    expected = filters.denoise(G, np.ones(120), Y).x
    for out in outs:
        np.testing.assert_allclose(np.load(out), expected, atol=1e-6)


class Phoenix:
    """A circle that lets other threads run whenever the garbage collector finds it, and rises again."""

    rises = True

    def __init__(self):
        self.itself = self

    def __del__(self):
        time.sleep(0)
        if Phoenix.rises:
            Phoenix()


def test_headers_of_arrays(tmp_path):
    """Python 3.11 fails where a thread parses a header while garbage is collected in the parser of another."""
    np.save(tmp_path / "y.npy", Y)
    np.savez(tmp_path / "y.npz", Y=Y)

    def read():
        for _ in range(20):
            array_files.map_npy(tmp_path / "y.npy")
            array_files.read_npz(tmp_path / "y.npz")

    usual = gc.get_threshold()
    gc.set_threshold(1)
    Phoenix()
    try:
        together([read] * THREADS)
    finally:
        Phoenix.rises = False
        gc.set_threshold(*usual)
