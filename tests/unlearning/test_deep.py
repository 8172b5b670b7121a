"""Perceptrons on lazily propagated embeddings."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

import nareg
from experiments._unlearning_perceptron import DeepUpdate, TrainedFurther
from nareg.errors import InputError
from nareg.unlearning import DeepGPR, UnlearningTask, evaluate
from tests.unlearning import reference

BASES = ["gpr", "chebyshev"]


@pytest.fixture
def data(rng):
    return nareg.datasets.node_classification.synthetic(200, 3, n_features=8, rng=rng)


def accuracy(model, data):
    nodes = np.setdiff1d(np.arange(150, 200), np.setdiff1d(np.arange(200), model.remaining))
    return (model.predict(nodes) == data.labels[nodes]).mean()


@pytest.mark.slow
@pytest.mark.parametrize("basis", BASES)
def test_it_learns_and_goes_on_after_requests(basis, data, rng):
    model = TrainedFurther(basis=basis, weights=3, rng=rng).fit(data.graph, data.features, data.labels, np.arange(150))
    assert accuracy(model, data) > 0.7
    A, X = data.graph.adjacency.toarray(), data.features.astype(float)
    pairs = np.argwhere(np.triu(A))[:20]
    certificate = model.remove_edges(pairs)
    assert isinstance(certificate, DeepUpdate)
    assert (certificate.request, certificate.count, sorted(certificate.timings)) == (
        "remove_edges",
        20,
        ["propagation", "training"],
    )
    model.remove_nodes([0, 1, 160])
    model.add_nodes(X[:2], labels=data.labels[:2])
    assert accuracy(model, data) > 0.7
    A[pairs[:, 0], pairs[:, 1]] = A[pairs[:, 1], pairs[:, 0]] = 0
    A[[0, 1, 160]] = A[:, [0, 1, 160]] = 0
    new = X[:2].copy()
    X[[0, 1, 160]] = 0
    A, X = np.pad(A, (0, 2)), np.concatenate([X, new])
    for power, rows in enumerate(model._data.propagation.powers()):
        weights = np.eye(4)[power]
        np.testing.assert_allclose(rows, reference.embedding(A, X, weights), atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("basis", BASES)
def test_a_newton_step_lowers_the_residual(basis, data, rng):
    """The step and the residual beside autograd's, in double precision with the Gauss-Newton matrix formed."""
    import torch

    from experiments import _gauss_newton

    model = TrainedFurther(
        basis=basis, weights=2, hidden=6, dropout=0.0, weight_decay=1e-2, epochs=400, update="newton", rng=rng
    )
    model.fit(data.graph, data.features, data.labels, np.arange(150))
    unchanged = deepcopy(model._network)
    done = model.remove_nodes(np.arange(20))
    assert done.residual < 0.9 * done.residual_before
    assert done.residual == pytest.approx(_residual(model._network, model), rel=1e-4)
    assert done.residual_before == pytest.approx(_residual(unchanged, model), rel=1e-4)
    network = unchanged.double()
    inputs, targets = _inputs(model)
    objective = _gauss_newton.Objective(network.eval(), inputs.double(), targets, 1e-2, {})
    parameters = {name: p.detach() for name, p in network.named_parameters()}
    sizes = [p.numel() for p in parameters.values()]

    def scores(flat):
        parts = flat.split(sizes)
        named = {name: part.view_as(p) for part, (name, p) in zip(parts, parameters.items(), strict=True)}
        return torch.func.functional_call(network, named, (inputs.double(),))

    flat = torch.cat([p.ravel() for p in parameters.values()])
    J = torch.autograd.functional.jacobian(scores, flat)
    p = scores(flat).softmax(1)
    H = (torch.diag_embed(p) - p[:, :, None] * p[:, None, :]) / len(p)
    G = torch.einsum("kca,kcd,kdb->ab", J, H, J) + (1e-2 + 0.5) * torch.eye(flat.numel(), dtype=torch.float64)
    v = torch.randn(flat.numel(), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    named = {name: part.view_as(q) for part, (name, q) in zip(v.split(sizes), parameters.items(), strict=True)}
    times = objective.curvature(parameters, 0.5)(named)
    torch.testing.assert_close(torch.cat([part.ravel() for part in times.values()]), G @ v)
    solved = _gauss_newton._solve(objective.curvature(parameters, 0.5), named)
    error = torch.cat([part.ravel() for part in solved.values()]) - torch.linalg.solve(G, v)
    assert error.norm() < 1e-2 * v.norm()


def _inputs(model):
    import torch

    data = model._data
    targets = torch.as_tensor(np.searchsorted(data.classes, data.labels[data.train]))
    return model._inputs(data.propagation, data.train), targets


def _residual(network, model, noise=None):
    import torch

    network = deepcopy(network).eval()
    inputs, targets = _inputs(model)
    decay = sum((p * p).sum() for p in network.parameters())
    loss = torch.nn.functional.cross_entropy(network(inputs), targets) + model.weight_decay / 2 * decay
    if noise is not None:
        loss = loss + sum((noise[name] * p).sum() for name, p in network.named_parameters()) / len(targets)
    loss.backward()
    return float(sum((p.grad**2).sum() for p in network.parameters()) ** 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("update", ["epochs", "newton"])
def test_the_noise_term_of_the_paper_is_kept_and_certifies_nothing(update, data):
    """Gradients with and without it differ by B / n_t, n_t the training nodes of the moment; both updates follow the term."""
    import torch

    options = {"dropout": 0.0, "weight_decay": 1e-2, "epochs": 400, "update": update, "hidden": 6}
    model = TrainedFurther(**options, alpha=2.0, rng=np.random.default_rng(0))
    model.fit(data.graph, data.features, data.labels, np.arange(150))
    noise = {name: part.clone() for name, part in model._noise.items()}
    sizes = torch.cat([part.ravel() for part in noise.values()])
    assert abs(float(sizes.std()) - 2) < 0.4
    done = model.remove_nodes(np.arange(20))
    assert isinstance(done, DeepUpdate)
    assert 0 < done.residual < done.residual_before
    torch.testing.assert_close(model._noise, noise)
    assert done.residual == pytest.approx(_residual(model._network, model, noise), rel=1e-4)
    # without the term the gradient at the same parameters is longer: they balance it
    assert _residual(model._network, model) > 2 * done.residual
    plain = TrainedFurther(**options, rng=np.random.default_rng(0)).fit(data.graph, data.features, data.labels, np.arange(150))
    assert np.abs(plain.weights_vector() - model.weights_vector()).max() > 0.01
    # who knows the seed knows the term: the default is not that of the other models
    first, second = (TrainedFurther(alpha=1.0)._rng.integers(2**62) for _ in range(2))
    assert first != second


@pytest.mark.slow
def test_more_epochs_lower_the_residual_of_a_request(data, rng):
    model = TrainedFurther(dropout=0.0, epochs=300, rng=rng).fit(data.graph, data.features, data.labels, np.arange(150))
    done = model.remove_nodes(np.arange(20))
    assert 0 < done.residual < done.residual_before


@pytest.mark.slow
def test_the_chebyshev_weights_interpolate(data, rng):
    """At the Chebyshev nodes the learned polynomial has the values gamma."""
    model = TrainedFurther(basis="chebyshev", weights=4, rng=rng).fit(data.graph, data.features, data.labels, np.arange(150))
    gamma = rng.uniform(0.1, 1, 5)
    powers = model._network.mixing.double().numpy() @ gamma  # in P = -x
    nodes = np.cos((np.arange(5) + 0.5) * np.pi / 5)
    values = sum(c * (-nodes) ** power for power, c in enumerate(powers))
    np.testing.assert_allclose(values, gamma, atol=1e-6)


@pytest.mark.slow
def test_the_seed_decides_and_the_global_state_is_left_alone(data):
    import torch

    torch.manual_seed(5)
    first = torch.rand(1)
    torch.manual_seed(5)
    scores = [
        TrainedFurther(epochs=3, rng=np.random.default_rng(7))
        .fit(data.graph, data.features, data.labels, np.arange(150))
        .decision()
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*scores)
    assert torch.equal(torch.rand(1), first)


def test_ctrl_c_leaves_model_and_data_as_they_were(data, rng, monkeypatch):
    torch = pytest.importorskip("torch")
    model = TrainedFurther(epochs=5, rng=rng).fit(data.graph, data.features, data.labels, np.arange(150))
    before, Z, embedding = model.decision(), model.embedding(), deepcopy(model._optimizer.state_dict())
    step, calls = torch.optim.Adam.step, []

    def interrupted(optimizer, *_):
        step(optimizer)
        calls.append(1)
        if len(calls) % 3 == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(torch.optim.Adam, "step", interrupted)
    unfitted = TrainedFurther(epochs=5, rng=rng)
    for act in (
        lambda: model.remove_nodes([4, 5]),
        lambda: model.fit(data.graph, data.features, data.labels, np.arange(120)),
        lambda: unfitted.fit(data.graph, data.features, data.labels, np.arange(150)),
    ):
        with pytest.raises(KeyboardInterrupt):
            act()
    assert len(calls) == 9
    np.testing.assert_allclose(model.embedding(), Z, atol=1e-12)
    np.testing.assert_allclose(model.decision(), before, atol=1e-5)
    np.testing.assert_array_equal(model.train, np.arange(150))
    for number, stored in model._optimizer.state_dict()["state"].items():
        assert all(torch.equal(stored[name], embedding["state"][number][name]) for name in stored)
    with pytest.raises(InputError, match="not fitted"):
        unfitted.predict()


def test_learned_weights_are_not_given():
    with pytest.raises(InputError, match='basis="chebyshev" learns them: pass their number'):
        TrainedFurther(basis="chebyshev", weights=[0.5, 0.5])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [(TrainedFurther, {"basis": "gpr"}), (TrainedFurther, {"basis": "chebyshev", "weights": 3}), (DeepGPR, {})],
    ids=["gpr", "chebyshev", "last"],
)
def test_the_yardstick_asks_it_about_other_data(kind, options, data):
    """Scores on a graph of its own are those of its embedding there, and evaluate compares it with its retraining."""

    def fitted(graph, features, labels, train):
        model = kind(**options, hidden=8, epochs=30, rng=np.random.default_rng(1))
        return model.fit(graph, features, labels, train, classes=task.classes)

    labels, train, test = data.labels, np.arange(150), np.arange(150, 200)
    task = UnlearningTask(data.graph, data.features, labels, train, test, np.arange(0, 10))
    before, model = (fitted(task.graph, task.features, labels, train) for _ in range(2))
    np.testing.assert_allclose(model.decision_on(data.graph, data.features), model.decision(), atol=1e-5)
    np.testing.assert_array_equal(model.decision_on(data.graph, data.features), before.decision_on(data.graph, data.features))
    first = model.weights_vector()
    model.remove_nodes(task.removed)
    graph, features, *_ = task.remaining()
    np.testing.assert_allclose(model.decision_on(graph, features)[test], model.decision(test), atol=1e-5)
    assert np.abs(model.weights_vector() - first).max() > 0
    result = evaluate(model, task, before=before, retrained=fitted(*task.remaining()))
    assert result.accuracy > 0.6
    assert result.weight_distance["l2"] > 0
    assert evaluate(model, task, before=before, retrained=model).fidelity == 1
    with pytest.raises(InputError, match="features has 7 columns but the model was fitted to 8"):
        model.decision_on(data.graph, data.features[:, :7])
