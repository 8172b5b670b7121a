"""What fit finds in simulated readings, what it leaves alone, and what it refuses."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from scipy.signal import lfilter

import nareg
from nareg.errors import DegenerateFitWarning, InputError
from nareg.spacetime import fit
from nareg.spacetime._dense import learning
from nareg.spacetime._dense.em import refine
from nareg.spacetime._dense.families import windows_of, windows_of_matrices
from nareg.spacetime._dense.learning import path_ends
from nareg.spacetime._readings.space import Space
from tests.spacetime.reference import network

RNG = np.random.default_rng


def simulated(seed=0, n=6, T=160, gaps=0.05, **options):
    """Field, readings with noise of standard deviation 0.5, and their graph."""
    model = network(seed, n=n, T=T, gaps=0.0, **options)
    rng = RNG(seed + 100)
    field, readings = model.simulate(rng)
    return field, np.where(rng.random(readings.shape) < gaps, np.nan, readings), model.graph


@pytest.fixture(scope="module")
def case():
    field, readings, graph = simulated()
    return field, readings, graph, fit(graph, readings, rng=RNG(0))


def test_noise_process_and_field_are_found(case):
    field, readings, _, model = case
    assert np.sqrt(model.noise.mean()) == pytest.approx(0.5, rel=0.1)
    smoothed = model.smooth()
    error = np.sqrt(np.mean((smoothed.x - field) ** 2))
    assert error < 0.75 * np.sqrt(np.nanmean((readings - field) ** 2))
    assert error < 1.1 * np.sqrt(np.mean((network(n=6, T=160, gaps=0.0).smooth(readings, robust=False).x - field) ** 2))
    assert model.status.ok
    assert 0.8 < np.sqrt(np.mean(((smoothed.x - field) / smoothed.std) ** 2)) < 1.25


def test_bands_of_readings_hold_their_share(case):
    _, _, _, model = case
    _, fresh = network(n=6, T=160, gaps=0.0).simulate(RNG(7))
    hidden = RNG(1).random(fresh.shape) < 0.2
    smoothed = model.smooth(np.where(hidden, np.nan, fresh), robust=False)
    for level in (0.5, 0.9):
        lower, upper = smoothed.interval(level, of="reading")
        share = ((lower < fresh) & (fresh < upper))[hidden].mean()
        # the readings that calibrated the band and those that check it, both few
        error = np.sqrt(level * (1 - level) * (1 / model.details.hidden + 1 / hidden.sum()))
        assert abs(share - level) < 3 * error


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "shift"), [(1e6, 1e10), (1.8, 32.0)])
def test_unit_and_origin_do_not_matter(case, factor, shift):
    """The search stops at its tolerance, so the same answer to a tenth of a standard deviation, not to the last bit."""
    _, readings, graph, model = case
    other = fit(graph, factor * readings + shift, transform=None, rng=RNG(0))
    plain = model.smooth()
    smoothed = other.smooth()
    assert np.abs((smoothed.x - shift) / factor - plain.x).max() < 0.1 * plain.std.mean()
    np.testing.assert_allclose(smoothed.std / factor, plain.std, rtol=0.05)
    np.testing.assert_allclose(other.noise / factor**2, model.noise, rtol=0.05)
    used = np.isfinite(readings).sum()
    assert other.log_likelihood == pytest.approx(model.log_likelihood - used * np.log(factor), abs=2.0)


@pytest.mark.slow
def test_order_of_stations_hardly_matters(case):
    """Hidden readings are drawn anew, so what is chosen by them may differ a little."""
    _, readings, graph, model = case
    order = RNG(3).permutation(6)
    other = fit(graph.subgraph(order), readings[order], rng=RNG(0)).smooth()
    plain = model.smooth()
    assert np.sqrt(np.mean((other.x - plain.x[order]) ** 2)) < 0.3 * plain.std.mean()


@pytest.mark.slow
def test_noise_of_the_user_is_taken(case):
    _, readings, graph, _ = case
    variances = np.array([0.25, 0.25, 0.25, 1.0, 0.25, 0.04])
    model = fit(graph, readings[:, :60], noise=variances, rng=RNG(0))
    np.testing.assert_allclose(model.noise, variances, rtol=1e-9)
    model = fit(graph, readings[:, :60], noise=0.3, rng=RNG(0))
    np.testing.assert_allclose(model.noise, 0.3, rtol=1e-9)


@pytest.mark.slow
def test_same_generator_same_answer(case):
    _, readings, graph, model = case
    np.testing.assert_array_equal(fit(graph, readings, rng=RNG(0)).smooth().x, model.smooth().x)


def test_likelihood_of_model_and_smoother_agree(case):
    model = case[3]
    if model.df is None:
        assert model.log_likelihood == pytest.approx(model.smooth().log_likelihood, rel=1e-9)


@pytest.mark.slow
def test_likelihood_of_model_and_smoother_agree_with_outliers_left_out(case):
    _, readings, graph, _ = case
    spoiled = 10 * readings
    spoiled[2, [10, 50, 90]] = 1e4
    model = fit(graph, spoiled, noise=25.0, rng=RNG(0))
    assert model.excluded[2, [10, 50, 90]].all()
    assert model.df is None
    assert model.log_likelihood == pytest.approx(model.smooth().log_likelihood, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("dynamics", ["scalar", "diagonal", "modes", "graph", "full"])
def test_every_kind_of_dynamics_can_be_asked_for(dynamics):
    field, readings, graph = simulated(1, n=4, T=100)
    model = fit(graph, readings, dynamics=dynamics, rng=RNG(0))
    assert dynamics in model.details.chosen
    assert np.sqrt(np.mean((model.smooth().x - field) ** 2)) < 0.45


@pytest.mark.slow
def test_spikes_stuck_runs_and_a_constant_station_do_not_bend_the_others():
    field, readings, graph = simulated(2, n=6, T=200)
    spoiled = readings.copy()
    spoiled[1, ::40] += 12
    spoiled[3, 100:150] = 1.234
    spoiled[5] = 7.0
    model = fit(graph, spoiled, rng=RNG(0))
    assert model.excluded[3, 100:150].all()
    assert model.excluded[5].all()
    assert model.excluded[1, ::40].mean() > 0.7
    healthy = [0, 1, 2, 4]
    error = np.sqrt(np.mean((model.smooth().x - field)[healthy] ** 2))
    assert error < 1.25 * np.sqrt(np.mean((fit(graph, readings, rng=RNG(0)).smooth().x - field)[healthy] ** 2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_one_station_does_alone_and_in_steps_is_no_noise(seed):
    """A pump that draws one well down and lets it recover is of that station, and its readings are as exact as the others'."""
    rng = RNG(seed)
    places = rng.uniform(0, 1, (7, 2))
    root = np.linalg.cholesky(np.exp(-np.linalg.norm(places[:, None] - places, axis=2)))
    field = 3 * lfilter([0.1], [1, -0.995], root @ rng.standard_normal((7, 480)))
    running = rng.random(480 // 8).repeat(8) < 0.5
    field[2] -= lfilter([0.25], [1, -0.75], 60.0 * running)
    readings = field + 0.3 * rng.standard_normal(field.shape)
    model = fit(nareg.Graph.from_knn(places, 4), readings, rng=RNG(0))
    error = np.sqrt(np.mean((model.smooth().x - field) ** 2, axis=1))
    assert error[2] < 1.3 * 0.3
    assert np.delete(error, 2).max() < 0.3
    assert np.sqrt(np.delete(model.noise, 2).mean()) == pytest.approx(0.3, rel=0.25)


def test_daily_cycle_is_found_and_put_back():
    rng = RNG(0)
    graph = nareg.Graph.from_knn(rng.random((4, 2)), 2)
    times = np.datetime64("2024-03-01") + np.arange(24 * 8) * np.timedelta64(1, "h")
    truth = 5 * np.cos(2 * np.pi * np.arange(24 * 8) / 24) + np.arange(4.0)[:, None]
    readings = truth + 0.3 * rng.standard_normal(truth.shape)
    model = fit(graph, readings, times=times, rng=RNG(0))
    assert model.cycles.names == ("day",)
    assert np.sqrt(np.mean((model.smooth().x - truth) ** 2)) < 0.12
    ahead = model.forecast(24)
    assert np.sqrt(np.mean((ahead.x - truth[:, :24]) ** 2)) < 0.3
    assert fit(graph, readings[:, :12], times=times[:12], rng=RNG(0)).cycles.names == ()


def small(seed=0, n=4, T=60):
    rng = RNG(seed)
    y = 0.9 * np.cumsum(0.2 * rng.standard_normal((n, T)), axis=1) + 0.3 * rng.standard_normal((n, T))
    return nareg.Graph.from_knn(rng.random((n, 2)), min(2, n - 1)), y


def changed(y, index, value):
    y = y.copy()
    y[index] = value
    return y


GRAPH, Y = small()
SINGLE = nareg.Graph([[0.0]])
ANSWERED = {
    "a station without readings": lambda: (GRAPH, changed(Y, 2, np.nan)),
    "a constant station": lambda: (GRAPH, changed(Y, 2, 5.0)),
    "two stations at one place": lambda: (nareg.Graph.from_knn(GRAPH.coordinates[[0, 1, 2, 2]], 2), Y),
    "all stations at one place": lambda: (nareg.Graph.from_knn(np.zeros((4, 2)), 2), Y),
    "times without any reading": lambda: (GRAPH, changed(Y, np.s_[:, 10:14], np.nan)),
    "a graph without coordinates": lambda: (nareg.Graph(GRAPH.adjacency), Y),
    "a graph without edges": lambda: (nareg.Graph(np.zeros((4, 4))), Y),
    "two parts": lambda: (nareg.Graph(np.kron(np.eye(2), [[0, 1], [1, 0]])), Y),
    "one station": lambda: (SINGLE, Y[:1]),
    "two stations": lambda: (nareg.Graph([[0.0, 1.0], [1.0, 0.0]]), Y[:2]),
    "one time": lambda: (nareg.graphs.grid((4, 4)), RNG(0).standard_normal((16, 1))),
    "two times": lambda: (nareg.graphs.grid((4, 4)), RNG(0).standard_normal((16, 2))),
    "one reading at a time": lambda: (GRAPH, np.where(np.arange(4)[:, None] == np.arange(60) % 4, Y, np.nan)),
    "one station reads": lambda: (GRAPH, changed(Y, [0, 2, 3], np.nan)),
    "all readings zero": lambda: (GRAPH, 0 * Y),
    "all readings equal": lambda: (GRAPH, 0 * Y + 20.1),
    "integers": lambda: (GRAPH, np.rint(10 * Y).astype(int)),
    "mostly zeros": lambda: (GRAPH, np.maximum(Y - np.quantile(Y, 0.7), 0)),
    "one absurd value": lambda: (GRAPH, changed(Y, (1, 7), 1e9)),
    "readings that alternate": lambda: (GRAPH, Y * np.where(np.arange(60) % 2, 1, -1)),
}


#: Of these the likelihood has no maximum.
DEGENERATE = {"one time", "all readings zero", "all readings equal"}


@pytest.mark.slow
@pytest.mark.parametrize("what", ANSWERED)
def test_odd_but_answerable(what):
    graph, readings = ANSWERED[what]()
    with pytest.warns(DegenerateFitWarning) if what in DEGENERATE else nullcontext():
        model = fit(graph, readings, rng=RNG(0))
    for smoothed in (model.smooth(), model.forecast(2), model.smooth(readings)):
        assert np.isfinite(smoothed.x).all()
        assert np.isfinite(smoothed.std).all()
        assert np.isfinite(smoothed.log_likelihood)
        assert (smoothed.std >= 0).all()
        # nothing is far outside what was read
        seen = readings[np.isfinite(readings) & (np.abs(readings) < 1e6)]
        reach = max(float(np.ptp(seen)), 1e-6)
        assert smoothed.x.min() > seen.min() - reach
        assert smoothed.x.max() < seen.max() + reach
    assert np.isfinite(model.log_likelihood)
    assert model.stream().update(readings[:, -1]).x.shape == (graph.n_nodes,)


REFUSED = {
    "infinite": (lambda: fit(GRAPH, changed(Y, (1, 2), np.inf)), r"readings\[1, 2\] is infinite"),
    "overflowing": (lambda: fit(GRAPH, changed(Y, (1, 2), 1e200)), r"readings\[1, 2\] is 1e\+200"),
    "vanishing": (lambda: fit(GRAPH, 1e-200 * Y), "pass another unit"),
    "transposed": (lambda: fit(GRAPH, Y.T), "pass readings.T"),
    "too few": (lambda: fit(GRAPH, Y[:, :2]), "needs at least 10"),
    "none": (lambda: fit(GRAPH, np.full((4, 60), np.nan)), "readings has 0 values"),
    "noise too large": (lambda: fit(GRAPH, Y, noise=100.0), "check its unit"),
    "negative noise": (lambda: fit(GRAPH, Y, noise=-1.0), "negative"),
    "noise of others": (lambda: fit(GRAPH, Y, noise=np.ones(5)), r"shape \(5,\)"),
    "noise covariance": (lambda: fit(GRAPH, Y, noise=np.eye(4)), "independent noise"),
    "noise word": (lambda: fit(GRAPH, Y, noise="guess"), "pass 'estimate'"),
    "noise and transform": (lambda: fit(GRAPH, Y, noise=0.1, transform="sqrt"), "both given"),
    "dynamics": (lambda: fit(GRAPH, Y, dynamics="any"), "dynamics is 'any'"),
    "transform": (lambda: fit(GRAPH, Y, transform="sqrt"), "at least 0"),
    "cycle": (lambda: fit(GRAPH, Y, cycles=("week",)), "'week'"),
    "cycle of numbers": (lambda: fit(GRAPH, Y, cycles=("day",)), "times are numbers"),
    "times": (lambda: fit(GRAPH, Y, times=np.arange(60)[::-1]), "is before"),
    "times repeat": (lambda: fit(GRAPH, Y, times=np.arange(60) // 2), "repeats"),
    "rng": (lambda: fit(GRAPH, Y, rng=3), "numpy generator"),
    "graph": (lambda: fit(GRAPH.adjacency, Y), "pass a nareg.Graph"),
    "masked": (lambda: fit(GRAPH, np.ma.masked_invalid(Y)), "masked array"),
    "bools": (lambda: fit(GRAPH, Y > 0), "boolean"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_in_a_sentence(what):
    act, message = REFUSED[what]
    with pytest.raises(InputError, match=message) as error:
        act()
    assert len(str(error.value)) < 300


def test_a_time_without_readings():
    assert fit(GRAPH, np.where(np.arange(60) == 7, np.nan, Y)).readings.shape == (4, 60)


def test_cycles_is_no_number():
    with pytest.raises(InputError):
        fit(GRAPH, Y, cycles=5)


def test_zero_noise_follows_the_readings():
    model = fit(GRAPH, Y, noise=0.0, rng=RNG(0))
    np.testing.assert_allclose(model.smooth().x, Y, atol=1e-3)
    assert model.smooth().std.max() < 0.01


def test_few_times_are_not_overconfident():
    """Two times of sixteen stations: the field's mean is as uncertain as its readings are noisy."""
    truth = RNG(1).standard_normal((16, 1)) + np.zeros((16, 2))
    readings = truth + 0.5 * RNG(2).standard_normal((16, 2))
    smoothed = fit(nareg.graphs.grid((4, 4)), readings, rng=RNG(0)).smooth()
    assert np.sqrt(np.mean(((smoothed.x - truth) / smoothed.std) ** 2)) < 3


@pytest.mark.slow
def test_auto_takes_modes_where_large_patterns_are_slow_and_small_ones_fast():
    rng = np.random.default_rng(3)
    graph = nareg.Graph.from_knn(10 * rng.random((15, 2)), 4)
    K = Space.of(graph).correlation("exponential", 5.0)
    variances, U = np.linalg.eigh(K)
    pace = np.where(np.arange(15) >= 11, 0.97, 0.2)
    c, field = np.zeros(15), np.empty((15, 400))
    for t in range(400):
        c = pace * c + np.sqrt((1 - pace**2) * variances) * rng.standard_normal(15)
        field[:, t] = U @ c
    readings = field + 0.5 * rng.standard_normal(field.shape)
    auto, scalar = (fit(graph, readings, dynamics=dynamics) for dynamics in ("auto", "scalar"))
    assert "modes dynamics" in auto.details.chosen
    errors = [np.sqrt(np.mean((model.smooth().x - field) ** 2)) for model in (auto, scalar)]
    assert errors[0] < errors[1]


def test_auto_tries_forms_that_one_number_is_a_case_of(case):
    forms = [name.split()[0] for name, *_ in case[-1].details.choices if "dynamics" in name]
    assert forms[:2] == ["modes", "full"]


def test_errors_of_hidden_readings_come_from_the_path_that_was_chosen(case, monkeypatch):
    """A pass of its own would give the same; only the last model's tells their spread."""
    made, original = [], learning._Learning.held_out

    def spied(learner, refinement, *arguments):
        made.append((learner.clock.stage, refinement.df))
        return original(learner, refinement, *arguments)

    monkeypatch.setattr(learning._Learning, "held_out", spied)
    model = fit(case[2], case[1], dynamics="scalar", rng=RNG(0))
    assert "Student t" not in model.details.chosen
    assert made == [("learning from all readings", None)]


@pytest.mark.parametrize(
    ("n", "T", "order", "least", "most"),
    [
        (7, 2_593, 2, 2_593, 2_593),
        (60, 432, 2, 432, 432),
        (20, 8_760, 2, 3_500, 4_000),
        (36, 8_759, 2, 1_500, 2_000),
        (207, 2_016, 1, 600, 650),  # or forms of the dynamics are not compared: a straight line in time was better
    ],
)
def test_learning_sees_the_rows_that_it_can_afford(n, T, order, least, most):
    windows = windows_of_matrices(np.zeros((T, n)), order)
    assert least <= sum(len(range(T)[window]) for window in windows) <= most
    few = windows_of(np.zeros((T, min(n, 30))), 1)
    assert min(T, 750) <= sum(len(range(T)[window]) for window in few) <= 4_000


@pytest.mark.slow
def test_heavy_tails_begin_where_the_dynamics_were_chosen(rng, monkeypatch):
    """From the start anew, the few hidden readings of short windows ended them after two iterations of seven."""
    begun = []

    def spied(*arguments, begin=None, **options):
        begun.append((arguments[3].df, begin is not None))
        return refine(*arguments, begin=begin, **options)

    monkeypatch.setattr(learning, "refine", spied)
    steps = rng.standard_t(3, (1500, 6)) @ np.linalg.cholesky(0.3 + 0.7 * np.eye(6)).T
    y = lfilter([1.0], [1.0, -0.9], steps, axis=0).T + 0.5 * rng.standard_normal((6, 1500))
    model = nareg.spacetime.fit(nareg.graphs.grid((2, 3)), y, rng=rng, transform=None, dynamics="diagonal")
    assert "Student t" in model.details.chosen
    assert begun[0] == (None, False)
    assert begun[1] == (4.0, True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_one_long_station_has_no_reading_beside_a_hidden_one(seed):
    """Windows are a part of the record, and no hidden reading has others at its time to confirm a choice by."""
    rng = np.random.default_rng(seed)
    y = lfilter([1.0], [1.0, -0.9], rng.standard_normal((1, 4500))) + 0.5 * rng.standard_normal((1, 4500))
    model = nareg.spacetime.fit(nareg.Graph(np.zeros((1, 1))), y, rng=rng)
    assert abs(np.sqrt(model.noise[0]) - 0.5) < 0.3


def test_a_path_of_em_ends_where_two_steps_gain_next_to_nothing():
    losses = [1.0, 0.9, 0.8999, 0.8998]
    assert path_ends(losses, best=1.0)
    assert not path_ends(losses[:3], best=1.0)
    assert path_ends(losses[:3], best=0.8)  # behind another form one is enough
    assert not path_ends([1.0, 0.9, 0.895, 0.89], best=1.0)
    assert path_ends([1.0, 0.9, 0.904], best=1.0)  # it rises clearly
