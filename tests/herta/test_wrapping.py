from __future__ import annotations

import numpy as np
import pytest
import torch

import nareg
from nareg import herta
from nareg.errors import InputError
from nareg.results import Status
from tests.herta.helpers import best_cross_entropy, best_squared, fit, problem, propagated

LAM = 3.0


@pytest.fixture
def task(rng):
    """Ill-conditioned features, the propagated ones, targets, training nodes, and the smallest squared error."""
    graph, X, labels, train = problem(rng, n=300, d=12)
    X = X @ np.diag(10.0 ** np.linspace(-3, 3, 12))
    Y = np.eye(3)[labels]
    F = propagated(graph, X, LAM)
    return graph, X, torch.as_tensor(F), torch.as_tensor(Y), train, best_squared(F[train], Y[train])


def test_the_preconditioner_is_the_hessian_within_a_constant(task, rng):
    graph, X, F, _, train, _ = task
    G = (F[train].T @ F[train]).numpy()
    for how, most in (("exact", 1.2), ("sketched", 12.0)):
        P = herta.precondition(graph, X, lam=LAM, train=train, how=how, rng=rng)
        R = P.root(torch.eye(12, dtype=torch.float64)).numpy()
        values = np.linalg.eigvalsh(R.T @ G @ R)
        assert values[-1] / values[0] < most
        assert 0.5 * values[-1] / values[0] < P.condition <= 1.01 * values[-1] / values[0]
        np.testing.assert_allclose(R @ R.T, P.solve(torch.eye(12, dtype=torch.float64)).numpy(), rtol=1e-4)
        inner = torch.as_tensor(rng.standard_normal((12, 2)))
        assert torch.allclose(P.unroot(P.root(inner)), inner, rtol=1e-6)


@pytest.mark.parametrize("linear", [True, False])
def test_gradient_descent_in_a_users_loop_takes_newton_steps(task, linear):
    graph, X, F, Y, train, best = task
    P = herta.precondition(graph, X, lam=LAM, train=train, how="exact")
    layer = torch.nn.Linear(12, 3, bias=False, dtype=torch.float64)
    W = layer.weight if linear else torch.nn.Parameter(layer.weight.detach().T.clone())
    optimizer = herta.Preconditioned(torch.optim.SGD([W], lr=0.9), P)
    for _ in range(15):
        optimizer.zero_grad()
        loss = 0.5 * ((F[train] @ (W.T if linear else W) - Y[train]) ** 2).sum()
        loss.backward()
        optimizer.step()
    W = W.detach().T if linear else W.detach()
    assert 0.5 * float(((F[train] @ W - Y[train]) ** 2).sum()) == pytest.approx(best, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "steps", "accuracy"),
    [
        (lambda p: torch.optim.Adam(p, lr=0.3), 400, 1e-4),
        (lambda p: torch.optim.LBFGS(p, max_iter=20, line_search_fn="strong_wolfe"), 3, 1e-6),
        (lambda p: torch.optim.SGD(p, lr=0.3, momentum=0.5, nesterov=True), 60, 1e-4),
    ],
)
def test_any_optimizer_converges_in_preconditioned_coordinates_only(task, build, steps, accuracy):
    graph, X, F, Y, train, best = task
    P = herta.precondition(graph, X, lam=LAM, train=train)
    reached = {}
    for name in ("plain", "preconditioned"):
        W = torch.nn.Parameter(torch.zeros(12, 3, dtype=torch.float64))
        # without a preconditioner only a tiny step does not diverge
        plain = build([W])
        optimizer = herta.Preconditioned(plain, P) if name == "preconditioned" else plain

        def closure(W=W, optimizer=optimizer):
            optimizer.zero_grad()
            loss = 0.5 * ((F[train] @ W - Y[train]) ** 2).sum()
            loss.backward()
            return loss

        for _ in range(steps):
            optimizer.step(closure)
        reached[name] = 0.5 * float(((F[train] @ W.detach() - Y[train]) ** 2).sum())
    assert reached["preconditioned"] == pytest.approx(best, rel=accuracy)
    assert not reached["plain"] < 1.01 * best


def test_it_equals_training_the_inner_weights_by_hand(task):
    """Adam on W' with W = R W', written out."""
    graph, X, F, Y, train, _ = task
    P = herta.precondition(graph, X, lam=LAM, train=train)
    W, inner = (torch.nn.Parameter(torch.zeros(12, 3, dtype=torch.float64)) for _ in range(2))
    wrapped, by_hand = herta.Preconditioned(torch.optim.Adam([W], lr=0.1), P), torch.optim.Adam([inner], lr=0.1)
    for _ in range(10):
        wrapped.zero_grad()
        ((F[train] @ W - Y[train]) ** 2).sum().backward()
        wrapped.step()
        by_hand.zero_grad()
        ((F[train] @ P.root(inner) - Y[train]) ** 2).sum().backward()
        by_hand.step()
    scale = W.detach().abs().amax(1, keepdim=True)
    assert torch.allclose(W.detach() / scale, P.root(inner.detach()) / scale, atol=1e-7)


def test_other_parameters_schedulers_and_outside_changes_are_left_alone(task):
    graph, X, F, Y, train, _ = task
    P = herta.precondition(graph, X, lam=LAM, train=train)
    layer = torch.nn.Linear(12, 3, dtype=torch.float64)
    inner = torch.optim.SGD(layer.parameters(), lr=0.1)
    optimizer, schedule = herta.Preconditioned(inner, P), torch.optim.lr_scheduler.StepLR(inner, 1, 0.5)
    with torch.no_grad():
        layer.weight.zero_()
    before = layer.bias.detach().clone()
    (0.5 * ((layer(F[train]) - Y[train]) ** 2).sum()).backward()
    bias_gradient, gradient = layer.bias.grad.clone(), layer.weight.grad.clone()
    optimizer.step()
    schedule.step()
    assert torch.allclose(layer.bias.detach(), before - 0.1 * bias_gradient, rtol=1e-12)
    assert torch.equal(layer.weight.grad, gradient)
    assert optimizer.param_groups[0]["lr"] == 0.05
    step = -0.1 * P.solve(gradient.T).T
    assert torch.allclose(layer.weight.detach(), step, rtol=1e-6)
    with torch.no_grad():
        layer.weight.copy_(2 * step)  # somebody loads other weights
    optimizer.zero_grad()
    (layer.weight.sum() * 0).backward()
    optimizer.step()
    assert torch.allclose(layer.weight.detach(), 2 * step, rtol=1e-6)
    optimizer.load_state_dict(optimizer.state_dict())


def test_what_cannot_work_is_refused(task):
    graph, X, _, _, train, _ = task
    P = herta.precondition(graph, X, lam=LAM, train=train)
    W, other = torch.nn.Parameter(torch.zeros(12, 3)), torch.nn.Parameter(torch.zeros(4, 3))
    optimizer = torch.optim.SGD([W], lr=0.1)
    with pytest.raises(InputError, match=r"optimizer is 'adam': pass an optimizer of torch\.optim"):
        herta.Preconditioned("adam", P)
    with pytest.raises(InputError, match=r"preconditioner is a NoneType .* pass herta\.precondition"):
        herta.Preconditioned(optimizer, None)
    with pytest.raises(InputError, match=r"parameters of shapes \(4, 3\) do not fit a preconditioner for 12 features"):
        herta.Preconditioned(torch.optim.SGD([other], lr=0.1), P)
    with pytest.raises(InputError, match="parameters holds one that is not in optimizer"):
        herta.Preconditioned(optimizer, P, [other])
    with pytest.raises(InputError, match="how is 'rough'; choose one of"):
        herta.precondition(graph, X, lam=LAM, how="rough")
    with pytest.raises(InputError, match="train is empty"):
        herta.precondition(graph, X, lam=LAM, train=[])


@pytest.mark.slow
def test_the_graph_network_layers_train_with_it(rng):
    """Two more lines in a loop with a library layer."""
    graph, X, labels, train = problem(rng, n=200, d=6)
    X = torch.as_tensor(X @ np.diag(10.0 ** np.arange(6)))
    layer = torch.nn.Linear(6, 3, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(layer.weight)
    optimizer = herta.Preconditioned(
        torch.optim.Adam(layer.parameters(), lr=0.2), herta.precondition(graph, X, lam=LAM, train=train)
    )
    y, losses = torch.as_tensor(labels[train]), []
    for _ in range(100):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            nareg.gnn.propagate(graph, layer(X), lam=LAM, solver=nareg.gnn.ConjugateGradients(1e-8))[train], y
        )
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    best = fit(graph, X, labels, lam=LAM, train=train, loss="ce").loss / len(train)
    assert losses[-1] == pytest.approx(best, rel=1e-3)


def test_an_interrupted_closure_leaves_the_weights_alone(task):
    graph, X, _, _, train, _ = task
    W = torch.nn.Parameter(torch.ones(12, 3, dtype=torch.float64))
    optimizer = herta.Preconditioned(torch.optim.LBFGS([W]), herta.precondition(graph, X, lam=LAM, train=train))

    def closure():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimizer.step(closure)
    assert torch.allclose(W, torch.ones_like(W), rtol=1e-6)


def test_gradients_stay_the_models_own(task):
    """After a closure too: a user who clips or logs them sees those of W."""
    graph, X, F, Y, train, _ = task
    W = torch.nn.Parameter(torch.zeros(12, 3, dtype=torch.float64))
    optimizer = herta.Preconditioned(torch.optim.SGD([W], lr=0.1), herta.precondition(graph, X, lam=LAM, train=train))
    expected = -F[train].T @ Y[train]

    def closure():
        optimizer.zero_grad()
        loss = 0.5 * ((F[train] @ W - Y[train]) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert torch.allclose(W.grad, expected, rtol=1e-6)


def test_without_a_gradient_nothing_moves(task):
    graph, X, F, Y, train, _ = task
    W = torch.nn.Parameter(torch.zeros(12, 3, dtype=torch.float64))
    optimizer = herta.Preconditioned(torch.optim.Adam([W], lr=0.1), herta.precondition(graph, X, lam=LAM, train=train))
    (0.5 * ((F[train] @ W - Y[train]) ** 2).sum()).backward()
    optimizer.step()
    before = W.detach().clone()
    optimizer.zero_grad()
    optimizer.step()
    assert torch.equal(W.detach(), before)


def test_a_decay_of_the_optimizer_is_refused(task):
    graph, X, _, _, train, _ = task
    P = herta.precondition(graph, X, lam=LAM, train=train)
    W, bias = torch.nn.Parameter(torch.zeros(12, 3)), torch.nn.Parameter(torch.zeros(3))
    with pytest.raises(InputError, match=r"optimizer has weight_decay=0\.01, which would act in preconditioned coordinates"):
        herta.Preconditioned(torch.optim.Adam([W], weight_decay=0.01), P)
    herta.Preconditioned(torch.optim.Adam([{"params": [W]}, {"params": [bias], "weight_decay": 0.01}]), P)


def test_of_several_layers_that_fit_one_has_to_be_named(task):
    graph, X, _, _, train, _ = task
    P = herta.precondition(graph, X, lam=LAM, train=train)
    first, second = torch.nn.Linear(12, 12, bias=False), torch.nn.Linear(12, 3, bias=False)
    adam = torch.optim.Adam([first.weight, second.weight])
    with pytest.raises(
        InputError,
        match=r"parameters of shapes \(12, 12\), \(3, 12\) all fit 12 features: pass the right one",
    ):
        herta.Preconditioned(adam, P)
    herta.Preconditioned(adam, P, [first.weight])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "accuracy"),
    [
        ({}, 1e-6),
        ({"optimizer": "pcg"}, 1e-6),
        ({"optimizer": "gd", "learning_rate": 0.9}, 1e-6),
        ({"optimizer": "gd"}, 1e-6),
        ({"optimizer": "adam", "learning_rate": 0.1, "max_iterations": 600}, 1e-4),
    ],
)
def test_a_preconditioner_that_was_built_serves_many_runs(task, told, accuracy):
    graph, X, _, Y, train, best = task
    P = herta.precondition(graph, X, lam=LAM, train=train, how="exact")
    for targets, smallest in ((Y, best), (2 * Y, 4 * best)):
        found = fit(graph, X, targets, lam=LAM, train=train, preconditioner=P, **told)
        assert found.loss == pytest.approx(smallest, rel=accuracy)
        assert found.preconditioner == "exact"
        # what the one that was built says is not taken for the gap: another is made before a run is called converged
        if found.status is Status.CONVERGED:
            # columns from 1e-3 to 1e3: the shortest direction's curvature is below the ridge, which no gap sees
            assert found.loss - smallest <= 10 * found.gap + 1e-9 * smallest
            assert found.gap <= 1e-7 * found.loss
        else:
            assert found.gap is None


def test_cross_entropy_goes_down_with_a_preconditioner_that_was_built(task):
    graph, X, F, Y, train, _ = task
    P, labels = herta.precondition(graph, X, lam=LAM, train=train), Y.argmax(1).numpy()
    best = best_cross_entropy(F[train].numpy() @ np.diag(10.0 ** np.linspace(3, -3, 12)), labels[train], 3)
    told = {"lam": LAM, "train": train, "loss": "ce", "preconditioner": P}
    for how in ({"optimizer": "gd", "max_iterations": 300}, {"optimizer": "adam", "learning_rate": 0.3}):
        assert fit(graph, X, labels, **told, **how).loss == pytest.approx(best, rel=1e-5)


def test_what_a_preconditioner_of_another_problem_says_of_the_gap_is_not_believed(task):
    graph, X, _, Y, train, best = task
    other = herta.precondition(graph, 1e6 * X, lam=LAM, train=train)
    told = {"optimizer": "gd", "learning_rate": 0.9, "max_iterations": 10}
    found = fit(graph, X, Y, lam=LAM, train=train, preconditioner=other, **told)
    assert found.loss > 1.1 * best  # by this P within 1e-12 of the smallest, at W = 0 already
    assert not found.status.ok


def test_a_preconditioner_that_was_built_for_something_else_is_refused(task):
    graph, X, _, Y, train, _ = task
    P = herta.precondition(graph, X, lam=LAM, train=train)
    told = {"lam": LAM, "train": train, "preconditioner": P}
    with pytest.raises(InputError, match=r"preconditioner is for 12 features in torch.float64 on cpu, but these are 11 in"):
        fit(graph, X[:, :11], Y, **told)
    with pytest.raises(InputError, match=r"but these are 12 in torch.float32 on cpu: build it from the same features"):
        fit(graph, X, Y, dtype="float32", **told)
    with pytest.raises(InputError, match=r"but 'lbfgs' builds and renews its own: take optimizer='adam' or 'gd'"):
        fit(graph, X, Y.argmax(1), loss="ce", **told)
    with pytest.raises(InputError, match=r"takes no preconditioner, but preconditioner is a Preconditioner: leave it out"):
        fit(graph, X, Y, optimizer="direct", **told)
    with pytest.raises(InputError, match=r"preconditioner is for 0 features"):
        fit(graph, X, Y, lam=LAM, preconditioner=herta.Preconditioner())
