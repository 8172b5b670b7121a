"""Places without a station: kriging in space and time, against the dense joint Gaussian."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nareg
from nareg.errors import InputError
from nareg.spacetime._dense.places import Extension, PlaceKernel
from nareg.spacetime._readings.space import FAMILIES, between
from tests.spacetime.reference import dense, model_of, network, parameters, random_dynamics

PLACES = np.array([[1.0, 2.0], [3.1, 0.4], [1.05, 2.0]])


def correlation(a, b, reach, eta):
    return (1 - eta) * np.exp(-between(a, b, "euclidean") / reach)


@pytest.mark.parametrize("order", [1, 2])
def test_interpolation_is_dense_kriging_in_space_and_time(order):
    """Scalar dynamics: the field at the places and its readings are jointly Gaussian with a known covariance."""
    model = network(n=5, T=12, gaps=0.2, phi=(0.8, -0.3)[:order])
    result = model.interpolate_at(PLACES)
    # autocorrelation in time, from the difference equation
    a = model.parameters.autoregression()[0]
    rho = [1.0, a[0] if order == 1 else a[0] / (1 - a[1])]
    for k in range(2, 12):
        rho.append(a[0] * rho[k - 1] + (a[1] * rho[k - 2] if order == 2 else 0.0))
    time = np.array(rho)[np.abs(np.arange(12)[:, None] - np.arange(12))]
    sites = model.graph.coordinates
    own = correlation(sites, sites, 2.0, 0.02) + 0.02 * np.eye(5) + 1e-6 * np.eye(5)
    cross = correlation(PLACES, sites, 2.0, 0.02)
    t, i = np.nonzero(np.isfinite(model.readings.T))
    values = model.readings.T[t, i]
    S = time[np.ix_(t, t)] * own[np.ix_(i, i)] + 0.25 * np.eye(t.size)
    for place in range(3):
        C = time[:, t] * cross[place, i]
        np.testing.assert_allclose(result.x[place], C @ np.linalg.solve(S, values), rtol=1e-8, atol=1e-8)
        variance = 1 + 1e-6 - np.einsum("ts,ts->t", C, np.linalg.solve(S, C.T).T)
        np.testing.assert_allclose(result.std[place] ** 2, variance, rtol=1e-8, atol=1e-8)


def test_uncertain_means_widen_both_alike_and_least_at_a_station():
    model = network(n=6, T=40)
    site = model.graph.coordinates[2]
    uncertain = replace(
        model.cycles, spread=np.full((1, 6), 0.3), variance=np.array([2.0]), ranges=np.array([1.5]),
    )  # fmt: skip
    unsure, places = replace(model, cycles=uncertain), np.vstack([site + 1e-9, PLACES])
    result = unsure.interpolate_at(places)
    np.testing.assert_allclose(unsure.extended(places).smooth(robust=False).std[6:], result.std, rtol=1e-7)
    added = (result.std**2 - model.interpolate_at(places).std ** 2)[:, 0]
    assert added[0] == pytest.approx(0.3, rel=1e-4)
    assert (added[1:] > 0.25).all()
    assert (added < 2.3 + 1e-9).all()


@pytest.mark.parametrize("kind", ["scalar", "diagonal", "full"])
@pytest.mark.parametrize("order", [1, 2])
def test_interpolation_is_the_smoother_of_the_extended_model(kind, order):
    rng = np.random.default_rng(1)
    graph = nareg.Graph.from_knn(4 * rng.random((4, 2)), 2)
    y = np.where(rng.random((4, 15)) < 0.2, np.nan, rng.standard_normal((4, 15)))
    process = parameters(4, phi=(0.8, -0.3)[:order])
    model = model_of(graph, y, process=process, dynamics=random_dynamics(rng, 4, order, kind), level=[1.0, 2.0, 3.0, 4.0])
    larger = model.extended(PLACES).smooth(robust=False)
    result = model.interpolate_at(PLACES)
    np.testing.assert_allclose(result.x, larger.x[4:], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(result.std, larger.std[4:], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(larger.x[:4], model.smooth(robust=False).x, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(result.noise, larger.noise[4:])


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", ["scalar", "diagonal", "full"])
def test_extended_dynamics_are_the_dense_joint_process(kind, order):
    """``x_n = W x + u``: moments of the joint process, from those of its parts."""
    rng = np.random.default_rng(2)
    graph = nareg.Graph.from_knn(4 * rng.random((3, 2)), 2)
    process = parameters(3, phi=(0.8, -0.3)[:order])
    old = random_dynamics(rng, 3, order, kind)
    if kind == "scalar":  # new stations follow these coefficients, and have to be stationary
        old = process.dynamics(nareg.spacetime._readings.space.Space.of(graph))
    model = model_of(graph, np.zeros((3, 5)), process=process, dynamics=old)
    joint = PlaceKernel.of(process, 0).joint(model.space, PLACES[:2], np.empty((0, 0)))
    extension = Extension.of(old, process, joint)
    new = extension.dynamics(old)
    nothing = np.full((5, 3), np.nan), np.full((5, 5), np.nan)
    before = dense(nothing[0], old, np.ones(3), np.ones(5)).covariance
    after = dense(nothing[1], new, np.ones(5), np.ones(5)).covariance
    for t in range(5):
        x, joint = before[t, :3, t, :3], after[t, :5, t, :5]
        np.testing.assert_allclose(joint[:3, :3], x, atol=1e-10)
        np.testing.assert_allclose(joint[3:, :3], extension.W @ x, atol=1e-10)
        np.testing.assert_allclose(joint[3:, 3:], extension.W @ x @ extension.W.T + extension.own, atol=1e-8)


def test_at_a_stations_own_place_it_is_about_the_stations_field():
    """All but the station's nugget, a part of the field that no other place shares."""
    model = network(n=8, T=50)
    result, own = model.interpolate_at(model.graph.coordinates), model.smooth()
    np.testing.assert_allclose(result.x, own.x, atol=0.15)
    assert np.corrcoef(result.x.ravel(), own.x.ravel())[0, 1] > 0.995
    # field = shared part + nugget: the place has a nugget of its own
    assert (result.std**2 >= own.std**2 - 1e-9).all()
    assert (result.std**2 <= own.std**2 + 0.041).all()


def test_far_away_it_is_the_level_with_the_fields_own_spread():
    model = network(n=5, T=20, level=np.array([3.0, 3.0, 3.0, 3.0, 3.0]))
    result = model.interpolate_at([[1e6, 1e6]])
    np.testing.assert_allclose(result.x, 3.0, atol=1e-6)
    np.testing.assert_allclose(result.std, 1.0, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_place_does_not_depend_on_which_others_are_asked_for(family):
    rng = np.random.default_rng(3)
    graph = nareg.Graph.from_knn(4 * rng.random((6, 2)), 3)
    model = model_of(graph, rng.standard_normal((6, 20)), process=parameters(6, family=family))
    together = model.interpolate_at(PLACES)
    for k in range(3):
        alone = model.interpolate_at(PLACES[k : k + 1])
        np.testing.assert_allclose(alone.x[0], together.x[k], atol=1e-10)
        np.testing.assert_allclose(alone.std[0], together.std[k], atol=1e-10)


def test_a_fine_map_is_affordable():
    """Many more places than dense covariances of them all could serve."""
    model = network(n=6, T=10)
    sites = np.stack(np.meshgrid(np.linspace(0, 4, 60), np.linspace(0, 4, 60)), axis=-1).reshape(-1, 2)
    result = model.interpolate_at(sites)
    assert result.x.shape == (3600, 10)
    assert (result.std > 0).all()


def test_readings_left_out_of_the_fit_stay_out():
    """A stuck sensor that the fit set aside must not come back at the places near it."""
    plain = network(n=6, T=40, gaps=0.0)
    stuck = plain.readings.copy()
    stuck[2, 10:30] = 2.5
    excluded = np.zeros(stuck.shape, dtype=bool)
    excluded[2, 10:30] = True
    model = model_of(plain.graph, stuck, process=plain.parameters, excluded=excluded)
    missing = model_of(plain.graph, np.where(excluded, np.nan, stuck), process=plain.parameters)
    place = plain.graph.coordinates[2:3] + 0.01
    for act in (lambda m: m.interpolate_at(place), lambda m: m.smooth(), lambda m: m.forecast(3)):
        np.testing.assert_allclose(act(model).x, act(missing).x, atol=1e-12)
        assert act(model).log_likelihood == pytest.approx(act(missing).log_likelihood)


def test_what_is_no_place():
    model = network(n=4, T=20)
    sphere = model_of(nareg.Graph.from_knn([[40.0, 3.0], [41.0, 3.0], [42.0, 3.0]], 1, metric="haversine"), np.zeros((3, 20)))
    bare = model_of(nareg.Graph(np.diag(np.ones(2), 1) + np.diag(np.ones(2), -1)), np.zeros((3, 20)),
                    process=parameters(3, family="graph"))  # fmt: skip
    for act, message in (
        (lambda: model.interpolate_at([1.0, 2.0]), "2-dimensional"),
        (lambda: model.interpolate_at([[1.0, 2.0, 3.0]]), "2 columns each"),
        (lambda: model.interpolate_at(np.zeros((0, 2))), "one row per place"),
        (lambda: model.interpolate_at([[np.nan, 2.0]]), "finite"),
        (lambda: sphere.interpolate_at([[-120.0, 40.0]]), r"coordinates\[0\] has latitude -120"),
        (lambda: bare.interpolate_at([[0.0, 0.0]]), "no coordinates"),
        (lambda: model.extended(PLACES, ["a"]), "1 entries for 3 places"),
        (lambda: model.extended(PLACES[:1], ["s0"]), "more than once"),
        (lambda: network(n=3, names=False).extended(PLACES[:1], ["a"]), "no names"),
    ):
        with pytest.raises(InputError, match=message):
            act()
