"""The paper's designs: programs against closed forms, and its synthetic experiment."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.design import exact, minmax, node_invariant, programs, prony, relaxation, risk
from nareg.design._convex import criteria as _corners
from nareg.design._convex import filter_fit as _filter_fit
from nareg.design._convex import quadratic as _entries
from nareg.design._risk import problem as _problem
from nareg.errors import InputError, MissingDependencyError, TooLargeError
from tests.helpers import at_night, bandlimited_signal


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(2)
    g = nareg.graphs.erdos_renyi(14, 0.4, rng=rng)
    assert g.is_connected
    return g, rng.standard_normal((14, 5)) + 1.0


# -- the support form of the programs ---------------------------------------------------------------------


def test_support_form_equals_the_dense_criteria(small, rng):
    g, X = small
    L = g.laplacian().toarray()
    root = rng.standard_normal((14, 14))
    omega = root @ root.T
    i, j = _entries.support(L)
    z, S, R = omega[i, j], omega * L, X @ X.T
    assert z @ _entries.gram(L, R) @ z == pytest.approx(np.trace(S @ R @ S))
    H = _filter_fit.lyapunov(R, np.eye(14))
    P = H @ H
    value = 2 * (z @ _entries.gram(L, P) @ z + 2 * _entries.linear(L, P - H) @ z) + 2 * np.sum((H - np.eye(14)) ** 2)
    assert value == pytest.approx(2 * np.sum((H @ (np.eye(14) + S) - np.eye(14)) ** 2))


# -- relaxation, step one ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.5, np.linspace(0.1, 2.0, 14)])
def test_the_sdp_29_equals_the_lyapunov_solution(small, noise):
    g, X = small
    solved = programs.filter_step(g, signals=X, noise=noise, lower=0.1).optimum()
    step = _filter_fit.dense_step_one(_problem.problem(g, signals=X, noise=noise, needs="test"))
    closed, value = step.matrix, step.value
    assert solved.ending.status.ok
    assert solved.value == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(solved.H, closed, atol=1e-3 * np.abs(closed).max())  # H moves as the root of the value


def test_lyapunov_solution_is_wiener_for_white_noise_and_psd_always(small, rng):
    _, X = small
    R = X @ X.T / 5
    np.testing.assert_allclose(_filter_fit.lyapunov(R, 0.3 * np.eye(14)), R @ np.linalg.inv(R + 0.3 * np.eye(14)), atol=1e-10)
    Sigma = np.diag(rng.random(14))
    H = _filter_fit.lyapunov(R, Sigma)
    np.testing.assert_allclose((R + Sigma) @ H + H @ (R + Sigma), 2 * R, atol=1e-10)
    assert np.linalg.eigvalsh(H)[0] > -1e-10


def test_lyapunov_with_singular_sum_stays_finite():
    x = np.array([1.0, 2.0, 0.0])
    H = _filter_fit.lyapunov(np.outer(x, x), np.zeros((3, 3)))
    np.testing.assert_allclose(H @ x, x, atol=1e-10)
    assert np.isfinite(H).all()


def test_isolated_node_keeps_its_reading_in_step_one():
    A = np.zeros((4, 4))
    A[:3, :3] = 1 - np.eye(3)
    task = _problem.problem(nareg.Graph(A), signals=np.ones(4), noise=1.0, needs="test")
    H = _filter_fit.dense_step_one(task).matrix
    np.testing.assert_allclose(H[3], [0, 0, 0, 1])


# -- solvers agree ----------------------------------------------------------------------------------------


def test_relaxation_closed_form_and_sdp_agree(small):
    g, X = small
    fast, sdp = (relaxation(g, signals=X, noise=0.5, solver=s) for s in ("closed-form", "clarabel"))
    # both end at a local minimum of (30) at rank one; neither may lie below the relaxation
    assert sdp.certificate.relaxed_objective <= fast.objective <= sdp.objective * (1 + 1e-6)
    assert sdp.objective == pytest.approx(fast.objective, rel=0.01)


def test_relaxation_closed_form_and_sdp_agree_on_a_real_network(data_root):
    network = nareg.datasets.load("molene", root=data_root)
    X = network.signals[:, ::7] - network.signals.mean()
    noise = float(np.mean(X**2))
    fast, sdp = (relaxation(network.graph, signals=X, noise=noise, solver=s) for s in ("closed-form", "clarabel"))
    assert fast.objective == pytest.approx(sdp.objective, rel=1e-5)
    risks = [risk(network.graph, d, signals=X, noise=noise).mse for d in (fast, sdp)]
    assert risks[0] == pytest.approx(risks[1], rel=1e-3)


def test_clarabel_and_scs_agree_on_prony(small):
    g, X = small
    designs = [prony(g, signals=X, noise=0.5, solver=s, scale="bound") for s in ("clarabel", "scs")]
    assert all(d.certificate.smallest_eigenvalue > -1e-6 for d in designs)
    a, b = (d.certificate.relaxed_objective for d in designs)
    assert a == pytest.approx(b, rel=1e-4)
    assert designs[0].objective == pytest.approx(designs[1].objective, rel=1e-4)


def test_prony_is_homogeneous_in_the_bound_and_the_program_is_reused(small):
    g, X = small
    program = programs.prony(g, signals=X, lower=1.0)
    one, four = (program.set(lower=bound).optimum() for bound in (1.0, 4.0))
    assert four.value == pytest.approx(16 * one.value, rel=1e-5)
    np.testing.assert_allclose(four.omega, 4 * one.omega, atol=1e-3 * np.abs(four.omega).max())


def test_rounded_weights_are_feasible_refined_and_bounded_below_by_the_relaxation(small):
    g, X = small
    d = prony(g, signals=X, noise=0.5, solver="clarabel", scale="bound")
    w0 = node_invariant(g, signals=X, noise=0.5).certificate.details["strength"]
    assert (d.weights**2 >= w0 * (1 - 1e-9)).all()
    assert d.certificate.violation <= 1e-9
    assert d.certificate.details["rank_one_share"] < 0.99  # full-rank training data: not rank one
    assert d.certificate.relaxed_objective <= d.objective <= d.certificate.details["rounded_objective"]
    S = d.matrix.toarray()
    assert d.objective == pytest.approx(np.trace(S @ X @ X.T @ S) / 5)


@pytest.mark.parametrize("bound", [{"lower": 2.0}, {"lower": np.linspace(0.5, 3, 14)}, {"lower": 1.0, "upper": 1.5}])
def test_user_bounds_are_kept(small, bound):
    g, X = small
    for d in (
        prony(g, signals=X, noise=0.5, **bound),
        relaxation(g, signals=X, noise=0.5, **bound),
        minmax(g, signal_low=X.min(axis=1), signal_high=X.max(axis=1), noise=0.5, **bound),
        exact(g, signals=X, noise=0.5, **bound),
    ):
        square = d.weights**2
        assert (square >= np.asarray(bound["lower"]) * (1 - 1e-9)).all(), d.method
        assert (square <= bound.get("upper", np.inf) * (1 + 1e-9)).all(), d.method


def test_prony_without_bound_or_noise_says_that_zero_is_optimal(small):
    g, X = small
    d = prony(g, signals=X)
    assert not d.weights.any()
    assert d.status.name == "ZERO_WEIGHTS"
    assert "pass noise" in d.status.value


def test_prony_scale_is_open_and_chosen_by_the_mse(small):
    """With one known signal every scale has objective zero; the MSE tells them apart."""
    g, X = small
    x = X[:, 0]
    chosen, bound = (prony(g, signals=x, noise=0.5, scale=s) for s in ("mse", "bound"))
    assert chosen.objective == pytest.approx(0, abs=1e-9)
    assert bound.objective == pytest.approx(0, abs=1e-9)
    products = bound.weights * x
    np.testing.assert_allclose(products, products[0], rtol=1e-6)
    values = [risk(g, d, signals=x, noise=0.5).nmse for d in (chosen, bound)]
    assert values[0] < values[1]
    # the oracle limit 1 / (N SNR): all that is left is the noise along x
    assert values[0] == pytest.approx(0.5 / (x @ x), rel=1e-3)


# -- min-max ----------------------------------------------------------------------------------------------


def saddle_program(task, extremes, solver):
    """What saddle_point solves, as a cvxpy program. Returns also H."""
    import cvxpy as cp

    n = task.n_nodes
    H = cp.Variable((n, n), PSD=True)
    scale = float(np.sum(extremes**2))
    values, Q = np.linalg.eigh(task.Sigma_matrix / scale)
    noise = cp.sum_squares(H @ (Q * np.sqrt(values.clip(0))))
    errors = [cp.sum_squares((H - np.eye(n)) @ (x / np.sqrt(scale))) for x in extremes.T]
    problem = cp.Problem(cp.Minimize(cp.max(cp.hstack(errors)) + noise))
    problem.solve(solver=solver.upper())
    return problem.value * scale, np.asarray(H.value)


def test_saddle_point_equals_its_program(small):
    g, X = small
    extremes = np.column_stack([X.min(axis=1), X.max(axis=1)])
    task = _problem.problem(g, signals=extremes, noise=np.linspace(0.2, 1, 14), needs="test")
    H, theta, value = _corners.saddle_point(task, extremes)
    solved, H_sdp = saddle_program(task, extremes, "clarabel")
    assert value == pytest.approx(solved, rel=1e-5)
    assert 0 <= theta <= 1
    np.testing.assert_allclose(H, H_sdp, atol=1e-3)


def test_minmax_prony_balances_the_corners(small):
    g, X = small
    low, high = X.min(axis=1), X.max(axis=1)
    d = minmax(g, signal_low=low, signal_high=high, noise=0.5)
    S = d.matrix.toarray()
    corner = [float(np.sum((S @ x) ** 2)) for x in (low, high)]
    assert d.objective == pytest.approx(max(corner))
    assert d.certificate.relaxed_objective <= d.objective * (1 + 1e-6)


def test_one_global_pair_of_bounds_designs_nothing(small):
    """Both corners are proportional to ones: S 1 = 0 for any constant weight, and the design is one weight again."""
    g, _ = small
    d = minmax(g, signal_low=-3.0, signal_high=5.0, noise=0.5, solver="clarabel")
    np.testing.assert_allclose(d.weights, d.weights[0], rtol=1e-3)
    assert d.objective == pytest.approx(0, abs=1e-6)


def test_the_worst_signal_of_a_box_is_not_at_its_two_corners():
    """The paper's claim about (32), refuted by enumerating the 256 vertices of a box on 8 nodes."""
    rng = np.random.default_rng(0)
    g = nareg.graphs.erdos_renyi(8, 0.6, rng=rng)
    w = 1 + rng.random(8)
    S = (w[:, None] * g.laplacian().toarray()) * w
    vertices = np.array(np.meshgrid(*[[-1.0, 1.0]] * 8)).reshape(8, -1)
    values = np.sum((S @ vertices) ** 2, axis=0)
    corners = np.sum((S @ np.column_stack([-np.ones(8), np.ones(8)])) ** 2, axis=0)
    assert values.max() > 10 * corners.max()


# -- inside a weighted data term --------------------------------------------------------------------------


def test_designs_inside_the_noise_weighted_fit_are_whitened_designs(small, rng):
    """With c = 1 / variance the relaxed H of step one is the LMMSE filter, whatever the noise."""
    g, X = small
    noise = 10 ** rng.uniform(-1, 1, 14)
    task = _problem.problem(g, signals=X, noise=noise, data_weight="noise", needs="test")
    root = np.sqrt(1 / noise)
    H = _filter_fit.dense_step_one(task.whitened()).matrix / root[:, None] * root
    R = X @ X.T / 5
    np.testing.assert_allclose(H, R @ np.linalg.inv(R + np.diag(noise)), atol=1e-8)
    for d in (
        relaxation(g, signals=X, noise=noise, data_weight="noise"),
        prony(g, signals=X, noise=noise, data_weight="noise"),
    ):
        np.testing.assert_allclose(d.data_weight, 1 / noise)
        assert d.certificate.violation <= 1e-9


# -- the paper's synthetic experiment ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("n_graphs", [2, *at_night([20])])
def test_oracle_designs_on_erdos_renyi_graphs(n_graphs):
    """N = 50, p = .5, band-limited to 20 frequencies, 0 dB, averages over 20 graphs. The limit is 1 / (N SNR) = 0.02."""
    result: dict[str, list[float]] = {"prony": [], "relaxation": [], "published rule": [], "exact": []}
    for seed in range(n_graphs):
        g = nareg.graphs.erdos_renyi(50, 0.5, rng=np.random.default_rng(seed))
        x = bandlimited_signal(g, 20)
        noise = x @ x / 50
        designs = {
            "prony": prony(g, signals=x, noise=noise),
            "relaxation": relaxation(g, signals=x, noise=noise),
            "published rule": node_invariant(g, signals=x, noise=noise),
            "exact": exact(g, signals=x, noise=noise),
        }
        for name, d in designs.items():
            result[name].append(risk(g, d, signals=x, noise=noise).nmse)
    mean = {name: np.mean(values) for name, values in result.items()}
    assert 0.02 <= mean["prony"] <= 0.022
    assert 0.02 <= mean["relaxation"] <= 0.03
    assert 0.02 <= mean["exact"] <= 0.022
    assert mean["published rule"] == pytest.approx(0.46, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "seed"), [(20, 0), *at_night([(50, 0), (50, 1)])])
def test_oracle_prony_by_sdp_reaches_the_same(n, seed):
    g = nareg.graphs.erdos_renyi(n, 0.5, rng=np.random.default_rng(seed))
    x = bandlimited_signal(g, 2 * n // 5)
    noise = x @ x / n
    d = prony(g, signals=x, noise=noise, solver="sdp")
    assert d.certificate.solver.startswith("CLARABEL")
    assert risk(g, d, signals=x, noise=noise).nmse <= 1.1 / n
    r = relaxation(g, signals=x, noise=noise, solver="sdp")
    assert risk(g, r, signals=x, noise=noise).nmse <= 1.5 / n


# -- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", [prony, relaxation, exact])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"lower": 2.0, "upper": 1.0}, r"lower\[0\] = 2 is above upper\[0\] = 1"),
        ({"lower": -1.0}, "lower"),
        ({"lower": np.ones(3)}, "lower has shape"),
        ({"upper": np.nan}, "upper is nan"),
        ({"noise": -0.1}, "noise"),
        ({"data_weight": "noise", "noise": 0.0}, r"noise\[0\] is 0"),
        ({"signals": np.ones(13)}, "signals has shape"),
        ({"signals": np.full(14, np.inf)}, r"signals\[0\] is inf"),
        ({"signals": np.ones(14, bool)}, "signals is boolean"),
    ],
)
def test_bad_arguments_are_named(small, design, arguments, words):
    g, X = small
    with pytest.raises(InputError, match=words):
        design(g, **{"signals": X, "noise": 0.5, **arguments})


def test_bad_minmax_arguments_are_named(small):
    g, _ = small
    for arguments, words in (
        ({"signal_low": 1.0, "signal_high": 0.0}, r"signal_low\[0\] = 1 is above signal_high\[0\] = 0"),
        ({"signal_low": 0.0, "signal_high": 1.0, "criterion": "mse"}, "needs noise"),
        ({"signal_low": 0.0, "signal_high": 1.0, "criterion": "mae"}, "choose one of"),
        ({"signal_low": 0.0, "signal_high": 1.0, "uncertainty": "sphere"}, "choose one of 'corners'"),
        ({"signal_low": 0.0, "signal_high": 1.0}, "lower is 0"),
    ):
        with pytest.raises(InputError, match=words):
            minmax(g, **arguments)


def test_solver_that_is_not_installed_is_named(small, monkeypatch):
    import cvxpy

    g, X = small
    monkeypatch.setattr(cvxpy, "installed_solvers", lambda: ["CLARABEL"])
    with pytest.raises(MissingDependencyError, match="solver='scs' is not installed: install its package"):
        prony(g, signals=X, noise=0.5, solver="scs")
    with pytest.raises(InputError, match="solver is 'quick'; choose one of 'auto', 'low-rank', 'sdp', CLARABEL"):
        prony(g, signals=X, noise=0.5, solver="quick")


def test_sizes_that_would_not_end_are_refused():
    big = nareg.graphs.grid((60, 60))
    with pytest.raises(TooLargeError, match="3600 x 3600 matrices"):
        exact(big, signals=np.ones(3600), noise=1.0, solver="dense")
