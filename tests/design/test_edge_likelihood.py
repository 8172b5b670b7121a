"""Parts of the large edge likelihood: elimination on one pattern, and the duality gap."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.design import edge
from nareg.design._edge.cone import LikelihoodObjective, Proximal
from nareg.design._edge.sparse_likelihood import Elimination, duality_gap
from nareg.design._edge.support import Support
from nareg.design._risk.newton import Limits, newton
from nareg.results import Status, upper_edges
from tests.design.test_edge import covariance, field


def graphs(rng):
    yield "mesh", nareg.graphs.grid((6, 7))
    yield "sensors", nareg.graphs.sensor(60, rng=rng)
    yield "hubs", nareg.graphs.power_law(60, mean_degree=4, rng=rng)
    yield "complete", nareg.Graph(np.ones((12, 12)) - np.eye(12))
    yield "two nodes and a lone one", nareg.Graph(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0.0]]))


def test_elimination_agrees_with_dense_inverses(rng):
    for name, g in graphs(rng):
        support = Support(g.n_nodes, *upper_edges(g.laplacian()))
        elimination = Elimination(g.n_nodes, support.i, support.j)
        for _ in range(3):  # one pattern, several matrices; edges of either sign
            u = np.concatenate([rng.uniform(1, 2, g.n_nodes), rng.uniform(-0.05, 1, support.i.size)])
            dense = support.matrix(u)
            factored = elimination.factor(support.entries(u))
            assert factored is not None, name
            assert factored[0] == pytest.approx(np.linalg.slogdet(dense)[1], rel=1e-12, abs=1e-12)
            P = np.linalg.inv(dense)
            entries = np.concatenate([np.diagonal(P), P[support.i, support.j]])
            np.testing.assert_allclose(elimination.inverse_entries(factored[1]), entries, rtol=1e-9, atol=1e-12)


def test_elimination_refuses_what_is_not_positive_definite(rng):
    for _, g in graphs(rng):
        support = Support(g.n_nodes, *upper_edges(g.laplacian()))
        elimination = Elimination(g.n_nodes, support.i, support.j)
        u = np.concatenate([rng.uniform(1, 2, g.n_nodes), rng.uniform(0, 1, support.i.size)])
        smallest = np.linalg.eigvalsh(support.matrix(u))[0]
        for shift, definite in ((-1.01, False), (-0.99, True)):
            moved = support.entries(u + shift * smallest * support.identity)
            assert (elimination.factor(moved) is not None) is definite
        assert elimination.factor(np.full(u.size, np.nan)) is None


@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize("pull", [0.0, 0.1])
def test_the_gap_bounds_the_distance_to_the_minimum(rng, nonnegative, pull):
    g = nareg.graphs.sensor(20, k=4, rng=rng)
    support = Support(20, *upper_edges(g.laplacian()))
    plain = LikelihoodObjective(support, covariance(20, rng))
    start = rng.uniform(0.5, 2, support.size)
    h = np.full(support.size, pull)
    objective = Proximal(plain, h, start)
    floor = np.zeros(support.size) if nonnegative else None
    best = objective.at(newton(objective, start, Limits(0.0 if nonnegative else -np.inf, tolerance=1e-10)).w)
    gaps = []
    for part in (0.0, 0.5, 0.9, 0.999, 1.0):
        point = objective.at(start + part * (best.u - start))
        gap = duality_gap(point.u, objective.slope(point), h, floor, 20, lambda at=point: support.gather(at.P))
        if pull == 0 and not nonnegative:
            assert gap is None
            continue
        assert gap >= point.value - best.value - 1e-9
        gaps.append(gap)
    if gaps:
        assert gaps[-1] < 1e-6 < gaps[0]


@pytest.mark.parametrize(("structure", "shrink"), [("laplacian", 0.2), ("laplacian", None), ("symmetric", 0.2)])
def test_a_large_design_reports_a_small_gap(rng, monkeypatch, structure, shrink):
    g = nareg.graphs.sensor(60, k=4, rng=rng)
    options = {"signals": field(g, 200, rng), "criterion": "likelihood", "structure": structure, "shrink": shrink}
    dense = edge(g, **options)
    monkeypatch.setattr("nareg.design._edge.edge.DENSE_UNKNOWNS", 0)
    d = edge(g, **options)
    assert d.status is Status.CONVERGED
    assert 0 <= d.certificate.details["gap"] < 60 * (1e-7 if shrink else 1e-3)
    if shrink is None:
        assert d.objective - dense.objective <= d.certificate.details["gap"] + 1e-6
