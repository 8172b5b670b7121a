"""Half precision and autocast: the linear layer rounds, the filter does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nareg
from nareg.errors import InputError
from nareg.gnn import NGC, RNGC, ConjugateGradients, NodeAdaptiveConv

N = 50
GRAPH = nareg.graphs.sensor(N, rng=np.random.default_rng(0))
INDEX = torch.tensor(GRAPH.to_edge_index()[0])
X = torch.randn(N, 6, generator=torch.Generator().manual_seed(0))
LAYERS = {
    "NGC": lambda out: NGC(6, out),
    "NGC solved": lambda out: NGC(6, out, solver=ConjugateGradients(1e-5)),
    "RNGC": lambda out: RNGC(6, out, lam=4.0, eps=0.2),
    "RNGC exact": lambda out: RNGC(6, out, lam=4.0, eps=0.2, solver="chebyshev"),
    "NodeAdaptiveConv": lambda out: NodeAdaptiveConv(6, out, n_nodes=N),
}
each_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
#: Of bfloat16: eight bits of a number
CLOSE = {"atol": 2e-2, "rtol": 2e-2}


@each_layer
@pytest.mark.parametrize("out", [3, 9])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layers_in_half_precision(make, out, dtype):
    torch.manual_seed(0)
    layer = make(out).to(dtype)
    x = X.to(dtype).requires_grad_()
    result = layer(x, INDEX)
    result.float().sin().sum().backward()
    assert {result.dtype, x.grad.dtype, layer.weight.grad.dtype} == {dtype}
    reference = make(out).double()
    reference.load_state_dict(layer.state_dict())
    y = x.detach().double().requires_grad_()
    expected = reference(y, INDEX)
    expected.sin().sum().backward()
    torch.testing.assert_close(result.double(), expected, **CLOSE)
    torch.testing.assert_close(x.grad.double(), y.grad, **CLOSE)


@each_layer
@pytest.mark.parametrize("out", [3, 9])
@pytest.mark.parametrize("within", [False, True])
def test_autocast(make, out, within):
    """With the backward pass outside of it, where torch wants it, and within."""
    torch.manual_seed(0)
    layer = make(out)
    expected = layer(X, INDEX)
    gradient = torch.autograd.grad(expected.sin().sum(), layer.weight)[0]
    with torch.autocast("cpu", torch.bfloat16):
        result = layer(X, INDEX)
        loss = result.float().sin().sum()
        if within:
            loss.backward()
    if not within:
        loss.backward()
    assert result.dtype == torch.bfloat16
    assert layer.weight.grad.dtype == torch.float32
    torch.testing.assert_close(result.float(), expected, **CLOSE)
    # sums of N rounded terms
    size = float(gradient.abs().max())
    assert float((layer.weight.grad - gradient).abs().max()) < 2e-2 * max(size, 1)


@each_layer
def test_the_filter_itself_is_not_rounded(make):
    """The filter in front of W is that of float32, whatever surrounds it: only the last product is rounded."""
    layer = make(9)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(6, 9))
    expected = layer(X, INDEX)
    with torch.autocast("cpu", torch.bfloat16):
        result = layer(X, INDEX)
    torch.testing.assert_close(result[:, :6], expected[:, :6].bfloat16(), atol=0, rtol=2**-7)


def test_features_of_two_precisions_go_with_autocast_only():
    layer = NGC(6, 3)
    with pytest.raises(InputError, match=r"x has dtype torch\.bfloat16 but the layer torch\.float32"):
        layer(X.bfloat16(), INDEX)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(X.bfloat16(), INDEX).dtype == torch.bfloat16


def test_double_precision_stays():
    layer = NGC(6, 3).double()
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(X.double(), INDEX).dtype == torch.float64


def test_two_devices():
    with pytest.raises(InputError, match=r"x is on cpu but the layer on meta: move one, say layer.to\(x.device\)"):
        NGC(6, 3).to("meta")(X, INDEX)
    with pytest.raises(InputError, match="graph is a meta tensor"):
        NGC(6, 3)(X, INDEX.to("meta"))
    with pytest.raises(InputError, match="x is a meta tensor"):
        NGC(6, 3)(X.to("meta"), INDEX)
