"""Constraints of the user: kept by the rounded weights, against brute force on small graphs; what cannot work is refused."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize

import nareg
from nareg.design import programs
from nareg.errors import InputError, SolverError, TooLargeError
from nareg.results import Status

from .test_programs import case


def error_of(g, X, w):
    """``tr(S R S)`` of weights."""
    S = (w[:, None] * g.laplacian().toarray()) * w
    return float(np.sum((S @ X) ** 2) / X.shape[1])


def best_by_descent(g, X, bounds, constraints, starts):
    """The smallest ``tr(S R S)`` that SLSQP finds from many starts."""
    options = {"bounds": bounds, "constraints": constraints, "method": "SLSQP", "options": {"maxiter": 500}}
    found = [minimize(lambda w: error_of(g, X, w), start, **options) for start in starts]
    return min((f.fun for f in found if f.success), default=np.inf)


@pytest.fixture(scope="module")
def small():
    g, X, noise = case(3, 5)
    return g, X, noise


def starts(n, rng, low, high):
    return [rng.uniform(low, high, n) for _ in range(20)]


@pytest.mark.slow
def test_a_budget_on_the_weights_is_kept(small, rng):
    g, X, _ = small
    lower = np.array([0.1, 0.1, 0.9, 0.1, 0.4])
    budget = 1.7
    program = programs.prony(g, signals=X, lower=lower)
    d = program.add(cp.sum(program.w2) <= budget).solve()
    assert np.sum(d.weights**2) <= budget + 1e-6
    assert d.certificate.details["constraint_violation"] <= 1e-6
    assert d.status.ok
    rule = {"type": "ineq", "fun": lambda w: budget - np.sum(w**2)}
    best = best_by_descent(g, X, [(np.sqrt(a), 3) for a in lower], [rule], starts(5, rng, 0.3, 1))
    assert d.objective <= best * (1 + 1e-3)
    assert d.certificate.relaxed_objective <= best * (1 + 1e-6)


@pytest.mark.slow
def test_equal_weights_in_groups(small, rng):
    g, X, _ = small
    lower = np.array([0.1, 0.5, 0.2, 0.3, 0.4])
    program = programs.prony(g, signals=X, lower=lower)
    d = program.add(program.w2[[0, 1]] == program.w2[[2, 3]]).solve()
    np.testing.assert_allclose(d.weights[[0, 1]] ** 2, d.weights[[2, 3]] ** 2, atol=1e-6)
    signs = np.array(list(itertools.product([1, -1], repeat=5)))
    best = np.inf
    for sign in signs[:16]:
        rule = {"type": "eq", "fun": lambda w: w[[0, 1]] ** 2 - w[[2, 3]] ** 2}
        limits = [(np.sqrt(a), 3) if s > 0 else (-3, -np.sqrt(a)) for a, s in zip(lower, sign, strict=True)]
        best = min(best, best_by_descent(g, X, limits, [rule], [sign * np.sqrt(lower.max())]))
    assert d.objective <= best * (1 + 1e-3)


@pytest.mark.slow
def test_weights_of_a_sparse_set_of_stations(small):
    g, X, _ = small
    lower = np.array([0.02, 0.0, 0.02, 0.0, 0.02])
    scales = []
    for silence in (lambda w2: w2 <= 1e-8, lambda w2: w2 == 0):
        program = programs.prony(g, signals=X, noise=1.0, lower=lower)
        d = program.add(silence(program.w2[[1, 3]])).solve()
        assert (d.weights[[1, 3]] == 0).all()
        assert (d.weights[[0, 2, 4]] ** 2 >= 0.02 * (1 - 1e-6)).all()
        scales.append(np.abs(d.weights[[0, 2, 4]]))
    # a bound that is nearly zero is no bound on the scale of the others
    np.testing.assert_allclose(*scales, rtol=1e-3)
    assert scales[0].max() ** 2 > 0.1


@pytest.mark.slow
def test_a_bounded_error_at_every_station(small, rng):
    g, X, noise = small
    free = nareg.design.relaxation(g, signals=X, noise=noise, lower=0.0)
    R = X @ X.T / X.shape[1]
    L = g.laplacian().toarray()

    def errors(w):
        H = np.linalg.inv(np.eye(5) + (w[:, None] * L) * w)
        return np.sum(((H - np.eye(5)) @ R) * (H - np.eye(5)), axis=1) + np.sum(H**2 * noise, axis=1)

    limit = 0.9 * errors(free.weights).max()
    program = programs.filter_step(g, signals=X, noise=noise, lower=0.0)
    d = program.add(program.error <= limit).solve()
    assert errors(d.weights).max() <= limit + 1e-6
    assert d.status.ok
    rule = {"type": "ineq", "fun": lambda w: limit - errors(w)}
    tries = [
        minimize(lambda w: errors(w).sum(), s, constraints=[rule], method="SLSQP", options={"maxiter": 500})
        for s in starts(5, rng, -1, 1)
    ]
    best = min(t.fun for t in tries if t.success)
    assert errors(d.weights).sum() <= best * 1.02
    assert program.solve().certificate.relaxed_objective <= best


@pytest.mark.parametrize("rate", [0.3, 0.8])
def test_jacobi_shrinks_the_error_by_the_rate(small, rate):
    g, X, _ = small
    program = programs.prony(g, signals=X, lower=0.02)
    d = program.add(*programs.jacobi(program, rate)).solve()
    S = d.matrix.toarray()
    D = 1 + np.diag(S)
    factor = np.abs(np.linalg.eigvals((S - np.diag(np.diag(S))) / D[:, None])).max()
    assert factor <= rate + 1e-6
    assert d.certificate.details["constraint_violation"] <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, pytest.param(5, marks=pytest.mark.nightly)])
def test_the_published_condition_for_the_recursion(n):
    g, X, _ = case(3, n)
    program = programs.prony(g, signals=X, lower=0.02)
    d = program.add(*programs.recursion(program, 0.9)).solve()
    assert np.linalg.norm(d.matrix.toarray(), 2) <= 0.9 + 1e-6
    nareg.filters.denoise(g, d, X[:, 0], method="recursion")  # which refuses where it diverges


def test_a_variable_of_the_users_own(small):
    g, X, _ = small
    program = programs.prony(g, signals=X, lower=0.1)
    top = cp.Variable()
    d = program.add(program.w2 <= top, top <= 0.3).solve()
    assert (d.weights**2).max() <= 0.3 + 1e-6


@pytest.mark.slow
def test_what_cannot_be_kept_at_rank_one_is_said():
    """Omega may be diagonal, weights of rank one may not: S then has its off-diagonal entries."""
    g = nareg.Graph(np.array([[0.0, 1.0], [1.0, 0.0]]))
    program = programs.prony(g, signals=np.array([1.0, 2.0]), lower=1.0)
    d = program.add(cp.abs(program.S[0, 1]) <= 0.1).solve()
    missed = abs(d.matrix.toarray()[0, 1]) - 0.1
    assert missed >= 0.8
    assert d.status is Status.INACCURATE
    assert d.certificate.details["constraint_violation"] == pytest.approx(missed, rel=1e-6)


def test_the_variables_have_the_programs_own_optimum_after_a_solve(small):
    g, X, _ = small
    program = programs.prony(g, signals=X, lower=0.1)
    d = program.add(cp.sum(program.w2) <= 1).solve()
    np.testing.assert_allclose(np.diag(d.omega), program.w2.value)
    assert program.problem.value * program.unit == pytest.approx(d.certificate.relaxed_objective)


# -- bad input --------------------------------------------------------------------------------------------


def test_bad_constraints_are_refused(small):
    g, X, _ = small
    program, other = (programs.prony(g, signals=X, lower=0.1) for _ in range(2))
    with pytest.raises(InputError, match="not convex"):
        program.add(cp.sum_squares(program.w2) >= 1)
    with pytest.raises(InputError, match="variable of another program"):
        program.add(cp.sum(other.w2) <= 1)
    with pytest.raises(InputError, match="variable of another program"):
        program.add(*programs.jacobi(other, 0.9))
    with pytest.raises(InputError, match="pass a cvxpy constraint"):
        program.add(True)
    assert program.added == []
    with pytest.raises(InputError, match="no weights keep your constraints"):
        program.add(cp.sum(program.w2) <= 0.4).solve()


def test_bad_solvers_and_options_are_refused(small):
    g, X, _ = small
    program = programs.prony(g, signals=X, lower=0.1)
    with pytest.raises(InputError, match="solver is 'fast'; choose one of"):
        program.solve("fast")
    with pytest.raises(SolverError, match="CLARABEL"):
        program.solve("CLARABEL", no_such_option=1)
    with pytest.raises(SolverError, match="OSQP"):
        program.solve("OSQP")
    with pytest.raises(SolverError, match="ended with"):
        program.solve("CLARABEL", max_iter=1)
    with pytest.raises(InputError, match="zero weights are optimal"):
        programs.prony(g, signals=X).solve()
    with pytest.raises(InputError, match="is no argument of this program"):
        program.set(colour=1)
    with pytest.raises(InputError, match="build with cone='dense'"):
        program.omega  # noqa: B018


@pytest.mark.parametrize("rate", [0, 1, -0.5, 1.5, np.nan])
def test_rates_outside_zero_and_one_are_refused(small, rate):
    g, X, _ = small
    program = programs.prony(g, signals=X, lower=0.1)
    with pytest.raises(InputError, match="rate is"):
        programs.jacobi(program, rate)
    with pytest.raises(InputError, match="rate is"):
        programs.recursion(program, rate)


@pytest.mark.slow
def test_a_rate_that_no_weights_keep_is_said(small):
    g, X, _ = small
    program = programs.prony(g, signals=X, lower=100.0)
    d = program.add(*programs.jacobi(program, 0.1)).solve()
    assert d.status is Status.INACCURATE
    assert d.certificate.details["constraint_violation"] > 1


def test_programs_beyond_memory_are_refused_before_they_are_built(monkeypatch):
    from nareg._core import checks

    monkeypatch.setattr(checks._memory, "room", lambda reserved: (2.0**20, "1 MiB are free"))
    monkeypatch.setattr(checks, "SMALL", 0)
    g = nareg.graphs.grid((20, 20))
    with pytest.raises(TooLargeError, match=r"400 nodes, 760 edges.*use solver='auto'"):
        programs.prony(g, signals=np.ones(400), noise=1.0)


def test_the_filter_step_is_refused_by_its_dense_inequality_before_it_is_built():
    g = nareg.graphs.grid((20, 20))
    with pytest.raises(TooLargeError, match=r"dense inequality of 800 rows \(400 nodes\).*use nareg.design.relaxation"):
        programs.filter_step(g, signals=np.ones(400), noise=1.0)


def test_memory_counts_every_cone_and_advises_what_applies(monkeypatch, small):
    from nareg._core import checks

    g, X, _ = small
    dense, cliques = (programs.prony(g, signals=X, noise=1.0, cone=cone) for cone in ("dense", "cliques"))
    step = programs.filter_step(g, signals=X, noise=1.0)
    assert max(step._cone_rows()) == 2 * g.n_nodes
    before = len(cliques._cone_rows())
    assert len(cliques.add(*programs.jacobi(cliques, 0.9))._cone_rows()) > before
    monkeypatch.setattr(checks._memory, "room", lambda reserved: (64.0, "64 bytes are free"))
    monkeypatch.setattr(checks, "SMALL", 0)
    with pytest.raises(TooLargeError, match="cone='cliques'"):
        dense.optimum("CLARABEL")
    for program in (cliques, step):
        with pytest.raises(TooLargeError, match=r"solver='SCS', or a part") as refused:
            program.optimum("CLARABEL")
        assert "cliques" not in str(refused.value)
    with pytest.raises(TooLargeError, match="dense cones of up to 10 rows"):
        programs.filter_step(g, signals=X, noise=1.0)


# -- a promised rate through the design function ----------------------------------------------------------


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_prony_keeps_a_rate_and_promises_rounds(small, rate):
    g, X, _ = small
    d = nareg.design.prony(g, signals=X, noise=0.5, rate=rate)
    S = d.matrix.toarray()
    D = 1 + np.diag(S)
    factor = np.abs(np.linalg.eigvals((S - np.diag(np.diag(S))) / D[:, None])).max()
    details = d.certificate.details
    assert factor <= details["jacobi_factor"] <= rate
    result = nareg.filters.denoise(g, d, X[:, 0], method="jacobi", tol=1e-8)
    assert result.iterations <= details["jacobi_rounds"]["1e-08"]
    # a single weight at this rate that is somewhat smaller is feasible: the error is no larger
    single = [
        nareg.design.risk(g, np.full(5, w), signals=X, noise=0.5).mse
        for w in np.geomspace(0.01, 10, 60)
        if np.abs(np.linalg.eigvals(jacobi_matrix(g, w))).max() <= rate
    ]
    assert nareg.design.risk(g, d, signals=X, noise=0.5).mse <= 1.05 * min(single)


def jacobi_matrix(g, w):
    S = w**2 * g.laplacian().toarray()
    return (S - np.diag(np.diag(S))) / (1 + np.diag(S))[:, None]


def test_prony_refuses_a_rate_that_lower_forbids(small):
    g, X, _ = small
    with pytest.raises(InputError, match=r"rate is 0.1: the smallest weights that lower allows"):
        nareg.design.prony(g, signals=X, noise=0.5, rate=0.1, lower=5.0)
    with pytest.raises(InputError, match="rate is 1"):
        nareg.design.prony(g, signals=X, noise=0.5, rate=1.0)
    with pytest.raises(InputError, match="leave one of them out"):
        nareg.design.prony(g, signals=X, noise=0.5, rate=0.5, groups=[0, 0, 1, 1, 1])


@pytest.mark.slow
def test_a_parameter_in_a_constraint_is_swept_without_compiling_again(small):
    g, X, _ = small
    program = programs.prony(g, signals=X, lower=0.1)
    budget = cp.Parameter(nonneg=True, value=1.0)
    program.add(cp.sum(program.w2) <= budget)
    first = program.solve()
    compiled = program.problem._cache.param_prog
    budget.value = 0.7
    second = program.solve()
    assert program.problem._cache.param_prog is compiled
    assert np.sum(first.weights**2) <= 1 + 1e-6
    assert np.sum(second.weights**2) <= 0.7 + 1e-6
    assert second.certificate.relaxed_objective >= first.certificate.relaxed_objective * (1 - 1e-6)


def test_the_scale_is_chosen_within_the_constraints(small):
    g, X, _ = small
    program = programs.prony(g, signals=X, noise=2.0, lower=0.05)
    d = program.add(cp.sum(program.w2) <= 2.0).solve()
    error = nareg.design.risk(g, d, signals=X, noise=2.0).mse
    for factor in (0.9, 0.97, 1.03, 1.1):
        w = factor * d.weights
        if np.sum(w**2) <= 2.0 and (w**2 >= 0.05).all():
            assert nareg.design.risk(g, w, signals=X, noise=2.0).mse >= error * (1 - 1e-4)
    assert np.sum(d.weights**2) <= 2.0 + 1e-6
