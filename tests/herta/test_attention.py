from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg import herta
from nareg.errors import InputError
from nareg.herta import _attention as attention
from nareg.herta._attention import Incidence
from nareg.results import Status
from tests.herta.helpers import best_squared, fit


@pytest.fixture
def task(rng):
    labels = np.repeat([0, 1, 2], 25)
    chance = np.full((3, 3), 0.06) + 0.3 * np.eye(3)
    graph = nareg.graphs.stochastic_block((25, 25, 25), chance, rng=rng)
    return graph, np.eye(3)[labels] + 0.5 * rng.standard_normal((75, 3)), labels


@pytest.mark.parametrize("kind", ["augmented", "combinatorial"])
def test_every_round_is_optimal_for_its_weights(kind, task):
    graph, X, labels = task
    found = herta.fit_attention(graph, X, labels, lam=2.0, kind=kind, penalty=herta.AttentionPenalty(tau=0.05), rounds=4)
    incidence = Incidence.of(graph, kind)
    following = np.ones(incidence.n_edges)
    for result in found.rounds:
        attention = following
        L = incidence.laplacian(attention).toarray()
        F = np.linalg.solve(np.eye(75) + 2.0 * L, X)
        assert result.loss == pytest.approx(best_squared(F, np.eye(3)[labels]), rel=1e-6)
        distance = np.linalg.norm((incidence.matrix @ result.outputs), axis=1) / np.sqrt(incidence.weight)
        following = np.where(distance <= 0.05, 1.0, 0.05 / distance)
    assert not found.converged
    np.testing.assert_allclose(found.attention, attention, rtol=1e-6)


def test_the_reweighted_solve_lowers_the_concave_energy(task):
    """For fixed W: Z of the tangent penalty has at most the energy of the Z that the tangent was taken at."""
    graph, X, _ = task
    incidence, penalty, lam = Incidence.of(graph, "combinatorial"), herta.AttentionPenalty(tau=0.2), 3.0

    def energy(Z):
        distance = np.linalg.norm(incidence.matrix @ Z, axis=1) / np.sqrt(incidence.weight)
        # rho of p = 1: squared up to tau, then linear in the distance
        rho = np.where(distance <= 0.2, distance**2, 2 * 0.2 * distance - 0.04)
        return 0.5 * lam * (incidence.weight * rho).sum() + 0.5 * ((Z - X) ** 2).sum()

    Z, energies = X, []
    for _ in range(12):
        squared = ((incidence.matrix @ Z) ** 2).sum(axis=1) / incidence.weight
        L = incidence.laplacian(penalty.weights(squared)).toarray()
        Z = np.linalg.solve(np.eye(75) + lam * L, X)
        energies.append(energy(Z))
    assert (np.diff(energies) <= 1e-10).all()
    assert energies[-1] < 0.99 * energies[0]


def test_edges_between_classes_lose_weight_and_the_fit_gains(task):
    graph, X, labels = task
    found = herta.fit_attention(
        graph, X, labels, lam=5.0, kind="combinatorial", penalty=herta.AttentionPenalty(tau=0.05), rounds=30
    )
    within = labels[found.edges[0]] == labels[found.edges[1]]
    assert found.attention[within].mean() > 1.5 * found.attention[~within].mean()
    assert found.converged
    assert len(found.rounds) < 30
    assert found.result.loss < found.rounds[0].loss


def test_a_wide_penalty_is_the_plain_fit(task):
    graph, X, labels = task
    found = herta.fit_attention(graph, X, labels, lam=2.0, penalty=herta.AttentionPenalty(tau=1e6))
    assert (found.attention == 1).all()
    assert len(found.rounds) == 1
    assert found.result.loss == pytest.approx(fit(graph, X, labels, lam=2.0).loss, rel=1e-8)


def test_far_edges_are_cut(task):
    graph, X, labels = task
    found = herta.fit_attention(
        graph, X, labels, penalty=herta.AttentionPenalty(tau=0.01, cut=0.3), kind="combinatorial", rounds=3
    )
    assert 0 < (found.attention == 0).sum() < found.attention.size


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"tau": 0.0}, "tau is 0.0, it must be above 0"),
        ({"p": 3.0}, "p is 3.0"),
        ({"cut": 0.0}, "cut is 0.0: a distance above 0"),
    ],
)
def test_penalties_that_cannot_work_are_refused(told, message):
    with pytest.raises(InputError, match=message):
        herta.AttentionPenalty(**told)


def test_every_round_is_made_whatever_it_ended_with(task):
    graph, X, labels = task
    told = {
        "lam": 2.0,
        "penalty": herta.AttentionPenalty(tau=0.05),
        "rounds": 3,
        "optimizer": herta.Optimizer("gd", max_iterations=2),
    }
    found = herta.fit_attention(graph, X, labels, **told)
    assert [r.status for r in found.rounds] == [Status.MAX_ITERATIONS] * 3


def test_an_interrupt_before_the_first_step_of_a_round_keeps_the_rounds_before(task, monkeypatch):
    graph, X, labels = task
    told = {"lam": 2.0, "penalty": herta.AttentionPenalty(tau=0.05), "rounds": 3}
    whole, calls = herta.fit_attention(graph, X, labels, **told), []

    def interrupted(*args, **more):
        calls.append(args)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return herta.fit(*args, **more)

    monkeypatch.setattr(attention, "fit", interrupted)
    found = herta.fit_attention(graph, X, labels, **told)
    assert (len(found.rounds), found.converged) == (2, False)
    np.testing.assert_array_equal(found.result.weights, whole.rounds[1].weights)
    assert not np.array_equal(found.attention, whole.attention)
    with pytest.raises(KeyboardInterrupt):  # in the first round there is nothing to keep
        herta.fit_attention(graph, X, labels, **told)


def test_an_edge_index_may_end_in_isolated_nodes(rng):
    edge_index, _ = nareg.graphs.grid((5, 5)).to_edge_index()
    X, labels = rng.standard_normal((27, 3)), rng.integers(0, 2, 27)
    assert herta.fit_attention(edge_index, X, labels, rounds=2).result.outputs.shape == (27, 2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: herta.AttentionPenalty(cut="x"), "cut is 'x': a distance above 0"),
        (lambda: herta.AttentionPenalty(tau=-1.0), r"tau is -1\.0"),
        (
            lambda: herta.fit_attention(nareg.graphs.grid((3,)), np.eye(3), [0, 1, 0], lam=herta.Unfolding(unrolled=3)),
            "pass lam as a number",
        ),
        (lambda: herta.fit_attention(nareg.graphs.grid((3,)), np.eye(3), [0, 1, 0], penalty=0.1), r"penalty is 0\.1"),
    ],
)
def test_what_is_no_penalty_is_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()
