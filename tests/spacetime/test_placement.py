"""Where to put the next sensor: against the Riccati equations and dense Gaussians, with and without the sensor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are, solve_discrete_lyapunov

import nareg
from nareg.errors import InputError, TooLargeError
from nareg.spacetime import SpaceTimeModel, placement, removal
from nareg.spacetime._dense.filter import Dynamics
from nareg.spacetime._model.spectrum import ErrorSpectrum, SensorChange, spectral_radius
from nareg.spacetime._readings import transforms as _transforms
from tests.spacetime.reference import KINDS, dense, model_of, network, parameters, random_dynamics

RNG = np.random.default_rng
GRAPH = nareg.Graph.from_knn(4 * RNG(0).random((5, 2)), 2)


def riccati(dynamics: Dynamics, information: np.ndarray) -> np.ndarray:
    """Variances of the steady smoother, from the equations of Riccati (filter) and Lyapunov (smoother)."""
    n, m = dynamics.n, dynamics.P0.shape[0]
    F, Q = np.eye(m, k=-n), np.zeros((m, m))
    F[:n], Q[:n, :n] = dynamics.matrix(), dynamics.Q
    reads = np.flatnonzero(information)
    H, R = np.eye(m)[reads], np.diag(1 / information[reads])
    P = solve_discrete_are(F.T, H.T, Q, R)
    after = P - P @ H.T @ np.linalg.solve(H @ P @ H.T + R, H @ P)
    G = np.linalg.solve(P, F @ after).T
    return np.diag(solve_discrete_lyapunov(G, after - G @ P @ G.T))[:n]


def case(kind: str, order: int, *, silent: tuple[int, ...] = (2,)) -> SpaceTimeModel:
    rng = RNG(order)
    readings = rng.standard_normal((5, 30))
    readings[list(silent)] = np.nan
    return model_of(GRAPH, readings, dynamics=random_dynamics(rng, 5, order, kind), noise=0.1 + rng.random(5), unit=3.0)


def information_of(model: SpaceTimeModel) -> np.ndarray:
    return np.isfinite(model.readings).mean(axis=1) / model.unit_noise


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [1, 2])
def test_reduction_is_that_of_the_riccati_equations(kind, order):
    model = case(kind, order)
    ranking = placement(model, stations=range(5), noise=4.0)
    W = information_of(model)
    today = 9 * riccati(model.dynamics, W)
    np.testing.assert_allclose(ranking.station_mse, today, rtol=1e-8)
    assert ranking.mse == pytest.approx(today.mean(), rel=1e-8)
    for j in range(5):
        more = W + 9 / 4.0 * (np.arange(5) == j)
        assert ranking.reduction[j] == pytest.approx(today.mean() - 9 * riccati(model.dynamics, more).mean(), rel=1e-7)
    np.testing.assert_allclose(ranking.percent, 100 * ranking.reduction / ranking.mse)


@pytest.mark.parametrize("kind", KINDS)
def test_removal_is_that_of_the_riccati_equations(kind):
    model = case(kind, 1)
    ranking = removal(model)
    assert ranking.names == ("0", "1", "3", "4")
    W = information_of(model)
    today = 9 * riccati(model.dynamics, W).mean()
    for j, change in zip((0, 1, 3, 4), ranking.reduction, strict=True):
        assert change == pytest.approx(today - 9 * riccati(model.dynamics, np.where(np.arange(5) == j, 0, W)).mean(), rel=1e-7)
    assert ranking.best == ranking.names[int(np.argmax(ranking.reduction))]


@pytest.mark.parametrize("function", [placement, removal])
def test_order_is_the_greedy_one(function):
    """Each round by brute force, from the Riccati equations."""
    model = case("full", 2)
    W = information_of(model)
    adds = function is placement
    sites = np.arange(5) if adds else np.flatnonzero(W)
    ranking = function(model, stations=sites, count=3)
    step = np.full(5, 1 / np.median(model.unit_noise[W > 0])) if adds else -W
    free = list(sites)
    for chosen, mse in zip(ranking.order, ranking.mse_after, strict=True):
        after = [riccati(model.dynamics, W + step * (np.arange(5) == j)).mean() * 9 for j in free]
        assert sites[chosen] == free[int(np.argmin(after))]
        assert mse == pytest.approx(min(after), rel=1e-7)
        W = W + step * (np.arange(5) == sites[chosen])
        free.remove(sites[chosen])


def test_dense_joint_gaussian_in_the_middle_of_a_record_agrees():
    """No recursion at all: the joint Gaussian of 61 times, conditioned on the readings."""
    model = case("diagonal", 2)
    ranking = placement(model)
    assert ranking.names == ("2",)
    y = np.where(np.arange(5) == 2, np.nan, np.zeros((61, 5)))
    noise = model.unit_noise.copy()
    before = dense(y, model.dynamics, noise, np.ones(61)).covariance[30, :5, 30].diagonal().mean()
    y[:, 2], noise[2] = 0.0, np.median(np.delete(noise, 2))
    after = dense(y, model.dynamics, noise, np.ones(61)).covariance[30, :5, 30].diagonal().mean()
    assert ranking.mse == pytest.approx(9 * before, rel=1e-6)
    assert ranking.reduction[0] == pytest.approx(9 * (before - after), rel=1e-6)


@pytest.mark.parametrize("phi", [(0.9997,), (0.99, -0.9), (0.0,), (-0.95,)])
def test_slow_fast_and_alternating_fields_are_resolved(phi):
    model = network(n=5, gaps=0.0, phi=phi)
    model.readings[3] = np.nan
    ranking = placement(model)
    W = information_of(model)
    before, after = (riccati(model.dynamics, w).mean() for w in (W, W + 4.0 * (np.arange(5) == 3)))
    assert ranking.mse == pytest.approx(before, rel=1e-7)
    assert ranking.reduction[0] == pytest.approx(before - after, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_places_without_a_node_are_ranked_by_the_extended_model(kind):
    model = case(kind, 1)
    points = np.array([[1.0, 1.0], [5.0, 5.0], [2.0, 3.0]])
    ranking = placement(model, coordinates=points, names=["a", "b", "c"])
    assert ranking.names == ("a", "b", "c")
    W = np.concatenate([information_of(model), np.zeros(3)])
    dynamics = model.extended(points).dynamics
    noise = np.median(model.unit_noise[[0, 1, 3, 4]])
    for scored, mean in ((slice(5), ranking), (slice(8), placement(model, coordinates=points, average_over="all"))):
        today = 9 * riccati(dynamics, W)[scored].mean()
        assert mean.mse == pytest.approx(today, rel=1e-8)
        for j in range(3):
            more = W + (np.arange(8) == 5 + j) / noise
            assert mean.reduction[j] == pytest.approx(today - 9 * riccati(dynamics, more)[scored].mean(), rel=1e-7)
        assert mean.graph.n_nodes == mean.station_mse.size == 5
    both = placement(model, stations=[2], coordinates=points)
    assert both.names == ("2", "place 1", "place 2", "place 3")
    np.testing.assert_allclose(both.coordinates, np.vstack([model.graph.coordinates[2], points]))


def test_a_sensor_that_says_nothing_alone_can_say_much_beside_another():
    """The reduction of the error is not submodular: one sensor reads x + u, the other u, and only x counts."""
    covariance = np.array([[1.0, 0.0, 1.0], [0.0, 100.0, 100.0], [1.0, 100.0, 101.0 + 1e-3]])  # of x, u, x + u
    dynamics = Dynamics((np.asarray(0.0),), covariance, covariance)
    sensor_of_u = SensorChange(np.array([1]), np.array([100.0]), np.array([1.0, 0.0, 0.0]))
    alone = ErrorSpectrum.of(dynamics, np.zeros(3), sensor_of_u).gains[0]
    beside = ErrorSpectrum.of(dynamics, np.array([0.0, 0.0, 100.0]), sensor_of_u).gains[0]
    assert alone == pytest.approx(0.0, abs=1e-9)
    assert beside > 0.9


@pytest.mark.parametrize(("gaps", "tolerance"), [(0.2, 0.01), (0.5, 0.02)])
@pytest.mark.parametrize("phi", [(0.9,), (0.5,), (0.98, -0.5)])
def test_the_expected_error_is_that_of_the_smoother_with_gaps(gaps, tolerance, phi):
    model = network(3, n=9, T=1500, gaps=gaps, phi=phi)
    observed = np.mean(model.smooth(robust=False).std[:, 50:-50] ** 2, axis=1)
    ranking = placement(model)
    assert ranking.mse == pytest.approx(observed.mean(), rel=tolerance)
    np.testing.assert_allclose(ranking.station_mse, observed, rtol=2 * tolerance)


def test_what_a_sensor_changes_is_what_the_smoother_changes_with_gaps():
    model = network(3, n=9, T=1500, gaps=0.3)
    model.readings[[2, 6]] = np.nan
    ranking = placement(model, noise=0.25)
    before = np.mean(model.smooth(robust=False).std[:, 50:-50] ** 2)
    for name, reduction in zip(ranking.names, ranking.reduction, strict=True):
        readings = model.readings.copy()
        readings[model.station_index(name)] = 0.0
        after = np.mean(model.smooth(readings, robust=False).std[:, 50:-50] ** 2)
        assert reduction == pytest.approx(before - after, rel=0.03)


def test_unit_and_transform():
    """Squared units of the readings; with a transform, errors count as the field's variance does."""
    a, b = (network(1, n=6, unit=unit) for unit in (1.0, 10.0))
    b.readings[:] = 10 * a.readings
    np.testing.assert_allclose(placement(b).reduction, 100 * placement(a).reduction, rtol=1e-9)
    np.testing.assert_allclose(placement(b, noise=25.0).reduction, 100 * placement(a, noise=0.25).reduction, rtol=1e-9)
    root = network(1, n=6, level=5.0, transform=_transforms.Transform("sqrt"))
    ranking = placement(root)
    slope = (2 * 5.0) ** 2  # of the square, at the mean; the field's own spread adds a little
    assert slope < ranking.mse / placement(network(1, n=6)).mse < 1.1 * slope


def test_more_sensors_never_hurt_and_the_best_site_is_far_from_the_others():
    x = np.concatenate([np.linspace(0, 1, 8), [1.05, 3.0]])
    graph = nareg.Graph.from_knn(np.column_stack([x, np.zeros(10)]), 3)
    readings = RNG(0).standard_normal((10, 50))
    readings[8:] = np.nan
    ranking = placement(model_of(graph, readings, process=parameters(10, reach=0.5)), count=2)
    assert ranking.best == "9"
    assert (ranking.reduction > 0).all()
    assert (np.diff([ranking.mse, *ranking.mse_after]) < 0).all()


@pytest.mark.slow
def test_summary_table_and_map(tmp_path):
    model = network(n=9)
    model.readings[[4, 7]] = np.nan
    ranking = placement(model, count=2)
    text = ranking.summary()
    assert "2 sites for a new sensor" in text
    assert f"{ranking.best} alone: mean squared error -" in text
    assert "3 stations that may stop reading" in removal(model, stations=["s0", "s1", "s2"]).summary()
    ranking.to_csv(tmp_path / "sites.csv")
    header, first, second = (tmp_path / "sites.csv").read_text().splitlines()
    assert header == "site,x,y,reduction,percent,chosen"
    cells = first.split(",")
    assert cells[0] == ranking.best
    assert cells[5] == "1"
    assert second.split(",")[5] == "2"
    np.testing.assert_allclose(
        [float(cell) for cell in cells[1:5]],
        [*ranking.coordinates[ranking.order[0]], ranking.reduction.max(), ranking.percent.max()],
    )
    for action in (ranking, removal(model)):
        nareg.plotting.save(nareg.plotting.ranking(action, unit="°C").figure, tmp_path / "map.png")
        assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


def test_a_map_on_axes_that_have_something_colors_its_own_stations():
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure

    model = network()
    axes = Figure().subplots()
    drawn = axes.scatter([0, 1], [0, 1], c="red")
    nareg.plotting.ranking(placement(model), ax=axes)
    np.testing.assert_allclose(drawn.get_facecolor(), [[1, 0, 0, 1]])
    points = [c.get_facecolor()[:, :3] for c in axes.collections if isinstance(c, PathCollection)]
    assert any(len(colors) == 9 and np.allclose(colors, 0.45) for colors in points)


def test_progress_reaches_its_end_and_ctrl_c_stops():
    reports = []
    placement(network(), progress=reports.append)
    assert reports[-1].step == reports[-1].total

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        placement(network(), progress=stop)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stations": ["nowhere"]}, "'nowhere' is not in the model"),
        ({"stations": [9]}, "station is 9 but the model has 9 stations"),
        ({"stations": [1, "s1"]}, "'s1' appears twice"),
        ({"stations": []}, "stations is empty"),
        ({"coordinates": [[1.0, 2.0, 3.0]]}, "one row per place, 2 columns"),
        ({"coordinates": [[np.nan, 2.0]]}, "is nan"),
        ({"coordinates": [[1.0, 2.0]], "names": ["a", "b"]}, "names has 2 entries for 1 places"),
        ({"names": ["a"]}, "names is given without coordinates"),
        ({"count": 0}, "count is 0"),
        ({"count": 10}, "count is 10 but there are 9 sites"),
        ({"noise": 0.0}, r"noise\[0\] is 0: pass variances above 0"),
        ({"noise": [1.0, 2.0]}, "noise has shape"),
        ({"average_over": "places"}, "average_over"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(InputError, match=message):
        placement(network(), **options)


def test_bad_models_are_named():
    with pytest.raises(InputError, match="model is a Graph"):
        placement(GRAPH)
    growing = random_dynamics(RNG(0), 5, 1, "scalar")
    growing = Dynamics((np.asarray(1.01),), growing.Q, growing.P0)
    with pytest.raises(
        InputError, match=r"grow by 1\.01 per step, so its error has no steady state: fit the model to a longer record"
    ):
        placement(model_of(GRAPH, np.zeros((5, 20)), dynamics=growing))
    silent = network()
    silent.readings[2] = np.nan
    with pytest.raises(InputError, match="'s2' has no reading"):
        removal(silent, stations=["s2"])
    one_graph = replace(network(), parameters=parameters(9, family="graph"))
    with pytest.raises(InputError, match=r"coordinates has 2 places.*rank one place per call"):
        placement(one_graph, coordinates=[[1.0, 1.0], [2.0, 2.0]])
    with pytest.raises(TooLargeError, match="pass fewer places"):
        placement(network(), coordinates=np.zeros((200_000, 2)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [1, 2])
def test_spectral_radius_is_that_of_the_companion_matrix(kind, order):
    dynamics = random_dynamics(RNG(3), 4, order, kind)
    companion = np.eye(4 * order, k=-4)
    companion[:4] = dynamics.matrix()
    assert spectral_radius(dynamics) == pytest.approx(np.abs(np.linalg.eigvals(companion)).max(), rel=1e-12)
