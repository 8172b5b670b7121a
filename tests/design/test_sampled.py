"""Designs from sample columns: the risk, its gradient, the probes, and what the designs do with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import nareg
from nareg._solvers.system import FilterSystem, penalty
from nareg.design import Sampling, blind, exact, node_invariant, redesign, risk
from nareg.design._risk.descent import Groups
from nareg.design._risk.problem import problem
from nareg.design._risk.sampled import SampledRisk, blind_columns, oracle_columns, probes
from nareg.errors import InputError, TooLargeError
from tests.helpers import at_night, little_memory


def heterogeneous(n, T, rng, **settings):
    return nareg.graphs.heterogeneous_field(nareg.graphs.sensor(n, rng=rng), T, rng=rng, **settings)


@pytest.fixture(scope="module")
def field():
    return heterogeneous(600, 96, np.random.default_rng(1))


@pytest.fixture(scope="module")
def small():
    return heterogeneous(80, 64, np.random.default_rng(1))


@pytest.fixture(scope="module")
def designed(field):
    return exact(field.graph, signals=field.signals, noise=field.noise, solver="sampled")


@pytest.mark.slow
@pytest.mark.parametrize("data_weight", [None, "noise"])
@pytest.mark.parametrize("operator", ["combinatorial", "normalized", "squared"])
@pytest.mark.parametrize("kind", ["oracle", "blind"])
def test_risk_and_gradient_equal_the_dense_formulas(data_weight, operator, kind):
    """With the identity as probes the trace is exact."""
    rng = np.random.default_rng(2)
    f = heterogeneous(40, 12, rng)
    L = {"combinatorial": f.graph.laplacian(), "normalized": f.graph.laplacian("normalized")}.get(operator)
    base = penalty(sp.csr_array(f.graph.laplacian() @ f.graph.laplacian()) if L is None else L)
    c = np.ones(40) if data_weight is None else 1 / f.noise
    w = rng.standard_normal(40)
    w[3] = 0.0
    sampled = SampledRisk(base, c)
    sampled.systems.tol = 1e-11
    identity = np.sqrt(40) * np.eye(40)
    if kind == "oracle":
        columns = oracle_columns(f.signals, f.noise, identity)
        task = problem(base, signals=f.signals, noise=f.noise, data_weight=data_weight, needs="test")
    else:
        columns = blind_columns(f.signals, f.noise, c, identity)
        task = problem(base, signals=f.signals, noise=f.noise, data_weight=data_weight, needs="test")
        task = replace(task, R=task.R - np.diag(f.noise))
    value, gradient = sampled.value_and_gradient(w, sampled.arranged(columns))
    reference, slope = task.mse_and_gradient(w)
    assert value == pytest.approx(reference, rel=1e-9)
    np.testing.assert_allclose(gradient, slope, atol=1e-8 * np.abs(slope).max())


def test_gradient_against_finite_differences_with_few_probes(rng):
    f = heterogeneous(30, 5, rng)
    sampled = SampledRisk(penalty(f.graph), 1 / f.noise)
    sampled.systems.tol = 1e-12
    w = rng.random(30) + 0.1
    for columns in (
        oracle_columns(f.signals, f.noise, probes(f.graph.laplacian(), 4, rng)),
        blind_columns(f.signals, f.noise, 1 / f.noise, probes(f.graph.laplacian(), 4, rng)),
    ):
        inside = sampled.arranged(columns)
        _, gradient = sampled.value_and_gradient(w, inside)
        step = 1e-5
        differences = [
            (sampled.value(w + step * e, inside) - sampled.value(w - step * e, inside)) / (2 * step) for e in np.eye(30)
        ]
        np.testing.assert_allclose(gradient, differences, atol=1e-6 * np.abs(gradient).max())


@pytest.mark.slow
def test_a_scattered_order_changes_nothing(rng, monkeypatch):
    """Beyond 20,000 nodes the nodes are reordered inside; the order must not show."""
    f = heterogeneous(25_000, 3, rng)
    columns = oracle_columns(f.signals, f.noise, probes(f.graph.laplacian(), 4, rng))
    sampled = SampledRisk(penalty(f.graph), np.ones(25_000))
    assert not np.array_equal(sampled.order, np.arange(25_000))
    monkeypatch.setattr(FilterSystem, "order", None)
    plain = SampledRisk(penalty(f.graph), np.ones(25_000))
    assert np.array_equal(plain.order, np.arange(25_000))
    w = rng.random(25_000) + 0.5
    a, b = (s.value_and_gradient(w, s.arranged(columns)) for s in (sampled, plain))
    assert a[0] == pytest.approx(b[0], rel=1e-6)
    np.testing.assert_allclose(a[1], b[1], atol=1e-5 * np.abs(b[1]).max())


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 60), st.integers(2, 40), st.integers(0, 2**31))
def test_probes_average_to_the_identity_on_the_diagonal(n, count, seed):
    rng = np.random.default_rng(seed)
    Z = probes(nareg.graphs.erdos_renyi(n, 0.3, rng=rng).laplacian(), count, rng)
    assert Z.shape == (n, count)
    np.testing.assert_allclose(np.diag(Z @ Z.T) / count, 1.0)
    assert ((Z != 0).sum(axis=1) == 1).all()


def test_spread_probes_estimate_the_variance_better_than_random_signs(rng):
    """Ten times better at 24 probes in the note's measurement; here at least three times."""
    f = heterogeneous(400, 2, rng)
    H = np.linalg.inv(np.eye(400) + f.graph.laplacian().toarray())
    truth = np.sum(H**2 * f.noise)

    def error(draw):
        return np.std([np.sum((H @ (np.sqrt(f.noise)[:, None] * draw())) ** 2) / 24 / truth for _ in range(20)])

    spread = error(lambda: probes(f.graph.laplacian(), 24, rng))
    assert spread < error(lambda: rng.choice([-1.0, 1.0], (400, 24))) / 3


@pytest.mark.slow
@pytest.mark.parametrize("data_weight", ["noise", *at_night([None])])
def test_exact_sampled_is_as_good_as_dense_on_unseen_signals(data_weight):
    f = heterogeneous(150, 64, np.random.default_rng(5))
    X, R = f.signals, np.linalg.inv(f.precision.toarray())
    values = {}
    for solver in ("sampled", "dense"):
        d = exact(f.graph, signals=X, noise=f.noise, data_weight=data_weight, solver=solver)
        values[solver] = risk(f.graph, d, second_moment=R, noise=f.noise).mse
        assert d.status.ok, solver
    one = node_invariant(f.graph, rule="oracle", signals=X, noise=f.noise, data_weight=data_weight)
    single = risk(f.graph, one, second_moment=R, noise=f.noise).mse
    assert values["sampled"] < 1.01 * values["dense"]
    assert values["sampled"] < 0.95 * single


@pytest.mark.slow
def test_converged_means_a_small_gradient_of_the_penalized_risk(designed):
    d = designed
    assert d.status.name == "CONVERGED"
    assert d.certificate.gradient_norm < 1e-3
    details = d.certificate.details
    assert details["held_out_gain"] > 2 * details["held_out_error"] > 0
    assert details["held_out_risk"] == min(details["held_out_path"].values())
    assert d.objective < details["best_scalar_risk"]


@pytest.mark.slow
def test_blind_sampled_beats_the_single_weight_and_falls_back_where_it_cannot(field, rng):
    R = np.linalg.inv(field.precision.toarray())
    Y = field.measure(field.signals, rng=rng)
    d = blind(field.graph, measurements=Y, noise=field.noise, solver="sampled")
    one = d.certificate.details["best_scalar"]
    assert d.status.ok
    assert (
        risk(field.graph, d, second_moment=R, noise=field.noise).mse
        < 0.97 * risk(field.graph, one, second_moment=R, noise=field.noise).mse
    )
    few = blind(field.graph, measurements=Y[:, :4], noise=field.noise, solver="sampled")
    assert few.status.name == "NO_IMPROVEMENT"
    np.testing.assert_allclose(few.weights, few.weights[0])


@pytest.mark.slow
def test_units_do_not_matter(small):
    a = exact(small.graph, signals=small.signals, noise=small.noise, solver="sampled")
    b = exact(small.graph, signals=10 * small.signals, noise=100 * small.noise, solver="sampled")
    np.testing.assert_allclose(a.weights, b.weights, rtol=1e-3)
    assert b.objective == pytest.approx(100 * a.objective, rel=1e-6)


@pytest.mark.slow
def test_bounds_are_kept(field):
    d = exact(field.graph, signals=field.signals, noise=field.noise, lower=0.2, upper=1.0, solver="sampled")
    assert d.certificate.violation < 1e-12
    assert (d.weights**2 >= 0.2 - 1e-12).all()
    assert (d.weights**2 <= 1.0 + 1e-12).all()


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["dense", "sampled"])
@pytest.mark.parametrize("design", [exact, blind])
def test_groups_share_a_weight(field, design, solver, rng):
    labels = np.where(np.arange(600) % 3 == 0, "coast", "inland")
    data = {"signals": field.signals} if design is exact else {"measurements": field.measure(field.signals, rng=rng)}
    small = field.graph.subgraph(np.arange(80))
    data = {name: values[:80] for name, values in data.items()}
    d = design(small, **data, noise=field.noise[:80], groups=labels[:80], solver=solver)
    for label in ("coast", "inland"):
        np.testing.assert_allclose(d.weights[labels[:80] == label], d.weights[labels[:80] == label][0])
    assert d.certificate.details["degrees_of_freedom"] == 2


def test_bad_groups_are_named():
    with pytest.raises(InputError, match=r"groups has shape \(3,\)"):
        Groups([1, 2, 3], 4)
    with pytest.raises(InputError, match="not finite"):
        Groups([1.0, np.nan], 2)
    with pytest.raises(InputError, match="cross within a group"):
        Groups([0, 0], 2).bounds(np.array([0.0, 2.0]), np.array([1.0, 3.0]))


@pytest.mark.slow
def test_interrupt_keeps_the_best_so_far(field):
    def impatient(now):
        if now.step == 12:
            raise KeyboardInterrupt

    d = exact(field.graph, signals=field.signals, noise=field.noise, solver="sampled", progress=impatient)
    assert d.status.name == "INTERRUPTED"
    assert not d.status.ok
    assert d.objective < d.certificate.details["best_scalar_risk"]


@pytest.mark.slow
@pytest.mark.parametrize("call", [1, 4])
def test_interrupt_while_judging_keeps_what_was_reached(field, monkeypatch, call):
    """Ctrl-C between descents, while the held-out columns are filtered."""
    judge, calls = SampledRisk.column_values, []

    def impatient(self, w, columns):
        if columns.n_signals == 24:  # the held-out quarter
            calls.append(w)
            if len(calls) == call:
                raise KeyboardInterrupt
        return judge(self, w, columns)

    monkeypatch.setattr(SampledRisk, "column_values", impatient)
    d = exact(field.graph, signals=field.signals, noise=field.noise, solver="sampled")
    assert d.status.name == "INTERRUPTED"
    assert np.isfinite(d.weights).all()
    if call > 1:
        assert d.objective < d.certificate.details["best_scalar_risk"]


@pytest.mark.slow
def test_the_same_generator_gives_the_same_weights(small):
    a, b = (exact(small.graph, signals=small.signals[:, :16], noise=small.noise, solver="sampled") for _ in range(2))
    np.testing.assert_array_equal(a.weights, b.weights)


@pytest.mark.slow
def test_redesign_after_a_sensor_is_gone_and_one_is_new(field, designed):
    d = designed
    nodes = np.r_[np.arange(5, 600), 0]
    remaining = np.r_[np.arange(5, 600), -1]  # the last one counts as new
    g = field.graph.subgraph(nodes)
    data = {"signals": field.signals[nodes], "noise": field.noise[nodes]}
    again, afresh = redesign(g, d, old_index=remaining, **data), exact(g, **data, solver="sampled")
    assert again.status.ok
    assert again.objective == pytest.approx(afresh.objective, rel=2e-3)
    solves = [x.certificate.details["solves"]["columns"] for x in (again, afresh)]
    assert solves[0] < 0.6 * solves[1]
    Y = field.measure(field.signals, rng=np.random.default_rng(0))[nodes]
    assert redesign(g, d, old_index=remaining, measurements=Y, noise=data["noise"]).status.ok


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"old_index": [0, 1]}, "old_index has shape"),
        ({"old_index": np.full(600, 700)}, "old_index holds 700"),
        ({"old_index": np.zeros(600, int)}, "none twice"),
        ({"signals": None}, "exactly one of"),
        ({"noise": None}, "noise is None"),
    ],
)
@pytest.mark.slow
def test_bad_redesigns_are_named(field, arguments, words):
    d = node_invariant(field.graph, rule="oracle", signals=field.signals, noise=field.noise)
    data = {"old_index": np.arange(600), "signals": field.signals, "noise": field.noise, **arguments}
    with pytest.raises(InputError, match=words):
        redesign(field.graph, d, **data)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"solver": "quick"}, "choose one of"),
        ({"noise": np.eye(600)}, "solver='sampled' needs"),
        ({"sampling": {"n_probes": 1}}, "n_probes"),
        ({"starts": np.ones((1, 600))}, "starts are for"),
        ({"signals": np.zeros((600, 10))}, "zero everywhere"),
        ({"sampling": {"hold_out": True}, "signals": np.ones((600, 3))}, "at least 8"),
        ({"data_weight": np.zeros(600)}, "data_weight is zero"),
    ],
)
def test_bad_arguments_are_named(field, arguments, words):
    data = {"signals": field.signals, "noise": field.noise, "solver": "sampled", **arguments}
    with pytest.raises(InputError, match=words):
        exact(field.graph, **{**data, "sampling": Sampling(**arguments.get("sampling", {}))})


def test_columns_that_do_not_fit_are_refused_before_they_are_made(field, monkeypatch):
    little_memory(monkeypatch)
    with pytest.raises(TooLargeError, match="GiB and this machine has"):
        exact(field.graph, signals=field.signals, noise=field.noise)


def test_field_has_the_statistics_it_states(rng):
    f = heterogeneous(150, 4000, rng, noise_decades=1.0, snr_db=3.0)
    R = f.signals @ f.signals.T / 4000
    np.testing.assert_allclose(np.diag(R), np.diag(np.linalg.inv(f.precision.toarray())), rtol=0.15)
    assert f.noise.mean() == pytest.approx(10**-0.3)
    truth = np.trace(np.linalg.inv(f.precision.toarray() + np.diag(1 / f.noise)))
    value, error = f.lmmse(n_probes=200, rng=rng)
    assert abs(value - truth) < 4 * error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"hops": (3.0, 2.0)}, "hops"),
        ({"hops": (0.0, 2.0)}, "hops"),
        ({"noise_decades": -1}, "noise_decades"),
        ({"rng": 0}, "rng"),
    ],
)
def test_bad_fields_are_named(arguments, words):
    g = nareg.graphs.grid((4, 4))
    with pytest.raises(InputError, match=words):
        nareg.graphs.heterogeneous_field(g, 3, **{"rng": np.random.default_rng(0), **arguments})


@pytest.mark.slow
@pytest.mark.parametrize("n", [2000, *at_night([20_000])])
def test_large_fields(n, rng):
    """Unseen signals, against the single weight and the limit of every estimator."""
    f = heterogeneous(n, 40, rng)
    X, test = f.signals[:, :24], f.signals[:, 24:]
    d = exact(f.graph, signals=X, noise=f.noise, data_weight="noise")
    y = f.measure(test, rng=rng)
    error = np.sum((nareg.filters.denoise(f.graph, d, y).x - test) ** 2)
    one = np.sum(
        (nareg.filters.denoise(f.graph, d.certificate.details["best_scalar"], y, data_weight=d.data_weight).x - test) ** 2
    )
    assert d.status.ok
    assert f.lmmse(rng=rng)[0] * 16 < error < 0.96 * one


@pytest.mark.parametrize("design", ["exact", "blind"])
def test_groups_stay_together_where_bounds_differ_within_them(design, rng):
    g = nareg.graphs.grid((6, 6))
    labels, lower = np.arange(36) // 6, np.zeros(36)
    lower[::6] = 4.0
    X = np.linalg.solve(g.laplacian().toarray() + 0.1 * np.eye(36), rng.standard_normal((36, 40)))
    Y = X + rng.standard_normal(X.shape)
    data = {"signals": X} if design == "exact" else {"measurements": Y}
    d = getattr(nareg.design, design)(g, **data, noise=1.0, groups=labels, lower=lower, solver="sampled")
    assert all(np.ptp(d.weights[labels == label]) == pytest.approx(0, abs=1e-12) for label in range(6))
    assert (d.weights**2 >= lower * (1 - 1e-9)).all()


def test_redesign_refuses_what_it_would_ruin(rng):
    g = nareg.graphs.grid((5, 5))
    X, noise = rng.standard_normal((25, 20)), np.geomspace(0.1, 10, 25)
    weighted = nareg.design.exact(g, signals=X, noise=noise, data_weight="noise")
    with pytest.raises(InputError, match="data_weight is None but previous has a data term"):
        nareg.design.redesign(g, weighted, old_index=np.arange(25), signals=X, noise=noise)


def test_redesign_of_weights_with_both_signs_is_no_worse_than_one_weight():
    """A signal that alternates wants weights that alternate, which a redesign gives up: then one weight is kept."""
    rng = np.random.default_rng(3)
    g = nareg.graphs.grid((6, 6))
    signs = np.where(np.add.outer(np.arange(6), np.arange(6)).ravel() % 2, -1.0, 1.0)
    X = signs[:, None] * (1 + 0.1 * rng.standard_normal((36, 60)))
    previous = nareg.design.exact(g, signals=X, noise=0.5)
    assert (previous.weights > 0).any()
    assert (previous.weights < 0).any()
    again = nareg.design.redesign(g, previous, old_index=np.arange(36), signals=X, noise=0.5)
    one = node_invariant(g, rule="oracle", signals=X, noise=0.5)
    assert risk(g, again, signals=X, noise=0.5).mse <= 1.02 * risk(g, one, signals=X, noise=0.5).mse


@pytest.mark.slow
def test_redesign_searches_the_single_weight_again_where_the_old_one_does_not_fit(rng):
    g = nareg.graphs.sensor(60, rng=rng)
    field = nareg.graphs.heterogeneous_field(g, 40, rng=rng)
    fresh = nareg.design.exact(g, signals=field.signals, noise=field.noise, solver="sampled")
    far = replace(
        fresh,
        weights=100 * fresh.weights,
        certificate=replace(fresh.certificate, details={"best_scalar": 100.0}),
    )
    again = nareg.design.redesign(g, far, old_index=np.arange(60), signals=field.signals, noise=field.noise)
    assert again.certificate.details["best_scalar"] == pytest.approx(fresh.certificate.details["best_scalar"], rel=0.05)
