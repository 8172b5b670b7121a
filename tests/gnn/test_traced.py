"""torch.compile and torch.export: one graph without a break, the results and gradients of the layers themselves."""

from __future__ import annotations

import gc
import io
import subprocess
import sys

import numpy as np
import pytest
import torch

import nareg
from nareg.errors import InputError
from nareg.gnn import NGC, RNGC, Adjacency, Chebyshev, ConjugateGradients, Neumann, NodeAdaptiveConv, _traced
from tests.helpers import at_night

N = 40
GRAPH = nareg.graphs.sensor(N, rng=np.random.default_rng(0))
INDEX, WEIGHT = (torch.tensor(part) for part in GRAPH.to_edge_index())
PREPARED = Adjacency(GRAPH)
CG, CHEBYSHEV = ConjugateGradients(1e-11), Chebyshev(1e-11)


def ngc(out, **more):
    return NGC(5, out, lam=4.0, **more)


def rngc(out, eps=0.2, **more):
    return RNGC(5, out, lam=4.0, eps=eps, **more)


LAYERS = {
    "NGC": lambda out: ngc(out),
    "NGC chebyshev": lambda out: ngc(out, solver=CHEBYSHEV),
    "NGC of unit gain": lambda out: ngc(out, solver=Neumann(16, unit_gain=True)),
    "NGC cg": lambda out: ngc(out, solver=CG),
    "NGC random walk": lambda out: ngc(out, normalization="rw"),
    "NGC cg random walk": lambda out: ngc(out, solver=CG, normalization="rw"),
    "RNGC": lambda out: rngc(out),
    "RNGC chebyshev": lambda out: rngc(out, solver=CHEBYSHEV),
    "RNGC of unit gain": lambda out: rngc(out, solver=Neumann(16, unit_gain=True)),
    "RNGC cg": lambda out: rngc(out, solver=CG),
    "RNGC masked": lambda out: rngc(out, masked=True),
    "RNGC masked cg": lambda out: rngc(out, masked=True, solver=CG, eps=0.1),
    "RNGC random walk": lambda out: rngc(out, normalization="rw", eps=0.1),
    "node-adaptive": lambda out: NodeAdaptiveConv(5, out, n_nodes=N, tol=1e-11),
    "node-adaptive, combinatorial": lambda out: NodeAdaptiveConv(
        5, out, n_nodes=N, lam=2.0, laplacian="combinatorial", tol=1e-11
    ),
}
GRAPHS = {"edge_index": (INDEX,), "learned weights": (INDEX, WEIGHT.clone().requires_grad_()), "prepared": (PREPARED,)}
#: Every operator and its gradient, without the minutes of a C++ compiler.
traced = pytest.fixture(lambda: lambda module: torch.compile(module, fullgraph=True, backend="aot_eager"))


#: What older releases cannot trace, or say in other words; layers run there all the same.
needs_current_torch = pytest.mark.skipif(
    tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 13), reason="compiled code is tested with torch 2.13"
)


@pytest.fixture(autouse=True)
def forget_compiled_code():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def features(dtype=torch.float64) -> torch.Tensor:
    return torch.randn(N, 5, dtype=dtype, generator=torch.Generator().manual_seed(1))


def run(module, layer, x, graph):
    layer.zero_grad()
    x = x.clone().requires_grad_()
    graph = tuple(g.detach().clone().requires_grad_() if getattr(g, "requires_grad", False) else g for g in graph)
    out = module(x, *graph)
    out.sin().sum().backward()
    leaves = [x, *layer.parameters(), *(g for g in graph if getattr(g, "requires_grad", False))]
    return [out.detach(), *(leaf.grad for leaf in leaves)]


#: Of every layer one in each run, by turns; all others at night.
CASES = [(name, out, graph) for name in LAYERS for out in (3, 9) for graph in GRAPHS]
DAILY = [(name, *[(3, "edge_index"), (9, "learned weights")][i % 2]) for i, name in enumerate(LAYERS)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "out", "graph"), [*DAILY, *at_night(case for case in CASES if case not in DAILY)])
def test_results_and_gradients_are_those_of_the_layer(name, out, graph, traced):
    torch.manual_seed(0)
    layer = LAYERS[name](out).double()
    expected = run(layer, layer, features(), GRAPHS[graph])
    for theirs, ours in zip(expected, run(traced(layer), layer, features(), GRAPHS[graph]), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("out", [3, 9])
def test_features_without_a_gradient(out, traced):
    torch.manual_seed(0)
    for layer in (ngc(out), rngc(out), NodeAdaptiveConv(5, out, n_nodes=N)):
        results = []
        for module in (layer, traced(layer)):
            layer.zero_grad()
            module(features(torch.float32), INDEX).square().sum().backward()
            results.append(layer.weight.grad.clone())
        torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize(
    "call",
    [
        lambda: (
            _traced.graph_filter,
            (features(), features(), INDEX, WEIGHT, -1, True, "sym", False, 4.0, "neumann", 3, 0.0, 0.2, False),
        ),
        lambda: (
            _traced.graph_filter,
            (features(), None, INDEX, None, -1, False, "rw", False, 4.0, "cg", 0, 1e-12, 0.0, False),
        ),
        lambda: (
            _traced.node_adaptive_filter,
            (features(), WEIGHT.new_ones(N), INDEX, WEIGHT, None, None, -1, True, False, "augmented", 1e-12),
        ),
    ],
)  # fmt: skip
def test_operators_keep_torch_s_rules(call):
    """Schema, fake tensors, and autograd's registration, by torch's own test."""
    operator, arguments = call()
    arguments = tuple(
        a.clone().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in arguments
    )
    torch.library.opcheck(operator, arguments, test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


@pytest.mark.slow
@pytest.mark.parametrize("layer", [lambda: ngc(3), *at_night([lambda: rngc(3), lambda: NodeAdaptiveConv(5, 3, n_nodes=N)])])
def test_inductor_compiles_without_a_warning(layer, tmp_path):
    """The whole way, in a process of its own, where every line of output would be seen."""
    code = f"""
import numpy as np, torch, nareg
from nareg.gnn import NGC, RNGC, NodeAdaptiveConv
graph = nareg.graphs.sensor({N}, rng=np.random.default_rng(0))
index, x = torch.tensor(graph.to_edge_index()[0]), torch.ones({N}, 5)
layer = {layer()!r}
"""
    module = layer()
    made = {"NGC": "NGC(5, 3, lam=4.0)", "RNGC": "RNGC(5, 3, lam=4.0, eps=0.2)"}.get(type(module).__name__)
    code = (
        code.replace(repr(module), made or f"NodeAdaptiveConv(5, 3, n_nodes={N})")
        + """
compiled = torch.compile(layer, fullgraph=True)
results = []
for module in (layer, compiled):
    layer.zero_grad()
    out = torch.relu(module(x, index))
    out.sum().backward()
    results.append((out.detach(), layer.weight.grad.clone()))
torch.testing.assert_close(results[0], results[1])
print("same")
"""
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "same\n"
    assert done.stderr == ""


DENOISER = nareg.filters.prepare(nareg.graphs.grid((6, 7)), 0.7, method="cg")
SEEN = np.arange(42) % 5 > 0
UNFOLD = nareg.herta.Unfold(nareg.graphs.grid((6, 7)), lam=3.0)


@needs_current_torch
@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch looks at it where its graph breaks
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda g, x: nareg.filters.denoise(g, 0.7, x).x, marks=pytest.mark.slow),
        pytest.param(lambda g, x: nareg.filters.denoise(g, 0.7, x, method="cg").x, marks=pytest.mark.slow),
        pytest.param(lambda g, x: nareg.filters.interpolate(g, 0.7, x, SEEN).x, marks=pytest.mark.slow),
        pytest.param(lambda g, x: DENOISER.denoise(x).x, marks=pytest.mark.slow),
        pytest.param(lambda g, x: nareg.gnn.propagate(g, x, lam=3.0, solver="chebyshev"), marks=pytest.mark.slow),
        pytest.param(lambda g, x: UNFOLD(x), marks=pytest.mark.slow),
    ],
)
def test_what_the_compiler_cannot_follow_runs_as_it_is(function):
    grid, x = nareg.graphs.grid((6, 7)), torch.randn(42, 3, dtype=torch.float64, requires_grad=True)
    out = torch.compile(lambda x: function(grid, x.sin()) * 2, backend="eager")(x)
    expected = function(grid, x.sin()) * 2
    torch.testing.assert_close(out, expected)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2  # what is before it and what is behind it
    (gradient,), (right,) = torch.autograd.grad(out.sum(), x), torch.autograd.grad(expected.sum(), x)
    torch.testing.assert_close(gradient, right)


@pytest.mark.slow
def test_values_are_checked_when_compiled_code_runs(traced):
    compiled, x = traced(ngc(3)), features(torch.float32)
    compiled(x, INDEX)
    x[2, 1] = torch.nan
    with pytest.raises(InputError, match=r"x\[2\] holds a value that is not finite.*fill or drop"):
        compiled(x, INDEX)
    with pytest.raises(InputError, match="graph is directed"):
        compiled(features(torch.float32), INDEX[:, 1:])


@pytest.mark.slow
def test_a_graph_is_prepared_once_and_again_when_it_changes(traced, monkeypatch):
    from nareg.gnn import adjacency

    count, read = [], adjacency.read
    monkeypatch.setattr(adjacency, "read", lambda *a: count.append(1) or read(*a))
    layer, index, weight = ngc(3), INDEX.clone(), WEIGHT.float().clone()
    compiled, x = traced(layer), features(torch.float32)
    for _ in range(3):
        compiled(x, index, weight).sum().backward()
    assert len(count) == 1
    weight.mul_(torch.where(index.sum(0) == int(index[:, 0].sum()), 3.0, 1.0))
    torch.testing.assert_close(compiled(x, index, weight), layer(x, index.clone(), weight.clone()))


@pytest.mark.slow
def test_graphs_that_are_gone_are_forgotten(traced):
    _traced._adjacencies._values.clear()  # what other tests left may still be referenced
    compiled, x = traced(ngc(3)), features(torch.float32)
    for _ in range(3):
        compiled(x, INDEX.clone())
        gc.collect()
    compiled(x, INDEX)
    assert sum(key[0].reference() is not None for key, _ in _traced._adjacencies._values) <= 3
    assert len(_traced._adjacencies._values) <= _traced._adjacencies.SIZE


@pytest.mark.slow
@needs_current_torch
def test_many_prepared_graphs_do_not_compile_many_times(traced):
    layer = ngc(3)
    compiled, x = traced(layer), features(torch.float32)
    kept = [Adjacency(nareg.graphs.sensor(N, rng=np.random.default_rng(seed))) for seed in range(12)]
    for adjacency in kept:
        torch.testing.assert_close(compiled(x, adjacency), layer(x, adjacency))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 3


@pytest.mark.slow
def test_a_design_is_checked_in_compiled_code(traced):
    clean = features()
    design = nareg.design.exact(GRAPH, signals=clean.numpy(), noise=0.3)
    layer = NodeAdaptiveConv(5, 3, weights=design).double()
    compiled = traced(layer)
    torch.testing.assert_close(compiled(clean, INDEX, WEIGHT), layer(clean, INDEX, WEIGHT))
    with pytest.raises(InputError, match="not designed for the combinatorial Laplacian"):
        compiled(clean, INDEX, 2 * WEIGHT)


@pytest.mark.slow
def test_autocast_and_half_precision(traced):
    layer, x = ngc(3), features(torch.float32)
    compiled = traced(layer)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(compiled(x, INDEX), layer(x, INDEX))
    layer = rngc(9).bfloat16()
    torch.testing.assert_close(traced(layer)(x.bfloat16(), INDEX), layer(x.bfloat16(), INDEX))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("layer", [lambda: ngc(3), lambda: rngc(3)])
@pytest.mark.slow
def test_exported_for_graphs_of_any_size_saved_and_loaded(layer, strict):
    module, x = layer(), features(torch.float32)
    shapes = {"x": {0: torch.export.Dim("nodes")}, "edge_index": {1: torch.export.Dim("edges")}}
    program = torch.export.export(module, (x, INDEX), dynamic_shapes=shapes, strict=strict)
    stored = io.BytesIO()
    torch.export.save(program, stored)
    stored.seek(0)
    loaded = torch.export.load(stored).module()
    other = nareg.graphs.sensor(25, rng=np.random.default_rng(1))
    index, y = torch.tensor(other.to_edge_index()[0]), torch.randn(25, 5, generator=torch.Generator().manual_seed(0))
    for graph, given in ((INDEX, x), (index, y)):
        torch.testing.assert_close(loaded(given, graph), module(given, graph))


@needs_current_torch
def test_node_adaptive_layers_are_exported_for_their_nodes():
    layer, x = NodeAdaptiveConv(5, 3, n_nodes=N), features(torch.float32)
    program = torch.export.export(layer, (x, INDEX))
    torch.testing.assert_close(program.module()(x, INDEX), layer(x, INDEX))


class WithItsGraph(torch.nn.Module):
    """A module that keeps its graph: a number in this process, which a file would outlive."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = ngc(3)

    def forward(self, x):
        return self.layer(x, PREPARED)


@needs_current_torch
def test_what_cannot_be_traced_is_said():
    x = features(torch.float32)
    with pytest.raises(InputError, match="an Adjacency cannot be exported: pass edge_index"):
        torch.export.export(WithItsGraph(), (x,), strict=False)
    # torch wraps what is refused while it traces
    with pytest.raises(torch._dynamo.exc.Unsupported, match="in_channels is -1: call the layer once on features"):
        torch.compile(NGC(-1, 3), fullgraph=True, backend="eager")(x, INDEX)
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"take edge_index or .* an Adjacency: pass one"):
        torch.compile(ngc(3), fullgraph=True, backend="eager")(x, GRAPH)
