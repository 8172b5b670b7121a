"""The worst case of given weights over a set: bounds against enumeration, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.design import Ball, SmoothBox
from nareg.design._convex import criteria as _criteria
from nareg.design._convex import worst_case as _worst
from nareg.design._risk import problem as _problem
from tests.helpers import dense_filter, directional_difference, roughness, sensor_case, vertices

worst_case = _worst.worst_case


def random_case(seed: int, n: int = 8):
    rng = np.random.default_rng(seed)
    g = nareg.graphs.erdos_renyi(n, 0.5, rng=rng)
    low = rng.standard_normal(n) - 0.5
    high = low + 2 * rng.random(n)
    high[0] = low[0]  # a value that is known
    return g, rng.standard_normal(n), low, high, 10 ** rng.uniform(-1, 1, n), rng.random(n)


def test_the_worst_vertex_of_a_box_is_far_above_its_two_corners():
    g = nareg.graphs.erdos_renyi(8, 0.5, rng=np.random.default_rng(3))
    w = np.random.default_rng(1).uniform(0.5, 1.5, 8)
    X = vertices(-np.ones(8), np.ones(8))
    S = w[:, None] * g.laplacian().toarray() * w
    values = np.sum((S @ X) ** 2, axis=0)
    result = worst_case(g, w, uncertainty="box", criterion="prony", signal_low=-1.0, signal_high=1.0)
    assert result.lower == pytest.approx(values.max())
    assert values.max() <= result.upper <= 1.02 * values.max()
    assert values[0] == pytest.approx(values[-1])  # the two corners
    assert values[0] < 0.2 * values.max()


@pytest.mark.parametrize("seed", range(8))
def test_enumeration_lies_between_the_bounds(seed):
    g, w, low, high, c, noise = random_case(seed)
    X = vertices(low, high)
    S = w[:, None] * g.laplacian().toarray() * w
    H = dense_filter(g, w, c)
    errors = {
        "prony": np.sum((S @ X / np.sqrt(c)[:, None]) ** 2, axis=0),
        "mse": np.sum((H @ X - X) ** 2, axis=0) + np.sum(H**2 * noise),
    }
    for criterion, values in errors.items():
        result = worst_case(
            g, w, uncertainty="box", criterion=criterion, signal_low=low, signal_high=high, noise=noise, data_weight=c
        )
        worst = values.max()
        assert worst * (1 - 0.02) <= result.lower <= worst * (1 + 1e-9) <= result.upper * (1 + 2e-9)
        assert result.upper <= 1.05 * worst
        assert (low <= result.signal).all()
        assert (result.signal <= high).all()


@pytest.mark.parametrize("criterion", ["prony", "mse"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_smooth_box_bounds_hold_and_tend_to_those_of_the_box(seed, criterion):
    g, w, low, high, _, noise = random_case(seed)
    rng = np.random.default_rng(seed)
    X = np.hstack([vertices(low, high), low[:, None] + rng.random((8, 4000)) * (high - low)[:, None]])
    rough = roughness(g, X)
    S = w[:, None] * g.laplacian().toarray() * w
    H = dense_filter(g, w)
    B, variance = (S, 0.0) if criterion == "prony" else (H - np.eye(8), float(np.sum(H**2 * noise)))
    errors = np.sum((B @ X) ** 2, axis=0) + variance
    options = {"criterion": criterion, "signal_low": low, "signal_high": high, "noise": noise}
    box = worst_case(g, w, uncertainty="box", **options)
    last = 0.0
    for kappa in (np.quantile(rough, 0.05), np.median(rough), 2 * rough.max()):
        result = worst_case(g, w, uncertainty=SmoothBox(kappa), **options)
        assert errors[rough <= kappa].max() <= result.upper * (1 + 1e-9)
        assert last <= result.upper * (1 + 1e-3)
        assert result.upper <= box.upper * (1 + 1e-3)
        assert result.lower <= result.upper <= 1.25 * result.lower
        assert roughness(g, result.signal[:, None])[0] <= kappa * (1 + 1e-9)
        assert result.lower == pytest.approx(np.sum((B @ result.signal) ** 2) + variance)
        last = result.upper
    assert result.upper == pytest.approx(box.upper, rel=1e-3)
    assert result.multiplier == 0


def test_ball_is_the_largest_singular_value():
    g, w, _, _, c, noise = random_case(1)
    S, H = w[:, None] * g.laplacian().toarray() * w, dense_filter(g, w, c)
    prony = worst_case(g, w, uncertainty=Ball(3.0), criterion="prony")
    assert prony.lower == pytest.approx(9 * np.linalg.eigvalsh(S)[-1] ** 2)
    assert prony.upper == pytest.approx(prony.lower)
    mse = worst_case(g, w, uncertainty=Ball(3.0), noise=noise, data_weight=c)
    assert mse.upper == pytest.approx(9 * np.linalg.norm(H - np.eye(8), 2) ** 2 + np.sum(H**2 * noise))
    assert mse.lower <= mse.upper


def test_any_design_can_be_examined():
    g, low, high = sensor_case(0)
    d = nareg.design.node_invariant(g, signals=(low + high) / 2, noise=0.1, data_weight="noise")
    options = {"uncertainty": "box", "signal_low": low, "signal_high": high, "noise": 0.1}
    result, same = worst_case(g, d, **options), worst_case(g, d.weights, data_weight=d.data_weight, **options)
    assert result.upper == pytest.approx(same.upper)
    assert result.upper != pytest.approx(worst_case(g, d.weights, **options).upper)  # the design's own fit was used


def test_a_known_signal_is_its_own_worst_case():
    g, x, _ = sensor_case(0, 12)
    for signals in ("box", SmoothBox(roughness(g, x[:, None])[0] * 1.001)):
        result = worst_case(g, 1.0, uncertainty=signals, criterion="prony", signal_low=x, signal_high=x)
        assert result.lower == pytest.approx(np.sum((g.laplacian() @ x) ** 2))
        assert result.upper == pytest.approx(result.lower)


def test_certificate_of_a_large_network_is_proven_by_a_sparse_factorization(monkeypatch):
    g, low, high = sensor_case(3, 60)
    options = {"uncertainty": "box", "criterion": "prony", "signal_low": low, "signal_high": high}
    dense = worst_case(g, 1.0, **options)
    for name in ("worst_case.DENSE_EIGENVALUES", "upper_bound.DENSE_EIGENVALUES", "signal_sets.SMALL"):
        monkeypatch.setattr(f"nareg.design._convex.{name}", 10)
    sparse = worst_case(g, 1.0, **options)
    assert dense.lower <= sparse.upper
    assert sparse.upper == pytest.approx(dense.upper, rel=1e-3)
    ball = worst_case(g, 1.0, uncertainty=Ball(2.0), criterion="prony")
    assert ball.lower <= ball.upper == pytest.approx(ball.lower, rel=1e-5)


@pytest.mark.parametrize("criterion", ["prony", "mse"])
def test_gradient_of_the_smooth_maximum(criterion, rng):
    g, w, low, high, c, noise = random_case(2)
    task = _problem.problem(g, signals=np.column_stack([low, high]), noise=noise, data_weight=c, needs="test")
    made = (_criteria.prony_criterion if criterion == "prony" else _criteria.mse_criterion)(task)
    moments = [rng.standard_normal((8, k)) for k in (1, 3, 2)]
    function, direction = made.smooth_maximum(moments), rng.standard_normal(8)
    value, gradient = function(w)
    worst = max(np.sum((made.operator(w) @ F) ** 2) for F in moments) + made.variance(w)
    assert worst <= value * (1 + 1e-12) <= 1.01 * worst
    slope = directional_difference(function, w, direction)
    assert gradient @ direction == pytest.approx(slope, rel=1e-4, abs=1e-6 * (1 + abs(value)))
