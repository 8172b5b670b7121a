"""Networks that unlearn: their loss, the influence of what is removed, and what a request may not change."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

import nareg
from nareg.errors import InputError, SolverError
from nareg.unlearning import UnlearningTask, evaluate

torch = pytest.importorskip("torch")

from experiments import _unlearning_influence as influence  # noqa: E402
from experiments import _unlearning_mutual as mutual  # noqa: E402
from experiments import _unlearning_network as network  # noqa: E402
from experiments._unlearning_influence import GIF, IDEA  # noqa: E402
from experiments._unlearning_mutual import MEGU  # noqa: E402
from experiments._unlearning_network import RetrainedGCN  # noqa: E402

KINDS = [RetrainedGCN, GIF, IDEA, MEGU]


@pytest.fixture
def data(rng):
    return nareg.datasets.node_classification.synthetic(60, 3, n_features=5, rng=rng)


def fitted(kind, data, seed=1, **options):
    options = {"hidden": 4, "epochs": 50, "rng": np.random.default_rng(seed)} | options
    return kind(**options).fit(data.graph, data.features, data.labels, np.arange(40))


def dense(A, X, weights):
    """Logits of the definition, differentiable."""
    loops = torch.as_tensor(A + np.eye(len(A)))
    scale = loops.sum(dim=1) ** -0.5
    P = scale[:, None] * loops * scale
    W1, b1, W2, b2 = weights
    return P @ (torch.relu(P @ torch.as_tensor(X) @ W1 + b1) @ W2) + b2


def flat_loss(A, X, shapes, nodes, labels):
    """Sum of cross-entropies as a function of all weights in one vector."""

    def loss(vector):
        parts = torch.split(vector, [int(np.prod(shape)) for shape in shapes])
        scores = dense(A, X, [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)])
        return torch.nn.functional.cross_entropy(scores[nodes], torch.as_tensor(labels)[nodes], reduction="sum")

    return loss


def removed_from(data, nodes):
    A, X = data.graph.adjacency.toarray().astype(float), data.features.astype(float).copy()
    B = A.copy()
    B[nodes], B[:, nodes] = 0, 0
    Y = X.copy()
    Y[nodes] = 0
    return A, X, B, Y


def test_logits_are_those_of_dense_matrices_before_and_after(data):
    model = fitted(RetrainedGCN, data)
    A, X, B, Y = removed_from(data, [3, 4])
    np.testing.assert_allclose(model.decision(), dense(A, X, model._weights).numpy(), atol=1e-12)
    np.testing.assert_allclose(model.decision_on(B, Y), dense(B, Y, model._weights).numpy(), atol=1e-12)
    model.remove_nodes([3, 4])
    np.testing.assert_allclose(model.decision(), dense(B, Y, model._weights).numpy(), atol=1e-12)


@pytest.mark.nightly
def test_gif_is_the_exact_influence_where_the_series_converges(data):
    """With a Hessian that is positive definite and enough terms: against a dense Hessian and the definition of the gradient."""
    removed = np.array([3, 4])
    model = fitted(GIF, data, iterations=4000, weight_decay=0.3)
    before, shapes = model._weights, [tuple(value.shape) for value in model._weights]
    A, X, B, Y = removed_from(data, removed)
    w = torch.cat([value.ravel() for value in before])
    train = np.arange(40)
    loss = flat_loss(A, X, shapes, train, data.labels)
    H = torch.autograd.functional.hessian(loss, w) + 0.3 * train.size * torch.eye(w.numel(), dtype=torch.float64)
    assert torch.linalg.eigvalsh(H)[0] > 0
    far = np.linalg.matrix_power(A + np.eye(60), 3)[removed].sum(axis=0) == 0
    changed = np.setdiff1d(np.flatnonzero(~far), removed)
    changed = changed[changed < 40]
    jacobian = torch.autograd.functional.jacobian
    g = (
        jacobian(flat_loss(A, X, shapes, np.concatenate([removed, changed]), data.labels), w)
        - jacobian(flat_loss(B, Y, shapes, changed, data.labels), w)
    )  # fmt: skip
    expected = w + torch.linalg.solve(H, g)
    model.remove_nodes(removed)
    np.testing.assert_allclose(model.weights_vector(), expected.numpy(), atol=1e-8)
    assert np.abs(expected.numpy() - w.numpy()).max() > 1e-3


def test_damping_and_scale_are_those_of_the_series(rng):
    M = rng.standard_normal((6, 6))
    H = torch.as_tensor(M @ M.T)
    v = torch.as_tensor(rng.standard_normal(6))

    def product(vector):
        return (H @ vector[0],)

    scale = 1.5 * float(torch.linalg.eigvalsh(H)[-1])
    (solved,) = influence.inverse_times(product, (v,), iterations=2000, damping=0.1, scale=scale)
    np.testing.assert_allclose(solved, torch.linalg.solve(H + 0.1 * scale * torch.eye(6), v), atol=1e-10)
    (one,) = influence.inverse_times(product, (v,), iterations=1, damping=0.1, scale=scale)
    np.testing.assert_allclose(one, (v + 0.9 * v - H @ v / scale) / scale, atol=1e-14)
    assert influence.largest_curvature(product, (v,)) == pytest.approx(float(torch.linalg.eigvalsh(H)[-1]), rel=0.1)


@pytest.mark.slow
def test_idea_is_gif_with_noise(data):
    models = {kind: fitted(kind, data) for kind in (GIF, IDEA)}
    none = fitted(IDEA, data, noise=0.0)
    for model in (*models.values(), none):
        model.remove_nodes([3, 4])
    np.testing.assert_array_equal(models[GIF].weights_vector(), none.weights_vector())
    added = models[IDEA].weights_vector() - models[GIF].weights_vector()
    assert 0.7e-2 < added.std() < 1.3e-2


@pytest.mark.slow
def test_megus_weight_draws_removed_nodes_from_their_predictions_and_far_ones_stay(data):
    """Asked about without their edges, as they are while they are unlearned."""
    first = fitted(MEGU, data).predict()
    _, X, B, _ = removed_from(data, [3, 4])
    losses = []
    for weight in (0.0, 0.05):
        model = fitted(MEGU, data, weight=weight)
        model.remove_nodes([3, 4])
        scores = torch.as_tensor(model.decision_on(B, X)[[3, 4]])
        losses.append(float(torch.nn.functional.cross_entropy(scores, torch.as_tensor(first[[3, 4]]))))
        assert (model.predict(np.arange(5, 60)) == first[5:]).mean() > 0.8
    assert losses[1] > losses[0]


def test_two_hops_are_those_of_the_graph(data):
    A = data.graph.adjacency.toarray()
    inputs = network.NetworkInputs.of(data.graph.adjacency, data.features.astype(float))
    expected = np.flatnonzero(np.linalg.matrix_power(A + np.eye(60), 2)[[3]].sum(axis=0))
    np.testing.assert_array_equal(mutual.within_two_hops(inputs.P, np.array([3])), expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_all_requests_are_answered_and_the_seed_decides(kind, data):
    results = []
    for _ in range(2):
        model = fitted(kind, data)
        pairs = np.argwhere(np.triu(data.graph.adjacency.toarray()))[:3]
        answer = model.remove_edges(pairs)
        assert (answer.request, answer.count, sorted(answer.timings)) == ("remove_edges", 3, ["propagation", "training"])
        model.remove_features([7])
        model.remove_nodes([0, 1])
        assert np.isfinite(model.decision()).all()
        assert set(model.predict()) <= {0, 1, 2}
        results.append(model.weights_vector())
    np.testing.assert_array_equal(*results)


@pytest.mark.slow
def test_retraining_is_fitting_the_remaining_data(data):
    task = UnlearningTask(data.graph, data.features, data.labels, np.arange(40), np.arange(40, 60), [3, 4])
    model, anew = fitted(RetrainedGCN, data), RetrainedGCN(hidden=4, epochs=50, rng=np.random.default_rng(1))
    before = fitted(RetrainedGCN, data)
    model.remove_nodes([3, 4])
    graph, X, y, train = task.remaining()
    anew.fit(graph, X, y, train)
    np.testing.assert_allclose(model.weights_vector(), anew.weights_vector(), atol=1e-10)
    assert evaluate(model, task, before=before, retrained=anew).fidelity == 1


@pytest.mark.slow
def test_a_copy_forgets_by_itself(data):
    model = fitted(GIF, data)
    before, other = model.decision(), deepcopy(model)
    other.remove_nodes([3, 4])
    np.testing.assert_array_equal(model.decision(), before)
    assert np.abs(other.decision() - before).max() > 1e-3


def test_an_interrupted_request_changes_nothing(data, monkeypatch):
    model = fitted(GIF, data)
    before = model.decision()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(influence, "inverse_times", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.remove_nodes([3, 4])
    np.testing.assert_array_equal(model.decision(), before)
    np.testing.assert_array_equal(model.train, np.arange(40))
    assert model.labels[3] == data.labels[3]


@pytest.mark.slow
def test_steps_that_diverge_are_an_error_and_change_nothing(data):
    model = fitted(MEGU, data, steps=300, weight=1.0, step_size=1.0)
    before = model.decision()
    with pytest.raises(SolverError, match="MEGU diverged, and nothing was changed"):
        model.remove_nodes([3, 4])
    np.testing.assert_array_equal(model.decision(), before)


def test_options_that_cannot_work_are_refused():
    with pytest.raises(InputError, match='a number above 0 or "auto"'):
        GIF(scale="large")
    with pytest.raises(InputError, match="noise is -1"):
        IDEA(noise=-1)
    with pytest.raises(InputError, match="step_size is 0"):
        MEGU(step_size=0)
