"""Min-max designs over whole sets, against each other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nareg
from nareg.design import Ball, SmoothBox, minmax, risk
from nareg.design._convex import over_sets as _program
from nareg.design._convex import worst_case as _worst
from nareg.design._convex.criteria import mse_criterion
from nareg.design._convex.over_sets import relaxed_bound, starting_weights
from nareg.design._risk import problem as _problem
from nareg.design._risk.descent import feasible, interval
from nareg.errors import InputError, TooLargeError
from tests.helpers import at_night, dense_filter, half_split, roughness, sensor_case, vertices

worst_case = _worst.worst_case


def over(name, *, smoothness=None, radius=None):
    """The set of this name."""
    return {"smooth-box": SmoothBox(smoothness), "ball": Ball(radius)}.get(name, name)


# -- the programs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["box", "smooth-box", "ball"])
@pytest.mark.parametrize("criterion", ["prony", "mse"])
def test_the_sdp_value_is_the_certified_bound_of_its_matrix(name, criterion):
    """Two programs that share no code: the S-procedure in cvxpy, and the low-rank MaxCut bound."""
    g, low, high = sensor_case(4, 8)
    c = np.linspace(0.5, 2, 8)
    uncertainty = over(name, smoothness=0.4 * roughness(g, vertices(low, high)).max(), radius=2.0)
    bounds = {"signal_low": None, "signal_high": None} if name == "ball" else {"signal_low": low, "signal_high": high}
    task = _problem.problem(g, signals=np.column_stack([low, high]), noise=0.2, data_weight=c, needs="test")
    U = _worst.signal_set(uncertainty, task.base.L, **bounds)
    white, root = task.whitened(), np.sqrt(c)
    solved = _program.bound_program(white, U, c, np.full(8, 0.3) / c, "CLARABEL", criterion=criterion)
    matrix = solved.omega
    B = (matrix * white.L if criterion == "prony" else matrix - np.eye(8)) * root
    variance = 0.0 if criterion == "prony" else float(np.sum((matrix @ white.Sigma_matrix) * matrix))
    result = _worst.examine(B, U, variance=variance)
    assert result.upper == pytest.approx(solved.value, rel=2e-3)
    if criterion == "prony":
        assert (np.diag(matrix) * c >= 0.3 * (1 - 1e-6)).all()
    if name == "box":
        worst = np.max(np.sum((B @ vertices(low, high)) ** 2, axis=0)) + variance
        assert worst <= solved.value * (1 + 1e-5) <= 1.15 * worst


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "seed"), [("box", 0), ("box", 1), ("smooth-box", 0), pytest.param("smooth-box", 1, marks=pytest.mark.nightly)]
)
def test_first_order_is_as_good_as_the_rounded_sdp(name, seed):
    g, low, high = sensor_case(seed, 14)
    options = {"signal_low": low, "signal_high": high, "noise": 0.2}
    options["uncertainty"] = over(name, smoothness=0.5 * roughness(g, high[:, None])[0] + 1.0)
    first, sdp = (minmax(g, **options, solver=s) for s in ("first-order", "sdp"))
    assert first.status.ok
    assert sdp.certificate.relaxed_objective <= min(first.objective, sdp.objective) * (1 + 1e-4)
    assert first.objective == pytest.approx(sdp.objective, rel=0.02)


# -- designs ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("criterion", "name"),
    [
        *itertools.product(["prony"], ["box", "smooth-box", "ball"]),
        *itertools.product(["mse"], ["box", "ball"]),
        pytest.param("mse", "smooth-box", marks=pytest.mark.nightly),
    ],
)
def test_designs_beat_one_weight_and_keep_their_bounds(criterion, name):
    g, low, high = sensor_case(2)
    rng = np.random.default_rng(0)
    lower, noise = rng.uniform(0.1, 0.4, 20), rng.uniform(0.05, 0.2, 20)
    options = {"criterion": criterion, "noise": noise}
    options["uncertainty"] = over(name, smoothness=0.5 * roughness(g, high[:, None])[0] + 1.0, radius=4.0)
    if name != "ball":
        options |= {"signal_low": low, "signal_high": high}
    d = minmax(g, lower=lower, upper=50.0, solver="first-order", **options)
    worst = d.certificate.details
    assert d.status.ok
    assert d.objective == worst["worst_case_upper"] >= worst["worst_case_lower"] > 0.7 * d.objective
    assert (d.weights**2 >= lower * (1 - 1e-9)).all()
    assert (d.weights**2 <= 50 * (1 + 1e-9)).all()
    single = worst_case(g, np.sqrt(lower.max()), **options)
    assert d.objective < single.upper
    x = np.array(worst["worst_signal"])
    H = d.matrix.toarray() if criterion == "prony" else dense_filter(g, d.weights) - np.eye(20)
    variance = 0.0 if criterion == "prony" else float(np.sum(dense_filter(g, d.weights) ** 2 * noise))
    assert np.sum((H @ x) ** 2) + variance == pytest.approx(worst["worst_case_lower"])


@pytest.mark.parametrize(
    "options", [{"signal_low": -1.0, "signal_high": 1.0, "uncertainty": "box"}, {"uncertainty": Ball(2.0)}]
)
def test_a_set_symmetric_about_zero_asks_prony_for_the_smallest_weights(options):
    """The modified error only grows with every weight: no solver may find less than the lower bound gives."""
    g, _, _ = sensor_case(5, 12)
    lower = np.random.default_rng(5).uniform(0.2, 1.0, 12)
    auto = minmax(g, lower=lower, data_weight=np.linspace(1, 3, 12), **options)
    np.testing.assert_allclose(np.abs(auto.weights), np.sqrt(lower))
    for solver in ("sdp", "first-order"):
        other = minmax(g, lower=lower, data_weight=np.linspace(1, 3, 12), solver=solver, **options)
        assert other.objective >= auto.objective * (1 - 1e-3)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        w = np.sqrt(lower * (1 + rng.random(12))) * rng.choice([-1, 1], 12)
        result = worst_case(g, w, criterion="prony", data_weight=np.linspace(1, 3, 12), **options)
        assert result.upper >= auto.certificate.details["worst_case_lower"] * (1 - 1e-9)


def test_a_design_is_saved_with_its_worst_case(tmp_path):
    g, low, high = sensor_case(1, 12)
    d = minmax(g, signal_low=low, signal_high=high, noise=0.2, uncertainty="box", solver="first-order", data_weight="noise")
    d.save(tmp_path / "design.npz")
    loaded = nareg.design.load(tmp_path / "design.npz")
    assert loaded.certificate.details == d.certificate.details
    assert loaded.settings["uncertainty"] == "box"


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["prony", "mse"])
@pytest.mark.parametrize("name", ["corners", "box", "smooth-box", "ball"])
def test_nodes_of_a_group_share_a_weight(criterion, name):
    g, low, high = sensor_case(1, 12)
    labels, noise = np.arange(12) // 3, np.geomspace(0.05, 1.0, 12)
    more = {} if name == "ball" else {"signal_low": low, "signal_high": high}
    more["uncertainty"] = over(name, smoothness=0.5 * float(roughness(g, vertices(low, high)).mean()), radius=3.0)
    options = {"criterion": criterion, "noise": noise, "data_weight": "noise", "lower": 0.01, **more}
    d = minmax(g, groups=labels, **options)
    assert all(np.ptp(d.weights[labels == label]) == pytest.approx(0, abs=1e-9) for label in range(4))
    assert (d.weights**2 >= 0.01 * (1 - 1e-9)).all()
    assert d.certificate.details["degrees_of_freedom"] == 4
    if name == "corners" and criterion == "prony":  # the free SDP bounds the tied weights from below
        assert minmax(g, **options).certificate.relaxed_objective <= d.objective * (1 + 1e-6)
    with pytest.raises(
        InputError, match="solver='sdp' gives every node its own weight and cannot take groups: use solver='auto'"
    ):
        minmax(g, groups=labels, solver="sdp", **options)


@pytest.mark.parametrize("criterion", ["prony", "mse"])
def test_corner_designs_tell_the_worst_signal_of_their_box(criterion):
    g, low, high = sensor_case(2, 10)
    d = minmax(g, signal_low=low, signal_high=high, noise=0.2, criterion=criterion)
    details = d.certificate.details
    noise_part = 0.0
    if criterion == "mse":
        H = dense_filter(g, d.weights)
        B, noise_part = H - np.eye(10), 0.2 * float(np.sum(H**2))
    else:
        B = d.matrix.toarray()
    worst = float(np.sum((B @ vertices(low, high)) ** 2, axis=0).max()) + noise_part
    assert details["box_worst_case_lower"] == pytest.approx(worst, rel=1e-6)
    assert worst <= details["box_worst_case_upper"] <= 1.2 * worst
    assert worst > d.objective if criterion == "prony" else worst > details["worst_mse"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normalized", "squared"])
@pytest.mark.parametrize("criterion", ["prony", "mse"])
@pytest.mark.parametrize("n", [12, *at_night([150])])
def test_other_penalties(n, criterion, kind):
    g, low, high = sensor_case(4, n)
    operator = g.laplacian("normalized") if kind == "normalized" else g.laplacian() @ g.laplacian()
    options = {
        "signal_low": low,
        "signal_high": high,
        "noise": 0.2,
        "criterion": criterion,
        "uncertainty": "box",
        "lower": 1e-3,
    }
    d = minmax(operator, **options)
    one = worst_case(
        operator, np.sqrt(1e-3), uncertainty="box", criterion=criterion, signal_low=low, signal_high=high, noise=0.2
    )
    details = d.certificate.details
    assert details["worst_case_lower"] <= details["worst_case_upper"] == d.objective <= one.upper * (1 + 1e-6)
    S = d.weights[:, None] * operator.toarray() * d.weights
    x = np.asarray(details["worst_signal"])
    H = np.linalg.inv(np.eye(n) + S)
    reached = np.sum((S @ x) ** 2) if criterion == "prony" else np.sum((H @ x - x) ** 2) + 0.2 * np.sum(H**2)
    assert details["worst_case_lower"] == pytest.approx(reached, rel=1e-6)


def descent_ascent(criterion, U, start: np.ndarray, lower: np.ndarray, upper: np.ndarray, *, steps: int = 1000) -> float:
    """Descent-ascent on the energy ball: x by power steps on its sphere, w by steps of falling length along its gradient."""
    w = feasible(start, lower, upper)
    bound, relaxed = relaxed_bound(criterion, U, w)
    best, x = (bound, w), relaxed.moments[0]
    low, high = interval(w, lower, upper)
    for k in range(steps):
        B = criterion.operator(w)
        for _ in range(3):
            image = B.T @ (B @ x)
            length = float(np.linalg.norm(image))
            x = U.radius * image / length if length > 0 else x
        _, gradient = criterion.smooth_maximum([x])(w)
        size = float(np.linalg.norm(gradient)) or 1.0
        w = np.clip(w - 0.2 / np.sqrt(k + 1) * np.linalg.norm(w) * gradient / size, low, high)
        if k % 10 == 9:
            best = min(best, (relaxed_bound(criterion, U, w)[0], w), key=lambda pair: pair[0])
    return best[0]


@pytest.mark.slow
def test_the_exchange_on_the_ball_comes_near_descent_ascent():
    g, _, _ = sensor_case(6, 12)
    d = minmax(g, criterion="mse", uncertainty=Ball(3.0), noise=0.3, lower=0.01, solver="first-order")
    task = _problem.problem(g, second_moment=np.eye(12), noise=0.3, needs="minmax")
    low, high = task.squared_bounds(0.01, None, default_lower=None)
    criterion, U = mse_criterion(task), _worst.signal_set(Ball(3.0), task.base.L, signal_low=None, signal_high=None)
    starts = starting_weights(task, U, low, high, scaled=True).values()
    start = min(starts, key=lambda w: relaxed_bound(criterion, U, w)[0])
    reference = descent_ascent(criterion, U, start, low, high)
    assert d.objective <= reference * 1.01
    assert reference <= d.objective * 1.1


def test_mse_by_sdp_is_the_fit_with_its_worst_case_beside_it():
    g, low, high = sensor_case(7, 10)
    d = minmax(g, signal_low=low, signal_high=high, noise=0.3, criterion="mse", uncertainty="box", solver="sdp")
    details = d.certificate.details
    assert details["worst_mse"] <= details["worst_case_upper"] * (1 + 1e-6)
    for words in ("worst_mse", "worst_case_lower", "worst_signal"):
        assert words in details
    direct = minmax(g, signal_low=low, signal_high=high, noise=0.3, criterion="mse", uncertainty="box")
    assert details["worst_mse"] <= direct.objective * (1 + 1e-6)
    assert direct.objective <= details["worst_case_upper"] * 1.001


@pytest.mark.slow
@pytest.mark.parametrize(
    ("criterion", "name", "solver"),
    [("prony", "smooth-box", "first-order"), ("prony", "smooth-box", "sdp"), ("mse", "box", "first-order")],
)
def test_weights_do_not_depend_on_the_unit(criterion, name, solver):
    g, low, high = sensor_case(8, 8)
    kappa = 0.5 * roughness(g, high[:, None])[0] + 1.0
    designs = []
    for s in (1.0, 1000.0):
        more = {"criterion": criterion, "uncertainty": over(name, smoothness=s**2 * kappa), "solver": solver}
        designs.append(minmax(g, signal_low=s * low, signal_high=s * high, noise=0.2 * s**2, **more))
    assert designs[1].objective == pytest.approx(1e6 * designs[0].objective, rel=5e-3)
    np.testing.assert_allclose(designs[1].weights, designs[0].weights, rtol=0.1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"signal_low": 1.0, "signal_high": 0.0}, r"signal_low\[0\] = 1 is above signal_high\[0\] = 0"),
        (
            {"signal_high": 1.0},
            "signal_low is None: lower and upper bound the squared weights; pass signal_low and signal_high",
        ),
        ({"signal_low": 1.0}, "signal_high is None"),
        ({"signal_low": 0.0, "signal_high": 1.0, "uncertainty": "smooth-box"}, r"choose one of .* SmoothBox\(smoothness\)"),
        ({"signal_low": 0.0, "signal_high": 1.0, "uncertainty": SmoothBox(0.0)}, "smoothness is 0"),
        ({"signal_low": np.arange(12.0), "signal_high": 12.0, "uncertainty": SmoothBox(-1)}, "smoothness is -1"),
        ({"signal_low": [0, 9] * 6, "signal_high": [1, 10] * 6, "uncertainty": SmoothBox(1e-3)}, "smoothest signal between"),
        ({"uncertainty": "ball"}, r"choose one of .* Ball\(radius\)"),
        ({"uncertainty": Ball(0.0)}, "radius is 0"),
        ({"uncertainty": Ball(1.0), "signal_low": 0.0}, "signal_low is given"),
        (
            {"signal_low": 0.0, "signal_high": 1.0, "uncertainty": "sphere"},
            "uncertainty is 'sphere'; choose one of 'corners', 'box'",
        ),
        ({"signal_high": 1.0, "uncertainty": "corners"}, "signal_low is None"),
        ({"signal_low": 0.0, "signal_high": 1.0, "solver": "closed-form"}, "solver is 'closed-form'; choose one of"),
        (
            {"signal_low": 0.0, "signal_high": 1.0, "uncertainty": "corners", "solver": "first-order"},
            "solver is 'first-order'; choose one of",
        ),
        ({"signal_low": 0.0, "signal_high": 1.0, "criterion": "mse", "noise": None}, "needs noise"),
        ({"signal_low": 0.0, "signal_high": 1.0, "criterion": "mae"}, "criterion is 'mae'; choose one of"),
        ({"signal_low": 0.0, "signal_high": 1.0, "noise": None}, "lower is 0"),
        ({"signal_low": np.nan, "signal_high": 1.0}, "signal_low is nan"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    g, _, _ = sensor_case(9, 12)
    with pytest.raises(InputError, match=words):
        minmax(g, **{"noise": 0.1, "uncertainty": "box", **arguments})


@pytest.mark.slow
def test_sizes_that_would_not_end_are_refused():
    g = nareg.graphs.grid((40, 30))
    with pytest.raises(TooLargeError, match=r"solver='sdp' on 1200 nodes .* use solver='first-order'"):
        minmax(g, signal_low=0.0, signal_high=1.0, noise=0.1, uncertainty="box", solver="sdp")
    with pytest.raises(TooLargeError, match="criterion='mse' on 1200 nodes"):
        minmax(g, signal_low=0.0, signal_high=1.0, noise=0.1, uncertainty="box", criterion="mse")


# -- real readings ----------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_smoothness_repairs_the_box_on_a_real_network(data_root):
    """The whole box admits signals that no weather makes; with the training signals' smoothness it serves."""
    network = nareg.datasets.load("molene", root=data_root).complete()
    train, test = half_split(network.signals, np.random.default_rng(0))
    g, noise = network.graph, float(np.mean(train**2))
    options = {
        "signal_low": train.min(axis=1),
        "signal_high": train.max(axis=1),
        "noise": noise,
        "criterion": "prony-scaled",
        "solver": "first-order",
    }
    kappa = float(roughness(g, train).max())
    box, smooth = (minmax(g, uncertainty=signals, **options) for signals in ("box", SmoothBox(kappa)))
    corners = minmax(
        g, signal_low=options["signal_low"], signal_high=options["signal_high"], noise=noise, criterion="prony-scaled"
    )
    nmse = {d.method: risk(g, d, signals=test, noise=noise).nmse for d in (corners, box, smooth)}
    assert nmse[smooth.method] < 0.7 * nmse[box.method]
    assert nmse[smooth.method] < 1.25 * nmse[corners.method]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.slow
def test_corner_designs_are_never_worse_than_the_bound_itself(seed):
    rng = np.random.default_rng(seed)
    g = nareg.graphs.grid((3, 3))
    low = rng.standard_normal(9)
    high = low + 2 * rng.random(9)
    d = minmax(g, signal_low=low, signal_high=high, lower=1.0)
    L = g.laplacian().toarray()
    assert d.objective <= max(np.sum((L @ low) ** 2), np.sum((L @ high) ** 2)) * (1 + 1e-9)


@pytest.mark.slow
def test_a_node_that_must_not_be_smoothed_does_not_keep_the_others_from_it():
    g = nareg.graphs.grid((3, 3))
    x = np.linspace(1, 2, 9)
    upper = np.full(9, 1e4)
    upper[0] = 0.0
    d = minmax(
        g, signal_low=x - 0.3, signal_high=x + 0.3, noise=0.5, criterion="mse", uncertainty=SmoothBox(2.0), lower=0, upper=upper
    )
    pinned = np.r_[0.0, np.full(8, 0.6)]
    options = {"uncertainty": SmoothBox(2.0), "signal_low": x - 0.3, "signal_high": x + 0.3, "noise": 0.5}
    assert d.weights[0] == 0
    assert d.objective <= worst_case(g, pinned, **options).upper * (1 + 1e-6) < 0.9 * 4.5


@pytest.mark.parametrize("uncertainty", ["corners", "box"])
def test_an_error_of_zero_is_solved(uncertainty):
    x = np.linspace(1, 2, 9)
    d = minmax(nareg.graphs.grid((3, 3)), signal_low=x, signal_high=x, lower=1.0, uncertainty=uncertainty, solver="auto")
    assert d.objective < 1e-12
    assert d.status.ok


def test_one_range_for_all_stations_needs_no_program(rng):
    graph = nareg.graphs.sensor(30, rng=rng)
    design = nareg.design.minmax(graph, signal_low=-2.0, signal_high=3.0, lower=0.5)
    assert design.certificate.solver == "closed form"
    assert design.certificate.relaxed_objective == 0.0
    assert design.objective < 1e-20
    np.testing.assert_allclose(design.weights, np.sqrt(0.5))
