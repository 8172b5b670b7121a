"""What cannot work is refused in one sentence that names the argument and the remedy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import nareg
from experiments import _gnn_peers as peers
from experiments import _noise as noise
from nareg.errors import DivergentMethodError, InputError, SolverError
from nareg.gnn import (
    NGC,
    RNGC,
    Adjacency,
    ConjugateGradients,
    Neumann,
    NodeAdaptiveConv,
    Perturbation,
    compare,
    comparison,
    networks,
    propagate,
    series,
    training,
)  # fmt: skip
from nareg.unlearning import CertifiedGPR

G = nareg.graphs.grid((3, 3))
INDEX = torch.tensor(G.to_edge_index()[0])
X = np.random.default_rng(0).standard_normal((9, 4))
Y = np.arange(9) % 3
INDEX_CSR = torch.eye(4).to_sparse_coo()
SPLIT = (np.arange(3), np.arange(3, 6), np.arange(6, 9))
DATA = nareg.datasets.node_classification.synthetic(40, 3, rng=np.random.default_rng(0))


def with_nan(at=(2, 1)):
    x = X.copy()
    x[at] = np.nan
    return x


def fit(x=X, labels=Y, split=SPLIT, graph=G, **more):
    return training.fit(lambda: peers.sgc(4, 3), graph, x, labels, split, rng=np.random.default_rng(0), **more)


def perturbed(graph, x, eps, solver="neumann", **more):
    return propagate(graph, x, perturbation=Perturbation(eps, **more), solver=solver)


BAD = {
    "nan": (lambda: propagate(G, with_nan()), r"x\[2, 1\] is nan.*finite"),
    "nan tensor": (lambda: propagate(G, torch.tensor(with_nan())), r"x\[2, 1\] is nan.*finite"),
    "nan in a layer": (lambda: NGC(4, 2).double()(torch.tensor(with_nan()), INDEX), r"x\[2, 1\] is nan"),
    "nan in training": (lambda: fit(with_nan()), r"features\[2, 1\] is nan"),
    "sparse features": (lambda: propagate(G, sp.csr_array(X)), "x is a sparse matrix.*toarray"),
    "sparse tensor": (lambda: propagate(G, torch.tensor(X).to_sparse()), "x is a sparse tensor.*to_dense"),
    "half": (lambda: propagate(G, torch.tensor(X).half()), r"dtype torch.float16.*x.float\(\)"),
    "one dimension": (lambda: propagate(G, torch.tensor(X[:, 0])), r"shape \(9,\)"),
    "out of range": (lambda: propagate(torch.tensor([[0, 12], [12, 0]]), X), "edge_index holds node 12, out of range.*9 nodes"),
    "negative": (lambda: propagate(torch.tensor([[0, -1], [-1, 0]]), X), "edge_index holds node -1"),
    "directed": (lambda: propagate(torch.tensor([[0, 1, 2], [1, 0, 3]]), X), "directed: .* node 2 to 3.*symmetrize=True"),
    "directed layer": (lambda: NGC(4, 2).double()(torch.tensor(X), torch.tensor([[0], [1]])), "graph is directed"),
    "twice": (lambda: propagate(torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]]), X), "twice.*coalesce"),
    "float index": (lambda: propagate(torch.zeros(2, 3), X), "edge_index has shape"),
    "weights": (lambda: Adjacency(INDEX, edge_weight=torch.ones(3)), "edge_weight has 3 entries for 24 edges: pass one"),
    "negative weight": (lambda: Adjacency(INDEX, edge_weight=-torch.ones(24)), "weight -1.*must not be negative"),
    "nan weight": (lambda: propagate(sp.csr_array(np.full((9, 9), np.nan)), X), "weight nan"),
    "gradient": (lambda: Adjacency(INDEX, edge_weight=torch.ones(24, requires_grad=True)), "detach"),
    "weights twice": (lambda: Adjacency(G, edge_weight=np.ones(24)), "edge_weight goes with edge_index only"),
    "hidden direction": (lambda: Adjacency(hub()), "the weight from node 2 to 3"),
    "prepared otherwise": (lambda: other_normalization(), "prepared with 'sym'"),
    "no nodes": (lambda: Adjacency(sp.csr_array((0, 0))), "graph has no nodes"),
    "sparse gradient": (lambda: Adjacency(INDEX_CSR.requires_grad_()), "graph.detach"),
    "array into a layer": (lambda: NGC(4, 2)(X, INDEX), "x is a ndarray, a tensor is expected"),
    "precision": (lambda: NGC(4, 2)(torch.tensor(X), INDEX), "x has dtype torch.float64 but the layer torch.float32"),
    "one column": (lambda: NodeAdaptiveConv(4, 2, n_nodes=9).denoise(G, torch.tensor(X[:, 0])), "shape"),
    "dropout": (lambda: peers.mlp(4, 3, dropout=1.5), "dropout is 1.5"),
    "peer order": (lambda: peers.sgc(4, 3, order=-1), "order is -1"),
    "peer alpha": (lambda: peers.ssgc(4, 3, alpha=5.0), "alpha is 5.0"),
    "nan likeness": (lambda: peers.cosine(G, with_nan(), 0.1), r"features\[2, 1\] is nan"),
    "tolerance": (lambda: series.products_needed(1.0, 0.0, "neumann"), "tol is 0.0"),
    "before": (lambda: fit(split=(*SPLIT[:2], [-1, 7])), "holds node -1, out of range"),
    "another size": (lambda: propagate(nareg.graphs.grid((2, 2)), X), "graph has 4 nodes but x has 9 rows"),
    "another size, prepared": (lambda: propagate(Adjacency(nareg.graphs.grid((2, 2))), X), "graph has 4 nodes but x has 9"),
    "not square": (lambda: Adjacency(sp.csr_array((2, 3))), r"shape \(2, 3\)"),
    "normalization": (lambda: Adjacency(G, normalization="left"), "normalization is 'left'"),
    "random walk in memory": (
        lambda: propagate(G, X, normalization="rw"), r"normalization is 'rw', .* in memory: pass nareg.gnn.Adjacency\(graph",
    ),
    "normalized in memory": (lambda: propagate(INDEX, X, normalization="normalized"), "normalization is 'normalized', but the"),
    "backend in memory": (lambda: propagate(G, X, backend="petsc"), "backend is 'petsc', but the graph is in memory: omit"),
    "data weights": (
        lambda: NodeAdaptiveConv(4, 2, weights=nareg.design.exact(G, signals=X, noise=np.arange(1.0, 10), data_weight="noise")),
        "designed with data_weight, which the layer does not have: design without data_weight",
    ),
    "likeness of edge_index": (
        lambda: nareg.gnn.similarity_weighted(INDEX, X), r"graph is a Tensor: pass .* nareg.Graph.from_edge_index\(",
    ),
    "solver": (lambda: propagate(G, X, solver="lu"), "solver is 'lu'"),
    "lam": (lambda: propagate(G, X, lam=-1.0), "lam is -1.0"),
    "no solver": (lambda: propagate(G, X, solver=1e-3), "solver is a float: pass 'neumann'"),
    "two orders": (lambda: NGC(4, 2, order=8, solver=Neumann(4)), r"order is 8 but solver is Neumann\(order=4, "),
    "no strength": (lambda: networks.FilteredNetwork(4, 3, solver="cg"), "lam is missing"),
    "a network's factor": (
        lambda: networks.FilteredNetwork(4, 3, lam=1.0, perturbation=Perturbation(1.0, factor=X)), "leave factor out",
    ),
    "order": (lambda: Neumann(order=1.5), "order is 1.5"),
    "tol": (lambda: ConjugateGradients(tol=0), "tol is 0"),
    "eps": (lambda: Perturbation(-0.1), "eps is -0.1"),
    "random walk": (lambda: perturbed(Adjacency(G, normalization="rw"), X, 0.1, solver="cg"), "normalization='sym'"),
    "masked chebyshev": (lambda: perturbed(G, X, 0.1, masked=True, solver="chebyshev"), "solver='cg'"),
    "factor": (lambda: perturbed(G, X, 0.1, factor=X[:3]), "factor has shape"),
    "no weights": (lambda: propagate(G, X, weights=[]), "weights is empty"),
    "width": (lambda: NGC(5, 2).double()(torch.tensor(X), INDEX), "x has 4 features but the layer takes 5"),
    "channels": (lambda: RNGC(0, 2), "in_channels is 0"),
    "nodes missing": (lambda: NodeAdaptiveConv(4, 2), "n_nodes is missing"),
    "groups": (lambda: NodeAdaptiveConv(4, 2, n_nodes=9, groups=[0, 1]), "groups has 2 labels for 9 nodes"),
    "bounds": (lambda: NodeAdaptiveConv(4, 2, n_nodes=9, lam=1.0, lower=2.0), "lam = 1 is not above lower = 2"),
    "weights and nodes": (lambda: NodeAdaptiveConv(4, 2, n_nodes=9, weights=np.ones(9)), "weights is given: omit n_nodes"),
    "weights for others": (
        lambda: NodeAdaptiveConv(4, 2, weights=np.ones(5)).double()(torch.tensor(X), INDEX),
        "weights for 5 nodes but x has 9 rows",
    ),
    "edge design": (
        lambda: NodeAdaptiveConv(4, 2, weights=nareg.design.edge(G, signals=X, noise=0.5)),
        "edge design",
    ),
    "device": (lambda: training.Protocol(device="tpu0"), "device is 'tpu0'"),
    "rule": (lambda: training.Protocol(selection="best"), "selection is 'best'"),
    "no label": (lambda: fit(labels=np.where(Y == 2, -1, Y)), "node 2 of the train part has no label"),
    "float labels": (lambda: fit(labels=Y.astype(float)), "labels has shape"),
    "two parts": (lambda: fit(split=SPLIT[:2]), "split is not three parts"),
    "overlap": (lambda: fit(split=(SPLIT[0], SPLIT[0], SPLIT[2])), "in two parts of the split"),
    "empty": (lambda: fit(split=([], *SPLIT[1:])), "the train part of the split has shape"),
    "beyond": (lambda: fit(split=(*SPLIT[:2], [9])), "holds node 9, out of range"),
    "too many classes": (lambda: fit(labels=np.arange(9)), "labels holds class 8 but the network has 3 outputs"),
    "seed": (lambda: training.fit(lambda: peers.sgc(4, 3), G, X, Y, SPLIT, rng=0), "rng is 0"),
    "rows": (lambda: noise.normalize_rows(X, "max"), "how is 'max'"),
    "probability": (lambda: noise.flip(X, 1.5, np.random.default_rng(0)), "probability is 1.5"),
    "rank": (lambda: fit_low_rank(), "rank is 9 for 9 nodes"),
    "series": (lambda: series.products_needed(1.0, 1e-3, "cg"), "solver is 'cg'"),
    "no runs": (lambda: comparison.summarize([]), "values is empty"),
    "one run": (lambda: comparison.paired([1.0], [2.0]), "two or more runs"),
    "weights with a gradient": (
        lambda: NodeAdaptiveConv(4, 3, weights=torch.ones(9, requires_grad=True)),
        r"weights requires a gradient, which is not computed in it: pass weights\.detach\(\)",
    ),
    "no models": (lambda: compare(DATA, {}), "models is empty"),
    "no data set": (lambda: compare(G, {"linear": torch.nn.Linear}), "data is a Graph: pass a NodeClassification"),
    "no split": (lambda: compare(replace(DATA, splits=()), {"linear": torch.nn.Linear}), "data has no split"),
    "no module": (lambda: compare(DATA, {"none": lambda f, c: None}), "built as a NoneType"),
    "damaged cache": (lambda: damaged(), "is damaged: delete it"),
    "edges of a walk": (lambda: fit_edges(), "prepare the adjacency with normalization='sym'"),
}  # fmt: skip


def hub():
    """A directed edge beside a pair so heavy that no norm of the whole matrix shows it."""
    return sp.csr_array(([1e7, 1e7, 1.0], ([0, 1, 2], [1, 0, 3])), shape=(4, 4))


def other_normalization():
    networks.FilteredNetwork(4, 3, lam=1.0, normalization="rw").prepare(Adjacency(G), torch.tensor(X))


def damaged():
    with TemporaryDirectory() as folder:
        for _ in range(2):
            compare(DATA, {"linear": torch.nn.Linear}, runs=1, protocol=training.Protocol(epochs=1), cache=folder)
            (file,) = Path(folder).iterdir()
            file.write_text("{")


def fit_edges():
    return training.fit(lambda: NGC(4, 3), Adjacency(G, normalization="rw"), X, Y, SPLIT, rng=np.random.default_rng(0))


def fit_low_rank():
    training.fit(lambda: peers.LowRankGCN(4, 3, rank=9), G, X, Y, SPLIT, rng=np.random.default_rng(0))


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_refused_with_a_sentence(name):
    call, said = BAD[name]
    with pytest.raises(InputError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there():
    with pytest.raises(InputError, match=r"device is 'cuda' but torch sees no CUDA GPU"):
        training.Protocol(device="cuda")


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_a_series_that_diverges_is_refused_and_cg_is_not(kind):
    # one row outweighs all others, as signed-sum rows do: the perturbation is nearly -eps at one node
    x = X.copy()
    x[4] *= 1e3
    M = Adjacency(G).matrix.toarray() - 3 * (x @ x.T) / np.linalg.norm(x @ x.T)
    assert np.linalg.eigvalsh(M)[0] < -2
    with pytest.raises(DivergentMethodError, match=r"eps = 3 and lam = 32 make .* diverge.*solver='cg'"):
        perturbed(G, kind(x), 3.0)
    with pytest.raises(DivergentMethodError, match="diverge"):
        perturbed(Adjacency(G, normalization="rw"), kind(x), 3.0)
    result = perturbed(G, kind(x), 3.0, solver=ConjugateGradients(1e-10))
    np.testing.assert_allclose(result, np.linalg.solve(33 * np.eye(9) - 32 * M, x), atol=1e-6)


def test_series_that_converge_are_not_refused(rng):
    """The check is sharp: c times the spectral radius below one passes, above it does not."""
    A = Adjacency(G)
    outcomes = set()
    for eps in np.linspace(0.1, 3, 40):
        M = A.matrix.toarray() - eps * (X @ X.T) / np.linalg.norm(X @ X.T)
        radius = 32 / 33 * np.abs(np.linalg.eigvalsh(M)).max()
        if abs(radius - 1) < 0.005:  # within the accuracy of the eigenvalue
            continue
        outcomes.add(radius < 1)
        if radius < 1:
            perturbed(A, X, eps)
        else:
            with pytest.raises(DivergentMethodError):
                perturbed(A, X, eps)
    assert outcomes == {True, False}


def test_masked_perturbations_that_make_the_system_indefinite():
    # ones on a path of three: the masked x x^T has the eigenvalue 1 - sqrt(2)
    path = nareg.graphs.grid((3,))
    with pytest.raises(DivergentMethodError, match="eps = 50 with masked=True makes the system indefinite"):
        perturbed(path, np.ones((3, 1)), 50.0, masked=True, solver="cg")


def test_zero_rows_isolated_nodes_and_zero_features_have_a_right_answer():
    x = X.copy()
    x[3] = 0
    lonely = nareg.Graph(sp.csr_array((9, 9)))
    np.testing.assert_allclose(propagate(lonely, x, lam=4.0, solver=ConjugateGradients(1e-10)), x, atol=1e-8)
    np.testing.assert_array_equal(perturbed(G, np.zeros((9, 2)), 1.0), 0)
    for masked in (False, True):
        assert propagate(G, x[:, :0], lam=2.0, perturbation=Perturbation(0.1, masked=masked)).shape == (9, 0)
    assert np.isfinite(perturbed(G, noise.normalize_rows(x), 0.1)).all()
    net = networks.FilteredNetwork(4, 3, lam=2.0)
    run = training.fit(lambda: net, lonely, x, Y, SPLIT, rng=np.random.default_rng(0), protocol=training.Protocol(epochs=3))
    assert 0 <= run.test_accuracy <= 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_node_weights_that_diverged_are_named(value):
    layer = NodeAdaptiveConv(4, 2, n_nodes=9).double()
    torch.nn.init.constant_(layer.theta, value)
    with pytest.raises(SolverError, match="node weight is not finite: the training that learns it has diverged"):
        layer(torch.from_numpy(X), G)


@pytest.mark.parametrize(
    "of",
    [lambda x: x.bfloat16(), lambda x: torch.complex(x, -x).conj().imag, lambda x: torch.complex(x, x).conj().real],
    ids=["bfloat16", "negative bit", "conjugate"],
)
def test_tensors_that_numpy_cannot_view_are_copied(of):
    x = torch.from_numpy(X)
    model = CertifiedGPR(rng=np.random.default_rng(0)).fit(G, of(x), Y, np.arange(9))
    expected = CertifiedGPR(rng=np.random.default_rng(0)).fit(G, of(x).float().numpy(force=True), Y, np.arange(9))
    np.testing.assert_allclose(model.coefficients, expected.coefficients, rtol=1e-4)


@pytest.mark.parametrize("unit", [1e-170, 1e100, 1e170])
def test_similarities_do_not_depend_on_the_unit(unit):
    expected, graph = (nareg.gnn.similarity_weighted(G, X * scale) for scale in (1.0, unit))
    np.testing.assert_allclose(graph.adjacency.toarray(), expected.adjacency.toarray(), rtol=1e-12)
    assert nareg.gnn.similarity_weighted(G, X[:, :0] * unit).n_edges == 0


def test_a_strength_that_rounding_does_not_allow_is_refused():
    with pytest.raises(InputError, match="rounding in float32 destroys the filter"):
        propagate(G, X.astype(np.float32), lam=1e8, solver="chebyshev")
    with pytest.raises(InputError, match=r"rounding in torch\.float32 destroys the filter"):
        propagate(G, torch.from_numpy(X).float(), lam=1e8, solver="chebyshev")
    assert np.isfinite(propagate(G, X, lam=1e8, solver="chebyshev")).all()


def test_directed_graphs_are_symmetrized_when_asked():
    index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    A = Adjacency(index, edge_weight=torch.tensor([1.0, 2.0, 3.0]), symmetrize=True)
    np.testing.assert_array_equal(A.raw.toarray(), [[0, 1, 3], [1, 0, 2], [3, 2, 0]])
