from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from threadpoolctl import threadpool_info

import nareg
from nareg.baselines import _kriging, kriging
from nareg.baselines._kriging import _groups, _negative_log_likelihood
from nareg.errors import InputError, TooLargeError


def covariance(distance: np.ndarray, noise: float, variance: float, length: float, kernel: str) -> np.ndarray:
    r = distance / length
    k = np.exp(-r) if kernel == "exponential" else (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)
    return variance * k + noise * np.eye(len(k))


@pytest.fixture
def network(rng):
    places = rng.uniform(0, 10, (25, 2))
    distance = np.linalg.norm(places[:, None] - places[None], axis=-1)
    return places, distance


def draw(rng, distance, t, *, noise=0.3, variance=2.0, length=3.0, kernel="exponential"):
    root = np.linalg.cholesky(covariance(distance, 0.0, variance, length, kernel) + 1e-10 * np.eye(len(distance)))
    field = root @ rng.standard_normal((len(distance), t))
    return field, field + np.sqrt(noise) * rng.standard_normal(field.shape)


@pytest.mark.parametrize("kernel", ["exponential", "matern32"])
def test_equals_the_gaussian_conditional_with_a_vague_constant(kernel, network, rng):
    """Ordinary kriging is the posterior under a constant of huge variance."""
    places, distance = network
    _, y = draw(rng, distance, 4)
    y[rng.random(y.shape) < 0.3] = np.nan
    result = kriging(places, y + 5, parameters=(0.3, 2.0, 3.0), kernel=kernel, station_means=False)
    C = covariance(distance, 0.0, 2.0, 3.0, kernel) + 1e6
    for t in range(4):
        m = np.isfinite(y[:, t])
        K = C[np.ix_(m, m)] + 0.3 * np.eye(m.sum())
        gain = np.linalg.solve(K, C[m]).T
        np.testing.assert_allclose(result.x[:, t], gain @ (y[m, t] + 5), atol=1e-4)
        np.testing.assert_allclose(result.std[:, t] ** 2, np.diag(C - gain @ C[m]), atol=1e-4)


@pytest.mark.parametrize("kernel", ["exponential", "matern32"])
@pytest.mark.parametrize("times", [3, 90])
def test_likelihood_is_that_of_the_contrasts_and_its_gradient_is_right(kernel, times, network, rng):
    _, distance = network
    _, y = draw(rng, distance, times)
    y[3, 1] = y[7, 2] = np.nan
    groups = _groups(y, np.arange(times))
    theta = np.log([0.4, 1.5, 2.0])
    value, gradient = _negative_log_likelihood(theta, groups, distance, kernel)
    expected = 0.0
    for column in y.T:
        stations = np.flatnonzero(np.isfinite(column))
        # any orthonormal basis of the contrasts has the restricted density, up to the constant's own volume
        size = len(stations)
        basis = np.linalg.qr(np.column_stack([np.ones(size), rng.standard_normal((size, size - 1))]))[0][:, 1:]
        K = covariance(distance, 0.4, 1.5, 2.0, kernel)[np.ix_(stations, stations)]
        of = multivariate_normal(np.zeros(size - 1), basis.T @ K @ basis)
        expected -= of.logpdf(basis.T @ column[stations]) - 0.5 * np.log(size)
    assert value == pytest.approx(expected, rel=1e-9)
    for k in range(3):
        step = np.zeros(3)
        step[k] = 1e-5
        up, down = (_negative_log_likelihood(theta + s, groups, distance, kernel)[0] for s in (step, -step))
        assert gradient[k] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-5)


def test_parameters_are_found(network, rng):
    places, distance = network
    _, y = draw(rng, distance, 400)
    hidden = rng.random(y.shape) < 0.1
    result = kriging(places, np.where(hidden, np.nan, y), station_means=False)
    assert result.noise == pytest.approx(0.3, rel=0.2)
    assert result.variance == pytest.approx(2.0, rel=0.25)
    assert result.length == pytest.approx(3.0, rel=0.35)


def test_bands_cover(network, rng):
    places, distance = network
    field, y = draw(rng, distance, 400)
    hidden = rng.random(y.shape) < 0.1
    y[hidden] = np.nan
    result = kriging(places, y, station_means=False, parameters=(0.3, 2.0, 3.0))
    z = (result.x - field) / result.std
    assert np.mean(np.abs(z) < 1.645) == pytest.approx(0.9, abs=0.015)
    assert np.mean(np.abs(z[hidden]) < 1.645) == pytest.approx(0.9, abs=0.03)


def test_station_means_are_removed_and_put_back(network, rng):
    places, distance = network
    field, y = draw(rng, distance, 60)
    hills = rng.uniform(-20, 20, 25)[:, None]
    result = kriging(places, y + hills)
    plain = kriging(places, y)
    np.testing.assert_allclose(result.x - hills, plain.x, atol=0.02)
    assert np.mean((result.x - hills - field) ** 2) < 0.25


def test_a_station_that_never_reads_and_a_time_without_readings(network, rng):
    places, distance = network
    field, y = draw(rng, distance, 50, length=8.0)
    y[4], y[:, 9] = np.nan, np.nan
    result = kriging(places, y)
    assert np.isfinite(result.x).all()
    assert result.std[4].mean() > result.std[5].mean()
    assert (result.std[:, 9] >= result.std.mean(axis=1)).all()
    assert np.mean((result.x[4] - field[4]) ** 2) < np.mean(field[4] ** 2)


def test_units_and_shifts_do_not_matter(network, rng):
    places, distance = network
    _, y = draw(rng, distance, 30)
    y[rng.random(y.shape) < 0.1] = np.nan
    celsius, fahrenheit = kriging(places, y), kriging(places * 1000, 1.8 * y + 32)
    np.testing.assert_allclose(fahrenheit.x, 1.8 * celsius.x + 32, rtol=1e-4)
    np.testing.assert_allclose(fahrenheit.std, 1.8 * celsius.std, rtol=1e-3)


def test_coordinates_may_come_with_a_graph_on_the_sphere(us):
    y = us.signals[:, :6]
    by_graph = kriging(us.graph, y, metric="haversine", parameters=(1.0, 30.0, 800.0))
    by_place = kriging(us.coordinates, y, metric="haversine", parameters=(1.0, 30.0, 800.0))
    np.testing.assert_array_equal(by_graph.x, by_place.x)
    chord = kriging(us.coordinates, y, metric="haversine", kernel="matern32", parameters=(1.0, 30.0, 800.0))
    assert np.isfinite(chord.std).all()


@pytest.mark.parametrize(
    ("graph", "y", "message"),
    [
        (np.zeros((3, 2)), np.ones((3, 4)), "two readings at one time from different places: add readings"),
        (np.eye(3), np.ones((4, 4)), "y has 4 rows but there are coordinates of 3"),
        (nareg.Graph([[0, 1], [1, 0]]), np.ones((2, 4)), "graph has no coordinates"),
        (np.eye(3), np.full((3, 4), np.nan), "y has no reading: pass at least one"),
        (np.eye(3), np.full((3, 4), np.inf), r"y\[0, 0\] is inf"),
    ],
)
def test_impossible_inputs_are_refused(graph, y, message):
    with pytest.raises(InputError, match=message):
        kriging(graph, y)


def test_networks_beyond_the_limit_are_refused(rng):
    with pytest.raises(TooLargeError, match="a dense 1001 x 1001 covariance"):
        kriging(rng.random((1001, 2)), np.ones((1001, 2)))


def test_the_likelihood_of_many_patterns_is_at_its_maximum():
    rng = np.random.default_rng(5)
    places = rng.random((12, 2))
    apart = np.linalg.norm(places[:, None] - places, axis=-1)
    y = np.linalg.cholesky(np.exp(-apart / 0.4)) @ rng.standard_normal((12, 80)) + 0.3 * rng.standard_normal((12, 80))
    y[rng.random(y.shape) < 0.2] = np.nan
    best = kriging(places, y, max_times=100)
    for k in range(3):
        for factor in (0.9, 1.1):
            parameters = [best.noise, best.variance, best.length]
            parameters[k] *= factor
            assert kriging(places, y, parameters=tuple(parameters)).log_likelihood < best.log_likelihood


def test_small_matrices_are_factored_in_one_thread(monkeypatch, rng):
    """SciPy's threads and NumPy's waited for the same cores: 144 stations took 30 times as long in two threads."""
    likelihood, seen = _kriging._negative_log_likelihood, set()

    def counted(*arguments):
        seen.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return likelihood(*arguments)

    monkeypatch.setattr(_kriging, "_negative_log_likelihood", counted)
    kriging(rng.uniform(0, 1, (9, 2)), rng.standard_normal((9, 5)))
    assert seen == {1}
