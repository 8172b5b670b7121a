"""Transforms and what means, bands and likelihoods become on the way back."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from nareg.errors import InputError
from nareg.spacetime._readings import transforms as _transforms
from nareg.spacetime._readings.transforms import Transform, named
from tests.spacetime.reference import network

CUBE = (np.cbrt, lambda x: x**3)
positive = st.lists(st.floats(1e-3, 1e3), min_size=5, max_size=30).map(np.array)


@given(positive, st.sampled_from(["none", "sqrt", "log"]))
def test_back_transform_undoes_the_transform_and_both_increase(y, name):
    law = named(name, y)
    np.testing.assert_allclose(law.backward(law.forward(y)), y, rtol=1e-9, atol=1e-9)
    grid = np.linspace(0.0, y.max(), 50)
    assert (np.diff(law.forward(grid)) > 0).all()
    assert (np.diff(law.backward(np.linspace(-50.0, 50.0, 200))) >= 0).all()


@given(positive, st.sampled_from(["none", "sqrt", "log"]))
def test_a_pickle_keeps_both_directions(y, name):
    law = named(name, y - 1e-4)  # the limit and the shift are not zero
    again = pickle.loads(pickle.dumps(law))
    assert (again.name, again.low, again.shift) == (law.name, law.low, law.shift)
    np.testing.assert_array_equal(again.forward(y), law.forward(y))
    np.testing.assert_array_equal(again.backward(law.forward(y)), law.backward(law.forward(y)))


@given(positive, st.sampled_from(["none", "sqrt", "log", CUBE]))
def test_slope_is_the_derivative(y, name):
    """What turns the likelihood of transformed readings into one of readings."""
    law = named(name, y)
    step = 1e-6 * y
    slope = (law.forward(y + step) - law.forward(y - step)) / (2 * step)
    kept = y > 0.02 * np.median(y)  # the root's slope is bounded near zero
    np.testing.assert_allclose(law.log_slope(y)[kept], np.log(slope[kept]), atol=1e-4)


def test_slope_of_a_users_pair_with_negative_readings():
    y = np.array([-8.0, -1.0, 1.0, 27.0])
    np.testing.assert_allclose(named(CUBE, y).log_slope(y), np.log(np.abs(y) ** (-2 / 3) / 3), atol=1e-3)


@pytest.mark.parametrize("std", [0.0, 0.3, 1.0])
def test_mean_of_a_log_normal_and_of_a_squared_normal(std):
    center = np.array([[-1.0, 0.5, 2.0]])
    var = np.full_like(center, std**2)
    mean, spread = Transform("log").mean(center, var)
    np.testing.assert_allclose(mean, np.exp(center + var / 2), rtol=1e-6)
    np.testing.assert_allclose(spread, mean * np.sqrt(np.exp(var) - 1), rtol=1e-3, atol=1e-7)
    far = center + 10
    mean, spread = Transform("sqrt").mean(far, var)
    np.testing.assert_allclose(mean, far**2 + var, rtol=1e-9)
    np.testing.assert_allclose(spread, np.sqrt(4 * far**2 * var + 2 * var**2), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(Transform("none").mean(center, var)[0], center)


def test_means_against_samples_where_the_root_is_cut_at_zero():
    rng = np.random.default_rng(0)
    x = 0.3 + 0.8 * rng.standard_normal(400_000)
    mean, std = Transform("sqrt").mean(np.array([0.3]), np.array([0.64]))
    sample = np.maximum(x, 0) ** 2
    assert mean[0] == pytest.approx(sample.mean(), rel=0.02)
    assert std[0] == pytest.approx(sample.std(), rel=0.02)


def test_smoother_with_a_logarithm_is_the_smoother_of_the_logarithms():
    plain = network(n=5, T=40)
    model = network(n=5, T=40, transform=Transform("log"))
    np.testing.assert_allclose(np.log(model.readings), plain.readings, atol=1e-12)
    one, other = plain.smooth(robust=False), model.smooth(robust=False)
    np.testing.assert_allclose(other.median, np.exp(one.x), rtol=1e-10)
    np.testing.assert_allclose(other.x, np.exp(one.x + one.std**2 / 2), rtol=1e-6)
    for level in (0.5, 0.9):
        for of in ("field", "reading"):
            np.testing.assert_allclose(other.interval(level, of=of), np.exp(one.interval(level, of=of)), rtol=1e-9)
    seen = model.readings[np.isfinite(model.readings)]
    assert other.log_likelihood == pytest.approx(one.log_likelihood - np.log(seen).sum())
    update, straight = model.stream().update(np.exp(np.ones(5))), plain.stream().update(np.ones(5))
    np.testing.assert_allclose(update.x, np.exp(straight.x + straight.std**2 / 2), rtol=1e-6)
    np.testing.assert_allclose(update.scores, straight.scores, rtol=1e-9)


def test_bands_are_ordered_and_widen():
    transform = network(n=4, T=30).smooth()
    for level in (0.1, 0.5, 0.99, 1.0):
        lower, upper = transform.interval(level)
        wide = transform.interval(level, of="reading")
        assert (wide[0] < lower).all()
        assert (lower < upper).all()
        assert (upper < wide[1]).all()
    lower, upper = transform.interval(0.9)
    np.testing.assert_allclose(upper - lower, 2 * norm.ppf(0.95) * transform.std)
    for level, of, message in ((0.0, "field", "level is 0"), (1.5, "field", "level is 1.5"), (0.9, "noise", "of is 'noise'")):
        with pytest.raises(InputError, match=message):
            transform.interval(level, of=of)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("sqrt", "smallest is -3"),
        ("log", "smallest is -3"),
        ("root", "choose 'auto'"),
        (3, "choose 'auto'"),
        ((np.cbrt,), "choose 'auto'"),
        ((np.cbrt, np.sqrt), "does not undo"),
        ((np.log, np.exp), "not finite at the reading -3"),
        ((np.sqrt, np.square), "not finite at the reading -3"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_no_transform(value, message):
    with pytest.raises(InputError, match=message):
        named(value, np.array([-3.0, 1.0, 2.0]))


def test_later_readings_outside_the_transform_are_refused_and_change_nothing():
    model = network(n=3, T=20, transform=named((np.log, np.exp), np.ones(3)))
    stream, twin = model.stream(robust=None), model.stream(robust=None)
    with pytest.raises(InputError, match="not finite at the reading 0"):
        stream.update([0.0, 1.0, 1.0])
    np.testing.assert_array_equal(stream.update(np.ones(3)).x, twin.update(np.ones(3)).x)
    readings = model.readings.copy()
    readings[1, 4] = -1.0
    with pytest.raises(InputError, match="not finite at the reading -1"):
        model.smooth(readings)


def test_candidates_follow_the_skewness():
    rng = np.random.default_rng(0)
    names = lambda y: [law.name for law in _transforms.candidates(y)]  # noqa: E731
    assert names(rng.standard_normal(500) + 20) == ["none"]
    assert names(np.exp(rng.standard_normal(500))) == ["none", "sqrt", "log"]
    assert names(-np.exp(rng.standard_normal(500))) == ["none"]
    assert names(np.full(50, 20.1)) == ["none"]


@pytest.mark.parametrize("name", ["sqrt", "log"])
def test_concentrations_that_scatter_below_zero(name):
    """Both transforms begin at the smallest reading; far below zero they are refused."""
    y = np.array([-2.0, -0.5, 0.0, 3.0, 8.0, 40.0])
    law = named(name, y)
    np.testing.assert_allclose(law.backward(law.forward(y)), y, atol=1e-9)
    assert (np.diff(law.forward(y)) > 0).all()
    mean, _ = law.mean(law.forward(y) - 5.0, np.full(y.shape, 0.1))
    assert (mean >= -2.0).all()
    again = _transforms.restore(law.name, law.shift, law.low)
    np.testing.assert_array_equal(again.forward(y), law.forward(y))
    with pytest.raises(InputError, match="smallest is -20"):
        named(name, np.array([-20.0, 1.0, 3.0]))


def test_auto_compares_transforms_of_skewed_readings_near_zero():
    skewed = np.random.default_rng(0).lognormal(1.0, 1.0, 500)
    assert [law.name for law in _transforms.candidates(skewed)] == ["none", "sqrt", "log"]
    assert [law.name for law in _transforms.candidates(skewed - 1.0)] == ["none", "sqrt", "log"]
    assert [law.name for law in _transforms.candidates(skewed - 10.0)] == ["none"]
    assert [law.name for law in _transforms.candidates(-skewed)] == ["none"]


def test_frost_at_one_place_or_many_is_no_fault(rng):
    y = rng.lognormal(2.0, 0.8, (20, 300))
    place, week = y.copy(), y.copy()
    place[3] -= 2 * np.median(y)
    place[4:8] -= 0.7 * np.median(y)
    week[:, 100:104] -= 4 * np.median(y)
    assert [law.name for law in _transforms.candidates(place)] == ["none"]
    assert [law.name for law in _transforms.candidates(week)] == ["none"]


def test_a_gauge_whose_flow_turns_again_and_again_is_no_fault(rng):
    """The logarithm of all flows took the ebb of one tidal gauge of 24 for a constant, and its estimate never fell to it."""
    y = rng.lognormal(2.0, 0.5, (24, 300))
    y[5] += 40 * np.sin(2 * np.pi * np.arange(300) / 12.42)
    assert [law.name for law in _transforms.candidates(y)] == ["none"]
    with pytest.raises(InputError, match="slightly below"):
        named("log", y)
    y[5] += 100 * (np.arange(300) < 160)  # a flood at first
    assert [law.name for law in _transforms.candidates(y)] == ["none"]
    y[5] = rng.lognormal(2.0, 0.2, 300) - 8.0  # a balance
    y[5, 40:43] = -9.0
    assert [law.name for law in _transforms.candidates(y)] == ["none"]
    y[5] = rng.lognormal(2.0, 0.2, 300)  # and a surge that turns one river once
    y[5, 100:120] -= 40
    assert [law.name for law in _transforms.candidates(y)] == ["none"]


def test_the_logarithm_bends_at_small_stations_where_stations_are_unlike(rng):
    """A shift by the usual reading of all would leave a station of a thousandth of it on a straight part."""
    alike = np.exp(rng.standard_normal((20, 200)))
    assert named("log", alike).shift == pytest.approx(0.15 * np.median(alike))
    sizes = 10.0 ** np.linspace(0, 4, 20)[:, None]
    shift = named("log", sizes * alike).shift
    assert 0.15 * sizes.min() / 2 < shift < 0.15 * np.median(sizes) / 5
    assert named("log", 100 * sizes * alike).shift == pytest.approx(100 * shift)
