"""On disk and in memory give the same numbers, whatever is in memory at a time."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg._solvers._disk import streaming
from nareg._solvers.backends import Disk
from nareg._storage import signals
from nareg.errors import InputError, TooLargeError
from nareg.gnn import series
from tests.helpers import at_night

N = 300


def denoise(graph, weights, y, out, *, memory=None, **options):
    return nareg.filters.denoise(graph, weights, y, out=out, backend=Disk(memory), **options)


def propagate(graph, x, out, *, memory=None, **options):
    return nareg.gnn.propagate(graph, x, out=out, backend=Disk(memory), **options)


@pytest.fixture
def memory(monkeypatch):
    """Chunks of a few rows, and memory for so many bytes per node."""
    monkeypatch.setattr(streaming, "CHUNK", 4096)
    monkeypatch.setattr(signals, "ROWS", 37)
    monkeypatch.setattr("nareg._storage.signals.PIECE", 2000)
    return lambda per_node: 4 * 4096 + per_node * N


@pytest.fixture(params=["mesh", "power law", "isolated nodes"])
def graph(request, rng):
    if request.param == "mesh":
        return nareg.graphs.sensor(N, rng=rng)
    if request.param == "power law":
        return nareg.graphs.power_law(N, rng=rng)
    return nareg.graphs.erdos_renyi(N, 0.004, rng=rng)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("per_node", [16, 24, *at_night([40, 200])])
def test_propagation_equals_that_in_memory(graph, rng, tmp_path, memory, dtype, per_node):
    x, weights = rng.standard_normal((N, 5)).astype(dtype), series.neumann_weights(32.0, 16)
    graph.save(tmp_path / "g.graph")
    np.save(tmp_path / "x.npy", x if per_node != 24 else np.asfortranarray(x))
    z = propagate(tmp_path / "g.graph", tmp_path / "x.npy", tmp_path / "z.npy", weights=weights, memory=memory(per_node))
    exact = nareg.gnn.propagate(graph, x.astype(float), weights=weights)
    assert z.dtype == dtype
    assert z.shape == (N, 5)
    assert np.abs(z - exact).max() <= 30 * np.finfo(dtype).eps * np.abs(exact).max()
    assert np.array_equal(z, np.load(tmp_path / "z.npy"))


@pytest.mark.slow
@given(coefficients=st.lists(st.floats(-2, 2), min_size=1, max_size=5), kind=st.sampled_from(["augmented", "normalized"]))
def test_any_polynomial_is_that_of_the_laplacian(coefficients, kind, tmp_path_factory):
    folder = tmp_path_factory.mktemp("polynomial")
    rng = np.random.default_rng(len(coefficients))
    graph = nareg.graphs.erdos_renyi(40, 0.05, rng=rng)
    graph.save(folder / "g.graph")
    x = rng.standard_normal((40, 2))
    A, power, wanted = np.eye(40) - graph.laplacian(kind).toarray(), x, np.zeros_like(x)
    for coefficient in coefficients:
        wanted, power = wanted + coefficient * power, A @ power
    z = propagate(folder / "g.graph", x, folder / "z.npy", weights=coefficients, normalization=kind)
    assert np.allclose(z, wanted, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("per_node", [36, 400, *at_night([44])])
@pytest.mark.parametrize("kind", ["one", "spread", "some zero"])
def test_the_estimate_equals_a_dense_solve(graph, rng, tmp_path, memory, dtype, per_node, kind):
    w = {
        "one": 3.0,
        "spread": 10 ** rng.uniform(-1.5, 2, N),
        "some zero": 10 ** rng.uniform(-1, 1, N) * rng.choice([-1, 0, 1], N),
    }[kind]
    c = None if kind == "one" else 10 ** rng.uniform(-2, 2, N)
    y = rng.standard_normal((N, 5)).astype(dtype)
    y[:, 1] = 0
    y[:, 2] *= 1e-25 if dtype == np.float32 else 1e-200
    graph.save(tmp_path / "g.graph")
    np.save(tmp_path / "y.npy", y)
    solution = denoise(
        tmp_path / "g.graph", w, tmp_path / "y.npy", tmp_path / "x.npy", data_weight=c, tol=1e-10, memory=memory(per_node)
    )
    data_weight, spread = np.broadcast_to(1.0 if c is None else c, N), np.broadcast_to(w, N)
    K = np.diag(data_weight) + spread[:, None] * graph.laplacian().toarray() * spread
    exact = np.linalg.solve(K, data_weight[:, None] * y.astype(float))
    assert solution.status is nareg.results.Status.CONVERGED
    assert solution.residual <= 1e-10
    assert len(solution.residuals) == solution.iterations + 1
    assert solution.x.dtype == dtype
    # of the estimate before it is rounded, times the condition number
    allowed = max(np.finfo(dtype).eps, 1e-10 * np.linalg.cond(K)) * np.abs(exact).max(axis=0)
    assert (np.abs(solution.x - exact) <= allowed).all()


@pytest.mark.slow
@given(data=st.data())
def test_unobserved_nodes_are_filled_in_where_a_dense_solve_can(data, tmp_path_factory):
    """Refused where and only where it is in memory: K is singular, or pulls a part without data to zero."""
    folder, n = tmp_path_factory.mktemp("gaps"), 14
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    graph = nareg.graphs.erdos_renyi(n, 0.12, rng=rng)
    graph.save(folder / "g.graph")
    c = rng.choice([0.0, 1.0, 2.0], n, p=[0.6, 0.2, 0.2])
    w = rng.choice([0.0, 0.7, -1.0, 3.0], n, p=[0.1, 0.3, 0.3, 0.3])
    K = np.diag(c) + w[:, None] * graph.laplacian().toarray() * w
    y = rng.standard_normal((n, 2))

    def solve():
        return denoise(folder / "g.graph", w, y, folder / "x.npy", data_weight=c, tol=1e-12)

    try:
        nareg.filters.denoise(graph, w, y, data_weight=c)
    except InputError:
        with pytest.raises(InputError, match="data_weight is zero on"):
            solve()
        return
    solution = solve()
    assert solution.status.ok
    assert np.allclose(solution.x, np.linalg.solve(K, c[:, None] * y), atol=1e-8)


def test_one_signal_keeps_its_shape(rng, tmp_path):
    graph = nareg.graphs.grid((6, 5))
    graph.save(tmp_path / "g.graph", dtype="float32")
    y = rng.standard_normal(30)
    solution = denoise(tmp_path / "g.graph", 2.0, y, tmp_path / "x.npy", tol=1e-12)
    assert np.allclose(solution.x, nareg.filters.denoise(graph, 2.0, y).x, atol=1e-11)
    assert solution.x.shape == (30,)
    assert propagate(tmp_path / "g.graph", y, tmp_path / "x.npy", weights=[1.0]).shape == (30,)


def test_weights_and_fit_may_be_files(rng, tmp_path):
    graph = nareg.graphs.grid((6, 5))
    graph.save(tmp_path / "g.graph")
    w, c, y = rng.random(30), rng.random(30) + 0.5, rng.standard_normal((30, 2))
    for name, array in (("w", w), ("c", c), ("y", y)):
        np.save(tmp_path / f"{name}.npy", array)
    solution = denoise(
        tmp_path / "g.graph", tmp_path / "w.npy", tmp_path / "y.npy", tmp_path / "x.npy", data_weight=tmp_path / "c.npy"
    )
    assert np.allclose(solution.x, nareg.filters.denoise(graph, w, y, data_weight=c).x, atol=1e-7)


def test_too_few_iterations_are_reported(rng, tmp_path):
    nareg.graphs.grid((20, 15)).save(tmp_path / "g.graph")
    seen = []
    solution = denoise(
        tmp_path / "g.graph",
        30.0,
        rng.standard_normal((N, 2)),
        tmp_path / "x.npy",
        max_iterations=5,
        progress=seen.append,
    )
    assert solution.status is nareg.results.Status.MAX_ITERATIONS
    assert solution.iterations == len(seen) == 5
    assert solution.residual > 1e-3


def test_an_interrupted_solve_leaves_the_older_result_and_no_scratch_files(rng, tmp_path, memory):
    nareg.graphs.grid((20, 15)).save(tmp_path / "g.graph")
    (tmp_path / "x.npy").write_bytes(b"older")

    def interrupt(step):
        if step == 3:
            raise KeyboardInterrupt

    for call in (
        lambda: denoise(
            tmp_path / "g.graph",
            30.0,
            rng.standard_normal((N, 2)),
            tmp_path / "x.npy",
            memory=memory(36),
            progress=lambda report: interrupt(report.step),
        ),
        lambda: propagate(
            tmp_path / "g.graph",
            rng.standard_normal((N, 2)),
            tmp_path / "x.npy",
            weights=[1] * 5,
            memory=memory(16),
            progress=lambda report: interrupt(report.step),
        ),
    ):
        with pytest.raises(KeyboardInterrupt):
            call()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["g.graph", "x.npy"]
        assert (tmp_path / "x.npy").read_bytes() == b"older"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.ones((4, 2))}, r"y has shape \(4, 2\) but the graph has 6 nodes"),
        ({"y": np.full((6, 2), np.nan)}, r"y\[0, 0\] is nan"),
        ({"y": np.ones((6, 2), complex)}, "numbers"),
        ({"y": "absent.npy"}, "which is no file"),
        ({"out": "x.csv"}, "must end in .npy"),
        ({"weights": np.ones(5)}, "weights"),
        ({"weights": np.inf}, "finite"),
        ({"weights": 1e200}, "too large"),
        ({"data_weight": -np.ones(6)}, r"data_weight\[0\] is -1, negative"),
        ({"data_weight": np.zeros(6)}, "holds node 0"),
        ({"data_weight": [1, 1, 1, 0, 0, 0], "weights": [1, 1, 1, 0, 1, 1]}, "holds node 3"),
        ({"data_weight": [1, 1, 1, 1, 0, 0], "weights": [1, 1, 1, 0, 1, 1]}, "holds node 4"),
        ({"tol": 0}, "tol"),
        ({"graph": "absent.graph"}, "is not a graph folder"),
    ],
)
def test_input_that_cannot_work_is_one_sentence(tmp_path, change, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nareg.graphs.grid((6,)).save("g.graph")
    given = {"graph": "g.graph", "weights": 1.0, "y": np.ones((6, 2)), "out": "x.npy", **change}
    with pytest.raises(InputError, match=message):
        denoise(**given)
    assert [path.name for path in tmp_path.iterdir()] == ["g.graph"]


def test_a_design_is_refused_with_the_way_out(tmp_path, rng):
    graph = nareg.graphs.grid((6,))
    graph.save(tmp_path / "g.graph")
    design = nareg.design.node_invariant(graph, measurements=rng.standard_normal((6, 4)), rule="gcv")
    with pytest.raises(InputError, match=r"pass design.weights"):
        denoise(tmp_path / "g.graph", design, np.ones(6), tmp_path / "x.npy")


def test_functions_in_memory_name_the_ones_on_disk(tmp_path):
    nareg.graphs.grid((6,)).save(tmp_path / "g.graph")
    stored = nareg.io.StoredGraph(tmp_path / "g.graph")
    with pytest.raises(InputError, match=r"which filters.denoise takes: pass nareg.Graph.load"):
        nareg.filters.prepare(stored, 1.0)
    with pytest.raises(InputError, match=r"out is None: name the .npy file"):
        nareg.filters.denoise(stored, 1.0, np.ones(6))
    with pytest.raises(InputError, match=r"takes 'auto', 'petsc', Disk"):
        nareg.filters.denoise(stored, 1.0, np.ones(6), out="x.npy", backend="torch")
    with pytest.raises(InputError, match=r"the graph is in memory: omit out"):
        nareg.filters.denoise(nareg.Graph.load(tmp_path / "g.graph"), 1.0, np.ones(6), out="x.npy")
    with pytest.raises(InputError, match=r"backend is Disk, but the graph is in memory"):
        nareg.filters.denoise(nareg.Graph.load(tmp_path / "g.graph"), 1.0, np.ones(6), backend=Disk())


def test_a_series_on_disk_is_the_default_filter(tmp_path, rng):
    graph, x = nareg.graphs.grid((5, 5)), rng.standard_normal((25, 3))
    graph.save(tmp_path / "g.graph")
    for solver in ("neumann", nareg.gnn.Neumann(5, unit_gain=True)):
        z = nareg.gnn.propagate(tmp_path / "g.graph", x, lam=2.0, solver=solver, out=tmp_path / "z.npy")
        np.testing.assert_allclose(z, nareg.gnn.propagate(graph, x, lam=2.0, solver=solver), rtol=1e-12)
    with pytest.raises(InputError, match=r"take Neumann"):
        nareg.gnn.propagate(tmp_path / "g.graph", x, solver="cg", out=tmp_path / "z.npy")


def test_memory_for_less_than_a_column_is_refused_with_the_bytes(tmp_path):
    nareg.graphs.grid((6,)).save(tmp_path / "g.graph")
    with pytest.raises(TooLargeError, match=r"memory is 1000 bytes, but one column at a time needs \d+"):
        propagate(tmp_path / "g.graph", np.ones((6, 1)), tmp_path / "z.npy", weights=[1.0], memory=1000)


def test_inputs_are_never_overwritten(tmp_path):
    nareg.graphs.grid((6,)).save(tmp_path / "g.graph")
    for name in ("y.npy", "w.npy"):
        np.save(tmp_path / name, np.ones(6))
    y, w = tmp_path / "y.npy", tmp_path / "w.npy"
    before = y.read_bytes()
    for source, out in ((y, y), (np.load(y, mmap_mode="r"), y), (y, w)):
        with pytest.raises(InputError, match="is an input too"):
            denoise(tmp_path / "g.graph", w, source, out)
    with pytest.raises(InputError, match="is an input too"):
        propagate(tmp_path / "g.graph", y, y, weights=[1.0])
    assert y.read_bytes() == w.read_bytes() == before


def test_a_weights_file_that_is_not_there(tmp_path):
    nareg.graphs.grid((6,)).save(tmp_path / "g.graph")
    with pytest.raises(InputError, match=r"weights is 'w.npy', which is no file"):
        denoise(tmp_path / "g.graph", "w.npy", np.ones(6), tmp_path / "x.npy")


def test_a_cut_off_signal_file_is_refused(tmp_path):
    nareg.graphs.grid((6,)).save(tmp_path / "g.graph")
    np.save(tmp_path / "y.npy", np.ones((6, 2)))
    (tmp_path / "y.npy").write_bytes((tmp_path / "y.npy").read_bytes()[:-8])
    with pytest.raises(InputError, match="cut off"):
        denoise(tmp_path / "g.graph", 1.0, tmp_path / "y.npy", tmp_path / "x.npy")


@pytest.mark.slow
@pytest.mark.parametrize("task", ["propagate", "denoise"])
def test_arrays_take_no_more_than_the_memory_that_is_allowed(rng, tmp_path, monkeypatch, task):
    n, columns = 40_000, 12
    monkeypatch.setattr(streaming, "CHUNK", 2**15)
    monkeypatch.setattr(signals, "ROWS", 2**9)
    monkeypatch.setattr("nareg._storage.signals.PIECE", 2**14)
    np.save(tmp_path / "x.npy", rng.standard_normal((n, columns)).astype(np.float32))
    nareg.graphs.grid((200, 200)).save(tmp_path / "g.graph", dtype="float32")
    allowed = {"propagate": (8 + 4 * 6) * n, "denoise": (20 + 4 * 6) * n}[task] + 4 * 2**15

    def call():
        paths = tmp_path / "g.graph", tmp_path / "x.npy", tmp_path / "z.npy"
        if task == "propagate":
            propagate(*paths, weights=[0.5, 0.25, 0.25], memory=allowed)
        else:
            denoise(paths[0], 2.0, *paths[1:], tol=1e-6, memory=allowed)

    def traced():
        tracemalloc.start()
        try:
            call()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    call()  # compiled
    data = columns * 4 * n + sum(path.stat().st_size for path in (tmp_path / "g.graph").iterdir())
    # what other threads of the process take meanwhile is counted too
    assert any(traced() < min(1.1 * allowed, 0.6 * data) for _ in range(3))
